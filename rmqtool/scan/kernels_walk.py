"""Kernels that follow records, find the next one after damage, and run the checksum.

Each takes a window of bytes and says how far it came and why it stopped; none raises because of
content, and whoever calls them always advances.
Source: CommitLog#checkMessageAndReturnSize, 4.9.3 to 5.5.0, and store-formats on resynchronising.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.dledger import BLANK_MAGIC, DLEDGER_BODY_OFFSET, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.host import IPV4_BYTES, IPV6_BYTES
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_MIDDLES,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
    SysFlag,
)
from rmqtool.formats.properties import LENGTH_BYTES
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.machine.intrinsics import load_i1, load_i2, load_i4, load_i8
from rmqtool.scan import columns as row
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_hash import WORD

if TYPE_CHECKING:
    from typing import TypeAlias

    from rmqtool.machine.arrays import Checksum, Int64s, UInt8s

    Place: TypeAlias = tuple[int, int, int, int, int, int, int]

# Why a walk stopped.
FULL: Final = 0  # no room for more records
SHORT: Final = 1  # the window ends inside a record, or before its header
LIMIT: Final = 2  # the next record begins where another part does
BLANK_AHEAD: Final = 3
ZERO: Final = 4  # size and magic are 0: an unused tail, or a page that was lost
BAD_MAGIC: Final = 5
BAD_SIZE: Final = 6
BAD_TOPIC: Final = 7  # negative length of the topic: Java throws
BAD_ENTRY: Final = 8  # DLedger: the entry header and the record do not fit each other
DAMAGED: Final = frozenset({ZERO, BAD_MAGIC, BAD_SIZE, BAD_TOPIC, BAD_ENTRY})
SOUND: Final = 9  # one record passed

PREFIX: Final = MESSAGE_PREFIX.size
_AT: Final = MESSAGE_PREFIX.positions
_MIDDLE: Final = MESSAGE_MIDDLES[False, False].positions
_ENTRY: Final = DLEDGER_ENTRY.positions
V6_EXTRA: Final = IPV6_BYTES - IPV4_BYTES  # bytes that an IPv6 address is longer
HEADER: Final = PREFIX + MESSAGE_MIDDLES[False, False].size  # of a record with IPv4 hosts

TOTAL_SIZE: Final = _AT["total_size"]
MAGIC_CODE: Final = _AT["magic_code"]
BODY_CRC: Final = _AT["body_crc"]
QUEUE_ID: Final = _AT["queue_id"]
FLAG: Final = _AT["flag"]
QUEUE_OFFSET: Final = _AT["queue_offset"]
PHYSICAL_OFFSET: Final = _AT["physical_offset"]
SYS_FLAG: Final = _AT["sys_flag"]
BORN_TIMESTAMP: Final = _AT["born_timestamp"]
STORE_TIMESTAMP: Final = PREFIX + _MIDDLE["store_timestamp"]  # plus V6_EXTRA for each IPv6 host …
RECONSUME_TIMES: Final = PREFIX + _MIDDLE["reconsume_times"]  # … before it
PREPARED_OFFSET: Final = PREFIX + _MIDDLE["prepared_transaction_offset"]
BODY_LENGTH: Final = PREFIX + _MIDDLE["body_length"]
BODY: Final = HEADER  # where it begins, with IPv4 hosts
V1_TOPIC_WIDTH: Final = TOPIC_LENGTH_BYTES[MESSAGE_MAGIC_CODE]
V2_TOPIC_WIDTH: Final = TOPIC_LENGTH_BYTES[MESSAGE_MAGIC_CODE_V2]
PROPERTIES_WIDTH: Final = LENGTH_BYTES  # of their length
BLANK_SIZE: Final = BLANK.size
ENTRY_MAGIC_AT: Final = _ENTRY["magic"]
ENTRY_SIZE: Final = _ENTRY["size"]
ENTRY_POS: Final = _ENTRY["pos"]
ENTRY_BODY_LENGTH: Final = _ENTRY["body_length"]
BORNHOST_V6: Final = SysFlag.BORNHOST_V6_FLAG
STOREHOST_V6: Final = SysFlag.STOREHOSTADDRESS_V6_FLAG
MAGIC_BYTE: Final = (MESSAGE_MAGIC_CODE >> 24) & 0xFF


@inlined
def hosts_extra(sys_flag: int) -> tuple[int, int]:
    """Give the bytes that IPv6 hosts add before the store timestamp, and before the body."""
    born = V6_EXTRA if sys_flag & BORNHOST_V6 else 0
    return born, born + (V6_EXTRA if sys_flag & STOREHOST_V6 else 0)


@inlined
def judge_header(window: UInt8s, start: int, room: int) -> int:
    """Judge size and magic of what should be a record; SOUND as far as they go."""
    size, magic = load_i4(window, start + TOTAL_SIZE), load_i4(window, start + MAGIC_CODE)
    if magic == BLANK_MAGIC_CODE:
        return BLANK_AHEAD
    if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
        return ZERO if magic == 0 and size == 0 else BAD_MAGIC
    if size < SMALLEST_RECORD or size > room:
        return BAD_SIZE
    return SOUND


@inlined
def judge_entry(window: UInt8s, start: int, physical_offset: int, room: int) -> int:
    """Judge a DLedger entry header, which lies before each record; SOUND as far as it goes.

    Args:
        window: uint8, shape (n,).
        start: first byte of the entry in the window.
        physical_offset: where that byte lies in the logical data.
        room: bytes from there to the end of the file.
    """
    magic, size = load_i4(window, start + ENTRY_MAGIC_AT), load_i4(window, start + ENTRY_SIZE)
    if magic == BLANK_MAGIC:
        return BLANK_AHEAD
    if magic != ENTRY_MAGIC:
        return ZERO if magic == 0 and size == 0 else BAD_MAGIC
    if size < DLEDGER_BODY_OFFSET + SMALLEST_RECORD or size > room:
        return BAD_SIZE
    inner = load_i4(window, start + DLEDGER_BODY_OFFSET + TOTAL_SIZE)
    length = load_i4(window, start + ENTRY_BODY_LENGTH)
    pos = load_i8(window, start + ENTRY_POS)
    if pos != physical_offset or size != DLEDGER_BODY_OFFSET + length or inner != length:
        return BAD_ENTRY
    return SOUND


@inlined
def fill(window: UInt8s, start: int, columns: Int64s, number: int) -> int:
    """Read one record's fields into column `number`; say whether its lengths agree.

    The whole record must lie in the window, and `judge_header` must have passed it.
    """
    size, magic = load_i4(window, start + TOTAL_SIZE), load_i4(window, start + MAGIC_CODE)
    sys_flag = load_i4(window, start + SYS_FLAG)
    before_store, extra = hosts_extra(sys_flag)
    end = start + size
    body = start + BODY + extra
    body_length = max(load_i4(window, start + BODY_LENGTH + extra), 0)
    width = V1_TOPIC_WIDTH if magic == MESSAGE_MAGIC_CODE else V2_TOPIC_WIDTH
    at = body + body_length  # the topic's length, with one byte or two
    topic = at + width
    if topic + PROPERTIES_WIDTH > end:
        return BAD_SIZE
    topic_length = load_i1(window, at) if width == V1_TOPIC_WIDTH else load_i2(window, at)
    properties = topic + topic_length + PROPERTIES_WIDTH
    if topic_length < 0:
        return BAD_TOPIC
    if properties > end:
        return BAD_SIZE
    properties_length = max(load_i2(window, properties - PROPERTIES_WIDTH), 0)
    if properties + properties_length != end:
        return BAD_SIZE
    columns[row.RECORD_START, number] = start
    columns[row.SIZE, number] = size
    columns[row.MAGIC_CODE, number] = magic
    columns[row.BODY_CRC, number] = load_i4(window, start + BODY_CRC)
    columns[row.BODY_CRC_FOUND, number] = -1
    columns[row.QUEUE_ID, number] = load_i4(window, start + QUEUE_ID)
    columns[row.FLAG, number] = load_i4(window, start + FLAG)
    columns[row.QUEUE_OFFSET, number] = load_i8(window, start + QUEUE_OFFSET)
    columns[row.PHYSICAL_OFFSET_FIELD, number] = load_i8(window, start + PHYSICAL_OFFSET)
    columns[row.SYS_FLAG, number] = sys_flag
    columns[row.BORN_TIMESTAMP, number] = load_i8(window, start + BORN_TIMESTAMP)
    columns[row.STORE_TIMESTAMP, number] = load_i8(window, start + STORE_TIMESTAMP + before_store)
    columns[row.RECONSUME_TIMES, number] = load_i4(window, start + RECONSUME_TIMES + extra)
    columns[row.PREPARED_TRANSACTION_OFFSET, number] = load_i8(
        window, start + PREPARED_OFFSET + extra
    )
    columns[row.BODY_START, number] = body
    columns[row.BODY_LENGTH, number] = body_length
    columns[row.TOPIC_START, number] = topic
    columns[row.TOPIC_LENGTH, number] = topic_length
    columns[row.PROPERTIES_START, number] = properties
    columns[row.PROPERTIES_LENGTH, number] = properties_length
    return SOUND


@kernel("UniTuple(int64, 3)(uint8[::1], UniTuple(int64, 7), int64[:, ::1])")
def walk(window: UInt8s, place: Place, columns: Int64s) -> tuple[int, int, int]:
    """Follow record sizes; return the records found, where the walk stopped, and why.

    Args:
        window: uint8, shape (n,).
        place: seven numbers.
            Where a record must start, in the window.
            Bytes of the window that are filled.
            Limit: records that start there or later, in the window, belong to somebody else.
            Bytes from the start of the window to the end of the file.
            Where the window begins in the file.
            Where the file begins in the commitlog.
            Bytes before each record: 48 with DLedger, else 0.
        columns: int64, shape (ROWS, m); filled for the records found.
    """
    start, size, limit, file_left, window_position, segment_start, entry_header = place
    count, capacity = 0, columns.shape[1]
    while True:
        if start >= limit:
            return count, start, LIMIT
        if count == capacity:
            return count, start, FULL
        if start + entry_header + BLANK_SIZE > size:
            return count, start, SHORT
        record = start + entry_header
        if entry_header:
            offset = segment_start + window_position + start
            why = judge_entry(window, start, offset, file_left - start)
            if why != SOUND:
                return count, start, why
        why = judge_header(window, record, file_left - record)
        if why == SOUND:
            if record + load_i4(window, record + TOTAL_SIZE) > size:
                return count, start, SHORT
            why = fill(window, record, columns, count)
        if why != SOUND:
            return count, start, why
        columns[row.POSITION, count] = window_position + record
        columns[row.PHYSICAL_OFFSET, count] = segment_start + window_position + record
        start = record + columns[row.SIZE, count]
        count += 1


@kernel("int64(uint8[::1], int64, int64, int64)")
def find_record(window: UInt8s, begin: int, size: int, physical_offset: int) -> int:
    """Find the next place with a record's magic and with its own offset in `physical_offset`.

    A record says where it lies, which tells it from copies of records inside bodies and from
    remains in recycled buffers. The lengths are for the caller to judge: the record may be
    longer than the window.

    Args:
        window: uint8, shape (n,).
        begin: first candidate in the window.
        size: bytes of the window that are filled; the last PREFIX - 1 of them are not searched.
        physical_offset: what a record at the first byte of the window has in that field.

    Returns:
        Its place in the window; -1 when there is not one.
    """
    for start in range(begin, size - PREFIX + 1):
        if window[start + MAGIC_CODE] != MAGIC_BYTE:
            continue
        magic = load_i4(window, start + MAGIC_CODE)
        if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            continue
        if load_i8(window, start + PHYSICAL_OFFSET) == physical_offset + start:
            return start
    return -1


@kernel("int64(uint8[::1], int64, int64)")
def zero_run(window: UInt8s, begin: int, size: int) -> int:
    """Give the place of the first byte that is not zero; `size` when all are."""
    start = begin
    while start + 4 * WORD <= size:
        if (
            load_i8(window, start)
            | load_i8(window, start + WORD)
            | load_i8(window, start + 2 * WORD)
            | load_i8(window, start + 3 * WORD)
        ):
            break
        start += 4 * WORD
    while start < size and window[start] == 0:
        start += 1
    return start


@kernel("void(uint8[::1], int64[:, ::1], int64, Tuple((int64, uint32[:, ::1])))")
def body_crcs(window: UInt8s, columns: Int64s, count: int, checksum: Checksum) -> None:
    """Compute the checksum of each body.

    Args:
        window: uint8, shape (n,).
        columns: int64, shape (ROWS, m); BODY_CRC_FOUND is filled.
        count: records in `columns`.
        checksum: `crc.checksum()`.
    """
    for number in range(count):
        start, length = columns[row.BODY_START, number], columns[row.BODY_LENGTH, number]
        columns[row.BODY_CRC_FOUND, number] = crc31(window, start, length, checksum)


@kernel("int64(uint8[::1], int64)")
def total_size(window: UInt8s, start: int) -> int:
    """Read the size that what lies at `start` says it has."""
    return load_i4(window, start + TOTAL_SIZE)
