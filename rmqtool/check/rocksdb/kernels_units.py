"""The kernel that finds the units of one queue in a block of a RocksDB table, and compares them.

Entries of a block leave out what their key shares with the one before. A key ends with the
sequence number and the type of the write.
Source: table/block_based/block.cc, data_block_footer.cc, data_block_hash_index.h, db/dbformat.h,
RocksDB 8.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.rocksdb_queue import CQ_KEY_TAIL, ROCKSDB_CQ_UNIT
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.machine.intrinsics import load_i4, load_i8, load_u1
from rmqtool.store.rocksdb_blocks import MORE, SEQUENCE_BYTES

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

LARGEST_KEY: Final = 1 << 10  # that is looked at; a topic has 255 bytes at most
UNIT: Final = CQ_UNIT.size
VALUE: Final = ROCKSDB_CQ_UNIT.size
NUMBER: Final = CQ_KEY_TAIL["queue_offset"].size
AT_SIZE: Final = CQ_UNIT.positions["size"]
AT_TAGS_CODE: Final = CQ_UNIT.positions["tags_code"]
AT_TIME: Final = ROCKSDB_CQ_UNIT.positions["store_timestamp"]
PUT: Final = 1  # the type of a plain write
RESTART: Final = 4  # bytes of each restart point, and of their count
HASHED: Final = 1 << 31  # of their count: a hash table lies before it
BUCKETS: Final = 2  # bytes of the count of its buckets, of a byte each
VARINT: Final = 5  # bytes at most
LENGTHS: Final = 3  # varints that an entry begins with
DOUBT: Final = -1
BEFORE, QUEUE, PAST = range(3)


@inlined
def varint(block: UInt8s, position: int, end: int) -> tuple[int, int]:
    """Read a number of 7 bits a byte, and the position past it; DOUBT where it does not end."""
    value = 0
    for number in range(VARINT):
        if position >= end:
            return DOUBT, position
        byte = load_u1(block, position)
        position += 1
        value |= (byte & (MORE - 1)) << (7 * number)
        if byte < MORE:
            return value, position
    return DOUBT, position


@inlined
def lengths_at(block: UInt8s, position: int, end: int) -> tuple[int, int, int, int]:
    """Read what an entry begins with.

    Returns:
        Bytes that its key shares with the one before, own bytes of the key, bytes of the value,
        and where the key's own bytes begin; DOUBT first where they or the value pass the end.
    """
    if position + LENGTHS <= end:  # nearly always: three numbers below 128
        shared, own = load_u1(block, position), load_u1(block, position + 1)
        length, start = load_u1(block, position + 2), position + LENGTHS
        if (shared | own | length) < MORE and start + own + length <= end:
            return shared, own, length, start
    shared, start = varint(block, position, end)
    own, start = varint(block, start, end)
    length, start = varint(block, start, end)
    if shared < 0 or own < 0 or length < 0 or start + own + length > end:
        return DOUBT, 0, 0, 0
    return shared, own, length, start


@inlined
def little_i4(block: UInt8s, position: int) -> int:
    """Read a number of four bytes, the lowest one first."""
    value = 0
    for place in range(RESTART):
        value |= load_u1(block, position + place) << (8 * place)
    return value


@inlined
def entries_of(block: UInt8s, size: int) -> tuple[int, int]:
    """Give the position past the last entry, where the restart points lie, and how many these are.

    Brokers have a hash table put past them. DOUBT first where a block cannot be.
    """
    tail = size - RESTART
    if tail < RESTART:
        return DOUBT, 0
    count = little_i4(block, tail)
    if count & HASHED:
        tail -= BUCKETS
        tail -= load_u1(block, tail) | load_u1(block, tail + 1) << 8
        count ^= HASHED
    end = tail - RESTART * count
    return (end, count) if count and end >= 0 else (DOUBT, 0)


@inlined
def is_before(block: UInt8s, position: int, end: int, first: UInt8s) -> int:
    """Say whether the entry at a restart point is before a key: 1 or 0; DOUBT for no entry."""
    if position >= end:
        return DOUBT
    shared, own, _, start = lengths_at(block, position, end)
    if shared != 0 or own < SEQUENCE_BYTES:
        return DOUBT
    length = own - SEQUENCE_BYTES
    for place in range(min(length, first.size)):
        byte, other = load_u1(block, start + place), load_u1(first, place)
        if byte != other:
            return 1 if byte < other else 0
    return 1 if length < first.size else 0


@inlined
def seek(block: UInt8s, end: int, restarts: int, first: UInt8s) -> int:
    """Give the last restart point before a key, where reading begins; DOUBT where one is not one.

    There keys are whole; they ascend.
    """
    low, high = 0, restarts  # all below `low` are before the key, from `high` on none is
    while low < high:
        middle = (low + high) // 2
        order = is_before(block, little_i4(block, end + RESTART * middle), end, first)
        if order < 0:
            return DOUBT
        if order:
            low = middle + 1
        else:
            high = middle
    position = little_i4(block, end + RESTART * max(low - 1, 0))
    return position if position < end else DOUBT


@inlined
def place_of(key: UInt8s, length: int, first: UInt8s) -> int:
    """Say where a key lies: in the QUEUE, BEFORE or PAST it; DOUBT where it is hardly of a unit."""
    prefix = first.size - NUMBER
    if length < prefix + SEQUENCE_BYTES:
        return BEFORE  # maybe past it: then so is the next one
    for place in range(prefix):
        byte, other = load_u1(key, place), load_u1(first, place)
        if byte != other:
            if place == prefix - 1:
                return DOUBT
            return BEFORE if byte < other else PAST
    return QUEUE if length == first.size + SEQUENCE_BYTES else DOUBT


@inlined
def is_wanted(block: UInt8s, value: int, units: UInt8s, row: int, time: int) -> bool:
    """Say whether a value is a unit and its time."""
    unit = row * UNIT
    return bool(
        load_i8(block, value) == load_i8(units, unit)
        and load_i4(block, value + AT_SIZE) == load_i4(units, unit + AT_SIZE)
        and load_i8(block, value + AT_TAGS_CODE) == load_i8(units, unit + AT_TAGS_CODE)
        and load_i8(block, value + AT_TIME) == time
    )


@inlined
def next_key(
    block: UInt8s, position: int, end: int, key: UInt8s, length: int
) -> tuple[int, int, int, int]:
    """Complete the key of an entry.

    Returns:
        Bytes that it shares with the one before, its bytes, where its value begins and where that
        ends; DOUBT first where it cannot be read.

    Args:
        block: uint8, shape (n,).
        position: of the entry.
        end: of all entries.
        key: uint8, shape (LARGEST_KEY,): of the entry before; its own is filled in.
        length: of the key before.
    """
    shared, own, value_length, start = lengths_at(block, position, end)
    if shared < 0 or shared > length or not SEQUENCE_BYTES <= shared + own <= key.size:
        return DOUBT, 0, 0, 0
    for place in range(own):
        key[shared + place] = load_u1(block, start + place)
    return shared, shared + own, start + own, start + own + value_length


@kernel(
    "int64(uint8[::1], int64, UniTuple(int64, 2), Tuple((uint8[::1], uint8[::1])),"
    " Tuple((uint8[::1], int64[::1], uint8[::1])))"
)
def confirm(
    block: UInt8s,
    size: int,
    numbers: tuple[int, int],
    keys: tuple[UInt8s, UInt8s],
    wanted: tuple[UInt8s, Int64s, UInt8s],
) -> int:
    """Mark the units that a block has as they should be.

    Args:
        block: uint8, shape (n,): content of a data block.
        size: bytes of it that are filled.
        numbers: first number, and the one past the last, of the units that are wanted.
        keys: uint8, shape (p,): key of the first one; uint8, shape (LARGEST_KEY,): room for one.
        wanted: uint8, shape (20 * m,): units; int64, shape (m,): store times; uint8, shape (m,):
            1 where a unit was found, which is filled in.

    Returns:
        How many were not marked before; DOUBT where the block has anything else in their place,
        or entries of no known shape.
    """
    begin, end_number = numbers
    first, key = keys
    units, times, seen = wanted
    end, restarts = entries_of(block, size)
    position = seek(block, end, restarts, first) if end >= 0 else DOUBT
    if position < 0:
        return DOUBT
    length = count = 0
    where = BEFORE
    while position < end:
        shared, length, value, position = next_key(block, position, end, key, length)
        if shared < 0:
            return DOUBT
        if where != QUEUE or shared < first.size - NUMBER or length != first.size + SEQUENCE_BYTES:
            where = place_of(key, length, first)
        if where == BEFORE:
            continue
        if where == DOUBT:
            return DOUBT
        number = load_i8(key, first.size - NUMBER)
        if where == PAST or number >= end_number:
            break  # keys ascend
        if number < begin:
            continue
        row = number - begin
        is_put = position - value == VALUE and load_u1(key, first.size) == PUT
        if not is_put or not is_wanted(block, value, units, row, times[row]):
            return DOUBT
        count += 1 - seen[row]
        seen[row] = 1
    return int(count)


@kernel("UniTuple(int64, 2)(uint8[::1], int64, Tuple((uint8[::1], uint8[::1])))")
def extent(block: UInt8s, size: int, keys: tuple[UInt8s, UInt8s]) -> tuple[int, int]:
    """Give the lowest and the highest number of a queue in a block; DOUBT for each without one.

    Args:
        block: uint8, shape (n,): content of a data block.
        size: bytes of it that are filled.
        keys: uint8, shape (p,): key of unit 0; uint8, shape (LARGEST_KEY,): room for one.
    """
    first, key = keys
    end, restarts = entries_of(block, size)
    position = seek(block, end, restarts, first) if end >= 0 else DOUBT
    length, lowest, highest = 0, DOUBT, DOUBT
    while 0 <= position < end:
        shared, length, _, position = next_key(block, position, end, key, length)
        where = place_of(key, length, first) if shared >= 0 else DOUBT
        if where == DOUBT:
            return DOUBT, DOUBT
        if where == PAST:
            break
        if where == QUEUE:
            highest = load_i8(key, first.size - NUMBER)
            lowest = highest if lowest < 0 else lowest
    return lowest, highest
