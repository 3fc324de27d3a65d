"""The data source `rocketmq`: the tables of a store for Spark.

    spark.read.format("rocketmq").option("path", "/data/store").option("table", "messages").load()
    spark.read.format("rocketmq").option("table", "findings").load("/backups/*/2026-11-2?/store")

Options are in `options`; a schema that is given to the reader chooses columns, too. Planning is in
`plan`, reading in `readers`; `bytes_read` tells what was read of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from rmqtool.errors import UsageError
from rmqtool.spark.options import SourceOptions
from rmqtool.spark.tables import chosen, schema_of, table_of
from rmqtool.table import comment
from rmqtool.words import meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader

    from rmqtool.table import Table


ROWS_TOGETHER: Final = 8192
BYTES_TOGETHER: Final = 1 << 20


class RocketMQDataSource(DataSource):
    """One table of one store, or of several."""

    @classmethod
    def name(cls) -> str:
        """Give the word for `format`."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Give the columns that were asked for.

        Raises:
            UsageError: an option cannot be meant.
        """
        options = SourceOptions.of(self.options)
        schema = schema_of(options)
        names = options.columns or schema.names
        _check_names(options, names)
        return with_comments(from_arrow_schema(chosen(schema, names)), table_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of a query.

        Raises:
            UsageError: an option cannot be meant.
        """
        options = SourceOptions.of(self.options)
        names = tuple(schema.fieldNames())
        _check_names(options, names)
        return RocketMQReader(options, names)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Give the reader of a stream.

        Raises:
            UsageError: an option cannot be meant.
        """
        from rmqtool.spark.stream import RocketMQStreamReader

        options = SourceOptions.of(self.options)
        if options.is_fleet:
            raise UsageError(option="path", reason="a stream follows one store; start one for each")
        names = tuple(schema.fieldNames())
        _check_names(options, names)
        return RocketMQStreamReader(options, names)


class RocketMQReader(DataSourceReader):
    """Reads a table, a task each segment; small ones share a task. Picklable.

    What is read, options say, which belong to one DataFrame. Filters of queries are Spark's: it
    keeps one reader for all queries of a DataFrame, and tells it of filters only where there are
    some. A reader that took them would leave rows out of the next query.
    """

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        """Prepare.

        Args:
            options: of the read.
            names: columns, in order.
        """
        self.options, self.names = options, names

    def partitions(self) -> list[InputPartition]:
        """Cut the store into tasks.

        Raises:
            UsageError: a limit says nothing about the rows of the table.
            StoreError: the store cannot be opened.
        """
        from rmqtool.spark.fleet import tasks
        from rmqtool.spark.plan import packs

        return [InputPartition(pack) for pack in packs(tasks(self.options), self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task on an executor."""
        from rmqtool.spark.bytes_read import counting
        from rmqtool.spark.fleet import batches
        from rmqtool.spark.tasks import settle

        tasks = partition.value or ()  # None is Spark's stand-in for nothing to read
        expired: set[str] = set()  # as if they had been listed later; a stream tells of each
        found = (
            batch
            for task in tasks
            for batch in batches(task, self.options, self.names, expired=expired)
        )
        limit = self.options.limit
        some = together(found) if limit is None else first_rows(found, limit)
        yield from counting(some, str(self.options.table))
        settle()


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the rows of small batches in fewer: each costs Java some, and small segments have many.

    Args:
        batches: of one schema.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_TOGETHER or size >= BYTES_TOGETHER:
            yield from _joined(waiting)
            waiting, rows, size = [], 0, 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if len(batches) == 1:
        yield from batches
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Pass so many rows on, and ask for no more."""
    left = limit
    for batch in batches if left > 0 else ():
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def with_comments(schema: StructType, table: Table) -> StructType:
    """Give columns with what they mean, as `DESCRIBE` and catalogues show it."""
    commented = [
        StructField(
            field_.name, field_.dataType, field_.nullable, {"comment": comment(table[field_.name])}
        )
        for field_ in schema.fields
    ]
    return StructType(commented)


def _check_names(options: SourceOptions, names: Iterable[str]) -> None:
    known = schema_of(options).names
    for name in names:
        if name not in known:
            reason = f"{options.table} has no column {name!r}; {meant(name, known)}"
            raise UsageError(option="columns", reason=reason)
