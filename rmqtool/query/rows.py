"""Answers as rows: the public fields of a message, and how it was found.

The fields are those of `dump`, made from one record instead of the columns of a scan.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from rmqtool.formats import properties
from rmqtool.query.explain import STEP_COLUMNS, STEPS_SHOWN, step_rows
from rmqtool.rows import Rows
from rmqtool.tables.bodies import BodyMode, BodyOptions, show
from rmqtool.tables.table import MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.query.answer import Answer, Found
    from rmqtool.query.log import LogRecord

FOUND_COLUMNS: Final = ("found_by", "matched", "stage", "note")
COLUMNS: Final = (*MESSAGES.columns, *FOUND_COLUMNS)
OPTIONAL: Final = MESSAGES.optional | {"stage", "note", "asked", "problem"}
SHOWN: Final = (
    *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "stage", "code"),
    *("body", "body_error", "tags", "keys", "size", "found_by", "matched", "unique_key"),
    *("transaction", "note"),
)
TRACE_SHOWN: Final = (
    *("store_time", "stage", "physical_offset", "topic", "queue_id", "queue_offset", "note"),
    "code",
    *("body", "body_error", "tags", "keys", "reconsume_times", "found_by"),
)
SPAN_COLUMNS: Final = ("physical_offset", "position", "length", "field", "value", "hex")
TIME_COLUMNS: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "min_offset"),
    *("max_offset", "like_broker", "difference", "unique_key", "tags", "keys", "note"),
)
TIME_OPTIONAL: Final = frozenset({"like_broker", "difference", "note"})
NO_BODY: Final = BodyOptions()


def message_row(record: LogRecord, body: BodyOptions = NO_BODY) -> dict[str, object]:
    """Give the public fields of a record, the same as `dump` gives."""
    message = record.message
    stored = message.properties
    row: dict[str, object] = {
        "physical_offset": record.physical_offset,
        "size": message.total_size,
        "segment": record.segment.path,
        "position": record.position,
        "version": message.version,
        "topic": message.topic,
        "topic_b64": _exact(message.topic_bytes),
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "transaction": message.transaction,
        "compression": message.compression,
        "born_time": iso_time(message.born_timestamp),
        "born_host": message.born_host,
        "store_time": iso_time(message.store_timestamp),
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "body_size": len(message.body),
        "tags": stored.get(properties.TAGS),
        "keys": list(properties.keys(stored)),
        "unique_key": stored.get(properties.UNIQ_KEY),
        "message_id": message.message_id,
        "properties": stored,
        "properties_b64": _exact_properties(message.properties_bytes, stored),
        "code": "CL-CRC" if record.crc_matches is False else None,
    }
    if body.mode is not BodyMode.NONE:
        row |= _body(record, body)
    return row


def _body(record: LogRecord, options: BodyOptions) -> dict[str, object]:
    body = record.message.body
    if len(body) > options.ceiling:
        return {"body_error": f"{len(body)} bytes, {options.ceiling} are the limit"}
    return show(body, record.message.sys_flag, options)._asdict()


def _exact(raw: bytes) -> str | None:
    """Give bytes that are no UTF-8 as base64."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii")
    return None


def _exact_properties(raw: bytes, stored: dict[str, str]) -> str | None:
    """Give properties as base64 where names and values do not hold all of them."""
    items = list(properties.items(raw))
    is_whole = len(items) == len(stored) and all(item.is_kept for item in items)
    return _exact(raw) if is_whole else base64.b64encode(raw).decode("ascii")


def found_row(found: Found, body: BodyOptions = NO_BODY) -> dict[str, object]:
    """Give the row of one record that was found."""
    return message_row(found.record, body) | {
        "found_by": found.found_by,
        "matched": found.how or None,
        "stage": found.stage or None,
        "note": found.note or None,
    }


def message_rows(answer: Answer, body: BodyOptions = NO_BODY) -> Rows:
    """Give the messages of one answer."""
    is_trace = any(one.stage for one in answer.found)
    found = answer.found
    if is_trace:
        found = sorted(
            found,
            key=lambda one: (one.record.message.store_timestamp, one.record.physical_offset),
        )
    rows = [found_row(one, body) for one in found]
    return Rows(COLUMNS, [rows], TRACE_SHOWN if is_trace else SHOWN, "messages", OPTIONAL)


def batch_rows(answers: Iterable[Answer], body: BodyOptions = NO_BODY) -> Rows:
    """Give the messages of many answers, with a row for each request that has none."""
    columns = ("asked", *COLUMNS, "problem")
    return Rows(columns, _batch_chunks(answers, body), ("asked", *SHOWN, "problem"), "messages",
                OPTIONAL)  # fmt: skip


def _batch_chunks(
    answers: Iterable[Answer], body: BodyOptions
) -> Iterator[list[dict[str, object]]]:
    for answer in answers:
        asked = str(answer.request)
        if not answer.found:
            where = "; ".join(answer.trail.searched)
            yield [{"asked": asked, "problem": answer.problem or f"not found; searched: {where}"}]
            continue
        yield [{"asked": asked, **found_row(found, body)} for found in answer.found]


def step_table(answer: Answer) -> Rows:
    """Give the steps of one answer."""
    rows = step_rows(str(answer.request), answer.trail)
    return Rows(STEP_COLUMNS, [rows], STEPS_SHOWN, "steps")


def time_rows(answer: Answer) -> Rows:
    """Give what a time is in each queue."""
    return Rows(TIME_COLUMNS, [answer.rows or []], (), "queues", TIME_OPTIONAL)


def span_rows(answer: Answer) -> Rows:
    """Give every byte of the records that were found, field by field."""
    from rmqtool.formats.spans import body_spans

    rows: list[dict[str, object]] = [
        {
            "physical_offset": found.record.physical_offset + span.position,
            "position": span.position,
            "length": span.length,
            "field": span.name,
            "value": span.value,
            "hex": found.record.raw[span.position : span.position + span.length].hex(" "),
        }
        for found in answer.found
        for span in body_spans(found.record.message, found.record.raw)
    ]
    return Rows(SPAN_COLUMNS, [rows], (), "bytes")
