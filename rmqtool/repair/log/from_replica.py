"""What of a damaged log may be taken from the log of a replica, by physical offset.

A slave receives its master's log byte for byte, hosts included, at the same physical offsets, so
a record that is sound in one may stand in the other. Whether two logs are of one master is not
written in them: the records beside a damaged stretch tell, which have to be the same in both.
Source: HAConnection, DefaultHAClient#dispatchReadRequest, CommitLog#appendData, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.check.log.part import PartOptions, inspect_part
from rmqtool.engine import run
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_commitlog import CL_FIELD, CL_TAIL, CL_TRANTYPE
from rmqtool.findings.registry_layout import FS_GAP, FS_LEN
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE
from rmqtool.repair.log.disputed import DisputeJudge, Witness, differing
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import SegmentPart
from rmqtool.store.used import last_used_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.judge.message import RecordOptions
    from rmqtool.queues.discovery import Queues
    from rmqtool.store.record_heads import RecordHead
    from rmqtool.store.segment import MappedFiles, Segment

NEIGHBOURS: Final = 16  # records that are compared on each side of a stretch
LOOKED_AT: Final = 4096  # records on each side, some of which the other log may not have
CHUNK: Final = 1 << 20
NO_DAMAGE: Final = (None, CL_TRANTYPE)  # the latter: a bridge of an earlier repair


class OpenStretch(NamedTuple):
    """A stretch of a log without a sound record, physical offsets, half open."""

    start: int  # first byte
    end: int  # past the last one
    code: Code | None  # of the damage; None for zeros and blanks, with which nothing need be wrong
    is_blank: bool = False  # whether it is the blank record that closes a file


class Loan(NamedTuple):
    """Bytes that may be taken, physical offsets, half open; in one file of the lender."""

    start: int  # first byte
    end: int  # past the last one
    code: Code  # of the damage that they end
    segment: Segment  # the lender's file


@dataclass(frozen=True, slots=True)
class LenderFile:
    """A file of the lender, judged."""

    segment: Segment  # the file
    runs: list[tuple[int, int]]  # runs of sound records, physical offsets, half open, in order
    blanks: list[tuple[int, int]]  # blank records that follow such a run, likewise

    @classmethod
    def of(cls, segment: Segment, closed: list[OpenStretch]) -> LenderFile:
        """Take a file, and what of it is no sound record."""
        edges = [segment.start]
        for stretch in _joined(closed):
            edges += [stretch.start, stretch.end]
        edges.append(segment.end)
        runs = [run for run in zip(edges[::2], edges[1::2], strict=True) if run[0] < run[1]]
        ends = {run[1] for run in runs}  # a blank names no place: the record before it does
        blanks = [
            (stretch.start, stretch.end)
            for stretch in closed
            if stretch.is_blank and stretch.start in ends
        ]
        return cls(segment, runs, blanks)

    def lent(self, stretch: OpenStretch, other: LogReader) -> Iterator[Loan]:
        """Give the runs of sound records, and the blank, that lie in a stretch."""
        begin, end = max(stretch.start, self.segment.start), min(stretch.end, self.segment.end)
        closed = [blank for blank in self.blanks if begin <= blank[0] and blank[1] <= end]
        first = max(bisect_right(self.runs, (begin,)) - 1, 0)
        last = bisect_right(self.runs, (end,))
        for low, high in self.runs[first:last]:
            if max(low, begin) < min(high, end):
                closed.append(_bordered(max(low, begin), min(high, end), self.segment, other))
        joined = _joined(OpenStretch(low, high, None) for low, high in closed if low < high)
        code = stretch.code or CL_TAIL
        yield from (Loan(stretch.start, stretch.end, code, self.segment) for stretch in joined)


class Vouch(enum.Enum):
    """What the records on one side of a stretch say."""

    SAME = enum.auto()  # one is the same in both logs
    OTHER = enum.auto()  # those that both have differ
    NOTHING = enum.auto()  # both have none


@dataclass(slots=True)
class Borrower:
    """Finds what one log may take from another one."""

    own: MappedFiles  # the log that is repaired
    other: MappedFiles  # the log that lends
    records: RecordOptions  # how records are judged
    witnesses: tuple[Witness, Witness]  # both stores, the repaired one first
    # tells what the queues say of a log, where no record beside a stretch can
    ask_queues: Callable[[Queues, LogReader], Vouch]
    jobs: int | None = None  # threads; None is one for each processor
    # why nothing was taken where something is damaged, a sentence each
    refused: list[str] = field(default_factory=list)
    is_replica: bool = False  # whether a record was seen that both logs have
    # places of records that differ, of which neither is known to be damaged
    undecided: list[int] = field(default_factory=list)
    _asked: Vouch | None = None
    _last: LenderFile | None = None

    @property
    def length(self) -> int:
        """Bytes of a file of the log."""
        return self.own.file_length or self.other.file_length

    def loans(self) -> list[Loan]:
        """Give what may be taken, in the order of the log.

        Raises:
            UnreadablePath: the log that is repaired cannot be read.
        """
        loans: list[Loan] = []
        with LogReader(self.own) as own, LogReader(self.other) as other:
            stretches = self._open()
            for stretch in stretches:
                loans += self._of(stretch, own, other)
            loans += self._disputed(stretches, own, other)
            self.is_replica = self.is_replica or self._has_common(own, other)
        return sorted(loans, key=lambda loan: loan.start)

    def _open(self) -> list[OpenStretch]:
        """Give all that is no sound record of the own log, neighbours joined."""
        own, other, length = self.own, self.other, self.length
        stretches: list[OpenStretch] = []
        for segment, closed in zip(own, self._judged(own, list(own)), strict=True):
            if isinstance(closed, UnreadablePath):
                raise closed
            stretches += closed
            if segment.size < length:
                stretches.append(OpenStretch(segment.end, segment.start + length, FS_LEN))
        for before, after in pairwise(own):
            stretches.append(OpenStretch(before.start + length, after.start, FS_GAP))
        end = own.segments[-1].start + length if own else other.start
        stretches.append(OpenStretch(other.start, own.start, FS_GAP))
        stretches.append(OpenStretch(end, other.end, CL_TAIL))
        return list(_joined(stretch for stretch in stretches if stretch.start < stretch.end))

    def _judged(
        self, log: MappedFiles, segments: list[Segment]
    ) -> Iterator[list[OpenStretch] | UnreadablePath]:
        """Scan files; give what is no sound record of each, or why it cannot be read."""
        scan = ScanOptions(property_crc=True)
        options = PartOptions(scan, None, self.records, last_used_start(log.segments))
        whole = [SegmentPart(segment, 0, min(segment.size, self.length)) for segment in segments]
        yield from run(partial(_without_record, options=options), whole, jobs=self.jobs)

    # ---- one stretch ----------------------------------------------------------------------------

    def _of(self, stretch: OpenStretch, own: LogReader, other: LogReader) -> list[Loan]:
        """Give what may be taken for a stretch; say why not, where something is damaged."""
        lent = (loan for file in self._lenders(stretch) for loan in file.lent(stretch, other))
        loans = [loan for loan in lent if not _is_there(loan, own, other)]
        if not loans:
            if stretch.code not in NO_DAMAGE:
                self._refuse(stretch, "it has no sound record there that is missing here")
            return []
        sides = self._before(stretch.start, own, other), self._after(stretch.end, own, other)
        if Vouch.OTHER in sides:
            self._refuse(stretch, "the records beside them are other ones there")
            return []
        if Vouch.SAME not in sides and not self._do_queues_vouch(other):
            self._refuse(stretch, "no record beside them is in both logs")
            return []
        self.is_replica = True
        return loans

    def _lenders(self, stretch: OpenStretch) -> Iterator[LenderFile]:
        """Give the files of the lender that reach into a stretch; the last one is kept at hand."""
        begin, end = stretch.start, stretch.end
        segments = [
            segment for segment in self.other if segment.start < end and begin < segment.end
        ]
        if self._last is not None and segments[:1] == [self._last.segment]:
            yield self._last
            del segments[0]
        for segment, judged in zip(segments, self._judged(self.other, segments), strict=True):
            whole = [OpenStretch(segment.start, segment.end, None)]
            closed = whole if isinstance(judged, UnreadablePath) else judged
            self._last = LenderFile.of(segment, closed)
            yield self._last

    def _refuse(self, stretch: OpenStretch, why: str) -> None:
        self.refused.append(
            f"not used for bytes {stretch.start} to {stretch.end} of the log: {why}"
        )

    def _disputed(
        self, stretches: list[OpenStretch], own: LogReader, other: LogReader
    ) -> Iterator[Loan]:
        """Give the records that differ in both logs and are the damaged ones here."""
        judge = DisputeJudge(own, other, self.witnesses)
        starts = [stretch.start for stretch in stretches]
        for head in differing(self.own, own, other):
            number = bisect_right(starts, head.physical_offset) - 1
            if number >= 0 and head.physical_offset < stretches[number].end:
                continue
            sides = (
                self._before(head.physical_offset, own, other),
                self._after(head.end, own, other),
            )
            segment = other.segment_at(head.physical_offset)
            if Vouch.OTHER in sides or Vouch.SAME not in sides or segment is None:
                continue
            if judge.is_own_damaged(head):
                yield Loan(head.physical_offset, head.end, CL_FIELD, segment)
        self.undecided = judge.undecided

    # ---- whether both logs are one --------------------------------------------------------------

    def _do_queues_vouch(self, other: LogReader) -> bool:
        if self._asked is None:
            self._asked = self.ask_queues(self.witnesses[0].queues, other)
        return self._asked is Vouch.SAME

    def _before(self, physical_offset: int, own: LogReader, other: LogReader) -> Vouch:
        """Ask the records that end before an offset."""
        return _asked(self._backwards(physical_offset, own), own, other)

    def _after(self, physical_offset: int, own: LogReader, other: LogReader) -> Vouch:
        """Ask the records from an offset on."""
        return _asked(self._forwards(physical_offset, own), own, other)

    def _backwards(self, physical_offset: int, own: LogReader) -> Iterator[RecordHead]:
        for segment in reversed(self.own.segments):
            position = min(physical_offset - segment.start, segment.size)
            while position > 0 and (head := own.last_before(segment, position)) is not None:
                yield head
                position = head.physical_offset - segment.start

    def _forwards(self, physical_offset: int, own: LogReader) -> Iterator[RecordHead]:
        for segment in self.own:
            position = max(physical_offset - segment.start, 0)
            while position < segment.size and (head := own.first_from(segment, position)):
                yield head
                position = head.end - segment.start

    def _has_common(self, own: LogReader, other: LogReader) -> bool:
        """Tell whether some records of both logs are the same."""
        return any(
            _asked(self._forwards(segment.start, own), own, other) is Vouch.SAME
            for segment in self.own
            if self.other.at(segment.start) is not None
        )


def _without_record(part: SegmentPart, options: PartOptions) -> list[OpenStretch] | UnreadablePath:
    """Give what is no sound record of a file: damage, bridges, blanks, zeros."""
    try:
        report = inspect_part(part, options, start=0)
    except UnreadablePath as error:
        return error
    if report.unread is not None:
        return report.unread
    start = part.segment.start
    closed = []
    for stretch in report.stretches:
        is_blank = stretch.kind is Extent.FILLER and stretch.code is None
        begin = start + stretch.position
        closed.append(OpenStretch(begin, begin + stretch.length, stretch.code, is_blank))
    judge = report.judge
    for defect in (*judge.damaged, *judge.bridges) if judge is not None else ():
        begin = defect.physical_offset or 0
        closed.append(OpenStretch(begin, begin + (defect.length or 0), defect.code))
    return sorted(closed, key=lambda stretch: stretch[:2])


def _joined(stretches: Iterable[OpenStretch]) -> Iterator[OpenStretch]:
    last: OpenStretch | None = None
    for stretch in sorted(stretches, key=lambda stretch: stretch[:2]):
        if last is not None and stretch.start <= last.end:
            last = OpenStretch(last.start, max(last.end, stretch.end), last.code or stretch.code)
            continue
        if last is not None:
            yield last
        last = stretch
    if last is not None:
        yield last


def _bordered(low: int, high: int, segment: Segment, other: LogReader) -> tuple[int, int]:
    """Give the part of a run of records that begins and ends where records do."""
    first = other.first_from(segment, low - segment.start)
    last = other.last_before(segment, high - segment.start)
    if first is None or last is None:
        return low, low
    return first.physical_offset, last.end if last.end <= high else last.physical_offset


def _is_there(loan: Loan, own: LogReader, other: LogReader) -> bool:
    """Tell whether the borrower has the same bytes; what follows a blank's head does not count."""
    head = other.read_at(loan.start, BLANK.size)
    is_whole = len(head) == BLANK.size
    if is_whole and BLANK.parse(head)["magic_code"] == BLANK_MAGIC_CODE:
        return own.read_at(loan.start, BLANK.size) == head
    return _are_same(loan.start, loan.end, own, other)


def _asked(heads: Iterable[RecordHead], own: LogReader, other: LogReader) -> Vouch:
    """Compare the nearest records of one log with what the other one has at their places."""
    known = 0
    for head in islice(heads, LOOKED_AT):
        theirs = other.head_at(head.physical_offset)
        if theirs is None:
            continue
        if theirs == head and _are_same(head.physical_offset, head.end, own, other):
            return Vouch.SAME
        known += 1
        if known == NEIGHBOURS:
            break
    return Vouch.OTHER if known else Vouch.NOTHING


def _are_same(begin: int, end: int, own: LogReader, other: LogReader) -> bool:
    """Compare bytes of both logs, which lie in one file of each."""
    for start in range(begin, end, CHUNK):
        size = min(CHUNK, end - start)
        if own.read_at(start, size) != other.read_at(start, size):
            return False
    return True
