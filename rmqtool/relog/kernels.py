"""Kernels that copy records, and write the fields that a new place changes.

`encoder` does the same to one record with the declarations; both are compared in the tests.
Source: DefaultAppendMessageCallback#doAppend, MessageDecoder#createCrc32, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.host import IPV4_HOST_BYTES, IPV6_BYTES, PORT_BYTES
from rmqtool.formats.message import MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2
from rmqtool.formats.properties import CRC32_RESERVED_LENGTH
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.machine.intrinsics import load_i4, store_i4, store_i8
from rmqtool.relog import fields as field
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_walk import (
    BODY,
    BODY_LENGTH,
    MAGIC_CODE,
    PHYSICAL_OFFSET,
    PREPARED_OFFSET,
    QUEUE_OFFSET,
    STORE_TIMESTAMP,
    SYS_FLAG,
    TOTAL_SIZE,
    V1_TOPIC_WIDTH,
    V2_TOPIC_WIDTH,
    hosts_extra,
)

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Checksum, Int64s, UInt8s

STORE_HOST: Final = STORE_TIMESTAMP + 8  # where it begins, with an IPv4 client
IPV4_HOST: Final = IPV4_HOST_BYTES
IPV6_HOST: Final = IPV6_BYTES + PORT_BYTES
STOREHOST_V6: Final = SysFlag.STOREHOSTADDRESS_V6_FLAG
CRC_ITEM: Final = CRC32_RESERVED_LENGTH
CRC_DIGITS: Final = 10
CRC_DIGITS_AT: Final = CRC_DIGITS + 1  # bytes before the end of the record
ZERO_DIGIT: Final = ord("0")
FNV_BASIS: Final = 0xCBF29CE484222325 - (1 << 64)
FNV_PRIME: Final = 0x100000001B3
PAST_TEXT: Final = 0xFF  # no byte of UTF-8
FROM, LENGTH, TO = range(3)  # rows of `moves`


@inlined
def copy(source: UInt8s, start: int, length: int, target: UInt8s, place: int) -> None:
    """Copy bytes from one array to another."""
    for number in range(length):
        target[place + number] = source[start + number]


@kernel("void(uint8[::1], int64[:, ::1], uint8[::1])")
def gather(window: UInt8s, moves: Int64s, out: UInt8s) -> None:
    """Copy stretches of bytes.

    Args:
        window: uint8, shape (n,); where they lie.
        moves: int64, shape (3, m): first byte, length, first byte in `out`.
        out: uint8; long enough.
    """
    for number in range(moves.shape[1]):
        start, length = moves[FROM, number], moves[LENGTH, number]
        copy(window, start, length, out, moves[TO, number])


@kernel("void(uint8[::1], int64[:, ::1], uint8[::1], int64, uint8[::1])")
def gather_changed(
    window: UInt8s, moves: Int64s, host: UInt8s, wanted_width: int, out: UInt8s
) -> None:
    """Copy records, each with another host as its broker, or of another version.

    Total size, magic code and the IPv6 bit follow.

    Args:
        window: uint8, shape (n,).
        moves: int64, shape (3, m): first byte, length, first byte in `out`.
        host: uint8, shape (8,) or (20,): address and port; shape (0,) leaves them.
        wanted_width: bytes of the length of the topic, which must fit; 0 leaves them.
        out: uint8; long enough for the records as they will be.
    """
    for number in range(moves.shape[1]):
        start, length, to = moves[FROM, number], moves[LENGTH, number], moves[TO, number]
        sys_flag = load_i4(window, start + SYS_FLAG)
        born, extra = hosts_extra(sys_flag)
        before = STORE_HOST + born
        own = IPV6_HOST if sys_flag & STOREHOST_V6 else IPV4_HOST
        copy(window, start, before, out, to)
        flags, at = sys_flag, to + before
        if host.size:
            copy(host, 0, host.size, out, at)
            at += host.size
            flags = sys_flag & ~STOREHOST_V6
            if host.size == IPV6_HOST:
                flags |= STOREHOST_V6
        else:
            copy(window, start + before, own, out, at)
            at += own
        rest = start + before + own
        magic = load_i4(window, start + MAGIC_CODE)
        width = V1_TOPIC_WIDTH if magic == MESSAGE_MAGIC_CODE else V2_TOPIC_WIDTH
        if wanted_width and wanted_width != width:
            body_length = max(load_i4(window, start + BODY_LENGTH + extra), 0)
            topic = start + BODY + extra + body_length
            copy(window, rest, topic - rest, out, at)
            at += topic - rest
            if wanted_width == V2_TOPIC_WIDTH:
                out[at] = 0
                out[at + 1] = window[topic]
                magic = MESSAGE_MAGIC_CODE_V2
            else:
                out[at] = window[topic + 1]
                magic = MESSAGE_MAGIC_CODE
            at += wanted_width
            rest = topic + width
        left = start + length - rest
        copy(window, rest, left, out, at)
        store_i4(out, to + MAGIC_CODE, magic)
        store_i4(out, to + SYS_FLAG, flags)
        store_i4(out, to + TOTAL_SIZE, at + left - to)


@kernel("void(uint8[::1], int64[:, ::1], Tuple((int64, uint32[:, ::1])))")
def stamp(raw: UInt8s, fields: Int64s, checksum: Checksum) -> None:
    """Write the fields of records that their new place decides; keep the property CRC right.

    Args:
        raw: uint8, shape (n,); the records, each whole.
        fields: int64, shape (ROWS, m); OFFSET, QUEUE_OFFSET and PREPARED are written.
        checksum: `crc.checksum()`.
    """
    for number in range(fields.shape[1]):
        start, size = fields[field.START, number], fields[field.SIZE, number]
        _, extra = hosts_extra(load_i4(raw, start + SYS_FLAG))
        store_i8(raw, start + PHYSICAL_OFFSET, fields[field.OFFSET, number])
        store_i8(raw, start + QUEUE_OFFSET, fields[field.QUEUE_OFFSET, number])
        store_i8(raw, start + PREPARED_OFFSET + extra, fields[field.PREPARED, number])
        if fields[field.HAS_CRC, number]:
            left = crc31(raw, start, size - CRC_ITEM, checksum)
            at = start + size - CRC_DIGITS_AT
            for digit in range(CRC_DIGITS):  # the lowest first
                raw[at + digit] = ZERO_DIGIT + left % 10
                left //= 10


@kernel("void(uint8[::1], int64[:, ::1], int64[::1])")
def hash_keys(window: UInt8s, facts: Int64s, hashes: Int64s) -> None:
    """Hash what tells messages apart, FNV-1a with 64 bits.

    That is topic and unique key; without a unique key, topic, queue, queue offset, store time and
    checksum of the body.

    Args:
        window: uint8, shape (n,).
        facts: int64, shape (8, m): start and length of the topic, and of the unique key; queue id,
            queue offset, store time, checksum of the body.
        hashes: int64, shape (m,).
    """
    for number in range(facts.shape[1]):
        value = FNV_BASIS
        for part in range(2):
            start, length = facts[2 * part, number], facts[2 * part + 1, number]
            for at in range(start, start + length):
                value = (value ^ window[at]) * FNV_PRIME
            value = (value ^ PAST_TEXT) * FNV_PRIME
        if not facts[3, number]:
            for fact in range(4, 8):
                value = (value ^ facts[fact, number]) * FNV_PRIME
                value ^= value >> 29  # numbers have few bits
        hashes[number] = value


@kernel("void(uint8[::1], int64[:, ::1], int64[::1])")
def hash_records(window: UInt8s, places: Int64s, hashes: Int64s) -> None:
    """Hash whole records, FNV-1a with 64 bits.

    Args:
        window: uint8, shape (n,).
        places: int64, shape (2, m): start and length.
        hashes: int64, shape (m,).
    """
    for number in range(places.shape[1]):
        value = FNV_BASIS
        start = places[0, number]
        for at in range(start, start + places[1, number]):
            value = (value ^ window[at]) * FNV_PRIME
        hashes[number] = value
