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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import CHECK_MAX_TIME_TOPIC, HALF_TOPICS, OP_TOPICS
from rmqtool.errors import Trouble, UnreadablePath, UsageError
from rmqtool.spark.bytes_read import BytesRead, ReadSoFar
from rmqtool.spark.jobs import Job, is_connect_session
from rmqtool.spark.options import SourceOptions, TableName
from rmqtool.spark.sql_plan import SqlPlan, changes
from rmqtool.spark.sql_values import plain, readable, unique_names
from rmqtool.spark.tables import CODE, DAMAGE_COLUMNS
from rmqtool.spark.views import OPERATIONS, VIEWS, meaning
from rmqtool.store.address import place_of
from rmqtool.store.tree import open_store
from rmqtool.store.unread import has_expired

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rmqtool.store.tree import Store

NO_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
TOLD: Final = Trouble.TOLD
ROWS_A_CHUNK: Final = 1000
FEW_ROWS: Final = 100_000  # of a LIMIT, which may be in memory
QUESTION: Final = re.compile(
    r"(\s|--.*\n|/\*(.|\n)*?\*/|\()*"
    r"(?P<word>select|with|values|table|from|show|describe|desc|explain)\b",
    re.IGNORECASE,
)
ABOUT_NAMES: Final = frozenset({"show", "describe", "desc"})
WORD: Final = re.compile(r"\w+")
OPERATION_COLUMNS: Final = (
    *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "unique_key"),
    *("properties", "body", "extent"),
)
OPERATION_TOPICS: Final = ",".join(sorted((*HALF_TOPICS, *OP_TOPICS, CHECK_MAX_TIME_TOPIC)))


@dataclass(frozen=True, slots=True)
class Reading:
    """How the tables of a question are read."""

    columns: dict[str, tuple[str, ...]]  # of each table
    # rows of a partition that are enough, which Spark tells nobody; None is all
    limit: int | None = None


@dataclass(slots=True)
class SqlAnswer:
    """The rows of a question."""

    columns: tuple[str, ...]  # their names, each once
    chunks: Iterator[list[dict[str, Any]]]  # the rows, read while they are taken
    tables: tuple[str, ...] = field(default_factory=tuple)  # what is read for them


class Questions:
    """Answers questions about one store on one session.

    Args:
        spark: where `rocketmq` is registered.
        source: the store, and how its rows are shown; `table` and `columns` do not count.
    """

    def __init__(self, spark: SparkSession, source: SourceOptions) -> None:
        self._spark, self._source = spark, source
        self._bytes_read = BytesRead(spark)
        self._listed: dict[str, None] = {}
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
            reason = f"only questions are answered, and this would change something ({change})"
            raise UsageError(option="SQL", reason=reason)
        tables, views = mentioned(text)
        if self._source.is_fleet:  # views join by physical offset and queue: of one store
            tables, views = tuple(table for table in tables if table != OPERATIONS), ()
        self._put(tables, views, None)
        rows = self._understood(text)
        if kind in ABOUT_NAMES:
            return SqlAnswer(unique_names(rows.columns), self._chunks(rows))
        plan = None if is_connect_session(self._spark) else SqlPlan.of(rows)
        self._put(tables, views, self._reading(tables, plan, has_all=kind == "explain"))
        self._listed = self._log_files() if tables else {}
        rows = self._understood(text)
        limit = None if plan is None else plan.limit
        return SqlAnswer(unique_names(rows.columns), self._chunks(rows, limit), tables)

    def read_so_far(self) -> ReadSoFar | None:
        """Give what was read for answers since the last call; None where it is not told.

        Of an answer that ends early, some MB that were read ahead may be missing.
        """
        return self._bytes_read.more()

    def damaged(self, tables: tuple[str, ...]) -> int:
        """Count the rows of tables that tell of damage, where workers do not tell of them."""
        found = 0
        for name in tables:
            if name != OPERATIONS:
                column = DAMAGE_COLUMNS.get(TableName(name), CODE)
                rows = self._read(name, Reading({name: (column,)}))
                where = f"{column} = 'damage'" if column != CODE else f"{column} IS NOT NULL"
                found += rows.where(where).count()
        return found

    def expired(self) -> list[str]:
        """Give the files of the log that a running broker has deleted since the last question."""
        left = self._log_files() if self._listed else {}
        return [path for path in self._listed if path not in left]

    def _log_files(self) -> dict[str, None]:
        """Give the paths of the log that a running broker writes; none without one."""
        with suppress(UnreadablePath):  # the question says so
            if (store := self._live_store()) is not None:
                return dict.fromkeys(one.path for one in store.commitlog)
        return {}

    def _live_store(self) -> Store | None:
        """Open the store anew where a broker runs on it; None elsewhere."""
        source = self._source
        if source.is_fleet or not place_of(source.path).is_local:
            return None
        store = open_store(source.path, source.broker_conf)
        return store if store.lock_held() else None

    def unread(self, tables: tuple[str, ...]) -> list[UnreadablePath]:
        """Look whether the files of tables can be opened; what of them cannot is no row anywhere.

        Raises:
            StoreError: the store cannot be opened.
        """
        from rmqtool.spark.fleet import FleetTask, tasks
        from rmqtool.spark.plan import FilesTask, LogTask, UnreadTask

        found: dict[str, UnreadablePath] = {}
        for name in tables:
            if name == OPERATIONS:
                continue
            for any_task in tasks(replace(self._source, table=TableName(name), columns=None)):
                task = any_task.task if isinstance(any_task, FleetTask) else any_task
                if isinstance(task, UnreadTask):
                    error = UnreadablePath(path=task.path, reason=task.reason, trouble=TOLD)
                    found.setdefault(str(error), error)
                files = task.files if isinstance(task, FilesTask) else ()
                parts = (task.part.segment,) if isinstance(task, LogTask) else ()
                for one in (*files, *parts):
                    try:
                        with one.open() as file:
                            file.read_at(0, 1)
                    except UnreadablePath as error:
                        store = self._live_store()
                        if store is None or not has_expired(store, one.path, error):
                            found.setdefault(str(error), error)
        return list(found.values())

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

        from rmqtool.spark.source import with_comments
        from rmqtool.spark.tables import chosen, schema_of, table_of

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
            given |= {"table": "messages", "topic": OPERATION_TOPICS, "body": "text"}
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
        from rmqtool.spark.tables import schema_of

        names = None if plan is None or has_all else plan.names
        found: dict[str, tuple[str, ...]] = {}
        for table in tables:
            if table == OPERATIONS:
                found[table] = OPERATION_COLUMNS
                continue
            known = schema_of(replace(self._source, table=TableName(table))).names
            some = tuple(name for name in known if names is None or name in names)
            telling = DAMAGE_COLUMNS.get(TableName(table), CODE)
            if telling in known and telling not in some and table != TableName.SEGMENTS:
                some = (*some, telling)
            found[table] = some or (known[0],)  # to count rows takes a column, too
        return Reading(found, plan.limit if plan is not None and plan.is_first_rows else None)

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
                views = () if self._source.is_fleet else VIEWS
                step = f"one of {' '.join([*TableName, *views])}"
                step += "; ready-made views are of one store" if not views else ""
            raise UsageError(option="SQL", reason=first_sentence(error), step=step) from error

    def _chunks(self, rows: DataFrame, limit: int | None = None) -> Iterator[list[dict[str, Any]]]:
        names = unique_names(rows.columns)
        shown = readable(rows, names)
        job = Job(self._spark)
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
                        name: plain(value, one.dataType)
                        for name, value, one in zip(names, row, fields, strict=True)
                    }
                    for row in some
                ]


def first_word(text: str) -> str:
    """Give the word that a question begins with; nothing of Spark is needed for that.

    Raises:
        UsageError: it is no question.
    """
    question = QUESTION.match(text)
    if question is None:
        reason = "only questions are answered, which begin with SELECT, WITH, VALUES, TABLE, "
        reason += "FROM, SHOW, DESCRIBE or EXPLAIN"
        raise UsageError(option="SQL", reason=reason)
    return question["word"].lower()


def mentioned(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the tables and the views whose names a question has, those of its views, too.

    A name too many costs some time; `SHOW` tells of all.
    """
    words = {word.lower() for word in WORD.findall(text)}
    has_all = "show" in words
    views = tuple(name for name in VIEWS if has_all or name in words)
    for name in views:
        words.update(word.lower() for word in WORD.findall(VIEWS[name].sql))
    tables = tuple(str(table) for table in TableName if has_all or str(table) in words)
    return (*tables, *([OPERATIONS] if OPERATIONS in words else [])), views


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
