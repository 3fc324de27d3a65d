"""RocksDB's log format: records in blocks of 32 KiB, of write-ahead logs and of the MANIFEST.

RocksDB's own reader drops what it cannot read without a word in some modes; this one says where
it begins.
Source: db/log_format.h, db/log_reader.cc, RocksDB 8.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from rmqtool.store.crc32c import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.store.place import OpenFile, Place

BLOCK_BYTES: Final = 32768
HEADER: Final = Struct("<IHB")  # masked CRC, length, type
LOG_NUMBER_BYTES: Final = 4  # more in a header of a recycled log
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
RECYCLED: Final = {5: FULL, 6: FIRST, 7: MIDDLE, 8: LAST}
RECYCLED_TIMESTAMPS: Final = 11  # sizes of user timestamps, as 10; 9 is the compression
OTHER_TYPES: Final = frozenset({9, 10, RECYCLED_TIMESTAMPS})
BATCH_HEAD: Final = Struct("<QI")  # sequence number, writes in the batch


@dataclass(slots=True)
class LogContent:
    """What a log holds."""

    records: int = 0  # how many can be read, up to the damage
    end: int = 0  # position past the last one of them
    size: int = 0  # of the file, bytes
    problem: str = ""  # why reading ended before the file; empty where only zeros follow
    later: int = 0  # records that can be read past the damage, from the next block on


def read_log(place: Place, take: Callable[[int, bytes], None]) -> LogContent:
    """Read a log, and find out where it is damaged.

    Args:
        place: of the log.
        take: gets position and bytes of each record up to the damage.

    Raises:
        UnreadablePath: the file may not be read.
    """
    content = LogContent()
    with place.open() as file:
        content.size = file.size
        parts: list[bytes] = []
        begin = 0
        for block in _blocks(file):
            for position, kind, payload, broken in _fragments(file.read_at(block, BLOCK_BYTES)):
                problem = broken or _misplaced(kind, parts)
                if problem:
                    content.problem = content.problem or problem
                    parts.clear()
                    break
                if not parts:
                    begin = block + position
                parts.append(payload)
                if kind in {FULL, LAST}:
                    if content.problem:
                        content.later += 1
                    else:
                        take(begin, b"".join(parts))
                        content.records += 1
                        content.end = block + position + HEADER.size + len(payload)
                    parts.clear()
        if parts and not content.problem:
            content.problem = "the last record is cut off"
    return content


def _blocks(file: OpenFile) -> Iterator[int]:
    """Yield where the blocks begin, but for those in a hole: a terabyte of zeros costs nothing."""
    position: int | None = 0
    while position is not None and position < file.size:
        block = position - position % BLOCK_BYTES
        yield block
        position = file.next_data(block + BLOCK_BYTES)


def writes_in(batch: bytes) -> int:
    """Count the writes in a record of a write-ahead log."""
    return int(BATCH_HEAD.unpack_from(batch)[1]) if len(batch) >= BATCH_HEAD.size else 0


def _misplaced(kind: int, parts: list[bytes]) -> str:
    """Say what is wrong with the order of the parts of a record."""
    if kind in {MIDDLE, LAST} and not parts:
        return "a record's first part is missing"
    if kind in {FULL, FIRST} and parts:
        return "a record's last part is missing"
    return ""


def _fragments(block: bytes) -> Iterator[tuple[int, int, bytes, str]]:
    """Take one block apart: position, type, bytes, and what is wrong, which ends the block."""
    position = 0
    while position + HEADER.size <= len(block):
        stored, length, kind = HEADER.unpack_from(block, position)
        if not any(block[position:]):
            return  # space that was allocated in advance
        start = position + HEADER.size
        if kind in RECYCLED or kind == RECYCLED_TIMESTAMPS:
            start += LOG_NUMBER_BYTES
        end = start + length
        if end > len(block):
            yield position, 0, b"", f"a record of {length:,} bytes is cut off"
            return
        kind = RECYCLED.get(kind, kind)
        if not FULL <= kind <= LAST and kind not in OTHER_TYPES:
            yield position, 0, b"", f"a record of unknown type {kind}"
            return
        if masked_crc32c(block[position + HEADER.size - 1 : end]) != stored:
            yield position, 0, b"", "the CRC of a record differs"
            return
        if kind not in OTHER_TYPES:
            yield position, kind, block[start:end], ""
        position = end
    if any(block[position:]):
        yield position, 0, b"", "a record's head is cut off"
