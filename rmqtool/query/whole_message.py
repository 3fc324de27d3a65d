"""Messages for somebody who looks around: what is at a place, and all of one message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import claimed_places
from rmqtool.formats import java, properties
from rmqtool.formats.annotate import body_spans
from rmqtool.query.log import LogRecord
from rmqtool.query.rows import message_row
from rmqtool.tables.bodies import BodyMode, BodyOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.log import Log
    from rmqtool.query.sources import Sources
    from rmqtool.rows import Row
    from rmqtool.store.record_heads import RecordHead

PLACE: Final = ("topic", "queue_id", "queue_offset")
LINE_BYTES: Final = 8  # with the longest field and a value they fit 80 columns
LARGEST_BODY: Final = 256 << 10  # bytes; a command shows more


def message_fields(sources: Sources, at: int, mode: BodyMode) -> Iterator[tuple[str, object]]:
    """Yield the fields of a message, what points to it, and its body.

    Raises:
        UnreadablePath: a file may not be read.
    """
    record = sources.log.record_at(at)
    if not isinstance(record, LogRecord):
        yield "note", record.reason
        return
    row = message_row(record, BodyOptions(mode, ceiling=LARGEST_BODY))
    body, twin = row.pop("body"), row.pop("body_b64")
    row.pop("properties")
    yield from row.items()
    yield "verified", record.verified
    yield from ((f"property {name}", value) for name, value in record.message.properties.items())
    yield from pointers(sources, record)
    for line in _laid_out(str(body or "")).split("\n"):
        yield "body", line
    if body is None or mode is not BodyMode.TEXT:
        yield "body_b64", twin


def _laid_out(body: str) -> str:
    """Give a body that is JSON with a line for each value; any other as it is."""
    if body[:1] not in {"{", "["}:
        return body
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body


def pointers(sources: Sources, record: LogRecord) -> Iterator[tuple[str, str]]:
    """Yield what points to a record, or ought to: kind, and place with what is wrong there.

    Raises:
        UnreadablePath: a queue may not be read.
    """
    for topic, queue_id, queue_offset, _ in claimed_places(record.message):
        yield "queue unit", _unit(sources, (topic, queue_id, queue_offset), record)
    keys = [*properties.keys(record.message.properties), record.message.unique_key or ""]
    for key in dict.fromkeys(filter(None, keys)):
        for chain in sources.index.chains(java.key_hash(record.message.topic, key)):
            for entry in chain.entries:
                if entry.physical_offset == record.physical_offset:
                    yield "index entry", f"{key}: {chain.path} entry {entry.number}"


def _unit(sources: Sources, place: tuple[str, int, int], record: LogRecord) -> str:
    """Name the unit of a place of a queue, and what it says where that is something else."""
    topic, queue_id, queue_offset = place
    queue = sources.queue(topic, queue_id)
    unit = queue.units.find(queue_offset) if queue is not None else None
    name = f"{topic} {queue_id} {queue_offset}"
    if unit is None:
        return f"{name}: missing"
    where = f"{name}: {unit.place.path} at {unit.place.position}"
    if unit.unit is None:
        return f"{where}: {unit.problem}"
    other = unit.unit.physical_offset
    return where if other == record.physical_offset else f"{where}: names the record at {other}"


def places_after(log: Log, physical_offset: int) -> Iterator[int]:
    """Yield the physical offsets of records after one, and of bytes between two that are none.

    Raises:
        UnreadablePath: a file may not be read.
    """
    at, header = physical_offset, log.files[-1].entry_header if log.files else 0
    while (following := _next_record(log, max(_end_of(log, at), at + 1))) is not None:
        end = _end_of(log, at)
        if at < end and following.physical_offset > end + header:
            yield end
        at = following.physical_offset
        yield at


def _next_record(log: Log, physical_offset: int) -> RecordHead | None:
    """Find the next record, also past a long stretch without one: in the files that follow."""
    starts = (
        segment.start for segment in log.segments if physical_offset < segment.start < log.end
    )
    heads = (log.next_record(start) for start in (physical_offset, *starts))
    return next(filter(None, heads), None)


def _end_of(log: Log, physical_offset: int) -> int:
    """Give the end of the record at an offset; without one, the offset."""
    head = log.reader.head_at(physical_offset)
    return physical_offset if head is None else head.end


def log_row(sources: Sources, place: int, following: int | None) -> Row:
    """Give the row of a record, or of the bytes up to the next one.

    Raises:
        UnreadablePath: a file may not be read.
    """
    record = sources.log.record_at(place)
    if isinstance(record, LogRecord):
        return message_row(record)
    return {
        "physical_offset": place,
        "size": None if following is None else following - place,
        "note": record.reason,
        "severity": None if record.is_blank else "damage",
    }


def queue_row(sources: Sources, topic: str, queue_id: int, queue_offset: int) -> Row:
    """Give the row of the message at a place of a queue; where there is none, why.

    Raises:
        UnreadablePath: a file may not be read.
    """
    place = dict(zip(PLACE, (topic, queue_id, queue_offset), strict=True))
    queue = sources.queue(topic, queue_id)
    unit = queue.units.find(queue_offset) if queue is not None else None
    if unit is None or unit.unit is None:
        reason = unit.problem if unit is not None else "the queue has no unit here"
        return place | {"note": reason, "severity": "damage"}
    at = unit.unit.physical_offset
    record = sources.log.record_at(at)
    if isinstance(record, LogRecord):
        return message_row(record) | place
    return place | {"physical_offset": at, "note": record.reason, "severity": "damage"}


def hex_lines(sources: Sources, at: int) -> Iterator[Row]:
    """Yield lines of the bytes of a record, each with the number of its field.

    Raises:
        UnreadablePath: the file may not be read.
    """
    record = sources.log.record_at(at)
    if not isinstance(record, LogRecord):
        yield {"value": record.reason}
        return
    for number, span in enumerate(body_spans(record.message, record.raw)):
        for start in range(span.position, span.position + span.length, LINE_BYTES):
            end = min(start + LINE_BYTES, span.position + span.length)
            names = (span.name, span.value) if start == span.position else ("", "")
            yield {
                "position": start,
                "hex": record.raw[start:end].hex(" "),
                **dict(zip(("field", "value"), names, strict=True)),
                "number": number,
            }
