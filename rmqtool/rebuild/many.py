"""Rebuild for the stores of many brokers: a row for each, and one that fails stops no other.

Each store gets a directory of its own below the output. It appears complete or not at all, and one
that is there already is left as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.check.many import anywhere, each
from rmqtool.errors import NotAStore, RmqtoolError, UsageError
from rmqtool.rebuild.options import Mode, RebuildOptions
from rmqtool.rebuild.work import rebuild
from rmqtool.store.address import place_of
from rmqtool.store.fleet import below, broker_of, fleet_of
from rmqtool.table import Column, Table, Type
from rmqtool.tables.fleet import BROKER, STORE
from rmqtool.writing.dataset import Dataset
from rmqtool.writing.output import refuse_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.check.many import StorePart
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.store.fleet import FleetStore

NOT_REBUILT: Final = "not rebuilt"
NO, IN_PART = 1, 3  # exit codes
ESCAPED: Final = {"%": "%25", "+": "%2B", "/": "+"}
REBUILT_STORES: Final = Table(
    "rebuilt",
    "result of a rebuild of one of several stores",
    (
        STORE,
        BROKER._replace(is_optional=True),
        Column("release", Type.TEXT, "whose rules were followed", is_optional=True),
        Column("records", Type.INT64, "records of the commitlog that were read", "records"),
        Column("units", Type.INT64, "units of queues, for a record each", "units"),
        Column("entries", Type.INT64, "entries of the index, in files and in RocksDB", "entries"),
        Column(
            "verdict",
            Type.TEXT,
            "complete; in part: the log has losses; with --check same or differs; or not rebuilt",
        ),
        Column(
            "differences",
            Type.INT64,
            "stretches of files that differ, with --check",
            is_optional=True,
        ),
        Column("output", Type.TEXT, "directory that was written", is_optional=True),
        Column(
            "reason", Type.TEXT, "why it is not rebuilt, or the first lost range", is_optional=True
        ),
    ),
    shown=("store", "records", "units", "entries", "verdict", "reason"),
)


class StoreRebuild(NamedTuple):
    """What became of one store. Picklable."""

    row: dict[str, object]  # of `REBUILT_STORES`
    exit_code: int  # 3 not all could be rebuilt, 1 the store differs, 0 neither

    @classmethod
    def refused(cls, name: str, broker: str, reason: str) -> StoreRebuild:
        """Tell of what could not be rebuilt at all."""
        row = {STORE.name: name, BROKER.name: broker or None, "records": 0, "units": 0}
        return cls({**row, "entries": 0, "verdict": NOT_REBUILT, "reason": reason}, IN_PART)


def rebuilt(part: StorePart, options: RebuildOptions) -> StoreRebuild:
    """Rebuild for one store; what cannot be done is said in its row.

    Args:
        part: which one.
        options: what is asked; `store` does not count, `output` is the directory above.
    """
    store = part.store
    output = None if options.output is None else below(options.output, directory_of(store))
    try:
        result = rebuild(replace(options, store=anywhere(store.path), output=output))
        broker = store.broker or broker_of(place_of(store.path))
    except RmqtoolError as error:
        return StoreRebuild.refused(store.name, store.broker, str(error))
    row = REBUILT_STORES.row(
        result,
        store=store.name,
        broker=broker,
        release=str(result.rules.release.version),
        entries=result.entries + result.rocksdb_entries,
        verdict=_verdict(result),
        differences=len(result.differences) if options.check else None,
        output=output,
        reason=_first_trouble(result),
    )
    if not result.is_complete:
        return StoreRebuild(row, IN_PART)
    return StoreRebuild(row, NO if result.differences else 0)


def directory_of(store: FleetStore) -> str:
    """Name the directory of a store: its path, `+` for `/`; of a URI, from the bucket on."""
    path = store.name.partition("://")[2] if "://" in store.name else anywhere(store.name)
    return "".join(ESCAPED.get(character, character) for character in path.strip("/"))


class Rebuilds:
    """Several stores that are rebuilt, in order; then what stands for stores and is not one.

    Attributes:
        stores: which.
        exit_code: the worst so far, as of `StoreRebuild`.

    Args:
        options: what is asked of each; `output` is the directory above.
        paths: stores, and patterns of them.
        stores_file: names stores, too.

    Raises:
        NotAStore: there is no store at all.
        UsageError: it is not for several stores.
        UnreadablePath: the file of stores cannot be read.
        RepairError: the directory above cannot be made.
    """

    def __init__(
        self, options: RebuildOptions, paths: Iterable[str], stores_file: str | None = None
    ) -> None:
        if options.mode is Mode.IN_PLACE:
            raise UsageError(option="--in-place", reason="is for one store at a time")
        fleet = fleet_of(paths, stores_file)
        self.stores, self._refused = fleet.stores, fleet.refused
        if not self.stores:
            path, reason = (self._refused or ((stores_file or "", "it names no store"),))[0]
            raise NotAStore(path=path, reason=reason)
        if options.output is not None:
            for store in self.stores:
                refuse_within(place_of(store.path), options.output)
            options = replace(options, output=anywhere(options.output))
            Dataset.of(str(options.output)).make()
        self._options = options
        self.exit_code = 0

    def results(self, watch: Callable[[int, int], None]) -> Iterator[StoreRebuild]:
        """Yield what became of each store, in order.

        Args:
            watch: takes how many are done, of all.
        """
        options, total = self._options, len(self.stores)
        here = partial(rebuilt, options=options)
        alone = partial(rebuilt, options=replace(options, jobs=1))
        watch(0, total)
        rebuilds = each(self.stores, here, alone, options.broker_conf)
        for number, done in enumerate(rebuilds, 1):
            watch(number, total)
            self.exit_code = max(self.exit_code, done.exit_code)
            yield done
        for path, reason in self._refused:
            self.exit_code = IN_PART
            yield StoreRebuild.refused(path, "", reason)


def _verdict(result: RebuildResult) -> str:
    if not result.is_complete:
        return "in part"
    if result.mode is Mode.CHECK:
        return "differs" if result.differences else "same"
    return "complete"


def _first_trouble(result: RebuildResult) -> str | None:
    """Say what was lost first, or where the store differs first."""
    if result.lost:
        gap = result.lost[0]
        return (
            f"{gap.code} {gap.path}: {gap.length:,} bytes at physical offset {gap.physical_offset}"
        )
    if result.unread:
        path, reason = next(iter(result.unread.items()))
        return f"{path} cannot be read: {reason}"
    if result.differences:
        other = result.differences[0]
        return f"{other.path} differs at {other.position}"
    return None
