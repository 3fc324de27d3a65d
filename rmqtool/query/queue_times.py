"""Times in queues: one row a queue, with the plain answer and what a broker would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.rules import Rules
from rmqtool.query import topics
from rmqtool.query.broker_time import BrokerSearch, difference
from rmqtool.query.log import LogRecord
from rmqtool.query.time import search_queue
from rmqtool.queues.files import PlainUnits
from rmqtool.ranges import Boundary
from rmqtool.times import iso_time
from rmqtool.words import counted

if TYPE_CHECKING:
    from rmqtool.broker.release import Version
    from rmqtool.query.answer import Answer
    from rmqtool.query.consume_queue import Queue
    from rmqtool.query.requests import ByTime
    from rmqtool.query.sources import Sources


def find_in_queues(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Find a time in one queue, or in all queues of a topic.

    Raises:
        UnreadablePath: a queue may not be read.
    """
    answer.taken_for = f"store time in queues, {request.boundary} boundary"
    topic = request.topic or ""
    queues = sources.queues_of(topic)
    if request.queue_id is not None:
        numbers = ", ".join(str(queue.units.queue_id) for queue in queues)
        if queues:
            answer.problem = f"topic {topic} has queues: {numbers}"
        queues = [queue for queue in queues if queue.units.queue_id == request.queue_id]
    answer.trail.search(counted(len(queues), "queue"))
    if not queues:
        known = sources.queue_topics
        if topic not in known:
            answer.problem = topics.hint(topic, known or sources.topics)
            _from_log(sources, request, answer)
        return
    answer.problem = ""
    answer.rows = [_row(sources, queue, request, answer) for queue in queues]


def _from_log(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Answer from the records where the queues of a topic are lost."""
    topic = request.topic or ""
    if sources.keeps_queues and topic not in sources.topics and not sources.scan:
        return
    if sources.scan is False:
        answer.trail.search("the log was not searched (--no-scan)")
        return
    from rmqtool.query.scan_times import queue_times

    seen = queue_times(sources.log, request, answer.trail)
    if not seen:
        return
    answer.problem = f"topic {topic} has no queues here: this is what its records say"
    answer.rows = []
    for queue_id, found in seen.items():
        offset, physical_offset = found.queue_offset, found.physical_offset
        if offset < 0 and request.boundary is Boundary.UPPER:
            offset, physical_offset = found.first, found.start
        row: dict[str, object] = {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": offset if offset >= 0 else found.end,
            "min_offset": found.first,
            "max_offset": found.end,
        }
        older = {"note": "all messages are older"}
        row |= _record(sources, physical_offset) if offset >= 0 else older
        if request.like_broker is not None:
            row["difference"] = "a broker has no queue to search"
        answer.rows.append(row)


def _row(sources: Sources, queue: Queue, request: ByTime, answer: Answer) -> dict[str, object]:
    found = queue.span
    offset = search_queue(sources.log, queue, request.timestamp, request.boundary, answer.trail)
    row: dict[str, object] = {
        "topic": queue.units.topic,
        "queue_id": queue.units.queue_id,
        "queue_offset": offset,
        "min_offset": found.min_offset,
        "max_offset": found.max_offset,
    }
    row |= _message(sources, queue, offset, found.max_offset)
    if request.like_broker is not None:
        row |= _like_broker(sources, queue, request, offset, request.like_broker)
    return row


def _message(sources: Sources, queue: Queue, offset: int, end: int) -> dict[str, object]:
    """Give what is known of the message at a queue offset."""
    place = queue.units.find(offset)
    if place is None or place.unit is None:
        note = "the queue is empty" if not end else "all messages are older"
        return {"note": note if offset >= end else place.problem if place else "no unit"}
    return _record(sources, place.unit.physical_offset)


def _record(sources: Sources, physical_offset: int) -> dict[str, object]:
    """Give what a record says of itself."""
    record = sources.log.record_at(physical_offset)
    row: dict[str, object] = {"physical_offset": physical_offset}
    if not isinstance(record, LogRecord):
        return row | {"note": record.reason}
    message = record.message
    return row | {
        "store_time": iso_time(message.store_timestamp),
        "unique_key": message.unique_key,
        "tags": message.tags,
        "keys": list(message.keys),
    }


def _like_broker(
    sources: Sources, queue: Queue, request: ByTime, offset: int, version: Version
) -> dict[str, object]:
    if not isinstance(queue.units, PlainUnits):
        return {"difference": "searches of batch queues are not imitated"}
    release = Rules(version)
    theirs = BrokerSearch(sources.log, queue.units, release).find(
        request.timestamp, request.boundary
    )
    return {"like_broker": theirs, "difference": difference(release, offset, theirs) or None}
