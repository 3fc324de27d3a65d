"""Records of a segment as queue units name them: what reads of some messages leave out the rest by.

A unit is believed where no other one contradicts it: records do not overlap. Units of light queues
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
    """Queues or index do not say what the log does, or it is not worth asking them."""


class Claims(NamedTuple):
    """Records of a segment as units name them, by position.

    Attributes:
        positions: int64, shape (n,): first byte of each in the file.
        sizes: int64, shape (n,): bytes.
        is_wanted: bool, shape (n,): whether a queue of a wanted topic names it.
        of_topics: position of one record of each topic that has units here.
    """

    positions: Int64s
    sizes: Int64s
    is_wanted: Mask
    of_topics: dict[str, int]

    @property
    def ends(self) -> Int64s:
        """Position past each: int64, shape (n,)."""
        return self.positions + self.sizes


def claims_of(store: Store, part: SegmentPart, topics: Collection[str]) -> Claims:
    """Ask all queues in files for their units of a part.

    Args:
        store: whose.
        part: of its commitlog.
        topics: that are wanted; none is all.

    Raises:
        NotTrueError: a wanted topic has no queue.
        RmqtoolError: something cannot be read.
    """
    found: list[tuple[Int64s, Int64s, bool]] = []
    seen: set[str] = set()
    of_topics: dict[str, int] = {}
    with Queues(store) as queues:
        for source in (queues.files, queues.batches):
            for queue in source.queues():
                is_light = queue.topic.startswith(LMQ_PREFIX)
                is_wanted = queue.topic in topics or not (topics or is_light)
                seen.add(queue.topic)
                for offsets, sizes in _units(queue, part) if is_wanted or not is_light else ():
                    found.append((offsets, sizes, is_wanted))
                    if offsets.size:
                        middle = int(offsets[offsets.size // 2])
                        of_topics.setdefault(queue.topic, middle - part.segment.start)
    if not seen.issuperset(topics):
        raise NotTrueError
    empty = np.zeros(0, np.int64)
    positions = np.concatenate([empty, *(one for one, _, _ in found)]) - part.segment.start
    sizes = np.concatenate([empty, *(one for _, one, _ in found)])
    flags = np.concatenate([empty > 0, *(np.full(a.size, flag) for a, _, flag in found)])
    # One record, of several queues: it is wanted when one of these is.
    order = np.lexsort((~flags, sizes, positions))
    positions, sizes, flags = positions[order], sizes[order], flags[order]
    is_new = np.ones(positions.size, np.bool_)
    is_new[1:] = (positions[1:] != positions[:-1]) | (sizes[1:] != sizes[:-1])
    claims = Claims(positions[is_new], sizes[is_new], flags[is_new], of_topics)
    return _believed(claims, part)


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
        positions=positions[kept], sizes=claims.sizes[kept], is_wanted=claims.is_wanted[kept]
    )
