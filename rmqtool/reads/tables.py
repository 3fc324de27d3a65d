"""The schemas of the tables: what `dump` and `validate` promise, and one row a segment."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rmqtool.findings.finding import FINDINGS
from rmqtool.findings.in_rows import SEVERITY
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.small_tables import SMALL
from rmqtool.tables.arrow import TEXT
from rmqtool.tables.file_tables import SEGMENTS
from rmqtool.tables.fleet import of_fleet
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.unit_tables import CONSUME_QUEUE, INDEX

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from rmqtool.table import Table

TABLES: Final = {
    TableName.MESSAGES: MESSAGES,
    TableName.QUEUE_UNITS: CONSUME_QUEUE,
    TableName.INDEX_ENTRIES: INDEX,
    TableName.FINDINGS: FINDINGS,
    TableName.SEGMENTS: SEGMENTS,
    **{name: small.table for name, small in SMALL.items()},
}
SCHEMAS: Final = {name: table.arrow for name, table in TABLES.items()}
CODE: Final = "code"
DAMAGE_COLUMNS: Final = {TableName.FINDINGS: SEVERITY}  # others tell of damage by a code
# Columns of segments for which no file is opened.
OF_FILES: Final = frozenset({"segment", "start", "size", "allocated", "modified_time"})
BODY, EXACT = "body", "body_b64"
ENCODED: Final = pa.dictionary(pa.int32(), TEXT)
VIEWS: Final = {TableName.QUEUE_UNITS: "consume-queue", TableName.INDEX_ENTRIES: "index"}


def unread_rows(rows: pa.RecordBatch) -> int:
    """Count the rows that tell of what could not be read, as far as the columns say."""
    if CODE not in rows.schema.names or rows.column(CODE).null_count == rows.num_rows:
        return 0
    return sum(code == FS_READ for code in rows.column(CODE).to_pylist())


def table_of(options: SourceOptions) -> Table:
    """Give the table of a read: of several stores, with the columns that tell them apart."""
    table = TABLES[options.table]
    return of_fleet(table) if options.is_fleet else table


def schema_of(options: SourceOptions) -> pa.Schema:
    """Give the columns of a read."""
    return _typed(table_of(options).arrow, options)


def schema_of_store(options: SourceOptions) -> pa.Schema:
    """Give the columns of what is read of one store."""
    return _typed(SCHEMAS[options.table], options)


def _typed(schema: pa.Schema, options: SourceOptions) -> pa.Schema:
    if not options.is_binary or options.table is not TableName.MESSAGES:
        return schema
    return schema.set(schema.get_field_index(BODY), schema.field(BODY).with_type(pa.binary()))


def with_bytes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give messages with the exact bytes of bodies in the column body."""
    exact = [text and b64decode(text) for text in rows.column(EXACT).to_pylist()]
    place = rows.schema.get_field_index(BODY)
    binary = rows.schema.field(BODY).with_type(pa.binary())
    return rows.set_column(place, binary, pa.array(exact, pa.binary()))


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
    return pa.schema(
        [field_.with_type(ENCODED) if field_.name in encoded else field_ for field_ in fields]
    )
