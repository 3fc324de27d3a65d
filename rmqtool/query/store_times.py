"""Store times: the record of the log that a time asks for; queues are in queue_times.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.query.answer import BY_TIME, Found
from rmqtool.query.log import LogRange, LogRecord
from rmqtool.query.time import first_record_from, last_record_until
from rmqtool.ranges import Boundary
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from rmqtool.query.answer import Answer
    from rmqtool.query.requests import ByTime
    from rmqtool.query.sources import Sources


def find_time(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Find a store time in the whole store, in a topic's queues, or in one queue.

    Raises:
        UnreadablePath: what is needed may not be read.
    """
    if request.topic is not None:
        from rmqtool.query.queue_times import find_in_queues

        find_in_queues(sources, request, answer)
        return
    answer.taken_for = "store time"
    is_lower = request.boundary is Boundary.LOWER
    search_log = first_record_from if is_lower else last_record_until
    head = search_log(sources.log, request.timestamp)
    whole = sources.log.described(LogRange(sources.log.start, sources.log.end))
    answer.trail.search(f"the times of {whole}")
    record = sources.log.record_at(head.physical_offset) if head else None
    if isinstance(record, LogRecord):
        sources.verified(record, answer, BY_TIME)
        note = "first stored at or after" if is_lower else "last stored at or before"
        answer.take(Found(record, BY_TIME, note))
        return
    answer.problem = _time_range(sources)


def _time_range(sources: Sources) -> str:
    first = sources.log.next_record(sources.log.start)
    last = sources.log.previous_record(sources.log.end)
    if first is None or last is None:
        return "the log has no records"
    return (
        f"records were stored from {iso_time(first.store_timestamp)} "
        f"to {iso_time(last.store_timestamp)}"
    )
