"""A kernel with known answers, which is asked before any other is run as machine code.

It takes each kind of argument and uses each instruction. If a release of numba or LLVM hands over
arguments in another way, or makes other code of an instruction, then its answers are wrong.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from rmqtool.machine.intrinsics import (
    call_crc32,
    differences,
    load_i1,
    load_i2,
    load_i4,
    load_i8,
    load_u1,
    mask_of,
    store_i4,
    store_i8,
    trailing_zeros,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.machine.arrays import Checksum, Int64s, UInt8s

SIGNATURE: Final = (
    "UniTuple(int64, 3)(uint8[::1], Tuple((int64, uint32[:, ::1])), UniTuple(int64, 2),"
    " int64[:, ::1], int32[::1])"
)
BYTES: Final = 80  # the first is 200, each is one more than the one before
PAIR: Final = (-3 << 40, 7)
ANSWERS: Final = (
    (7 * 210, -471219269047, 1),
    [
        [201, -55, -13621, -875770418, -3544384782113450795, 1 << 10, 0xFFFFFFFF, 40],
        [7, -3 << 40, 4_000_000_006, -9, 0, 0, 0, 0],
    ],
)
_ROUTINE: Final = ctypes.CFUNCTYPE(
    ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint64
)


def probe(
    window: UInt8s, checksum: Checksum, pair: tuple[int, int], table: Int64s, words: Int64s
) -> tuple[int, int, int]:
    """Use every instruction, and every argument.

    Args:
        window: uint8, shape (n,).
        checksum: address of a routine; uint32, shape (2, 3).
        pair: two numbers.
        table: int64, shape (2, 8); filled.
        words: int32, shape (n,).
    """
    routine, slices = checksum
    table[0, 0], table[0, 1] = load_u1(window, 1), load_i1(window, 1)
    table[0, 2], table[0, 3] = load_i2(window, 2), load_i4(window, 3)
    table[0, 4] = load_i8(window, 6)
    table[0, 5] = mask_of(window, 5, 215)
    table[0, 6] = differences(window, 0, 1)
    table[0, 7] = trailing_zeros(pair[0])
    store_i4(window, 41, pair[1])
    store_i8(window, 51, pair[0])
    table[1, 0], table[1, 1] = load_i4(window, 41), load_i8(window, 51)
    table[1, 2] = slices[1, 2] + slices.shape[1] + slices.shape[1]
    table[1, 3] = words[1] - words.size
    return call_crc32(window, 10, pair[1], routine), pair[0] // pair[1], pair[0] % pair[1]


def answers(run: Callable[..., Any]) -> tuple[Any, list[list[int]]]:
    """Ask what should be `probe` as machine code."""
    import numpy as np

    window = np.arange(200, 200 + BYTES).astype(np.uint8)
    slices = np.arange(3_999_999_995, 4_000_000_001).astype(np.uint32).reshape(2, 3)
    table = np.zeros((2, 8), np.int64)
    words = np.array([5, -6, 7], np.int32)
    routine = _ROUTINE(lambda _, place, length: int(place[0] * length))
    address = ctypes.cast(routine, ctypes.c_void_p).value
    returned = run(window, (address, slices), PAIR, table, words)
    return returned, table.tolist()
