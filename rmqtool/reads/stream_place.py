"""The place of a stream in a log, and whether the log still has what the place says.

A physical offset alone says nothing about what was read there: a broker that recovers cuts the log
and writes other records to the same offsets. So a place names records by what they are: physical
offset, store time and a CRC of their heads. The newest tells whether the log is still the same; of
the older ones, fewer and fewer the older they are, the newest that is still there tells up to where
the log is what was read.
Source: CommitLog#truncateDirtyFiles, CommitLog#deleteExpiredFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from zlib import crc32

from rmqtool.errors import StoreError, Trouble
from rmqtool.findings.registry_layout import FS_CHANGED, FS_GAP
from rmqtool.store.record_heads import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.findings.catalogue import Code
    from rmqtool.store.record_heads import LogReader, RecordHead
    from rmqtool.store.segment import MappedFiles

PLACE: Final = "physical_offset"  # all that a place of an earlier rmqtool has
LAST: Final = "last"
RECORDS: Final = "records"
LOSS: Final = "loss"
NEAREST: Final = 16  # bits: records less than 64 KiB apart are one in a place
FARTHEST: Final = 34  # bits: of the segment at the end of a place, records up to 16 GiB before it
SEGMENTS: Final = 8  # whose first records are in a place


class LossKind(enum.StrEnum):
    """What became of records."""

    EXPIRED = "expired"  # their files were deleted before they were read
    CUT = "cut"  # the log was cut, and perhaps written on, after they were read


class LogLoss(NamedTuple):
    """What a log no longer has."""

    kind: LossKind  # what became of it
    begin: int  # first physical offset that is missing, or may hold something else now
    end: int  # physical offset past it
    resume: int  # where the stream goes on

    @property
    def code(self) -> Code:
        """The finding code of its row."""
        return FS_GAP if self.kind is LossKind.EXPIRED else FS_CHANGED


class StreamLoss(StoreError):
    """A stream cannot go on without loss: the log no longer has what its place says.

    Attributes:
        loss: what is missing; None where there is no log at all.
    """

    def __init__(self, *, path: str, place: int, loss: LogLoss | None) -> None:
        super().__init__(path=path, reason=_reason(place, loss), trouble=Trouble.EXPLAINED)
        self.loss = loss


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far a stream has read."""

    physical_offset: int  # past the last extent that was read
    # physical offset of the record right before; None where that is not known
    last: int | None = None
    # identities of records before, by physical offset
    records: Mapping[int, str] = field(default_factory=dict)
    loss: LogLoss | None = None  # what was found missing when this place was made

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Read a place from Spark's checkpoint; one of an earlier rmqtool is an offset alone."""
        loss = given.get(LOSS)
        return cls(
            given[PLACE],
            given.get(LAST),
            {int(offset): identity for offset, identity in given.get(RECORDS, {}).items()},
            loss and LogLoss(LossKind(loss["kind"]), loss["begin"], loss["end"], loss["resume"]),
        )

    def given(self) -> dict[str, Any]:
        """Give it as Spark keeps it: numbers, texts and mappings."""
        fields: dict[str, Any] = {PLACE: self.physical_offset}
        if self.last is not None:
            fields[LAST] = self.last
        if self.records:
            fields[RECORDS] = {str(offset): self.records[offset] for offset in sorted(self.records)}
        if self.loss is not None:
            fields[LOSS] = {**self.loss._asdict(), "kind": str(self.loss.kind)}
        return fields


def identity(reader: LogReader, head: RecordHead) -> str:
    """Say what a record is: its store time, ms since 1970, and a CRC of its head.

    The head has the CRC of the body. Brokers change nothing of a record once it is written.
    """
    raw = reader.read_at(head.physical_offset, min(head.size, HEAD_BYTES))
    return f"{head.store_timestamp}:{crc32(raw):08x}"


def place_at(
    log: MappedFiles, reader: LogReader, end: int, last: int | None, before: StreamPlace, begin: int
) -> StreamPlace:
    """Give the place at the end of a batch.

    Args:
        log: its files.
        reader: of these files.
        end: physical offset where an extent ends.
        last: physical offset of the record right before it; None where that is not known.
        before: place before the batch, whose records up to `begin` are known.
        begin: physical offset where the batch begins.
    """
    records = {at: known for at, known in before.records.items() if log.start <= at < begin}
    heads = [reader.first_from(segment) for segment in log if begin <= segment.start < end][
        -SEGMENTS:
    ]
    segment = None if last is None else log.at(last)
    if segment is not None and last is not None:
        # Nothing old lies before the last record of a file, as it may past a blank.
        lowest = max(begin, segment.start)
        wanted = (last - (1 << bits) for bits in range(NEAREST, FARTHEST))
        heads += [
            reader.last_before(segment, offset - segment.start)
            for offset in wanted
            if offset > lowest
        ]
        heads.append(reader.head_at(last))
    for head in heads:
        if head is not None and head.end <= end:
            records[head.physical_offset] = identity(reader, head)
    return StreamPlace(end, last if last in records else None, _thinned(records, end))


def _thinned(records: Mapping[int, str], end: int) -> dict[int, str]:
    """Keep the oldest and the newest of those that lie about as far from the end."""
    oldest: dict[int, int] = {}
    newest: dict[int, int] = {}
    for at in sorted(records):
        bits = ((end - at) >> NEAREST).bit_length()
        oldest.setdefault(bits, at)
        newest[bits] = at
    return {at: records[at] for at in sorted({*oldest.values(), *newest.values()})}


def loss_of(
    place: StreamPlace, log: MappedFiles, reader: LogReader, *, log_end: int
) -> LogLoss | None:
    """Say what a log no longer has of what a place tells; None when it is all there.

    Args:
        place: of the stream.
        log: its files; there are some.
        reader: of these files.
        log_end: physical offset past the last record.
    """
    at = place.physical_offset
    if log.start > at:
        return LogLoss(LossKind.EXPIRED, at, log.start, log.start)
    if not place.records:
        is_there = log_end >= at or not at
        return None if is_there else LogLoss(LossKind.CUT, log_end, at, log_end)
    newest = max(place.records)
    head = _same(reader, newest, place.records)
    if head is None:
        kept = _newest_same(reader, place.records)
        resume = log.start if kept is None else kept.end
        return LogLoss(LossKind.CUT, resume, at, resume)
    # A blank, or damage, lay between them. A record there is one that nobody has read.
    is_apart = place.last == newest and head.end < at
    if is_apart and reader.head_at(head.end + log.entry_header) is not None:
        return LogLoss(LossKind.CUT, head.end, at, head.end)
    return None


def _newest_same(reader: LogReader, records: Mapping[int, str]) -> RecordHead | None:
    heads: Iterable[RecordHead | None] = (
        _same(reader, at, records) for at in sorted(records, reverse=True)
    )
    return next((head for head in heads if head is not None), None)


def _same(reader: LogReader, at: int, records: Mapping[int, str]) -> RecordHead | None:
    """Give the head of a record that is still the one that was read."""
    head = reader.head_at(at)
    return head if head is not None and identity(reader, head) == records[at] else None


def _reason(place: int, loss: LogLoss | None) -> str:
    if loss is None:
        return f"the stream has read up to physical offset {place}, and no commitlog is here now"
    size = f"{loss.end - loss.begin:,} bytes, physical offsets {loss.begin} to {loss.end}"
    if loss.kind is LossKind.EXPIRED:
        reason = (
            f"commitlog files were deleted before the stream had read them: {size}, are missing"
        )
    else:
        reason = (
            f"the commitlog was cut after the stream had read it. It differs in {size}: records "
            "there that the stream gave may be gone, and other ones may be in their place"
        )
    return (
        f"{reason}. To go on at {loss.resume}, with a row that says so, set failOnDataLoss to "
        f"false; or start again with another checkpoint and start={loss.resume}"
    )
