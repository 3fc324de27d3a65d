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
from rmqtool.repair.log.borrowed import Vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.queues.discovery import Queues
    from rmqtool.store.record_heads import LogReader

FIELDS: Final = ("physical_offset", "size")
OF_EACH: Final = 8  # units of a queue that are asked
MOST: Final = 512
FEWEST: Final = 3  # records that have to be where units say; by chance one may be


def ask_queues(queues: Queues, other: LogReader) -> Vouch:
    """Say whether records of a log lie where the units of other queues have them.

    Args:
        queues: of the store that is repaired.
        other: the log that lends.
    """
    same = others = 0
    for topic, queue_id, number, physical_offset, size in islice(_units(queues), MOST):
        if not physical_offset or other.segment_at(physical_offset) is None:
            continue
        head = other.head_at(physical_offset)
        is_same = head is not None and (head.size, head.queue_id, head.queue_offset) == (
            size,
            queue_id,
            number,
        )
        if is_same and head is not None and other.topic_of(head) == topic:
            same += 1
        else:
            others += 1
    if same >= FEWEST and same > others:
        return Vouch.SAME
    return Vouch.OTHER if others else Vouch.NOTHING


def _units(queues: Queues) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield topic, queue, number, place and size of some units of each queue."""
    for source in (queues.files, queues.database):
        try:
            for queue in source.queues():
                if not queue.topic.startswith(LMQ_PREFIX):  # its numbers are not the records'
                    for number, units in islice(queue.used(), 1):
                        for at in np.flatnonzero(units["size"])[-OF_EACH:].tolist():
                            place, size = (int(units[name][at]) for name in FIELDS)
                            yield queue.topic, queue.queue_id, number + at, place, size
        except UnreadablePath:
            continue
