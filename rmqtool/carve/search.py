"""Search a part of an image for records: its runs, in the order of the image, and what is odd."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.archives.opening import unpack
from rmqtool.carve import kernels, kernels_judge
from rmqtool.carve.kernels import MARK_ROWS, RUN_ROWS
from rmqtool.carve.kernels_judge import COUNTS
from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import MESSAGE_PREFIX
from rmqtool.scan import columns as row
from rmqtool.scan import crc, kernels_walk
from rmqtool.scan.kernels_text import RESERVED_FOR_CRC
from rmqtool.scan.long_record import crc_of, without_body
from rmqtool.scan.window import Window
from rmqtool.store.address import place_of
from rmqtool.store.containers import COMPRESSED, container_of
from rmqtool.store.device import open_device
from rmqtool.store.place import OpenFile
from rmqtool.writing.temporary_copy import TemporaryCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    import numpy.typing as npt
    from typing_extensions import Buffer

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
        self.runs_kept = 0
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
                self._keep(self.runs_kept - 1)
            elif why == kernels.LONG:
                known = self._known(position)
            elif window.end >= self.image.size or position == before == window.position:
                break  # of the image, or of what a file has that was cut meanwhile
            elif position < self.end:
                window.load(position, self.end)
        self._keep(self.runs_kept)
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
            self.runs_kept,
            known,
        )
        counts = self.result.counts
        self.runs_kept, stop, why = kernels.search(
            window.bytes, place, self.runs, counts, self.marks, self.checksum
        )
        return window.position + stop, why

    def _keep(self, count: int) -> None:
        """Put the first runs away; what follows is still open."""
        if count > 0:
            self.result.runs.append(self.runs[:, :count].copy())
            self.runs[:, 0] = self.runs[:, count % RUNS_AT_ONCE]
            self.runs_kept -= count

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
    records, _, _ = kernels_walk.walk(held.bytes, place, columns)
    if not records or columns[row.TOPIC_LENGTH, 0] <= 0:
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


# What records are carved out of: a file, a compressed one, a block device.
#
# A sector that cannot be read is zeros to a search, and is counted.


SECTOR_BYTES: Final = 4096  # what is left out where the disk refuses
PART_BYTES: Final = 64 << 20
SKIPPED_HOLE: Final = 1 << 20  # bytes; a shorter one is read as the zeros that it is
_HEAD_BYTES: Final = 128


class Image:
    """One image, open. Several threads may read it.

    Attributes:
        name: as the user typed it.
        size: bytes.
        unread_bytes: that the disk did not give.
        first_refusal: why; None as long as all could be read.
        head: its first bytes; none where the disk refuses.
        is_cut: why a compressed image could not be unpacked to its end; empty where it could.
    """

    def __init__(self, name: str, file: OpenFile) -> None:
        self.name, self.size = name, file.size
        self._file = file
        self.unread: dict[int, int] = {}
        self.first_refusal: UnreadablePath | None = None
        self.is_cut = ""
        self._lock = threading.Lock()
        self.head = b""
        with suppress(UnreadablePath):  # whoever searches it will be told
            self.head = file.read_at(0, _HEAD_BYTES)

    @property
    def unread_bytes(self) -> int:
        """How many bytes the disk did not give."""
        return sum(self.unread.values())

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; zeros stand for what the disk refuses."""
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self.size - position), 0)
        try:
            return self._file.read_into(view[:wanted], position)
        except UnreadablePath as error:
            if wanted > SECTOR_BYTES:
                half = wanted // 2 // SECTOR_BYTES * SECTOR_BYTES or SECTOR_BYTES
                first = self.read_into(view[:half], position)
                if first < half:
                    return first
                return half + self.read_into(view[half:wanted], position + half)
            view[:wanted] = bytes(wanted)
            with self._lock:
                self.unread[position] = wanted
                self.first_refusal = self.first_refusal or error
            return wanted

    def next_data(self, position: int) -> int | None:
        """Give the first position from here on that is not in a hole; None for none."""
        return self._file.next_data(position)

    def parts(self, part_bytes: int = PART_BYTES) -> Iterator[ImagePart]:
        """Give what is to be searched, without long holes."""
        position = 0
        while position < self.size:
            data_at = self._file.next_data(position)
            if data_at is None:
                return
            position = max(data_at, position)
            end = self._end_of_data(position, position + part_bytes)
            yield ImagePart(self, position, end)
            position = end

    def _end_of_data(self, position: int, most: int) -> int:
        """Give where the next long hole begins, `most` at most."""
        end = position
        while end < min(most, self.size):
            end = self._file.next_hole(end)
            after = self._file.next_data(end) if end < self.size else None
            if after is None or after - end >= SKIPPED_HOLE:
                break
            end = after
        return min(end, most, self.size)


class ImagePart(NamedTuple):
    """A stretch of an image."""

    image: Image  # which
    begin: int  # first byte
    end: int  # past the last


def open_image(
    path: str, keep: ExitStack, limit: int | None, advance: Callable[[int], None]
) -> Image:
    """Open what a user named.

    Args:
        path: of a file, of one that gzip or zstd compressed, or of a block device.
        keep: closes it.
        limit: bytes that it may take unpacked; None is what the disk has to spare.
        advance: takes the bytes that were unpacked.

    Raises:
        UnreadablePath: it cannot be read, or is neither a file nor a block device.
        WriteFailed: there is no room to unpack it.
    """
    place = place_of(path)
    file = open_device(place) or place.open()
    keep.callback(file.close)
    container = container_of(file.read_at(0, _HEAD_BYTES))
    is_stream = container is not None and container.is_compressed
    if container is None or not is_stream or not path.lower().endswith(COMPRESSED):
        return Image(path, file)
    copy = keep.enter_context(TemporaryCopy(limit, file.size))
    cuts: list[str] = []
    unpack(file, container, copy, cuts.append, advance)
    image = Image(path, OpenFile(place, copy.handle, copy.size))
    image.is_cut = "".join(cuts)
    return image
