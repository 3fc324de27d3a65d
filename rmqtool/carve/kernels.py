"""Kernels that find records in a window, put them into runs, and follow runs that were found.

What lies in the body of a record that counts is never looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.carve.kernels_judge import (
    BEYOND,
    FIRST,
    LONG_ADDRESS_BYTES,
    MARKS,
    NOTHING,
    NOWHERE,
    PROVEN,
    TIMESTAMP_BYTES,
    TORN,
    WHOLE,
    judge,
    looked_past,
)
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.formats.message import MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2
from rmqtool.machine.compiled import called, inlined, kernel
from rmqtool.machine.intrinsics import MASK_BYTES, load_i4, load_i8, mask_of, trailing_zeros
from rmqtool.scan import columns as row
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_hash import WORD
from rmqtool.scan.kernels_walk import (
    BODY,
    MAGIC_BYTE,
    MAGIC_CODE,
    PHYSICAL_OFFSET,
    SOUND,
    STORE_TIMESTAMP,
    STOREHOST_V6,
    SYS_FLAG,
    TOTAL_SIZE,
    V6_EXTRA,
    fill,
    hosts_extra,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from rmqtool.machine.arrays import Checksum, Int64s, UInt8s

    Place: TypeAlias = tuple[int, int, int, int, int, int, int]

# Rows of a run: records that follow each other in the image as they do in their log.
(
    POSITION,  # of the first record in the image, bytes
    LENGTH,  # up to the end of the last record, bytes
    OFFSET,  # physical offset of the first record
    STRIDE,  # bytes between two records: an entry header of DLedger, or 0
    COUNT,  # records
    CHECKED,  # of them, those whose body or whole has its checksum
    HOST_HIGH,  # store host: the first 8 bytes of an IPv6 address, or 0
    HOST_LOW,  # the last 8 of it, or an IPv4 address with its port
    HOST_PORT,  # the port of an IPv6 host and the bit V6, or 0
    UNSURE,  # 1 for a single record whose end may be another file's
) = range(10)
RUN_ROWS: Final = 10
V6: Final = 1 << 32

MARK_POSITION, MARK_LENGTH, MARK_KIND = range(3)
MARK_ROWS: Final = 3
LONGEST_HEADER: Final = BODY + 2 * V6_EXTRA

# Why a search stopped.
DONE: Final = 0  # it goes on elsewhere
LONG: Final = 1  # a record goes on past the window
FULL: Final = 2  # no room for more runs


@inlined
def next_magic(window: UInt8s, begin: int, size: int) -> int:
    """Give where the next magic code of a record begins; -1 where there is not one.

    Args:
        window: uint8, shape (n,).
        begin: first place to look at.
        size: bytes of the window that are filled.
    """
    at = begin
    while at + 4 <= size:
        bits = mask_of(window, at, MAGIC_BYTE)
        while bits:
            place = at + trailing_zeros(bits)
            if place + 4 > size:
                return -1
            magic = load_i4(window, place)
            if magic in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
                return place
            bits &= bits - 1
        at += MASK_BYTES
    return -1


@inlined
def host_of(window: UInt8s, start: int) -> tuple[int, int, int]:
    """Give the store host of a record as three numbers, as the rows of a run have it."""
    sys_flag = load_i4(window, start + SYS_FLAG)
    before, _ = hosts_extra(sys_flag)
    at = start + STORE_TIMESTAMP + before + TIMESTAMP_BYTES
    if sys_flag & STOREHOST_V6:
        port = load_i4(window, at + LONG_ADDRESS_BYTES)
        return load_i8(window, at), load_i8(window, at + WORD), port | V6
    return 0, load_i8(window, at), 0


@inlined
def add(window: UInt8s, place: tuple[int, int, int], runs: Int64s, count: int) -> int:
    """Add a record to the last run, or begin a new one; give how many runs there are.

    Args:
        window: uint8, shape (n,).
        place: where the record begins in the window; where it lies in the image; what it is.
        runs: int64, shape (RUN_ROWS, m), m > found.
        count: runs so far.
    """
    start, position, what = place
    is_proven = 1 if what == PROVEN else 0
    is_unsure = 1 if what == TORN else 0
    size = load_i4(window, start + TOTAL_SIZE)
    offset = load_i8(window, start + PHYSICAL_OFFSET)
    high, low, port = host_of(window, start)
    last = count - 1
    if count and not is_unsure and not runs[UNSURE, last]:
        gap = position - runs[POSITION, last] - runs[LENGTH, last]
        is_next = offset - runs[OFFSET, last] == position - runs[POSITION, last]
        is_next &= gap in (0, DLEDGER_BODY_OFFSET)
        is_next &= runs[COUNT, last] == 1 or runs[STRIDE, last] == gap
        is_next &= runs[HOST_HIGH, last] == high and runs[HOST_LOW, last] == low
        is_next &= runs[HOST_PORT, last] == port
        if is_next:
            runs[STRIDE, last] = gap
            runs[LENGTH, last] += gap + size
            runs[COUNT, last] += 1
            runs[CHECKED, last] += is_proven
            return count
    runs[POSITION, count], runs[LENGTH, count], runs[OFFSET, count] = position, size, offset
    runs[STRIDE, count], runs[COUNT, count], runs[CHECKED, count] = 0, 1, is_proven
    runs[HOST_HIGH, count], runs[HOST_LOW, count], runs[HOST_PORT, count] = high, low, port
    runs[UNSURE, count] = is_unsure
    return count + 1


@called
def note(counts: Int64s, marks: Int64s, kind: int, position: int, length: int) -> None:
    """Count something that is no whole record, and note its place while there is room."""
    counts[kind] += 1
    counts[FIRST] = min(counts[FIRST], position)
    number = counts[MARKS]
    if number < marks.shape[1]:
        marks[MARK_POSITION, number], marks[MARK_LENGTH, number] = position, length
        marks[MARK_KIND, number] = kind
        counts[MARKS] += 1


@kernel(
    "UniTuple(int64, 3)(uint8[::1], UniTuple(int64, 7), int64[:, ::1], int64[::1], int64[:, ::1],"
    " Tuple((int64, uint32[:, ::1])))"
)
def search(
    window: UInt8s,
    place: Place,
    runs: Int64s,
    counts: Int64s,
    marks: Int64s,
    checksum: Checksum,
) -> tuple[int, int, int]:
    """Find records; give how many runs there are, where the search stopped, and why.

    Args:
        window: uint8, shape (n,).
        place: seven numbers.
            Where the search begins in the window.
            Bytes of the window that are filled.
            Limit: what begins there or later, in the window, belongs to somebody else.
            Where the window begins in the image.
            Bytes from there to the end of the image.
            Runs so far.
            What is known of the record at the beginning, as `judge` says it: NOTHING to find out.
        runs: int64, shape (RUN_ROWS, m).
        counts: int64, shape (COUNTS,); counted on.
        marks: int64, shape (MARK_ROWS, k); filled on.
        checksum: `crc.checksum()`.
    """
    at, size, limit, window_position, left, count, known = place
    while True:
        start = next_magic(window, at + MAGIC_CODE, size) - MAGIC_CODE
        if start < at:
            return count, max(at, size - MAGIC_CODE - 3), DONE
        if start >= limit:
            return count, start, DONE
        if start + LONGEST_HEADER > size and size < left:
            return count, start, DONE
        if count == runs.shape[1]:
            return count, start, FULL
        position = window_position + start
        if known != NOTHING and start == place[0]:
            what = known
        else:
            what = judge(window, (start, size, left), counts, checksum)
            what = looked_past(window, (start, size, left), position, what)
        at = start + 1
        if what in (WHOLE, PROVEN, TORN):
            counts[FIRST] = min(counts[FIRST], position)
            count = add(window, (start, position, what), runs, count)
            at = start + load_i4(window, start + TOTAL_SIZE)
        elif what == BEYOND:
            return count, start, LONG
        elif what != NOTHING:
            note(counts, marks, what, position, load_i4(window, start + TOTAL_SIZE))


@kernel(
    "UniTuple(int64, 2)(uint8[::1], UniTuple(int64, 5), int64[:, ::1], int64[::1], int64[::1],"
    " Tuple((int64, uint32[:, ::1])))"
)
def follow(
    window: UInt8s,
    place: tuple[int, int, int, int, int],
    columns: Int64s,
    proven: Int64s,
    counts: Int64s,
    checksum: Checksum,
) -> tuple[int, int]:
    """Read the records of a run again, and prove them again; give how many, and where it stopped.

    It stops at the first record that is not there, or not whole in the window.

    Args:
        window: uint8, shape (n,).
        place: five numbers.
            Where the first record begins in the window.
            Past the last byte of the run that is in the window.
            Bytes between two records.
            Physical offset of what lies at the beginning of the window.
            Where the window begins in the image.
        columns: int64, shape (ROWS, m); filled as by a scan, as far as PROPERTIES_LENGTH.
        proven: int64, shape (m,); filled with 1 for a record that a checksum proves, else 0.
        counts: int64, shape (COUNTS,); only its budget counts.
        checksum: `crc.checksum()`.
    """
    start, end, stride, offset, window_position = place
    count = 0
    while count < columns.shape[1] and start + BODY <= end:
        magic = load_i4(window, start + MAGIC_CODE)
        if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            break
        if load_i8(window, start + PHYSICAL_OFFSET) != offset + start:
            break
        what = judge(window, (start, end, NOWHERE), counts, checksum)
        if what not in (WHOLE, PROVEN) or fill(window, start, columns, count) != SOUND:
            break
        columns[row.POSITION, count] = window_position + start
        columns[row.PHYSICAL_OFFSET, count] = offset + start
        proven[count] = 1 if what == PROVEN else 0
        start += columns[row.SIZE, count] + stride
        count += 1
    return count, start


@kernel("void(uint8[::1], int64[:, ::1], int64[::1], Tuple((int64, uint32[:, ::1])))")
def record_sums(window: UInt8s, columns: Int64s, sums: Int64s, checksum: Checksum) -> None:
    """Compute the checksum of each record as a whole.

    Args:
        window: uint8, shape (n,).
        columns: int64, shape (ROWS, m), m at least as long as `sums`.
        sums: int64, shape (k,); filled.
        checksum: `crc.checksum()`.
    """
    for number in range(sums.size):
        start, size = columns[row.RECORD_START, number], columns[row.SIZE, number]
        sums[number] = crc31(window, start, size, checksum)
