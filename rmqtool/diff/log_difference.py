"""How two commitlogs relate: their ends, the first difference, and what only one of them has."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.diff.log_bytes import LogStretch, Relation, compare_logs, joined
from rmqtool.engine import run
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_commitlog import CL_CRC, CL_TRANTYPE
from rmqtool.formats import java
from rmqtool.formats.dledger import DLEDGER_BLANK
from rmqtool.formats.message import BLANK
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.machine.arrays import is_in
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Batch, Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import MappedFiles, Segment, SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.diff.side import Side
    from rmqtool.findings.catalogue import Code
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]


# What the bytes of a stretch are to the records of A and to those of B.
_OWN: Final = (
    {Relation.DIFFERENT, Relation.ONLY_A, Relation.UNREAD_B},
    {Relation.DIFFERENT, Relation.ONLY_B, Relation.UNREAD_A},
)
_UNREAD: Final = (Relation.UNREAD_A, Relation.UNREAD_B)


class LogSpan(NamedTuple):
    """Physical offsets, half open; empty without a commitlog."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Bytes."""
        return max(self.end - self.begin, 0)


@dataclass(slots=True)
class OwnMessages:
    """What one log has and the other has not."""

    tallies: dict[QueueKey, OwnTally] = field(default_factory=dict)  # by range and queue
    # physical offset of the first own record or damage in the shared range
    first: int | None = None
    unknown: int = 0  # messages that could not be compared
    # stretches without a sound record in the files that were scanned
    damage: list[Damage] = field(default_factory=list)

    def messages(self, *ranges: str) -> int:
        """Count the messages of some ranges."""
        return sum(tally.messages for key, tally in self.tallies.items() if key.range in ranges)

    @property
    def own_damage(self) -> list[Damage]:
        """Damage that the other log does not have, and that no repair has put a bridge over."""
        return [damage for damage in self.damage if not (damage.is_shared or damage.is_bridge)]

    @property
    def own_bridges(self) -> list[Damage]:
        """Bridges that the other log does not have."""
        return [damage for damage in self.damage if damage.is_bridge and not damage.is_shared]

    def take(self, report: RecordReport) -> None:
        """Add what was found in one file."""
        for key, tally in report.tallies.items():
            known = self.tallies.get(key)
            self.tallies[key] = known | tally if known else tally
        if report.first is not None:
            self.first = report.first if self.first is None else min(self.first, report.first)
        self.unknown += report.unknown
        self.damage += report.damage


@dataclass(frozen=True, slots=True)
class LogDifference:
    """Two logs side by side."""

    a: LogSpan  # what A holds
    b: LogSpan  # what B holds
    own: tuple[OwnMessages, OwnMessages]  # what only A has, and what only B has
    first: int | None  # physical offset of the first difference in the shared range; None for none
    goes_on: bool  # after it both logs have the same records again
    unread: int  # bytes that could not be compared
    compared: int  # bytes that were

    @property
    def shared(self) -> LogSpan:
        """What both hold."""
        return shared_of(self.a, self.b)

    @property
    def is_same(self) -> bool:
        """Whether no difference was seen, in what could be read."""
        return self.a == self.b and self.first is None


def shared_of(a: LogSpan, b: LogSpan) -> LogSpan:
    """Give what two logs both hold; empty where they do not meet."""
    begin = max(a.begin, b.begin)
    return LogSpan(begin, max(begin, min(a.end, b.end)))


def compare(a: Side, b: Side, jobs: int | None = None, *, has_log: bool = True) -> LogDifference:
    """Compare the logs of two stores.

    Args:
        a: a store.
        b: the other.
        jobs: threads; None is one for each processor.
        has_log: False: not both are to be looked at, and nothing is compared.
    """
    sides = (a, b)
    spans = tuple(LogSpan(side.begin, side.end) if has_log else LogSpan(0, 0) for side in sides)
    shared = shared_of(spans[0], spans[1])
    ends = spans[0].end, spans[1].end
    stretches: list[LogStretch] = []
    begin = min((span.begin for span in spans if span.length), default=0)
    for pieces in compare_logs(a.reader, b.reader, begin, ends, jobs):
        stretches += pieces.stretches
        for side, error in zip(sides, pieces.unread, strict=True):
            if error is not None:
                side.problem(error)
    stretches = list(joined(stretches))
    own = (OwnMessages(), OwnMessages())
    last_same = _last_untouched(stretches, a)
    for number, side in enumerate(sides):
        tasks = list(_tasks(number, sides, stretches, shared)) if stretches else []
        for report in run(own_records, tasks, jobs=jobs):
            own[number].take(report)
            last_same = max(last_same, report.last_same)
            if report.unread is not None:
                side.problem(report.unread)
    first = min((side.first for side in own if side.first is not None), default=None)
    return LogDifference(
        *(spans[0], spans[1]),
        own=own,
        first=first,
        goes_on=first is not None and last_same > first,
        unread=_length(stretches, _UNREAD),
        compared=_length(stretches, (Relation.SAME, Relation.DIFFERENT)),
    )


def _length(stretches: Iterable[LogStretch], relations: Iterable[Relation]) -> int:
    wanted = set(relations)
    return sum(stretch.end - stretch.begin for stretch in stretches if stretch.relation in wanted)


def _last_untouched(stretches: list[LogStretch], side: Side) -> int:
    """Give where the last file begins that no task scans: all of it is the same in both."""
    same = [stretch for stretch in stretches if stretch.relation is Relation.SAME]
    starts = [
        segment.start
        for segment in side.segments
        if any(
            stretch.begin <= segment.start and min(segment.end, side.end) <= stretch.end
            for stretch in same
        )
    ]
    return max(starts, default=-1)


def _tasks(
    number: int, sides: tuple[Side, Side], stretches: list[LogStretch], shared: LogSpan
) -> Iterator[RecordTask]:
    """Yield the files of one log that hold a stretch of its own."""
    side, other = sides[number], sides[1 - number]
    for segment in side.segments:
        if segment.start >= side.end:
            continue
        own = [
            stretch
            for stretch in stretches
            if stretch.relation in _OWN[number] and _meets(segment, stretch.begin, stretch.end)
        ]
        if not own:
            continue
        unread = [
            (stretch.begin, stretch.end)
            for stretch in own
            if stretch.relation is _UNREAD[1 - number]
        ]
        others = [
            own_segment
            for own_segment in other.segments
            if _meets(segment, own_segment.start, own_segment.end)
        ]
        yield RecordTask(
            segment,
            side.end,
            other.end,
            tuple(others),
            tuple((stretch.begin, stretch.end) for stretch in own),
            tuple(unread),
            shared,
        )


def _meets(segment: Segment, begin: int, end: int) -> bool:
    return segment.start < end and begin < segment.end


__all__ = ["AFTER", "BEFORE", "SHARED", "LogDifference", "LogSpan", "OwnMessages", "compare"]


# The records of one log that the other log does not have in the same bytes at the same place.
#
# Only files that hold a difference are scanned. Bytes that no file of the other log holds read as
# zeros, so a record there differs. Of an end-of-file blank only the head counts.


WIDEST: Final = 32 << 20  # bytes of a batch that are compared at once
BEFORE, SHARED, AFTER = "before", "shared", "after"
RANGES: Final = (BEFORE, SHARED, AFTER)


class QueueKey(NamedTuple):
    """Messages that are counted together."""

    range: str  # where they lie: before, in or after the range that both logs hold
    topic: str  # printable
    queue_id: int  # of the topic


class OwnTally(NamedTuple):
    """Messages that only one log has; times in ms since 1970."""

    messages: int  # how many
    size: int  # bytes of their records
    first_queue_offset: int  # the lowest
    last_queue_offset: int  # the highest
    first_physical_offset: int  # the lowest
    last_physical_offset: int  # the highest
    first_store_timestamp: int  # when the oldest was stored
    last_store_timestamp: int  # when the newest was stored

    def __or__(self, other: OwnTally) -> OwnTally:
        """Give both together."""
        sums = [mine + theirs for mine, theirs in zip(self[:2], other[:2], strict=True)]
        rest = zip(self[2:], other[2:], strict=True)
        ends = [(max if number % 2 else min)(pair) for number, pair in enumerate(rest)]
        return OwnTally(*sums, *ends)


class Damage(NamedTuple):
    """A stretch of a log that holds no sound record."""

    physical_offset: int  # where it begins
    length: int  # bytes
    code: Code  # of the finding
    path: str  # the file
    is_shared: bool  # the other log has the same bytes there

    @property
    def is_bridge(self) -> bool:
        """Whether a repair has put a record there that stands for lost ones."""
        return self.code == CL_TRANTYPE


@dataclass(frozen=True, slots=True)
class RecordTask:
    """A file of one log that is to be scanned. Picklable."""

    segment: Segment  # the file
    end: int  # physical offset where its log ends, or later
    other_end: int  # where the other log ends; what its files hold from there on is not compared
    others: tuple[Segment, ...]  # the files of the other log that hold bytes of its range
    # stretches that are not the same in both, physical offsets, in their order
    own: tuple[tuple[int, int], ...]
    # stretches that could not be read of these, physical offsets
    unread: tuple[tuple[int, int], ...]
    shared: tuple[int, int]  # the range that both logs hold


@dataclass(slots=True)
class RecordReport:
    """What one log has of its own in one file."""

    tallies: dict[QueueKey, OwnTally] = field(default_factory=dict)  # messages by range and queue
    # physical offset of the first own record or damage in the shared range
    first: int | None = None
    # physical offset of the last record that the other log has, too; -1 for none
    last_same: int = -1
    unknown: int = 0  # records that could not be compared
    # stretches without a sound record, and records whose body is damaged
    damage: list[Damage] = field(default_factory=list)
    unread: UnreadablePath | None = None  # why the file could not be scanned


def own_records(task: RecordTask) -> RecordReport:
    """Scan a file for what its log alone has."""
    report = RecordReport()
    options = ScanOptions()
    segment = task.segment
    part = SegmentPart(segment, 0, min(task.end - segment.start, segment.size))
    other = LogReader(MappedFiles("", task.others))
    try:
        with segment.open() as file, other:
            reader = _OwnRecords(task, report, file, other)
            for batch in scan(part, options, start=0):
                reader.take(batch)
    except UnreadablePath as error:
        report.unread = error
    return report


class _OwnRecords:
    """The state of one scan."""

    def __init__(
        self, task: RecordTask, report: RecordReport, file: OpenFile, other: LogReader
    ) -> None:
        self.task, self.report = task, report
        self.file, self.other = file, other
        self.start = task.segment.start

    def take(self, batch: Batch) -> None:
        """Compare a batch with the other log."""
        if batch.kind is Extent.UNUSED:
            return
        begin = self.start + batch.position
        end = begin + batch.length
        if any(low < end and begin < high for low, high in self.task.unread):
            self.report.unknown += batch.count
            return
        if batch.kind is Extent.RECORD:
            self._records(batch, begin)
        else:
            self._gap(batch, begin)

    def _gap(self, batch: Batch, begin: int) -> None:
        """Compare damage, or the head of a blank: what a broker leaves behind it says nothing."""
        length = batch.length
        if batch.kind is Extent.FILLER:
            length = min(length, (DLEDGER_BLANK if batch.segment.entry_header else BLANK).size)
        is_own = self._is_different(begin, length)
        if batch.code is not None:
            self._damage(begin, length, batch.code, is_own=is_own)
        elif is_own:
            self._first(begin)

    def _damage(self, begin: int, length: int, code: Code, *, is_own: bool) -> None:
        damage = self.report.damage
        gap = Damage(begin, length, code, self.task.segment.path, not is_own)
        last = damage[-1] if damage else None
        if last and last[2:] == gap[2:] and last.physical_offset + last.length == begin:
            damage[-1] = last._replace(length=last.length + length)
        else:
            damage.append(gap)
        if is_own:
            self._first(begin)

    def _first(self, physical_offset: int) -> None:
        low, high = self.task.shared
        first = self.report.first
        if low <= physical_offset < high and (first is None or physical_offset < first):
            self.report.first = physical_offset

    def _records(self, batch: Batch, begin: int) -> None:
        columns = batch.columns
        own = self._own(batch, begin)
        offsets = columns[row.PHYSICAL_OFFSET]
        if not own.all():
            self.report.last_same = max(self.report.last_same, int(offsets[~own][-1]))
        damaged = columns[row.BODY_CRC] != columns[row.BODY_CRC_FOUND]
        damaged &= columns[row.BODY_LENGTH] > 0  # the broker does not check an empty one
        for number in np.flatnonzero(damaged).tolist():
            size = int(columns[row.SIZE, number])
            self._damage(int(offsets[number]), size, CL_CRC, is_own=bool(own[number]))
        own &= ~self._bridges(batch, own)
        if own.any():
            self._count(batch, columns[:, own])

    def _bridges(self, batch: Batch, own: Bools) -> Bools:
        """Tell which records a repair has put over damage: they stand for lost messages."""
        columns, topics = batch.columns, batch.topics
        numbers = [number for number in range(len(topics)) if topics[number] == BRIDGE_TOPIC]
        is_bridge: Bools = is_in(columns[row.TOPIC_NUMBER], np.array(numbers, np.int64))
        for number in np.flatnonzero(is_bridge).tolist():
            offset, size = int(columns[row.PHYSICAL_OFFSET, number]), int(columns[row.SIZE, number])
            self._damage(offset, size, CL_TRANTYPE, is_own=bool(own[number]))
        return is_bridge

    def _own(self, batch: Batch, begin: int) -> Bools:
        """Say which records of a batch differ from what the other log has there."""
        if self._is_same(begin, begin + batch.length):
            return np.zeros(batch.count, np.bool_)
        if batch.length > WIDEST:  # a single record
            return np.array([self._is_different(begin, batch.length)] * batch.count)
        mine, theirs = self._both(begin, batch.length)
        if mine == theirs:
            return np.zeros(batch.count, np.bool_)
        mask = np.frombuffer(mine, np.uint8) != np.frombuffer(theirs, np.uint8)
        header = batch.segment.entry_header
        starts = np.maximum(batch.columns[row.POSITION] - header - batch.position, 0)
        is_own: Bools = np.logical_or.reduceat(mask, starts)
        return is_own

    def _is_same(self, begin: int, end: int) -> bool:
        """Tell whether a stretch was found to be the same in both logs before."""
        number = bisect_right(self.task.own, (end,)) - 1  # the last one that begins before the end
        return number < 0 or self.task.own[number][1] <= begin

    def _is_different(self, begin: int, length: int) -> bool:
        pieces = range(begin, begin + length, WIDEST)
        return any(
            mine != theirs
            for start in pieces
            for mine, theirs in [self._both(start, min(WIDEST, begin + length - start))]
        )

    def _both(self, begin: int, length: int) -> tuple[bytes, bytes]:
        """Read the same bytes of both logs; zeros where a file ends or none is."""
        mine = self.file.read_at(begin - self.start, length).ljust(length, b"\0")
        held = min(max(self.task.other_end - begin, 0), length)
        return mine, read_across(self.other, begin, held).ljust(length, b"\0")

    def _count(self, batch: Batch, records: Int64s) -> None:
        offsets = records[row.PHYSICAL_OFFSET]
        low, high = self.task.shared
        # Which range, topic and queue: the numbers of all three, one after the other.
        places = (offsets >= low).astype(np.int64) + (offsets >= high)
        if (places == RANGES.index(SHARED)).any():
            self._first(int(offsets[places == RANGES.index(SHARED)][0]))
        keys = np.stack([places, records[row.TOPIC_NUMBER], records[row.QUEUE_ID]])
        order = np.lexsort(keys)
        keys, records = keys[:, order], records[:, order]
        edges = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        for some in np.split(np.arange(keys.shape[1]), edges):
            place, topic, queue_id = keys[:, some[0]].tolist()
            key = QueueKey(RANGES[place], java.text(batch.topics[topic]), queue_id)
            tally = _tally(records[:, some])
            known = self.report.tallies.get(key)
            self.report.tallies[key] = known | tally if known else tally


def _tally(records: Int64s) -> OwnTally:
    ends: list[int] = []
    for name in (row.QUEUE_OFFSET, row.PHYSICAL_OFFSET, row.STORE_TIMESTAMP):
        ends += [int(records[name].min()), int(records[name].max())]
    return OwnTally(records.shape[1], int(records[row.SIZE].sum()), *ends)


def read_across(log: LogReader, begin: int, length: int) -> bytes:
    """Read bytes of a log over the borders of its files; zeros where no file holds them.

    Raises:
        UnreadablePath: a file cannot be read.
    """
    joined = bytearray()
    starts = sorted(file.start for files in log.logs for file in files)
    while len(joined) < length:
        at = begin + len(joined)
        raw = log.read_at(at, length - len(joined))
        if not raw:
            following = next((start for start in starts if start > at), begin + length)
            raw = bytes(min(following, begin + length) - at)
        joined += raw
    return bytes(joined)
