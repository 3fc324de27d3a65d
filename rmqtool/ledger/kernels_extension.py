"""The kernel that follows the units of a consume queue extension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.machine.compiled import kernel
from rmqtool.machine.intrinsics import load_i2, load_i8

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

HEAD: Final = EXT_UNIT.size
_AT: Final = EXT_UNIT.positions
AT_TAGS: Final = _AT["tags_code"]
AT_TIME: Final = _AT["msg_store_time"]
AT_BIT_MAP: Final = _AT["bit_map_size"]


@kernel("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:, ::1])")
def walk(window: UInt8s, size: int, start: int, columns: Int64s) -> tuple[int, int]:
    """Follow units; return how many, and the bytes they take: none where the units end.

    Args:
        window: uint8, shape (n,).
        size: bytes of it that are filled.
        start: where the window begins in the ext space.
        columns: int64, shape (4, m); filled with start, tags code, store time, bit map bytes.
    """
    count, position = 0, 0
    while position + HEAD <= size and count < columns.shape[1]:
        length = load_i2(window, position)
        bit_map = load_i2(window, position + AT_BIT_MAP)
        if length < HEAD or length != HEAD + bit_map:
            break
        if position + length > size:
            break
        columns[0, count] = start + position
        columns[1, count] = load_i8(window, position + AT_TAGS)
        columns[2, count] = load_i8(window, position + AT_TIME)
        columns[3, count] = bit_map
        count += 1
        position += length
    return count, position
