"""What a repair learns while a store is validated: damage to the log, and what queues should hold.

A validation reads every byte once and judges it; the survey looks on (`check.observer`), so that
a plan costs little more than a validation. Nothing is decided here but what is lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import light_queue_texts
from rmqtool.broker.names import topic_raw, topic_text
from rmqtool.check.log.facts import LogFacts
from rmqtool.check.queues.ranges import QueueRanges
from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import (
    CL_BLANKSIZE,
    CL_CHAIN,
    CL_CRC,
    CL_PHYOFF,
    CL_PROPCRC,
    CL_QOFF_GAP,
    CL_STALE,
    CL_TAIL,
    CL_TOPIC,
)
from rmqtool.findings.registry_layout import FS_GAP, FS_LEN
from rmqtool.formats.message import BLANK, MESSAGE_PREFIX, decode, encode
from rmqtool.formats.properties import crc_matches
from rmqtool.ledger.walk import NONE_PROVEN
from rmqtool.repair.log.lost import lost_record, no_record
from rmqtool.repair.log.stretches import Damaged, Stretches
from rmqtool.repair.queues.multi_dispatch import CODE as LIGHT_NUMBER
from rmqtool.repair.queues.queues import QueueRepair
from rmqtool.repair.queues.runs import WrongOffset, in_order, mended, put_back
from rmqtool.scan.batch import Extent
from rmqtool.store.record_heads import LogReader
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.derive.runs import Stretch
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.walk import Proven
    from rmqtool.repair.log.bridge import BridgeMaker
    from rmqtool.repair.queues.wrong_queue_fields import WrongQueue
    from rmqtool.store.record_heads import RecordHead
    from rmqtool.store.segment import Segment, SegmentPart

STALE: Final = CL_STALE
TAIL: Final = CL_TAIL
PLACE: Final = CL_PHYOFF
EARLY: Final = CL_BLANKSIZE


@dataclass(slots=True)
class SegmentFacts:
    """What one segment holds beside records."""

    segment: Segment  # the file
    stretches: list[Stretch] = field(default_factory=list)  # fillers, gaps, unused space, in order
    records: int = 0  # how many begin in it
    end: int = 0  # position after the last extent
    # of records that name another place: how far that is from theirs, bytes
    distances: Counter[int] = field(default_factory=Counter)

    def true_start(self, file_length: int) -> int | None:
        """Give where the file belongs, if most of its records agree on another file's place."""
        distance, count = max(self.distances.items(), key=lambda pair: pair[1], default=(0, 0))
        if not file_length or distance % file_length or 2 * count <= self.records:
            return None
        return self.segment.start + distance

    @property
    def is_used(self) -> bool:
        """Whether it holds anything but space that was allocated ahead of need."""
        return bool(self.records) or any(
            stretch.kind is not Extent.UNUSED for stretch in self.stretches
        )


@dataclass(slots=True)
class LogSurvey:
    """Looks on while the log is read.

    Attributes:
        queues: what the queues should hold.
    """

    maker: BridgeMaker  # of bridges
    bridges_missing: bool = False  # whether segments that are gone are to be bridged
    grid: TimeGrid | None = None  # see `Observer`
    # what each segment holds, in order
    segments: dict[int, SegmentFacts] = field(default_factory=dict)
    # stretches to be bridged; those at the end of the log included
    damaged: Stretches = field(default_factory=Stretches)
    # records whose field physicalOffset is to be rewritten
    moved: list[WrongOffset] = field(default_factory=list)
    newest_time: int = 0  # store time of the newest record that stays, ms
    early: Stretches = field(default_factory=Stretches)  # blanks under which records may have been
    # records that lie at each other's place, and are put back
    swapped: list[WrongOffset] = field(default_factory=list)
    # store time of the last entry of a rewritten index, ms; None where it stays
    index_end: int | None = None
    # records that a first look has found, whose units belong into other queues
    wrong_queues: Sequence[WrongQueue] = ()
    facts: LogFacts = field(default_factory=LogFacts)  # what is known of the log
    _inspection: Inspection | None = None
    _queues: QueueRepair | None = None
    _ranges: QueueRanges | None = None

    @property
    def inspection(self) -> Inspection:
        """The validation that is looked at."""
        assert self._inspection is not None  # noqa: S101 - `begin` comes first
        return self._inspection

    @property
    def queues(self) -> QueueRepair:
        """What the queues should hold."""
        assert self._queues is not None  # noqa: S101 - `begin` comes first
        return self._queues

    @property
    def ranges(self) -> QueueRanges:
        """Where its queues begin and end, once the log was read."""
        assert self._ranges is not None  # noqa: S101 - `begin` comes first
        return self._ranges

    @property
    def end(self) -> int:
        """Where the log will end: after its last record, or the bridge over its tail."""
        facts, tail = self.facts, self.queues.judge.tail
        if tail is not None:
            return max(tail.start, self.queues.judge.tail_end)
        return max(facts.end, self.queues.judge.tail_end)

    def begin(self, inspection: Inspection, facts: LogFacts, queues: QueueFacts) -> None:
        """Take note of the validation that begins."""
        self._inspection, self.facts = inspection, facts
        self._ranges = QueueRanges(inspection, facts, queues)
        self._queues = QueueRepair(inspection, facts, self.damaged, self.early)
        for start, end, code in _absent(inspection, missing=self.bridges_missing):
            self.damaged.add(Damaged(start, end, code, f"{end - start:,} bytes that are not there"))

    def take(self, part: SegmentPart, report: PartReport) -> Proven:
        """See one part of the log."""
        if report.unread:
            raise report.unread
        facts = self.segments.setdefault(part.segment.start, SegmentFacts(part.segment))
        facts.stretches += report.stretches
        facts.records += report.records
        facts.end = report.end
        store = self.inspection.store
        is_changed = len(self.damaged)
        with LogReader(store.old_commitlog, store.commitlog) as log:
            moved, lost = self._judge(facts, report, log), self._misplaced(report, log)
        self._note_time(part, report, is_harmed=len(self.damaged) != is_changed)
        if report.runs is not None and self.inspection.scope.compares_queues:
            first = part.segment.start + (report.first or 0)
            here = range(part.segment.start + part.begin, part.segment.start + part.end)
            is_sound = not (moved or lost) and not self.damaged.reach(first)
            is_sound &= not any(record.physical_offset in here for record in self.wrong_queues)
            runs, queues = report.runs.queues, self.queues
            proven: Proven = NONE_PROVEN
            if is_sound:
                queues.keep(queues.walk.take(runs))
                proven = queues.walk.proven
            else:
                queues.keep(queues.walk.take_now(self._mended(runs, moved, lost)))
            of_batches, batches = report.runs.batch_queues, queues.batches
            walk = batches.walk.take_now(
                of_batches if is_sound else self._mended(of_batches, moved, lost)
            )
            batches.keep(walk)
            return proven
        return NONE_PROVEN

    def _mended(
        self, runs: QueueRuns, moved: list[WrongOffset], lost: list[WrongOffset]
    ) -> Iterator[QueueRun]:
        """Give runs as they will be; where records are put back, in their true order."""
        mended_runs = put_back(mended(runs, self.damaged, moved, lost), self.wrong_queues)
        others = {record.unit[:2] for record in moved if record in self.swapped}
        others = others.union(*(record.queues for record in self.wrong_queues))
        return in_order(mended_runs, others) if others else mended_runs

    def _judge(self, facts: SegmentFacts, report: PartReport, log: LogReader) -> list[WrongOffset]:
        """Take note of what is damaged in a part; give the records that say they lie elsewhere."""
        segment = facts.segment
        length = self.inspection.store.commitlog.file_length
        gaps = (_of_gap(segment, stretch, length) for stretch in report.stretches)
        gone = [gap for gap in gaps if gap is not None]
        gone += self._zeros_of_short(segment, report)
        self._take_early(segment, report)
        judge = report.judge
        defect = judge.damaged if judge is not None else []
        unusable = {
            finding.physical_offset for finding in defect if finding.code in {CL_CRC, CL_TOPIC}
        }
        moved = []
        for finding in defect:
            if finding.code == PLACE and finding.physical_offset not in unusable:
                place, record = _moved(finding, log)
                facts.distances[_distance(finding, log)] += 1
                if place is not None:
                    moved.append(place)
                    continue
                gone.append(record)
            elif finding.code == LIGHT_NUMBER:
                self.queues.light_numbers.places.append(
                    (finding.physical_offset or 0, finding.length or 0)
                )
            elif finding.code != PLACE:
                gone.append(_of_record(finding, log))
        repaired = {record.physical_offset for record in moved}
        for damaged in sorted(gone, key=lambda damaged: damaged.start):
            if damaged.code != CL_PROPCRC or damaged.start not in repaired:
                self._add(damaged, log)
        places = {(record.physical_offset, record.field, record.size) for record in moved}
        moved = [replace(record, is_put_back=_is_swapped(record, places)) for record in moved]
        self.swapped += [record for record in moved if record.is_put_back]
        self.moved += [record for record in moved if not record.is_put_back]
        return moved

    def _misplaced(self, report: PartReport, log: LogReader) -> list[WrongOffset]:
        """Give the records of a part that are bridged, and name a place where none of theirs is.

        Their units lead there, and not into what is damaged.
        """
        judge = report.judge
        lost = []
        for defect in judge.damaged if judge is not None else ():
            start, size = defect.physical_offset, defect.length or 0
            if defect.code != PLACE or start is None or self.damaged.at(start) is None:
                continue
            name = (topic_raw(defect.topic or ""), defect.queue_id or 0, defect.queue_offset or 0)
            there = log.head_at(int(defect.actual))
            is_copy = there is not None and log.topic_of(there) == defect.topic
            if not is_copy:
                lost.append(WrongOffset(start, int(defect.actual), name, size))
        return lost

    def _zeros_of_short(self, segment: Segment, report: PartReport) -> Iterator[Damaged]:
        """Give zeros at the end of a file that was cut: records were there, too."""
        log = self.inspection.store.commitlog
        if segment.size >= log.file_length or segment.start >= log.segments[-1].start:
            return
        for stretch in report.stretches:
            if stretch.kind is Extent.UNUSED:
                start = segment.start + stretch.position
                lost = f"{stretch.length:,} bytes of zeros"
                yield Damaged(start, start + stretch.length, FS_LEN, lost)

    def _take_early(self, segment: Segment, report: PartReport) -> None:
        """Take note of blanks that could cover records; whether they do, queues tell.

        What a file is too long by is no part of the log: units there are of the next segment.
        """
        end = min(segment.end, segment.start + self.inspection.store.commitlog.file_length)
        for stretch in report.stretches:
            is_blank = stretch.kind is Extent.FILLER and stretch.code != CL_CHAIN
            if is_blank and stretch.length >= self.maker.smallest + BLANK.size:
                start = segment.start + stretch.position
                lost = no_record(stretch.length)
                self.early.add(Damaged(start, end, EARLY, lost))

    def moved_files(self) -> dict[int, int]:
        """Give where files belong that lie under another name, by the start of each."""
        length = self.inspection.store.commitlog.file_length
        places = {start: facts.true_start(length) for start, facts in self.segments.items()}
        return {start: place for start, place in places.items() if place is not None}

    def closes_gap(self, finding: Finding) -> bool:
        """Tell whether a record that is made true, or put back, has the queue offset of a gap."""
        if finding.code != CL_QOFF_GAP:
            return False
        of_queue = (finding.topic, finding.queue_id)
        gap = range(int(finding.expected), int(finding.actual))
        units = (record.unit for record in (*self.moved, *self.swapped))
        return any(
            (topic_text(topic), queue_id) == of_queue and number in gap
            for topic, queue_id, number in units
        )

    def forget_unused(self) -> None:
        """Drop what was noted of files after the last one in use: the log ends before them."""
        used = [facts.segment.start for facts in self.segments.values() if facts.is_used]
        self.queues.last_start = max(used, default=0)
        end = self.queues.last_start + self.inspection.store.commitlog.file_length
        self.damaged.cut(end)
        for facts in self.segments.values():
            if facts.segment.start < self.queues.last_start:
                self._add_zeros(facts)

    def _add_zeros(self, facts: SegmentFacts) -> None:
        """Take zeros up to the end of a segment that others follow for damage: so queues do.

        What a file is too long by is no part of the log.
        """
        length = self.inspection.store.commitlog.file_length
        for stretch in facts.stretches[-1:]:
            size = min(stretch.length, length - stretch.position)
            if stretch.kind is Extent.UNUSED and size >= self.maker.smallest:
                start = facts.segment.start + stretch.position
                lost = f"{size:,} bytes of zeros"
                self.damaged.add(Damaged(start, start + size, CL_CHAIN, lost))

    def bridge_early(self) -> None:
        """Take blanks for damage that queues have units into."""
        for damaged in self.early:
            if damaged.given_up:
                self.damaged.add(Damaged(damaged.start, damaged.end, damaged.code, damaged.lost))

    def _add(self, damaged: Damaged, log: LogReader) -> None:
        """Take note of a stretch; one that is too short for a bridge takes its neighbour along."""
        while damaged.code not in {TAIL, STALE} and damaged.length < self.maker.smallest:
            head = log.head_at(damaged.end)
            if head is None:
                break
            what = lost_record(log, head.physical_offset, head.size)
            lost = "; ".join(filter(None, (damaged.lost, f"given up, too: {what}")))
            damaged = Damaged(damaged.start, head.end, damaged.code, lost, damaged.given_up + 1)
        self.damaged.add(damaged)

    def _note_time(self, part: SegmentPart, report: PartReport, *, is_harmed: bool) -> None:
        """Find the newest record that stays: the checkpoint must not be later."""
        judge = report.judge
        if judge is None or not report.records:
            return
        if not is_harmed:
            self.newest_time = max(self.newest_time, judge.newest_time)
            return
        store = self.inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            head = last_sound(log, part.segment, report.end, self.damaged)
        self.newest_time = max(self.newest_time, head.store_timestamp if head else 0)


def _absent(inspection: Inspection, *, missing: bool) -> Iterator[tuple[int, int, Code]]:
    """Give the stretches of the log in front of its last file that no file holds."""
    log = inspection.store.commitlog
    for before, after in pairwise(log.segments):
        end = before.start + log.file_length
        if before.size < log.file_length:
            yield before.end, min(end, after.start), FS_LEN
        if missing and after.start > end:
            yield end, after.start, FS_GAP


def last_sound(
    log: LogReader, segment: Segment, position: int, damaged: Stretches, lowest: int = 0
) -> RecordHead | None:
    """Find the last record before a position, from `lowest` on, that is in no damaged stretch."""
    while position > lowest:
        head = log.last_before(segment, position)
        if head is None or head.physical_offset < segment.start + lowest:
            return None
        stretch = damaged.at(head.physical_offset)
        if stretch is None and head.store_timestamp > 0:
            return head
        start = head.physical_offset if stretch is None else stretch.start
        position = min(start, head.physical_offset) - segment.start
    return None


def _is_swapped(record: WrongOffset, places: Container[tuple[int, int, int]]) -> bool:
    """Tell whether another record of the same size lies where a record should, and vice versa.

    Args:
        record: which one.
        places: of all records: where each lies, where it says that it does, its size.
    """
    return (record.field, record.physical_offset, record.size) in places


def _of_gap(segment: Segment, stretch: Stretch, length: int) -> Damaged | None:
    """Give a stretch without records that has to be bridged, or zeroed at the log's end.

    What a file is too long by is cut off; zeros in front of it are no damage.
    """
    start = segment.start + stretch.position
    end = start + stretch.length
    if stretch.code is None:
        return None
    if stretch.kind is Extent.GAP and end > segment.start + length:
        end = segment.start + length
        with segment.open() as file:
            is_used = any(data_stretches(file, stretch.position, length))
        return Damaged(start, end, stretch.code, no_record(end - start)) if is_used else None
    if stretch.kind is Extent.GAP:
        return Damaged(start, end, stretch.code, no_record(stretch.length))
    if stretch.kind is Extent.FILLER and stretch.code == CL_CHAIN:
        return Damaged(start, end, stretch.code, "the records under a false blank")
    return None


def _of_record(defect: Finding, log: LogReader) -> Damaged:
    start, length = defect.physical_offset or 0, defect.length or 0
    return Damaged(start, start + length, defect.code, lost_record(log, start, length))


def _distance(defect: Finding, log: LogReader) -> int:
    """Give how far the place that a record names lies from where it lies."""
    start = defect.physical_offset or 0
    fields = MESSAGE_PREFIX.parse(log.read_at(start, MESSAGE_PREFIX.size))
    return int(fields["physical_offset"]) - start


def _moved(defect: Finding, log: LogReader) -> tuple[WrongOffset | None, Damaged]:
    """Tell whether a record is right but for the place that it names.

    Its property CRC, where it has one, proves it; it covers the field, too. One that lies where it
    says, as well, is a copy, as when a file was written over another one: made true, it would be
    delivered twice.
    """
    start, length = defect.physical_offset or 0, defect.length or 0
    damaged = Damaged(start, start + length, defect.code, lost_record(log, start, length))
    raw = log.read_at(start, length)
    try:
        message = decode(raw)
    except DecodeError:
        return None, damaged
    field_was = message.physical_offset
    if log.read_at(field_was, length) == raw:
        return None, damaged
    message = message._replace(physical_offset=start)
    if crc_matches(encode(message), message.properties) is False:
        return None, damaged
    place = (message.topic_bytes, message.queue_id, message.queue_offset)
    light_queues = [name.encode() for name in light_queue_texts(message.properties)[0]]
    return WrongOffset(start, field_was, place, length, tuple(light_queues)), damaged
