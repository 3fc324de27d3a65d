"""Where delivery of delayed messages goes on: found by the copies that were delivered.

The broker takes the messages of a level in order and writes each anew, under its own topic, when
it is due. So the first one without a copy after it is the next to be delivered.
Source: ScheduleMessageService#executeOnTimeUp, #messageTimeUp, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import DELAYS_JSON
from rmqtool.formats.properties import REAL_TOPIC, UNIQ_KEY, decode
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ById, ByQueueOffset
from rmqtool.queues.discovery import Queues

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.query.log import LogRecord
    from rmqtool.store.tree import Store


def delivered_levels(store: Store) -> dict[int, int]:
    """Give the next queue offset of each delay level: by the store's file, or else by its log.

    Raises:
        UnreadablePath: what is needed cannot be read.
    """
    document = store.config(DELAYS_JSON)
    if document:
        levels = config_shapes.delay_offsets(document.document)
        return {level: offset for level, offset in levels.items() if offset is not None}
    with Queues(store) as queues:
        spans = [(queue.queue_id, queue.span()) for queue in queues.queues_of(SCHEDULE_TOPIC)]
    ends = [(number, span.min_offset, span.max_offset) for number, span in spans if span.last]
    return delay_offsets(store, ends)


def delay_offsets(store: Store, queues: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Give the next queue offset of each delay level.

    A message without a unique key, as some clients send it, counts as not delivered: it comes
    twice rather than never.

    Args:
        store: to look into.
        queues: queue id, first and next queue offset of each queue of the schedule topic.

    Raises:
        UnreadablePath: what is needed cannot be read.
    """
    offsets = {}
    with Lookup(store) as lookup:
        for queue_id, first, end in queues:
            waits = partial(_waits, lookup, queue_id)
            offsets[queue_id + 1] = first + bisect_left(range(first, end), True, key=waits)
    return offsets


def _waits(lookup: Lookup, queue_id: int, number: int) -> bool:
    """Tell whether a delayed message has no copy yet."""
    answer = lookup.find(ByQueueOffset(SCHEDULE_TOPIC, queue_id, number))
    return not any(_is_delivered(lookup, hit.record) for hit in answer.hits)


def _is_delivered(lookup: Lookup, record: LogRecord) -> bool:
    properties = decode(record.message.properties_bytes)
    key, topic = properties.get(UNIQ_KEY), properties.get(REAL_TOPIC)
    if key is None or topic is None:
        return False
    copies = lookup.find(ById(key)).hits
    return any(
        copy.record.message.topic == topic and copy.record.physical_offset > record.physical_offset
        for copy in copies
    )
