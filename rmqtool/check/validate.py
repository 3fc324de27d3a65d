"""Validate a store: all checks in the order that avoids follow-up errors, and the account of it.

Order: layout, commitlog with queues and index in the same pass, transactions, extensions,
compaction, checkpoint, timer, epochs, JSON.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import DOUBLE_WRITE, ROCKSDB_KEYS
from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.broker.release import COMMONEST
from rmqtool.check import access, layout
from rmqtool.check.findings_list import Bounded
from rmqtool.check.index.index_header import Opened, index_files
from rmqtool.check.index.index_set import IndexComparer
from rmqtool.check.inspection import Inspection
from rmqtool.check.log import dledger, epoch, filters
from rmqtool.check.log.commitlog import LogPass, log_files, quick_facts
from rmqtool.check.manifest.manifest import Manifest
from rmqtool.check.manifest.manifest_ledger import Ledger
from rmqtool.check.observer import Observers
from rmqtool.check.options import UNREAD
from rmqtool.check.queues import consume_queue_ext
from rmqtool.check.queues.batch_queue import BatchComparer
from rmqtool.check.queues.consume_queue import QueueComparer
from rmqtool.check.report import Account, Summary
from rmqtool.check.state import broker_conf, checkpoint, compaction, config, offsets, timer
from rmqtool.errors import UnreadablePath
from rmqtool.machine import announce
from rmqtool.store.branch import BranchKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.refused import refused_reads
from rmqtool.store.release import written_by
from rmqtool.store.remote_listing import listed_once
from rmqtool.store.tail import WALKED_RECORDS, Walker
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rmqtool.broker.release import Version
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.observer import Observer
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.rocksdb.checks import RocksChecks
    from rmqtool.findings.catalogue import Code, Severity
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb import RocksDb

SOUND: Final = 0
DAMAGED: Final = 1
INCOMPLETE: Final = 3
OFFSETS: Final = ("consumerOffset.json", "delayOffset.json")
ROCKSDB_AREAS: Final = ("rocksdb", "consumequeue", "index", "timer", "config", "offsets")


class Findings:
    """The findings of one validation; they stream, and the summary is known behind the last one.

    Attributes:
        summary: what was checked, and what not.
        ledger: keeps book for a manifest; None when nobody asked for one.
    """

    def __init__(
        self,
        options: ValidateOptions,
        watch: Callable[[int], None],
        observer: Observer | None = None,
        before: Manifest | None = None,
        place: Place | None = None,
    ) -> None:
        """Begin; nothing is read yet.

        Args:
            options: what to validate, and how.
            watch: takes the bytes of the commitlog done since it was last called.
            observer: sees what is read, for a report.
            before: of the last round over this store with these options, which said what it found.
            place: the root to read in place of the one that was asked for.
        """
        self._options, self._watch, self._observer = options, watch, observer
        self._store = open_store(place or options.store, options.broker_conf)
        self.summary = Summary(Account())
        self._inspection: Inspection | None = None
        self.ledger: Ledger | None = None
        if before is not None:
            self.ledger = Ledger(before)
        elif options.since is not None or options.keeps_book:
            given = None if options.since is None else Manifest.read(options.since)
            self.ledger = Ledger(given, os.fspath(options.since or ""))

    @property
    def location(self) -> str:
        """Absolute path of the store root."""
        return str(self._store.root)

    @property
    def version(self) -> Version:
        """Release that is to run on the store, or may have written it, as far as is known yet."""
        return self._inspection.version if self._inspection else COMMONEST

    @property
    def total_bytes(self) -> int:
        """Bytes of the commitlog that are going to be read, for a progress bar."""
        if not self._options.level.reads_log:
            return 0
        try:
            return self._store.commitlog.size + self._store.old_commitlog.size
        except UnreadablePath:
            return 0

    def __iter__(self) -> Generator[Finding, None, None]:
        """Validate, and yield each finding when it is found."""
        with listed_once(self._store.root):
            yield from self._found()

    def _found(self) -> Iterator[Finding]:
        begin, compiling = time.monotonic(), announce.seconds()
        bounded = Bounded()
        self.summary.codes = bounded.counts  # while it grows: an interrupted run has counted, too
        inspection = Inspection(self._store, self._options, self.summary.account)
        self._inspection = inspection
        if self._observer is not None:
            self._observer.begin(inspection)
        observers = Observers(self._watch, self._observer, self.ledger)
        try:
            read = _refused(inspection, _run(inspection, observers))
            found = _once(inspection, _keep_book(inspection, self.ledger, read))
            yield from bounded.take(filter(self._options.keeps, found))
            bounded.add(_kept(inspection, self._options).items())
            yield from bounded.rest()
            self.summary.account.since = self._since(inspection)
            self.summary.is_finished = True
        finally:
            inspection.queues.close()
            for database in inspection.opened.values():
                database.close()
            compiling = announce.seconds() - compiling
            self.summary.seconds = max(time.monotonic() - begin - compiling, 0.0)

    def _since(self, inspection: Inspection) -> int | None:
        """Count the records that a running broker has stored after the last one that was read."""
        facts = inspection.log
        if not self._store.lock_held() or facts is None or facts.last_record < 0:
            return None
        with suppress(UnreadablePath):  # a file that expired meanwhile
            now = open_store(self._options.store, self._options.broker_conf)  # with its new files
            with LogReader(now.commitlog) as reader:
                if (head := reader.head_at(facts.last_record)) is not None:
                    walker = Walker(now.commitlog, reader, is_dledger=now.is_dledger)
                    return walker.walk(head, WALKED_RECORDS).records - 1
        return None

    @property
    def exit_code(self) -> int:
        """0 nothing at or above --fail-on, 1 found something, 3 some input could not be read."""
        if self.summary.account.unread:
            return INCOMPLETE
        limit = self._options.fail_on.rank
        failed = any(
            count for severity, count in self.summary.counts.items() if severity.rank >= limit
        )
        return DAMAGED if failed else SOUND


def validate(
    options: ValidateOptions,
    watch: Callable[[int], None] = lambda _: None,
    observer: Observer | None = None,
    place: Place | None = None,
) -> Findings:
    """Begin to validate a store; reading goes on while the findings are read.

    Args:
        options: what to validate, and how.
        watch: takes the bytes of the commitlog done since it was last called.
        observer: sees what is read, for a report.
        place: the root to read in place of the one that was asked for: a store as edits leave it.

    Raises:
        UnreadablePath: the store cannot be opened at all.
        NotAStore: nothing of a store was recognised.
        UnsupportedStore: it is a RocksDB database.
    """
    return Findings(options, watch, observer, place=place)


def _kept(inspection: Inspection, options: ValidateOptions) -> dict[tuple[Code, Severity], int]:
    """Give what was only counted, as far as it was asked for."""
    return {key: count for key, count in inspection.more.items() if options.keeps_code(key[0])}


def _keep_book(
    inspection: Inspection, ledger: Ledger | None, found: Iterator[Finding]
) -> Iterator[Finding]:
    """Let a ledger, if there is one, look at what is found."""
    if ledger is None:
        yield from found
        return
    yield from ledger.begin(inspection)
    yield from ledger.watch(found)
    yield from ledger.finish(inspection)


def _once(inspection: Inspection, found: Iterator[Finding]) -> Iterator[Finding]:
    """Leave out what says again that something cannot be read: several checks want it.

    What a running broker deleted meanwhile is counted, and no finding.
    """
    said = set()
    for one in found:
        if one.code == UNREAD:
            if one.path in said or one.path in inspection.account.expired:
                continue
            said.add(one.path)
        yield one


def _refused(inspection: Inspection, found: Iterator[Finding]) -> Iterator[Finding]:
    """Add what the disk refused to read without that any check said so."""
    with refused_reads() as refused:
        yield from found
    for error in refused.values():
        path = inspection.path_of(error.path)
        if not (inspection.is_below_unread(path) or inspection.is_known_unread(error.path)):
            yield inspection.unread(path, error)


def _run(inspection: Inspection, observers: Observers) -> Iterator[Finding]:
    """Run all checks that were asked for."""
    options = inspection.options
    for what, why in options.limits():
        inspection.leave_out(what, why)
    _know(inspection)
    checkpoint.read_early(inspection)
    rocksdb = _rocksdb(inspection)
    if rocksdb is not None and options.wants(*ROCKSDB_AREAS):
        yield from rocksdb.open()
    layout.register_lost(inspection)
    if options.wants("layout"):
        yield from layout.check(inspection)
        yield from access.check(inspection)
    yield from _log(inspection, rocksdb, observers)
    if options.wants("dledger", "commitlog"):
        yield from dledger.check(inspection)
    for areas, check in (
        (("consumequeue_ext",), consume_queue_ext.check),
        (("compaction",), compaction.check),
        (("checkpoint",), checkpoint.check),
        (("timer",), timer.check),
        (("epoch",), epoch.check),
        (("config",), broker_conf.check),
        (("config",), config.check),
        (("offsets",), offsets.check),
        (("filters",), filters.check),
    ):
        if options.wants(*areas):
            yield from check(inspection)
            yield from inspection.pending()
    if options.level.reads_log:
        if rocksdb is not None:
            yield from rocksdb.after_log()
        yield from inspection.pending()
    yield from inspection.lost.findings(options)
    _not_compared(inspection)


def _rocksdb(inspection: Inspection) -> RocksChecks | None:
    """Give what judges the databases of a store; None where there are none, and need not be."""
    found = _databases(inspection)
    if not found and not any(key.of(inspection.store.broker_conf) for key in ROCKSDB_KEYS):
        return None
    from rmqtool.check.rocksdb.checks import RocksChecks

    return RocksChecks(inspection, found)


def _know(inspection: Inspection) -> None:
    """Find out what kind of store this is."""
    options, store = inspection.options, inspection.store
    inspection.has_crashed = store.abort is not None
    with suppress(UnreadablePath):  # said elsewhere
        inspection.has_rocksdb_queues = store.queue_database() is not None
    reads = options.level.reads_log
    queues = options.wants("consumequeue", "batchconsumequeue", "consumequeue_ext")
    has_queues = bool(store.branches_of(BranchKind.CONSUME_QUEUE, BranchKind.BATCH_QUEUE))
    is_root = store.asked.kind is BranchKind.STORE
    inspection.compares_queues = reads and queues and (has_queues or is_root)
    if inspection.has_rocksdb_queues:
        inspection.compares_rocksdb = reads and options.wants("consumequeue")
        topics = _topics_in_files(inspection)
        inspection.compares_queues &= bool(topics) or DOUBLE_WRITE.of(store.broker_conf)
        inspection.light_in_rocksdb = not any(one.startswith(LMQ_PREFIX) for one in topics)
    if inspection.has_rocksdb_queues or options.wants("offsets"):
        # Before queues and log: a consumer goes on while they are read, and they tell how far
        # queues are that are not flushed.
        for name in OFFSETS:
            inspection.document_with_path(name)
    has_index = bool(store.branches_of(BranchKind.INDEX))
    inspection.compares_index = reads and has_index and options.wants("index")
    inspection.version = options.version or written_by(store).version


def _topics_in_files(inspection: Inspection) -> list[str]:
    try:
        return inspection.queues.files.topics()
    except UnreadablePath:
        return []  # the check of the queues says so


def _log(
    inspection: Inspection, rocksdb: RocksChecks | None, observers: Observers
) -> Iterator[Finding]:
    """Read the log, and compare queues and index with it."""
    options = inspection.options
    log = log_files(inspection)
    yield from inspection.pending()
    if log is None:
        if options.wants("commitlog", "consumequeue", "index"):
            inspection.leave_out("queues and index against the log", inspection.why_no_log)
            yield from _headers(inspection)
        return
    if not options.level.reads_log:
        yield from quick_facts(inspection)
        yield from _headers(inspection)
        inspection.leave_out(
            "records, units and entries", "--level quick looks at names, lengths and tails"
        )
        return
    yield from _whole_log(inspection, rocksdb, observers)


def _headers(inspection: Inspection) -> Iterator[Finding]:
    """Judge the headers of the index files alone."""
    if inspection.options.wants("index"):
        opened: list[Opened] = []
        yield from index_files(inspection, opened)


def _whole_log(
    inspection: Inspection, rocksdb: RocksChecks | None, observers: Observers
) -> Iterator[Finding]:
    queues = QueueComparer(inspection) if inspection.compares_queues else None
    batches = BatchComparer(inspection) if inspection.compares_queues else None
    index = IndexComparer(inspection) if inspection.compares_index else None
    rocks = rocksdb.comparer() if rocksdb is not None else None

    def take(report: PartReport) -> Iterator[Finding]:
        runs = report.runs
        if runs is None:
            return
        if queues is not None and batches is not None:
            yield from queues.take(runs.queues)
            yield from batches.take(runs.batch_queues)
        if rocks is not None:
            yield from rocks.take(runs.queues)
        if index is not None:
            yield from index.take(runs.index)

    begin = index.open if index is not None else None
    log = LogPass(inspection, take, observers)
    yield from log.check(begin)
    store = inspection.store
    with LogReader(store.old_commitlog, store.commitlog) as reader:
        if queues is not None and batches is not None:
            yield from queues.finish(reader)
            yield from batches.finish()
    if rocksdb is not None and rocks is not None:
        yield from rocksdb.finish_queues(rocks)
    if index is not None:
        yield from index.finish()
    if inspection.options.wants("commitlog"):
        yield from log.transactions.check(inspection)
    yield from inspection.pending()


def _databases(inspection: Inspection) -> list[RocksDb]:
    try:
        return inspection.store.rocksdb()
    except UnreadablePath as error:
        inspection.postpone(inspection.unread(inspection.path_of(error.path), error))
        return []


def _not_compared(inspection: Inspection) -> None:
    """Name what is recognised and not compared."""
    store = inspection.store
    for branch in store.branches_of(BranchKind.TIERED_INDEX):
        inspection.leave_out(branch.path, "tiered storage is not validated yet")
