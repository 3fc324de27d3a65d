"""The data source `rocketmq`: the tables of a store for Spark.

    spark.read.format("rocketmq").option("path", "/data/store").option("table", "messages").load()
    spark.read.format("rocketmq").option("table", "findings").load("/backups/*/2026-11-2?/store")
    spark.sql("CREATE TABLE messages USING rocketmq LOCATION '/data/store'")

Options are in `options`; a schema that is given to the reader chooses columns, too, whatever the
case of their names. Planning is in
`plan`, reading in `readers`; `bytes_read` tells what was read of files.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from rmqtool.errors import UsageError
from rmqtool.findings.in_rows import damaged_rows
from rmqtool.plural import meant
from rmqtool.reads.batches import first_rows, labelled, together
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.questions import ReadSoFar
from rmqtool.reads.tables import chosen, schema_of, table_of, unread_rows
from rmqtool.store.place import metered
from rmqtool.table import comment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader

    from rmqtool.table import Table


class Counters(NamedTuple):
    """Accumulators of a session: what all its queries have read."""

    bytes: Accumulator[int]  # of files
    damaged: Accumulator[int]  # rows that tell of damage
    unread: Accumulator[int]  # of these, rows that tell of what could not be read

    def add(self, read: ReadSoFar) -> None:
        """Count, in a task: Spark adds it up once the task is done."""
        for counter, more in zip(self, read, strict=True):
            counter.add(more)


class RocketMQDataSource(DataSource):
    """One table of one store, or of several."""

    counters: Counters | None = None  # of the session that it is registered in

    @classmethod
    def name(cls) -> str:
        """Give the word for `format`."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Give the columns that were asked for. Raises UsageError: an option cannot be meant."""
        options = options_of(self.options)
        schema = schema_of(options)
        names = known_names(options, options.columns or schema.names)
        given = with_comments(from_arrow_schema(chosen(schema, names)), table_of(options))
        return keeping(given, self.options) if "provider" in self.options else given

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of a query. Raises UsageError: an option cannot be meant."""
        options = options_of(self.options or kept(schema))
        labels = tuple(schema.fieldNames())
        reader = RocketMQReader(options, _checked(options, schema), labels)
        reader.counters = self.counters
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Give the reader of a stream. Raises UsageError: an option cannot be meant."""
        from rmqtool.spark.fleet_stream import FleetStreamReader
        from rmqtool.spark.stream import RocketMQStreamReader

        options = options_of(self.options)
        labels = tuple(schema.fieldNames())
        reader = FleetStreamReader if options.is_fleet else RocketMQStreamReader
        return reader(options, _checked(options, schema), labels)


class RocketMQReader(DataSourceReader):
    """Reads a table, a task each segment; small ones share a task. Picklable.

    What is read, options say, which belong to one DataFrame. Filters of queries are Spark's: it
    keeps one reader for all queries of a DataFrame, and tells it of filters only where there are
    some. A reader that took them would leave rows out of the next query.
    """

    def __init__(
        self, options: SourceOptions, names: tuple[str, ...], labels: tuple[str, ...] = ()
    ) -> None:
        """Prepare.

        Args:
            options: of the read.
            names: columns, in order.
            labels: how the query writes them; nothing where it writes them so.
        """
        self.options, self.names, self.labels = options, names, labels or names
        self.counters: Counters | None = None

    def partitions(self) -> list[InputPartition]:
        """Cut the store into tasks.

        Raises:
            UsageError: a limit says nothing about the rows of the table.
            StoreError: the store cannot be opened.
        """
        from rmqtool.reads.fleet import tasks
        from rmqtool.reads.plan import packs

        return [InputPartition(pack) for pack in packs(tasks(self.options), self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task on an executor."""
        from rmqtool.reads.fleet import batches
        from rmqtool.spark.tasks import settle

        tasks = partition.value or ()  # None is Spark's stand-in for nothing to read
        expired: set[str] = set()  # as if they had been listed later; a stream tells of each
        read = (
            batch
            for task in tasks
            for batch in batches(task, self.options, self.names, expired=expired)
        )
        limit = self.options.limit
        some = together(read) if limit is None else first_rows(read, limit)
        counted = counting(some, str(self.options.table), self.counters)
        yield from labelled(counted, self.labels)
        settle()


def with_comments(schema: StructType, table: Table) -> StructType:
    """Give columns with what they mean, as `DESCRIBE` and catalogues show it."""
    commented = [
        StructField(
            field_.name, field_.dataType, field_.nullable, {"comment": comment(table[field_.name])}
        )
        for field_ in schema.fields
    ]
    return StructType(commented)


# What Spark's catalogue adds to the options of a table: where it is, whose, of which source. They
# come with the question which columns there are. A query of that table comes without any, so the
# columns keep them.
OF_CATALOGUE: Final = frozenset({"location", "owner", "provider", "external"})
COPIED: Final = "option."  # begins the second copy of each option
FILE_SCHEME: Final = re.compile("^file:(//)?(?=/)")
KEPT: Final = "rocketmq"  # of the first column's metadata


def keeping(schema: StructType, given: Mapping[str, str]) -> StructType:
    """Give a schema that keeps options."""
    first, *others = schema.fields
    metadata = {**first.metadata, KEPT: json.dumps(dict(given))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def kept(schema: StructType) -> dict[str, str]:
    """Give the options that a schema keeps.

    Raises:
        UsageError: there are none.
    """
    for column in schema.fields:
        if KEPT in column.metadata:
            return dict(json.loads(column.metadata[KEPT]))
    reason = "is missing; a table of Spark's catalogue is created without a list of its columns"
    raise UsageError(option="path", reason=reason)


def options_of(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of a read or of a table of Spark's catalogue.

    Raises:
        UsageError: one is not known, or cannot be meant.
    """
    texts = {
        name: text
        for name, text in given.items()
        if name.lower() not in OF_CATALOGUE and not name.lower().startswith(COPIED)
    }
    path = texts.get("path", "")
    if (place := FILE_SCHEME.sub("", path)) != path:
        texts["path"] = unquote(place)
    return SourceOptions.of(texts)


def known_names(options: SourceOptions, names: Iterable[str]) -> tuple[str, ...]:
    """Give the columns of a table by names in whatever case, as Spark takes them.

    Raises:
        UsageError: there is no such column.
    """
    known = {name.lower(): name for name in schema_of(options).names}
    columns = []
    for name in names:
        if name.lower() not in known:
            reason = f"{options.table} has no column {name!r}; {meant(name, known.values())}"
            raise UsageError(option="columns", reason=reason)
        columns.append(known[name.lower()])
    return tuple(columns)


def _checked(options: SourceOptions, schema: StructType) -> tuple[str, ...]:
    """Give the columns of a schema.

    Raises:
        UsageError: there is no such column, or it has another type.
    """
    names = known_names(options, schema.fieldNames())
    own = from_arrow_schema(chosen(schema_of(options), names))
    for name, wanted, given in zip(names, own.fields, schema.fields, strict=True):
        if wanted.dataType != given.dataType:
            types = wanted.dataType.simpleString(), given.dataType.simpleString()
            reason = f"{name} is {types[0].upper()}, and not {types[1].upper()}"
            raise UsageError(option="schema", reason=reason)
    return names


# What a query reads: bytes of files, and rows that tell of damage; executors tell, a session adds.
#
# Spark's Python data sources have no metrics of their own. What workers log, a session keeps where
# `spark.sql.pyspark.worker.logging.enabled` is set (Spark 4.1 and later), on any cluster:
#
#     SELECT sum(context['bytes_read']) FROM python_worker_logs() WHERE logger =
# 'rmqtool.bytes_read'


LOGGER: Final = "rmqtool.bytes_read"
COUNT: Final = "bytes_read"
DAMAGED: Final = "damaged"
UNREAD: Final = "unread"
SETTING: Final = "spark.sql.pyspark.worker.logging.enabled"
TOTAL: Final = f"""
SELECT coalesce(sum(CAST(context['{COUNT}'] AS BIGINT)), 0),
  coalesce(sum(CAST(context['{DAMAGED}'] AS BIGINT)), 0),
  coalesce(sum(CAST(context['{UNREAD}'] AS BIGINT)), 0)
FROM python_worker_logs() WHERE logger = '{LOGGER}'
"""  # noqa: S608 - words of ours
WORTH: Final = 1 << 20  # bytes: a line for each window, not for each batch
SHARE: Final = 8  # of what a task has read before; the rest is in the line at its end
# Java reads lines that it keeps in a method that calls itself for each, until something else comes
# (PythonWorkerLogCapture#read, Spark 4.1 to 4.3). After some 13,000 its thread was gone, and
# workers waited for it without end. So a space comes now and then; executors have it on stderr.
LINES_BEFORE_SPACE: Final = 50
_lines = count()


def counting(
    batches: Iterable[pa.RecordBatch], table: str, counters: Counters | None = None
) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and log what is read of files for them, and what is damage, before each.

    Args:
        batches: that read files as they are asked for.
        table: which they are of.
        counters: take the same; None where nobody registered the source.
    """
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    is_kept = logger.hasHandlers()  # where nobody keeps it, it is dropped
    damaged = unread = 0
    reported = ReadSoFar(0)
    with metered() as meter:
        for batch in batches:
            damaged, unread = damaged + damaged_rows(batch), unread + unread_rows(batch)
            now = ReadSoFar(meter.bytes, damaged, unread)
            if is_kept and now.bytes - reported.bytes >= max(WORTH, reported.bytes // SHARE):
                _tell(logger, since(reported, now), table)
                reported = now
            yield batch
        now = ReadSoFar(meter.bytes, damaged, unread)
        if is_kept:
            _tell(logger, since(reported, now), table)
        if counters is not None:
            counters.add(now)


def since(before: ReadSoFar, now: ReadSoFar) -> ReadSoFar:
    """Give what was read in between."""
    return ReadSoFar(*(number - then for number, then in zip(now, before, strict=True)))


def _tell(logger: logging.Logger, read: ReadSoFar, table: str) -> None:
    context = {COUNT: str(read.bytes), DAMAGED: str(read.damaged), UNREAD: str(read.unread)}
    context["table"] = table
    logger.info("read %d bytes of the store", read.bytes, extra={"context": context})
    if next(_lines) % LINES_BEFORE_SPACE == 0 and sys.__stdout__ is not None:
        sys.__stdout__.write(" ")  # what Java reads; sys.stdout is another one in a worker
        sys.__stdout__.flush()


class BytesRead:
    """Adds up what the workers of a session have read.

    Args:
        spark: whose workers are to tell it from now on.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.errors import PySparkException

        self._spark: SparkSession | None = spark
        self._before = ReadSoFar(0)
        try:
            spark.conf.set(SETTING, "true")
        except PySparkException:
            self._spark = None
        self.more()  # a session that is shared has read before

    def more(self) -> ReadSoFar | None:
        """Give what was read since the last call; None where this Spark does not tell."""
        from pyspark.errors import PySparkException

        if self._spark is None:
            return None
        try:
            (total,) = (ReadSoFar(*row) for row in self._spark.sql(TOTAL).collect())
        except PySparkException:
            return None
        before, self._before = self._before, total
        return since(before, total)
