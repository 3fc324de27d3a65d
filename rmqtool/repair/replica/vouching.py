"""Whether the queues of a store speak of another store's log: what tells where no record is left.

A unit says where a record lies and how long it is. A log without a record, next to queues with
units, has lost all of it: the log that has these records, at these places, is the same log.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import LONGEST_PROPERTIES
from rmqtool.repair.log.borrowed import Vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.queues.discovery import Queues
    from rmqtool.store.record_heads import LogReader, RecordHead

FIELDS: Final = ("physical_offset", "size")
OF_EACH: Final = 8  # units of a queue that are asked, from all over it: noise is in one place
MOST: Final = 512
FEWEST: Final = 3  # records that have to be where units say; by chance one may be


def ask_queues(queues: Queues, other: LogReader) -> Vouch:
    """Say whether records of a log lie where the units of other queues have them.

    Topic and numbers of a light queue are not those of its records, which name it in a property.

    Args:
        queues: of the store that is repaired.
        other: the log that lends.
    """
    same = others = 0
    for topic, queue_id, number, physical_offset, size in islice(_units(queues), MOST):
        if not physical_offset or other.segment_at(physical_offset) is None:
            continue
        head = other.head_at(physical_offset)
        is_same = False
        if head is not None and head.size == size:
            its = other.topic_of(head), head.queue_id, head.queue_offset
            is_light = topic.startswith(LMQ_PREFIX)
            is_same = _names(head, topic, other) if is_light else its == (topic, queue_id, number)
        same += is_same
        others += not is_same
    if same >= FEWEST and same > others:
        return Vouch.SAME
    return Vouch.OTHER if others else Vouch.NOTHING


def _names(head: RecordHead, topic: str, log: LogReader) -> bool:
    """Tell whether the properties of a record, which end it, name a light queue."""
    length = min(head.size, LONGEST_PROPERTIES)
    return topic.encode() in log.read_at(head.end - length, length)


def _units(queues: Queues) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield topic, queue, number, place and size of some units of each queue."""
    for source in (queues.files, queues.database):
        try:
            for queue in source.queues():
                for number, units in islice(queue.used(), 1):
                    used = np.flatnonzero(units["size"])
                    count = min(OF_EACH, len(used))
                    for at in used[np.linspace(0, len(used) - 1, count, dtype=int)].tolist():
                        place, size = (int(units[name][at]) for name in FIELDS)
                        yield queue.topic, queue.queue_id, number + at, place, size
        except UnreadablePath:
            continue
