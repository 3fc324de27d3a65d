"""Look up places of queues: a unit names the record, the record must agree.

Source: ConsumeQueue#getIndexBuffer, BatchConsumeQueue#getBatchMsgIndexBuffer, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import light_queues
from rmqtool.broker.names import light_queue_id
from rmqtool.formats.java import parse_long
from rmqtool.formats.properties import (
    INNER_BASE,
    INNER_NUM,
)
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


def places_of(message: Message) -> list[tuple[str, int, int, int]]:
    """Give the places of queues that a record claims: topic, queue id, first offset, count."""
    properties = message.properties
    base, count = message.queue_offset, 1
    if INNER_NUM in properties and INNER_BASE in properties:
        base = _number(properties[INNER_BASE], base)
        count = max(_number(properties[INNER_NUM], 1), 1)
    places = [(message.topic, message.queue_id, base, count)]
    for name, number in zip(*light_queues(properties), strict=True):
        # Other names keep the record's queue, but 4.9.3 without LMQ puts all of them there.
        queue_ids = {
            light_queue_id(name, message.queue_id, has_lmq=has_lmq) for has_lmq in (False, True)
        }
        offset = _number(number, -1)
        places += [(name, queue_id, offset, 1) for queue_id in sorted(queue_ids)]
    return places


def claims(message: Message, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Tell whether a record says that it belongs to a place of a queue."""
    return any(
        (name, number) == (topic, queue_id) and base <= queue_offset < base + count
        for name, number, base, count in places_of(message)
    )


def _number(text: str, otherwise: int) -> int:
    value = parse_long(text)
    return otherwise if value is None else value
