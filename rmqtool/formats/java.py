"""How Java computes: string hashes, integers that wrap, the CRC with its top bit cleared."""

from __future__ import annotations

from typing import Final
from zlib import crc32

_INT_SIGN: Final = 1 << 31
_LONG_SIGN: Final = 1 << 63
_INT_MASK: Final = 0xFFFFFFFF
_LONG_MASK: Final = 0xFFFFFFFFFFFFFFFF


def to_int32(number: int) -> int:
    """Wrap a number as Java's `int` does."""
    return ((number + _INT_SIGN) & _INT_MASK) - _INT_SIGN


def to_int64(number: int) -> int:
    """Wrap a number as Java's `long` does."""
    return ((number + _LONG_SIGN) & _LONG_MASK) - _LONG_SIGN


def string_hash(text: str) -> int:
    """Give `String#hashCode`, signed: over UTF-16 units, so one emoji counts as two."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & _INT_MASK
    return to_int32(value)


def key_hash(topic: str, key: str) -> int:
    """Give the hash under which the key index files a key of a topic; never negative.

    Source: IndexFile#indexKeyHashMethod, 4.9.3 to 5.5.0.
    """
    value = abs(string_hash(f"{topic}#{key}"))
    return 0 if value == _INT_SIGN else value  # Math.abs of the smallest int stays negative


def crc31(data: bytes | bytearray | memoryview) -> int:
    """Give the CRC-32 of zlib without its top bit.

    Source: UtilAll#crc32, 4.9.3 to 5.5.0.
    """
    return crc32(data) & 0x7FFFFFFF
