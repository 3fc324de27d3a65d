"""From a scan to chunks: which records are wanted, and which are damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_commitlog import CL_CRC, CL_PROPCRC
from rmqtool.formats.message import MESSAGE_MAGIC_CODE
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.judge.reading import judged
from rmqtool.machine.arrays import is_in
from rmqtool.relog import waiting
from rmqtool.relog.chunk import Chunk, ChunkMaker, Gap, Reason
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.relog.waiting import Waiting
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart

    Bools: TypeAlias = npt.NDArray[np.bool_]

EVERYTHING: Final = Selection()
PART_BYTES: Final = 16 << 20
LEFT_OUT: Final = frozenset({CL_CRC, CL_PROPCRC})  # records with such damage are not taken
LARGEST_BYTE: Final = 127  # Java's are signed


@dataclass(frozen=True, slots=True)
class TakeOptions:
    """Which records of a source are taken. Picklable."""

    selection: Selection = EVERYTHING  # what was asked for
    host: bytes = b""  # address and port of the broker that they are to name; empty leaves them
    magic_code: int | None = None  # of the version that they are to have; None leaves it
    bridges: bool = False  # whether records that stand for lost bytes are taken, too
    # store time, ms: records stored until then are not taken; None takes all
    expired: int | None = None
    offsets: int = row.PHYSICAL_OFFSET  # row of the columns that says where a record lies
    waiting: Waiting = waiting.EVERYTHING  # which copies that brokers hold back are taken
    keys: bool = False  # whether unique keys are looked at
    copies: bool = True  # whether the bytes of records are wanted
    part_bytes: int = PART_BYTES  # of a source, that are in memory at a time

    def maker(self) -> ChunkMaker:
        """Give what collects the records."""
        return ChunkMaker(self.host, self.magic_code, keys=self.keys, copies=self.copies)

    @property
    def scan(self) -> ScanOptions:
        """What is read."""
        return ScanOptions(property_crc=True)


@dataclass(frozen=True, slots=True)
class TakeRecords:
    """The per-part function for logs: picklable, opens and closes the segment itself."""

    options: TakeOptions

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Chunk:
        """Give the records of a part, and what in it is not one."""
        maker = self.options.maker()
        # A hole of any length is one part.
        maker.reserve(min(part.length, self.options.part_bytes))
        first: int | None = None
        end, unread = part.end, None
        try:
            for batch in judged(part, self.options.scan, start=start):
                first = batch.position if first is None else first
                end = batch.end
                take(maker, batch, self.options)
        except UnreadablePath as error:
            end, unread = part.end, error
        chunk = maker.finish()
        chunk.first, chunk.end, chunk.unread = first, end, unread
        return chunk


def take(maker: ChunkMaker, batch: Batch, options: TakeOptions) -> None:
    """Put what a batch has into a chunk."""
    if batch.kind is Extent.RECORD:
        numbers = np.flatnonzero(_kept(maker, batch, options))
        if batch.damage:
            taken = set(batch.columns[row.POSITION, numbers].tolist()) & batch.damage.keys()
            codes = map(batch.damage.__getitem__, taken)
            maker.defects.update(str(code) for code in codes if code not in LEFT_OUT)
        maker.add(batch, numbers, offsets=options.offsets)
    elif batch.kind is Extent.FILLER:
        maker.blanks.append(batch.segment.start + batch.position)
        maker.defects.update([str(batch.code)] if batch.code else [])
    elif batch.kind is Extent.GAP or batch.code:
        code = str(batch.code or "")
        maker.gaps.append(Gap(batch.segment.path, batch.position, batch.length, code))


def _kept(maker: ChunkMaker, batch: Batch, options: TakeOptions) -> Bools:
    """Mark the records that are taken; count the others, each under one reason."""
    columns = batch.columns
    kept = np.ones(batch.count, np.bool_)
    if options.selection != EVERYTHING:
        wanted = wanted_records(batch, options.selection).astype(np.bool_)
        maker.left_out[Reason.FILTERED] += int((~wanted).sum())
        kept &= wanted
    crc = columns[row.BODY_CRC_FOUND]
    is_damaged = (columns[row.BODY_LENGTH] > 0) & (crc != columns[row.BODY_CRC])
    # A stored checksum of all of the record: its fields and properties are not as they were.
    stored = columns[row.PROPERTY_CRC]
    is_damaged |= (stored >= 0) & (stored != columns[row.PROPERTY_CRC_FOUND])
    maker.left_out[Reason.DAMAGED] += int((is_damaged & kept).sum())
    kept &= ~is_damaged
    if options.waiting is not waiting.EVERYTHING:
        is_done = options.waiting.is_done(batch) & kept
        maker.left_out[Reason.DONE] += int(is_done.sum())
        kept &= ~is_done
    is_expired = np.zeros(batch.count, np.bool_)
    if options.expired is not None:
        is_expired = columns[row.STORE_TIMESTAMP] <= options.expired
    numbers = [n for n in range(len(batch.topics)) if batch.topics[n] == BRIDGE_TOPIC]
    if numbers:
        is_bridge = is_in(columns[row.TOPIC_NUMBER], np.array(numbers, np.int64)) & kept
        is_bridge &= is_expired | (not options.bridges)
        maker.left_out[Reason.BRIDGE] += int(is_bridge.sum())
        kept &= ~is_bridge
    maker.left_out[Reason.EXPIRED] += int((is_expired & kept).sum())
    kept &= ~is_expired
    if options.magic_code == MESSAGE_MAGIC_CODE:
        is_long = (columns[row.TOPIC_LENGTH] > LARGEST_BYTE) & kept
        maker.left_out[Reason.LONG_TOPIC] += int(is_long.sum())
        kept &= ~is_long
    return kept
