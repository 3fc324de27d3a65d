"""Search a part of an image for records: its runs, in the order of the image, and what is odd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.carve import kernels, kernels_judge
from rmqtool.carve.kernels import MARK_ROWS, RUN_ROWS
from rmqtool.carve.kernels_judge import COUNTS
from rmqtool.formats.message import MESSAGE_PREFIX
from rmqtool.scan import columns as row
from rmqtool.scan import crc, kernels_walk
from rmqtool.scan.kernels_text import RESERVED_FOR_CRC
from rmqtool.scan.long_record import crc_of, without_body
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.carve.image import Image, ImagePart
    from rmqtool.machine.arrays import Int64s

WINDOW_BYTES: Final = 4 << 20
RUNS_AT_ONCE: Final = 1024
MARKS_OF_PART: Final = 256  # damaged and partial records of a part whose places are kept
# Bytes that a part may cost over and over: a stranger can make many headers that state long bodies.
BUDGET_TIMES: Final = 8
BUDGET_LEAST: Final = 64 << 20


@dataclass(slots=True)
class PartFound:
    """What a part gave."""

    # matrices, int64, shape (RUN_ROWS, n), in the order of the image
    runs: list[npt.NDArray[np.int64]] = field(default_factory=list)
    # counts by kind, int64, of shape (COUNTS,)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(COUNTS, np.int64))
    # int64, shape (MARK_ROWS, k); damaged and partial records, not all of them
    marks: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((MARK_ROWS, 0), np.int64))
    # where the next part begins, or later: past the last record that begins in this one
    end: int = 0

    @property
    def first(self) -> int:
        """Position of the first thing that was found."""
        return int(self.counts[kernels_judge.FIRST])


def search(part: ImagePart, *, start: int | None = None) -> PartFound:
    """Find the records that begin in a part.

    Args:
        part: of an image.
        start: where to begin, when a record from before ends later than the part begins.

    Raises:
        UnreadablePath: the file system refused; a sector that cannot be read does not raise.
    """
    return _Search(part).run(part.begin if start is None else start)


class _Search:
    """The state of one search: window, runs, counts."""

    def __init__(self, part: ImagePart) -> None:
        self.image: Image = part.image
        self.end = part.end
        self.window = Window(part.image, WINDOW_BYTES)
        self.runs: Int64s = np.empty((RUN_ROWS, RUNS_AT_ONCE), np.int64)
        self.marks: Int64s = np.empty((MARK_ROWS, MARKS_OF_PART), np.int64)
        self.found = 0
        self.result = PartFound()
        counts = self.result.counts
        counts[kernels_judge.FIRST] = kernels_judge.NOWHERE
        counts[kernels_judge.BUDGET] = BUDGET_TIMES * (part.end - part.begin) + BUDGET_LEAST
        self.checksum = crc.checksum()

    def run(self, position: int) -> PartFound:
        """Search from a position on."""
        window, result = self.window, self.result
        known = kernels_judge.NOTHING
        window.load(position, self.end)
        while position < self.end:
            before = position
            position, why = self._step(position, known)
            known = kernels_judge.NOTHING
            if why == kernels.FULL:
                self._keep(self.found - 1)
            elif why == kernels.LONG:
                known = self._known(position)
            elif window.end >= self.image.size or position == before == window.position:
                break  # of the image, or of what a file has that was cut meanwhile
            elif position < self.end:
                window.load(position, self.end)
        self._keep(self.found)
        result.end = max(position, self.end)
        result.marks = self.marks[:, : result.counts[kernels_judge.MARKS]].copy()
        return result

    def _step(self, position: int, known: int) -> tuple[int, int]:
        window = self.window
        place = (
            position - window.position,
            window.size,
            self.end - window.position,
            window.position,
            self.image.size - window.position,
            self.found,
            known,
        )
        counts = self.result.counts
        self.found, stop, why = kernels.search(
            window.bytes, place, self.runs, counts, self.marks, self.checksum
        )
        return window.position + stop, why

    def _keep(self, count: int) -> None:
        """Put the first runs away; what follows is still open."""
        if count > 0:
            self.result.runs.append(self.runs[:, :count].copy())
            self.runs[:, 0] = self.runs[:, count % RUNS_AT_ONCE]
            self.found -= count

    def _known(self, position: int) -> int:
        """Judge a record that goes on past the window, or bring it into the window."""
        window, counts = self.window, self.result.counts
        if counts[kernels_judge.BUDGET] < 0:
            return kernels_judge.LEFT
        raw = without_body(self.image, position, 0)
        if raw is None:
            return kernels_judge.CUT
        at = position - window.position
        size = int(kernels_walk.total_size(window.bytes, at))
        if size + kernels_judge.NEXT_BYTES <= window.capacity:
            window.load(position)
            counts[kernels_judge.BUDGET] -= window.size
            return kernels_judge.NOTHING
        counts[kernels_judge.BUDGET] -= size
        return judged(self.image, position, size, raw)


def judged(image: Image, position: int, size: int, raw: bytes) -> int:
    """Judge a record that no window holds.

    Args:
        image: that it lies in.
        position: where.
        size: of the record.
        raw: the record without its body.
    """
    columns = np.empty((row.ROWS, 1), np.int64)
    held = Window.holding(raw, 0)
    place = (0, len(raw), 1, len(raw), 0, 0, 0)
    found, _, _ = kernels_walk.walk(held.bytes, place, columns)
    if not found or columns[row.TOPIC_LENGTH, 0] <= 0:
        return kernels_judge.CUT
    body_length = size - len(raw)
    body = position + int(columns[row.BODY_START, 0])
    if crc_of(image, body, body_length) != MESSAGE_PREFIX["body_crc"].of(raw):
        return kernels_judge.HURT
    stored = kernels_judge.stored_crc(held.bytes, len(raw), int(columns[row.PROPERTIES_LENGTH, 0]))
    if stored >= 0 and stored != crc_of(image, position, size - RESERVED_FOR_CRC):
        return kernels_judge.HURT
    following = bytearray(kernels_judge.NEXT_BYTES)
    count = image.read_into(following, position + size)
    held = Window.holding(raw + following[:count], 0)
    at = position + body_length, MESSAGE_PREFIX["physical_offset"].of(raw) + body_length
    end = len(raw), len(raw) + image.size - position - size
    text = int(columns[row.BODY_START, 0])
    properties = int(columns[row.PROPERTIES_LENGTH, 0])
    is_torn = kernels_judge.torn(held.bytes, (text, *end), at, properties)
    return kernels_judge.TORN if is_torn else kernels_judge.PROVEN
