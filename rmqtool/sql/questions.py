"""Questions about a store, answered by DuckDB in this process.

DuckDB has no files and no extensions: whatever a store contains and whoever asks, it reads the
tables here and writes nothing, but for rows that do not fit into memory, which it puts down in a
private directory of this process.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import pyarrow as pa

from rmqtool.engine import default_jobs
from rmqtool.errors import RmqtoolError, UsageError
from rmqtool.reads.options import TableName
from rmqtool.reads.questions import (
    ABOUT_NAMES,
    SqlAnswer,
    StoreFiles,
    first_word,
    mentioned,
    names_of,
    refused,
    table_source,
    unique_names,
)
from rmqtool.reads.tables import table_of
from rmqtool.reads.views import OPERATIONS, VIEWS, meaning
from rmqtool.sql.dialect import HELPERS, MACROS
from rmqtool.sql.scan import ScannedTable, Tally
from rmqtool.table import comment
from rmqtool.times import iso_time
from rmqtool.writing.temporary_copy import job_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.reads.options import SourceOptions
    from rmqtool.reads.questions import ReadSoFar

ROWS_A_CHUNK: Final = 1000
STOPS_AGAIN: Final = 0.05  # seconds between two attempts to stop a question
MEMORY: Final = 1 << 30  # bytes of rows in DuckDB; more goes to the disk
DISK: Final = 16 << 30
LOCKED: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "allow_persistent_secrets": "false",
    "preserve_insertion_order": "true",
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # as Spark
}
ASKING: Final = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
EXPLAIN: Final = re.compile(
    r"explain(\s+analyze)?(\s*\([^)]*\))?\s+(?P<of>.*)", re.IGNORECASE | re.DOTALL
)
DESCRIBED: Final = re.compile(r"(?:describe|desc)\s+(?:table\s+)?(\w+)", re.IGNORECASE)
DESCRIPTION: Final = ("col_name", "data_type", "comment")  # names of Spark


class SqlFailed(RmqtoolError):
    """DuckDB understood a question and could not answer it."""

    def __init__(self, *, reason: str, step: str = "") -> None:
        super().__init__()
        self.reason, self.step = reason, step

    def __str__(self) -> str:
        return f"SQL: {self.reason}"

    @property
    def next_step(self) -> str:
        """What was named."""
        return self.step


class LocalQuestions:
    """Answers questions about one store, or several, in this process.

    Args:
        source: the store, and how its rows are shown; `table` and `columns` do not count.
        zone: of times without an offset.
    """

    def __init__(
        self,
        source: SourceOptions,
        zone: str = "UTC",
    ) -> None:
        self._source = source
        self._tally = Tally()
        self.files = StoreFiles(source)
        self._spilled = job_directory()
        settings: dict[str, str | bool | int | float | list[str]] = {
            **LOCKED,
            "temp_directory": self._spilled.__enter__(),
            "memory_limit": f"{MEMORY}B",
            "max_temp_directory_size": f"{DISK}B",
            "threads": str(default_jobs()),
        }
        self._database = duckdb.connect(":memory:", config=settings)
        self._database.execute(f"SET TimeZone = '{zone}'")
        self._database.execute("SET errors_as_json = false")
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="rmqtool-sql")
        self._prepare()
        self._database.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Forget all, and remove what was put down."""
        self._worker.shutdown()
        self._database.close()
        self._spilled.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def advance(self) -> Callable[[int], None]:
        """What takes bytes of the store as they are read."""
        return self._tally.advance

    @advance.setter
    def advance(self, advance: Callable[[int], None]) -> None:
        self._tally.advance = advance

    def ask(self, text: str) -> SqlAnswer:
        """Understand a question and begin to answer it.

        Raises:
            UsageError: it is no question, or not one about these tables.
            SqlFailed: it takes more memory or disk than there may be.
        """
        text = text.strip().rstrip(";").strip()
        kind = first_word(text)
        self._check(text)
        if described := self._described(text):
            return SqlAnswer(DESCRIPTION, iter([described]))
        tables = () if kind in ABOUT_NAMES else mentioned(text)[0]
        self.files.begin(tables)
        self._tally.take()
        with self._in_words():
            rows = self._database.sql(text)
            names = unique_names(rows.columns)
            kinds = [str(kind) for kind in rows.types]
        return SqlAnswer(names, self._chunks(rows, names, kinds), tables)

    def read_so_far(self) -> ReadSoFar:
        """Give what was read for answers since the last call."""
        return self._tally.take()

    def damaged(self, tables: tuple[str, ...]) -> int:  # noqa: ARG002 - `read_so_far` knows
        """Count nothing: `read_so_far` counts the rows of damage that were read."""
        return 0

    def _prepare(self) -> None:
        """Give names to tables, macros and views; nothing is read for it."""
        for signature, body in (HELPERS | MACROS).items():
            self._database.execute(f"CREATE MACRO {signature} AS {body}")
        hidden = () if self._source.is_fleet else (OPERATIONS,)
        for name in (*TableName, *hidden):
            table = ScannedTable(table_source(self._source, name), self._tally)
            self._database.register(str(name), table)
        for view in () if self._source.is_fleet else VIEWS.values():
            self._database.execute(f"CREATE VIEW {view.name} AS {view.sql}")

    def _check(self, text: str) -> None:
        """Refuse what is no question, behind EXPLAIN as well.

        Raises:
            UsageError: it would change something, or DuckDB does not understand it.
        """
        with self._in_words():
            statements = self._database.extract_statements(text)
            if explained := EXPLAIN.fullmatch(text):
                statements += self._database.extract_statements(explained["of"])
        if len(statements) > 1 + bool(explained):
            raise UsageError(option="SQL", reason="one question at a time")
        for statement in statements:
            if statement.type not in ASKING:
                raise refused(statement.type.name)

    def _described(self, text: str) -> list[dict[str, Any]]:
        """Give the columns of a table or a view, and what they mean; nothing for other texts."""
        match = DESCRIBED.fullmatch(text)
        name = match[1].lower() if match else ""
        tables = {str(table): table for table in TableName}
        if name not in tables and (name not in VIEWS or self._source.is_fleet):
            return []
        rows = self._database.sql(f"SELECT * FROM {name}")  # noqa: S608 - a name of ours
        meanings = {column: meaning(column) for column in rows.columns} if name in VIEWS else {}
        if not meanings:
            table = table_of(table_source(self._source, name))
            meanings = {column: comment(table[column]) for column in rows.columns}
        columns = zip(rows.columns, rows.types, strict=True)
        return [
            dict(zip(DESCRIPTION, (column, str(kind), meanings[column]), strict=True))
            for column, kind in columns
        ]

    def _chunks(
        self, rows: duckdb.DuckDBPyRelation, names: tuple[str, ...], kinds: list[str]
    ) -> Iterator[list[dict[str, Any]]]:
        with self._in_words():
            reader = self._interruptible(lambda: rows.to_arrow_reader(ROWS_A_CHUNK))
            while True:
                batch = self._interruptible(lambda: next(reader, None))
                if batch is None:
                    return
                columns = [
                    values(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)
                ]
                yield [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _interruptible(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - what DuckDB gives
        """Let DuckDB work in another thread: in this one it may not see a signal for minutes."""
        try:
            return self._worker.submit(work).result()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Stop what the other thread does, be it only about to begin: then once is not enough."""
        rest = self._worker.submit(int)
        while not rest.done():
            self._database.interrupt()
            wait([rest], STOPS_AGAIN)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in our own words what DuckDB refuses; what stopped a scan is raised itself.

        Raises:
            UsageError: DuckDB does not understand a question.
            SqlFailed: it takes too much.
        """
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            stopped, self._tally.error = self._tally.error, None
            if stopped is not None:
                raise stopped from error
            raise self._in_our_words(error) from error

    def _in_our_words(self, error: Exception) -> Exception:
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException):
            step = "ask for fewer columns or rows, or use --engine spark"
            return SqlFailed(reason=first_sentence(text), step=step)
        if not isinstance(error, duckdb.Error):
            return error
        is_name = isinstance(error, duckdb.CatalogException)
        step = names_of(self._source) if is_name and "Table" in text else ""
        return UsageError(option="SQL", reason=first_sentence(text), step=step)


def first_sentence(text: str) -> str:
    """Give what DuckDB says in one line, without the place in the question."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = []
    for line in lines:
        if line.startswith("LINE "):
            break
        words.append(line)
    return " ".join(words) or text


# Values of Arrow's columns as plain Python: times as text, maps as mappings.


def values(column: pa.Array, kind: str = "") -> list[Any]:
    """Give the values of a column as they are written everywhere else.

    Args:
        column: of an answer.
        kind: what DuckDB calls its type; whole numbers of 128 bits are decimals in Arrow.
    """
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if moment is None else iso_time(moment // 1000) for moment in micros]
    if pa.types.is_list(column.type):
        inner = values(column.flatten(), kind.removesuffix("[]"))
        lengths = column.value_lengths().to_pylist()
        items = iter(inner)
        return [
            None if length is None else [next(items) for _ in range(length)] for length in lengths
        ]
    plain = column.to_pylist()
    if kind in {"HUGEINT", "UHUGEINT"}:
        return [None if value is None else int(value) for value in plain]
    return [_plain(value, is_map=pa.types.is_map(column.type)) for value in plain]


def _plain(value: Any, *, is_map: bool = False) -> Any:  # noqa: ANN401 - whatever SQL gives
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, datetime):
        return iso_time(round(value.timestamp() * 1000))
    if is_map:
        return {str(_plain(key)): _plain(item) for key, item in value}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else str(value)
