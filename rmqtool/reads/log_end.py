"""Where a log ends for who reads on from there later: where a record ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError
from rmqtool.formats.java import crc31
from rmqtool.formats.message import decode
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tail import find_tail

if TYPE_CHECKING:
    from rmqtool.store.segment import MappedFiles
    from rmqtool.store.tail import Tail
    from rmqtool.store.tree import Store

LARGEST_CHECKED: Final = 64 << 20  # bytes of a last record whose checksum is looked at


class End(NamedTuple):
    """Where an extent ends."""

    physical_offset: int  # past it
    last: int | None  # physical offset of the record before it; None where that is not known


def end_of(store: Store) -> End:
    """Give where the last record ends that is complete.

    A running broker may be in the middle of writing the last one: while its checksum is wrong, or
    its end is zero, it is left for the next batch. With a record after it, it is a row, and so it
    is when the broker has ended as it should: it took what recovery had left.
    """
    log = store.commitlog
    with LogReader(log) as reader:
        tail = find_tail(log, reader)
        if tail.last is None or has_ended(store) or is_complete(tail, reader):
            return End(tail.physical_offset, tail.last and tail.last.physical_offset)
        torn = tail.last.physical_offset
        segment = log.at(torn)
        before = reader.last_before(segment, torn - segment.start) if segment else None
    end = torn - log.entry_header
    is_next = before is not None and before.end == end
    return End(end, before.physical_offset if before is not None and is_next else None)


def has_ended(store: Store) -> bool:
    """Whether no broker writes the log: its lock is there and free, and it ended as it should.

    Of a log alone, without a lock beside it, nobody knows: it may be a copy that is being made.
    """
    has_lock = bool(store.branches_of(ArtefactKind.LOCK))
    return has_lock and store.abort is None and store.lock_held() is False


def is_complete(tail: Tail, reader: LogReader) -> bool:
    """Whether the last record is written to its end, or something lies after it."""
    last = tail.last
    if last is None or last.size > LARGEST_CHECKED:
        return True
    if tail.physical_offset > last.physical_offset + last.size:
        return True  # a blank: the broker has gone on to the next file
    raw = reader.read_at(last.physical_offset, last.size)
    try:
        message = decode(raw)
    except DecodeError:
        return False
    if message.properties_bytes.endswith(b"\0"):
        return False  # properties are text: what is not written yet is zero
    return not message.body or crc31(message.body) == message.body_crc


def border(store: Store, wanted: int, known: int | None = None) -> End:
    """Give the first physical offset at or past a wanted one where a record begins.

    Args:
        store: whose log.
        wanted: physical offset.
        known: one before it where a record begins.
    """
    log: MappedFiles = store.commitlog
    segment = log.at(wanted)
    if segment is None:
        return End(log.start if wanted < log.start else max(wanted, log.end), None)
    begin = max((known or 0) - segment.start, 0)
    return walked_end(SegmentPart(segment, begin, wanted - segment.start))


def walked_end(part: SegmentPart) -> End:
    """Give where the last extent ends that begins in a part."""
    options = ScanOptions(body_crc=False, texts=False)
    cursor, last = part.begin, None
    for batch in scan(part, options, start=part.begin):
        cursor = batch.end
        if batch.kind is Extent.RECORD:
            last = int(batch.columns[row.PHYSICAL_OFFSET][-1])
        elif batch.kind is not Extent.FILLER:
            last = None
    return End(part.segment.start + cursor, last)
