"""CRC-32 inside a kernel: isal's routine where its wheel exports it, else tables.

The address of the routine differs in each process, so it is an argument of the kernels: what
they are compiled to can be kept on disk. isal is some 15 times as fast as the tables.
Source: UtilAll#crc32, 4.9.3 to 5.5.0, which clears the top bit.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.machine.compiled import called, inlined
from rmqtool.machine.intrinsics import call_crc32, load_u1

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Checksum, UInt8s, UInt32s

ROUTINE: Final = "crc32_gzip_refl"
POLYNOMIAL: Final = 0xEDB88320
SLICES: Final = 16  # bytes that one round of the table form takes
WITHOUT_TOP_BIT: Final = 0x7FFFFFFF


@cache
def address() -> int:
    """Give the address of isal's CRC-32 in this process; 0 where the wheel hides it."""
    for module in ("isal.isal_zlib", "isal.igzip_lib"):
        try:
            spec = find_spec(module)
            library = ctypes.PyDLL(spec.origin if spec else None)
            routine = ctypes.cast(getattr(library, ROUTINE), ctypes.c_void_p).value
        except (ImportError, OSError, AttributeError, ValueError):
            continue
        if routine:
            return routine
    return 0


@cache
def tables() -> UInt32s:
    """Give the tables of slicing-by-16: uint32, shape (16, 256)."""
    made = np.zeros((SLICES, 256), np.uint32)
    made[0] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        made[0] = (made[0] >> 1) ^ (made[0] & 1) * np.uint32(POLYNOMIAL)
    for number in range(1, SLICES):
        made[number] = (made[number - 1] >> 8) ^ made[0][made[number - 1] & 0xFF]
    return made


def checksum(*, by_tables: bool = False) -> Checksum:
    """Give what kernels need for the CRC: the address of a routine, 0 for none, and the tables.

    Args:
        by_tables: do not take isal's routine, even if it is there.
    """
    return 0 if by_tables else address(), tables()


@inlined
def crc31(window: UInt8s, start: int, length: int, checksum: Checksum) -> int:
    """Give the CRC-32 of a stretch of the window, its top bit cleared; 0 for no bytes.

    Args:
        window: uint8, shape (n,).
        start: first byte.
        length: bytes; not positive counts as none.
        checksum: what `checksum()` gave.
    """
    routine, slices = checksum
    if length <= 0:
        return 0
    if routine:
        return call_crc32(window, start, length, routine) & WITHOUT_TOP_BIT
    return _by_tables(window, start, length, slices) & WITHOUT_TOP_BIT


@called
def _by_tables(window: UInt8s, start: int, length: int, slices: UInt32s) -> int:
    """Give the CRC-32 of a stretch of the window, 16 bytes a round."""
    value, end = 0xFFFFFFFF, start + length
    while start + SLICES <= end:
        mixed = 0
        for number in range(SLICES):
            byte = load_u1(window, start + number) ^ (value & 0xFF)
            value >>= 8  # nothing is left of it after four bytes
            mixed ^= slices[SLICES - 1 - number, byte]
        value = mixed
        start += SLICES
    while start < end:
        value = (value >> 8) ^ slices[0, (value ^ load_u1(window, start)) & 0xFF]
        start += 1
    return value ^ 0xFFFFFFFF
