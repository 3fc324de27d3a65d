"""Files of fixed-size units, read as arrays: what is common to all kinds of queues.

Files are made ahead of need, so most of a queue's bytes may be a hole: holes are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.formats.layout import Layout
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment, SegmentPart

BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """Units that lie one behind the other in one file.

    Attributes:
        layout: of a unit.
        segment: the file.
        position: of the first unit in the file.
        count: units.
        raw: uint8, shape (count, size); no rows for a hole, whose units are all zeros.
        is_hole: the file system holds no bytes here.
    """

    layout: Layout
    segment: Segment
    position: int
    count: int
    raw: npt.NDArray[np.uint8]
    is_hole: bool = False

    @property
    def end(self) -> int:
        """Position behind the last unit."""
        return self.position + self.count * self.layout.size

    @property
    def first(self) -> int:
        """Number of the first unit in the queue: its queue offset, in a consume queue."""
        return (self.segment.start + self.position) // self.layout.size

    @property
    def values(self) -> npt.NDArray[Any]:
        """The units as a structured array of the layout's dtype, big-endian."""
        return self.raw.reshape(-1).view(self.layout.dtype)

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Give one field of all units; of a hole zeros."""
        if self.is_hole:
            return np.zeros(self.count, np.int64)
        found: npt.NDArray[np.int64] = self.values[name].astype(np.int64)
        return found

    @property
    def is_zero(self) -> npt.NDArray[np.bool_]:
        """Which units are nothing but zeros: bool, shape (count,)."""
        if self.is_hole:
            return np.ones(self.count, np.bool_)
        largest: npt.NDArray[np.uint8] = self.raw.max(axis=1)
        zero: npt.NDArray[np.bool_] = largest == 0
        return zero


def scan_units(
    part: SegmentPart, layout: Layout, *, batch_bytes: int = BATCH_BYTES
) -> Iterator[UnitBatch]:
    """Tile a part of a file with batches of whole units; bytes behind the last one are left over.

    Args:
        part: which bytes; a unit belongs to the part in which it begins.
        layout: of a unit.
        batch_bytes: bytes read at a time.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises.
    """
    size = layout.size
    step = max(batch_bytes // size, 1) * size
    with part.segment.open() as file:
        position = -(-part.begin // size) * size
        end = min(-(-part.end // size) * size, min(file.size, part.segment.size) // size * size)
        while position < end:
            data = _data_from(file, position, size)
            if data > position:
                hole = min(data, end)
                yield _hole(part.segment, layout, position, hole)
                position = hole
                continue
            raw = np.empty(min(step, end - position), np.uint8)
            count = file.read_into(raw.data, position) // size
            if not count:  # the file shrinks while we read
                return
            units = raw[: count * size].reshape(count, size)
            yield UnitBatch(layout, part.segment, position, count, units)
            position += count * size


def _hole(segment: Segment, layout: Layout, begin: int, end: int) -> UnitBatch:
    nothing = np.empty((0, layout.size), np.uint8)
    count = (end - begin) // layout.size
    return UnitBatch(layout, segment, begin, count, nothing, is_hole=True)


def _data_from(file: OpenFile, position: int, size: int) -> int:
    """Give the first unit from `position` on that is not altogether in a hole."""
    data = file.next_data(position)
    return -(-file.size // size) * size if data is None else data // size * size
