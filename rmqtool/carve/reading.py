"""Read the records of runs again, in the order of their log, and prove them again on the way.

What is written has passed its checks while it was written: an image that changes meanwhile is an
error, never a wrong record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.carve import kernels, kernels_judge
from rmqtool.carve.kernels_judge import COUNTS
from rmqtool.carve.search import judged
from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import MESSAGE_PREFIX
from rmqtool.scan import columns as row
from rmqtool.scan import crc, kernels_walk
from rmqtool.scan.long_record import crc_of, without_body
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from typing_extensions import Buffer

    from rmqtool.carve.runs import Run
    from rmqtool.carve.search import Image

WINDOW_BYTES: Final = 4 << 20
RECORDS_AT_ONCE: Final = 12288 + 8  # not a power of two: rows would fall on the same cache lines
PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True)
class FoundRecords:
    """Some records of a run; their arrays are used again for the next ones."""

    run: Run  # that they are of
    image: Image  # that they lie in
    window: npt.NDArray[np.uint8]  # uint8; what the `*_START` rows index
    # int64, shape (ROWS, m), C order, m >= n; for kernels. Filled as far as PROPERTIES_LENGTH;
    # POSITION is that in the image.
    matrix: npt.NDArray[np.int64]
    proven: npt.NDArray[np.int64]  # int64, shape (n,); 1 for a record that a checksum proves
    # there is one record, too long for a window, which holds it without its body
    is_long: bool = False

    @property
    def columns(self) -> npt.NDArray[np.int64]:
        """The records: int64, shape (ROWS, n)."""
        return self.matrix[:, : len(self.proven)]

    def sums(self) -> npt.NDArray[np.int64]:
        """Give the checksum of each record as a whole."""
        if self.is_long:
            start, size = (int(self.columns[name, 0]) for name in (row.POSITION, row.SIZE))
            return np.array([crc_of(self.image, start, size)], np.int64)
        sums = np.empty(len(self.proven), np.int64)
        kernels.record_sums(self.window, self.matrix, sums, crc.checksum())
        return sums

    def raw(self) -> Iterator[Buffer]:
        """Yield the records as they are stored; the bytes are used again, as the arrays are."""
        if self.is_long:
            start, size = (int(self.columns[name, 0]) for name in (row.POSITION, row.SIZE))
            yield from _pieces(self.image, start, size)
            return
        starts, sizes = self.columns[row.RECORD_START], self.columns[row.SIZE]
        if not self.run.stride:
            yield self.window[int(starts[0]) : int(starts[-1] + sizes[-1])].data
            return
        ends = (starts + sizes).tolist()
        yield b"".join(
            self.window[start:end].tobytes()
            for start, end in zip(starts.tolist(), ends, strict=True)
        )


class Reader:
    """Reads runs; belongs to one thread.

    Args:
        images: all of them, by number.
    """

    def __init__(self, images: Sequence[Image]) -> None:
        self._images = images
        self._windows = [Window(image, WINDOW_BYTES) for image in images]
        self._columns = np.empty((row.ROWS, RECORDS_AT_ONCE), np.int64)
        self._proven = np.empty(RECORDS_AT_ONCE, np.int64)
        self._counts = np.zeros(COUNTS, np.int64)
        self._checksum = crc.checksum()

    def records(self, run: Run) -> Iterator[FoundRecords]:
        """Yield the records of a run. Raises UnreadablePath: they are no longer there."""
        image, window = self._images[run.image], self._windows[run.image]
        position, end = run.position, run.position + run.length
        while position < end:
            if not window.position <= position < window.end:
                window.load(position, end)
            count, stop = self._follow(window, position, run)
            if not count and position > window.position:
                window.load(position, end)
                count, stop = self._follow(window, position, run)
            if count:
                yield FoundRecords(run, image, window.bytes, self._columns, self._proven[:count])
                position = stop
            else:
                records = self._long(position, run, image)
                yield records
                position += int(records.columns[row.SIZE, 0]) + run.stride

    def _follow(self, window: Window, position: int, run: Run) -> tuple[int, int]:
        end = min(run.position + run.length - window.position, window.size)
        offset = run.offset - run.position + window.position
        place = (position - window.position, end, run.stride, offset, window.position)
        self._counts[kernels_judge.BUDGET] = kernels_judge.NOWHERE
        count, stop = kernels.follow(
            window.bytes, place, self._columns, self._proven, self._counts, self._checksum
        )
        return count, window.position + stop

    def _long(self, position: int, run: Run, image: Image) -> FoundRecords:
        """Give a record that no window holds."""
        raw = without_body(image, position, 0)
        size = MESSAGE_PREFIX["total_size"].of(_head(image, position)) if raw else 0
        if (
            raw is None
            or size + kernels_judge.NEXT_BYTES <= WINDOW_BYTES
            or position + size > run.position + run.length
        ):
            raise _changed(image, position)
        if judged(image, position, size, raw) not in {kernels_judge.PROVEN, kernels_judge.TORN}:
            raise _changed(image, position)
        held, columns = Window.holding(raw, 0), np.empty((row.ROWS, 1), np.int64)
        kernels_walk.walk(held.bytes, (0, len(raw), 1, len(raw), 0, 0, 0), columns)
        columns[row.SIZE], columns[row.POSITION] = size, position
        columns[row.PHYSICAL_OFFSET] = columns[row.PHYSICAL_OFFSET_FIELD]
        if int(columns[row.PHYSICAL_OFFSET, 0]) - position != run.offset - run.position:
            raise _changed(image, position)
        return FoundRecords(run, image, held.bytes, columns, np.ones(1, np.int64), is_long=True)


def _head(image: Image, position: int) -> bytes:
    buffer = bytearray(MESSAGE_PREFIX.size)
    return bytes(buffer[: image.read_into(buffer, position)])


def _pieces(image: Image, position: int, size: int) -> Iterator[bytes]:
    end = position + size
    while position < end:
        buffer = bytearray(min(PIECE_BYTES, end - position))
        count = image.read_into(buffer, position)
        if not count:
            raise _changed(image, position)
        yield bytes(buffer[:count])
        position += count


def _changed(image: Image, position: int) -> UnreadablePath:
    reason = f"at {position:#x} ({position}): it changed while it was read"
    return UnreadablePath(path=image.name, reason=reason)
