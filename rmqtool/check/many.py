"""Validate the stores of many brokers: a row for each, and one that fails stops no other.

1. `Stores` finds out which stores are meant: by pattern, list, file, or below directories.
2. `judged` validates one, wherever it runs; `pool` says where.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rmqtool import engine
from rmqtool.broker.release import COMMONEST
from rmqtool.check.validate import INCOMPLETE, validate
from rmqtool.errors import NotAStore, RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.store.address import is_inside, place_of
from rmqtool.store.fleet import NO_MATCH, FleetStore, broker_of, fleet_of
from rmqtool.store.place import Place
from rmqtool.store.release import written_by
from rmqtool.store.remote_listing import listed_once
from rmqtool.store.root import stores_below
from rmqtool.store.tree import open_store
from rmqtool.table import Column, Table, Type
from rmqtool.tables.fleet import BROKER, STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.broker.release import Version
    from rmqtool.check.options import ValidateOptions
    from rmqtool.findings.finding import Finding


NOT_READ: Final = "not read"
NO_STORES_BELOW: Final = "no store was found below this directory"
NONE_THERE: Final = frozenset({NO_STORES_BELOW, NO_MATCH})  # all was looked at
STORES: Final = Table(
    "stores",
    "the validation of one of several stores",
    (
        STORE,
        BROKER._replace(is_optional=True),
        Column("release", Type.TEXT, "which releases may have written it last", is_optional=True),
        Column("messages", Type.INT64, "records of the commitlog that were read"),
        Column("verdict", Type.TEXT, "sound, damaged, incomplete, not read, or another state"),
        Column("damages", Type.INT64, "findings that are damage"),
        Column("warnings", Type.INT64, "findings that are warnings"),
        Column("notes", Type.INT64, "findings that are notes"),
        Column(
            "worst",
            Type.TEXT,
            "the first finding of the highest severity, or why the store is not read",
            is_optional=True,
        ),
    ),
)


class StoreVerdict(NamedTuple):
    """What was found in one store. Picklable."""

    row: dict[str, object]  # of `STORES`
    exit_code: int  # 3 not all was read, 1 damage, 0 none
    findings: tuple[Finding, ...] = ()  # all of them, where they were asked for
    location: str = ""  # of the store root
    version: Version = COMMONEST  # release that is to run on the store

    @classmethod
    def not_read(cls, name: str, broker: str, reason: str) -> StoreVerdict:
        """Give the verdict on what could not be read at all."""
        row = {STORE.name: name, BROKER.name: broker or None, "messages": 0}
        unread = finding(FS_READ, At(name), actual=reason)
        return cls({**row, "verdict": NOT_READ, "worst": reason}, INCOMPLETE, (unread,), name)


def judged(
    part: StorePart, options: ValidateOptions, *, keeps_findings: bool = False
) -> StoreVerdict:
    """Validate one store; what cannot be read is its verdict.

    Args:
        part: which one.
        options: what to validate in it.
        keeps_findings: give all findings, not only the row.
    """
    try:
        with listed_once(place_of(part.store.path)):
            return _judged(part.store, options, keeps_findings=keeps_findings)
    except RmqtoolError as error:
        return StoreVerdict.not_read(part.store.name, part.store.broker, str(error))


def _judged(store: FleetStore, options: ValidateOptions, *, keeps_findings: bool) -> StoreVerdict:
    """Validate a store. Raises RmqtoolError: it cannot be read."""
    findings = validate(replace(options, store=anywhere(store.path)))
    worst: Finding | None = None
    kept: list[Finding] = []
    for defect in findings:
        if worst is None or defect.severity.rank > worst.severity.rank:
            worst = defect
        if keeps_findings:
            kept.append(defect)
    opened = open_store(store.path, options.broker_conf)
    release = str(written_by(opened, lambda _: None))
    broker = store.broker or broker_of(opened.root)
    summary = findings.summary
    row = STORES.row(
        summary,
        store=store.name,
        broker=broker,
        release=release,
        messages=summary.account.records,
        **{f"{severity}s": summary.counts.get(severity, 0) for severity in Severity},
        worst=worst and f"{worst.code} {worst.path}: {worst.message}",
    )
    return StoreVerdict(row, findings.exit_code, tuple(kept), findings.location, findings.version)


class Stores:
    """Several stores, in order; then what stands for stores and cannot be read.

    Attributes:
        stores: which.
        exit_code: the worst so far: 3 not all was read, 1 damage, 0 none.

    Args:
        options: what to validate in each.
        paths: stores, and patterns of them; with `is_above`, directories with stores below them.
        stores_file: names stores, too.
        is_above: look below the paths.

    Raises:
        NotAStore: there is no store at all.
        UnreadablePath: the file of stores cannot be read.
    """

    def __init__(
        self,
        options: ValidateOptions,
        paths: Iterable[str],
        stores_file: str | None = None,
        *,
        is_above: bool = False,
    ) -> None:
        self._options = options
        self._refused: list[tuple[str, str]] = []
        fleet = fleet_of(paths, stores_file)
        self._refused += fleet.refused
        self.stores = fleet.stores
        if is_above:
            self.stores = tuple(
                FleetStore(place, store.broker)
                for store in fleet.stores
                for place in self._below(store.path)
            )
        if not self.stores and all(reason in NONE_THERE for _, reason in self._refused):
            path, reason = (self._refused or [(stores_file or "", "it names no store")])[0]
            raise NotAStore(path=path, reason=reason)
        self.exit_code = 0

    def verdicts(
        self, watch: Callable[[int, int], None], *, keeps_findings: bool = False
    ) -> Iterator[StoreVerdict]:
        """Yield the verdict on each store, in order, when it has been validated.

        Args:
            watch: takes how many are done, of all.
            keeps_findings: with the findings of each.
        """
        total = len(self.stores)
        watch(0, total)
        for number, verdict in enumerate(self._judged(keeps_findings=keeps_findings), 1):
            watch(number, total)
            self.exit_code = max(self.exit_code, verdict.exit_code)
            yield verdict
        for path, reason in self._refused:
            self.exit_code = INCOMPLETE
            yield StoreVerdict.not_read(path, "", reason)

    def _judged(self, *, keeps_findings: bool) -> Iterator[StoreVerdict]:
        options = self._options
        here = partial(judged, options=options, keeps_findings=keeps_findings)
        alone = partial(judged, options=replace(options, jobs=1), keeps_findings=keeps_findings)
        yield from each(self.stores, here, alone, options.broker_conf)

    def _below(self, path: str) -> list[str]:
        """Give the stores below a path, as the path was typed."""
        top = place_of(path)
        separator = "" if path.endswith("!") else "/"

        def typed(place: Place) -> str:
            name = place.location[len(top.location) :].strip("/")
            return f"{path.rstrip(os.sep)}{separator}{name}" if name else path

        def refuse(place: Place, reason: str) -> None:
            self._refused.append((typed(place), reason))

        before = len(self._refused)
        stores = [typed(place) for place in stores_below(top, refuse)]
        if not stores and len(self._refused) == before:
            self._refused.append((path, NO_STORES_BELOW))
        return stores


# The stores of many brokers as parts of one job, here or on a cluster.
#
# On a cluster all stores are one pool of parts. A store whose log is too large for one task is
# worked
# on from here, its log cut into parts, one such store after the other.


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
    for is_large, parts in groupby(_parts(stores, broker_conf), key=lambda part: part.is_large):
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
