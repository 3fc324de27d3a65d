"""A hash of what a log holds, whatever the length of its files: replicas have the same one.

Each record is hashed without the fields that say where it or its half message lies, and without
the checksum of these. The sum of all of them, modulo 2**256, does not depend on their order: a
log whose records were written anew elsewhere, byte for byte otherwise, has the same hash.
RocketMQ's own `calcDeltaChecksum` of 5.x is something else: it has the places in it, and a limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.findings.in_rows import tells_of_damage
from rmqtool.formats import properties
from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.scan.join import run_joined
from rmqtool.store.artefact import ArtefactKind
from rmqtool.table import Column, Table, Type
from rmqtool.tables.inputs import whole_parts
from rmqtool.tables.messages import PART_BYTES, MessageOptions, batches_of, missing_rows
from rmqtool.tables.selection import Selection
from rmqtool.tables.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

HASH: Final = Table(
    "hash",
    "hash of the content of a log",
    (
        Column("begin", Type.INT64, "physical offset of the first record", "bytes"),
        Column("end", Type.INT64, "physical offset past the last record", "bytes"),
        Column("records", Type.INT64, "records that were hashed", "records"),
        Column("gaps", Type.INT64, "stretches that hold no sound record, bridges among them"),
        Column("sha256_sum", Type.TEXT, "sum of the SHA-256 of each record, 64 hex digits"),
    ),
    whole=("sha256_sum",),
)
_MODULUS: Final = 1 << 256
_OFFSET: Final = MESSAGE_PREFIX.positions["physical_offset"]
_AFTER_OFFSET: Final = _OFFSET + MESSAGE_PREFIX["physical_offset"].size
_HALF_BYTES: Final = middle_of(0)["prepared_transaction_offset"].size
_CRC: Final = properties.CRC32.encode() + properties.NAME_VALUE_SEPARATOR
_CRC_LENGTH: Final = len(properties.crc_item(b""))
_LOGS: Final = (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER)


@dataclass(slots=True)
class ContentHash:
    """The hash of a part of a log, or of all of it."""

    first: int | None = None  # position at which the first extent of a part begins
    begin: int | None = None  # physical offset of the first record; None without one
    end: int | None = None  # physical offset past the last record
    records: int = 0  # that were hashed
    gaps: int = 0  # stretches that hold no sound record
    total: int = 0  # sum of the hashes
    unread: list[UnreadablePath] = field(default_factory=list)  # what could not be read

    @property
    def sha256_sum(self) -> str:
        """The hash as text."""
        return f"{self.total:064x}"

    def add(self, other: ContentHash) -> None:
        """Take the hash of a part that lies after this one."""
        self.begin = other.begin if self.begin is None else self.begin
        self.end = self.end if other.end is None else other.end
        self.records += other.records
        self.gaps += other.gaps
        self.total = (self.total + other.total) % _MODULUS
        self.unread += other.unread


@dataclass(frozen=True, slots=True)
class PartHash:
    """What one part of a log gave, to be joined."""

    first: int | None  # position at which its first extent begins; None when it has none
    end: int  # position past the last extent
    content: ContentHash  # of its records


@dataclass(frozen=True, slots=True)
class HashOf:
    """The per-part function: picklable, opens and closes the segment itself."""

    options: MessageOptions

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> PartHash:
        """Hash the records of one part."""
        hash_, first, end = ContentHash(), None, part.end
        begin_wanted, end_wanted = self.options.selection.offsets
        hash_.gaps += missing_rows(part, self.options) is not None
        try:
            for batch in batches_of(part, self.options, start=start):
                first = batch.position if first is None else first
                end = batch.end
                if batch.kind is Extent.RECORD:
                    _hash_batch(batch, begin_wanted or 0, end_wanted, hash_)
                elif batch.code and tells_of_damage(batch.code):
                    place = batch.segment.start + batch.position
                    hash_.gaps += end_wanted is None or place < end_wanted
        except UnreadablePath as error:
            hash_.unread.append(error)
            end = part.end
        return PartHash(first, end, hash_)


def content_hash(
    store: Store,
    offsets: tuple[int | None, int | None],
    *,
    jobs: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> ContentHash:
    """Hash the log of a store.

    What a running broker deleted meanwhile is no part of it.

    Args:
        store: with a log.
        offsets: physical offsets of records, from and to.
        jobs: threads; None is one for each processor.
        advance: takes the bytes that were read since it was last called.
    """
    hash_, read = ContentHash(), HashOf(MessageOptions(Selection(offsets=offsets)))
    for kind in _LOGS:
        if store.branches_of(kind):
            parts = whole_parts(store, VIEWS[str(kind)], offsets, PART_BYTES, read)
            for part, part_hash in run_joined(read, parts, jobs=jobs):
                advance(part.length)
                hash_.add(part_hash.content)
        hash_.unread = [
            error for error in hash_.unread if not store.moment.is_gone(error.path, error)
        ]
    return hash_


def _hash_batch(batch: Batch, begin: int, end: int | None, hash_: ContentHash) -> None:
    columns, total = batch.columns, 0
    bridges = [n for n in range(len(batch.topics)) if batch.topics[n] == BRIDGE_TOPIC]
    for number in range(batch.count):
        offset, size = int(columns[row.PHYSICAL_OFFSET, number]), int(columns[row.SIZE, number])
        if offset < begin or (end is not None and offset >= end):
            continue
        position = int(columns[row.POSITION, number])
        code = batch.damage.get(position)
        if code or int(columns[row.TOPIC_NUMBER, number]) in bridges:
            hash_.gaps += code is None or tells_of_damage(code)  # a torn tail is past the end
            continue
        total += _hash_of(_raw(batch, number, size), int(columns[row.SYS_FLAG, number]))
        hash_.records += 1
        hash_.begin = offset if hash_.begin is None else hash_.begin
        hash_.end = offset + size
    hash_.total = (hash_.total + total) % _MODULUS


def _raw(batch: Batch, number: int, size: int) -> memoryview:
    if int(batch.columns[row.BODY_START, number]) >= 0:
        start = int(batch.columns[row.RECORD_START, number])
        return memoryview(batch.text(start, size))
    with batch.segment.open() as file:  # a record that is too long for a window
        return memoryview(file.read_at(int(batch.columns[row.POSITION, number]), size))


def _hash_of(raw: memoryview, sys_flag: int) -> int:
    half = MESSAGE_PREFIX.size + middle_of(sys_flag).positions["prepared_transaction_offset"]
    end = len(raw)
    if raw[end - _CRC_LENGTH : end - _CRC_LENGTH + len(_CRC)] == _CRC:
        end -= _CRC_LENGTH
    digest = sha256(raw[:_OFFSET])
    digest.update(raw[_AFTER_OFFSET:half])
    digest.update(raw[half + _HALF_BYTES : end])
    return int(digest.hexdigest(), 16)
