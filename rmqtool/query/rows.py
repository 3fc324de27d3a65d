"""Answers as rows: the public fields of a message, and how it was found.

The fields are those of `dump`, made from one record instead of the columns of a scan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqtool.query.explain import STEPS, step_rows
from rmqtool.rows import in_chunks
from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.single_record import NO_BODY, SingleRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.query.answer import Answer, Hit
    from rmqtool.query.log import LogRecord
    from rmqtool.rows import Chunk, Rows
    from rmqtool.tables.bodies import BodyOptions

HITS: Final = Table(
    "messages",
    "a message that was found",
    (
        *MESSAGES.columns,
        Column("found_by", Type.TEXT, "the path to the message, such as the index"),
        Column("matched", Type.TEXT, "matching field of the message, such as key"),
        Column(
            "stage", Type.TEXT, "stage in the life of the message, with --trace", is_optional=True
        ),
        Column("note", Type.TEXT, "a remark", is_optional=True),
    ),
    shown=(
        *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "stage", "code"),
        *("body", "body_error", "tags", "keys", "size", "found_by", "matched", "unique_key"),
        *("transaction", "note"),
    ),
)
TRACE: Final = replace(
    HITS,
    shown=(
        *("store_time", "stage", "physical_offset", "topic", "queue_id", "queue_offset", "note"),
        "code",
        *("body", "body_error", "tags", "keys", "reconsume_times", "found_by"),
    ),
)
_ASKED: Final = Column("asked", Type.TEXT, "the request that this row answers", is_optional=True)
_PROBLEM: Final = Column("problem", Type.TEXT, "why nothing was found", is_optional=True)
BATCH: Final = replace(
    HITS,
    meaning="a message that was found, or a request without one",
    columns=(_ASKED, *HITS.columns, _PROBLEM),
    shown=("asked", *HITS.shown, "problem"),
)
BYTES: Final = Table(
    "bytes",
    "a field of a record, byte by byte",
    (
        Column("physical_offset", Type.INT64, "where the field lies in the commitlog", "bytes"),
        Column("position", Type.INT64, "first byte of the field in the record", "bytes"),
        Column("length", Type.INT64, "length of the field", "bytes"),
        Column("field", Type.TEXT, "name of the field, or `property NAME`"),
        Column("value", Type.TEXT, "meaning of the bytes"),
        Column("hex", Type.TEXT, "the bytes as hex digits"),
    ),
)
TIMES: Final = Table(
    "queues",
    "place of a time in one queue",
    (
        MESSAGES["topic"],
        MESSAGES["queue_id"],
        Column("queue_offset", Type.INT64, "queue offset that belongs to the time"),
        MESSAGES["physical_offset"],
        MESSAGES["store_time"],
        Column(
            "min_offset", Type.INT64, "queue offset of the first message", aliases=("minOffset",)
        ),
        Column(
            "max_offset", Type.INT64, "queue offset of the next message", aliases=("maxOffset",)
        ),
        Column(
            "like_broker",
            Type.INT64,
            "queue offset that a broker would answer",
            is_optional=True,
        ),
        Column("difference", Type.TEXT, "why a broker answers otherwise", is_optional=True),
        MESSAGES["unique_key"],
        MESSAGES["tags"],
        MESSAGES["keys"],
        Column("note", Type.TEXT, "a remark", is_optional=True),
    ),
)


def message_row(record: LogRecord, body: BodyOptions = NO_BODY) -> dict[str, object]:
    """Give the public fields of a record, the same as `dump` gives."""
    code = _crc_code() if record.crc_matches is False else None
    single = SingleRecord(record.message, record.segment.path, record.position, body, code=code)
    return single.row(MESSAGES)


def hit_row(hit: Hit, body: BodyOptions = NO_BODY) -> dict[str, object]:
    """Give the row of one record that was found."""
    return message_row(hit.record, body) | {
        "found_by": hit.found_by,
        "matched": hit.how or None,
        "stage": hit.stage or None,
        "note": hit.note or None,
    }


def message_rows(answer: Answer, body: BodyOptions = NO_BODY) -> Rows:
    """Give the messages of one answer."""
    is_trace = any(hit.stage for hit in answer.hits)
    hits = answer.hits
    if is_trace:
        hits = sorted(
            hits,
            key=lambda hit: (hit.record.message.store_timestamp, hit.record.physical_offset),
        )
    rows = (hit_row(hit, body) for hit in hits)
    return (TRACE if is_trace else HITS).rows(in_chunks(rows))


def batch_rows(answers: Iterable[Answer], body: BodyOptions = NO_BODY) -> Rows:
    """Give the messages of many answers, with a row for each request that has none."""
    return BATCH.rows(_batch_chunks(answers, body))


def _batch_chunks(answers: Iterable[Answer], body: BodyOptions) -> Iterator[Chunk]:
    for answer in answers:
        asked = str(answer.request)
        if not answer.hits:
            where = "; ".join(answer.trail.searched)
            yield [{"asked": asked, "problem": answer.problem or f"not found; searched: {where}"}]
            continue
        yield from in_chunks({"asked": asked, **hit_row(hit, body)} for hit in answer.hits)


def step_table(answer: Answer) -> Rows:
    """Give the steps of one answer."""
    rows = step_rows(str(answer.request), answer.trail)
    return STEPS.rows([rows])


def time_rows(answer: Answer) -> Rows:
    """Give what a time is in each queue."""
    return TIMES.rows([answer.rows or []])


def span_rows(answer: Answer) -> Rows:
    """Give every byte of the records that were found, field by field."""
    from rmqtool.formats.annotate import body_spans

    rows = [
        BYTES.row(
            span,
            physical_offset=hit.record.physical_offset + span.position,
            field=span.name,
            hex=hit.record.raw[span.position : span.position + span.length].hex(" "),
        )
        for hit in answer.hits
        for span in body_spans(hit.record.message, hit.record.raw)
    ]
    return BYTES.rows([rows])


def _crc_code() -> str:
    from rmqtool.findings.registry_commitlog import CL_CRC  # a catalogue that few lookups need

    return CL_CRC
