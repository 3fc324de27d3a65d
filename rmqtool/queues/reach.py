"""Whether a change of a queue puts sound messages out of reach: then it is not made.

The queue offsets in records may be wrong while the units of their queue are right, and one damaged
number may be in many records. Units that consumers can read are worth more than numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.errors import DecodeError
from rmqtool.formats.message import MESSAGE_PREFIX, SMALLEST_RECORD, decode
from rmqtool.formats.properties import INNER_MULTI_DISPATCH
from rmqtool.queues.kinds import are_real, as_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.record_heads import LogReader

    Int64s = npt.NDArray[np.int64]
    Stretch = tuple[int, int]

NAMES_SEPARATOR: Final = ","
DAMAGED_BYTES: Final = 2  # of a name, beside which it is still known
SIZE: Final = MESSAGE_PREFIX["total_size"]
_NONE: Final = np.empty(0, np.int64)


def messages_out_of_reach(
    before: Sequence[Int64s],
    after: Sequence[Int64s],
    is_sound: Callable[[int], bool],
    kept: Callable[[], Int64s] = lambda: _NONE,
) -> int:
    """Count the sound messages that a queue would no longer lead to, less those that it would.

    Args:
        before: physical offsets of the units that are written over, or go.
        after: those of the units that take their place.
        is_sound: tells whether a sound record of the queue is at a physical offset.
        kept: gives those of all units that stay; asked only where something would go.

    Returns:
        Above 0 where the change does harm.
    """
    old, new = (np.unique(np.concatenate([_NONE, *parts])) for parts in (before, after))
    gone = np.setdiff1d(old, new, assume_unique=True)
    if not gone.size:
        return 0
    stays = np.unique(kept())
    lost = sum(map(is_sound, np.setdiff1d(gone, stays, assume_unique=True).tolist()))
    if not lost:
        return 0
    come = np.setdiff1d(np.setdiff1d(new, old, assume_unique=True), stays, assume_unique=True)
    return lost - sum(map(is_sound, come.tolist()))


def places_of(raw: bytes | memoryview) -> Int64s:
    """Give the physical offsets of the units that point to a record: int64, shape (n,)."""
    units = as_units(raw)
    return units["physical_offset"][are_real(units)].astype(np.int64)


def places_in(queue: QueueUnits, but: Sequence[Stretch] = ()) -> Int64s:
    """Give the physical offsets of a queue's units.

    Args:
        queue: whose units.
        but: stretches of numbers, half open, whose units are left out.

    Raises:
        UnreadablePath: a file of the queue cannot be read.
    """
    places = [_NONE]
    for number, units in queue.used():
        is_meant = are_real(units)
        for first, end in but:
            is_meant[max(first - number, 0) : max(end - number, 0)] = False
        places.append(units["physical_offset"][is_meant].astype(np.int64))
    return np.concatenate(places)


def each_place(queue: QueueUnits) -> Iterator[Int64s]:
    """Give the same a stretch at a time: who asks may need the first alone.

    Raises:
        UnreadablePath: a file of the queue cannot be read.
    """
    for _, units in queue.used():
        yield units["physical_offset"][are_real(units)].astype(np.int64)


def is_record_of(
    log: LogReader,
    topic: str,
    queue_id: int,
    places_of_queue: Callable[[str, int], Iterator[Int64s]],
    physical_offset: int,
) -> bool:
    """Tell whether a record that belongs into a queue is at a physical offset.

    The place that the record itself states does not count: brokers deliver it whatever that is.

    Args:
        log: the commitlog.
        topic: of the queue, or name of a light queue.
        queue_id: of the queue.
        places_of_queue: gives where a queue leads to, by topic and number. A name in a record is
            not a damaged one where its queue leads to other records, too.
        physical_offset: where the record is.

    Raises:
        UnreadablePath: a file may not be read.
    """
    segment = log.segment_at(physical_offset)
    size = SIZE.of(log.read_at(physical_offset, SIZE.size).ljust(SIZE.size, b"\0"))
    if segment is None or not SMALLEST_RECORD <= size <= segment.end - physical_offset:
        return False
    try:
        message = decode(log.read_at(physical_offset, size))
    except DecodeError:
        return False
    if (message.topic, message.queue_id) == (topic, queue_id):
        return True
    names = message.properties.get(INNER_MULTI_DISPATCH, "").split(NAMES_SEPARATOR)
    if topic in names:
        return True
    numbered = ((name, 0 if name.startswith(LMQ_PREFIX) else message.queue_id) for name in names)
    if all(_leads_beside(places_of_queue(*name), physical_offset) for name in numbered):
        return False
    return topic.startswith(LMQ_PREFIX) and may_name(message.properties_bytes, topic.encode())


def _leads_beside(places: Iterable[Int64s], physical_offset: int) -> bool:
    """Tell whether a queue leads to any record but one."""
    return any((some != physical_offset).any() for some in places)


def may_name(properties: bytes, topic: bytes) -> bool:
    """Tell whether properties name a light queue: what does so may be what is damaged."""
    ends = range(len(topic), len(properties) + 1)
    near = (zip(properties[end - len(topic) : end], topic, strict=True) for end in ends)
    return any(sum(left != other for left, other in pair) <= DAMAGED_BYTES for pair in near)
