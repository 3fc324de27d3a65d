"""The whole life of a message: every record that its IDs lead to, each with its stage.

1. Copies keep the unique key: half and commit, scheduled and delivered, retries, dead letter.
2. A commit names its half message by offset; a retry and a dead letter name their origin by ID.
3. An operation on a half message names its queue offset in the body, a recalled timer its unique
   key in a property: their queues are read from the half message or timer on.
Source: TransactionalMessageBridge, SendMessageProcessor#consumerSendMsgBack,
TimerMessageStore, ScheduleMessageService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker import names
from rmqtool.formats import properties
from rmqtool.formats.message_id import OffsetMessageId, recognise
from rmqtool.query.answer import BY_OFFSET, BY_QUEUE, Answer, Hit
from rmqtool.query.log import LogRecord
from rmqtool.query.match import TRANSACTION_ID, RecordNeed, members
from rmqtool.query.time import search_queue
from rmqtool.query.traced import is_trace, set_aside_traces
from rmqtool.ranges import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.message import Message
    from rmqtool.query.lookup import Lookup

ORIGINS: Final = (properties.ORIGIN_MESSAGE_ID, properties.DLQ_ORIGIN_MESSAGE_ID)
RECALLED_KEY: Final = properties.TIMER_DEL_UNIQKEY
ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
MOST_UNITS: Final = 50_000  # of a queue that are read for one operation
MOST_RECORDS: Final = 1000  # of one life; a unique key that everybody uses is not one
TIMES: Final = (properties.TIMER_OUT_MS, "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
STAGES: Final = {
    **dict.fromkeys(names.HALF_TOPICS, "half"),
    **dict.fromkeys(names.OP_TOPICS, "operation"),
    names.CHECK_MAX_TIME_TOPIC: "discarded",
    names.DLQ_PREFIX: "dead letter",
    names.RETRY_PREFIX: "retry",
}


def follow(lookup: Lookup, answer: Answer, trace_topics: tuple[str, ...] = ()) -> None:
    """Add to an answer every record of the same message, and give each its stage.

    Args:
        lookup: the store.
        answer: what was found so far; afterwards the whole life, and apart from it the trace
            records that clients wrote about it.
        trace_topics: where clients write traces, besides the usual topics.

    Raises:
        UnreadablePath: a file may not be read.
    """
    asked: set[str] = set()
    done: set[int] = set()
    if any(not is_trace(hit, trace_topics) for hit in answer.hits):
        set_aside_traces(answer, {hit.record.physical_offset for hit in answer.hits}, trace_topics)
    while todo := [hit for hit in answer.hits if hit.record.physical_offset not in done]:
        if len(answer.hits) > MOST_RECORDS:
            answer.problem = f"more than {MOST_RECORDS:,} records belong together; the rest is left"
            break
        for hit in todo:
            done.add(hit.record.physical_offset)
            before = {hit.record.physical_offset for hit in answer.hits}
            _copies(lookup, hit.record.message, asked, answer)
            set_aside_traces(answer, before, trace_topics)
            _origins(lookup, hit.record.message, answer)
            _later(lookup, hit.record.message, answer)
    for hit in answer.hits:
        hit.stage = stage(hit.record.message)
        if hit.stage == "half" and not hit.note:
            hit.note = _outcome(hit.record.message, answer)


def stage(message: Message) -> str:
    """Say which part of its life a record is."""
    topic, stored = message.topic, message.properties
    if topic == names.SCHEDULE_TOPIC:
        is_retry = stored.get(properties.REAL_TOPIC, "").startswith(names.RETRY_PREFIX)
        return "scheduled retry" if is_retry else "scheduled"
    if topic == names.TIMER_TOPIC:
        return _timer_stage(stored)
    for prefix, word in STAGES.items():
        if topic.startswith(prefix):
            return word
    if message.transaction != "none":
        return message.transaction
    was_delayed = stored.get(properties.DELAY, "0") != "0" or any(name in stored for name in TIMES)
    return "delivered" if was_delayed else "batch" if any(members(message)) else "message"


def _timer_stage(stored: dict[str, str]) -> str:
    if RECALLED_KEY in stored:
        return "recall"
    return "rolled" if stored.get(ROLL_TIMES, "0") != "0" else "timer"


def _copies(lookup: Lookup, message: Message, asked: set[str], answer: Answer) -> None:
    """Look up the IDs of a record."""
    stored = message.properties
    for text in (message.unique_key, stored.get(TRANSACTION_ID), stored.get(RECALLED_KEY)):
        if text and text not in asked:
            asked.add(text)
            lookup.find_text(RecordNeed(text, as_key=True), answer)
            if "+" in text:  # 5.3.2 to 5.3.4: topic and unique key
                lookup.find_text(RecordNeed(text.rpartition("+")[2]), answer)


def _origins(lookup: Lookup, message: Message, answer: Answer) -> None:
    """Read the records that a record names."""
    if message.transaction == "commit":
        _read(lookup, message.prepared_transaction_offset, "prepared offset", answer)
    for name in ORIGINS:
        identifier = recognise(message.properties.get(name, ""))
        if isinstance(identifier, OffsetMessageId):
            _read(lookup, identifier.physical_offset, name, answer)


def _read(lookup: Lookup, physical_offset: int, how: str, answer: Answer) -> None:
    record = lookup.log.record_at(physical_offset)
    if isinstance(record, LogRecord):
        answer.take(Hit(record, BY_OFFSET, how))
    else:
        answer.trail.add(how, record.reason, physical_offset=physical_offset)


def _later(lookup: Lookup, message: Message, answer: Answer) -> None:
    """Find what names a record later on: the operation on a half message, a recall."""
    if message.topic in names.HALF_TOPICS:
        is_plain = message.topic == names.HALF_TOPIC
        topic = names.OP_TOPIC if is_plain else names.ROCKSDB_OP_TOPIC
        for record in _since(lookup, topic, message.queue_id, message.store_timestamp, answer):
            if _names(record.message, message):
                answer.take(Hit(record, BY_QUEUE, "names the half message"))
                return
    elif message.topic == names.TIMER_TOPIC and RECALLED_KEY not in message.properties:
        key = message.unique_key or ""
        for record in _since(lookup, message.topic, 0, message.store_timestamp, answer):
            named = record.message.properties.get(RECALLED_KEY, "")
            if key and named.endswith(key):
                answer.take(Hit(record, BY_QUEUE, "recalls the timer"))


def _names(operation: Message, half: Message) -> bool:
    """Tell whether an operation names a half message.

    Its body is one queue offset, from 5.1.0 on several with a comma after each.
    """
    stored = operation.properties
    if properties.TRANS_OFFSET in stored:
        return stored[properties.TRANS_OFFSET] == str(half.physical_offset)
    wanted = str(half.queue_offset).encode()
    return wanted in operation.body.split(b",")


def _since(
    lookup: Lookup, topic: str, queue_id: int, timestamp: int, answer: Answer
) -> Iterator[LogRecord]:
    """Yield the records of a queue from a store time on; of the log where the queue is lost."""
    queue = lookup.queue(topic, queue_id)
    if queue is None:
        yield from _since_in_log(lookup, topic, timestamp, answer)
        return
    end = queue.span.max_offset
    offset = search_queue(lookup.log, queue, timestamp, Boundary.LOWER, answer.trail)
    for queue_offset in range(offset, min(end, offset + MOST_UNITS)):
        place = queue.units.find(queue_offset)
        if place is None or place.unit is None:
            continue
        record = lookup.log.record_at(place.unit.physical_offset)
        if isinstance(record, LogRecord) and record.message.topic == topic:
            yield record


def _since_in_log(
    lookup: Lookup, topic: str, timestamp: int, answer: Answer
) -> Iterator[LogRecord]:
    if lookup.scan is False or lookup.keeps_queues:
        return
    from rmqtool.query.log import LogRange
    from rmqtool.query.scan import find_topics
    from rmqtool.query.time import first_record_from

    head = first_record_from(lookup.log, timestamp)
    start = lookup.log.end if head is None else head.physical_offset
    stretch = LogRange(start, lookup.log.end)
    yield from find_topics(lookup.log, (topic,), [stretch], [answer.trail])


def _outcome(half: Message, answer: Answer) -> str:
    """Say how a transaction ended, as far as the records tell."""
    others = [hit.record.message for hit in answer.hits]
    if any(
        other.transaction == "commit" and other.prepared_transaction_offset == half.physical_offset
        for other in others
    ):
        return "committed"
    halves = (other for other in others if other.topic in names.HALF_TOPICS)
    if any(halve.physical_offset > half.physical_offset for halve in halves):
        return "stored again, because the broker asked its producer again"
    if any(other.topic == names.CHECK_MAX_TIME_TOPIC for other in others):
        return "discarded after too many checks"
    if not any(other.topic in names.OP_TOPICS and _names(other, half) for other in others):
        return "no operation on it: undecided"
    return "rolled back"
