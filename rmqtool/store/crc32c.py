"""CRC-32C, which RocksDB keeps of each block of a table and of each record of its logs.

isal's routine where its wheel exports it, else a table in Python, which is 1,000 times slower.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

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
            found = getattr(ctypes.CDLL(spec.origin if spec else None), ROUTINE)
        except (ImportError, OSError, AttributeError):
            continue
        found.restype = ctypes.c_uint32
        found.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32]
        routine: Callable[[bytes, int, int], int] = found
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
