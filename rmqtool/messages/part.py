"""The messages of one part of a log, as the bytes of the file that is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.broker import names
from rmqtool.errors import UnreadablePath
from rmqtool.findings.in_rows import tells_of_damage
from rmqtool.formats import properties
from rmqtool.formats.compression import DEFAULT_CEILING_BYTES
from rmqtool.messages.choice import Choice, chosen
from rmqtool.messages.options import ExtractFormat
from rmqtool.messages.sent import SENT
from rmqtool.messages.tables import batch_of
from rmqtool.render.values import json_line
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.tables import arrow
from rmqtool.tables.bodies import BUDGET_BYTES
from rmqtool.tables.body_groups import Group, groups
from rmqtool.tables.inner_batch import batch_records, messages_of
from rmqtool.tables.json_lines import json_lines
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import (
    WHOLE_RECORDS,
    MessageOptions,
    batches_of,
    is_shown,
    missing_rows,
)
from rmqtool.tables.record_columns import RecordColumns, message_columns
from rmqtool.tables.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.messages.wanted import Wanted
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]

_RETRIED: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX)
_PIECE_BYTES: Final = 4 << 20  # of a record that is too long for a window


@dataclass(slots=True)
class PartMessages:
    """What one part of a log gave."""

    first: int | None = None  # position at which its first extent begins; None when it has none
    end: int = 0  # position past the last extent, in this part or later
    # bytes for the file; of Parquet there are `tables` instead
    chunks: list[bytes | memoryview] = field(default_factory=list)
    tables: list[pa.RecordBatch] = field(default_factory=list)  # rows for the file
    messages: int = 0  # how many are in them
    records: int = 0  # records of the log that they are of
    undecoded: int = 0  # messages that a decoder did not decode
    damaged: int = 0  # messages whose body is not what was sent
    gaps: list[int] = field(default_factory=list)  # lengths of stretches that hold no record
    torn: list[int] = field(default_factory=list)  # likewise, of a tail: no damage
    delivered: int = 0  # delayed copies that were left out
    held: int = 0  # half messages and timer copies that were left out
    repeated: int = 0  # copies of retried and dead messages that were left out
    unknown_copies: int = 0  # retried messages that were written, and may be copies
    own: int = 0  # records of brokers' own topics
    bridges: int = 0  # records that a repair has put over damage
    # queues that the group has no offset for
    without_offset: set[tuple[str, int]] = field(default_factory=set)
    unread: UnreadablePath | None = None  # why the rest of the part could not be read
    # the file, when a running broker deleted it while it was read
    expired: set[str] = field(default_factory=set)
    # position from where on the messages are yet to be given; None when none are
    rest: int | None = None

    @property
    def weight(self) -> int:
        """Bytes for the file."""
        return sum(map(len, self.chunks)) + sum(int(table.nbytes) for table in self.tables)

    def judge_expired(self, store: Store, part: SegmentPart) -> None:
        """Take a file that a running broker has deleted for expired, not for unread."""
        path = part.segment.path
        if self.unread is not None and store.moment.is_gone(path, self.unread):
            self.unread, self.expired = None, {path}

    def add(self, piece: PartMessages) -> None:
        """Take what a piece of the part gave, after all before it."""
        self.chunks += piece.chunks
        self.tables += piece.tables
        self.messages += piece.messages
        self.records += piece.records
        self.damaged += piece.damaged
        self.undecoded += piece.undecoded
        self.gaps += piece.gaps
        self.torn += piece.torn
        self.delivered += piece.delivered
        self.held += piece.held
        self.repeated += piece.repeated
        self.unknown_copies += piece.unknown_copies
        self.own += piece.own
        self.bridges += piece.bridges
        self.without_offset |= piece.without_offset


@dataclass(frozen=True, slots=True)
class MessagesSent:
    """The per-part function: picklable, opens and closes the segment itself."""

    store: str  # as the user named it
    options: MessageOptions  # which records, and how bodies are written
    wanted: Wanted  # which messages
    format: ExtractFormat  # of the file
    columns: tuple[str, ...]  # of a line

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> PartMessages:
        """Read one part; of what is written, as much as the budget holds."""
        messages, weight = PartMessages(end=part.end), 0
        if missing_rows(part, self.options) is not None:
            messages.gaps.append(part.segment.missing_before)
        try:
            for batch in batches_of(part, self.options, start=start):
                messages.first = batch.position if messages.first is None else messages.first
                messages.end = batch.end
                if messages.rest is not None:
                    continue  # where the part ends is to be known, too
                some = self._within(batch) if weight <= self._most else None
                if some is None:
                    messages.rest = batch.position
                else:
                    messages.add(some)
                    weight += some.weight
        except UnreadablePath as error:
            messages.end, messages.unread = part.end, error
        return messages

    def rest(self, part: SegmentPart, messages: PartMessages) -> Iterator[PartMessages]:
        """Yield what the budget did not hold, piece by piece, while it is taken."""
        if messages.rest is None:
            return
        try:
            for batch in batches_of(part, self.options, start=messages.rest):
                yield from self._pieces(batch)
        except UnreadablePath as error:
            yield PartMessages(unread=error)

    def assisted(self, store: Store, part: SegmentPart) -> Iterator[PartMessages] | None:
        """Give what is wanted of a segment by queues and index; None where all has to be read."""
        from rmqtool.tables.assisted import assisted_batches

        batches = assisted_batches(store, part, self.options, WHOLE_RECORDS)
        return None if batches is None else self._assisted(part, batches)

    def _assisted(self, part: SegmentPart, batches: Iterator[Batch]) -> Iterator[PartMessages]:
        if missing_rows(part, self.options) is not None:
            yield PartMessages(gaps=[part.segment.missing_before])
        try:
            for batch in batches:
                yield from self._pieces(batch)
        except UnreadablePath as error:
            yield PartMessages(unread=error)

    @property
    def _most(self) -> float:
        """Bytes for the file from which on a part gives no more: a log of few may be many there."""
        return math.inf if self.format is ExtractFormat.RMQ else BUDGET_BYTES

    def _within(self, batch: Batch) -> PartMessages | None:
        """Give the messages of a batch; None where the last piece is not all that is too much."""
        messages, weight = PartMessages(), 0
        for piece in self._pieces(batch):
            if weight > self._most:
                return None
            messages.add(piece)
            weight += piece.weight
        return messages

    def _pieces(self, batch: Batch) -> Iterator[PartMessages]:
        """Give the messages of a batch, in the order of the log, or the gap that it is."""
        if batch.kind is not Extent.RECORD:
            if is_shown(batch, self.options):
                is_damage = not batch.code or tells_of_damage(batch.code)
                lengths = [batch.length]
                yield PartMessages(gaps=lengths) if is_damage else PartMessages(torn=lengths)
            return
        inner = batch_records(batch, self.options.selection)
        mask = wanted_records(batch, self.options.selection).astype(np.bool_)
        mask[inner] = False
        begin = 0
        for number in [*inner.tolist(), batch.count]:  # batch records stand among the others
            yield from self._records(batch, begin + np.flatnonzero(mask[begin:number]))
            if number < batch.count:
                messages = PartMessages()
                self._add_inner(batch, number, messages)
                yield messages
            begin = number

    def _records(self, batch: Batch, numbers: Int64s) -> Iterator[PartMessages]:
        if not numbers.size:
            return
        columns = _columns(batch.columns, numbers)
        choice = chosen(batch, columns, self.wanted)
        yield _left_out(choice)
        if not choice.numbers.size:
            return
        kept = _columns(columns, choice.numbers)
        if self.format is ExtractFormat.RMQ:
            codes = RecordColumns(batch, kept, None).code
            damaged = 0 if codes is None else int(_are_damaged(codes).sum())
            yield PartMessages(messages=kept.shape[1], records=kept.shape[1], damaged=damaged)
            for raw in _raw_records(batch, kept):
                yield PartMessages(chunks=[raw])
            return
        begin = 0
        for group in groups(batch, kept, self.options.body):
            end = begin + group.columns.shape[1]
            places: list[tuple[str, int] | None] = []
            if choice.sent_to:
                places += map(choice.sent_to.get, choice.numbers[begin:end].tolist())
            rows = self._rows(batch, group, places)
            has_error, has_bytes = (
                rows[name].is_valid().to_numpy(zero_copy_only=False)
                for name in ("body_error", "body_b64")
            )
            # What no decoder decodes is whole.
            is_hurt = _are_damaged(rows["code"]) | (has_error & ~has_bytes)
            is_table = self.format is ExtractFormat.PARQUET
            yield PartMessages(
                chunks=[] if is_table else [self._lines(rows)],
                tables=[rows] if is_table else [],
                messages=rows.num_rows,
                records=rows.num_rows,
                damaged=int(is_hurt.sum()),
                undecoded=int((has_error & has_bytes).sum()),
            )
            begin = end

    def _lines(self, rows: pa.RecordBatch) -> bytes | memoryview:
        # The kernels have a text in memory several times: too often for one that comes alone.
        if rows.num_rows > 1 or rows.nbytes <= BUDGET_BYTES:
            return memoryview(json_lines(rows, self.columns).text)
        (plain_row,) = arrow.plain_rows(rows)
        return json_line(plain_row, self.columns)

    def _rows(
        self, batch: Batch, group: Group, places: list[tuple[str, int] | None]
    ) -> pa.RecordBatch:
        """Give the rows of records.

        Args:
            batch: that they are of.
            group: the records with their bodies.
            places: where those were sent to that lie elsewhere; none where none does.
        """
        kept = group.columns
        fields = message_columns(batch, kept, group.bodies, frozenset(SENT.names))
        count = kept.shape[1]
        fields["store"] = arrow.constant(self.store, count)
        fields["stored_topic"] = fields["topic"]
        for name in ("queue_id", "queue_offset"):
            fields[f"stored_{name}"] = fields[name]
        topics = fields["topic"].dictionary.to_pylist()
        if any(places):
            moved = [
                (place or (topic, queue_id), None if place else offset)
                for place, topic, queue_id, offset in zip(
                    places,
                    fields["topic"].to_pylist(),
                    kept[row.QUEUE_ID].tolist(),
                    kept[row.QUEUE_OFFSET].tolist(),
                    strict=True,
                )
            ]
            fields["topic"] = pa.array([place[0] for place, _ in moved], pa.string())
            fields["queue_id"] = pa.array([place[1] for place, _ in moved], pa.int32())
            fields["queue_offset"] = pa.array([offset for _, offset in moved], pa.int64())
        if any(places) or any(topic.startswith(_RETRIED) for topic in topics):
            fields |= _origins(fields["topic"], fields["properties"])
        return arrow.batch(SENT.arrow, fields, count)

    def _add_inner(self, batch: Batch, number: int, messages: PartMessages) -> None:
        """Add the wanted messages of one batch record; of .rmq the record, if there are any."""
        columns = np.ascontiguousarray(batch.columns[:, number : number + 1])
        wanted = self._of_batch_record(batch, columns, messages)
        position, size = int(columns[row.POSITION, 0]), int(columns[row.SIZE, 0])
        with batch.segment.open() as file:
            raw = file.read_at(position, min(size, DEFAULT_CEILING_BYTES))
        if not wanted:
            return
        rows: list[dict[str, Any]] = []
        path, options = batch.segment.path, self.options
        for hit_row in messages_of(raw, path, position, options, SENT):
            fields: dict[str, Any] = dict(hit_row)
            if fields.get("extent") is not None:
                messages.damaged += 1
                continue
            offset = fields["queue_offset"]
            is_like = self.wanted.where is None or self.wanted.where.matches(
                fields["properties"] or {}
            )
            if is_like and self._is_in_range(offset) and self._is_unconsumed(fields, messages):
                places = {"stored_topic": fields["topic"], "stored_queue_id": fields["queue_id"]}
                where = {
                    "position": position,
                    "size": size,
                    "stored_queue_offset": offset - fields["number"],
                }
                rows.append({**fields, **places, **where, "store": self.store})
        if not rows:
            return
        messages.messages += len(rows)
        messages.records += 1
        code = batch.damage.get(position)  # no message in a batch has a checksum of its own
        is_hurt = code is not None and tells_of_damage(code)
        messages.damaged += len(rows) * is_hurt
        if self.format is ExtractFormat.RMQ:
            messages.chunks += _raw_records(batch, columns)
            return
        if code is not None:
            rows = [{**fields, "code": str(code)} for fields in rows]
        wrong = [row["body_b64"] is None for row in rows if row["body_error"] is not None]
        messages.damaged += 0 if is_hurt else sum(wrong)
        messages.undecoded += len(wrong) - sum(wrong)
        if self.format is ExtractFormat.PARQUET:
            messages.tables.append(batch_of(rows))
            return
        for fields in rows:
            messages.chunks.append(json_line(fields, self.columns))

    def _of_batch_record(self, batch: Batch, columns: Int64s, messages: PartMessages) -> bool:
        """Say whether the topic and the queue of a batch record are wanted."""
        outer = replace(self.wanted, unconsumed=None, queue_offsets=EVERYTHING, where=None)
        choice = chosen(batch, columns, outer)
        messages.add(_left_out(choice))
        return bool(choice.numbers.size)

    def _is_in_range(self, queue_offset: int) -> bool:
        start, end = self.wanted.queue_offsets
        return (start is None or queue_offset >= start) and (end is None or queue_offset < end)

    def _is_unconsumed(self, fields: dict[str, Any], messages: PartMessages) -> bool:
        if self.wanted.unconsumed is None:
            return True
        queue = fields["topic"], fields["queue_id"]
        if queue not in self.wanted.unconsumed.committed:
            messages.without_offset.add(queue)
        return self.wanted.unconsumed.is_wanted(queue, fields["queue_offset"])


def _columns(columns: Int64s, numbers: Int64s) -> Int64s:
    """Give some of the records, by different numbers in order; no copy of all."""
    return columns if len(numbers) == columns.shape[1] else columns.take(numbers, axis=1)


def _are_damaged(codes: pa.Array) -> npt.NDArray[np.bool_]:
    """Tell which rows are of damaged messages: bool, one a row."""
    if codes.null_count == len(codes):
        return np.zeros(len(codes), np.bool_)
    names = codes.to_pylist()
    return np.array([name is not None and tells_of_damage(name) for name in names], np.bool_)


def _left_out(choice: Choice) -> PartMessages:
    return PartMessages(
        delivered=choice.delivered,
        held=choice.held,
        repeated=choice.repeated,
        unknown_copies=choice.unknown_copies,
        own=choice.own,
        bridges=choice.bridges,
        without_offset=set(choice.without_offset),
    )


def _origins(topics: pa.Array, stored: pa.Array) -> dict[str, pa.Array]:
    """Give where retried and dead messages were first sent to; null for others."""
    pairs = [
        properties.origin(dict(pairs or ())) if str(topic).startswith(_RETRIED) else (None, None)
        for topic, pairs in zip(topics.to_pylist(), stored.to_pylist(), strict=True)
    ]
    return {
        "origin_topic": pa.array([topic for topic, _ in pairs], pa.string()),
        "origin_message_id": pa.array([identifier for _, identifier in pairs], pa.string()),
    }


def _raw_records(batch: Batch, columns: Int64s) -> Iterator[bytes]:
    """Give records as they are stored."""
    starts, sizes = columns[row.RECORD_START].tolist(), columns[row.SIZE].tolist()
    some: list[bytes] = []
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if columns[row.BODY_START, number] >= 0:
            some.append(batch.text(start, size))
            continue
        position = int(columns[row.POSITION, number])
        with batch.segment.open() as file:  # a record that is too long for a window
            for begin in range(0, size, _PIECE_BYTES):
                some.append(file.read_at(position + begin, min(_PIECE_BYTES, size - begin)))
                yield b"".join(some)
                some.clear()
    yield b"".join(some)
