"""Read the messages of some topics or keys out of a segment, and leave the rest of it alone.

1. All queues are asked for their units of the segment, see `claims`; for keys the index, too, see
   `by_key`.
2. What units of other topics cover, or of records with other keys, is left out. Wanted records are
   read one by one; what no believed unit covers is scanned, so that a record whose unit is missing
   is found there.
3. Where a record is not what its unit says, or not of a wanted topic, the queues are not true. Then
   there is no answer, and the segment is read as a whole: the log decides.

Rows of damage have no topic and no key, so this is for questions that drop them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import RmqtoolError
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.scan.packed import RecordPlaces, scan_packed
from rmqtool.spark.by_key import with_keys
from rmqtool.spark.claims import Claims, NotTrueError, claims_of
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.inputs import store_of
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import MessageOptions, message_rows
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rmqtool.spark.claims import Int64s
    from rmqtool.spark.options import SourceOptions
    from rmqtool.spark.plan import LogTask
    from rmqtool.store.place import OpenFile

# Making columns costs a few ms a batch, however small: with 4 MiB instead of the 1 MiB of `dump`,
# whose rows wait in memory, all columns take 0.19 s instead of 0.30 s for 64 MiB; 8 are no better.
WINDOW_BYTES: Final = 4 << 20
BATCH_ROWS: Final = WINDOW_BYTES // SMALLEST_RECORD + 8
SMALLEST_WINDOW: Final = 64 << 10
RECORD_BYTES: Final = 1 << 10  # of an ordinary message, about
TEXTS: Final = frozenset(
    one.name for one in MESSAGES.columns if one.source is not None and one.source.needs_texts
)
WORTH: Final = 0.3  # of a segment: with more to read, all of it is read
MOST_BYTES: Final = 256 << 20  # whose rows wait in memory
MOST_STRETCHES: Final = 2000


def scan_options(
    selection: Selection, names: Sequence[str], *, is_dledger: bool, limit: int | None = None
) -> ScanOptions:
    """Read of each record what columns and limits need, and no more.

    Args:
        selection: which records.
        names: columns.
        is_dledger: each record lies in an entry of its own.
        limit: rows that are wanted at most; None is all.
    """
    wanted = WINDOW_BYTES if limit is None else limit * RECORD_BYTES
    window_bytes = min(max(wanted, SMALLEST_WINDOW), WINDOW_BYTES)
    limits = (selection.topics, selection.properties)
    has_texts = any(limits) or selection.tag is not None or selection.key is not None
    return ScanOptions(
        body_crc="code" in names,
        texts=has_texts or not TEXTS.isdisjoint(names),
        is_dledger=is_dledger,
        window_bytes=window_bytes,
        batch_rows=BATCH_ROWS,
    )


def by_topic(
    task: LogTask, options: SourceOptions, asked: MessageOptions, names: Sequence[str]
) -> list[pa.RecordBatch] | None:
    """Give the rows of wanted topics, or keys; None where a segment has to be read as a whole.

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
        store = store_of(options.path, options.broker_conf, None)
        claims = claims_of(store, task.part, frozenset(asked.selection.topics))
        if options.by_keys:
            claims = with_keys(claims, store, task.part, options)
        with task.part.segment.open() as file:
            found = _rows(file, task.part, claims, asked, wanted, names)
            return [rows.select(names) for rows in found]
    except (NotTrueError, RmqtoolError):
        return None


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
