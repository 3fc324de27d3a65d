"""All checks of one validation, in the order that avoids follow-up errors.

Layout, commitlog with queues and index in the same pass, transactions, extensions, compaction,
checkpoint, timer, epochs, JSON. What one learns and another needs is handed on here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import DOUBLE_WRITE, ROCKSDB_KEYS
from rmqtool.broker.rules import Rules
from rmqtool.check import access, layout
from rmqtool.check.index.index_header import Opened, index_files
from rmqtool.check.index.index_set import IndexComparer
from rmqtool.check.inspection import CheckScope, Inspection
from rmqtool.check.log import dledger, epoch, filters
from rmqtool.check.log.commitlog import LogPass, log_files, quick_facts
from rmqtool.check.log.facts import LogFacts
from rmqtool.check.queues import consume_queue_ext
from rmqtool.check.queues.batch_queue import BatchComparer
from rmqtool.check.queues.consume_queue import QueueComparer
from rmqtool.check.queues.ranges import QueueFacts, QueueRanges
from rmqtool.check.state import (
    broker_conf,
    checkpoint,
    compaction,
    config,
    offsets,
    timer,
)
from rmqtool.check.state.absent import MissingConfig
from rmqtool.derive.settings import light_queues_in_rocksdb_only
from rmqtool.errors import UnreadablePath
from rmqtool.queues.discovery import Queues
from rmqtool.store.branch import BranchKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.release import written_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.log.part import PartReport
    from rmqtool.check.observer import Observers, Proven
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.report import Account
    from rmqtool.check.rocksdb.checks import RocksChecks
    from rmqtool.findings.finding import Finding
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store

OFFSETS: Final = ("consumerOffset.json", "delayOffset.json")
ROCKSDB_AREAS: Final = ("rocksdb", "consumequeue", "index", "timer", "config", "offsets")


class Checks:
    """The checks of one store.

    Attributes:
        inspection: what each is given; its scope is settled when `run` begins.
        facts: what is known of the log, as far as it was read.
        queue_facts: likewise of queues.
    """

    def __init__(
        self, store: Store, options: ValidateOptions, account: Account, observers: Observers
    ) -> None:
        self.inspection = Inspection(store, options, account, Queues(store))
        self.facts, self.queue_facts = LogFacts(), QueueFacts()
        self._observers = observers
        self._rocksdb: RocksChecks | None = None

    def close(self) -> None:
        """Close the files of queues, and the databases."""
        self.inspection.queues.close()
        if self._rocksdb is not None:
            self._rocksdb.close()

    def run(self) -> Iterator[Finding]:
        """Run all checks that were asked for."""
        options = self.inspection.options
        for what, why in options.limits():
            self.inspection.leave_out(what, why)
        early = self._read_early()
        self._rocksdb = _rocksdb(self.inspection)
        if self._rocksdb is not None and options.wants(*ROCKSDB_AREAS):
            yield from self._rocksdb.open()
        ledger, observer = self._observers.ledger, self._observers.observer
        taken_over = frozenset[str]() if ledger is None else ledger.taken_over
        scope = _scope(self.inspection, self._rocksdb, taken_over)
        inspection = self.inspection = self.inspection.of_scope(scope)
        if observer is not None:
            observer.begin(inspection, self.facts, self.queue_facts)
        layout.register_lost(inspection, self.facts.lost)
        if options.wants("layout"):
            yield from layout.check(inspection)
            yield from access.check(inspection)
        yield from self._log()
        if options.wants("dledger", "commitlog"):
            yield from dledger.check(inspection)
        yield from self._other_files(early)
        if options.level.reads_log:
            if self._rocksdb is not None:
                yield from self._rocksdb.after_log(inspection, self.facts)
            yield from inspection.pending()
        yield from self.facts.lost.findings(options)
        for branch in inspection.store.branches_of(BranchKind.TIERED_INDEX):
            inspection.leave_out(branch.path, "tiered storage is not validated yet")

    def _read_early(self) -> checkpoint.Early:
        """Read before queues and log what goes on while these are read; give the checkpoint.

        Consumers go on, and they tell how far queues are that are not flushed.
        """
        inspection = self.inspection
        if _has_rocksdb_queues(inspection.store) or inspection.options.wants("offsets"):
            for name in OFFSETS:
                inspection.document_with_path(name)
        return checkpoint.read_early(inspection.store)

    def _other_files(self, early: checkpoint.Early) -> Iterator[Finding]:
        """Judge what lies beside log, queues and index."""
        inspection, facts, queue_facts = self.inspection, self.facts, self.queue_facts
        ranges = QueueRanges(inspection, facts, queue_facts)
        missing = MissingConfig(inspection, ranges)
        for area, found in (
            ("consumequeue_ext", consume_queue_ext.check(inspection)),
            ("compaction", compaction.check(inspection, queue_facts)),
            ("checkpoint", checkpoint.check(inspection, facts, queue_facts, early)),
            ("timer", timer.check(inspection, facts, ranges)),
            ("epoch", epoch.check(inspection, facts)),
            ("config", broker_conf.check(inspection)),
            ("config", config.check(inspection)),
            ("config", missing.check()),
            ("offsets", offsets.check(inspection, facts, ranges)),
            ("offsets", missing.check_offsets()),
            ("timer", missing.check_timer()),
            ("filters", filters.check(inspection)),
        ):
            if inspection.options.wants(area):
                yield from found
                yield from inspection.pending()

    def _log(self) -> Iterator[Finding]:
        """Read the log, and compare queues and index with it."""
        inspection, options = self.inspection, self.inspection.options
        log = log_files(inspection)
        yield from inspection.pending()
        if log is None:
            if options.wants("commitlog", "consumequeue", "index"):
                inspection.leave_out("queues and index against the log", inspection.why_no_log)
                yield from _headers(inspection)
            return
        if not options.level.reads_log:
            yield from quick_facts(inspection, self.facts)
            yield from _headers(inspection)
            inspection.leave_out(
                "records, units and entries", "--level quick looks at names, lengths and tails"
            )
            return
        yield from self._whole_log()

    def _whole_log(self) -> Iterator[Finding]:
        inspection, facts, queue_facts = self.inspection, self.facts, self.queue_facts
        compares, rocksdb = inspection.scope.compares_queues, self._rocksdb
        queues = QueueComparer(inspection, facts, queue_facts) if compares else None
        batches = BatchComparer(inspection, facts, queue_facts) if compares else None
        index = IndexComparer(inspection, facts) if inspection.scope.compares_index else None
        rocks = None if rocksdb is None else rocksdb.comparer(inspection, queue_facts)

        def take(report: PartReport, proven: Proven) -> Iterator[Finding]:
            runs = report.runs
            if runs is None:
                return
            if queues is not None and batches is not None:
                yield from queues.take(runs.queues, proven)
                yield from batches.take(runs.batch_queues)
            if rocks is not None:
                yield from rocks.take(runs.queues)
            if index is not None:
                yield from index.take(runs.index)

        begin = index.open if index is not None else None
        log = LogPass(inspection, facts, take, self._observers)
        yield from log.check(begin)
        store = inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as reader:
            if queues is not None and batches is not None:
                yield from queues.finish(reader)
                yield from batches.finish()
        if rocksdb is not None and rocks is not None:
            yield from rocksdb.finish_queues(inspection, facts, rocks)
        if index is not None:
            yield from index.finish()
        if inspection.options.wants("commitlog"):
            yield from log.transactions.check(inspection, facts)
        yield from inspection.pending()


def _has_rocksdb_queues(store: Store) -> bool:
    """Tell whether queues lie in RocksDB, as far as that can be seen."""
    with suppress(UnreadablePath):  # said elsewhere
        return store.queue_database() is not None
    return False


def _scope(
    inspection: Inspection, rocksdb: RocksChecks | None, taken_over: frozenset[str]
) -> CheckScope:
    """Settle what kind of store this is, and what is compared."""
    options, store = inspection.options, inspection.store
    reads = options.level.reads_log
    wants_queues = options.wants("consumequeue", "batchconsumequeue", "consumequeue_ext")
    has_queues = bool(store.branches_of(BranchKind.CONSUME_QUEUE, BranchKind.BATCH_QUEUE))
    is_root = store.asked.kind is BranchKind.STORE
    compares_queues = reads and wants_queues and (has_queues or is_root)
    in_rocksdb, topics = _has_rocksdb_queues(store), list[str]()
    if in_rocksdb:
        with suppress(UnreadablePath):  # the check of the queues says so
            topics = inspection.queues.files.topics()
        compares_queues &= bool(topics) or DOUBLE_WRITE.of(store.broker_conf)
    can_read = rocksdb is not None and rocksdb.can_read_queues
    has_index = bool(store.branches_of(BranchKind.INDEX))
    version, is_release_known = options.version, True
    if version is None:
        wrote = written_by(store)
        version, is_release_known = wrote.version, wrote.is_settled
    return CheckScope(
        version=version,
        is_release_known=is_release_known,
        has_crashed=store.abort is not None,
        compares_queues=compares_queues,
        compares_index=reads and has_index and options.wants("index"),
        has_rocksdb_queues=in_rocksdb,
        compares_rocksdb=in_rocksdb and can_read and reads and options.wants("consumequeue"),
        light_in_rocksdb=in_rocksdb and light_queues_in_rocksdb_only(store, Rules(version), topics),
        has_metadata_2=rocksdb is not None and rocksdb.has_metadata_2,
        taken_over=taken_over,
    )


def _rocksdb(inspection: Inspection) -> RocksChecks | None:
    """Give what judges the databases of a store; None where there are none, and need not be."""
    found = _databases(inspection)
    if not found and not any(key.of(inspection.store.broker_conf) for key in ROCKSDB_KEYS):
        return None
    from rmqtool.check.rocksdb.checks import RocksChecks

    return RocksChecks(inspection, found)


def _databases(inspection: Inspection) -> list[RocksDb]:
    try:
        return inspection.store.rocksdb()
    except UnreadablePath as error:
        inspection.postpone(inspection.unread(inspection.path_of(error.path), error))
        return []


def _headers(inspection: Inspection) -> Iterator[Finding]:
    """Judge the headers of the index files alone."""
    if inspection.options.wants("index"):
        opened: list[Opened] = []
        yield from index_files(inspection, opened)
