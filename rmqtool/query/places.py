"""Places of queues: through the queue's unit, or where that fails by searching the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import UnreadablePath
from rmqtool.query import topics
from rmqtool.query.answer import BY_QUEUE, BY_SEARCH, Found
from rmqtool.query.log import LogRange, LogRecord
from rmqtool.query.match import at_place

if TYPE_CHECKING:
    from rmqtool.query.answer import Answer
    from rmqtool.query.requests import ByQueueOffset
    from rmqtool.query.sources import Sources
    from rmqtool.queues.units import LookedUp


def find_place(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    """Find the record at a place of a queue; where that cannot be read, in the log.

    Raises:
        UnreadablePath: the log may not be read.
    """
    answer.taken_for = "place in a queue"
    try:
        _ask_queue(sources, request, answer)
    except UnreadablePath as error:
        answer.trail.add("queue", f"cannot be read: {error.reason}", error.path)
        answer.trail.search(f"{error.path} could not be read: {error.reason}")
        _search_place(sources, request, None, None, answer)


def _ask_queue(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    queue = sources.queue(request.topic, request.queue_id)
    if queue is None:
        _without_queue(sources, request, answer)
        return
    found, span = queue.units.find(request.queue_offset), queue.span
    answer.trail.search(f"queue {queue.units.path}")
    if found is not None and _unit_agrees(sources, request, found, answer):
        return
    if found is not None and found.problem:
        answer.trail.add("queue unit", found.problem, found.place.path, found.place.position)
    inside = span.first is not None and span.min_offset <= request.queue_offset < span.max_offset
    if inside and not (found and found.unit and found.unit.physical_offset < sources.log.start):
        low, high = queue.bounds(request.queue_offset)
        _search_place(sources, request, low, high, answer)
    if not answer.found:
        answer.problem = (
            f"queue {request.topic} {request.queue_id} has offsets "
            f"[{span.min_offset}, {span.max_offset})"
        )
        if span.expired:
            answer.problem += f", {span.expired} before them are expired"


def _unit_agrees(sources: Sources, request: ByQueueOffset, found: LookedUp, answer: Answer) -> bool:
    """Verify the record that a unit names."""
    if found.unit is None:
        return False
    physical_offset = found.unit.physical_offset
    answer.trail.add("queue unit", "names a record", *found.place, physical_offset)
    record = sources.log.record_at(physical_offset)
    if not isinstance(record, LogRecord):
        answer.trail.add("record", record.reason, physical_offset=physical_offset)
        return False
    how = at_place(record.message, request)
    if not how:
        message = record.message
        says = f"{message.topic} {message.queue_id} {message.queue_offset}"
        reason = f"the record says it belongs to {says}"
        answer.trail.add("record", reason, record.segment.path, record.position,
                         physical_offset)  # fmt: skip
        return False
    sources.verified(record, answer, how)
    answer.take(Found(record, BY_QUEUE, how))
    return True


def _without_queue(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    """Answer where there is no such queue: it may be lost, or never have been."""
    known = sources.queue_topics
    if request.topic in known:
        numbers = [queue.units.queue_id for queue in sources.queues_of(request.topic)]
        of_topic = ", ".join(map(str, numbers)) or "none"
        answer.problem = f"topic {request.topic} has queues: {of_topic}"
    elif known:
        answer.problem = topics.hint(request.topic, known)
    answer.trail.add("queue", answer.problem or "there are no queues here")
    is_lost = not sources.keeps_queues or (
        request.topic in sources.topics and request.topic not in known
    )
    if is_lost or sources.scan:
        _search_place(sources, request, None, None, answer)
    else:
        answer.trail.search("the directories of queues")
    if answer.found:
        answer.problem = ""


def _search_place(
    sources: Sources, request: ByQueueOffset, low: int | None, high: int | None, answer: Answer
) -> None:
    """Search the log for the record of a place, between its neighbours where known."""
    answer.may_search = True
    if sources.scan is False:
        answer.trail.search("the log was not searched (--no-scan)")
        return
    from rmqtool.query.scan import find_places

    begin = sources.log.start if low is None else low
    stretch = LogRange(begin, sources.log.end if high is None else high + 1)
    answer.trail.search(f"the log {stretch}")
    for record, _ in find_places(sources.log, [request], [stretch], answer.trail):
        how = at_place(record.message, request)
        if answer.take(Found(record, BY_SEARCH, how)):
            sources.verified(record, answer, how)
