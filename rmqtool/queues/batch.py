"""Batch queues: a unit stands for several messages, so a queue offset has to be searched for.

Source: BatchConsumeQueue#getBatchMsgIndexBuffer, #recover, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.queues.files import MappedUnits
from rmqtool.queues.span import real_units
from rmqtool.queues.units import LookedUp
from rmqtool.store.branch import BranchKind
from rmqtool.store.used import used_bytes

if TYPE_CHECKING:
    from rmqtool.queues.units import Unit, UnitPlace


class BatchUnits(MappedUnits):
    """A batch queue."""

    kind = BranchKind.BATCH_QUEUE
    layout = BATCH_CQ_UNIT

    @cached_property
    def stretches(self) -> list[range]:
        """Numbers of the units in use, file by file.

        Raises:
            UnreadablePath: a file may not be read.
        """
        size, found = self.layout.size, []
        for segment in self.files:
            first = segment.start // size
            found.append(range(first, first + used_bytes(self.file(segment), size) // size))
        return found

    @property
    def count(self) -> int:
        """Number of units in use."""
        return sum(map(len, self.stretches))

    def nth(self, row: int) -> LookedUp | None:
        """Read one of the units in use, counted from 0 over all files; None past the last."""
        for stretch in self.stretches:
            if row < len(stretch):
                return self.look_up(stretch[row])
            row -= len(stretch)
        return None

    def find(self, queue_offset: int) -> LookedUp | None:
        """Read the unit that stands for a queue offset; of a search that fails, where it failed.

        Raises:
            UnreadablePath: a file may not be read.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            found = self.nth(middle)
            if found is None or found.unit is None:
                return found
            if _end(found.unit) <= queue_offset:
                low = middle + 1
            else:
                high = middle
        found = self.nth(low)
        if found is None or found.unit is None or found.unit.queue_offset > queue_offset:
            return None
        return found

    def _looked_up(self, raw: bytes, number: int, place: UnitPlace) -> LookedUp:
        unit = next(real_units(self.layout, raw, number), None)
        return LookedUp(unit, place, "" if unit else "no valid unit")


def _end(unit: Unit) -> int:
    return unit.queue_offset + unit.messages
