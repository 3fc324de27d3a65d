"""Search the log by kernels: many keys or places of queues in one pass over it.

What the kernels find are candidates; each is read again and judged as a record. Imported only
when it is needed, as numba takes half a second to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import claimed_places
from rmqtool.errors import UnreadablePath
from rmqtool.formats import java
from rmqtool.query.log import LogRecord
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.scan.message import scan
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.query.explain import Trail
    from rmqtool.query.log import Log, LogRange
    from rmqtool.query.match import RecordNeed
    from rmqtool.query.requests import ByQueueOffset
    from rmqtool.scan.batch import Batch

PART_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Hits:
    """What one part of the log gave."""

    first: int | None  # position at which its first extent begins; None when it has none
    end: int  # position after its last extent
    offsets: tuple[int, ...]  # physical offsets of the candidates
    unread: str = ""  # why the rest could not be read; empty when all was
    gap_bytes: int = 0  # that hold no record


@dataclass(frozen=True, slots=True)
class Targets:
    """What is looked for. Picklable."""

    # texts, each with the topics of its records; no topics are any
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    places: tuple[tuple[str, int, int], ...] = ()  # topic, queue id and queue offset
    topics: tuple[str, ...] = ()  # all records of these


class Finder:
    """The state of one part's search: what is wanted of each topic that was met."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self._anywhere = [key for key, topics in targets.keys if not topics]
        self._of_topic: dict[str, list[str]] = {}
        for key, topics in targets.keys:
            for topic in topics:
                self._of_topic.setdefault(topic, []).append(key)
        self._places: dict[str, list[tuple[int, int]]] = {}
        for topic, queue_id, queue_offset in targets.places:
            self._places.setdefault(topic, []).append((queue_id, queue_offset))
        self._hashes: dict[int, npt.NDArray[np.int64]] = {}

    def candidates(self, batch: Batch) -> npt.NDArray[np.int64]:
        """Give the numbers of the records of a batch that may be wanted, ascending."""
        marked = np.zeros(batch.count, np.bool_)
        topic_numbers = batch.columns[row.TOPIC_NUMBER]
        for number in np.unique(topic_numbers).tolist():
            topic = java.text(batch.topics[number])
            mask = topic_numbers == number
            if topic in self.targets.topics:
                marked |= mask
            if self.targets.keys:
                self._mark_keys(batch, number, topic, marked)
            if places := self._places.get(topic):
                _mark_places(batch, mask, places, marked)
        if self._places:  # light queues are in properties; the record itself will tell
            marked |= (batch.columns[row.MARKS] & row.MARK_MULTI_DISPATCH) != 0
        return np.flatnonzero(marked)

    def _mark_keys(
        self, batch: Batch, number: int, topic: str, marked: npt.NDArray[np.bool_]
    ) -> None:
        wanted = self._hashes_of(number, topic)
        if not wanted.size or not batch.key_count:
            return
        records, hashes = batch.key_pairs
        if wanted.size == 1:
            hit = hashes == wanted[0]
        else:
            at = np.minimum(np.searchsorted(wanted, hashes), wanted.size - 1)
            hit = wanted[at] == hashes
        of_keys = records[hit]
        marked[of_keys[batch.columns[row.TOPIC_NUMBER][of_keys] == number]] = True

    def _hashes_of(self, number: int, topic: str) -> npt.NDArray[np.int64]:
        if number not in self._hashes:
            keys = [*self._anywhere, *self._of_topic.get(topic, ())]
            hashes = {java.key_hash(topic, key) for key in keys}
            self._hashes[number] = np.array(sorted(hashes), np.int64)
        return self._hashes[number]


def _mark_places(
    batch: Batch,
    mask: npt.NDArray[np.bool_],
    places: list[tuple[int, int]],
    marked: npt.NDArray[np.bool_],
) -> None:
    columns = batch.columns
    is_batch = columns[row.INNER_NUM] > 0
    base = np.where(is_batch & (columns[row.INNER_BASE] >= 0), columns[row.INNER_BASE],
                    columns[row.QUEUE_OFFSET])  # fmt: skip
    count = np.where(is_batch, columns[row.INNER_NUM], 1)
    queues = columns[row.QUEUE_ID]
    for queue_id in {queue_id for queue_id, _ in places}:
        offsets = np.array(
            sorted(offset for number, offset in places if number == queue_id), np.int64
        )
        here = mask & (queues == queue_id)
        at = np.minimum(np.searchsorted(offsets, base), offsets.size - 1)
        marked |= here & (offsets[at] >= base) & (offsets[at] < base + count)


@dataclass(frozen=True, slots=True)
class FindIn:
    """The per-part function: picklable, opens and closes the segment itself."""

    targets: Targets

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Hits:
        """Search one part."""
        finder = Finder(self.targets)
        options = ScanOptions(body_crc=False, keys=bool(self.targets.keys))
        first: int | None = None
        end, offsets, gap_bytes = part.end, list[int](), 0
        try:
            for batch in scan(part, options, start=start):
                first = batch.position if first is None else first
                end = batch.end
                if batch.kind is Extent.RECORD:
                    numbers = finder.candidates(batch)
                    offsets += batch.columns[row.PHYSICAL_OFFSET][numbers].tolist()
                elif batch.kind is Extent.GAP:
                    gap_bytes += batch.length
        except UnreadablePath as error:
            return Hits(first, part.end, (*offsets,), error.reason, gap_bytes)
        return Hits(first, end, (*offsets,), "", gap_bytes)


def lost_bytes(count: int) -> str:
    """Say that some bytes of the log were not searched, as nothing can be read there."""
    return f"{count:,} bytes of the log hold no record: what they held is not known"


def candidates(
    log: Log, targets: Targets, stretches: Iterable[LogRange], trails: Sequence[Trail]
) -> Iterator[LogRecord]:
    """Yield the records of some stretches that may be wanted, in the order of the log."""
    gap_bytes = 0
    for stretch in stretches:
        for part, hits in run_joined(FindIn(targets), parts_of(log, stretch), jobs=log.jobs):
            gap_bytes += hits.gap_bytes
            if hits.unread:
                for trail in trails:
                    trail.add("search of the log", hits.unread, part.segment.path)
                    trail.search(f"{part.segment.path} could not be read: {hits.unread}")
            for physical_offset in hits.offsets:
                record = log.record_at(physical_offset)
                if isinstance(record, LogRecord):
                    yield record
    for trail in trails if gap_bytes else ():
        trail.search(lost_bytes(gap_bytes))


def find_keys(
    log: Log, wanted: list[RecordNeed], stretches: Iterable[LogRange], trails: Sequence[Trail]
) -> Iterator[tuple[LogRecord, str]]:
    """Yield the records that have one of some keys, each with how.

    A record that has several of them comes several times.
    """
    targets = Targets(keys=tuple((need.text, need.topics) for need in wanted))
    by_text: dict[str, list[RecordNeed]] = {}
    for need in wanted:
        by_text.setdefault(need.text, []).append(need)
    for record in candidates(log, targets, stretches, trails):
        message = record.message
        for text in dict.fromkeys([message.unique_key or "", *message.keys]):
            for need in by_text.get(text, ()):
                if how := need.match(message):
                    yield record, how


def find_places(
    log: Log, places: list[ByQueueOffset], stretches: Iterable[LogRange], trails: Sequence[Trail]
) -> Iterator[tuple[LogRecord, ByQueueOffset]]:
    """Yield the records that belong to some places of queues."""
    targets = Targets(
        places=tuple((place.topic, place.queue_id, place.queue_offset) for place in places)
    )
    by_queue: dict[tuple[str, int], dict[int, ByQueueOffset]] = {}
    for asked in places:
        by_queue.setdefault((asked.topic, asked.queue_id), {})[asked.queue_offset] = asked
    for record in candidates(log, targets, stretches, trails):
        for topic, queue_id, base, count in claimed_places(record.message):
            offsets = by_queue.get((topic, queue_id), {})
            # A count out of a damaged record may be anything: go through the smaller set.
            numbers = range(base, base + count)
            for number in numbers if count < len(offsets) else list(offsets):
                if number in numbers and (place := offsets.get(number)) is not None:
                    yield record, place


def find_topics(
    log: Log, topics: tuple[str, ...], stretches: Iterable[LogRange], trails: Sequence[Trail]
) -> Iterator[LogRecord]:
    """Yield the records of some topics."""
    for record in candidates(log, Targets(topics=topics), stretches, trails):
        if record.message.topic in topics:
            yield record


def parts_of(log: Log, stretch: LogRange) -> Iterator[SegmentPart]:
    """Cut a stretch into parts of files."""
    for segment in log.segments:
        begin = max(stretch.start - segment.start, 0)
        end = min(stretch.end - segment.start, segment.size)
        while begin < end:
            border = min(end, begin + PART_BYTES)
            yield SegmentPart(segment, begin, border)
            begin = border
