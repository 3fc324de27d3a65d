"""`rmqtool sql`: questions about a store in SQL, answered by DuckDB here, or by Spark."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import cleandoc
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.cli.completion.values import sql_views
from rmqtool.cli.declaration import Argument, Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice, EngineName, decide, stores_of
from rmqtool.cli.exits import DONE, IN_PART, NO, say
from rmqtool.cli.options import BrokerConf, StorePath, StoresFile, UnpackLimit
from rmqtool.cli.showing import DecoderChoice, decoded_bodies, refuse_on_spark
from rmqtool.errors import EngineMissing, NotAStore, OutputClosed, RmqtoolError, UsageError
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.rows import Rows, count_of
from rmqtool.tables.bodies import BodyMode, BodyOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.reads.questions import Questions, SqlAnswer
    from rmqtool.rows import Chunk

LARGEST_FILE: Final = 1 << 20
SESSION_ZONE: Final = "spark.sql.session.timeZone"
PACKAGE: Final = "duckdb"
INSTALL: Final = "pip install '.[sql]' in a clone of rmqtool"


@dataclass(frozen=True)
class Sql(Command):
    """DuckDB answers it in this process; Spark does with --engine spark, on this machine or on a
    cluster. Tables: messages, queue_units, index_entries, findings, segments, topics, queues,
    groups, consumer_offsets, delay_offsets, checkpoint, lost_messages, pending_timers,
    pop_in_flight, traces; ready-made views: see --views. Without a question there is a prompt on a
    terminal, and a pipe is read. A statement that would change something is refused.
    A pattern in quotes such as '/backups/*/store', and --stores-file, give the tables of many
    stores, with the columns store and broker; ready-made views are of one store.
    Times without an offset, as in TIMESTAMP '2026-11-21 09:04', are UTC, or those of --time-zone.
    """

    store: StorePath = ""
    query: Annotated[str | None, Argument("SQL", "One question, such as SELECT ...")] = None
    file: Annotated[str | None, Option("--file", "A file with the question.", "FILE")] = None
    views: Annotated[bool, Option("--views", "List the ready-made views; nothing is read.")] = False
    show: Annotated[
        str | None,
        Option(
            "--show",
            "Print the SQL of a ready-made view; nothing is read.",
            "VIEW",
            completes=sql_views,
        ),
    ] = None
    body: Annotated[BodyMode, Option("--body", "How the column body of messages shows bodies.")] = (
        BodyMode.NONE
    )
    decoder: DecoderChoice = None
    stores_file: StoresFile = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    delivery: Delivery = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what the rows of `--views` are; only an engine knows the columns of a question."""
        from rmqtool.reads.views import VIEW_LIST

        if not self.views:
            reason = "the columns of a question are known when it is asked: DESCRIBE SELECT ..."
            raise UsageError(option="--format", reason=reason)
        return self.delivery.describe([VIEW_LIST])

    def run(self) -> int:
        """Answer it; 1 when nothing is found, or damage, 3 when something could not be read."""
        if self.views:
            return _list_views(self.delivery)
        if self.show is not None:
            return _show(self.show)
        store, query = self.store, self.query
        if self.stores_file is not None and query is None:
            store, query = "", store or None  # the one argument is the question
        if not store and self.stores_file is None:
            raise UsageError(option="STORE", reason="is missing; only --views and --show need none")
        if query is not None and self.file is not None:
            raise UsageError(option="--file", reason="cannot be combined with a question")
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        is_prompt = query is None and self.file is None and is_terminal
        text = query if is_prompt or query is not None else _read(self.file)
        source = SourceOptions(
            **stores_of(store, self.stores_file),
            table=TableName.MESSAGES,
            body=self._bodies,
            broker_conf=self.broker_conf,
        )
        is_spark = self._is_spark(source)
        refuse_on_spark(self.decoder, is_spark=is_spark)
        if text is not None:
            from rmqtool.reads.questions import first_word

            first_word(text)  # before an engine is started for it
        _check_store(source)
        with self._on_spark(source) if is_spark else self._here(source) as questions:
            if text is None:
                return _talk(questions, self.delivery)
            return _answer(questions, text, self.delivery)

    @property
    def _bodies(self) -> BodyOptions:
        """How the column body shows bodies."""
        if self.decoder is None:
            return BodyOptions(self.body)
        return decoded_bodies(self.decoder, BodyOptions().ceiling)

    def _is_spark(self, source: SourceOptions) -> bool:
        """Choose an engine, and say which where `auto` was asked for.

        Raises:
            EngineMissing: what the engine needs is not here.
        """
        from rmqtool.spark.available import check_spark

        is_spark, why = decide(self.choice, [source.path, *source.paths])
        if is_spark:
            check_spark(self.choice.master)
        elif find_spec(PACKAGE) is None:
            raise EngineMissing(needs=PACKAGE, install=INSTALL)
        if self.choice.engine is EngineName.AUTO or (is_spark and self.choice.engine is None):
            self.delivery.note(f"engine: {'spark' if is_spark else 'local'}, {why}")
        return is_spark

    @contextmanager
    def _on_spark(self, source: SourceOptions) -> Iterator[Questions]:
        """Give who asks Spark."""
        with self.choice.spark(self.delivery) as work:
            from rmqtool.spark import register
            from rmqtool.spark.sql import SparkQuestions

            if self.delivery.time_zone is not None:
                work.spark.conf.set(SESSION_ZONE, self.delivery.clock.java_zone)
            yield SparkQuestions(register(work.spark), source)

    @contextmanager
    def _here(self, source: SourceOptions) -> Iterator[Questions]:
        """Give who asks DuckDB."""
        from rmqtool.sql.questions import LocalQuestions

        zone = "UTC" if self.delivery.time_zone is None else self.delivery.clock.java_zone
        with LocalQuestions(source, zone) as questions:
            yield questions


def _check_store(source: SourceOptions) -> None:
    """Open the store, or find several: what is wrong with it is said before Spark is started.

    Raises:
        StoreError: it cannot be opened.
    """
    from rmqtool.store.fleet import fleet_of
    from rmqtool.store.tree import open_store

    if not source.is_fleet:
        open_store(source.path, source.broker_conf)
        return
    fleet = fleet_of(source.paths, source.stores_file)
    if not fleet.stores:
        path, reason = (fleet.refused or ((source.stores_file or "", "it names no store"),))[0]
        raise NotAStore(path=path, reason=reason)


def _list_views(delivery: Delivery) -> int:
    from rmqtool.reads.views import VIEW_LIST, VIEWS

    rows = [
        {"view": view.name, "meaning": view.meaning, "sql": " ".join(view.sql.split())}
        for view in VIEWS.values()
    ]
    delivery.emit(VIEW_LIST.rows([rows]))
    return DONE


def _show(name: str) -> int:
    """Print the text of a view. Raises UsageError: there is no such view."""
    from rmqtool.plural import meant
    from rmqtool.reads.views import VIEWS
    from rmqtool.render.sink import standard_output

    if name not in VIEWS:
        raise UsageError(option="--show", reason=f"no view {name!r}; {meant(name, VIEWS)}")
    standard_output().write(f"{cleandoc(VIEWS[name].sql)}\n".encode())
    return DONE


def _read(file: str | None) -> str:
    """Read a question from a file, or from standard input.

    Raises:
        UsageError: there is not one.
        UnreadablePath: the file cannot be read.
    """
    from rmqtool.store.address import place_of

    if file is not None:
        raw = place_of(file).read(LARGEST_FILE)
    else:
        raw = sys.stdin.buffer.read(LARGEST_FILE) if sys.stdin is not None else b""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(option="SQL", reason="is not UTF-8") from error
    if not text.strip():
        raise UsageError(option="SQL", reason="there is no question")
    return text


def _answer(questions: Questions, text: str, delivery: Delivery) -> int:
    """Answer one question."""
    from rmqtool.plural import counted
    from rmqtool.store.moment import expired_sentences

    answer = questions.ask(text)
    answered = _Counted(questions, answer, quiet=delivery.quiet)
    delivery.emit(Rows(answer.columns, answered, name="sql"))
    read = questions.read_so_far() if answer.tables else None
    if read is not None:
        delivery.note(f"read {read.bytes:,} bytes of the store")
    for sentence in expired_sentences(questions.files.expired()):
        delivery.note(sentence)
    unread = questions.files.unread(answer.tables)
    for error in unread:
        say(str(error))
    damaged = questions.damaged(answer.tables) if read is None else read.damaged
    if damaged:
        rows = counted(damaged, "row")
        delivery.note(f"damage in {rows}: see column code, or run validate")
    if unread or (read is not None and read.unread):
        return IN_PART
    if not answered.rows:
        delivery.note("nothing found")
    return NO if damaged or not answered.rows else DONE


class _Counted:
    """Counts rows while they are written; until there are some, a bar shows what was read."""

    def __init__(self, questions: Questions, answer: SqlAnswer, *, quiet: bool) -> None:
        self._questions, self._answer, self._quiet = questions, answer, quiet
        self.rows = 0

    def __iter__(self) -> Iterator[Chunk]:
        from rmqtool.render.progress import late_progress

        chunks = self._answer.chunks
        with late_progress("sql", quiet=self._quiet) as self._questions.advance:
            first = next(chunks, [])
        self._questions.advance = lambda _: None
        for chunk in chain([first] if first else [], chunks):
            self.rows += count_of(chunk)
            yield chunk


def _talk(questions: Questions, delivery: Delivery) -> int:
    """Answer questions until there are no more; neither a wrong one nor Ctrl-C is the end."""
    from rmqtool.cli.signals import goes_on
    from rmqtool.cli.sql_prompt import typed_questions
    from rmqtool.reads.views import VIEWS

    delivery.note(f"tables: {', '.join(TableName)}; views: {', '.join(VIEWS)}")
    delivery.note("a question ends with a semicolon; Tab completes names; Ctrl-C stops an answer")
    delivery.note("exit or Ctrl-D ends the conversation")
    for text in typed_questions():
        try:
            _answer(questions, text, delivery)
        except KeyboardInterrupt:
            goes_on()
            say("stopped")
        except OutputClosed:
            raise
        except RmqtoolError as error:
            say(str(error))
    return DONE
