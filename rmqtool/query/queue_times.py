"""Times in queues: one row a queue, with the plain answer and what a broker would say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.rules import Rules, TimeSearch
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.layout import big_endian
from rmqtool.formats.message import MESSAGE_PREFIX, store_timestamp_position
from rmqtool.plural import counted
from rmqtool.query import topics
from rmqtool.query.log import LogRecord
from rmqtool.query.time import search_queue
from rmqtool.queues.files import PlainUnits
from rmqtool.ranges import Boundary
from rmqtool.store.record_heads import HEAD_BYTES, STORE_TIMESTAMP
from rmqtool.store.used import used_bytes
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from rmqtool.broker.release import Version
    from rmqtool.query.answer import Answer
    from rmqtool.query.consume_queue import Queue
    from rmqtool.query.log import Log
    from rmqtool.query.requests import ByTime
    from rmqtool.query.sources import Sources
    from rmqtool.store.segment import Segment


def find_in_queues(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Find a time in one queue, or in all queues of a topic.

    Raises:
        UnreadablePath: a queue may not be read.
    """
    answer.taken_for = f"store time in queues, {request.boundary} boundary"
    topic = request.topic or ""
    queues = sources.queues_of(topic)
    if request.queue_id is not None:
        numbers = ", ".join(str(queue.units.queue_id) for queue in queues)
        if queues:
            answer.problem = f"topic {topic} has queues: {numbers}"
        queues = [queue for queue in queues if queue.units.queue_id == request.queue_id]
    answer.trail.search(counted(len(queues), "queue"))
    if not queues:
        known = sources.queue_topics
        if topic not in known:
            answer.problem = topics.hint(topic, known or sources.topics)
            _from_log(sources, request, answer)
        return
    answer.problem = ""
    answer.rows = [_row(sources, queue, request, answer) for queue in queues]


def _from_log(sources: Sources, request: ByTime, answer: Answer) -> None:
    """Answer from the records where the queues of a topic are lost."""
    topic = request.topic or ""
    if sources.keeps_queues and topic not in sources.topics and not sources.scan:
        return
    if sources.scan is False:
        answer.trail.search("the log was not searched (--no-scan)")
        return
    from rmqtool.query.scan_times import queue_times

    seen = queue_times(sources.log, request, answer.trail)
    if not seen:
        return
    answer.problem = f"topic {topic} has no queues here: this comes from its records"
    answer.rows = []
    for queue_id, of_queue in seen.items():
        offset, physical_offset = of_queue.queue_offset, of_queue.physical_offset
        if offset < 0 and request.boundary is Boundary.UPPER:
            offset, physical_offset = of_queue.first, of_queue.start
        row: dict[str, object] = {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": offset if offset >= 0 else of_queue.end,
            "min_offset": of_queue.first,
            "max_offset": of_queue.end,
        }
        older = {"note": "all messages are older"}
        row |= _record(sources, physical_offset) if offset >= 0 else older
        if request.like_broker is not None:
            row["difference"] = "a broker has no queue to search"
        answer.rows.append(row)


def _row(sources: Sources, queue: Queue, request: ByTime, answer: Answer) -> dict[str, object]:
    span = queue.span
    offset = search_queue(sources.log, queue, request.timestamp, request.boundary, answer.trail)
    row: dict[str, object] = {
        "topic": queue.units.topic,
        "queue_id": queue.units.queue_id,
        "queue_offset": offset,
        "min_offset": span.min_offset,
        "max_offset": span.max_offset,
    }
    row |= _message(sources, queue, offset, span.max_offset)
    if request.like_broker is not None:
        row |= _like_broker(sources, queue, request, offset, request.like_broker)
    return row


def _message(sources: Sources, queue: Queue, offset: int, end: int) -> dict[str, object]:
    """Give what is known of the message at a queue offset."""
    place = queue.units.find(offset)
    if place is None or place.unit is None:
        note = "the queue is empty" if not end else "all messages are older"
        return {"note": note if offset >= end else place.problem if place else "no unit"}
    return _record(sources, place.unit.physical_offset)


def _record(sources: Sources, physical_offset: int) -> dict[str, object]:
    """Give what a record says of itself."""
    record = sources.log.record_at(physical_offset)
    row: dict[str, object] = {"physical_offset": physical_offset}
    if not isinstance(record, LogRecord):
        return row | {"note": record.reason}
    message = record.message
    return row | {
        "store_time": iso_time(message.store_timestamp),
        "unique_key": message.unique_key,
        "tags": message.tags,
        "keys": list(message.keys),
    }


def _like_broker(
    sources: Sources, queue: Queue, request: ByTime, offset: int, version: Version
) -> dict[str, object]:
    if not isinstance(queue.units, PlainUnits):
        return {"difference": "searches of batch queues are not imitated"}
    release = Rules(version)
    theirs = BrokerSearch(sources.log, queue.units, release).find(
        request.timestamp, request.boundary
    )
    return {"like_broker": theirs, "difference": difference(release, offset, theirs) or None}


# What a broker of a release would answer to a search by time, with all its habits.
#
# The rules differ from the plain definition: 4.9.x to 5.1.0 choose a file by its modification time
# and take the nearest message; 5.1.1 and later look at one file only, so equal times that go on in
# the next file are not followed, and UPPER may answer 0.
# See ConsumeQueue#getOffsetInQueueByTime, MappedFileQueue#getConsumeQueueMappedFileByTime,
# CommitLog#pickupStoreTimestamp, 4.9.3 to 5.5.0.


SIZE: Final = CQ_UNIT.size
_SYS_FLAG: Final = MESSAGE_PREFIX["sys_flag"]


class _Unit(NamedTuple):
    physical_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Hits:
    """What a binary search came upon; positions in the file, -1 for nothing."""

    exact: int = -1
    left: int = -1
    right: int = -1
    left_time: int = -1
    right_time: int = -1
    gave_up: bool = False


class BrokerSearch:
    """One queue as a broker of a release sees it.

    Args:
        log: with the records.
        queue: in files.
        release: what the broker does.
    """

    def __init__(self, log: Log, queue: PlainUnits, release: Rules) -> None:
        self.log, self.queue, self.release = log, queue, release
        self.segments = queue.files.segments
        self.log_start, self.log_end = log.start, log.end
        self._ends: dict[int, int] = {}

    @property
    def max_offset(self) -> int:
        """End of the queue as the broker knows it."""
        for segment in reversed(self.segments):
            if end := self._end_of(segment):
                return (segment.start + end) // SIZE
        return self.segments[0].start // SIZE if self.segments else 0

    @property
    def min_offset(self) -> int:
        """Begin of the queue: the first unit of its first file that the log still has.

        Source: ConsumeQueue#correctMinOffset, 4.9.3 to 5.5.0.
        """
        if not self.segments:
            return 0
        if self._last_physical_offset() < self.log_start:
            return self.max_offset
        first = self.segments[0]
        for position in range(0, self._end_of(first), SIZE):
            unit = self._unit(first, position)
            if unit is not None and unit.size > 0 and unit.physical_offset >= self.log_start:
                return (first.start + position) // SIZE
        return self._uncorrected()

    def find(self, timestamp: int, boundary: Boundary) -> int:
        """Give the queue offset that the broker would answer."""
        if self.release.time_search is TimeSearch.NEAREST:
            return self._find_nearest(timestamp)
        return self._find_bounded(timestamp, boundary)

    def _uncorrected(self) -> int:
        return self.segments[0].start // SIZE

    def _last_physical_offset(self) -> int:
        end = self.max_offset * SIZE - SIZE
        segment = self.queue.files.at(end) if end >= 0 else None
        unit = self._unit(segment, end - segment.start) if segment else None
        return unit.physical_offset if unit else -1

    # 4.9.x to 5.1.0

    def _find_nearest(self, timestamp: int) -> int:
        segment = self._by_mtime(timestamp)
        if segment is None:
            return 0
        low = self._floor(segment)
        end = self._end_of(segment)
        if not end:
            return 0
        hits = self._search(segment, low, end - SIZE, timestamp)
        if hits.gave_up:
            return 0
        return _number(segment, self._nearest(hits, timestamp))

    def _by_mtime(self, timestamp: int) -> Segment | None:
        """Choose the first file that was changed at or after a time, else the last."""
        for segment in self.segments:
            if segment.mtime_ms >= timestamp:
                return segment
        return self.segments[-1] if self.segments else None

    @staticmethod
    def _nearest(hits: _Hits, timestamp: int) -> int:
        if hits.exact >= 0:
            return hits.exact
        if hits.left_time < 0:
            return hits.right
        if hits.right_time < 0:
            return hits.left
        is_left = abs(timestamp - hits.left_time) <= abs(timestamp - hits.right_time)
        return hits.left if is_left else hits.right

    # 5.1.1 and later

    def _find_bounded(self, timestamp: int, boundary: Boundary) -> int:
        segment = self._by_store_time(timestamp, boundary)
        offset = 0
        if segment is not None and (end := self._end_of(segment)):
            low = self._floor(segment)
            position = self._in_file(segment, low, end - SIZE, timestamp, boundary)
            offset = 0 if position is None else _number(segment, position)
        return min(max(offset, self.min_offset), self.max_offset)

    def _in_file(
        self, segment: Segment, floor: int, ceiling: int, timestamp: int, boundary: Boundary
    ) -> int | None:
        """Give the position in one file; None where the broker answers 0."""
        is_lower = boundary is Boundary.LOWER
        if self._time(segment, ceiling) < timestamp:
            return ceiling + SIZE if is_lower else ceiling
        if self._time(segment, floor) > timestamp:
            return 0 if is_lower else None
        hits = self._search(segment, floor, ceiling, timestamp)
        if hits.gave_up:
            return None
        if hits.exact < 0:
            return hits.right if is_lower else hits.left
        position, step = hits.exact, -SIZE if is_lower else SIZE
        while floor <= position + step <= ceiling:
            if self._time(segment, position + step) != timestamp:
                break
            position += step
        return position

    def _by_store_time(self, timestamp: int, boundary: Boundary) -> Segment | None:
        """Choose a file by the store times of its first and last unit."""
        if not self.segments:
            return None
        if boundary is Boundary.LOWER:
            for segment in self.segments[:-1]:
                if self._time(segment, segment.size // SIZE * SIZE - SIZE) >= timestamp:
                    return segment
            return self.segments[-1]
        for segment in reversed(self.segments):
            if self._time(segment, 0) <= timestamp:
                return segment
        return None

    # both

    def _floor(self, segment: Segment) -> int:
        minimum = self.min_offset * SIZE
        return max(minimum - segment.start, 0)

    def _search(self, segment: Segment, low: int, high: int, timestamp: int) -> _Hits:
        """Search a file as the broker does; see the rules for what it takes for a neighbour."""
        left = right = left_time = right_time = -1
        while high >= low:
            middle = (low + high) // (2 * SIZE) * SIZE
            unit = self._unit(segment, middle) or _Unit(0, 0)
            if unit.physical_offset < self.log_start:
                low, left = middle + SIZE, middle
                continue
            time = self._time(segment, middle)
            if time < 0:
                return _Hits(gave_up=True)
            if time == timestamp:
                return _Hits(exact=middle)
            if time > timestamp:
                high, right, right_time = middle - SIZE, middle, time
            else:
                low, left, left_time = middle + SIZE, middle, time
        return _Hits(-1, left, right, left_time, right_time)

    def _time(self, segment: Segment, position: int) -> int:
        """Read a unit's store time; -1 where the broker cannot.

        Source: CommitLog#pickupStoreTimestamp: no check of what lies at the offset.
        """
        unit = self._unit(segment, position)
        if unit is None or unit.physical_offset < self.log_start:
            return -1
        is_bounded = self.release.times_end_with_log
        if is_bounded and unit.physical_offset + unit.size > self.log_end:
            return -1
        raw = self.log.reader.read_at(unit.physical_offset, HEAD_BYTES)
        if len(raw) < _SYS_FLAG.end:
            return -1
        at = store_timestamp_position(_SYS_FLAG.of(raw))
        return big_endian(raw[at : at + STORE_TIMESTAMP.size])

    def _unit(self, segment: Segment, position: int) -> _Unit | None:
        raw = self.queue.file(segment).read_at(position, SIZE)
        if len(raw) < SIZE:
            return None
        physical_offset, size, _ = CQ_UNIT.packer.unpack(raw)
        return _Unit(physical_offset, size)

    def _end_of(self, segment: Segment) -> int:
        """Give the bytes of a file that hold units."""
        if segment.start not in self._ends:
            self._ends[segment.start] = used_bytes(self.queue.file(segment), SIZE)
        return self._ends[segment.start]


def _number(segment: Segment, position: int) -> int:
    """Give the number of a unit as Java divides: the -1 of "nothing found" becomes 0."""
    return max(segment.start + position, 0) // SIZE


def difference(release: Rules, answer: int, theirs: int) -> str:
    """Say why a broker's answer is another; empty when it is the same."""
    if answer == theirs:
        return ""
    if release.time_search is TimeSearch.NEAREST:
        return "that release picks a file by its modification time and takes the nearest message"
    return "that release searches one file only, by the times of its first and last unit"
