"""What records are read from: logs of stores, and files of records (`.rmq`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError, NotAStore, UnreadablePath
from rmqtool.findings.registry_commitlog import CL_MAGIC
from rmqtool.findings.registry_layout import FS_GAP, FS_LEN
from rmqtool.formats.message import (
    BLANK,
    MESSAGE_MAGIC_BYTES,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    decode,
)
from rmqtool.judge.foreign import refuse_foreign
from rmqtool.relog.chunk import Gap
from rmqtool.relog.take import TakeOptions, TakeRecords, take
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Batch, Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.scan.message import scan
from rmqtool.store.address import place_of
from rmqtool.store.entry import EntryKind
from rmqtool.store.parts import parts
from rmqtool.store.segment import Segment, SegmentPart
from rmqtool.store.tree import Store, open_store
from rmqtool.store.used import last_used_start, marked_followed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.relog.chunk import Chunk
    from rmqtool.store.place import OpenFile

RECORDS: Final = ".rmq"
LARGEST_RECORD: Final = 1 << 30
_STEP: Final = 1 << 20
_MAGIC_AT: Final = MESSAGE_PREFIX.positions["magic_code"]


@dataclass(frozen=True)
class LogSource:
    """One source."""

    path: str  # as it was given
    store: Store | None  # None for a file of records
    segments: tuple[Segment, ...]  # files to read, in order

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(segment.size for segment in self.segments)

    @cached_property
    def end(self) -> int:
        """Physical offset past all of its records, as far as it can be read."""
        if self.store is not None:
            return max(segment.end for segment in self.segments)
        end = 0
        heads = ScanOptions(body_crc=False, texts=False)
        for batch in _batches(self.segments[0], heads):
            if isinstance(batch, Batch):
                fields = batch.columns[row.PHYSICAL_OFFSET_FIELD] + batch.columns[row.SIZE]
                end = max(end, int(fields.max()))
        return end

    def chunks(
        self, options: TakeOptions, advance: Callable[[int], None], jobs: int | None
    ) -> Iterator[Chunk]:
        """Yield the records, in the order of the source.

        Args:
            options: which records.
            advance: takes the bytes that were read since it was last called.
            jobs: threads.
        """
        if self.store is None:
            yield from _of_file(self.segments[0], options, advance)
            return
        yield self._missing(options)
        cut = parts(self.segments, options.part_bytes)
        for part, chunk in run_joined(TakeRecords(options), cut, jobs=jobs):
            advance(part.length)
            yield chunk

    def _missing(self, options: TakeOptions) -> Chunk:
        """Give what no file is there for; what a file is too short by, who reads it says."""
        maker = options.maker()
        for segment in self.segments:
            directory = segment.path.rpartition("/")[0]
            if length := segment.missing_before:
                path = f"{directory}/{segment.start - length:020}"
                maker.gaps.append(Gap(path, 0, length, str(FS_GAP)))
            if not segment.size and segment.missing_after:
                maker.gaps.append(Gap(segment.path, 0, segment.missing_after, str(FS_LEN)))
        return maker.finish()


def source_of(path: str, broker_conf: str | None) -> LogSource:
    """Open a source. Raises StoreError, RepairError: it is none, or another broker's in part."""
    place = place_of(path)
    if path.endswith(RECORDS):
        entry = place.stat()
        if entry is not None and entry.kind is EntryKind.FILE:
            segment = Segment(place, path, 0, entry.size, entry.mtime_ms, entry.allocated)
            return LogSource(path, None, (segment,))
    store = open_store(place, broker_conf)
    old, log = store.old_commitlog.segments, store.commitlog.segments
    if not old and not log:
        raise NotAStore(path=path, reason="has no commitlog to take records from")
    refuse_foreign(log)
    if store.moment.is_live:  # a file may be read before its end is written, and the next one later
        last = last_used_start(log)
        log = tuple(segment for segment in log if segment.start <= last)
    return LogSource(path, store, (*marked_followed(old), *marked_followed(log)))


def _of_file(
    segment: Segment, options: TakeOptions, advance: Callable[[int], None]
) -> Iterator[Chunk]:
    """Yield the records of a file of records; what is not one has the number that it would have."""
    options = replace(options, offsets=row.PHYSICAL_OFFSET_FIELD)
    maker = options.maker()
    number = 1
    for piece in _batches(segment, options.scan):
        if isinstance(piece, Gap):
            maker.gaps.append(replace(piece, number=number))
            number += 1
        else:
            take(maker, piece, options)
            number += piece.count
        advance(piece.length)
        if maker.size >= options.part_bytes:
            yield maker.finish()
    yield maker.finish()


def _batches(segment: Segment, options: ScanOptions) -> Iterator[Batch | Gap]:
    """Tile a file of records, whose places are not those that they state."""
    position: int | None = 0
    while position is not None and position < segment.size:
        start, position = position, None
        for batch in scan(SegmentPart(segment, 0, segment.size), options, start=start):
            if batch.kind is not Extent.RECORD:
                position = _after(segment, batch.position)
                end = segment.size if position is None else position
                code = str(batch.code or CL_MAGIC)
                yield Gap(segment.path, batch.position, end - batch.position, code)
                break
            yield batch


def _after(segment: Segment, position: int) -> int | None:
    """Find the next record past something that is not one; None where nothing follows."""
    with segment.open() as file:
        size = _size_at(file, position)
        if SMALLEST_RECORD <= size <= LARGEST_RECORD and _is_record(file, position + size):
            return position + size
        begin = position + 1
        while begin + BLANK.size < file.size:
            raw = file.read_at(begin, _STEP)
            for start in sorted(_magics(raw)):
                start_at = begin + start - _MAGIC_AT
                if start_at > position and _is_record(file, start_at):
                    return start_at
            begin += _STEP - len(MESSAGE_MAGIC_BYTES[0]) + 1
    return None


def _magics(raw: bytes) -> Iterator[int]:
    for magic in MESSAGE_MAGIC_BYTES:
        position = raw.find(magic)
        while position >= 0:
            yield position
            position = raw.find(magic, position + 1)


def _size_at(file: OpenFile, position: int) -> int:
    """Give the size that a record here states; 0 where the file has ended."""
    raw = file.read_at(position, BLANK.size)
    return BLANK["total_size"].of(raw) if len(raw) == BLANK.size else 0


def _is_record(file: OpenFile, position: int) -> bool:
    """Tell whether a record with lengths that agree lies here."""
    size = _size_at(file, position)
    if not SMALLEST_RECORD <= size <= min(LARGEST_RECORD, file.size - position):
        return False
    try:
        decode(file.read_at(position, size))
    except (DecodeError, UnreadablePath):
        return False
    return True
