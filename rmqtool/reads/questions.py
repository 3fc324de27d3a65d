"""Questions in SQL about a store: what every engine that answers them shares.

Questions are answered and nothing is changed: a statement that writes is refused.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rmqtool.broker.names import CHECK_MAX_TIME_TOPIC, HALF_TOPICS, OP_TOPICS
from rmqtool.errors import Trouble, UnreadablePath, UsageError
from rmqtool.reads.fleet import FleetTask, tasks
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.tasks import FilesTask, LogTask, UnreadTask
from rmqtool.reads.views import OPERATIONS, VIEWS
from rmqtool.store.address import place_of
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqtool.store.tree import Store

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
OPERATION_TOPICS: Final = tuple(sorted((*HALF_TOPICS, *OP_TOPICS, CHECK_MAX_TIME_TOPIC)))


class ReadSoFar(NamedTuple):
    """What was read."""

    bytes: int  # of files
    damaged: int = 0  # rows that tell of damage
    unread: int = 0  # of these, rows that tell of what could not be read


@dataclass(slots=True)
class SqlAnswer:
    """The rows of a question."""

    columns: tuple[str, ...]  # their names, each once
    chunks: Iterator[list[dict[str, Any]]]  # the rows, read while they are taken
    tables: tuple[str, ...] = field(default_factory=tuple)  # what is read for them


class Questions(Protocol):
    """Answers questions about one store, or several."""

    files: StoreFiles  # what became of the files that questions are about
    advance: Callable[[int], None]  # takes bytes of the store as they are read

    def ask(self, text: str) -> SqlAnswer:
        """Understand a question and begin to answer it.

        Raises:
            UsageError: it is no question, or not one about these tables.
        """
        ...

    def read_so_far(self) -> ReadSoFar | None:
        """Give what was read for answers since the last call; None where it is not known."""
        ...

    def damaged(self, tables: tuple[str, ...]) -> int:
        """Count the rows of tables that tell of damage, where `read_so_far` does not know."""
        ...


class StoreFiles:
    """Looks what became of the files of a store while a question was answered.

    Args:
        source: the store.
    """

    def __init__(self, source: SourceOptions) -> None:
        self._source = source
        self._listed: dict[str, None] = {}

    def begin(self, tables: tuple[str, ...]) -> None:
        """Take note of the files that a question about tables is going to read."""
        self._listed = self._log_files() if tables else {}

    def expired(self) -> list[str]:
        """Give the files of the log that a running broker has deleted since the last question."""
        left = self._log_files() if self._listed else {}
        return [path for path in self._listed if path not in left]

    def unread(self, tables: tuple[str, ...]) -> list[UnreadablePath]:
        """Look whether the files of tables can be opened; what of them cannot is no row anywhere.

        Raises:
            StoreError: the store cannot be opened.
        """
        unread: dict[str, UnreadablePath] = {}
        for name in tables:
            if name == OPERATIONS:
                continue
            for any_task in tasks(replace(self._source, table=TableName(name), columns=None)):
                task = any_task.task if isinstance(any_task, FleetTask) else any_task
                if isinstance(task, UnreadTask):
                    error = UnreadablePath(
                        path=task.path, reason=task.reason, trouble=Trouble.EXPLAINED
                    )
                    unread.setdefault(str(error), error)
                files = task.files if isinstance(task, FilesTask) else ()
                parts = (task.part.segment,) if isinstance(task, LogTask) else ()
                for part in (*files, *parts):
                    try:
                        with part.open() as file:
                            file.read_at(0, 1)
                    except UnreadablePath as error:
                        store = self._live_store()
                        if store is None or not store.moment.is_gone(part.path, error):
                            unread.setdefault(str(error), error)
        return list(unread.values())

    def _log_files(self) -> dict[str, None]:
        """Give the paths of the log that a running broker writes; none without one."""
        with suppress(UnreadablePath):  # the question says so
            if (store := self._live_store()) is not None:
                return dict.fromkeys(segment.path for segment in store.commitlog)
        return {}

    def _live_store(self) -> Store | None:
        """Open the store anew where a broker runs on it; None elsewhere."""
        source = self._source
        if source.is_fleet or not place_of(source.path).is_local:
            return None
        store = open_store(source.path, source.broker_conf)
        return store if store.moment.is_live else None


def table_source(source: SourceOptions, name: str) -> SourceOptions:
    """Give how a table of a question is read, all of it."""
    if name != OPERATIONS:
        return replace(source, table=TableName(name), columns=None)
    selection = replace(source.selection, topics=OPERATION_TOPICS)
    body = source.body._replace(mode=BodyMode.TEXT)
    return replace(source, columns=OPERATION_COLUMNS, selection=selection, body=body)


def first_word(text: str) -> str:
    """Give the word that a question begins with; no engine is needed for that.

    Raises:
        UsageError: it is no question.
    """
    question = QUESTION.match(text)
    if question is None:
        reason = "only questions are answered, which begin with SELECT, WITH, VALUES, TABLE, "
        reason += "FROM, SHOW, DESCRIBE or EXPLAIN"
        raise UsageError(option="SQL", reason=reason)
    return question["word"].lower()


def refused(change: str) -> UsageError:
    """Give the error of a statement that is no question."""
    reason = f"only questions are answered, and this would change something ({change})"
    return UsageError(option="SQL", reason=reason)


def names_of(source: SourceOptions) -> str:
    """Give what there is to ask about, for who named something else."""
    views = () if source.is_fleet else VIEWS
    step = f"one of {' '.join([*TableName, *views])}"
    return step + ("; ready-made views are of one store" if not views else "")


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


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Give each column a name of its own: `n`, `n_2`, `n_3`."""
    used: list[str] = []
    for name in names:
        number, own = 1, name
        while own in used:
            number += 1
            own = f"{name}_{number}"
        used.append(own)
    return tuple(used)
