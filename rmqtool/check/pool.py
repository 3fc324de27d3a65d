"""The stores of many brokers as parts of one job, here or on a cluster.

On a cluster all stores are one pool of parts. A store whose log is too large for one task is worked
on from here, its log cut into parts, one such store after the other.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from rmqtool import engine
from rmqtool.errors import RmqtoolError
from rmqtool.store.archive import is_inside
from rmqtool.store.place import Place
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.store.fleet import FleetStore

AT_A_TIME: Final = 16  # stores whose files are listed
LARGEST_TASK: Final = 16 << 30  # bytes of a log that one task reads: some half a minute
STORE_BYTES: Final = 32 << 20  # of a log, that are read while an empty store is validated
RESULT_SHIFT: Final = 10  # a verdict is some thousandth of a log, and less
Verdict = TypeVar("Verdict")


@dataclass(frozen=True, slots=True)
class StorePart:
    """One store, as a part of the work. Picklable."""

    store: FleetStore  # which one
    log_bytes: int = 0  # length of its log; 0 where that cannot be told

    @property
    def length(self) -> int:
        """What it weighs: results are small, however long the log is."""
        return (self.log_bytes + STORE_BYTES) >> RESULT_SHIFT

    @property
    def is_large(self) -> bool:
        """Whether one task would take too long for it."""
        return self.log_bytes > LARGEST_TASK


def each(
    stores: Iterable[FleetStore],
    here: Callable[[StorePart], Verdict],
    alone: Callable[[StorePart], Verdict],
    broker_conf: str | os.PathLike[str] | None,
) -> Iterator[Verdict]:
    """Yield what is done with each store, in order.

    Args:
        stores: which.
        here: does it with all processors; raises nothing because of a store.
        alone: does it as one task of several; picklable, and raises nothing, too.
        broker_conf: the brokers' configuration file.
    """
    if engine.chosen() is None:  # each store has all processors, one store after the other
        yield from map(here, map(StorePart, stores))
        return
    for is_large, parts in groupby(_parts(stores, broker_conf), key=lambda one: one.is_large):
        if not is_large:
            yield from engine.run(alone, parts)
            continue
        for part in parts:
            yield here(part)


def anywhere(path: str) -> str:
    """Give a path that another process understands, whose directory may be another one."""
    if Place.is_uri(path) or is_inside(path):
        return path
    return os.path.abspath(path)  # noqa: PTH100 - names stay as they are, and links are not followed


def _parts(
    stores: Iterable[FleetStore], broker_conf: str | os.PathLike[str] | None
) -> Iterator[StorePart]:
    """Weigh the stores, some at a time: they may lie on a remote file system."""
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="rmqtool-plan") as pool:
        yield from pool.map(partial(_weighed, broker_conf=broker_conf), stores)


def _weighed(store: FleetStore, broker_conf: str | os.PathLike[str] | None) -> StorePart:
    try:
        opened = open_store(store.path, broker_conf)
        size = opened.commitlog.size + opened.old_commitlog.size
    except RmqtoolError:
        size = 0  # who works on it says why
    return StorePart(store._replace(path=anywhere(store.path)), size)
