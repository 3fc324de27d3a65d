"""The table of messages: one row a commitlog record, gap, filler or unused tail.

1. `scan` tiles a part of a segment with batches; their columns index a window of bytes.
2. `message_filter` chooses records, on the bytes as they are stored.
3. `record_columns` makes the public columns of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_layout import FS_GAP
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.judge.reading import judged
from rmqtool.scan.batch import Batch, Extent, ScanOptions
from rmqtool.store.segment import LARGEST_LONG
from rmqtool.tables import arrow
from rmqtool.tables.bodies import BUDGET_BYTES, BodyMode, BodyOptions
from rmqtool.tables.body_groups import Budget, Group, groups
from rmqtool.tables.json_lines import json_lines
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.record_columns import EVERYTHING, SCHEMA, message_columns
from rmqtool.tables.record_tables import BODY, DEFECT, MESSAGES
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqtool.rows import JsonLines, Row
    from rmqtool.store.segment import SegmentPart

PART_BYTES: Final = 4 << 20  # what one thread works on; its rows are in memory, with those before
# What is paid a batch is paid seldom: two windows hold a part and the end of its last record.
WINDOW_BYTES: Final = PART_BYTES // 2 + (64 << 10)
_BODY: Final = frozenset(BODY)
BATCH_ROWS: Final = WINDOW_BYTES // SMALLEST_RECORD + 8  # as many as a window can hold
# All that message rows need.
WHOLE_RECORDS: Final = ScanOptions(
    property_crc=True, window_bytes=WINDOW_BYTES, batch_rows=BATCH_ROWS
)


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What is wanted of messages."""

    selection: Selection = field(default_factory=Selection)  # which
    body: BodyOptions = field(default_factory=BodyOptions)  # how bodies are shown
    # whether fillers and unused tails are rows, too; then the rows tile a segment
    fillers: bool = False
    is_copy: bool = False  # records of a compaction log
    as_json: bool = False  # give JSON lines of `columns` instead of Arrow batches
    columns: tuple[str, ...] = MESSAGES.names  # names of the fields for JSON


class BodiesLeft(NamedTuple):
    """From where on the bodies of a part are yet to be shown."""

    position: int  # of the file, where records begin
    skipped: int  # how many of the wanted records from there on have been given


@dataclass(frozen=True, slots=True)
class PartRows:
    """What one part of a segment gave."""

    first: int | None  # position at which its first extent begins; None when it has none
    end: int  # position after the last extent, in this part or after it
    chunks: tuple[pa.RecordBatch | JsonLines, ...]  # the rows
    unread: UnreadablePath | None = None  # why the rest of the part could not be read
    # which rows are left, as their bodies are more than may be held; None when none are
    rest: BodiesLeft | None = None


@dataclass(frozen=True, slots=True)
class MessagesOf:
    """The per-part function: picklable, opens and closes the segment itself."""

    options: MessageOptions

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> PartRows:
        """Read one part; of bodies, as many as the budget holds."""
        first: int | None = None
        end, rest, budget = part.end, None, Budget()
        chunks: list[pa.RecordBatch | JsonLines] = []
        missing = missing_rows(part, self.options)
        if missing is not None:
            chunks.append(self.chunk(missing))
        try:
            for batch in batches_of(part, self.options, start=start):
                first = batch.position if first is None else first
                end = batch.end
                if rest is not None:
                    continue  # where the part ends is to be known, too
                given = 0
                for rows in message_rows(batch, self.options, budget=budget):
                    chunks.append(self.chunk(rows))
                    given += rows.num_rows
                if budget.is_spent:
                    rest = BodiesLeft(batch.position, given)
        except UnreadablePath as error:
            return PartRows(first, part.end, tuple(chunks), error, rest)
        return PartRows(first, end, tuple(chunks), rest=rest)

    def rest(self, part: SegmentPart, rows: PartRows) -> Iterator[pa.RecordBatch | JsonLines]:
        """Yield the rows of a part that were left, a few at a time, while they are taken.

        Raises:
            UnreadablePath: the file cannot be read; `rows` says so, too.
        """
        if rows.rest is None:
            return
        position, skip = rows.rest
        for batch in batches_of(part, self.options, start=position):
            yield from map(self.chunk, message_rows(batch, self.options, skip=skip))
            skip -= min(skip, int(wanted_records(batch, self.options.selection).sum()))

    def chunk(self, rows: pa.RecordBatch) -> pa.RecordBatch | JsonLines:
        """Give rows as they are wanted: Arrow, or written as JSON."""
        # The kernels have a text in memory several times: too often for one that comes alone.
        if self.options.as_json and (rows.num_rows > 1 or rows.nbytes <= BUDGET_BYTES):
            return json_lines(rows, self.options.columns)
        return rows.cast(SCHEMA)


def batches_of(part: SegmentPart, options: MessageOptions, *, start: int | None) -> Iterator[Batch]:
    """Read a part with all that message rows need.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    yield from judged(part, WHOLE_RECORDS, start=start, is_copy=options.is_copy)


def is_shown(batch: Batch, options: MessageOptions) -> bool:
    """Say whether an extent that is no record is a row."""
    is_wanted = options.fillers or batch.kind is Extent.GAP or bool(batch.code)
    return is_wanted and _touches(batch, options.selection)


def message_rows(
    batch: Batch,
    options: MessageOptions,
    wanted: Collection[str] = EVERYTHING,
    *,
    budget: Budget | None = None,
    skip: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield the public rows of a batch: all at once, but for bodies that are many bytes.

    Words that are few stand in dictionary columns; `cast(SCHEMA)` makes them plain.

    Args:
        batch: of a scan.
        options: which rows, and how.
        wanted: names of the columns of records; others are left out.
        budget: of bodies; rows from the first one on that it does not hold are left out.
        skip: records to leave out, from the first on.

    Raises:
        UnreadablePath: a body that is longer than the window cannot be read.
    """
    if batch.kind is not Extent.RECORD:
        if is_shown(batch, options):
            yield _other(batch)
        return
    mask = wanted_records(batch, options.selection)
    numbers = np.flatnonzero(mask)[skip:]
    if not numbers.size:
        return
    columns = batch.columns
    if numbers.size < batch.count:
        columns = np.ascontiguousarray(columns[:, numbers])
    parts: Iterable[Group] = (Group(columns, None),)
    if options.body.mode is not BodyMode.NONE and not _BODY.isdisjoint(wanted):
        parts = groups(batch, columns, options.body, budget)

    def filled(group: Group) -> pa.RecordBatch:
        made = message_columns(batch, group.columns, group.bodies, wanted)
        return arrow.batch(SCHEMA, made, group.columns.shape[1], wanted)

    yield from map(filled, parts)  # a loop's name would keep one group while the next is made


def missing_rows(part: SegmentPart, options: MessageOptions) -> pa.RecordBatch | None:
    """Give the row of a stretch of the log that no file is there for, with the file after it.

    Args:
        part: of a segment; only its first part tells of the hole before the segment.
        options: which rows.
    """
    length = part.segment.missing_before
    begin = part.segment.start - length
    if not length or not part.is_first or not _overlaps(begin, length, options.selection):
        return None
    known = {"physical_offset": begin, "size": length, "extent": "gap", "code": str(FS_GAP)}
    return pa.RecordBatch.from_pylist([known], SCHEMA)


def _other(batch: Batch) -> pa.RecordBatch:
    """Give the one row of what is no record; a name may place it past the last offset there is."""
    offset = batch.segment.start + batch.position
    known = {
        "physical_offset": offset if offset <= LARGEST_LONG else None,
        "size": batch.length,
        "segment": batch.segment.path,
        "position": batch.position,
        "extent": str(batch.kind),
        "code": batch.code,
    }
    return pa.RecordBatch.from_pylist([known], SCHEMA)


def damage_before(part: SegmentPart, options: MessageOptions) -> Iterator[Row]:
    """Give the row of what no file is there for before a part, for views of few records."""
    missing = missing_rows(part, options)
    if missing is not None:
        yield from missing.to_pylist()


def damage_of(batch: Batch, options: MessageOptions) -> Iterator[Row]:
    """Give the row of damage that is no record."""
    if batch.code and is_shown(batch, options):
        yield from _other(batch).to_pylist()


def damaged_record(batch: Batch, position: int) -> Row:
    """Give the row that says of a record that it is damaged."""
    return {
        "physical_offset": batch.segment.start + position,
        "segment": batch.segment.path,
        "extent": DEFECT,
        "code": str(batch.damage[position]),
    }


def _touches(batch: Batch, selection: Selection) -> bool:
    """Say whether an extent that is no record lies in the offsets that were asked for."""
    return _overlaps(batch.segment.start + batch.position, batch.length, selection)


def _overlaps(offset: int, length: int, selection: Selection) -> bool:
    start, end = selection.offsets
    return (end is None or offset < end) and (start is None or offset + length > start)
