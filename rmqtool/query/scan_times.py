"""Times in queues that are lost: from the records themselves, by the scan kernels.

A record says itself which place of which queue it has, and when it was stored, so that one pass
over the log gives what bisection over a queue would. Importing this loads numpy and the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats import java
from rmqtool.plural import counted
from rmqtool.query.log import LogRange
from rmqtool.query.scan import parts_of
from rmqtool.ranges import Boundary
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.scan.message import scan

if TYPE_CHECKING:
    from rmqtool.query.explain import Trail
    from rmqtool.query.log import Log
    from rmqtool.query.requests import ByTime
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart


class Seen(NamedTuple):
    """What the records of one queue say."""

    first: int  # smallest queue offset
    end: int  # after the largest one
    start: int  # physical offset of the record that has the smallest one
    queue_offset: int = -1  # the answer so far; -1 for none
    physical_offset: int = -1  # of its record; -1 for none

    def joined(self, other: Seen, boundary: Boundary) -> Seen:
        """Put two parts of the log together."""
        answers = [seen for seen in (self, other) if seen.queue_offset >= 0] or [self]
        choose = min if boundary is Boundary.LOWER else max
        best = choose(answers, key=lambda seen: seen.queue_offset)
        first, start = min((self.first, self.start), (other.first, other.start))
        end = max(self.end, other.end)
        return Seen(first, end, start, best.queue_offset, best.physical_offset)


@dataclass(frozen=True, slots=True)
class TimesOf:
    """What one part of the log gave."""

    first: int | None  # position at which its first extent begins; None when it has none
    end: int  # position after its last extent
    queues: dict[int, Seen]  # by number
    unread: str = ""  # why the rest could not be read; empty when all was


@dataclass(frozen=True, slots=True)
class FindTimes:
    """The per-part function: picklable, opens and closes the segment itself."""

    request: ByTime

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> TimesOf:
        """Search one part."""
        options = ScanOptions(body_crc=False)
        queues: dict[int, Seen] = {}
        first: int | None = None
        end = part.end
        try:
            for batch in scan(part, options, start=start):
                first = batch.position if first is None else first
                end = batch.end
                if batch.kind is Extent.RECORD:
                    join_into(queues, self._seen(batch), self.request.boundary)
        except UnreadablePath as error:
            return TimesOf(first, part.end, queues, error.reason)
        return TimesOf(first, end, queues)

    def _seen(self, batch: Batch) -> dict[int, Seen]:
        """Look at the records of the topic in one batch."""
        columns, request = batch.columns, self.request
        topic_numbers = columns[row.TOPIC_NUMBER]
        numbers = [
            number
            for number in np.unique(topic_numbers).tolist()
            if java.text(batch.topics[number]) == request.topic
        ]
        mine = np.flatnonzero(np.isin(topic_numbers, numbers))
        by_queue: dict[int, Seen] = {}
        queue_ids = columns[row.QUEUE_ID, mine]
        for queue_id in np.unique(queue_ids).tolist():
            if request.queue_id in {None, queue_id}:
                by_queue[queue_id] = _of_queue(columns[:, mine[queue_ids == queue_id]], request)
        return by_queue


def _of_queue(columns: np.ndarray[tuple[int, int], np.dtype[np.int64]], request: ByTime) -> Seen:
    """Look at the records of one queue."""
    is_batch = columns[row.INNER_NUM] > 0
    has_base = is_batch & (columns[row.INNER_BASE] >= 0)
    base = np.where(has_base, columns[row.INNER_BASE], columns[row.QUEUE_OFFSET])
    last = base + np.where(is_batch, columns[row.INNER_NUM], 1) - 1
    start = columns[row.PHYSICAL_OFFSET, base.argmin()]
    seen = Seen(int(base.min()), int(last.max()) + 1, int(start))
    is_lower = request.boundary is Boundary.LOWER
    times = columns[row.STORE_TIMESTAMP]
    fits = np.flatnonzero(times >= request.timestamp if is_lower else times <= request.timestamp)
    if not fits.size:
        return seen
    best = fits[base[fits].argmin() if is_lower else last[fits].argmax()]
    offset = base[best] if is_lower else last[best]
    return seen._replace(
        queue_offset=int(offset), physical_offset=int(columns[row.PHYSICAL_OFFSET, best])
    )


def join_into(by_queue: dict[int, Seen], more: dict[int, Seen], boundary: Boundary) -> None:
    """Add what another part of the log says."""
    for queue_id, seen in more.items():
        before = by_queue.get(queue_id)
        by_queue[queue_id] = seen if before is None else before.joined(seen, boundary)


def queue_times(log: Log, request: ByTime, trail: Trail) -> dict[int, Seen]:
    """Give the queues of a topic, by number, from the log alone."""
    by_queue: dict[int, Seen] = {}
    whole = LogRange(log.start, log.end)
    trail.search(f"the log {whole}")
    for part, times in run_joined(FindTimes(request), parts_of(log, whole), jobs=log.jobs):
        if times.unread:
            trail.add("search of the log", times.unread, part.segment.path)
            trail.search(f"{part.segment.path} could not be read: {times.unread}")
        join_into(by_queue, times.queues, request.boundary)
    trail.add("search of the log", f"{whole}: {counted(len(by_queue), 'queue')} of the topic")
    return dict(sorted(by_queue.items()))
