"""Read one task into Arrow batches: what an executor runs. Damage is rows; nothing here raises it.

Needs no pyspark: executors get tasks and options, and give batches with exactly the table's types.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rmqtool.check.of_table import defects
from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.judge.reading import judged
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.spark.borders import remember, true_start
from rmqtool.spark.gone import Gone
from rmqtool.spark.options import TableName
from rmqtool.spark.plan import (
    DefectsTask,
    FilesTask,
    LogTask,
    RocksTask,
    UnreadTask,
    WholeTask,
    view_of,
)
from rmqtool.spark.segment_rows import segment_rows
from rmqtool.spark.tables import CODE, PENDING, SCHEMAS, TABLES, chosen
from rmqtool.tables.defects import defect_batch
from rmqtool.tables.inputs import store_of
from rmqtool.tables.messages import MessageOptions, message_rows, missing_rows
from rmqtool.tables.readers import READERS
from rmqtool.tables.record_tables import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqtool.findings.finding import Finding
    from rmqtool.spark.options import SourceOptions
    from rmqtool.spark.plan import Task
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
            schema = chosen(SCHEMAS[options.table], names, encoded)
            yield _not_opened(options.table, task, names).cast(schema)
        case DefectsTask():
            schema = chosen(SCHEMAS[options.table], names, encoded)
            some = defects(task.asked) if task.found is None else task.found
            found = defect_batch(some, TABLES[options.table])
            yield from [found.select(list(names)).cast(schema)] if found.num_rows else []
        case WholeTask() if options.table in PENDING:
            yield from _pending(options, names)
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
            schema = chosen(SCHEMAS[TableName.MESSAGES], names, encoded)
            for batch in _messages(task, options, names, gone):
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
    asked = MessageOptions(
        options.selection, options.body, options.fillers, is_dledger=task.is_dledger
    )
    position = part.begin
    missing = missing_rows(part, asked)
    if missing is not None:
        yield missing.select(names)
    try:
        known = task.start
        position = true_start(part, is_dledger=task.is_dledger) if known is None else known
        if position >= part.end and part.length:
            return  # an extent of an earlier split covers this one
        limit, is_dledger = options.limit, task.is_dledger
        wanted = scan_options(options.selection, names, is_dledger=is_dledger, limit=limit)
        for batch in judged(part, wanted, start=position):
            position = min(batch.end, part.segment.size)
            for rows in message_rows(batch, asked, names):
                yield rows.select(names)
        if known is None:
            remember(part.segment, position, is_dledger=task.is_dledger)
    except UnreadablePath as error:
        path = part.segment.path
        if not gone.has(path, error):
            yield _unread(TableName.MESSAGES, names, segment=path, position=position)


def scan_options(
    selection: Selection, names: Sequence[str], *, is_dledger: bool, limit: int | None
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
    is_judged = CODE in names  # to find out what is damaged takes all of a record
    return ScanOptions(
        body_crc=is_judged,
        texts=is_judged or has_texts or not TEXTS.isdisjoint(names),
        property_crc=is_judged,
        is_dledger=is_dledger,
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
    from rmqtool.queues.rocks import QueueEnds, RocksQueue
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


def _pending(options: SourceOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from rmqtool.rows import rows_of
    from rmqtool.tables.pending import pending_chunks

    store = store_of(options.path, options.broker_conf, None)
    schema = SCHEMAS[options.table]
    times = [one.name for one in schema if pa.types.is_timestamp(one.type)]
    for chunk in pending_chunks(PENDING[options.table], [store], []):
        rows = [
            {**row, **{name: _micros(row.get(name)) for name in times}} for row in rows_of(chunk)
        ]
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
        one = finding(UNREAD, At(task.path), actual=task.reason)
        return _batch([one.row()], SCHEMAS[table], names)
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
    scanned = ScanOptions(property_crc=True, is_dledger=task.is_dledger)
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


def _findings(found: Iterator[Finding], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for one in found:
        rows.append(one.row())
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
