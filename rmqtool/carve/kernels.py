"""Kernels that find records anywhere in a window, and follow those that were found.

A record counts when all its lengths agree and its body has its checksum; one with an empty body,
which has none, when a neighbour in the image agrees with its physical offset. What lies in the
body of a record that counts is never looked at.
Source: MessageExtEncoder#encode, MessageDecoder#createCrc32, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.dledger import BLANK_MAGIC, DLEDGER_BODY_OFFSET, ENTRY_MAGIC
from rmqtool.formats.message import (
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    SMALLEST_RECORD,
)
from rmqtool.formats.properties import CRC32, CRC32_RESERVED_LENGTH
from rmqtool.machine.compiled import called, inlined, kernel
from rmqtool.machine.intrinsics import (
    MASK_BYTES,
    load_i1,
    load_i2,
    load_i4,
    load_i8,
    load_u1,
    mask_of,
    trailing_zeros,
)
from rmqtool.scan import columns as row
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_walk import (
    BLANK_SIZE,
    BODY,
    BODY_CRC,
    BODY_LENGTH,
    ENTRY_POS,
    MAGIC_BYTE,
    MAGIC_CODE,
    PHYSICAL_OFFSET,
    PROPERTIES_WIDTH,
    QUEUE_ID,
    QUEUE_OFFSET,
    SOUND,
    STORE_TIMESTAMP,
    STOREHOST_V6,
    SYS_FLAG,
    TOTAL_SIZE,
    V1_TOPIC_WIDTH,
    V2_TOPIC_WIDTH,
    V6_EXTRA,
    fill,
    hosts_extra,
)
from rmqtool.scan.long_record import LONGEST_TAIL

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
    HOST_LOW,  # the last 8 of it, or an IPv4 address
    HOST_PORT,  # and the port; an IPv6 host has the bit of V6 besides
    UNSURE,  # 1 for a single record whose end may be another file's
) = range(10)
RUN_ROWS: Final = 10
V6: Final = 1 << 32

# What lies at a place, and the rows in which a search counts it.
(
    NOTHING,
    WHOLE,  # a record whose lengths agree; it has no body that a checksum could prove
    PROVEN,  # a record that a checksum proves
    CUT,  # a header whose record is not there as a whole
    HURT,  # a record with a wrong checksum
    BEYOND,  # a record that goes on past the window
    LEFT,  # a record that is not judged: to judge more of its kind would take too long
    TORN,  # a record whose properties may end in bytes of another file
) = range(8)
BUDGET: Final = 8  # row: bytes that may still be read of records that do not count
FIRST: Final = 9  # row: position in the image of the first thing that was found, or NOWHERE
MARKS: Final = 10  # row: how many of CUT, HURT and LEFT were noted
COUNTS: Final = 11
NOWHERE: Final = 2**63 - 1
MARK_POSITION, MARK_LENGTH, MARK_KIND = range(3)
MARK_ROWS: Final = 3
SECTOR: Final = 512  # bytes: the least that disks and file systems place files by
NEXT_BYTES: Final = DLEDGER_BODY_OFFSET + BODY  # past a record, that tell whether another follows
ALWAYS_JUDGED: Final = 4096  # bytes of a body that is judged whatever was read before

# Why a search stopped.
DONE: Final = 0  # it goes on elsewhere
LONG: Final = 1  # a record goes on past the window
FULL: Final = 2  # no room for more runs

LARGEST_PORT: Final = 0xFFFF
LONGEST_HEADER: Final = BODY + 2 * V6_EXTRA
TIMESTAMP_BYTES: Final = 8
ADDRESS_BYTES: Final = 4
LONG_ADDRESS_BYTES: Final = 16
CRC_NAME: Final = tuple(CRC32.encode())
CRC_DIGITS: Final = 10
SEPARATOR: Final = 1
END: Final = 2
ZERO_DIGIT: Final = ord("0")
FIRST_PRINTABLE: Final = 0x21
DELETE: Final = 0x7F


@inlined
def next_magic(window: UInt8s, begin: int, size: int) -> int:
    """Give where the next magic code of a record begins; -1 where there is none.

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


@called
def property_crc(window: UInt8s, end: int, length: int) -> int:
    """Read the checksum that closes the properties of a record; -1 where there is none.

    Its ten digits stand in reverse. Source: MessageDecoder#createCrc32, 5.2.0 to 5.5.0.

    Args:
        window: uint8, shape (n,).
        end: past the last byte of the record.
        length: of its properties.
    """
    at = end - CRC32_RESERVED_LENGTH
    if length < CRC32_RESERVED_LENGTH or load_u1(window, end - 1) != END:
        return -1
    for number in range(len(CRC_NAME)):
        if load_u1(window, at + number) != CRC_NAME[number]:
            return -1
    if load_u1(window, at + len(CRC_NAME)) != SEPARATOR:
        return -1
    found = 0
    for number in range(CRC_DIGITS):
        digit = load_u1(window, end - 2 - number) - ZERO_DIGIT
        if digit < 0 or digit > 9:  # noqa: PLR2004 - digits
            return -1
        found = 10 * found + digit
    return found


@called
def is_printable(window: UInt8s, start: int, length: int) -> bool:
    """Tell whether a topic has bytes, and none that a broker would refuse in any release."""
    for place in range(start, start + length):
        byte = load_u1(window, place)
        if byte < FIRST_PRINTABLE or byte == DELETE:
            return False
    return length > 0


@inlined
def header_bytes(window: UInt8s, start: int, size: int) -> int:
    """Give the length of the header at the end of an image; more than is there if it is cut."""
    if start + BODY > size:
        return size + 1
    _, extra = hosts_extra(load_i4(window, start + SYS_FLAG))
    return BODY + extra


@inlined
def looks_right(window: UInt8s, start: int) -> bool:
    """Tell whether the fields of a header are such as a broker writes; its lengths aside."""
    size, sys_flag = load_i4(window, start + TOTAL_SIZE), load_i4(window, start + SYS_FLAG)
    before, extra = hosts_extra(sys_flag)
    stored = start + STORE_TIMESTAMP + before
    address = LONG_ADDRESS_BYTES if sys_flag & STOREHOST_V6 else ADDRESS_BYTES
    port = load_i4(window, stored + TIMESTAMP_BYTES + address)
    body_length = load_i4(window, start + BODY_LENGTH + extra)
    tail = size - BODY - extra - body_length
    offset = load_i8(window, start + PHYSICAL_OFFSET)
    return (
        size >= SMALLEST_RECORD
        and body_length >= 0
        and V1_TOPIC_WIDTH + PROPERTIES_WIDTH < tail <= LONGEST_TAIL
        and 0 <= offset < NOWHERE - size
        and load_i4(window, start + QUEUE_ID) >= 0
        and load_i8(window, start + QUEUE_OFFSET) >= 0
        and load_i8(window, stored) > 0
        and 0 <= port <= LARGEST_PORT
    )


@inlined
def properties_bytes(window: UInt8s, start: int, end: int) -> int:
    """Give the length of the properties of a record; -1 where its lengths do not agree."""
    _, extra = hosts_extra(load_i4(window, start + SYS_FLAG))
    at = start + BODY + extra + load_i4(window, start + BODY_LENGTH + extra)
    is_v1 = load_i4(window, start + MAGIC_CODE) == MESSAGE_MAGIC_CODE
    width = V1_TOPIC_WIDTH if is_v1 else V2_TOPIC_WIDTH
    topic_length = load_i1(window, at) if is_v1 else load_i2(window, at)
    properties = at + width + topic_length + PROPERTIES_WIDTH
    if topic_length <= 0 or properties > end:
        return -1
    length = load_i2(window, properties - PROPERTIES_WIDTH)
    return length if properties + length == end else -1


@called
def prove(window: UInt8s, start: int, end: int, properties: int, checksum: Checksum) -> int:
    """Hold a record whose lengths agree against its checksums.

    Args:
        window: uint8, shape (n,).
        start: of the record in the window.
        end: past its last byte.
        properties: their length.
        checksum: `crc.checksum()`.
    """
    _, extra = hosts_extra(load_i4(window, start + SYS_FLAG))
    body = start + BODY + extra
    body_length = load_i4(window, start + BODY_LENGTH + extra)
    topic = body + body_length + V1_TOPIC_WIDTH
    if load_i4(window, start + MAGIC_CODE) != MESSAGE_MAGIC_CODE:
        topic = body + body_length + V2_TOPIC_WIDTH
    topic_length = end - properties - PROPERTIES_WIDTH - topic
    what = PROVEN
    if not body_length:
        what = WHOLE if is_printable(window, topic, topic_length) else HURT
    if crc31(window, body, body_length, checksum) != load_i4(window, start + BODY_CRC):
        what = HURT
    stored = property_crc(window, end, properties)
    if stored < 0 or what == HURT:
        return what
    found = crc31(window, start, end - start - CRC32_RESERVED_LENGTH, checksum)
    return PROVEN if found == stored else HURT


@called
def judge(window: UInt8s, place: tuple[int, int, int], counts: Int64s, checksum: Checksum) -> int:
    """Judge what has a magic code, as far as the window goes.

    Args:
        window: uint8, shape (n,).
        place: where it begins in the window; bytes of the window that are filled; bytes from the
            beginning of the window to the end of the image.
        counts: int64, shape (COUNTS,).
        checksum: `crc.checksum()`.
    """
    start, size, left = place
    if start + header_bytes(window, start, size) > size or not looks_right(window, start):
        return NOTHING
    end = start + load_i4(window, start + TOTAL_SIZE)
    if end > left:
        return CUT
    if end > size:
        return BEYOND
    properties = properties_bytes(window, start, end)
    if properties < 0:
        return CUT
    if counts[BUDGET] < 0 and end - start > ALWAYS_JUDGED:
        return LEFT
    what = prove(window, start, end, properties, checksum)
    if what == HURT:
        counts[BUDGET] -= end - start
    return what


@called
def goes_on(window: UInt8s, end: int, left: int, offset: int) -> bool:
    """Tell whether what follows a record is what follows records in a log.

    That is another record, a blank, the zeros of an unused tail, or the end of the image.

    Args:
        window: uint8, shape (n,); NEXT_BYTES past the end are there, or all up to `left`.
        end: past the last byte of the record.
        left: bytes from the beginning of the window to the end of the image.
        offset: physical offset of what follows.
    """
    if end + BLANK_SIZE > left:
        return True
    first, magic = load_i4(window, end), load_i4(window, end + MAGIC_CODE)
    if magic == BLANK_MAGIC_CODE or first == BLANK_MAGIC:
        return True
    if first == 0 and magic == 0:
        return load_u1(window, end - 1) != 0  # else zeros were written over the end of the record
    if end + BODY > left:
        return False
    if first == ENTRY_MAGIC and load_i8(window, end + ENTRY_POS) == offset:
        return True
    is_record = magic in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)
    return is_record and load_i8(window, end + PHYSICAL_OFFSET) == offset


@called
def is_torn(
    window: UInt8s, place: tuple[int, int, int], at: tuple[int, int], properties: int
) -> bool:
    """Tell whether the properties of a record may end in bytes of another file.

    No checksum protects them, unless the whole record has one. So where they reach into another
    sector than the body, what follows the record must be of the same log.

    Args:
        window: uint8, shape (n,).
        place: past the last byte of the body; past that of the record; bytes from the beginning of
            the window to the end of the image.
        at: position in the image, and physical offset, of the first byte of the window.
        properties: their length.
    """
    text, end, left = place
    position, offset = at
    is_one = (position + text - 1) // SECTOR == (position + end - 1) // SECTOR
    is_one &= (offset + text - 1) // SECTOR == (offset + end - 1) // SECTOR
    if is_one or property_crc(window, end, properties) >= 0:
        return False
    return not goes_on(window, end, left, offset + end)


@kernel("int64(uint8[::1], UniTuple(int64, 3), UniTuple(int64, 2), int64)")
def torn(window: UInt8s, place: tuple[int, int, int], at: tuple[int, int], properties: int) -> int:
    """Ask `is_torn` of a single record: 1 if it is, else 0."""
    return 1 if is_torn(window, place, at, properties) else 0


@inlined
def host_of(window: UInt8s, start: int) -> tuple[int, int, int]:
    """Give the store host of a record as three numbers, as the rows of a run have it."""
    sys_flag = load_i4(window, start + SYS_FLAG)
    before, _ = hosts_extra(sys_flag)
    at = start + STORE_TIMESTAMP + before + TIMESTAMP_BYTES
    if sys_flag & STOREHOST_V6:
        port = load_i4(window, at + LONG_ADDRESS_BYTES)
        return load_i8(window, at), load_i8(window, at + TIMESTAMP_BYTES), port | V6
    return 0, load_i4(window, at), load_i4(window, at + ADDRESS_BYTES)


@called
def add(window: UInt8s, place: tuple[int, int, int], runs: Int64s, found: int) -> int:
    """Add a record to the last run, or begin a new one; give how many runs there are.

    Args:
        window: uint8, shape (n,).
        place: where the record begins in the window; where it lies in the image; what it is.
        runs: int64, shape (RUN_ROWS, m), m > found.
        found: runs so far.
    """
    start, position, what = place
    is_proven = 1 if what == PROVEN else 0
    is_unsure = 1 if what == TORN else 0
    size = load_i4(window, start + TOTAL_SIZE)
    offset = load_i8(window, start + PHYSICAL_OFFSET)
    high, low, port = host_of(window, start)
    last = found - 1
    if found and not is_unsure and not runs[UNSURE, last]:
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
            return found
    runs[POSITION, found], runs[LENGTH, found], runs[OFFSET, found] = position, size, offset
    runs[STRIDE, found], runs[COUNT, found], runs[CHECKED, found] = 0, 1, is_proven
    runs[HOST_HIGH, found], runs[HOST_LOW, found], runs[HOST_PORT, found] = high, low, port
    runs[UNSURE, found] = is_unsure
    return found + 1


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


@called
def looked_past(window: UInt8s, place: tuple[int, int, int], position: int, what: int) -> int:
    """Look past the end of a record that counts: it may be TORN, or more is to be read (BEYOND).

    Args:
        window: uint8, shape (n,).
        place: as for `judge`.
        position: of the record in the image.
        what: as `judge` says it.
    """
    start, size, left = place
    if what not in (WHOLE, PROVEN):
        return what
    end = start + load_i4(window, start + TOTAL_SIZE)
    if end + NEXT_BYTES > size and size < left:
        return BEYOND
    _, extra = hosts_extra(load_i4(window, start + SYS_FLAG))
    text = start + BODY + extra + load_i4(window, start + BODY_LENGTH + extra)
    at = (position - start, load_i8(window, start + PHYSICAL_OFFSET) - start)
    properties = properties_bytes(window, start, end)
    return TORN if is_torn(window, (text, end, left), at, properties) else what


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
    at, size, limit, window_position, left, found, known = place
    while True:
        start = next_magic(window, at + MAGIC_CODE, size) - MAGIC_CODE
        if start < at:
            return found, max(at, size - MAGIC_CODE - 3), DONE
        if start >= limit:
            return found, start, DONE
        if start + LONGEST_HEADER > size and size < left:
            return found, start, DONE
        if found == runs.shape[1]:
            return found, start, FULL
        position = window_position + start
        if known != NOTHING and start == place[0]:
            what = known
        else:
            what = judge(window, (start, size, left), counts, checksum)
            what = looked_past(window, (start, size, left), position, what)
        at = start + 1
        if what in (WHOLE, PROVEN, TORN):
            counts[FIRST] = min(counts[FIRST], position)
            found = add(window, (start, position, what), runs, found)
            at = start + load_i4(window, start + TOTAL_SIZE)
        elif what == BEYOND:
            return found, start, LONG
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
    found = 0
    while found < columns.shape[1] and start + BODY <= end:
        magic = load_i4(window, start + MAGIC_CODE)
        if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            break
        if load_i8(window, start + PHYSICAL_OFFSET) != offset + start:
            break
        what = judge(window, (start, end, NOWHERE), counts, checksum)
        if what not in (WHOLE, PROVEN) or fill(window, start, columns, found) != SOUND:
            break
        columns[row.POSITION, found] = window_position + start
        columns[row.PHYSICAL_OFFSET, found] = offset + start
        proven[found] = 1 if what == PROVEN else 0
        start += columns[row.SIZE, found] + stride
        found += 1
    return found, start


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


@kernel("int64(uint8[::1], int64, int64)")
def stored_crc(window: UInt8s, end: int, length: int) -> int:
    """Read the checksum that closes the properties of a record; see `property_crc`."""
    return property_crc(window, end, length)
