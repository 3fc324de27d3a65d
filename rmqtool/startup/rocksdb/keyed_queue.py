"""A queue in RocksDB in a starting broker: units by their number, and the rows `max` and `min`.

Nothing is cut: truncation lowers `max`, and units above it wait for the next messages to overwrite
them.
Source: RocksDBConsumeQueueOffsetTable, RocksDBConsumeQueueTable, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from rmqtool.formats.consume_queue import CQ_UNIT

if TYPE_CHECKING:
    from rmqtool.queues.kinds import Units

Int64s = NDArray[np.int64]
NONE: Final = -1  # of a search that found no unit


@dataclass(slots=True)
class KeyedQueue:
    """One queue."""

    topic: str  # its topic
    queue_id: int  # its number
    # physical offset and number of the last unit, as `max` says; None without it
    maximum_row: tuple[int, int] | None = None
    minimum_row: tuple[int, int] | None = None  # the same of the first one, as `min` says
    # queue offsets of its units, ascending
    numbers: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    # these units, without their store times
    units: Units = field(default_factory=lambda: np.empty(0, CQ_UNIT.dtype))
    _waiting: list[tuple[Int64s, Units]] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        """Queue offset of the next message."""
        return self.maximum_row[1] + 1 if self.maximum_row else 0

    def put(self, queue_offsets: Int64s, offsets: Int64s, sizes: Int64s) -> None:
        """Write the units of records, in the order of the log; the last one makes `max`.

        Source: RocksDBConsumeQueueStore#putMessagePosition.
        """
        units = np.zeros(len(offsets), CQ_UNIT.dtype)
        units["physical_offset"], units["size"] = offsets, sizes
        self._waiting.append((queue_offsets, units))
        self.maximum_row = (int(offsets[-1]), int(queue_offsets[-1]))

    def settle(self) -> None:
        """Sort in what was written; the last unit of a number counts."""
        if not self._waiting:
            return
        numbers = np.concatenate([self.numbers, *(waiting[0] for waiting in self._waiting)])
        units = np.concatenate([self.units, *(waiting[1] for waiting in self._waiting)])
        self._waiting = []
        distinct, places = np.unique(numbers[::-1], return_index=True)
        self.numbers, self.units = distinct, units[::-1][places]

    def minimum(self, log_minimum: int) -> int:
        """Give the smallest queue offset; the row is corrected on the way, as a broker does.

        Source: RocksDBConsumeQueueOffsetTable#getMinCqOffset, #correctMinCqOffset.
        """
        offset, number = self.minimum_row or (NONE, 0)
        if self.minimum_row is not None and offset >= log_minimum:
            return number
        if self.maximum_row is None:
            self.minimum_row = (log_minimum, 0)
        elif self.maximum_row[0] < log_minimum:
            self.minimum_row = (log_minimum, self.next_offset)
        else:
            last = self.maximum_row[1]
            row = self._search(number, last, log_minimum, is_minimum=True)
            if row is None:
                if last != number:
                    self.minimum_row = self.maximum_row
                return number
            self.minimum_row = row
        return self.minimum_row[1]

    def truncate(self, end: int, log_minimum: int) -> None:
        """Lower `max` to what the search finds before `end`, which need not be the last such unit.

        Source: RocksDBConsumeQueueOffsetTable#truncateDirty, #correctMaxCqOffset.
        """
        if self.maximum_row is None or self.maximum_row[0] < end:
            return
        self.settle()
        number = self.minimum(log_minimum)
        first, last = self.minimum_row, self.maximum_row[1]
        if first is None or first[1] != number or first[0] > end:
            return  # Java throws, and logs it
        row = self._search(number, last, end, is_minimum=False)
        if row is not None:
            self.maximum_row = row
        elif last != number:
            self.maximum_row = first

    def _search(
        self, low: int, high: int, target: int, *, is_minimum: bool
    ) -> tuple[int, int] | None:
        """Search as Java does; it ends at a unit that points to `target`, whatever it has found.

        Source: RocksDBConsumeQueueTable#binarySearchInCQ.
        """
        self.settle()
        newest = None
        while high >= low:
            middle = low + (high - low) // 2
            offset = self.offset_of(middle)
            if offset is None:
                low = middle + 1
            elif offset == target:
                return (offset, middle) if is_minimum else newest
            elif offset > target:
                high = middle - 1
                newest = (offset, middle) if is_minimum else newest
            else:
                low = middle + 1
                newest = newest if is_minimum else (offset, middle)
        return newest

    def offset_of(self, number: int) -> int | None:
        """Give the physical offset in a unit; None without one."""
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self.numbers) or self.numbers[place] != number:
            return None
        return int(self.units["physical_offset"][place])

    def between(self, first: int, end: int) -> tuple[Int64s, Units]:
        """Give numbers and units of a range that are there."""
        self.settle()
        begin, stop = np.searchsorted(self.numbers, [first, end])
        return self.numbers[begin:stop], self.units[begin:stop]
