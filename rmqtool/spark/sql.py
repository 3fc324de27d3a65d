"""SQL over a store: its tables and the ready-made views, on a Spark session.

1. The question is understood on empty tables: nothing is read for one that is wrong.
2. What it refers to says which tables are read, and which of their columns are decoded.
3. The tables are put in place of the empty ones, and the rows come one partition at a time.

Questions are answered and nothing is changed: a statement that writes is refused.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.functions import col, unix_micros
from pyspark.sql.types import DataType, TimestampType

from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.in_rows import tells_of_damage
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.questions import (
    ABOUT_NAMES,
    OPERATION_COLUMNS,
    OPERATION_TOPICS,
    ReadSoFar,
    SqlAnswer,
    StoreFiles,
    first_word,
    mentioned,
    names_of,
    refused,
    unique_names,
)
from rmqtool.reads.tables import CODE, DAMAGE_COLUMNS
from rmqtool.reads.views import OPERATIONS, VIEWS, meaning
from rmqtool.spark.jobs import Job, is_connect_session
from rmqtool.spark.source import BytesRead
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession


NO_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
ROWS_A_CHUNK: Final = 1000
FEW_ROWS: Final = 100_000  # of a LIMIT, which may be in memory


@dataclass(frozen=True, slots=True)
class Reading:
    """How the tables of a question are read."""

    columns: dict[str, tuple[str, ...]]  # of each table
    # rows of a partition that are enough, which Spark tells nobody; None is all
    limit: int | None = None


class SparkQuestions:
    """Answers questions about one store on one session.

    Args:
        spark: where `rocketmq` is registered.
        source: the store, and how its rows are shown; `table` and `columns` do not count.
    """

    def __init__(self, spark: SparkSession, source: SourceOptions) -> None:
        self._spark, self._source = spark, source
        self._bytes_read = BytesRead(spark)
        self.files = StoreFiles(source)
        self.advance: Callable[[int], None] = lambda _: None  # executors tell at the end
        # What Spark refuses is said in our own words; pyspark would log it, with its plan.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)

    def ask(self, text: str) -> SqlAnswer:
        """Understand a question and begin to answer it.

        Raises:
            UsageError: it is no question, or not one about these tables.
            SparkFailed: Spark gave up.
        """
        text = text.strip().rstrip(";").strip()
        kind = first_word(text)
        if change := changes(self._spark, text):
            raise refused(change)
        tables, views = mentioned(text)
        if self._source.is_fleet:  # views join by physical offset and queue: of one store
            for name in (*views, OPERATIONS):  # one of the same session's question of one store
                self._spark.catalog.dropTempView(name)
            tables, views = tuple(table for table in tables if table != OPERATIONS), ()
        self._put(tables, views, None)
        rows = self._understood(text)
        if kind in ABOUT_NAMES:
            return SqlAnswer(unique_names(rows.columns), self._chunks(rows, text))
        plan = None if is_connect_session(self._spark) else SqlPlan.of(rows)
        self._put(tables, views, self._reading(tables, plan, has_all=kind == "explain"))
        self.files.begin(tables)
        rows = self._understood(text)
        limit = None if plan is None else plan.limit
        return SqlAnswer(unique_names(rows.columns), self._chunks(rows, text, limit), tables)

    def read_so_far(self) -> ReadSoFar | None:
        """Give what was read for answers since the last call; None where it is not told.

        Of an answer that ends early, some MB that were read ahead may be missing.
        """
        return self._bytes_read.more()

    def damaged(self, tables: tuple[str, ...]) -> int:
        """Count the rows of tables that tell of damage, where workers do not tell of them."""
        count = 0
        for name in tables:
            if name != OPERATIONS:
                column = DAMAGE_COLUMNS.get(TableName(name), CODE)
                rows = self._read(name, Reading({name: (column,)}))
                coded = rows.where(f"{column} IS NOT NULL").groupBy(column)
                for word, number in coded.count().collect():
                    is_code = column == CODE
                    count += number * (
                        tells_of_damage(word) if is_code else word == Severity.DAMAGE
                    )
        return count

    def _put(
        self,
        tables: tuple[str, ...],
        views: tuple[str, ...],
        reading: Reading | None,
    ) -> None:
        """Give names to tables, empty ones as long as nobody knows their columns, and to views."""
        for name in tables:
            rows = self._empty(name) if reading is None else self._read(name, reading)
            rows.createOrReplaceTempView(name)
        for name in views:
            commented(self._spark.sql(VIEWS[name].sql)).createOrReplaceTempView(name)

    def _empty(self, name: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        from rmqtool.reads.tables import chosen, schema_of, table_of
        from rmqtool.spark.source import with_comments

        table = TableName.MESSAGES if name == OPERATIONS else TableName(name)
        source = replace(self._source, table=table)
        schema = schema_of(source)
        if name == OPERATIONS:
            schema = chosen(schema, OPERATION_COLUMNS)
        commented = with_comments(from_arrow_schema(schema), table_of(source))
        return self._spark.createDataFrame([], commented)

    def _read(self, name: str, reading: Reading) -> DataFrame:
        source = self._source
        given = {
            "table": name,
            "columns": ",".join(reading.columns[name]),
            "body": str(source.body.mode),
            "split": str(source.split),
        }
        if source.is_fleet:
            given["paths"] = json.dumps(source.paths)
        else:
            given["path"] = source.path
        if source.stores_file is not None:
            given["stores_file"] = source.stores_file
        if source.broker_conf:
            given["broker_conf"] = source.broker_conf
        if name == OPERATIONS:
            given |= {"table": "messages", "topic": ",".join(OPERATION_TOPICS), "body": "text"}
        elif name != "messages":
            del given["body"]
        if reading.limit is not None:
            given["limit"] = str(reading.limit)
        reader = self._spark.read.format("rocketmq")
        return reader.options(**given).load()

    def _reading(self, tables: Sequence[str], plan: SqlPlan | None, *, has_all: bool) -> Reading:
        """Say how tables are read for a question: columns that it does not need are not decoded.

        Args:
            tables: that are read.
            plan: of the question; None where nobody can look at it.
            has_all: every column is read.
        """
        from rmqtool.reads.tables import schema_of

        names = None if plan is None or has_all else plan.names
        columns: dict[str, tuple[str, ...]] = {}
        for table in tables:
            if table == OPERATIONS:
                columns[table] = OPERATION_COLUMNS
                continue
            known = schema_of(replace(self._source, table=TableName(table))).names
            some = tuple(name for name in known if names is None or name in names)
            telling = DAMAGE_COLUMNS.get(TableName(table), CODE)
            if telling in known and telling not in some and table != TableName.SEGMENTS:
                some = (*some, telling)
            columns[table] = some or (known[0],)  # to count rows takes a column, too
        return Reading(columns, plan.limit if plan is not None and plan.is_first_rows else None)

    def _understood(self, text: str) -> DataFrame:
        """Let Spark understand a question; nothing is read for it yet.

        Raises:
            UsageError: Spark does not.
        """
        from pyspark.errors import PySparkException

        try:
            return self._spark.sql(text)
        except PySparkException as error:
            step = ""
            if error.getCondition() == NO_TABLE:
                step = names_of(self._source)
            raise UsageError(option="SQL", reason=first_sentence(error), step=step) from error

    def _chunks(
        self, rows: DataFrame, text: str, limit: int | None = None
    ) -> Iterator[list[dict[str, Any]]]:
        names = unique_names(rows.columns)
        shown = readable(rows, names)
        job = Job(self._spark, text)
        with job.running():
            taken: Iterator[Any]
            if limit is not None and limit <= FEW_ROWS:
                taken = iter(shown.take(limit))  # of one partition, then of more, until it has all
            else:
                taken = shown.toLocalIterator(prefetchPartitions=True)
            fields = list(rows.schema.fields)
            while some := list(islice(taken, ROWS_A_CHUNK)):
                yield [
                    {
                        name: plain(value, field.dataType)
                        for name, value, field in zip(names, row, fields, strict=True)
                    }
                    for row in some
                ]


def commented(rows: DataFrame) -> DataFrame:
    """Give the rows of a view with what its columns mean, as `DESCRIBE` shows it."""
    from pyspark.sql.functions import col

    return rows.select(
        *(col(name).alias(name, metadata={"comment": meaning(name)}) for name in rows.columns)
    )


def first_sentence(error: Exception) -> str:
    """Give what Spark says in one line, without its plan."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# Values of Spark's rows as plain Python: times as text, structures as mappings.


def readable(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Give times as microseconds: Spark's own would depend on this machine's time zone."""
    named = rows.toDF(*names)
    columns = []
    for name, typed in zip(names, rows.schema.fields, strict=True):
        column = col(f"`{name.replace('`', '``')}`")
        is_time = isinstance(typed.dataType, TimestampType)
        columns.append(unix_micros(column).alias(name) if is_time else column)
    return named.select(*columns)


def plain(value: Any, kind: DataType | None = None) -> Any:  # noqa: ANN401 - whatever SQL gives
    """Give a value of a row as what is written everywhere else."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return iso_time(value // 1000) if isinstance(kind, TimestampType) else value
    if isinstance(value, datetime):  # within an array or a structure, in local time
        moment = value.astimezone(UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if isinstance(value, date | Decimal | timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return _container(value)


def _container(value: Any) -> Any:  # noqa: ANN401 - whatever SQL gives
    if isinstance(value, Row):
        return {name: plain(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {str(plain(name)): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


# What Spark makes of a question, as far as we need to know it: its plan, looked at from here.


CHANGING: Final = ("Insert", "Create", "Drop", "Write", "Append", "Overwrite", "Delete", "Update")
ANALYZED: Final = "== Analyzed Logical Plan =="
NODE: Final = re.compile(r"^[\s:+-]*'?(\w+)", re.MULTILINE)  # a line of a plan
TAKING: Final = frozenset({"SubqueryAlias", "View", "Project", "GlobalLimit", "LocalLimit"})


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """What a question refers to."""

    names: frozenset[str]  # of all columns, whatever table they are of
    limit: int | None = None  # rows that the last step takes at most; None without
    is_first_rows: bool = False  # whether it takes the first rows that there are, of a whole table

    @classmethod
    def of(cls, asked: DataFrame) -> SqlPlan | None:
        """Look at the plan of a question; None when that cannot be done."""
        from py4j.protocol import Py4JError

        try:
            plan = asked._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way to ask
            return cls._of(plan, frozenset(asked.columns))
        except (Py4JError, AttributeError, TypeError):
            return None

    @classmethod
    def _of(cls, plan: Any, names: frozenset[str]) -> SqlPlan:  # noqa: ANN401 - of the JVM
        columns = {*names, *_names(plan.output())}
        leaves = 0
        for node in _nodes(plan):
            columns.update(_names(node.references().toSeq()))
            leaves += not node.children().size()
        limit = _limit_of(plan)
        is_first_rows = limit is not None and leaves == 1
        is_first_rows = is_first_rows and not _below(plan, TAKING).children().size()
        return cls(frozenset(columns), limit, is_first_rows)


def changes(spark: SparkSession, text: str) -> str:
    """Name what a statement would change, even behind WITH or FROM; empty when it only asks."""
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.sql(f"EXPLAIN EXTENDED {text}").collect()
    except PySparkException:
        return ""  # not understood; of EXPLAIN, which changes nothing, there is no EXPLAIN
    parsed = str(row[0]).partition(ANALYZED)[0]
    return next((name for name in NODE.findall(parsed) if name.startswith(CHANGING)), "")


def _nodes(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - of the JVM
    """Yield the nodes of a plan, those of subqueries in it, too."""
    yield plan
    for children in (plan.children(), plan.subqueries(), plan.innerChildren()):
        for number in range(children.size()):
            child = children.apply(number)
            if hasattr(child, "children"):
                yield from _nodes(child)


def _name(node: Any) -> str:  # noqa: ANN401 - of the JVM
    return str(node.getClass().getSimpleName())


def _limit_of(plan: Any) -> int | None:  # noqa: ANN401 - of the JVM
    is_limit = _name(plan) == "GlobalLimit" and _name(plan.limitExpr()) == "Literal"
    return int(plan.limitExpr().value()) if is_limit else None


def _below(node: Any, steps: frozenset[str]) -> Any:  # noqa: ANN401 - of the JVM
    """Give what lies below steps of some kinds."""
    while _name(node) in steps:
        node = node.children().apply(0)
    return node


def _names(attributes: Any) -> Iterator[str]:  # noqa: ANN401 - of the JVM
    for number in range(attributes.size()):
        yield str(attributes.apply(number).name())
