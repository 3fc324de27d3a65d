"""One pass over the commitlog: records, segments, and with the same bytes queues and index.

Source: DefaultMessageStore#load, CommitLog#recoverNormally, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import APPENDS_PROPERTY_CRC, FORCES_PROPERTY_CRC
from rmqtool.check.log.part import PartOptions, PartReport, inspect_part
from rmqtool.check.log.segments import SegmentJudge
from rmqtool.derive.collector import forget_scratch
from rmqtool.derive.part import DeriveOptions
from rmqtool.derive.settings import rocksdb_rules, rules_of, run_units
from rmqtool.engine import results_travel
from rmqtool.errors import DamagedDatabase, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_TIME, CL_TOPIC, CL_TRANREF, DL_ENTRY
from rmqtool.judge.foreign import foreign_segments, of_foreign
from rmqtool.judge.message import RecordOptions
from rmqtool.ledger.proof import Prover
from rmqtool.machine.arrays import is_in
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.store.parts import parts
from rmqtool.store.record_heads import TIME_TOLERANCE_MS, LogReader
from rmqtool.store.tail import find_tail
from rmqtool.store.used import last_used_start
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.observer import Observers
    from rmqtool.findings.finding import Finding
    from rmqtool.judge.dledger import DLedgerEntryJudge
    from rmqtool.judge.message import RecordJudge
    from rmqtool.ledger.walk import Proven
    from rmqtool.store.segment import MappedFiles, Segment, SegmentPart


# Areas that are judged by what queues hold, and by what the log wants of them.
WITH_UNITS: Final = (
    "consumequeue",
    "index",
    "offsets",
    "checkpoint",
    "compaction",
    "timer",
    "rocksdb",
)
WITH_QUEUES: Final = (*WITH_UNITS, "batchconsumequeue", "consumequeue_ext")
NOT_READ: Final = "with --only commitlog they are read at --level deep"


class LogPass:
    """Reads the whole log once and hands what it finds to whoever compares with it."""

    def __init__(
        self,
        inspection: Inspection,
        facts: LogFacts,
        take: Callable[[PartReport, Proven], Iterator[Finding]],
        observers: Observers,
    ) -> None:
        """Prepare.

        Args:
            inspection: of the store.
            facts: takes what is learned of the log.
            take: compares the runs of a part with queues and index, but for those that an
                observer has compared already.
            observers: look on.
        """
        self._inspection, self._facts = inspection, facts
        self._take, self._observers = take, observers
        self.transactions = Transactions()
        self._last_time = -1
        self._last_entry: tuple[int, int] | None = None

    def check(self, begin: Callable[[], Iterator[Finding]] | None = None) -> Iterator[Finding]:
        """Judge all records and segments.

        Args:
            begin: what is to be done once it is known where the log starts.
        """
        inspection, facts = self._inspection, self._facts
        store, taken_over = inspection.store, inspection.scope.taken_over
        logs = [*filter(None, (store.old_commitlog,)), store.commitlog]
        read = [segment for log in logs for segment in log.segments]
        facts.is_known = True
        facts.oldest = min((segment.start for segment in read), default=0)
        read = [segment for segment in read if segment.path not in taken_over]
        facts.start = min((segment.start for segment in read), default=facts.oldest)
        foreign = foreign_segments(read)
        facts.foreign = frozenset(segment.start for segment in foreign)
        for segment in foreign:
            facts.lost.add(segment.start, segment.end, of_foreign(segment))
        if begin is not None:
            yield from begin()
        for log in logs:
            segments = [
                duplicate
                for duplicate in _without_duplicates(log.segments)
                if duplicate.path not in taken_over
            ]
            last_used = last_used_start(segments)
            judge = SegmentJudge(inspection, facts.lost, last_used)
            options = self._options(last_used, log)
            cut = parts(segments, inspection.options.part_bytes)
            is_live = store.moment.is_live
            function = partial(inspect_part, options=options)
            for part, report in run_joined(function, cut, jobs=inspection.options.jobs):
                if is_live and part.segment.start > last_used and not report.is_unused:
                    continue  # the file before it was read before its end was written
                yield from judge.take(part.segment, report.stretches, report.end)
                yield from self._take_report(part, report)
            yield from judge.finish()
        forget_scratch()
        facts.is_scanned = True
        facts.timer_messages = self.transactions.timer_messages()

    @property
    def reads_records(self) -> bool:
        """Whether topics and properties are read."""
        asked, scope = self._inspection.options, self._inspection.scope
        compares = scope.compares_queues or scope.compares_rocksdb or scope.numbers_unread
        is_asked = asked.reads_records or asked.wants(*WITH_QUEUES)
        return asked.level.is_deep or compares or scope.compares_index or is_asked

    def _options(self, last_used: int, log: MappedFiles) -> PartOptions:
        inspection = self._inspection
        asked, store = inspection.options, inspection.store
        deep = asked.level.is_deep
        scope = inspection.scope
        queues = scope.compares_queues or scope.compares_rocksdb or scope.numbers_unread
        index = scope.compares_index
        texts = self.reads_records
        scan = ScanOptions(texts=texts, property_crc=texts, well_formed=deep)
        derive = None
        rules = self._rules() if texts else None
        if rules is not None and (queues or index):
            derive = DeriveOptions(
                rules,
                queues=queues,
                index=index,
                run_units=run_units(store),
                times=scope.compares_rocksdb,
                scan=scan,
            )
            scan = derive.scan_options
        if asked.wants("commitlog") and not asked.reads_records:
            others = "" if texts else "topics, properties, transactions and "
            inspection.leave_out(f"{others}queue offsets of records", NOT_READ)
        conf = store.broker_conf
        records = RecordOptions(
            content=deep,
            property_crc=APPENDS_PROPERTY_CRC.of(conf),
            force_property_crc=FORCES_PROPERTY_CRC.of(conf),
            rules=rules,
            knows_v2=inspection.options.version is None or inspection.scope.release.has_v2,
        )
        index_files = store.dledger_index if log.entry_header else None
        grid = self._observers.grid if texts else None
        prover = self._prover() if derive is not None else None
        return PartOptions(scan, derive, records, last_used, index_files, grid, prover)

    def _prover(self) -> Prover | None:
        """Give what compares where the log is read; None where that saves nothing.

        Who looks on wants all that the log asks for, a broker goes on writing, and a bucket would
        be asked for each run.
        """
        inspection, looking_on = self._inspection, self._observers
        store, scope = inspection.store, inspection.scope
        if looking_on.observer is not None or looking_on.ledger is not None:
            return None
        if not results_travel() or store.moment.is_live or not store.asked.place.is_local:
            return None
        queues = scope.compares_queues and not scope.compares_rocksdb
        return Prover(replace(store), queues, scope.compares_index)

    def _rules(self) -> DispatchRules:
        """Give the rules by which records are dispatched, to files, to RocksDB or to both."""
        inspection = self._inspection
        rules = rules_of(inspection.store, inspection.scope.version)
        queues = inspection.queues.database.source if inspection.scope.compares_rocksdb else None
        if queues is None:
            return rules
        has_files = inspection.scope.compares_queues
        try:
            return rocksdb_rules(inspection.store, rules, queues, has_files=has_files)
        except DamagedDatabase:  # who compares the units says so
            return rules

    def _take_report(self, part: SegmentPart, report: PartReport) -> Iterator[Finding]:
        """Add up what a part says, and compare its runs."""
        inspection, facts, account = self._inspection, self._facts, self._inspection.account
        if report.unread:
            path = part.segment.path
            defect = inspection.unread(path, report.unread)
            begin = part.segment.start + max(
                report.end if report.records else part.begin, part.begin
            )
            facts.lost.add(begin, part.segment.start + part.end, defect)
        yield from self._restore(report)
        account.records += report.records
        account.bytes += part.length
        self._observers.watch(part.length)
        for reported in report.findings:
            if reported.code == CL_TOPIC and reported.severity is Severity.DAMAGE:
                self._lose(reported)
            elif not self._is_lost(reported):
                yield reported
        facts.counted.update(report.counts)
        if part.segment.start in facts.foreign:
            report.runs = report.judge = None  # no queue, no key and no time of this broker
        yield from self._across(part, report)
        self._add_facts(part, report)
        proven = self._observers.take(part, report)
        yield from self._take(report, proven)

    def _restore(self, report: PartReport) -> Iterator[Finding]:
        """Read the index entries that an executor has left out, as they lie on disk."""
        if report.index_on_disk is None or report.runs is None:
            return
        try:
            run = report.index_on_disk.restored(self._inspection.store)
        except UnreadablePath as error:  # it could be read a moment ago
            path = self._inspection.path_of(error.path)
            if not self._inspection.is_known_unread(path):
                yield self._inspection.unread(path, error)
            return
        report.runs = replace(report.runs, index=run)

    def _lose(self, defect: Finding) -> None:
        """Take a record whose topic is impossible for lost: no queue and no key can be right."""
        start, length = defect.physical_offset or 0, defect.length or 0
        self._facts.lost.add(start, start + length, defect)

    def _is_lost(self, defect: Finding) -> bool:
        """Tell whether a finding is about a record that a gap has taken with it."""
        place = defect.physical_offset
        return place is not None and self._facts.lost.at(place) is not None

    def _add_facts(self, part: SegmentPart, report: PartReport) -> None:
        facts, judge = self._facts, report.judge
        if report.records and judge is not None:
            facts.last_record = max(facts.last_record, report.last_record)
            facts.end = max(facts.end, report.last_end)
            facts.newest_time = max(facts.newest_time, judge.newest_time)
            self._last_time = judge.last_time
            facts.move(judge.moved)
            self.transactions.take(judge)
            for bridge in judge.bridges:
                start = bridge.physical_offset or 0
                facts.bridges.append(start)
                facts.lost.add(start, start + (bridge.length or 0), bridge)
        for stretch in report.stretches:
            if stretch.kind is Extent.FILLER:
                end = part.segment.start + stretch.position + stretch.length
                facts.end = max(facts.end, end)

    def _across(self, part: SegmentPart, report: PartReport) -> Iterator[Finding]:
        """Compare the first record of a part with the last one of the part before."""
        judge, before = report.judge, self._last_time
        if judge is None or judge.first_time < 0:
            return
        if before - judge.first_time > TIME_TOLERANCE_MS:
            first = part.begin if report.first is None else report.first
            yield finding(
                CL_TIME,
                At(part.segment.path, first, None, part.segment.start + first),
                f"storeTimestamp goes back {before - judge.first_time} ms here",
                expected=f"{iso_time(before)} or later",
                actual=iso_time(judge.first_time),
            )
        entries = report.entries
        if entries is not None:
            if entries.unread is not None:
                path = self._inspection.path_of(entries.unread.path)
                if not self._inspection.is_known_unread(path):
                    yield self._inspection.unread(path, entries.unread)
            yield from self._entries_across(part, report, entries)

    def _entries_across(
        self, part: SegmentPart, report: PartReport, entries: DLedgerEntryJudge
    ) -> Iterator[Finding]:
        if self._last_entry is not None and entries.first is not None:
            number, term = self._last_entry
            is_next = entries.first[0] == number + 1 and entries.first[1] >= term
            start = part.segment.start + (report.first or 0)
            if not is_next and not self._facts.lost.between(start - 1, start + 1):
                at = At(part.segment.path, report.first, None, start)
                message = "the entry's number or term does not follow the previous entry's"
                actual = "entry {} of term {}".format(*entries.first)
                yield finding(DL_ENTRY, at, message, actual=actual)
        self._last_entry = entries.last or self._last_entry


def quick_facts(inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
    """Find the end of the log without reading it all, for --level quick."""
    store = inspection.store
    logs = [log for log in (store.old_commitlog, store.commitlog) if log.segments]
    try:
        with LogReader(*logs) as reader:
            tail = find_tail(store.commitlog, reader)
    except UnreadablePath as error:
        yield inspection.unread(inspection.path_of(error.path), error)
        return
    facts.is_known = True
    facts.newest_time = tail.last.store_timestamp if tail.last else 0
    facts.last_record = tail.last.physical_offset if tail.last else -1
    facts.start = facts.oldest = min((log.start for log in logs), default=0)
    facts.end = tail.physical_offset


def _without_duplicates(segments: Sequence[Segment]) -> list[Segment]:
    """Give one segment for each start: a second one would be read as a jump back."""
    return list({segment.start: segment for segment in segments}.values())


def log_files(inspection: Inspection) -> MappedFiles | None:
    """Give the log; None, and a finding to come, when its directory cannot be listed."""
    store = inspection.store
    try:
        for log in (store.old_commitlog, store.commitlog):
            if log.segments:
                return store.commitlog
    except UnreadablePath as error:
        inspection.postpone(inspection.unread(inspection.path_of(error.path), error))
    return None


# Judge transactions across the log: commits without their half, halves without an end.
#
# Only the broker that ends a transaction sets preparedTransactionOffset. A committed message that
# is
# stored again, when it is retried, revived, delayed, due or dead, keeps its flag with an offset of
# 0.
# See TransactionalMessageBridge, EndTransactionProcessor#processRequest,
# AbstractSendMessageProcessor#consumerSendMsgBack, ScheduleMessageService, PopReviveService,
# TimerMessageStore#convert, 4.9.3 to 5.5.0.


class Transactions:
    """Collects halves and ends while the log goes by; 16 bytes for each."""

    def __init__(self) -> None:
        self._commits: list[npt.NDArray[np.int64]] = []
        self._halves: list[npt.NDArray[np.int64]] = []
        self._ended: set[int] = set()
        self.timers: list[npt.NDArray[np.int64]] = []

    def take(self, judge: RecordJudge) -> None:
        """Take what one part has."""
        self._commits += judge.commits
        self._halves += judge.halves
        self._ended.update(judge.op_offsets)
        self.timers += judge.timers

    def timer_messages(self) -> npt.NDArray[np.int64]:
        """Give all timer messages: int64, shape (5, n), in the order of the log.

        Rows: physical offset, size, hash of the topic, due time in ms, 1 for one that takes
        another back; the last three are `UNKNOWN` where nobody looked.
        """
        return np.concatenate(self.timers, axis=1) if self.timers else np.empty((5, 0), np.int64)

    def check(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        """Compare both sides."""
        yield from self._check_commits(inspection, facts)
        if inspection.options.level.is_deep:
            yield from self._check_halves()

    def _check_commits(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        if not self._commits or not facts.is_known:
            return
        commits = np.concatenate(self._commits, axis=1)
        halves = np.concatenate(self._halves, axis=1)[0] if self._halves else np.empty(0, np.int64)
        prepared = commits[1]
        # One in front of the log has expired; a negative one was never right.
        has_expired = (prepared >= 0) & (prepared < facts.start)
        is_lone = ~has_expired & ~is_in(prepared, np.sort(halves))
        is_lone &= ~facts.lost.mask(prepared)
        # Records that were moved are known by what they say of themselves.
        moved = np.array(sorted(facts.moved), np.int64)
        is_lone &= ~is_in(prepared, moved)
        store = inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            for place, offset in commits[:, is_lone].T.tolist():
                message = "the half message of this committed message was not found"
                yield finding(CL_TRANREF, _at(log, place), message, actual=offset)

    def _check_halves(self) -> Iterator[Finding]:
        if not self._halves:
            return
        offsets = np.concatenate(self._halves, axis=1)[1]
        ended = np.array(sorted(self._ended), np.int64)
        count = int((~is_in(offsets, ended)).sum())
        if count:
            message = f"{count:,} of {len(offsets):,} half records have no end yet"
            yield finding(CL_TRANREF, At("commitlog"), message, severity=Severity.NOTE)


def _at(log: LogReader, place: int) -> At:
    """Say where a record lies, and in which queue it belongs."""
    segment = log.segment_at(place)
    if segment is None:
        return At("commitlog", physical_offset=place)
    at = At(segment.path, place - segment.start, None, place)
    try:
        head = log.head_at(place)
        queue = head and (log.topic_of(head), head.queue_id, head.queue_offset)
    except UnreadablePath:
        return at
    return At(at.path, at.position, None, place, *queue) if queue else at
