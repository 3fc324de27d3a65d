"""The kernel that judges records: one pass over the columns, one word of bits a record.

A sound store has next to no record with a bit, so what Python looks at one by one is little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.sys_flag import ASSIGNED_BITS, SysFlag
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.scan import columns as row
from rmqtool.store.record_heads import TIME_TOLERANCE_MS

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s

BODY_CRC: Final = 1
PLACE: Final = 1 << 1  # physicalOffset is not where the record lies
TIME: Final = 1 << 2
SYS_FLAG: Final = 1 << 3
TRANSACTION_TYPE: Final = 1 << 4  # PREPARED or ROLLBACK
BATCH: Final = 1 << 5
COMMIT: Final = 1 << 6
PREPARED_OFFSET: Final = 1 << 7  # set although the record is no commit
PROPERTIES: Final = 1 << 8
PROPERTY_CRC: Final = 1 << 9
NO_PROPERTY_CRC: Final = 1 << 10
COMPRESSED: Final = 1 << 11
INNER_BATCH: Final = 1 << 12
MULTI_DISPATCH: Final = 1 << 13

ALWAYS: Final = 0x3FF

ASSIGNED: Final = ASSIGNED_BITS
COMPRESSED_FLAG: Final = SysFlag.COMPRESSED_FLAG
COMPRESSION_TYPE: Final = SysFlag.COMPRESSION_TYPE_COMPARATOR
LARGEST_COMPRESSION_TYPE: Final = SysFlag.COMPRESSION_ZLIB_TYPE
TRANSACTION: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE
COMMIT_TYPE: Final = SysFlag.TRANSACTION_COMMIT_TYPE
BATCH_BITS: Final = SysFlag.NEED_UNWRAP_FLAG | SysFlag.INNER_BATCH_FLAG
MARKS_ARE_ODD: Final = row.MARK_DROPPED_ITEM | row.MARK_DUPLICATE | row.MARK_MALFORMED


@inlined
def of_flags(sys_flag: int, prepared_transaction_offset: int) -> int:
    """Judge the flag word, and what goes with it."""
    flags = COMPRESSED if sys_flag & COMPRESSED_FLAG else 0
    kind = sys_flag & COMPRESSION_TYPE
    if sys_flag & ~ASSIGNED or kind > LARGEST_COMPRESSION_TYPE or (kind and not flags):
        flags |= SYS_FLAG
    transaction = sys_flag & TRANSACTION
    if transaction == COMMIT_TYPE:
        return flags | COMMIT
    if transaction:
        flags |= TRANSACTION_TYPE
    return flags | (PREPARED_OFFSET if prepared_transaction_offset else 0)


@inlined
def of_texts(columns: Int64s, number: int) -> int:
    """Judge what the properties of a record say."""
    flags, marks = 0, columns[row.MARKS, number]
    if marks & MARKS_ARE_ODD or columns[row.DELAY_LEVEL, number] == row.UNPARSABLE:
        flags |= PROPERTIES
    if marks & row.MARK_MULTI_DISPATCH:
        flags |= MULTI_DISPATCH
    stored, measured = columns[row.PROPERTY_CRC, number], columns[row.PROPERTY_CRC_FOUND, number]
    if stored == row.ABSENT:
        flags |= NO_PROPERTY_CRC
    elif stored == row.UNPARSABLE or (measured >= 0 and measured != stored):
        flags |= PROPERTY_CRC
    batch_bits = columns[row.SYS_FLAG, number] & BATCH_BITS
    if batch_bits:
        flags |= INNER_BATCH
        base, count = columns[row.INNER_BASE, number], columns[row.INNER_NUM, number]
        if batch_bits != BATCH_BITS or count <= 0 or base != columns[row.QUEUE_OFFSET, number]:
            flags |= BATCH
    return flags


@kernel("int64(int64[:, ::1], UniTuple(int64, 4), int64[::1], int64[::1])")
def judge(columns: Int64s, what: tuple[int, int, int, int], numbers: Int64s, bits: Int64s) -> int:
    """Find the records that have something to be looked at; return how many.

    Args:
        columns: int64, shape (ROWS, m).
        what: records in `columns`; bits of interest; store timestamp of the record before the
            first one, ms, -1 for none; 1 if topics and properties were read.
        numbers: int64, shape (m,); filled with the records' numbers.
        bits: int64, shape (m,); filled with what they have.
    """
    count, wanted, before, has_texts = what
    judged = 0
    for number in range(count):
        flags = of_flags(
            columns[row.SYS_FLAG, number], columns[row.PREPARED_TRANSACTION_OFFSET, number]
        )
        stored, computed = columns[row.BODY_CRC, number], columns[row.BODY_CRC_FOUND, number]
        if computed >= 0 and computed != stored and columns[row.BODY_LENGTH, number] > 0:
            flags |= BODY_CRC
        if columns[row.PHYSICAL_OFFSET, number] != columns[row.PHYSICAL_OFFSET_FIELD, number]:
            flags |= PLACE
        time = columns[row.STORE_TIMESTAMP, number]
        if time <= 0 or time + TIME_TOLERANCE_MS < before:
            flags |= TIME
        before = time
        if has_texts:
            flags |= of_texts(columns, number)
        flags &= wanted
        if flags:
            numbers[judged], bits[judged] = number, flags
            judged += 1
    return judged
