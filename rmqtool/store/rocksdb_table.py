"""Table files of RocksDB (`.sst`): every block and its CRC, without the library.

A scan by the library does not read filters and properties, nor the padding of the footer, and ends
at the first block that is damaged.
Source: table/format.h, table/block_based, table/meta_blocks.cc, RocksDB 8.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.store.crc32c import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import OpenFile, Place

FOOTER: Final = Struct("<B40sIQ")  # checksum type, two handles and padding, version, magic
MAGIC: Final = 0x88E241B785F4CFF7
CRC32C: Final = 1
NEWEST_VERSION: Final = 5  # that RocksDB 8.4 of RocketMQ 5.3 to 5.5 reads
INDEX_DELTA_VERSION: Final = 4  # from here on, handles in the index leave the length out
TRAILER: Final = Struct("<BI")  # compression, masked CRC
COMPRESSIONS: Final = {0: "none", 1: "snappy", 2: "zlib", 4: "lz4", 5: "lz4hc", 7: "zstd"}
LARGEST_BLOCK: Final = 1 << 28
MORE: Final = 128  # the bit of a varint that says that more bytes follow


class BlockHandle(NamedTuple):
    """Where a block lies.

    Attributes:
        position: its first byte.
        size: bytes, without the five of its trailer.
    """

    position: int
    size: int

    @property
    def end(self) -> int:
        """Past its trailer."""
        return self.position + self.size + TRAILER.size


class BlockProblem(NamedTuple):
    """A stretch of a table file that is damaged.

    Attributes:
        is_data: rows lie there, or nobody can tell.
        is_version: the engine of RocketMQ does not read it; its content is whole.
        position: first byte.
        length: bytes.
        what: what is wrong.
    """

    is_data: bool
    is_version: bool
    position: int
    length: int
    what: str


@dataclass(slots=True)
class TableContent:
    """What the check of a table file found.

    Attributes:
        blocks: how many were read.
        size: of the file, bytes.
        problems: what is damaged, in order.
        is_finished: the footer is there: the file was written to its end.
    """

    blocks: int = 0
    size: int = 0
    problems: list[BlockProblem] = field(default_factory=list)
    is_finished: bool = False

    def add(
        self, what: str, where: BlockHandle, *, is_data: bool, is_version: bool = False
    ) -> None:
        """Note damage."""
        length = where.end - where.position
        self.problems.append(BlockProblem(is_data, is_version, where.position, length, what))


class BrokenBlock(ValueError):
    """A block that cannot be taken apart."""


def check_table(place: Place) -> TableContent:
    """Check the CRC of every block of a table file, and that blocks tile it.

    Raises:
        UnreadablePath: the file may not be read.
    """
    with place.open() as file:
        content = TableContent(size=file.size)
        footer = _footer(file, content)
        if footer is not None:
            _check_blocks(file, content, *footer)
    content.problems.sort(key=lambda one: one.position)
    return content


def _footer(file: OpenFile, content: TableContent) -> tuple[BlockHandle, BlockHandle, int] | None:
    """Give the handles of the metaindex and the index, and the format version."""
    where = BlockHandle(max(0, file.size - FOOTER.size), min(FOOTER.size, file.size) - TRAILER.size)
    raw = file.read_at(where.position, FOOTER.size)
    if len(raw) < FOOTER.size or FOOTER.unpack(raw)[3] != MAGIC:
        content.add("the file has no footer: it is cut off, or none", where, is_data=True)
        return None
    content.is_finished = True
    checksum, handles, version, _ = FOOTER.unpack(raw)
    if checksum != CRC32C or not 1 <= version <= NEWEST_VERSION:
        what = f"format version {version}, checksum type {checksum}"
        content.add(what, where, is_data=False, is_version=True)
        return None
    try:
        metaindex, position = _handle(handles, 0)
        index, position = _handle(handles, position)
    except IndexError:
        content.add("the footer cannot be read", where, is_data=True)
        return None
    if any(handles[position:]):
        content.add("the footer's padding is not zero", where, is_data=False)
    return metaindex, index, version


def _check_blocks(
    file: OpenFile, content: TableContent, metaindex: BlockHandle, index: BlockHandle, version: int
) -> None:
    seen = [metaindex, index]
    end = file.size - FOOTER.size
    for handle, name in _entries_of(file, content, metaindex, end, "metaindex", delta=False):
        if name == b"rocksdb.index":
            continue
        seen.append(handle)
        is_rows = name == b"rocksdb.range_del"
        _read_block(file, content, handle, end, name.decode("ascii", "replace"), is_data=is_rows)
    delta = version >= INDEX_DELTA_VERSION
    for handle, _ in _entries_of(file, content, index, end, "index", delta=delta):
        seen.append(handle)
        _read_block(file, content, handle, end, "data", is_data=True)
    seen.sort()
    position = 0
    for handle in [*seen, BlockHandle(end, 0)]:
        if handle.position != position and not content.problems:
            gap = BlockHandle(min(position, handle.position), abs(handle.position - position))
            content.add("blocks do not lie one after another", gap, is_data=True)
        position = handle.end


def _entries_of(
    file: OpenFile, content: TableContent, handle: BlockHandle, end: int, name: str, *, delta: bool
) -> list[tuple[BlockHandle, bytes]]:
    """Give the handles that the index or the metaindex holds; none where it is damaged."""
    raw = _read_block(file, content, handle, end, name, is_data=name == "index")
    if raw is None:
        return []
    try:
        return list(_handles(_decompressed(raw), delta=delta))
    except (BrokenBlock, IndexError) as error:
        content.add(f"the {name} block cannot be read: {error}", handle, is_data=True)
        return []


def _read_block(
    file: OpenFile,
    content: TableContent,
    handle: BlockHandle,
    end: int,
    name: str,
    *,
    is_data: bool,
) -> bytes | None:
    """Give a block with its trailer; None, and a problem, where its CRC differs."""
    content.blocks += 1
    if not 0 <= handle.position < handle.end <= end or handle.size > LARGEST_BLOCK:
        where = BlockHandle(min(handle.position, end), 0)
        content.add(f"the {name} block lies outside of the file", where, is_data=is_data)
        return None
    raw = file.read_at(handle.position, handle.size + TRAILER.size)
    if len(raw) < handle.size + TRAILER.size:
        content.add(f"the {name} block is cut off", handle, is_data=is_data)
        return None
    compression, stored = TRAILER.unpack_from(raw, handle.size)
    if masked_crc32c(raw[: handle.size + 1]) != stored:
        content.add(f"the CRC of the {name} block differs", handle, is_data=is_data)
        return None
    if compression not in COMPRESSIONS:
        what = f"the {name} block has compression {compression}"
        content.add(what, handle, is_data=is_data, is_version=True)
        return None
    return raw


def _handles(block: bytes, *, delta: bool) -> Iterator[tuple[BlockHandle, bytes]]:
    """Take an index apart: keys share beginnings, and handles continue the one before.

    Source: table/block_based/block.cc, IndexValue::EncodeTo.
    """
    restarts = int.from_bytes(block[-4:], "little") & 0x7FFFFFFF
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        reason = f"{restarts} restart points in {len(block)} bytes"
        raise BrokenBlock(reason)
    position, key, last = 0, b"", BlockHandle(0, 0)
    while position < end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length = 0
        if not delta:
            length, position = _varint(block, position)
        if shared > len(key) or position + own > end:
            reason = f"a key outside of the block at {position}"
            raise BrokenBlock(reason)
        key = key[:shared] + block[position : position + own]
        position += own
        if delta and shared:
            change, position = _varint(block, position)
            last = BlockHandle(last.end, last.size + ((change >> 1) ^ -(change & 1)))
        elif delta or length:
            start = position
            try:
                last, position = _handle(block, position)
            except IndexError:
                last = BlockHandle(0, -1)
            if not delta:
                position = start + length
        yield last, key


def _decompressed(raw: bytes) -> bytes:
    """Give the content of a block that is read with its trailer.

    Source: util/compression.h, compress_format_version 2: a varint32 of the length comes first.
    """
    compression, data = COMPRESSIONS[raw[-TRAILER.size]], raw[: -TRAILER.size]
    if compression == "none":
        return data
    length, position = _varint(data, 0)
    if length > LARGEST_BLOCK:
        reason = f"{length} bytes"
        raise BrokenBlock(reason)
    if compression in {"lz4", "lz4hc"}:
        import lz4.block

        try:
            return bytes(lz4.block.decompress(data[position:], uncompressed_size=length))
        except lz4.block.LZ4BlockError as error:
            raise BrokenBlock(str(error)) from error
    if compression == "zstd":
        import zstandard

        try:
            decompressor = zstandard.ZstdDecompressor()
            return bytes(decompressor.decompress(data[position:], max_output_size=length))
        except zstandard.ZstdError as error:
            raise BrokenBlock(str(error)) from error
    raise BrokenBlock(compression)


def _handle(raw: bytes, position: int) -> tuple[BlockHandle, int]:
    offset, position = _varint(raw, position)
    size, position = _varint(raw, position)
    return BlockHandle(offset, size), position


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < MORE:
            return value, position
        shift += 7
