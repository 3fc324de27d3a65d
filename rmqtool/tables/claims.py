"""Records of a segment as queue units name them: reads of some topics leave out the rest by these.

A unit is believed where no other unit contradicts it: records do not overlap. Of each queue one
record is looked at: a directory of queues may have another name than it had. Units of light queues
name records of other topics, and cover nothing.
Source: ConsumeQueue#putMessagePositionInfo, MultiDispatch, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import are_real
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import numpy.typing as npt

    from rmqtool.queues.files import MappedUnits
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

UNITS_A_READ: Final = 1 << 15


class NotTrueError(Exception):
    """Queues do not say what the log does, or it is not worth asking them."""


class Claims(NamedTuple):
    """Records of a segment as units name them, by position: arrays of shape (n,)."""

    positions: Int64s  # first byte of each in the file
    sizes: Int64s  # bytes
    is_wanted: Mask  # whether a queue of a wanted topic names it
    is_batch: Mask  # whether a batch queue names it: it holds messages with keys of their own
    topics: tuple[str, ...]  # wanted ones that have queues

    @property
    def ends(self) -> Int64s:
        """Position past each: int64, shape (n,)."""
        return self.positions + self.sizes


def claims_of(
    store: Store, part: SegmentPart, topics: Collection[str], most_bytes: int | None
) -> Claims:
    """Ask all queues in files for their units of a part; those of the wanted topics first.

    Args:
        store: whose.
        part: of its commitlog.
        topics: that are wanted; empty for all.
        most_bytes: of records of these topics; with more, no other queue is asked. None for any.

    Raises:
        NotTrueError: a wanted topic has too much; or a queue has another topic.
        RmqtoolError: something cannot be read.
    """
    claims: list[tuple[Int64s, Int64s, bool, bool]] = []
    with Queues(store) as queues, LogReader(store.commitlog) as log:
        all_queues = [
            (queue, source is queues.batches)
            for source in (queues.files, queues.batches)
            for queue in source.queues()
            if queue.topic in topics or not queue.topic.startswith(LMQ_PREFIX)
        ]
        all_queues.sort(key=lambda queue: queue[0].topic not in topics)
        taken = 0
        for queue, is_batch in all_queues:
            is_wanted = not topics or queue.topic in topics
            units = list(_units(queue, part))
            claims += [(*columns, is_wanted, is_batch) for columns in units]
            taken += sum(int(sizes.sum()) for _, sizes in units) if is_wanted else 0
            if most_bytes is not None and taken > most_bytes:
                raise NotTrueError
            if not is_wanted or most_bytes is None:  # others are all looked at when they are read
                _check_topic(queue.topic, units, log)
        known = {queue.topic for queue, _ in all_queues}
    empty = np.zeros(0, np.int64)
    positions = np.concatenate([empty, *(claim[0] for claim in claims)]) - part.segment.start
    sizes = np.concatenate([empty, *(claim[1] for claim in claims)])
    flags, are_batches = (
        np.concatenate([empty > 0, *(np.full(claim[0].size, claim[n]) for claim in claims)])
        for n in (2, 3)
    )
    # One record, of several queues: it is wanted when one of these is.
    order = np.lexsort((~are_batches, ~flags, sizes, positions))
    positions, sizes = positions[order], sizes[order]
    is_new = np.ones(positions.size, np.bool_)
    is_new[1:] = (positions[1:] != positions[:-1]) | (sizes[1:] != sizes[:-1])
    kept = order[is_new]
    names = tuple(sorted(known.intersection(topics) if topics else known))
    columns = positions[is_new], sizes[is_new], flags[kept], are_batches[kept]
    return _believed(Claims(*columns, names), part)


def _check_topic(topic: str, units: list[tuple[Int64s, Int64s]], log: LogReader) -> None:
    """Look at a record of a queue.

    Raises:
        NotTrueError: it is not of the queue's topic.
    """
    offsets = next((offsets for offsets, _ in units if offsets.size), None)
    if offsets is None:
        return
    head = log.head_at(int(offsets[offsets.size // 2]))
    if head is None or log.topic_of(head) != topic:
        raise NotTrueError


def _units(queue: MappedUnits, part: SegmentPart) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield physical offsets and sizes of the units of a part; one that is missed is a hole."""
    files, size = queue.files, queue.layout.size
    first, last = files.start // size, files.end // size
    begin = part.segment.start + part.begin
    low = _bisect(queue, first, last, begin)
    high = _bisect(queue, low, last, part.segment.start + part.end)
    for start in range(low, high, UNITS_A_READ):
        units = queue.read(start, min(UNITS_A_READ, high - start))
        offsets = units["physical_offset"].astype(np.int64)
        is_here = are_real(units) & (offsets >= begin)
        is_here &= offsets < part.segment.start + part.end
        yield offsets[is_here], units["size"].astype(np.int64)[is_here]


def _bisect(queue: MappedUnits, low: int, high: int, physical_offset: int) -> int:
    """Give the number of the first unit of a record at or past an offset, were all in order."""
    while low < high:
        middle = (low + high) // 2
        unit = queue.read(middle, 1)[0]
        offset, size = int(unit["physical_offset"]), int(unit["size"])
        if offset >= physical_offset or size <= 0:
            high = middle
        else:
            low = middle + 1
    return low


def _believed(claims: Claims, part: SegmentPart) -> Claims:
    """Leave out the claims that contradict each other, or name what cannot be there."""
    positions, ends = claims.positions, claims.ends
    is_doubtful = (claims.sizes < SMALLEST_RECORD) | (ends > part.segment.size)
    if positions.size > 1:
        is_doubtful[1:] |= positions[1:] < np.maximum.accumulate(ends)[:-1]
        is_doubtful[:-1] |= positions[1:] < ends[:-1]
    kept = ~is_doubtful
    return claims._replace(
        positions=positions[kept],
        sizes=claims.sizes[kept],
        is_wanted=claims.is_wanted[kept],
        is_batch=claims.is_batch[kept],
    )
