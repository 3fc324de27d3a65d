"""Kernels that judge what has the magic code of a record, anywhere in a window.

A record counts when all its lengths agree and its body has its checksum; one with an empty body,
which has none, when a neighbour in the image agrees with its physical offset.
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
from rmqtool.machine.intrinsics import load_i1, load_i2, load_i4, load_i8, load_u1
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_walk import (
    BLANK_SIZE,
    BODY,
    BODY_CRC,
    BODY_LENGTH,
    ENTRY_POS,
    MAGIC_CODE,
    PHYSICAL_OFFSET,
    PROPERTIES_WIDTH,
    QUEUE_ID,
    QUEUE_OFFSET,
    STORE_TIMESTAMP,
    STOREHOST_V6,
    SYS_FLAG,
    TOTAL_SIZE,
    V1_TOPIC_WIDTH,
    V2_TOPIC_WIDTH,
    hosts_extra,
)
from rmqtool.scan.long_record import LONGEST_TAIL

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Checksum, Int64s, UInt8s

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
SECTOR: Final = 512  # bytes: the least that disks and file systems place files by
NEXT_BYTES: Final = DLEDGER_BODY_OFFSET + BODY  # past a record, that tell whether another follows
ALWAYS_JUDGED: Final = 4096  # bytes of a body that is judged whatever was read before

LARGEST_PORT: Final = 0xFFFF
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


@called
def property_crc(window: UInt8s, end: int, length: int) -> int:
    """Read the checksum that closes the properties of a record; -1 where there is not one.

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
    crc = 0
    for number in range(CRC_DIGITS):
        digit = load_u1(window, end - 2 - number) - ZERO_DIGIT
        if digit < 0 or digit > 9:  # noqa: PLR2004 - digits
            return -1
        crc = 10 * crc + digit
    return crc


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


@inlined
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
    measured = crc31(window, start, end - start - CRC32_RESERVED_LENGTH, checksum)
    return PROVEN if measured == stored else HURT


@inlined
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


@inlined
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


@kernel("int64(uint8[::1], int64, int64)")
def stored_crc(window: UInt8s, end: int, length: int) -> int:
    """Read the checksum that closes the properties of a record; see `property_crc`."""
    return property_crc(window, end, length)
