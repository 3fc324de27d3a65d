"""Read the messages of some topics, or with a key, and leave the rest of a log segment alone.

1. All queues are asked for their units of the segment, see `claims`; the key index is asked which
   of these records have other keys, see `by_key`.
2. What units of other records cover is left out. Wanted records are read one by one; what no
   believed unit covers is scanned, so that a record whose unit is missing is found there.
3. Where a record is not what its unit says, a queue has records of another topic, or the scan meets
   damage, there is no answer, and the segment is read as a whole: the log decides.

So records are the same as those of a whole read. Damage within other records is not met.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.judge.reading import judged, judged_records
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.scan.packed import RecordPlaces, scan_packed
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.by_key import with_key
from rmqtool.tables.claims import NotTrueError, claims_of
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import WHOLE_RECORDS, message_rows, missing_rows
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from rmqtool.scan.batch import Batch, ScanOptions
    from rmqtool.store.place import OpenFile
    from rmqtool.store.tree import Store
    from rmqtool.tables.claims import Claims, Int64s
    from rmqtool.tables.messages import MessageOptions

WORTH: Final = 0.3  # of a part: with more to read, all of it is read
MOST_BYTES: Final = 256 << 20  # whose rows wait in memory
MOST_STRETCHES: Final = 2000


def assisted_rows(
    store: Store,
    part: SegmentPart,
    asked: MessageOptions,
    options: ScanOptions,
    names: Collection[str],
) -> Iterable[pa.RecordBatch] | None:
    """Give the rows of wanted records; None where a part has to be read as a whole.

    All is read once before there is an answer. Bodies may be many times as long unpacked, so with
    them it is read again, while rows are taken.

    Args:
        store: whose queues are asked.
        part: of its plain commitlog; an extent begins where it does.
        asked: which rows, and how.
        options: what is read of each record.
        names: columns of records; others are left out.
    """
    claims = believed(store, part, asked)
    if claims is None:
        return None
    bare = replace(asked, body=BodyOptions())
    rows: list[pa.RecordBatch] = []
    try:
        for batch in claimed(part, claims, asked.selection, options):
            rows += message_rows(batch, bare, names)
    except (NotTrueError, RmqtoolError):
        return None
    if asked.body.mode is BodyMode.NONE:
        return rows
    return chain.from_iterable(
        message_rows(batch, asked, names)
        for batch in read_again(part, claims, asked.selection, options)
    )


def assisted_batches(
    store: Store, part: SegmentPart, asked: MessageOptions, options: ScanOptions
) -> Iterator[Batch] | None:
    """Give wanted records as they are read; None where a part has to be read as a whole.

    Args:
        store: whose queues are asked.
        part: of its plain commitlog; an extent begins where it does.
        asked: which records.
        options: what is read of each.
    """
    claims = believed(store, part, asked)
    if claims is None:
        return None
    try:
        for _ in claimed(part, claims, asked.selection, options):
            pass
    except (NotTrueError, RmqtoolError):
        return None
    return read_again(part, claims, asked.selection, options)


def whole_rows(
    store: Store, parts: Iterable[SegmentPart], asked: MessageOptions
) -> Iterator[tuple[SegmentPart, list[SegmentPart], Iterable[pa.RecordBatch] | None]]:
    """Yield segments, the parts of each, and its wanted rows; None where the parts are to be read.

    Args:
        store: whose queues are asked.
        parts: of its plain commitlog.
        asked: which rows, and how.
    """
    for whole, some in by_segment(parts):
        rows = None
        if asked.selection.offsets == EVERYTHING:
            rows = assisted_rows(store, whole, asked, WHOLE_RECORDS, MESSAGES.names)
        missing = None if rows is None else missing_rows(whole, asked)
        yield whole, some, rows if missing is None else chain([missing], rows or ())


def by_segment(
    parts: Iterable[SegmentPart],
) -> Iterator[tuple[SegmentPart, list[SegmentPart]]]:
    """Yield the parts of each segment, and before them all of these as one."""
    for segment, some in groupby(parts, lambda part: part.segment):
        those = list(some)
        yield SegmentPart(segment, those[0].begin, those[-1].end), those


def believed(store: Store, part: SegmentPart, asked: MessageOptions) -> Claims | None:
    """Give which records of a part are to be read; None where all of it has to be."""
    selection = asked.selection
    if not selection.is_indexed or asked.fillers or asked.is_copy or part.segment.entry_header:
        return None
    topics, most = frozenset(selection.topics), _most_bytes(part)
    try:
        if selection.key is None:
            return claims_of(store, part, topics, most)
        return with_key(claims_of(store, part, topics, None), store, part, selection.key)
    except (NotTrueError, RmqtoolError):
        return None


def read_again(
    part: SegmentPart, claims: Claims, selection: Selection, options: ScanOptions
) -> Iterator[Batch]:
    """Yield the records of a part that was read once.

    Raises:
        UnreadablePath: the file cannot be read any more, or is another one.
    """
    try:
        yield from claimed(part, claims, selection, options)
    except NotTrueError as error:
        reason = "it changed while it was read"
        raise UnreadablePath(path=part.segment.path, reason=reason) from error


def claimed(
    part: SegmentPart, claims: Claims, selection: Selection, options: ScanOptions
) -> Iterator[Batch]:
    """Yield wanted records of a part, and what no unit covers, in the order of the log.

    Raises:
        NotTrueError: queues do not say what the log does.
        UnreadablePath: the file cannot be read.
    """
    topics = Selection(topics=selection.topics)
    with part.segment.open() as file:
        for batch, is_named in _batches(file, part, claims, options):
            if is_named and not wanted_records(batch, topics).all():
                raise NotTrueError
            yield batch


def _batches(
    file: OpenFile, part: SegmentPart, claims: Claims, options: ScanOptions
) -> Iterator[tuple[Batch, bool]]:
    """Yield what is read, in the order of the log, and whether queues name it.

    Raises:
        NotTrueError: see `claimed`.
        UnreadablePath: the file cannot be read.
    """
    for island in _islands(part, claims, options.window_bytes):
        if isinstance(island, SegmentPart):
            for batch in judged(island, options, start=island.begin):
                is_sound = batch.kind is not Extent.GAP and not batch.code
                if not is_sound or (batch.end > island.end and batch.kind is not Extent.UNUSED):
                    raise NotTrueError  # damage, or it goes on into what units cover
                yield batch, False
            continue
        packed = scan_packed(file, part.segment, island, options)
        if packed is None or _ends_in_zero(packed):
            raise NotTrueError
        yield judged_records(packed), True


def _ends_in_zero(batch: Batch) -> bool:
    """Tell whether the end of a record may be lost: who reads what follows it finds out."""
    ends = batch.columns[row.RECORD_START] + batch.columns[row.SIZE]
    return bool((batch.window[ends - 1] == 0).any())


def _most_bytes(part: SegmentPart) -> int:
    """Give how much of a part may be read before all of it is read."""
    return int(min(WORTH * part.length, MOST_BYTES))


def _islands(
    part: SegmentPart, claims: Claims, group_bytes: int
) -> Iterator[SegmentPart | RecordPlaces]:
    """Yield what is to be read of a part, in order: stretches that no unit covers, and records.

    Raises:
        NotTrueError: it is too much.
    """
    count = claims.positions.size
    begins = np.concatenate([[part.begin], claims.ends])
    ends = np.concatenate([claims.positions, [max(part.end, int(begins[-1]))]])
    is_hole = begins < ends
    length = int(claims.sizes[claims.is_wanted].sum() + (ends - begins)[:count].sum())
    if length > _most_bytes(part) or is_hole.sum() > MOST_STRETCHES:
        raise NotTrueError
    if begins[-1] >= part.segment.size:
        raise NotTrueError  # no blank closes the file: whoever reads it whole says so
    done = 0
    is_hole[count] = True
    for hole in np.flatnonzero(is_hole).tolist():
        numbers = np.flatnonzero(claims.is_wanted[done:hole]) + done
        for some in _groups(claims.sizes[numbers], group_bytes):
            yield RecordPlaces(claims.positions[numbers[some]], claims.sizes[numbers[some]])
        if begins[hole] < ends[hole]:
            yield SegmentPart(part.segment, int(begins[hole]), int(ends[hole]))
        done = hole


def _groups(sizes: Int64s, group_bytes: int) -> Iterator[slice]:
    """Cut records into groups of about a window."""
    if not sizes.size:
        return
    numbers = np.cumsum(sizes) // group_bytes
    edges = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *edges.tolist(), sizes.size]
    yield from (slice(first, last) for first, last in pairwise(bounds))
