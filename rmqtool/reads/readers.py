"""Read one task into Arrow batches: what an executor runs. Damage is rows; nothing here raises it.

Needs no pyspark: executors get tasks and options, and give batches with exactly the table's types.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rmqtool.check.of_table import defects
from rmqtool.errors import StoreError, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_GAP, FS_READ
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.judge.reading import judged
from rmqtool.reads.options import TableName
from rmqtool.reads.plan import view_of
from rmqtool.reads.small_tables import SMALL
from rmqtool.reads.tables import (
    BODY,
    CODE,
    EXACT,
    OF_FILES,
    SCHEMAS,
    TABLES,
    chosen,
    schema_of_store,
    with_bytes,
)
from rmqtool.reads.tasks import DefectsTask, FilesTask, LogTask, RocksTask, UnreadTask, WholeTask
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.assisted import assisted_rows
from rmqtool.tables.defects import defect_batch
from rmqtool.tables.inputs import store_of
from rmqtool.tables.messages import MessageOptions, message_rows, missing_rows
from rmqtool.tables.readers import READERS
from rmqtool.tables.record_tables import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqtool.findings.finding import Finding
    from rmqtool.reads.options import SourceOptions
    from rmqtool.reads.tasks import Task
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import Segment
    from rmqtool.tables.selection import Selection


UNREAD: Final = FS_READ
# Making columns costs a few ms a batch, however small: with 4 MiB instead of the 1 MiB of `dump`,
# whose rows wait in memory, all columns take 0.19 s instead of 0.30 s for 64 MiB; 8 are no better.
WINDOW_BYTES: Final = 4 << 20
BATCH_ROWS: Final = WINDOW_BYTES // SMALLEST_RECORD + 8
SMALLEST_WINDOW: Final = 64 << 10
RECORD_BYTES: Final = 1 << 10  # of an ordinary message, about
TEXTS: Final = frozenset(
    column.name
    for column in MESSAGES.columns
    if column.source is not None and column.source.needs_texts
)
ROWS_A_BATCH: Final = 1000


def batches(
    task: Task,
    options: SourceOptions,
    names: Sequence[str],
    encoded: Container[str] = frozenset(),
    expired: set[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task.

    Args:
        task: what to read.
        options: of the read.
        names: columns, in order.
        encoded: columns of messages that may stay numbers of a dictionary.
        expired: takes the files that a running broker has deleted since they were listed, which
            then have no row; None where each is to be a row of damage.
    """
    gone = Gone(options, expired)
    match task:
        case LogTask():
            yield from _of_log(task, options, names, gone, encoded)
        case FilesTask():
            yield from _units(task, options, names, gone)
        case RocksTask():
            yield from _units_in_rocksdb(task, options, names)
        case UnreadTask():
            schema = chosen(schema_of_store(options), names, encoded)
            yield _not_opened(options.table, task, names).cast(schema)
        case DefectsTask():
            schema = chosen(schema_of_store(options), names, encoded)
            some = defects(task.asked) if task.findings is None else task.findings
            batch = defect_batch(some, TABLES[options.table])
            yield from [batch.select(list(names)).cast(schema)] if batch.num_rows else []
        case WholeTask() if options.table in SMALL:
            yield from _small(options, names)
        case WholeTask():
            yield from _findings(_of_store(options), names)


def _of_log(
    task: LogTask,
    options: SourceOptions,
    names: Sequence[str],
    gone: Gone,
    encoded: Container[str],
) -> Iterator[pa.RecordBatch]:
    """Yield what a stretch of a log has for a table."""
    match options.table:
        case TableName.MESSAGES:
            schema = chosen(schema_of_store(options), names, encoded)
            is_binary = options.is_binary and BODY in names
            read = tuple(dict.fromkeys((*names, EXACT))) if is_binary else names
            for given in _messages(task, options, read, gone):
                batch = with_bytes(given).select(names) if is_binary else given
                yield batch if batch.schema == schema else batch.cast(schema)
        case TableName.SEGMENTS:
            rows = segment_rows(task, names, gone)
            yield _batch(rows, SCHEMAS[TableName.SEGMENTS], names)
        case _:
            yield from _findings(_of_segment(task, gone), names)


def _messages(
    task: LogTask, options: SourceOptions, names: Sequence[str], gone: Gone
) -> Iterator[pa.RecordBatch]:
    part = task.part
    asked = MessageOptions(options.selection, options.body, options.fillers)
    position = part.begin
    missing = missing_rows(part, asked)
    if missing is not None:
        yield missing.select(names)
    try:
        known = task.start
        position = true_start(part) if known is None else known
        if position >= part.end and part.length:
            return  # an extent of an earlier split covers this one
        wanted = scan_options(options.selection, names, limit=options.limit)
        is_known = known is not None or part.is_first
        if is_known and options.selection.is_indexed and options.limit is None:
            store = store_of(options.path, options.broker_conf, None)
            some = assisted_rows(store, part._replace(begin=position), asked, wanted, names)
            if some is not None:
                yield from (rows.select(names) for rows in some)
                return
        for batch in judged(part, wanted, start=position):
            position = min(batch.end, part.segment.size)
            for rows in message_rows(batch, asked, names):
                yield rows.select(names)
        if known is None:
            remember(part.segment, position)
    except UnreadablePath as error:
        path = part.segment.path
        if not gone.has(path, error):
            yield _unread(TableName.MESSAGES, names, segment=path, position=position)


def scan_options(selection: Selection, names: Sequence[str], *, limit: int | None) -> ScanOptions:
    """Read of each record what columns and limits need, and no more.

    Args:
        selection: which records.
        names: columns.
        limit: rows that are wanted at most; None is all.
    """
    wanted = WINDOW_BYTES if limit is None else limit * RECORD_BYTES
    window_bytes = min(max(wanted, SMALLEST_WINDOW), WINDOW_BYTES)
    limits = (selection.topics, selection.properties)
    has_texts = any(limits) or selection.tag is not None or selection.key is not None
    is_judged = CODE in names  # to find out what is damaged takes all of a record
    return ScanOptions(
        body_crc=is_judged,
        texts=is_judged or has_texts or not TEXTS.isdisjoint(names),
        property_crc=is_judged,
        window_bytes=window_bytes,
        batch_rows=BATCH_ROWS,
    )


def _units(
    task: FilesTask, options: SourceOptions, names: Sequence[str], gone: Gone
) -> Iterator[pa.RecordBatch]:
    reader = READERS[view_of(options.table).word]
    schema = chosen(SCHEMAS[options.table], names)
    for file in task.files:
        try:
            for rows in reader(file, options.selection, fillers=options.fillers):
                yield rows.select(names).cast(schema)
        except UnreadablePath as error:
            if not gone.has(file.path, error):
                yield _unread(options.table, names, file=file.path, position=0)


def _units_in_rocksdb(
    task: RocksTask, options: SourceOptions, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    from rmqtool.queues.queue_names import QueueEnds
    from rmqtool.queues.rocks import RocksQueue
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.tables.rocksdb import unit_batches

    schema = chosen(SCHEMAS[options.table], names)
    try:
        with Database(task.place, task.path) as database:
            ranges = (
                (
                    RocksQueue(database, range_.topic, range_.queue_id, ends),
                    range_.first,
                    range_.end,
                )
                for range_ in task.ranges
                for ends in [QueueEnds(maximum=(0, range_.end - 1))]
            )
            for rows in unit_batches(ranges, task.place, options.selection):
                yield rows.select(names).cast(schema)
    except UnreadablePath:
        yield _unread(options.table, names, file=task.path, position=0)


def _small(options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    schema = SCHEMAS[options.table]
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    all_rows = SMALL[options.table].readable(options)
    while some := list(islice(all_rows, ROWS_A_BATCH)):
        rows = [{**row, **{name: _micros(row.get(name)) for name in times}} for row in some]
        yield _batch(rows, schema, names)


def _micros(text: object) -> int | None:
    """Give a time of a row as µs since 1970; None for one that no calendar has."""
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None


def _unread(table: TableName, names: Sequence[str], **place: Any) -> pa.RecordBatch:  # noqa: ANN401
    """Give the row that stands for what could not be read."""
    return _batch([{**place, "extent": str(Extent.GAP), "code": UNREAD}], SCHEMAS[table], names)


def _not_opened(table: TableName, task: UnreadTask, names: Sequence[str]) -> pa.RecordBatch:
    """Give the row that stands for a store, or a database of it, that could not be opened."""
    if table is TableName.FINDINGS:
        unread = finding(UNREAD, At(task.path), actual=task.reason)
        return _batch([unread.row()], SCHEMAS[table], names)
    where = {"file": task.path, "segment": task.path, "position": 0}
    return _unread(table, names, **where, reason=task.reason, unread=task.reason)


def stretch_row(begin: int, length: int, code: str, names: Sequence[str]) -> pa.RecordBatch:
    """Give the row of `messages` for a stretch of the log that no record can be read of.

    Args:
        begin: physical offset.
        length: bytes.
        code: of the finding that says why.
        names: columns, in order.
    """
    known = {"physical_offset": begin, "size": length, "extent": str(Extent.GAP), "code": code}
    return _batch([known], SCHEMAS[TableName.MESSAGES], names)


def _of_store(options: SourceOptions) -> Iterator[Finding]:
    """Give all that `validate` finds in a store."""
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.validate import validate

    yield from validate(ValidateOptions(options.path, broker_conf=options.broker_conf))


def _of_segment(task: LogTask, gone: Gone) -> Iterator[Finding]:
    """Give what one segment shows by itself: its records, and where there are none."""
    from rmqtool.check.findings_list import Bounded
    from rmqtool.check.log.part import PartOptions, inspect_part
    from rmqtool.judge.message import RecordOptions

    segment = task.part.segment
    scanned = ScanOptions(property_crc=True)
    report = inspect_part(
        task.part, PartOptions(scanned, None, RecordOptions(), last_used=segment.start)
    )
    bounded = Bounded()
    yield from bounded.take(report.findings)
    for stretch in report.stretches:
        if stretch.kind is Extent.GAP and stretch.code:
            place = At(
                segment.path, stretch.position, stretch.length, segment.start + stretch.position
            )
            yield from bounded.take([finding(stretch.code, place)])
    if report.unread and not gone.has(segment.path, report.unread):
        yield finding(UNREAD, At(segment.path), actual=report.unread.reason)
    bounded.add(report.counts.items())
    yield from bounded.rest()


def _findings(findings: Iterator[Finding], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for defect in findings:
        rows.append(defect.row())
        if len(rows) == ROWS_A_BATCH:
            yield _batch(rows, SCHEMAS[TableName.FINDINGS], names)
            rows = []
    if rows:
        yield _batch(rows, SCHEMAS[TableName.FINDINGS], names)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatch:
    """Give rows as a batch; times are µs, and one that 64 bits do not hold is null."""
    wanted = chosen(schema, names)
    columns = []
    for field in wanted:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_timestamp(field.type):
            held = [value if value is not None and abs(value) < 2**63 else None for value in values]
            columns.append(pa.array(held, pa.int64()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


# Find where the records of a split begin: one answer, whatever the splits are.
#
# A split in the middle of a segment begins where an extent of the split before ends. Its first
# record that says of itself that it lies there is nearly always that place; a blank record may
# cover
# old ones, though, and a body may hold copies. So the heads of the records before it are walked, at
# several GB/s, and a worker remembers how far it has come in a segment.


REMEMBERED: Final = 64  # segments
_known: OrderedDict[Segment, list[int]] = OrderedDict()


def true_start(part: SegmentPart) -> int:
    """Give the position of the first extent that begins in a part, or lies after it.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    borders = _borders(part.segment)
    cursor = borders[bisect_right(borders, part.begin) - 1]
    if cursor >= part.begin:
        return cursor
    options = ScanOptions(body_crc=False, texts=False)
    for batch in scan(SegmentPart(part.segment, cursor, part.begin), options, start=cursor):
        cursor = batch.end
    remember(part.segment, cursor)
    return max(cursor, part.begin)


def remember(segment: Segment, cursor: int) -> None:
    """Take note of a place where an extent ends, for the next split of the segment."""
    borders = _borders(segment)
    place = bisect_right(borders, cursor)
    if borders[place - 1] != cursor:
        borders.insert(place, cursor)


def _borders(segment: Segment) -> list[int]:
    # With its size and its mtime: a file that changed is another one.
    if segment not in _known:
        while len(_known) >= REMEMBERED:
            _known.popitem(last=False)
        _known[segment] = [0]
    _known.move_to_end(segment)
    return _known[segment]


# Rows of the table `segments`: what one file of a log holds, and what is damaged in it first.


def segment_rows(task: LogTask, names: Sequence[str], gone: Gone) -> list[dict[str, Any]]:
    """Give the row of a segment, none of an expired one; what was read before an error counts.

    Args:
        task: of the whole segment.
        names: columns: what the directory says takes no look into the file.
        gone: tells which ones have expired.
    """
    segment = task.part.segment
    summary = _Summary()
    unread = None
    is_judged = CODE in names  # to find out what is damaged takes all of a record
    wanted = ScanOptions(
        body_crc=is_judged,
        texts=is_judged,
        property_crc=is_judged,
    )
    if segment.missing_before:
        summary.code = str(FS_GAP)
    try:
        if not OF_FILES.issuperset(names):
            for batch in judged(SegmentPart(segment, 0, segment.size), wanted, start=0):
                summary.take(batch)
    except UnreadablePath as error:
        if gone.has(segment.path, error):
            return []
        unread = error.reason
    row = {
        "segment": segment.path,
        "start": segment.start,
        "size": segment.size,
        "allocated": segment.allocated,
        "modified_time": segment.mtime_ms * 1000,
        "records": summary.records,
        **{f"{kind}_bytes": summary.lengths[kind] for kind in summary.lengths},
        "gaps": summary.gaps,
        **summary.edges,
        "unread": unread,
        "code": summary.code,
    }
    return [row]


class _Summary:
    """Adds up the extents of a segment."""

    def __init__(self) -> None:
        self.records = self.gaps = 0
        self.lengths = {str(kind): 0 for kind in Extent}
        self.edges: dict[str, int] = {}
        self.code: str | None = None

    def take(self, batch: Batch) -> None:
        """Count a batch; what the file ought to have past its end is no byte of it."""
        code = batch.code or next(iter(batch.damage.values()), None)
        if code is not None:
            self.code = self.code or str(code)
        if batch.position >= batch.segment.size:
            return
        self.lengths[str(batch.kind)] += batch.length
        self.gaps += batch.kind is Extent.GAP
        if batch.kind is not Extent.RECORD:
            return
        self.records += batch.count
        offsets, times = batch.columns[row.PHYSICAL_OFFSET], batch.columns[row.STORE_TIMESTAMP]
        edges = self.edges
        edges.setdefault("first_physical_offset", int(offsets[0]))
        edges["last_physical_offset"] = int(offsets[-1])
        low, high = int(times.min()) * 1000, int(times.max()) * 1000
        edges["first_store_time"] = min(edges.get("first_store_time", low), low)
        edges["last_store_time"] = max(edges.get("last_store_time", high), high)


# Tell files of a log that a running broker has deleted from those that cannot be read.


@dataclass(frozen=True, slots=True)
class Gone:
    """Tells files that have expired from those that cannot be read."""

    options: SourceOptions  # of the read
    expired: set[str] | None  # takes the expired files; None when they count as unreadable

    def has(self, path: str, error: UnreadablePath) -> bool:
        """Take note of a file that has expired; False for another one."""
        if self.expired is None:
            return False
        try:
            store = store_of(self.options.path, self.options.broker_conf, None)
        except StoreError:
            return False
        if store.moment.is_gone(path, error):
            self.expired.add(path)
            return True
        return False
