"""Look up places of queues: a unit names the record, the record must agree.

Source: ConsumeQueue#getIndexBuffer, BatchConsumeQueue#getBatchMsgIndexBuffer, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import claimed_places
from rmqtool.queues.discovery import BatchUnits

if TYPE_CHECKING:
    from rmqtool.formats.message import Message
    from rmqtool.queues.units import QueueSpan, QueueUnits

NEIGHBOURS: Final = 512  # units that are looked at to find the bounds of a lost one


class Queue:
    """One queue, in whatever it is stored.

    Args:
        units: of the queue.
        log_start: first byte of the commitlog that is there.
    """

    def __init__(self, units: QueueUnits, log_start: int) -> None:
        self.units, self._log_start = units, log_start

    @cached_property
    def span(self) -> QueueSpan:
        """How far the queue reaches. Raises UnreadablePath: a file may not be read."""
        return self.units.span(self._log_start)

    def bounds(self, queue_offset: int) -> tuple[int | None, int | None]:
        """Give offsets between which the record of a lost unit must lie, from its neighbours.

        Raises:
            UnreadablePath: a file may not be read.
        """
        if isinstance(self.units, BatchUnits):
            return None, None
        low = high = None
        for step in range(1, NEIGHBOURS):
            if low is None and queue_offset >= step:
                low = self._offset_at(queue_offset - step)
            if high is None:
                high = self._offset_at(queue_offset + step)
            if low is not None and high is not None:
                break
        return low, high

    def _offset_at(self, queue_offset: int) -> int | None:
        unit = self.units.look_up(queue_offset)
        return unit.unit.physical_offset if unit and unit.unit else None


def claims(message: Message, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Tell whether a record says that it belongs to a place of a queue."""
    return any(
        (name, number) == (topic, queue_id) and base <= queue_offset < base + count
        for name, number, base, count in claimed_places(message)
    )
