"""Cut parts of a log down to where the rows that are wanted can lie, at records that queues name.

A part that begins inside a segment begins at a record that says of itself that it lies there, and
that the unit of its queue offset says so, too: what remains of records under a blank, or past a
cut, has no unit. So nothing before it has to be read. Where no such record is near, the part stays
as it is.

Within a segment records are in the order of their store times, but for a clock that was set: they
are trusted to `CLOCK_SLACK_MS`. A few records around a place are asked, and the middle one is
believed; where the times of places are not in order, nothing is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import RmqtoolError
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.queues.discovery import Queues
from rmqtool.reads.tasks import LogTask
from rmqtool.store.record_heads import LogReader, RecordHead
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tail import find_tail
from rmqtool.tables.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.store.segment import MappedFiles, Segment
    from rmqtool.store.tree import Store
    from rmqtool.tables.selection import Range, Selection

CLOCK_SLACK_MS: Final = 300_000  # store times go back, at most, by this
TRIED: Final = 8  # records, for one that a queue names
ASKED: Final = 5  # records around a place, for its time
WORTH: Final = 64 << 10  # bytes: a look for less costs as much as it saves
NEAR: Final = 256 << 10  # bytes: as near as a place in time is found


class NoTime(Exception):
    """Where a place in a log lies in time cannot be told."""


@dataclass(slots=True)
class Trimmer:
    """Finds records in a log. A context manager."""

    store: Store  # whose
    log: MappedFiles  # its files
    reader: LogReader = field(init=False)
    queues: Queues = field(init=False)
    _end: int | None = None

    def __post_init__(self) -> None:
        self.reader, self.queues = LogReader(self.log), Queues(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.reader.__exit__()
        self.queues.close()

    def trimmed(self, parts: Sequence[SegmentPart], selection: Selection) -> Iterator[LogTask]:
        """Yield parts as they are to be read; where something cannot be read, as they are."""
        for segment, some in groupby(parts, key=lambda part: part.segment):
            cut = list(some)
            try:
                tasks = list(self._in_segment(segment, cut, selection))
            except (RmqtoolError, NoTime):
                tasks = [LogTask(part) for part in cut]
            yield from tasks

    def _in_segment(
        self, segment: Segment, parts: list[SegmentPart], selection: Selection
    ) -> Iterator[LogTask]:
        start, _ = selection.offsets
        low, high = self._in_time(segment, selection.store_time)
        if low and segment.missing_before:
            yield LogTask(SegmentPart(segment, 0, 0))  # it tells of the hole before the segment
        if start is not None:
            low = max(low, start - DLEDGER_BODY_OFFSET - segment.start)
        left = [part for part in parts if (part.end > low and part.begin < high) or not part.length]
        begins = [self._begin(part, low if part is left[0] else 0) for part in left]
        ends = [*(begin for begin, _ in begins[1:]), min(left[-1].end, high)] if left else []
        for part, (begin, is_known), end in zip(left, begins, ends, strict=True):
            if begin < end or not part.length:
                yield LogTask(part._replace(begin=begin, end=end), begin if is_known else None)

    def _begin(self, part: SegmentPart, low: int) -> tuple[int, bool]:
        """Give the position where a part shall begin, and whether an extent begins there.

        Args:
            part: which bytes.
            low: position of the first byte that is wanted.
        """
        named = None
        if low - part.begin > WORTH:
            named = self._before(part.segment, low)
        if (named is None or named < part.begin) and part.begin:
            named = self._from(part.segment, part.begin)
        if named is None or named < part.begin:
            return part.begin, False
        return named, True

    def _before(self, segment: Segment, position: int) -> int | None:
        """Give the position of the last extent with a named record at or before a position."""
        place = position + 1
        for _ in range(TRIED):
            head = self.reader.last_before(segment, place)
            if head is None:
                return None
            if self._is_named(head):
                return self._position(head, segment)
            place = head.physical_offset - segment.start
        return None

    def _from(self, segment: Segment, position: int) -> int | None:
        """Give the position of the first extent with a named record at or past a position."""
        place = position
        for _ in range(TRIED):
            head = self.reader.first_from(segment, place)
            if head is None:
                return None
            if self._is_named(head):
                return self._position(head, segment)
            place = head.physical_offset - segment.start + 1
        return None

    def _position(self, head: RecordHead, segment: Segment) -> int:
        header = segment.entry_header
        return head.physical_offset - segment.start - header

    def _is_named(self, head: RecordHead) -> bool:
        """Whether the unit of a record's queue offset names it."""
        queue = self.queues.queue(self.reader.topic_of(head), head.queue_id)
        own = queue.find(head.queue_offset) if queue is not None else None
        unit = own.unit if own is not None else None
        return unit is not None and (unit.physical_offset, unit.size) == head[:2]

    def _in_time(self, segment: Segment, wanted: Range) -> tuple[int, int]:
        """Give the positions between which records of a time begin.

        Raises:
            NoTime: a place has none.
        """
        start, end = wanted
        whole = 0, segment.size
        used = min(self._log_end() - segment.start, segment.size) if wanted != EVERYTHING else 0
        if used < 2 * WORTH:
            return whole
        seen: dict[int, int] = {}
        low, high = whole
        if start is not None:
            early = start - CLOCK_SLACK_MS
            low, _ = self._bisect(segment, used, seen, lambda time: time < early)
        if end is not None:
            late = end + CLOCK_SLACK_MS
            _, high = self._bisect(segment, used, seen, lambda time: time < late)
        times = [seen[position] for position in sorted(seen)]
        if any(after + CLOCK_SLACK_MS < before for before, after in pairwise(times)):
            return whole
        # Past the last record there may be remains, which are rows, too.
        return low, segment.size if high >= used else high

    def _bisect(
        self, segment: Segment, used: int, seen: dict[int, int], is_before: Callable[[int], bool]
    ) -> tuple[int, int]:
        """Give two near positions: the first is 0 or before, the second is the end or not before.

        Args:
            segment: where.
            used: position past its last record.
            seen: times of places, ms; is added to.
            is_before: says it of a time.
        """
        low, high = 0, used
        while high - low > min(NEAR, max(segment.size // 64, 1)):
            middle = (low + high) // 2
            if is_before(self._time(segment, seen, middle)):
                low = middle
            else:
                high = middle
        return low, high

    def _time(self, segment: Segment, seen: dict[int, int], position: int) -> int:
        """Give the store time at a position, ms: the middle one of a few records there.

        Raises:
            NoTime: no record is near.
        """
        if position not in seen:
            heads = list(self._heads(segment, position))
            if not heads:
                raise NoTime
            seen[position] = sorted(head.store_timestamp for head in heads)[len(heads) // 2]
        return seen[position]

    def _heads(self, segment: Segment, position: int) -> Iterable[RecordHead]:
        head = self.reader.first_from(segment, position)
        header = segment.entry_header
        for _ in range(ASKED):
            if head is None:
                return
            yield head
            head = self.reader.head_at(head.end + header)

    def _log_end(self) -> int:
        if self._end is None:
            tail = find_tail(self.log, self.reader)
            self._end = tail.physical_offset
        return self._end
