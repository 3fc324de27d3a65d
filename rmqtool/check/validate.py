"""Validate a store: what its checks find, streamed, and the account of what was looked at."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.conf import DOUBLE_WRITE, ROCKSDB_KEYS, keeps_index_files
from rmqtool.broker.release import COMMONEST
from rmqtool.broker.rules import Rules
from rmqtool.check import layout
from rmqtool.check.findings_list import Bounded
from rmqtool.check.index.index_header import index_files
from rmqtool.check.index.index_set import IndexComparer
from rmqtool.check.inspection import CheckScope, Inspection
from rmqtool.check.log import dledger, filters
from rmqtool.check.log.commitlog import WITH_QUEUES, WITH_UNITS, LogPass, log_files, quick_facts
from rmqtool.check.log.facts import LogFacts
from rmqtool.check.observer import Observers
from rmqtool.check.options import UNREAD
from rmqtool.check.queues import consume_queue_ext
from rmqtool.check.queues.batch_queue import BatchComparer
from rmqtool.check.queues.consume_queue import QueueComparer, UnreadQueues
from rmqtool.check.queues.ranges import QueueFacts, QueueRanges
from rmqtool.check.report import Account, Summary
from rmqtool.check.state import checkpoint, compaction, config, offsets, timer
from rmqtool.check.state.absent import MissingConfig, may_lack
from rmqtool.derive.placement import ALL_IN_BOTH, QueuePlacement, placement_of
from rmqtool.errors import EngineMissing, UnreadablePath
from rmqtool.findings.catalogue import Area, Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_NOLOG, FS_OWNER
from rmqtool.formats.config_names import DELAYS_JSON, OFFSETS_JSON
from rmqtool.machine import announce
from rmqtool.queues.discovery import Queues
from rmqtool.store.access import Holdings, owner_name, user_named
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.refused import refused_reads
from rmqtool.store.release import written_by
from rmqtool.store.remote_listing import listed_once
from rmqtool.store.tail import WALKED_RECORDS, Walker
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from rmqtool.broker.release import Version
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.manifest.manifest import Manifest
    from rmqtool.check.manifest.manifest_ledger import Ledger
    from rmqtool.check.observer import Observer
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.queues.queue_state import StretchJudge
    from rmqtool.check.rocksdb.checks import RocksChecks
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.walk import Proven
    from rmqtool.store.access import Held, User
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store


SOUND: Final = 0
DAMAGED: Final = 1
INCOMPLETE: Final = 3
IN_FILES: Final[tuple[type[StretchJudge[Any]], ...]] = (QueueComparer, BatchComparer)


class Findings:
    """The findings of one validation; they stream, and the summary is known after the last one.

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
        self._checks: Checks | None = None
        self.ledger: Ledger | None = None
        if before is not None or options.since is not None or options.keeps_book:
            from rmqtool.check.manifest.manifest import Manifest  # few ask for one
            from rmqtool.check.manifest.manifest_ledger import Ledger

            if before is None and options.since is not None:
                self.ledger = Ledger(Manifest.read(options.since), os.fspath(options.since))
            else:
                self.ledger = Ledger(before)

    @property
    def location(self) -> str:
        """Absolute path of the store root."""
        return str(self._store.root)

    @property
    def version(self) -> Version:
        """Release that is to run on the store, or may have written it, as far as is known yet."""
        return self._checks.inspection.scope.version if self._checks else COMMONEST

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
            yield from self._checked()

    def _checked(self) -> Iterator[Finding]:
        begin, compiling = time.monotonic(), announce.seconds()
        bounded = Bounded()
        self.summary.codes = bounded.counts  # while it grows: an interrupted run has counted, too
        account = self.summary.account
        observers = Observers(self._watch, self._observer, self.ledger)
        checks = self._checks = Checks(self._store, self._options, account, observers)
        try:
            read = _refused(checks.inspection, checks.run())
            findings = _once(checks.inspection, _keep_book(checks, self.ledger, read))
            yield from bounded.take(filter(partial(_keeps, self._store, self._options), findings))
            bounded.add(_kept(checks.facts, self._options).items())
            yield from bounded.rest()
            account.since = self._since(checks.facts)
            self.summary.is_finished = True
        finally:
            checks.close()
            compiling = announce.seconds() - compiling
            self.summary.seconds = max(time.monotonic() - begin - compiling, 0.0)

    def _since(self, facts: LogFacts) -> int | None:
        """Count the records that a running broker has stored after the last one that was read."""
        if not self._store.moment.is_live or facts.last_record < 0:
            return None
        with suppress(UnreadablePath):  # a file that expired meanwhile
            now = open_store(self._options.store, self._options.broker_conf)  # with its new files
            with LogReader(now.commitlog) as reader:
                if (head := reader.head_at(facts.last_record)) is not None:
                    walker = Walker(now.commitlog, reader)
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


def _keeps(store: Store, options: ValidateOptions, finding: Finding) -> bool:
    """Tell whether a finding is to be reported: a file that an area lacks is of the area, too."""
    if options.keeps(finding):
        return True
    if finding.code.area != Area.LAYOUT or finding.code in options.ignore:
        return False
    kinds = {
        kind for area, files in layout.FILES_OF.items() if area in options.only for kind in files
    }
    names = [artefact.path for artefact in store.branches_of(*kinds)]
    if finding.code == FS_NOLOG and Area.COMMITLOG in options.only:
        return True
    return any(finding.path == name or finding.path.startswith(f"{name}/") for name in names)


def _kept(facts: LogFacts, options: ValidateOptions) -> dict[tuple[Code, Severity], int]:
    """Give what was only counted, as far as it was asked for."""
    return {key: count for key, count in facts.counted.items() if options.keeps_code(key[0])}


def _keep_book(
    checks: Checks, ledger: Ledger | None, findings: Iterator[Finding]
) -> Iterator[Finding]:
    """Let a ledger, if there is one, look at what is found."""
    if ledger is None:
        yield from findings
        return
    yield from ledger.begin(checks.inspection)
    yield from ledger.watch(findings)
    yield from ledger.finish(checks.inspection, checks.facts)


def _once(inspection: Inspection, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Leave out what says again that something cannot be read: several checks want it.

    What a running broker deleted meanwhile is counted, and no finding; nor is what is said of the
    queues of a topic that it deleted.
    """
    seen = set()
    for defect in findings:
        if defect.code == UNREAD:
            if defect.path in seen or defect.path in inspection.account.expired:
                continue
            seen.add(defect.path)
        if defect.severity is Severity.NOTE or not inspection.is_of_deleted(defect):
            yield defect


def _refused(inspection: Inspection, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Add what the disk refused to read without that any check said so."""
    with refused_reads() as refused:
        yield from findings
    for error in refused.values():
        path = inspection.path_of(error.path)
        if not (inspection.is_below_unread(path) or inspection.is_known_unread(error.path)):
            yield inspection.unread(path, error)


# All checks of one validation, in the order that avoids follow-up errors.
#
# Layout, commitlog with queues and index in the same pass, transactions, extensions, compaction,
# checkpoint, timer, epochs, JSON. What one learns and another needs is handed on here.


OFFSETS: Final = (OFFSETS_JSON, DELAYS_JSON)
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
        if store.moment.is_live:
            from rmqtool.queues.as_of import as_of

            store = as_of(store)
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
        self._read_early()
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
            yield from check(inspection)
        elif areas := options.only & layout.FILES_OF.keys():
            yield from layout.check_areas(inspection, areas)
        yield from self._log()
        if options.wants("dledger", "commitlog"):
            yield from dledger.check(inspection)
        yield from self._other_files()
        if options.level.reads_log:
            if self._rocksdb is not None:
                yield from self._rocksdb.after_log(inspection, self.facts)
            yield from inspection.pending()
        yield from self.facts.lost.findings(partial(_keeps, inspection.store, options))
        for artefact in inspection.store.branches_of(ArtefactKind.TIERED_INDEX):
            inspection.leave_out(artefact.path, "tiered storage is not validated yet")

    def _read_early(self) -> None:
        """Read before queues and log what consumers go on with while these are read.

        It tells how far queues are that are not flushed.
        """
        inspection = self.inspection
        if _has_rocksdb_queues(inspection.store) or inspection.options.wants("offsets"):
            for name in OFFSETS:
                inspection.document_with_path(name)

    def _other_files(self) -> Iterator[Finding]:
        """Judge what lies beside log, queues and index."""
        inspection, facts, queue_facts = self.inspection, self.facts, self.queue_facts
        ranges = QueueRanges(inspection, facts, queue_facts)
        missing = MissingConfig(inspection, ranges)
        for area, findings in (
            ("consumequeue_ext", consume_queue_ext.check(inspection)),
            ("compaction", compaction.check(inspection, queue_facts)),
            ("checkpoint", checkpoint.check(inspection, facts, queue_facts)),
            ("timer", timer.check(inspection, facts, ranges)),
            ("epoch", _epochs(inspection, facts)),
            ("config", _broker_conf(inspection)),
            ("config", config.check(inspection)),
            ("config", missing.check()),
            ("offsets", offsets.check(inspection, facts, ranges)),
            ("offsets", missing.check_offsets()),
            ("timer", missing.check_timer()),
            ("rocksdb", missing.check_pop()),
            ("filters", filters.check(inspection)),
        ):
            if inspection.options.wants(area):
                yield from findings
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
        scope, rocksdb = inspection.scope, self._rocksdb
        kinds = IN_FILES if scope.compares_queues else ()
        kinds = (UnreadQueues,) if scope.numbers_unread else kinds
        queues = [kind(inspection, facts, queue_facts) for kind in kinds]
        index = IndexComparer(inspection, facts, queue_facts) if scope.compares_index else None
        rocks = None if rocksdb is None else rocksdb.comparer(inspection, queue_facts)

        def take(report: PartReport, proven: Proven) -> Iterator[Finding]:
            for comparer in queues:
                yield from comparer.compare(report, proven)
            runs = report.runs
            if rocks is not None and runs is not None:
                yield from rocks.take(rocks.walk.take(runs.queues))
            if index is not None and runs is not None:
                yield from index.take(runs.index)

        begin = index.open if index is not None else None
        log = LogPass(inspection, facts, take, self._observers)
        yield from log.check(begin)
        store = inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as reader:
            for comparer in queues:
                yield from comparer.finish(reader)
            if rocksdb is not None and rocks is not None:
                yield from rocksdb.finish_queues(inspection, facts, rocks)
            if index is not None:
                yield from index.finish(reader)
        if inspection.options.wants("commitlog") and log.reads_records:
            yield from log.transactions.check(inspection, facts)
        yield from inspection.pending()


def _epochs(inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
    if inspection.store.branches_of(ArtefactKind.EPOCH):
        from rmqtool.check.log import epoch  # few brokers are replicated by a controller

        yield from epoch.check(inspection, facts)


def _broker_conf(inspection: Inspection) -> Iterator[Finding]:
    if (conf := inspection.store.broker_conf) is not None:
        from rmqtool.check.state import broker_conf  # few stores have one with them

        yield from broker_conf.check(inspection, conf)


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
    wants_queues = options.reads_records or options.wants(*WITH_QUEUES)
    has_queues = bool(store.branches_of(ArtefactKind.CONSUME_QUEUE, ArtefactKind.BATCH_QUEUE))
    is_root = store.asked.kind is ArtefactKind.STORE
    version, is_release_known = options.version, True
    if version is None:
        wrote = written_by(store)
        version, is_release_known = wrote.version, wrote.is_settled
    wants_units = options.reads_records or options.wants(*WITH_UNITS)
    if reads and is_root and not wants_units:
        wants_units = may_lack(inspection, version)
        wants_queues |= wants_units
    compares_queues = reads and wants_queues and (has_queues or is_root)
    in_rocksdb, topics = _has_rocksdb_queues(store), list[str]()
    if in_rocksdb:
        with suppress(UnreadablePath):  # the check of the queues says so
            topics = inspection.queues.files.topics()
        compares_queues &= bool(topics) or DOUBLE_WRITE.of(store.broker_conf)
    can_read = rocksdb is not None and rocksdb.can_read_queues
    has_index = bool(store.branches_of(ArtefactKind.INDEX))
    has_index |= is_root and keeps_index_files(store.broker_conf, version)
    return CheckScope(
        version=version,
        is_release_known=is_release_known,
        has_crashed=store.abort is not None,
        compares_queues=compares_queues,
        compares_index=reads and has_index and options.wants("index"),
        has_rocksdb_queues=in_rocksdb,
        compares_rocksdb=in_rocksdb and can_read and reads and wants_units,
        numbers_unread=in_rocksdb
        and reads
        and wants_units
        and not compares_queues
        and not (can_read and any(True for _ in _names_in_rocksdb(inspection))),
        placement=_placement(inspection, Rules(version), topics) if in_rocksdb else ALL_IN_BOTH,
        has_metadata_2=rocksdb is not None and rocksdb.has_metadata_2,
        taken_over=taken_over,
    )


def _placement(inspection: Inspection, release: Rules, in_files: list[str]) -> QueuePlacement:
    names = partial(_names_in_rocksdb, inspection)
    return placement_of(inspection.store, release, in_files, names)


def _names_in_rocksdb(inspection: Inspection) -> Iterable[tuple[bytes, int]]:
    with suppress(UnreadablePath, EngineMissing):  # the check of the queues says so
        if (source := inspection.queues.database.source) is not None:
            return source.names
    return []


def _rocksdb(inspection: Inspection) -> RocksChecks | None:
    """Give what judges the databases of a store; None where there are none, and need not be."""
    databases = _databases(inspection)
    if not databases and not any(key.of(inspection.store.broker_conf) for key in ROCKSDB_KEYS):
        return None
    from rmqtool.check.rocksdb.checks import RocksChecks

    return RocksChecks(inspection, databases)


def _databases(inspection: Inspection) -> list[RocksDb]:
    try:
        return inspection.store.rocksdb()
    except UnreadablePath as error:
        inspection.postpone(inspection.unread(inspection.path_of(error.path), error))
        return []


def _headers(inspection: Inspection) -> Iterator[Finding]:
    """Judge the headers of the index files alone."""
    if inspection.options.wants("index"):
        yield from index_files(inspection, [])


# Judge owner and mode of a store's files: FS-OWNER.
#
# Whoever looks after a store as root leaves files of root, and the broker's user cannot open these.
# See DefaultMappedFile#init, MappedFileQueue#load, 4.9.3 to 5.5.0.


def check(inspection: Inspection) -> Iterator[Finding]:
    """Say what the broker's user cannot use, and what belongs to somebody else than most."""
    store, name = inspection.store, inspection.options.as_user
    if store.asked.kind is not ArtefactKind.STORE:
        return
    holdings = Holdings.of(store, inspection.short_queues())
    usual = holdings.usual_user()
    user = usual if name is None else user_named(name)
    if user is None or usual is None:
        return
    reported: dict[str, tuple[int, bool]] = {}
    for holding in holdings.chosen(
        lambda holding: holding.owner != usual.uid or not holding.allows(user)
    ):
        verdict = holding.owner, holding.allows(user)
        if reported.get(_reported_above(holding.path, reported)) != verdict:
            reported[holding.path] = verdict
            yield _finding(holding, user, usual)


def _reported_above(path: str, reported: dict[str, tuple[int, bool]]) -> str:
    """Give the nearest directory above a path of which something was said; empty for none."""
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in reported:
            return path
    return ""


def _finding(holding: Held, user: User, usual: User) -> Finding:
    owner = owner_name(holding.owner)
    actual = f"owner {owner}, mode {holding.mode:04o}"
    below = " and its content" if holding.is_directory else ""
    if holding.allows(user):
        message = f"it{below} belongs to {owner}, most of the store to {usual.name}"
        return finding(
            FS_OWNER,
            At(holding.path),
            message,
            expected=f"owner {usual.name}",
            actual=actual,
            severity=Severity.NOTE,
        )
    message = f"user {user.name} cannot read and write it{below}"
    expected = f"owner {user.name}, mode {'0755' if holding.is_directory else '0644'}"
    return finding(FS_OWNER, At(holding.path), message, expected=expected, actual=actual)
