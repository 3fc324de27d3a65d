"""SQL over a store: its tables and the ready-made views, on a Spark session.

1. The question is understood on empty tables: nothing is read for one that is wrong.
2. What it refers to says which tables are read, and which of their columns are decoded.
3. The tables are put in place of the empty ones, and the rows come one partition at a time.

Questions are answered and nothing is changed: a statement that writes is refused.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.spark.jobs import Job, is_connect_session
from rmqtool.spark.options import SourceOptions, Table
from rmqtool.spark.sql_values import plain, readable, unique_names
from rmqtool.spark.views import OPERATIONS, OPERATIONS_TOPIC, VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

ROWS_A_CHUNK: Final = 1000
QUESTION: Final = re.compile(
    r"(\s|--.*\n|/\*(.|\n)*?\*/|\()*"
    r"(?P<word>select|with|values|table|from|show|describe|desc|explain)\b",
    re.IGNORECASE,
)
ABOUT_NAMES: Final = frozenset({"show", "describe", "desc"})
WORD: Final = re.compile(r"\w+")
# What Spark calls a command and only tells something.
TELLING: Final = ("Show", "Describe", "Explain")
CHANGING: Final = ("Insert", "Create", "Drop", "Write", "Append", "Overwrite", "Delete", "Update")
OPERATION_COLUMNS: Final = ("queue_id", "body", "physical_offset")


@dataclass(slots=True)
class Answer:
    """The rows of a question.

    Attributes:
        columns: their names, each once.
        chunks: the rows, read while they are taken.
        tables: what is read for them.
    """

    columns: tuple[str, ...]
    chunks: Iterator[list[dict[str, Any]]]
    tables: tuple[str, ...] = field(default_factory=tuple)


class Questions:
    """Answers questions about one store on one session.

    Args:
        spark: where `rocketmq` is registered.
        source: the store, and how its rows are shown; `table` and `columns` do not count.
    """

    def __init__(self, spark: SparkSession, source: SourceOptions) -> None:
        self._spark, self._source = spark, source
        # What Spark refuses is said in our own words; pyspark would log it, with its plan.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)

    def ask(self, text: str) -> Answer:
        """Understand a question and begin to answer it.

        Raises:
            UsageError: it is no question, or not one about these tables.
            SparkFailed: Spark gave up.
        """
        text = text.strip().rstrip(";").strip()
        question = QUESTION.match(text)
        if question is None:
            reason = "only questions are answered, which begin with SELECT, WITH, VALUES, TABLE, "
            reason += "FROM, SHOW, DESCRIBE or EXPLAIN"
            raise UsageError(option="SQL", reason=reason)
        kind = question["word"].lower()
        self._refuse_changes(text)
        tables, views = mentioned(text)
        self._put(tables, views, columns=None)
        rows = self._understood(text)
        if kind in ABOUT_NAMES:
            return Answer(unique_names(rows.columns), self._chunks(rows))
        names = None if kind == "explain" else self._referred(rows)
        self._put(tables, views, columns=_columns(tables, names))
        rows = self._understood(text)
        return Answer(unique_names(rows.columns), self._chunks(rows), tables)

    def unread(self, tables: tuple[str, ...]) -> list[UnreadablePath]:
        """Look whether the files of tables can be opened; what of them cannot is no row anywhere.

        Raises:
            StoreError: the store cannot be opened.
        """
        from rmqtool.spark.plan import FilesTask, LogTask, tasks

        found: dict[str, UnreadablePath] = {}
        for name in tables:
            if name == OPERATIONS:
                continue
            for task in tasks(replace(self._source, table=Table(name), columns=None)):
                files = task.files if isinstance(task, FilesTask) else ()
                parts = (task.part.segment,) if isinstance(task, LogTask) else ()
                for one in (*files, *parts):
                    try:
                        with one.open() as file:
                            file.read_at(0, 1)
                    except UnreadablePath as error:
                        found.setdefault(str(error), error)
        return list(found.values())

    def _put(
        self,
        tables: tuple[str, ...],
        views: tuple[str, ...],
        columns: dict[str, tuple[str, ...]] | None,
    ) -> None:
        """Give names to tables, empty ones as long as nobody knows their columns, and to views."""
        for name in tables:
            rows = self._empty(name) if columns is None else self._read(name, columns[name])
            rows.createOrReplaceTempView(name)
        for name in views:
            self._spark.sql(VIEWS[name].sql).createOrReplaceTempView(name)

    def _empty(self, name: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        from rmqtool.spark.tables import SCHEMAS, chosen

        table = Table.MESSAGES if name == OPERATIONS else Table(name)
        schema = SCHEMAS[table]
        if name == OPERATIONS:
            schema = chosen(schema, OPERATION_COLUMNS)
        return self._spark.createDataFrame([], from_arrow_schema(schema))

    def _read(self, name: str, columns: tuple[str, ...]) -> DataFrame:
        source = self._source
        given = {
            "path": source.path,
            "table": name,
            "columns": ",".join(columns),
            "body": str(source.body.mode),
            "split": str(source.split),
            "pushdown": "false" if is_connect_session(self._spark) else "true",
        }
        if source.broker_conf:
            given["broker_conf"] = source.broker_conf
        if name == OPERATIONS:
            given |= {"table": "messages", "topic": OPERATIONS_TOPIC, "body": "text"}
        elif name not in {"messages", OPERATIONS}:
            del given["body"]
        reader = self._spark.read.format("rocketmq")
        return reader.options(**given).load()

    def _understood(self, text: str) -> DataFrame:
        """Let Spark understand a question; nothing is read for it yet.

        Raises:
            UsageError: Spark does not.
        """
        from pyspark.errors import PySparkException

        try:
            return self._spark.sql(text)
        except PySparkException as error:
            raise UsageError(option="SQL", reason=first_sentence(error)) from error

    def _refuse_changes(self, text: str) -> None:
        """Refuse what would write, even behind WITH or FROM.

        Raises:
            UsageError: it would.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if is_connect_session(self._spark):
            return  # nobody here can parse it; the server's own rules hold
        try:
            parser = self._spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
            plan = parser.parsePlan(text)
        except (Py4JError, PySparkException):
            return  # what Spark does not understand is said in better words when it is asked
        for node in _nodes(plan):
            name = str(node.getClass().getSimpleName())
            if name.startswith(CHANGING) or (_is_command(node) and not name.startswith(TELLING)):
                reason = f"only questions are answered, and this would change something ({name})"
                raise UsageError(option="SQL", reason=reason)

    def _referred(self, asked: DataFrame) -> set[str] | None:
        return None if is_connect_session(self._spark) else _referred(asked)

    def _chunks(self, rows: DataFrame) -> Iterator[list[dict[str, Any]]]:
        names = unique_names(rows.columns)
        job = Job(self._spark)
        with job.running():
            taken = readable(rows, names).toLocalIterator(prefetchPartitions=True)
            fields = list(rows.schema.fields)
            while some := list(islice(taken, ROWS_A_CHUNK)):
                yield [
                    {
                        name: plain(value, one.dataType)
                        for name, value, one in zip(names, row, fields, strict=True)
                    }
                    for row in some
                ]


def _columns(tables: Sequence[str], names: set[str] | None) -> dict[str, tuple[str, ...]]:
    """Say which columns of each table a question needs: others are not decoded.

    Args:
        tables: that are read.
        names: that the question refers to; None for all.
    """
    from rmqtool.spark.tables import SCHEMAS

    found: dict[str, tuple[str, ...]] = {}
    for table in tables:
        if table == OPERATIONS:
            found[table] = OPERATION_COLUMNS
            continue
        known = SCHEMAS[Table(table)].names
        some = tuple(name for name in known if names is None or name in names)
        found[table] = some or (known[0],)  # to count rows takes a column, too
    return found


def mentioned(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the tables and the views whose names a question has, those of its views, too.

    A name too many costs some time; `SHOW` tells of all.
    """
    words = {word.lower() for word in WORD.findall(text)}
    has_all = "show" in words
    views = tuple(name for name in VIEWS if has_all or name in words)
    for name in views:
        words.update(word.lower() for word in WORD.findall(VIEWS[name].sql))
    tables = tuple(str(table) for table in Table if has_all or str(table) in words)
    return (*tables, *([OPERATIONS] if OPERATIONS in words else [])), views


def first_sentence(error: Exception) -> str:
    """Give what Spark says in one line, without its plan."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _referred(asked: DataFrame) -> set[str] | None:
    """Give the names of the columns that a question refers to; None when that is not known."""
    from py4j.protocol import Py4JError

    try:
        plan = asked._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way to ask
        found = {*asked.columns, *_names(plan.output())}
        for node in _nodes(plan):
            found.update(_names(node.references().toSeq()))
    except (Py4JError, AttributeError, TypeError):
        return None
    return found


def _nodes(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - of the JVM
    """Yield the nodes of a plan, those of subqueries in it, too."""
    yield plan
    for children in (plan.children(), plan.subqueries(), plan.innerChildren()):
        for number in range(children.size()):
            child = children.apply(number)
            if hasattr(child, "children"):
                yield from _nodes(child)


def _names(attributes: Any) -> Iterator[str]:  # noqa: ANN401 - of the JVM
    for number in range(attributes.size()):
        yield str(attributes.apply(number).name())


def _is_command(node: Any) -> bool:  # noqa: ANN401 - of the JVM
    kind = node.getClass()
    while kind is not None:
        if any("Command" in str(one.getSimpleName()) for one in kind.getInterfaces()):
            return True
        kind = kind.getSuperclass()
    return False
