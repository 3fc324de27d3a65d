"""The schemas of the tables: what `dump` and `validate` promise, and one row a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rmqtool.findings.finding import FINDINGS
from rmqtool.spark.options import TableName
from rmqtool.table import Column, Table, Type
from rmqtool.tables.arrow import TEXT
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.unit_tables import CONSUME_QUEUE, INDEX

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

SEGMENTS: Final = Table(
    "segments",
    "a file of the commitlog",
    (
        MESSAGES["segment"]._replace(source=None),
        Column("start", Type.INT64, "physical offset of the first byte", "bytes"),
        Column("size", Type.INT64, "length of the file", "bytes"),
        Column("allocated", Type.INT64, "bytes that the disk really holds", "bytes"),
        Column("modified_time", Type.TIME, "when the file was last written"),
        Column("records", Type.INT64, "records in the file", "records"),
        Column("record_bytes", Type.INT64, "bytes of the records", "bytes"),
        Column("filler_bytes", Type.INT64, "bytes of the blank at the end", "bytes"),
        Column("gap_bytes", Type.INT64, "bytes that hold no record", "bytes"),
        Column("unused_bytes", Type.INT64, "zeros up to the end of the file", "bytes"),
        Column("gaps", Type.INT64, "stretches that hold no record", "gaps"),
        Column("first_physical_offset", Type.INT64, "where the first record lies", "bytes"),
        Column("last_physical_offset", Type.INT64, "where the last record lies", "bytes"),
        Column("first_store_time", Type.TIME, "when the oldest message was stored"),
        Column("last_store_time", Type.TIME, "when the newest message was stored"),
        Column("unread", Type.TEXT, "why the rest of the file could not be read"),
    ),
)
TABLES: Final = {
    TableName.MESSAGES: MESSAGES,
    TableName.QUEUE_UNITS: CONSUME_QUEUE,
    TableName.INDEX_ENTRIES: INDEX,
    TableName.FINDINGS: FINDINGS,
    TableName.SEGMENTS: SEGMENTS,
}
SCHEMAS: Final = {name: table.arrow for name, table in TABLES.items()}
ENCODED: Final = pa.dictionary(pa.int32(), TEXT)
VIEWS: Final = {TableName.QUEUE_UNITS: "consume-queue", TableName.INDEX_ENTRIES: "index"}


def chosen(
    schema: pa.Schema, names: Iterable[str], encoded: Container[str] = frozenset()
) -> pa.Schema:
    """Give some columns of a table, in another order.

    Args:
        schema: of the table.
        names: of the columns.
        encoded: those whose texts are numbers of a dictionary, as a scan makes them.
    """
    fields = [schema.field(name) for name in names]
    return pa.schema([one.with_type(ENCODED) if one.name in encoded else one for one in fields])
