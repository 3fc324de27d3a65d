"""Blocks of RocksDB's table files, once they are read: what compresses them, and what is in them.

Source: table/format.h, table/block_based/block.cc, util/compression.h, RocksDB 8.4.
"""

from __future__ import annotations

import threading
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.budget import ParseBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zstandard import ZstdDecompressor

TRAILER: Final = Struct("<BI")  # compression, masked CRC
COMPRESSIONS: Final = {0: "none", 1: "snappy", 2: "zlib", 4: "lz4", 5: "lz4hc", 7: "zstd"}
LARGEST_BLOCK: Final = 1 << 28
MOST_BITS: Final = 70  # of a number of 64, seven in each byte
MORE: Final = 128  # the bit of a varint that says that more bytes follow
SEQUENCE_BYTES: Final = 8  # of a key as RocksDB keeps it: past that of the user
KEY_STEPS: Final = 20  # see `budget`; and one for each byte: a key of a MiB may take four to say
FREE_STEPS: Final = 4 << 20
RESTARTS: Final = 0x7FFFFFFF  # of the last four bytes; the other bit tells of a hash table

_OF_THREAD: Final = threading.local()


class BrokenBlock(ValueError):
    """A block that cannot be taken apart."""


class BlockHandle(NamedTuple):
    """Where a block lies."""

    position: int  # its first byte
    size: int  # bytes, without the five of its trailer

    @property
    def end(self) -> int:
        """Past its trailer."""
        return self.position + self.size + TRAILER.size


def budget_of_keys(file_bytes: int) -> ParseBudget:
    """Give what the keys in the index, or the names in the properties, of a table may cost."""
    return ParseBudget("its keys", file_bytes, FREE_STEPS)


def handles_of(
    block: bytes, budget: ParseBudget, *, delta: bool
) -> Iterator[tuple[BlockHandle, bytes]]:
    """Take an index apart: keys share beginnings, and handles continue the one before.

    Raises:
        BrokenBlock: it cannot be taken apart.
        OverBudget: its keys are too long, all together.

    Source: table/block_based/block.cc, IndexValue::EncodeTo.
    """
    restarts = int.from_bytes(block[-4:], "little") & RESTARTS
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        reason = f"{restarts:,} restart points in {len(block):,} bytes"
        raise BrokenBlock(reason)
    position, key, last = 0, b"", BlockHandle(0, 0)
    while position < end:
        shared, position = varint_at(block, position)
        own, position = varint_at(block, position)
        length = 0
        if not delta:
            length, position = varint_at(block, position)
        if shared > len(key) or position + own > end:
            reason = f"a key outside of the block at {position}"
            raise BrokenBlock(reason)
        budget.spend(KEY_STEPS + shared + own)
        key = key[:shared] + block[position : position + own]
        position += own
        if delta and shared:
            change, position = varint_at(block, position)
            last = BlockHandle(last.end, last.size + ((change >> 1) ^ -(change & 1)))
        elif delta or length:
            start = position
            try:
                last, position = handle_at(block, position)
            except (IndexError, BrokenBlock):
                last = BlockHandle(0, -1)
            if not delta:
                position = start + length
        yield last, key


def pairs_of(block: bytes, budget: ParseBudget) -> Iterator[tuple[bytes, bytes]]:
    """Take a block of names and values apart; names share beginnings. Raises: see `handles_of`."""
    end = len(block) - 4 * ((int.from_bytes(block[-4:], "little") & RESTARTS) + 1)
    position, key = 0, b""
    while position < end:
        shared, position = varint_at(block, position)
        own, position = varint_at(block, position)
        length, position = varint_at(block, position)
        if shared > len(key) or position + own + length > end:
            reason = f"a name outside of the block at {position}"
            raise BrokenBlock(reason)
        budget.spend(KEY_STEPS + shared + own)
        key = key[:shared] + block[position : position + own]
        position += own + length
        yield key, block[position - length : position]


def decompressed(raw: bytes, most: int) -> bytes:
    """Give the content of a block that is read with its trailer.

    Source: util/compression.h, compress_format_version 2: a varint32 of the length comes first.

    Args:
        raw: the block.
        most: bytes of it; a stranger packs a GiB into a MiB.

    Raises:
        BrokenBlock: it cannot be decompressed, or is larger.
        IndexError: it is shorter than its own head.
    """
    compression, data = COMPRESSIONS[raw[-TRAILER.size]], raw[: -TRAILER.size]
    is_plain = compression == "none"
    length, position = (len(data), 0) if is_plain else varint_at(data, 0)
    if length > most:
        reason = f"{length:,} bytes; at most {most:,} are read"
        raise BrokenBlock(reason)
    if is_plain:
        return data
    if compression in {"lz4", "lz4hc"}:
        import lz4.block

        try:
            return bytes(lz4.block.decompress(data[position:], uncompressed_size=length))
        except lz4.block.LZ4BlockError as error:
            raise BrokenBlock(str(error)) from error
    if compression == "zstd":
        import zstandard

        frame = data[position:]
        try:
            if zstandard.frame_content_size(frame) > length:
                reason = f"more than the {length:,} bytes that it says"
                raise BrokenBlock(reason)
            return bytes(_zstd().decompress(frame, max_output_size=length))
        except zstandard.ZstdError as error:
            raise BrokenBlock(str(error)) from error
    raise BrokenBlock(compression)


def _zstd() -> ZstdDecompressor:
    """Give the decompressor of this thread: to make one takes longer than most blocks."""
    if not hasattr(_OF_THREAD, "zstd"):
        import zstandard

        _OF_THREAD.zstd = zstandard.ZstdDecompressor()
    decompressor: ZstdDecompressor = _OF_THREAD.zstd
    return decompressor


def handle_at(raw: bytes, position: int) -> tuple[BlockHandle, int]:
    """Read the place of a block; give the position past it, too. IndexError where it is cut off."""
    offset, position = varint_at(raw, position)
    size, position = varint_at(raw, position)
    return BlockHandle(offset, size), position


def varint_at(raw: bytes, position: int) -> tuple[int, int]:
    """Read a number of 7 bits a byte; give the position past it, too.

    Raises:
        IndexError: it is cut off.
        BrokenBlock: it has more bits than any: to shift them takes time with the square of them.
    """
    value = 0
    for shift in range(0, MOST_BITS, 7):
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < MORE:
            return value, position
    reason = f"a number of more than {MOST_BITS} bits at {position}"
    raise BrokenBlock(reason)
