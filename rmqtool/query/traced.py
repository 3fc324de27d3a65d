"""What clients wrote of a message in trace topics: who sent it, who consumed it, how it went.

A trace record has the unique keys of its messages as keys, so that the key index leads to it. Of a
batch that was sent at once it has one key of all IDs: the queues of the trace topic are read then.
Source: TraceDataEncoder, AsyncTraceDispatcher, SendMessageTraceHookImpl, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rmqtool.broker.names import is_trace_topic
from rmqtool.formats.compression import decompress
from rmqtool.formats.trace import (
    END_TRANSACTION,
    EVENT_END,
    FIELD_END,
    FIELDS,
    PUB,
    RECALL,
    SUB_AFTER,
    SUB_BEFORE,
)
from rmqtool.plural import counted
from rmqtool.query.log import LogRecord
from rmqtool.query.match import KEY
from rmqtool.query.time import search_queue
from rmqtool.ranges import Boundary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rmqtool.formats.message import Message
    from rmqtool.query.answer import Answer, Hit
    from rmqtool.query.lookup import Lookup

Row: TypeAlias = dict[str, Any]
FLUSH_MS: Final = 60_000  # clients write traces after 5 s at the latest; brokers may be slow
LARGEST_TRACE: Final = 1 << 20  # bytes; clients write 128,000 and one event more
_FIELD_END: Final = FIELD_END.encode()
_KINDS: Final = frozenset(kind.encode() for kind in FIELDS)
MOST_UNITS: Final = 20_000  # of a queue of traces that are read for one message


def is_trace(hit: Hit, topics: Collection[str]) -> bool:
    """Tell whether a record is a trace of the message that was looked for.

    Of a topic that is not known as one of traces, the body tells.
    """
    message = hit.record.message
    if hit.how != KEY:
        return False
    if is_trace_topic(message.topic) or message.topic in topics:
        return True
    body = decompress(message.body, message.sys_flag, LARGEST_TRACE).body or b""
    return body.endswith(EVENT_END) and body.partition(_FIELD_END)[0] in _KINDS


def set_aside_traces(answer: Answer, before: Collection[int], topics: Collection[str]) -> None:
    """Move trace records, which are no part of a message's life, out of what was found.

    Args:
        answer: with the life of a message.
        before: physical offsets that were there before its unique key was looked for.
        topics: trace topics that clients were given, besides the usual ones.
    """
    for hit in list(answer.hits):
        offset = hit.record.physical_offset
        if is_trace(hit, topics):
            answer.traces[offset] = hit.record
        elif offset in before or hit.how != KEY:
            continue
        answer.hits.remove(hit)


def trace_rows(lookup: Lookup, answer: Answer, topics: Collection[str]) -> list[Row]:
    """Give the events of the messages of an answer, in order of time, as rows of traces.

    Of a consumption that ended, the row of its end has what its begin said, and stands for both.

    Raises:
        UnreadablePath: a queue may not be read.
    """
    from rmqtool.tables import traces  # a lookup without traces need not load numpy

    messages = [hit.record.message for hit in answer.hits]
    keys = {message.unique_key for message in messages} - {None}
    if not keys:
        return []

    def rows_of(records: Collection[LogRecord]) -> list[Row]:
        rows = (row for record in records for row in traces.trace_rows(record.message))
        return [row for row in rows if row["unique_key"] in keys]

    rows = rows_of(answer.traces.values())
    if all(row["event"] != PUB for row in rows):
        others = _around(lookup, messages[0], answer, topics)
        rows += rows_of([others[offset] for offset in others.keys() - answer.traces.keys()])
        answer.traces |= others
    return sorted(_joined(rows), key=lambda row: (row["event_time"] or "", row["physical_offset"]))


def summary(rows: list[Row]) -> str:
    """Say in one sentence who sent a message, and who consumed it and how that ended."""
    words = []
    for row in rows:
        if row["event"] == PUB:
            how = "" if row["success"] else ", without success"
            words.append(f"sent by {row['group']} from {row['client_host']}{_cost(row)}{how}")
    for row in rows:
        if row["event"] == END_TRANSACTION:
            words.append(f"transaction: {row['transaction_state']}")
        elif row["event"] == RECALL:
            words.append("recalled" if row["success"] else "recall without success")
    groups: dict[Any, list[str]] = {}
    for row in rows:
        if row["event"] in {SUB_BEFORE, SUB_AFTER}:
            groups.setdefault(row["group"], []).append(_result(row))
    for group, results in groups.items():
        times = counted(len(results), "time")
        words.append(f"delivered to {group or 'a group without a name'} {times}: "
                     f"{', '.join(results)}")  # fmt: skip
    return f"traces: {'; '.join(words)}" if words else ""


def note_traces(lookup: Lookup, answer: Answer, topics: Collection[str]) -> None:
    """Say at the first record of a message what the traces of its life say, in a sentence."""
    if words := summary(trace_rows(lookup, answer, topics)):
        first = answer.hits[0]
        first.note = "; ".join(filter(None, (first.note, words)))


def _cost(row: Row) -> str:
    return "" if row["cost_ms"] is None else f" in {row['cost_ms']:,} ms"


def _result(row: Row) -> str:
    if row["event"] == SUB_BEFORE:
        return "no result"
    return (row["return_type"] or ("SUCCESS" if row["success"] else "FAILED")) + _cost(row)


def _joined(rows: list[Row]) -> Iterator[Row]:
    """Yield rows with each begin of a consumption in the row of its end, where there is one."""
    begins = {_delivery(row): row for row in rows if row["event"] == SUB_BEFORE}
    ended = {_delivery(row) for row in rows if row["event"] == SUB_AFTER}
    for row in rows:
        delivery = _delivery(row)
        if row["event"] == SUB_AFTER and (begin := begins.get(delivery)) is not None:
            # Releases before 4.9.0 do not repeat group and time at the end.
            names = ("group", "event_time", "retry_times", "region")
            yield {**row, **{name: begin[name] for name in names if row[name] is None}}
        elif row["event"] != SUB_BEFORE or delivery not in ended:
            yield row


def _delivery(row: Row) -> tuple[object, object]:
    return row["request_id"], row["unique_key"]


def _around(
    lookup: Lookup, message: Message, answer: Answer, topics: Collection[str]
) -> dict[int, LogRecord]:
    """Read the trace records that were stored soon after a message."""
    records = {}
    names = [name for name in lookup.topics if is_trace_topic(name) or name in topics]
    for queue in (queue for name in names for queue in lookup.queues_of(name)):
        first = search_queue(
            lookup.log, queue, message.store_timestamp, Boundary.LOWER, answer.trail
        )
        for queue_offset in range(first, min(queue.span.max_offset, first + MOST_UNITS)):
            place = queue.units.find(queue_offset)
            if place is None or place.unit is None:
                continue
            record = lookup.log.record_at(place.unit.physical_offset)
            if not isinstance(record, LogRecord) or record.message.topic not in names:
                continue
            if record.message.store_timestamp > message.store_timestamp + FLUSH_MS:
                break
            records[record.physical_offset] = record
    return records
