"""Read many stores as one table: the tasks of all as one pool, with the store beside each row.

What cannot be read of one store, or opened at all, is a row, and the others go on. A read of one
store passes through unchanged.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqtool.errors import RmqtoolError, UsageError
from rmqtool.reads import plan, readers
from rmqtool.reads.tables import SCHEMAS
from rmqtool.reads.tasks import UnreadTask
from rmqtool.store.address import place_of
from rmqtool.store.entry import printable
from rmqtool.store.fleet import FleetStore, broker_of, fleet_of
from rmqtool.store.place import is_remote
from rmqtool.tables.fleet import FLEET, beside

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    import pyarrow as pa

    from rmqtool.reads.options import SourceOptions
    from rmqtool.reads.tasks import Task

AT_A_TIME: Final = 16  # remote stores that are listed: each asks a server some ten times
ABOUT_STORES: Final = frozenset({"path", "--as"})  # options: what a store is, not what is asked
_NAMES: Final = frozenset(column.name for column in FLEET)


@dataclass(frozen=True, slots=True)
class FleetTask:
    """A task of one store of several. Picklable."""

    store: FleetStore  # which one
    task: Task  # what to read of it

    @property
    def length(self) -> int:
        """Bytes to read, about."""
        return self.task.length


AnyTask: TypeAlias = "Task | FleetTask"


def tasks(options: SourceOptions) -> list[AnyTask]:
    """Give the tasks of a read, in the order of its rows: store by store.

    Raises:
        UsageError: a limit says nothing about the rows of the table, or nothing matches at all.
        StoreError: the one store that was asked for cannot be opened.
    """
    if not options.is_fleet:
        return list(plan.tasks(options))
    fleet = fleet_of(options.paths, options.stores_file)
    if not fleet.stores:
        name, reason = (fleet.refused or (("stores_file", "it names no store"),))[0]
        raise UsageError(option="path", reason=f"{name}: {reason}")
    planned: list[AnyTask] = []
    if any(is_remote(store.path) for store in fleet.stores):
        with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="rmqtool-plan") as pool:
            for some in pool.map(lambda store: _of_store(store, options), fleet.stores):
                planned += some
    else:
        for store in fleet.stores:
            planned += _of_store(store, options)
    for name, reason in fleet.refused:
        planned.append(FleetTask(FleetStore(name), UnreadTask(name, reason)))
    return planned


def batches(
    task: AnyTask,
    options: SourceOptions,
    names: Sequence[str],
    encoded: Container[str] = frozenset(),
    expired: set[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; see `readers.batches`. Expired files are named with their store."""
    if not isinstance(task, FleetTask):
        yield from readers.batches(task, options, names, encoded, expired)
        return
    of_store: set[str] | None = None if expired is None else set()
    own = _own(task.store, options)
    shown, broker = printable(task.store.name), task.store.broker or None
    # Rows are counted by their columns, so one at least is read.
    read = [name for name in names if name not in _NAMES] or [SCHEMAS[options.table].names[0]]
    try:
        for batch in readers.batches(task.task, own, read, encoded, of_store):
            yield beside(shown, broker, batch, names)
    except RmqtoolError as error:
        unread = UnreadTask(*_path_and_reason(task.store, error))
        for batch in readers.batches(unread, own, read, encoded):
            yield beside(shown, broker, batch, names)
    if expired is not None:
        expired |= {f"{shown}: {path}" for path in of_store or ()}


def _own(store: FleetStore, options: SourceOptions) -> SourceOptions:
    return replace(options, path=store.path, paths=(), stores_file=None)


def _of_store(store: FleetStore, options: SourceOptions) -> list[FleetTask]:
    """Give the tasks of one store; one that cannot be opened is one, too.

    Raises:
        UsageError: what is asked cannot be meant, of no store.
    """
    own = _own(store, options)
    try:
        if not store.broker:
            store = store._replace(broker=broker_of(place_of(store.path)) or "")
        return [FleetTask(store, task) for task in plan.tasks(own)]
    except RmqtoolError as error:
        if isinstance(error, UsageError) and error.option not in ABOUT_STORES:
            raise
        return [FleetTask(store, UnreadTask(*_path_and_reason(store, error)))]


def _path_and_reason(store: FleetStore, error: RmqtoolError) -> tuple[str, str]:
    """Give what of a store cannot be read, and why."""
    path, reason = getattr(error, "path", store.name), getattr(error, "reason", str(error))
    return str(path), str(reason)
