"""The schemas of the tables: what `dump` and `validate` promise, and one row a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rmqtool.spark.options import Table
from rmqtool.tables.arrow import TEXT, TIME
from rmqtool.tables.consume_queue import SCHEMA as QUEUE_UNITS
from rmqtool.tables.index import ENTRIES
from rmqtool.tables.record_columns import SCHEMA as MESSAGES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

FINDINGS: Final = pa.schema(
    [
        ("code", TEXT),
        ("severity", TEXT),
        ("path", TEXT),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("physical_offset", pa.int64()),
        ("expected", TEXT),
        ("actual", TEXT),
        ("message", TEXT),
        ("repair", TEXT),
    ]
)
SEGMENTS: Final = pa.schema(
    [
        ("segment", TEXT),
        ("start", pa.int64()),
        ("size", pa.int64()),
        ("allocated", pa.int64()),
        ("modified_time", TIME),
        ("records", pa.int64()),
        ("record_bytes", pa.int64()),
        ("filler_bytes", pa.int64()),
        ("gap_bytes", pa.int64()),
        ("unused_bytes", pa.int64()),
        ("gaps", pa.int64()),
        ("first_physical_offset", pa.int64()),
        ("last_physical_offset", pa.int64()),
        ("first_store_time", TIME),
        ("last_store_time", TIME),
        ("unread", TEXT),
    ]
)
SCHEMAS: Final = {
    Table.MESSAGES: MESSAGES,
    Table.QUEUE_UNITS: QUEUE_UNITS,
    Table.INDEX_ENTRIES: ENTRIES,
    Table.FINDINGS: FINDINGS,
    Table.SEGMENTS: SEGMENTS,
}
ENCODED: Final = pa.dictionary(pa.int32(), TEXT)
VIEWS: Final = {Table.QUEUE_UNITS: "consume-queue", Table.INDEX_ENTRIES: "index"}


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
