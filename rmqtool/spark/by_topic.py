"""Read the messages of some topics out of a segment, and leave the rest of it alone.

1. All queues are asked for their units of the segment. A unit is believed where no other one
   contradicts it: records do not overlap.
2. What units of other topics cover is left out. Records of the wanted topics are read one by one;
   what no believed unit covers is scanned, so that a record whose unit is missing is found there.
3. Where a record is not what its unit says, or not of a wanted topic, the queues are not true. Then
   there is no answer, and the segment is read as a whole: the log decides.

Units of light queues name records of other topics, and cover nothing. Rows of damage have no topic,
so this is for questions that drop them.
Source: ConsumeQueue#putMessagePositionInfo, MultiDispatch, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.errors import RmqtoolError
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import are_real
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.scan.packed import RecordPlaces, scan_packed
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.inputs import store_of
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import MessageOptions, message_rows
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from rmqtool.queues.files import MappedUnits
    from rmqtool.spark.options import SourceOptions
    from rmqtool.spark.plan import LogTask
    from rmqtool.store.place import OpenFile

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

# Making columns costs a few ms a batch, however small: with 4 MiB instead of the 1 MiB of `dump`,
# whose rows wait in memory, all columns take 0.19 s instead of 0.30 s for 64 MiB; 8 are no better.
WINDOW_BYTES: Final = 4 << 20
BATCH_ROWS: Final = WINDOW_BYTES // SMALLEST_RECORD + 8
TEXTS: Final = frozenset(
    one.name for one in MESSAGES.columns if one.source is not None and one.source.needs_texts
)
WORTH: Final = 0.3  # of a segment: with more to read, all of it is read
MOST_BYTES: Final = 256 << 20  # whose rows wait in memory
MOST_STRETCHES: Final = 2000
UNITS_A_READ: Final = 1 << 15


class NotTrueError(Exception):
    """The queues do not say what the log does, or it is not worth asking them."""


class Claims(NamedTuple):
    """Records of a segment as units name them, by position.

    Attributes:
        positions: int64, shape (n,): first byte of each in the file.
        sizes: int64, shape (n,): bytes.
        is_wanted: bool, shape (n,): whether a queue of a wanted topic names it.
    """

    positions: Int64s
    sizes: Int64s
    is_wanted: Mask

    @property
    def ends(self) -> Int64s:
        """Position past each: int64, shape (n,)."""
        return self.positions + self.sizes


def scan_options(selection: Selection, names: Sequence[str], *, is_dledger: bool) -> ScanOptions:
    """Read of each record what columns and limits need, and no more."""
    limits = (selection.topics, selection.properties)
    has_texts = any(limits) or selection.tag is not None or selection.key is not None
    return ScanOptions(
        body_crc="code" in names,
        texts=has_texts or not TEXTS.isdisjoint(names),
        is_dledger=is_dledger,
        window_bytes=WINDOW_BYTES,
        batch_rows=BATCH_ROWS,
    )


def by_topic(
    task: LogTask, options: SourceOptions, asked: MessageOptions, names: Sequence[str]
) -> list[pa.RecordBatch] | None:
    """Give the rows of the wanted topics; None where the segment has to be read as a whole.

    Args:
        task: a stretch of a plain commitlog that begins where an extent does.
        options: of the read.
        asked: which rows, and how.
        names: columns, in order.
    """
    is_known = task.start == task.part.begin or task.part.is_first
    if task.is_dledger or asked.fillers or not is_known:
        return None
    wanted = scan_options(asked.selection, names, is_dledger=False)
    try:
        claims = _believed(_claims(task.part, options), task.part)
        with task.part.segment.open() as file:
            found = _rows(file, task.part, claims, asked, wanted, names)
            return [rows.select(names) for rows in found]
    except (NotTrueError, RmqtoolError):
        return None


def _claims(part: SegmentPart, options: SourceOptions) -> Claims:
    """Ask all queues in files for their units of a part.

    Raises:
        NotTrueError: a wanted topic has no queue.
        RmqtoolError: something cannot be read.
    """
    topics = set(options.selection.topics)
    found: list[tuple[Int64s, Int64s, bool]] = []
    seen: set[str] = set()
    with Queues(store_of(options.path, options.broker_conf, None)) as queues:
        for source in (queues.files, queues.batches):
            for queue in source.queues():
                is_wanted = queue.topic in topics
                seen.add(queue.topic)
                if is_wanted or not queue.topic.startswith(LMQ_PREFIX):
                    found += [(*one, is_wanted) for one in _units(queue, part)]
    if not topics <= seen:
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
    return Claims(positions[is_new], sizes[is_new], flags[is_new])


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
    return Claims(positions[kept], claims.sizes[kept], claims.is_wanted[kept])


def _rows(
    file: OpenFile,
    part: SegmentPart,
    claims: Claims,
    asked: MessageOptions,
    wanted: ScanOptions,
    names: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of the log.

    Raises:
        NotTrueError: see `by_topic`.
        UnreadablePath: the file cannot be read.
    """
    topics = Selection(topics=asked.selection.topics)
    for one in _islands(part, claims):
        if isinstance(one, SegmentPart):
            for batch in scan(one, wanted, start=one.begin):
                if batch.end > one.end and batch.kind in {Extent.RECORD, Extent.FILLER}:
                    raise NotTrueError  # it goes on into what units cover
                yield from message_rows(batch, asked, names)
            continue
        packed = scan_packed(file, part.segment, one, wanted)
        if packed is None or not wanted_records(packed, topics).all():
            raise NotTrueError
        yield from message_rows(packed, asked, names)


def _islands(part: SegmentPart, claims: Claims) -> Iterator[SegmentPart | RecordPlaces]:
    """Yield what is to be read of a part, in order: stretches that no unit covers, and records.

    Raises:
        NotTrueError: it is too much.
    """
    count = claims.positions.size
    begins = np.concatenate([[part.begin], claims.ends])
    ends = np.concatenate([claims.positions, [max(part.end, int(begins[-1]))]])
    is_hole = begins < ends
    length = int(claims.sizes[claims.is_wanted].sum() + (ends - begins)[:count].sum())
    if length > min(WORTH * part.length, MOST_BYTES) or is_hole.sum() > MOST_STRETCHES:
        raise NotTrueError
    done = 0
    is_hole[count] = True
    for hole in np.flatnonzero(is_hole).tolist():
        numbers = np.flatnonzero(claims.is_wanted[done:hole]) + done
        for some in _groups(claims.sizes[numbers]):
            yield RecordPlaces(claims.positions[numbers[some]], claims.sizes[numbers[some]])
        if begins[hole] < ends[hole]:
            yield SegmentPart(part.segment, int(begins[hole]), int(ends[hole]))
        done = hole


def _groups(sizes: Int64s) -> Iterator[slice]:
    """Cut records into groups of about a window."""
    if not sizes.size:
        return
    numbers = np.cumsum(sizes) // WINDOW_BYTES
    edges = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *edges.tolist(), sizes.size]
    yield from (slice(first, last) for first, last in pairwise(bounds))
