"""Store times: the records of the log that a time asks for; queues are in queue_times.py."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from rmqtool.query.answer import BY_TIME, NEIGHBOUR, Hit
from rmqtool.query.log import LogRange, LogRecord
from rmqtool.query.time import first_record_from, last_record_until
from rmqtool.ranges import Boundary
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.answer import Answer
    from rmqtool.query.requests import ByTime
    from rmqtool.query.sources import Sources

NOTES: Final = {
    Boundary.LOWER: "first stored at or after",
    Boundary.UPPER: "last stored at or before",
}
NEIGHBOURS: Final = 5  # before and after the one that a time asks for
MOST_AROUND: Final = 1000


def find_time(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Find a store time in the whole store, in a topic's queues, or in one queue.

    Raises:
        UnreadablePath: what is needed may not be read.
    """
    if request.until is not None:
        _find_around(sources, request, request.until, answer)
        return
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
        answer.take(Hit(record, BY_TIME, BY_TIME, note=NOTES[request.boundary]))
        return
    answer.problem = _time_range(sources)


def _find_around(sources: Sources, request: ByTime, until: int, answer: Answer) -> None:
    """Find what was stored between two times, nearest to the middle, in the order of the log."""
    log = sources.log
    answer.taken_for = "store times"
    middle = first_record_from(log, (request.timestamp + until) // 2)
    answer.trail.search(f"the times of {log.described(LogRange(log.start, log.end))}")
    begin = log.end if middle is None else middle.physical_offset
    before = [*islice(_records(sources, request, begin, forwards=False), MOST_AROUND + 1)]
    after = [*islice(_records(sources, request, begin, forwards=True), MOST_AROUND + 1)]
    half = MOST_AROUND // 2
    first = max(half, MOST_AROUND - len(after))
    nearest = [*before[:first][::-1], *after[: MOST_AROUND - min(len(before), first)]]
    answer.hits += [Hit(record, BY_TIME, BY_TIME) for record in nearest]
    if len(before) + len(after) > MOST_AROUND:
        answer.problem = f"the nearest {MOST_AROUND:,}; dump --around gives all"
    if not answer.hits:
        answer.problem = _time_range(sources)


def _records(
    sources: Sources, request: ByTime, begin: int, *, forwards: bool
) -> Iterator[LogRecord]:
    """Yield what is wanted from a place of the log on, or before it, as far as its times reach."""
    log = sources.log
    head = log.next_record(begin) if forwards else log.previous_record(begin)
    while head is not None and request.timestamp <= head.store_timestamp < (request.until or 0):
        record = log.record_at(head.physical_offset)
        if isinstance(record, LogRecord) and _is_wanted(record, request):
            yield record
        head = log.next_record(head.end) if forwards else log.previous_record(head.physical_offset)


def _is_wanted(record: LogRecord, request: ByTime) -> bool:
    message = record.message
    is_topic = request.topic in {None, message.topic}
    return is_topic and request.queue_id in {None, message.queue_id}


def add_neighbours(sources: Sources, answer: Answer) -> None:
    """Add what was stored just before and after the one message that a time asks for."""
    if len(answer.hits) != 1 or answer.hits[0].note not in NOTES.values():
        return
    log, middle = sources.log, answer.hits[0].record
    before = after = middle.physical_offset
    for count in range(1, NEIGHBOURS + 1):
        head = log.previous_record(before)
        if head is not None:
            before = head.physical_offset
            _take(sources, answer, before, f"{count} before")
        head = log.next_record(after + 1)
        if head is not None:
            after = head.physical_offset
            _take(sources, answer, after, f"{count} after")


def _take(sources: Sources, answer: Answer, physical_offset: int, note: str) -> None:
    record = sources.log.record_at(physical_offset)
    if isinstance(record, LogRecord):
        answer.take(Hit(record, BY_TIME, NEIGHBOUR, note=note))


def _time_range(sources: Sources) -> str:
    first = sources.log.next_record(sources.log.start)
    last = sources.log.previous_record(sources.log.end)
    if first is None or last is None:
        return "the log has no records"
    return (
        f"records were stored from {iso_time(first.store_timestamp)} "
        f"to {iso_time(last.store_timestamp)}"
    )
