"""Table files of RocksDB (`.sst`): every block and its CRC, without the library.

A scan by the library does not read filters and properties, nor the padding of the footer, and ends
at the first block that is damaged.
Source: table/format.h, table/block_based, table/meta_blocks.cc, RocksDB 8.4.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.budget import OverBudget
from rmqtool.store.rocksdb_blocks import (
    COMPRESSIONS,
    LARGEST_BLOCK,
    SEQUENCE_BYTES,
    TRAILER,
    BlockHandle,
    BrokenBlock,
    budget_of_keys,
    decompressed,
    handle_at,
    handles_of,
    pairs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.store.place import OpenFile, Place


FOOTER: Final = Struct("<B40sIQ")  # checksum type, two handles and padding, version, magic
MAGIC: Final = 0x88E241B785F4CFF7
CRC32C: Final = 1
NEWEST_VERSION: Final = 5  # that RocksDB 8.4 of RocketMQ 5.3 to 5.5 reads
INDEX_DELTA_VERSION: Final = 4  # from here on, handles in the index leave the length out
WINDOW_BYTES: Final = 256 << 10
LARGEST_INDEX: Final = 1 << 20  # bytes, and as many as the file has
LARGEST_PROPERTIES: Final = 1 << 20
PLAIN_BLOCKS: Final = (b"rocksdb.properties", b"rocksdb.index")  # and filters: no word about rows
FILTER: Final = b"filter."  # is in the name of each
PROPERTY: Final = b"rocksdb."
# Properties that a table must have, or not have at all, so that its index says where keys lie.
PLAIN_PROPERTIES: Final = {
    b"block.based.table.index.type": bytes(4),
    b"comparator": b"leveldb.BytewiseComparator",
    b"index.value.is.delta.encoded": b"\1",
    b"num.range-deletions": b"\0",
}
USER_KEYS: Final = b"index.key.is.user.key"


class BlockProblem(NamedTuple):
    """A stretch of a table file that is damaged."""

    is_data: bool  # rows lie there, or nobody can tell
    is_version: bool  # the engine of RocketMQ does not read it; its content is whole
    position: int  # first byte
    length: int  # bytes
    what: str  # what is wrong


@dataclass(slots=True)
class TableContent:
    """What the check of a table file found."""

    blocks: int = 0  # how many were read
    size: int = 0  # of the file, bytes
    problems: list[BlockProblem] = field(default_factory=list)  # what is damaged, in order
    is_finished: bool = False  # the footer is there: the file was written to its end

    def add(
        self, what: str, where: BlockHandle, *, is_data: bool, is_version: bool = False
    ) -> None:
        """Note damage."""
        length = where.end - where.position
        self.problems.append(BlockProblem(is_data, is_version, where.position, length, what))


class _ReadAhead:
    """Reads a file in windows, for blocks that lie one after another."""

    def __init__(self, file: OpenFile) -> None:
        self.size, self.stored, self._file = file.size, file.stored, file
        self._begin, self._window = 0, b""

    def read_at(self, position: int, length: int) -> bytes:
        """Read some bytes; fewer at the end of the file.

        Raises:
            UnreadablePath: the file may not be read.
        """
        at = position - self._begin
        if not 0 <= at <= at + length <= len(self._window):
            self._begin, at = position, 0
            self._window = self._file.read_at(position, max(length, WINDOW_BYTES))
        return self._window[at : at + length]


def check_table(place: Place) -> TableContent:
    """Check the CRC of every block of a table file, and that blocks tile it.

    Raises:
        UnreadablePath: the file may not be read.
    """
    with place.open() as opened:
        file = _ReadAhead(opened)
        content = TableContent(size=file.size)
        footer = _footer(file, content)
        if footer is not None:
            _check_blocks(file, content, *footer)
    content.problems.sort(key=lambda problem: problem.position)
    return content


def _footer(
    file: OpenFile | _ReadAhead, content: TableContent
) -> tuple[BlockHandle, BlockHandle, int] | None:
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
        metaindex, position = handle_at(handles, 0)
        index, position = handle_at(handles, position)
    except (IndexError, BrokenBlock):
        content.add("the footer cannot be read", where, is_data=True)
        return None
    if any(handles[position:]):
        content.add("the footer's padding is not zero", where, is_data=False)
    return metaindex, index, version


def _check_blocks(
    file: OpenFile | _ReadAhead,
    content: TableContent,
    metaindex: BlockHandle,
    index: BlockHandle,
    version: int,
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


class TableIndex(NamedTuple):
    """Where the rows of a table file lie."""

    # for each data block a key that no key of it, and every later one, is past
    separators: list[bytes]
    handles: list[BlockHandle]  # of the data blocks


def table_index(file: OpenFile) -> TableIndex | None:
    """Read the index of a table file; None where only the library knows its rows for sure.

    So it is where anything is damaged, with range deletions, dictionaries, and other kinds of
    index than brokers write.

    Raises:
        UnreadablePath: the file may not be read.
    """
    content = TableContent(size=file.size)
    footer = _footer(file, content)
    if footer is None or footer[2] < INDEX_DELTA_VERSION:
        return None
    metaindex, index, _ = footer
    end = file.size - FOOTER.size
    properties: dict[bytes, bytes] = {}
    for handle, name in _entries_of(file, content, metaindex, end, "metaindex", delta=False):
        if name not in PLAIN_BLOCKS and FILTER not in name:
            return None
        if name == PLAIN_BLOCKS[0]:
            properties = _properties(file, content, handle, end)
    for name, wanted in PLAIN_PROPERTIES.items():
        if properties.get(name, wanted) != wanted:
            return None
    entries = _entries_of(file, content, index, end, "index", delta=True)
    drop = 0 if properties.get(USER_KEYS) == b"\1" else SEQUENCE_BYTES
    separators = [key[: len(key) - drop] for _, key in entries]
    if content.problems or not properties or separators != sorted(separators):
        return None
    return TableIndex(separators, [handle for handle, _ in entries])


def _properties(
    file: OpenFile | _ReadAhead, content: TableContent, handle: BlockHandle, end: int
) -> dict[bytes, bytes]:
    """Give what a table file says of itself, by name without what all names begin with."""
    raw = _read_block(file, content, handle, end, "properties", is_data=False)
    if raw is None:
        return {}
    try:
        budget = budget_of_keys(file.stored)
        pairs = list(pairs_of(decompressed(raw, LARGEST_PROPERTIES), budget))
    except (BrokenBlock, IndexError, OverBudget) as error:
        content.add(f"the properties block cannot be read: {error}", handle, is_data=False)
        return {}
    return {key.removeprefix(PROPERTY): value for key, value in pairs}


def read_data_block(file: OpenFile, handle: BlockHandle, most: int) -> bytes:
    """Read a data block, and check its CRC.

    Args:
        file: the table.
        handle: of the block.
        most: bytes of it, once it is decompressed.

    Raises:
        BrokenBlock: its CRC differs, or it cannot be decompressed, or is larger.
        IndexError: it is shorter than its own head.
        UnreadablePath: the file may not be read.
    """
    content = TableContent(size=file.size)
    raw = _read_block(file, content, handle, file.size - FOOTER.size, "data", is_data=True)
    if raw is None:
        raise BrokenBlock(content.problems[0].what)
    return decompressed(raw, most)


def _entries_of(
    file: OpenFile | _ReadAhead,
    content: TableContent,
    handle: BlockHandle,
    end: int,
    name: str,
    *,
    delta: bool,
) -> list[tuple[BlockHandle, bytes]]:
    """Give the handles that the index or the metaindex holds; none where it is damaged."""
    raw = _read_block(file, content, handle, end, name, is_data=name == "index")
    if raw is None:
        return []
    try:
        block = decompressed(raw, LARGEST_INDEX + file.stored)
        parsed = handles_of(block, budget_of_keys(file.stored), delta=delta)
        most = file.stored // TRAILER.size  # each block has one
        handles = list(islice(parsed, most + 1))
    except (BrokenBlock, IndexError, OverBudget) as error:
        content.add(f"the {name} block cannot be read: {error}", handle, is_data=True)
        return []
    if len(handles) > most:
        content.add(f"the {name} block names more blocks than fit", handle, is_data=True)
        return []
    return handles


def _read_block(
    file: OpenFile | _ReadAhead,
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


# CRC-32C, which RocksDB keeps of each block of a table and of each record of its logs.
#
# isal's routine where its wheel exports it, else a table in Python, which is 1,000 times slower.


ROUTINE: Final = "crc32_iscsi"
POLYNOMIAL: Final = 0x82F63B78
ALL_BITS: Final = 0xFFFFFFFF
MASK_DELTA: Final = 0xA282EAD8  # util/crc32c.h: stored checksums are rotated and shifted by it


def crc32c(data: bytes, *, by_table: bool = False) -> int:
    """Give the CRC-32C of some bytes.

    Args:
        data: the bytes.
        by_table: do not take isal's routine, even if it is there.
    """
    routine = None if by_table else _routine()
    if routine is not None:
        return routine(data, len(data), ALL_BITS) ^ ALL_BITS
    value, table = ALL_BITS, _table()
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value ^ ALL_BITS


def masked_crc32c(data: bytes) -> int:
    """Give the CRC-32C of some bytes as RocksDB stores it.

    Source: util/crc32c.h Mask, RocksDB 8.4.
    """
    value = crc32c(data)
    return ((value >> 15 | value << 17) + MASK_DELTA) & ALL_BITS


@cache
def _routine() -> Callable[[bytes, int, int], int] | None:
    for module in ("isal.isal_zlib", "isal.igzip_lib"):
        try:
            spec = find_spec(module)
            crc_routine = getattr(ctypes.CDLL(spec.origin if spec else None), ROUTINE)
        except (ImportError, OSError, AttributeError):
            continue
        crc_routine.restype = ctypes.c_uint32
        crc_routine.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32]
        routine: Callable[[bytes, int, int], int] = crc_routine
        return routine
    return None


@cache
def _table() -> tuple[int, ...]:
    made = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (value & 1) * POLYNOMIAL
        made.append(value)
    return tuple(made)
