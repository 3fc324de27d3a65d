"""Kernels that read the texts of records: copy them, cut keys and properties, compare them.

All work on stretches of a window, each a start and a length. The rules are those of
`rmqtool.formats.properties`; the tests hold the two against each other.
Source: MessageDecoder#string2messageProperties, 4.9.1 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from rmqtool.formats import properties
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.tables.copying import copy_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    UInt8s: TypeAlias = npt.NDArray[np.uint8]
    Int32s: TypeAlias = npt.NDArray[np.int32]
    Int64s: TypeAlias = npt.NDArray[np.int64]
    Stretches: TypeAlias = tuple[Int64s, Int64s]

NAME_VALUE_SEPARATOR: Final = properties.NAME_VALUE_SEPARATOR[0]
PROPERTY_SEPARATOR: Final = properties.PROPERTY_SEPARATOR[0]
KEY_SEPARATOR: Final = 0x20
STRETCHES: Final = "UniTuple(int64[::1], 2)"
# Rows of the matrix of properties.
NAME_START, NAME_LENGTH, VALUE_START, VALUE_LENGTH = range(4)
ITEM_ROWS: Final = 4


@kernel(f"int64(uint8[::1], {STRETCHES}, int32[::1], uint8[::1])")
def gather(window: UInt8s, stretches: Stretches, offsets: Int32s, out: UInt8s) -> int:
    """Copy stretches after each other; say whether all of it is ASCII (1) or not (0).

    Args:
        window: uint8.
        stretches: n starts and lengths.
        offsets: int32, shape (n + 1,); filled with where each begins in `out`.
        out: uint8; filled.
    """
    starts, lengths = stretches
    cursor = 0
    for number in range(starts.size):
        offsets[number] = cursor
        copy_bytes(out, cursor, window, starts[number], lengths[number])
        cursor += lengths[number]
    offsets[starts.size] = cursor
    seen = 0
    for position in range(cursor):
        seen |= out[position]
    return 1 if seen < 0x80 else 0  # noqa: PLR2004 - ASCII


@kernel(f"int64(uint8[::1], {STRETCHES}, int32[::1], int64[:, ::1])")
def cut_keys(window: UInt8s, stretches: Stretches, offsets: Int32s, keys: Int64s) -> int:
    """Cut texts at single spaces, leave out empty pieces, and give the count of all pieces.

    Args:
        window: uint8.
        stretches: n starts and lengths.
        offsets: int32, shape (n + 1,); filled with the number of each text's first piece.
        keys: int64, shape (2, m); filled with start and length of each piece.
    """
    starts, lengths = stretches
    count = 0
    for number in range(starts.size):
        offsets[number] = count
        begin, end = starts[number], starts[number] + lengths[number]
        for position in range(begin, end + 1):
            if position < end and window[position] != KEY_SEPARATOR:
                continue
            if position > begin:
                keys[0, count] = begin
                keys[1, count] = position - begin
                count += 1
            begin = position + 1
    offsets[starts.size] = count
    return count


@inlined
def equal(window: UInt8s, start: int, text: UInt8s, other: int, length: int) -> bool:
    """Compare two stretches of the same length."""
    for number in range(length):  # noqa: SIM110 - numba knows no all()
        if window[start + number] != text[other + number]:
            return False
    return True


@inlined
def next_item(window: UInt8s, position: int, end: int) -> tuple[int, int]:
    """Give where the name of the item at `position` ends, and where the item does.

    The first is negative when there is no separator between name and value.
    """
    middle = -1
    while position < end and window[position] != PROPERTY_SEPARATOR:
        if middle < 0 and window[position] == NAME_VALUE_SEPARATOR:
            middle = position
        position += 1
    return middle, position


@inlined
def named_alike(window: UInt8s, items: Int64s, first: int, count: int) -> int:
    """Give the item of the same record that has the name of item `count`; `count` if none has."""
    start, length = items[NAME_START, count], items[NAME_LENGTH, count]
    for item in range(first, count):
        if items[NAME_LENGTH, item] == length and equal(
            window, start, window, items[NAME_START, item], length
        ):
            return item
    return count


@kernel(f"int64(uint8[::1], {STRETCHES}, int32[::1], int64[:, ::1], uint8[::1])")
def cut_properties(
    window: UInt8s, stretches: Stretches, offsets: Int32s, items: Int64s, lossy: UInt8s
) -> int:
    """Cut properties into items as the broker's reader does; give the count of all that are kept.

    Items without name or value are dropped; of equal names the first keeps its place and the
    last its value.

    Args:
        window: uint8.
        stretches: n starts and lengths.
        offsets: int32, shape (n + 1,); filled with the number of each record's first item.
        items: int64, shape (ITEM_ROWS, m); filled.
        lossy: uint8, shape (n,); set to 1 where the items do not hold all that is stored.
    """
    starts, lengths = stretches
    count = 0
    for number in range(starts.size):
        offsets[number] = first = count
        lossy[number] = 0
        position, end = starts[number], starts[number] + lengths[number]
        while position < end:
            middle, stop = next_item(window, position, end)
            if middle <= position or middle + 1 >= stop:
                lossy[number] = 1
                position = stop + 1
                continue
            items[NAME_START, count] = position
            items[NAME_LENGTH, count] = middle - position
            place = named_alike(window, items, first, count)
            lossy[number] |= place != count
            items[VALUE_START, place] = middle + 1
            items[VALUE_LENGTH, place] = stop - middle - 1
            count += place == count
            position = stop + 1
    offsets[starts.size] = count
    return count


@kernel(f"void(uint8[::1], {STRETCHES}, uint8[::1], uint8[::1])")
def match_text(window: UInt8s, stretches: Stretches, wanted: UInt8s, mask: UInt8s) -> None:
    """Clear the mask where a text is not the wanted one.

    Args:
        window: uint8.
        stretches: n starts and lengths.
        wanted: uint8; the text.
        mask: uint8, shape (n,).
    """
    starts, lengths = stretches
    for number in range(starts.size):
        if lengths[number] != wanted.size or not equal(
            window, starts[number], wanted, 0, wanted.size
        ):
            mask[number] = 0


@kernel(f"void(uint8[::1], {STRETCHES}, {STRETCHES}, uint8[::1], uint8[::1])")
def match_key(
    window: UInt8s, keys: Stretches, unique_keys: Stretches, wanted: UInt8s, mask: UInt8s
) -> None:
    """Clear the mask where neither a key nor the unique key is the wanted one.

    Args:
        window: uint8.
        keys: n starts and lengths of KEYS.
        unique_keys: n starts and lengths of UNIQ_KEY.
        wanted: uint8; the key.
        mask: uint8, shape (n,).
    """
    starts, lengths = keys
    for number in range(starts.size):
        start = unique_keys[0][number]
        if unique_keys[1][number] == wanted.size and equal(window, start, wanted, 0, wanted.size):
            continue
        begin, end = starts[number], starts[number] + lengths[number]
        is_match = False
        for position in range(begin, end + 1):
            if position < end and window[position] != KEY_SEPARATOR:
                continue
            if position - begin == wanted.size and equal(window, begin, wanted, 0, wanted.size):
                is_match = wanted.size > 0
            begin = position + 1
        if not is_match:
            mask[number] = 0


@kernel(f"void(uint8[::1], {STRETCHES}, uint8[::1], int64[:, ::1])")
def find_values(window: UInt8s, stretches: Stretches, name: UInt8s, values: Int64s) -> None:
    """Find the value of one property in each record; of equal names the last.

    Args:
        window: uint8.
        stretches: n starts and lengths of properties.
        name: uint8; of the property.
        values: int64, shape (2, n); filled with start and length, which is 0 without one.
    """
    starts, lengths = stretches
    for number in range(starts.size):
        position, end = starts[number], starts[number] + lengths[number]
        values[0, number], values[1, number] = position, 0
        while position < end:
            middle, stop = next_item(window, position, end)
            length = stop - middle - 1  # without a value the item is dropped
            is_named = middle - position == name.size and length > 0
            if is_named and equal(window, position, name, 0, name.size):
                values[0, number], values[1, number] = middle + 1, length
            position = stop + 1


@kernel(f"void(uint8[::1], {STRETCHES}, UniTuple(int64, 2), uint8[:, ::1], uint8[:, ::1])")
def write_hex(
    window: UInt8s, places: Stretches, widths: tuple[int, int], digits: UInt8s, out: UInt8s
) -> None:
    """Write two stretches of each record as hex digits, one after the other.

    Args:
        window: uint8.
        places: where the first stretch of each record begins, and where the second does.
        widths: bytes of the first and of the second.
        digits: uint8, shape (256, 2); the two digits of each byte.
        out: uint8, shape (n, 2 * sum of the widths); filled.
    """
    for number in range(out.shape[0]):
        cursor = 0
        for which in range(2):
            start = places[which][number]
            for position in range(start, start + widths[which]):
                byte = window[position]
                out[number, cursor] = digits[byte, 0]
                out[number, cursor + 1] = digits[byte, 1]
                cursor += 2
