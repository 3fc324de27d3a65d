"""Judge one part of a commitlog: the function that threads, and later executors, run.

One pass over the bytes gives the findings of the records, what lies between them, and the
dispatch runs with which queues and index are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.check.findings_list import Bounded
from rmqtool.check.log.traffic import LogTraffic
from rmqtool.derive.runs import Stretch
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_commitlog import CL_STALE, CL_TAIL
from rmqtool.judge.dledger import DLedgerEntryJudge
from rmqtool.judge.message import RecordJudge, RecordOptions
from rmqtool.judge.reading import ends_in_zero
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.scan.message import scan
from rmqtool.store.record_heads import WITNESSES, are_remains

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.derive.collector import RunCollector
    from rmqtool.derive.part import DeriveOptions
    from rmqtool.derive.runs import Runs
    from rmqtool.findings.catalogue import Code, Severity
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.proof import EntriesOnDisk, Prover
    from rmqtool.scan.batch import Batch, ScanOptions
    from rmqtool.store.segment import MappedFiles, SegmentPart

STALE = CL_STALE
TAIL = CL_TAIL


class PartOptions(NamedTuple):
    """What is asked of a part. Picklable."""

    scan: ScanOptions  # what to read of each record
    derive: DeriveOptions | None  # which runs to derive; None for none
    records: RecordOptions  # how to judge records
    # start of the last segment that holds anything; only there can old records lie after the tail
    last_used: int
    # files of DLedger's own index, to be compared; None without
    dledger_index: MappedFiles | None = None
    # stretches of time in which records are to be counted; None for no counting
    grid: TimeGrid | None = None
    # leaves out of runs what lies on disk just so; None leaves them whole
    prover: Prover | None = None


@dataclass(slots=True)
class PartReport:
    """What was found in a part."""

    first: int | None  # position of the first extent; None when none begins in the part
    end: int  # position after the last extent
    records: int = 0  # how many
    stretches: tuple[Stretch, ...] = ()  # what is no record, in file order
    runs: Runs | None = None  # what the records dispatch; None when nobody asked
    findings: tuple[Finding, ...] = ()  # of the records, the first ones of each code
    # of all findings that were not passed on, by code and severity
    counts: dict[tuple[Code, Severity], int] = field(default_factory=dict)
    judge: RecordJudge | None = None  # what the records say in sum; None when nothing was read
    entries: DLedgerEntryJudge | None = None  # what DLedger's headers say in sum
    last_record: int = -1  # physical offset of the last record; -1 for none
    last_end: int = -1  # after it
    unread: UnreadablePath | None = None  # why the part could not be read; None when it could
    traffic: LogTraffic | None = None  # records over time; None when nobody asked
    # where the index entries of `runs` lie that were left out; None where they were not
    index_on_disk: EntriesOnDisk | None = None

    @property
    def is_unused(self) -> bool:
        """Whether nothing was ever written here."""
        return not self.records and all(stretch.kind is Extent.UNUSED for stretch in self.stretches)


def inspect_part(
    part: SegmentPart, options: PartOptions, *, start: int | None = None
) -> PartReport:
    """Judge all that begins in a part.

    Args:
        part: which bytes.
        options: what to judge.
        start: where an extent is known to begin; None to find out, see `scan.join`.
    """
    inspector = _Inspector(part, options)
    try:
        for batch in scan(part, options.scan, start=start):
            if not inspector.take(batch):
                break
    except UnreadablePath as error:
        # What was read so far is judged; the rest is unknown, and the result incomplete.
        return inspector.report(error)
    report = inspector.report()
    if options.prover is not None and report.runs is not None:
        report.runs, report.index_on_disk = options.prover(report.runs)
    return report


class _Inspector:
    """The state of one part's inspection."""

    def __init__(self, part: SegmentPart, options: PartOptions) -> None:
        self.part, self.options = part, options
        self.judge = RecordJudge(options.records)
        self.bounded = Bounded()
        self.findings: list[Finding] = []
        self.stretches: list[Stretch] = []
        self.entries = None
        if part.segment.entry_header:
            self.entries = DLedgerEntryJudge(options.dledger_index)
        self.collector: RunCollector | None = None
        if options.derive is not None:
            self.collector = options.derive.collector()
        self.traffic = LogTraffic(options.grid) if options.grid else None
        self.first: int | None = None
        self.end = part.begin
        self.records = 0
        self.last_record = self.last_end = -1
        self.is_after_gap = False
        self.times: list[int] = []  # of the last records
        self.torn: int | None = None

    def take(self, batch: Batch) -> bool:
        """Judge a batch; tell whether to go on."""
        if batch.kind is Extent.RECORD and self._is_stale(batch):
            self._end_at_stale(batch)
            return False
        self.first = batch.position if self.first is None else self.first
        self.end = batch.end
        if self.collector is not None:
            self.collector.add(batch)
        if batch.kind is not Extent.RECORD:
            self.stretches += self._stretch(batch)
            self.is_after_gap = batch.kind is Extent.GAP
            return True
        self.is_after_gap = False
        self.records += batch.count
        if self.traffic is not None:
            self.traffic.add(batch)
        last = batch.count - 1
        times = batch.columns[row.STORE_TIMESTAMP, -WITNESSES:].tolist()
        self.times = [*self.times, *times][-WITNESSES:]
        self.last_record = batch.matrix.item(row.PHYSICAL_OFFSET, last)
        self.last_end = self.last_record + batch.matrix.item(row.SIZE, last)
        self.torn = self._torn(batch)
        self.findings += self.bounded.take(self.judge.judge(batch))
        if self.entries is not None:
            self.findings += self.bounded.take(self.entries.judge(batch))
        return True

    def _torn(self, batch: Batch) -> int | None:
        """Give the position of the last record if it may have lost its end."""
        if not ends_in_zero(batch):
            return None
        position = batch.matrix.item(row.POSITION, batch.count - 1)
        return position - self.part.segment.entry_header

    def _stretch(self, batch: Batch) -> Iterator[Stretch]:
        """Give what is no record, with the torn record in front of it."""
        torn, self.torn = self.torn, None
        position = batch.position
        if torn is not None and batch.kind is Extent.GAP:
            position = torn
        elif torn is not None and batch.kind is Extent.UNUSED:
            yield Stretch(Extent.GAP, torn, position - torn, TAIL)
        yield Stretch(batch.kind, position, batch.end - position, batch.code)

    def _is_stale(self, batch: Batch) -> bool:
        """Tell whether records after a gap are what a truncation has left."""
        if not self.is_after_gap or self.part.segment.start != self.options.last_used:
            return False
        sent, stored = batch.columns[[row.BORN_TIMESTAMP, row.STORE_TIMESTAMP], :WITNESSES]
        return are_remains(self.times, np.maximum(sent, stored).tolist())

    def _end_at_stale(self, batch: Batch) -> None:
        """Let the log end in front of the gap."""
        gap = self.stretches.pop()
        end = self.part.segment.size
        self.stretches.append(Stretch(Extent.GAP, gap.position, batch.end - gap.position, STALE))
        self.stretches.append(Stretch(Extent.UNUSED, batch.end, end - batch.end, None))
        self.end = end

    def report(self, unread: UnreadablePath | None = None) -> PartReport:
        """Give what was found."""
        self.judge.end()
        runs = None if self.collector is None else self.collector.finish(self.part.end)
        counts = self.bounded.counts.copy()
        for finding in self.findings:
            counts[finding.code, finding.severity] -= 1
        return PartReport(
            first=self.first,
            end=self.part.end if self.first is None or unread else self.end,
            records=self.records,
            stretches=tuple(self.stretches),
            runs=runs,
            findings=tuple(self.findings),
            counts={key: count for key, count in counts.items() if count},
            judge=self.judge,
            entries=self.entries,
            last_record=self.last_record,
            last_end=self.last_end,
            unread=unread,
            traffic=self.traffic,
        )
