"""Look up store times: in the log, in a queue, in all queues of a topic.

LOWER is the smallest offset whose message was stored at or after a time, else the end; UPPER the
largest one stored at or before it, else the beginning. Brokers deviate: broker_time.py.
Store times do not fall along a log but for clock steps; where they do, the answer is one place
where they pass the time, and the neighbours prove it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.queues.discovery import BatchUnits
from rmqtool.ranges import Boundary
from rmqtool.store.record_heads import FIRST_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.query.consume_queue import Queue
    from rmqtool.query.explain import Trail
    from rmqtool.query.log import Log
    from rmqtool.queues.units import QueueSpan
    from rmqtool.store.record_heads import RecordHead
    from rmqtool.store.segment import Segment

UNREADABLE_UNITS: Final = 64  # passed in a row before a stretch of a queue is given up


def first_record_from(log: Log, timestamp: int) -> RecordHead | None:
    """Find the first record of the log that was stored at or after a time; None past the end.

    Raises:
        UnreadablePath: a file may not be read.
    """
    starts = [(segment, head) for segment in log.segments if (head := _first(log, segment))]
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) // 2
        if starts[middle][1].store_timestamp < timestamp:
            low = middle + 1
        else:
            high = middle
    if low:
        segment, head = starts[low - 1]
        reached = _first_in_segment(log, segment, head, timestamp)
        if reached is not None:
            return reached
    return starts[low][1] if low < len(starts) else None


def last_record_until(log: Log, timestamp: int) -> RecordHead | None:
    """Find the last record of the log that was stored at or before a time; None in front of it.

    Raises:
        UnreadablePath: a file may not be read.
    """
    later = first_record_from(log, timestamp + 1)
    return log.previous_record(log.end if later is None else later.physical_offset)


def _first(log: Log, segment: Segment) -> RecordHead | None:
    return log.reader.first_from(segment) if segment.start < log.end else None


def _first_in_segment(
    log: Log, segment: Segment, first: RecordHead, timestamp: int
) -> RecordHead | None:
    """Bisect one file, whose first record is too old; None when all of them are."""
    low, high = first.end - segment.start, min(segment.size, log.end - segment.start)
    while high - low > FIRST_WINDOW:
        middle = (low + high) // 2
        head = log.reader.first_from(segment, middle)
        if head is None or head.physical_offset >= segment.start + high:
            high = middle
        elif head.store_timestamp < timestamp:
            low = head.end - segment.start
        else:
            high = middle
    position = low
    while position < segment.size and segment.start + position < log.end:
        head = log.reader.head_at(segment.start + position) or log.reader.first_from(
            segment, position
        )
        if head is None or head.store_timestamp >= timestamp:
            return head
        position = head.end - segment.start
    return None


def search_queue(log: Log, queue: Queue, timestamp: int, boundary: Boundary, trail: Trail) -> int:
    """Give the queue offset of a time, by bisection over the units.

    Raises:
        UnreadablePath: a file may not be read.
    """
    span = queue.span
    if span.first is None:
        return span.max_offset
    if isinstance(queue.units, BatchUnits):
        return _search_batch(queue.units, span, timestamp, boundary)

    def time_of(queue_offset: int) -> int | None:
        return _store_time(log, queue, queue_offset)

    low, high = span.min_offset, span.max_offset
    limit = timestamp if boundary is Boundary.LOWER else timestamp + 1
    first = _bisect(time_of, low, high, limit)
    trail.add(
        "bisection",
        f"first unit of [{low}, {high}) stored at or after {limit} is {first}",
        queue.units.path,
    )
    return first if boundary is Boundary.LOWER else max(first - 1, low)


def _bisect(time_of: Callable[[int], int | None], low: int, high: int, limit: int) -> int:
    """Give the first number in [low, high) whose time is at least `limit`, else `high`."""
    while low < high:
        middle = (low + high) // 2
        number, time = middle, time_of(middle)
        while time is None and number + 1 < high and number - middle < UNREADABLE_UNITS:
            number += 1
            time = time_of(number)
        if time is not None and time < limit:
            low = number + 1
        elif time is None and number + 1 < high:
            low = number + 1  # a stretch whose records are gone: what follows is newer
        else:
            high = middle
    return low


def _store_time(log: Log, queue: Queue, queue_offset: int) -> int | None:
    place = queue.units.find(queue_offset)
    if place is None or place.unit is None:
        return None
    head = log.reader.head_at(place.unit.physical_offset)
    return head.store_timestamp if head else None


def _search_batch(units: BatchUnits, span: QueueSpan, timestamp: int, boundary: Boundary) -> int:
    """Bisect a batch queue, whose units hold their times; a batch is found by its first offset."""

    def time_of(row: int) -> int | None:
        place = units.nth(row)
        return place.unit.store_timestamp if place and place.unit else None

    lower = boundary is Boundary.LOWER
    limit = timestamp if lower else timestamp + 1
    row = _bisect(time_of, 0, units.count, limit)
    place = units.nth(row if lower else row - 1) if lower or row else None
    if place is None or place.unit is None:
        return span.max_offset if lower else span.min_offset
    last = 0 if lower else place.unit.messages - 1
    return max(place.unit.queue_offset + last, span.min_offset)
