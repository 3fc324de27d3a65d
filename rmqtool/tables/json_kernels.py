"""Kernels that write texts and times as JSON.

A column's texts are pieces: bytes, and where each row's piece begins and ends in them.
What comes out is, byte for byte, what `rmqtool.render.values` writes row by row; the tests hold
the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.machine.compiled import inlined, kernel
from rmqtool.tables.copying import copy_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    UInt8s: TypeAlias = npt.NDArray[np.uint8]
    Int64s: TypeAlias = npt.NDArray[np.int64]
    Pieces: TypeAlias = tuple[UInt8s, Int64s, Int64s]
    Tables: TypeAlias = tuple[UInt8s, Int64s, UInt8s, UInt8s]

# A column's texts, in numba's notation: bytes, starts, ends.
PIECES: Final = "Tuple((uint8[::1], int64[::1], int64[::1]))"
TABLES: Final = "Tuple((uint8[::1], int64[:, ::1], uint8[::1], uint8[::1]))"

QUOTE: Final = 0x22
SPACE: Final = 0x20
COLON: Final = 0x3A
BACKSLASH: Final = 0x5C
DELETE: Final = 0x7F
LETTER_U: Final = 0x75
ZERO: Final = 0x30
TIME_BYTES: Final = 26  # "2026-11-21T02:03:04.005Z" with its quotes
FIRST_TIME: Final = -62_167_219_200_000  # year 0, ms since 1970
LAST_TIME: Final = 253_402_300_799_999  # year 9999
ESCAPE_BYTES: Final = 6
BEYOND: Final = 0  # in the table of sizes: no ASCII, look at the whole character
SECOND_PLANE: Final = 0x10000
_SHORT: Final = {0x08: 0x62, 0x09: 0x74, 0x0A: 0x6E, 0x0C: 0x66, 0x0D: 0x72, 0x22: 0x22, 0x5C: 0x5C}
HEX_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
# What a byte is escaped to after the backslash, 0 where there is no short form.
SHORT: Final = np.array([_SHORT.get(byte, 0) for byte in range(256)], np.uint8)
# Characters that JSON leaves alone and a terminal or an editor may act on: first and last.
HIDDEN: Final = np.array(
    [
        *[(0x80, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200F)],
        *[(0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)],
        (0xE0000, 0xE007F),
    ],
    np.int64,
)


def _sizes() -> UInt8s:
    """Give the bytes that each byte of a text takes in JSON."""
    sizes = np.ones(256, np.uint8)
    sizes[:0x20] = ESCAPE_BYTES
    sizes[0x7F] = ESCAPE_BYTES
    sizes[0x80:] = BEYOND
    sizes[list(_SHORT)] = 2
    return sizes


ESCAPES: Final = (_sizes(), HIDDEN, SHORT, HEX_DIGITS)


@inlined
def decode_point(text: UInt8s, start: int) -> tuple[int, int]:
    """Give one character beyond ASCII and its bytes; the text is well-formed UTF-8."""
    lead = int(text[start])
    width = 2 + int(lead >= 0xE0) + int(lead >= 0xF0)  # noqa: PLR2004 - UTF-8's own
    point = lead & (0x7F >> width)
    for number in range(1, width):
        point = (point << 6) | (int(text[start + number]) & 0x3F)
    return point, width


@inlined
def is_hidden(point: int, hidden: Int64s) -> bool:
    """Say whether a character has to be escaped, as nobody would see it."""
    for number in range(hidden.shape[0]):  # noqa: SIM110 - numba knows no any()
        if hidden[number, 0] <= point <= hidden[number, 1]:
            return True
    return False


@kernel("int64(uint8[::1], int64)")
def is_plain(text: UInt8s, size: int) -> int:
    """Say whether a text stands in JSON as it is (1), without any escape, or not (0)."""
    odd = 0
    for position in range(size):
        byte = text[position]
        odd |= (byte < SPACE) | (byte >= DELETE) | (byte == QUOTE) | (byte == BACKSLASH)
    return 0 if odd else 1


@kernel(f"void({PIECES}, {TABLES}, int64[::1])")
def measure_texts(pieces: Pieces, tables: Tables, lengths: Int64s) -> None:
    """Give the bytes that each text takes in JSON, with its quotes.

    Args:
        pieces: well-formed UTF-8.
        tables: `ESCAPES`.
        lengths: int64, shape (n,); filled.
    """
    text, starts, ends = pieces
    sizes, hidden, _, _ = tables
    for number in range(lengths.size):
        position, end = starts[number], ends[number]
        length = 2
        while position < end:
            size = int(sizes[text[position]])
            if size != BEYOND:
                length += size
                position += 1
                continue
            point, width = decode_point(text, position)
            position += width
            if is_hidden(point, hidden):
                width = ESCAPE_BYTES if point < SECOND_PLANE else 2 * ESCAPE_BYTES
            length += width
        lengths[number] = length


@inlined
def put_unit(out: UInt8s, cursor: int, unit: int, digits: UInt8s) -> int:
    r"""Write one UTF-16 unit as `\u1234`; give the next cursor, as all that follow do."""
    out[cursor] = BACKSLASH
    out[cursor + 1] = LETTER_U
    for number in range(4):
        out[cursor + 2 + number] = digits[(unit >> (12 - 4 * number)) & 15]
    return cursor + ESCAPE_BYTES


@inlined
def copy(out: UInt8s, cursor: int, text: UInt8s, start: int, end: int) -> int:
    """Write a stretch of bytes as it is."""
    copy_bytes(out, cursor, text, start, end - start)
    return cursor + end - start


@inlined
def put_ascii(out: UInt8s, cursor: int, byte: int, short: UInt8s, digits: UInt8s) -> int:
    """Write an ASCII character that JSON or a terminal would take for something else."""
    if short[byte] == 0:
        return put_unit(out, cursor, byte, digits)
    out[cursor] = BACKSLASH
    out[cursor + 1] = short[byte]
    return cursor + 2


@inlined
def put_point(out: UInt8s, cursor: int, point: int, digits: UInt8s) -> int:
    """Write a character beyond ASCII that nobody would see."""
    if point < SECOND_PLANE:
        return put_unit(out, cursor, point, digits)
    point -= SECOND_PLANE
    cursor = put_unit(out, cursor, 0xD800 + (point >> 10), digits)
    return put_unit(out, cursor, 0xDC00 + (point & 0x3FF), digits)


@inlined
def put_escaped(
    out: UInt8s, cursor: int, text: UInt8s, start: int, end: int, tables: Tables
) -> int:
    """Write a text of which at least one character is escaped."""
    sizes, hidden, short, digits = tables
    position = start
    while position < end:
        byte = int(text[position])
        if sizes[byte] == BEYOND:
            point, width = decode_point(text, position)
            if is_hidden(point, hidden):
                cursor = put_point(out, cursor, point, digits)
            else:
                cursor = copy(out, cursor, text, position, position + width)
            position += width
            continue
        if sizes[byte] == 1:
            out[cursor] = byte
            cursor += 1
        else:
            cursor = put_ascii(out, cursor, byte, short, digits)
        position += 1
    return cursor


@kernel(f"void({PIECES}, {TABLES}, int64[::1], uint8[::1])")
def write_texts(pieces: Pieces, tables: Tables, offsets: Int64s, out: UInt8s) -> None:
    """Write each text as a JSON string.

    Args:
        pieces: well-formed UTF-8.
        tables: `ESCAPES`.
        offsets: int64, shape (n + 1,); where each string belongs in `out`, from `measure_texts`.
        out: uint8; filled.
    """
    text, starts, ends = pieces
    for number in range(starts.size):
        start, end, cursor = starts[number], ends[number], offsets[number]
        out[cursor] = QUOTE
        cursor += 1
        if offsets[number + 1] - cursor - 1 == end - start:  # an escape would be longer
            cursor = copy(out, cursor, text, start, end)
        else:
            cursor = put_escaped(out, cursor, text, start, end, tables)
        out[cursor] = QUOTE


@inlined
def put_digits(out: UInt8s, cursor: int, value: int, count: int, then: int) -> int:
    """Write a number with a fixed count of digits, and one byte after it."""
    for number in range(count - 1, -1, -1):
        out[cursor + number] = ZERO + value % 10
        value //= 10
    out[cursor + count] = then
    return cursor + count + 1


@kernel("void(int64[::1], uint8[::1])")
def write_times(times: Int64s, out: UInt8s) -> None:
    """Write each time of the years 0 to 9999 as ISO 8601, TIME_BYTES each.

    Args:
        times: int64, shape (n,), ms since 1970; the caller writes those outside of that range.
        out: uint8, shape (n * TIME_BYTES,); filled.
    """
    for number in range(times.size):
        time = min(max(times[number], FIRST_TIME), LAST_TIME)
        days, rest = time // 86_400_000, time % 86_400_000
        # Days since 1 March of the year 0, as leap days then come last (H. Hinnant's algorithm).
        days += 719_468
        era, day = days // 146_097, days % 146_097
        year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
        day -= 365 * year + year // 4 - year // 100
        month = (5 * day + 2) // 153
        day -= (153 * month + 2) // 5 - 1
        month = month + 3 if month < 10 else month - 9  # noqa: PLR2004 - March is month 0
        year += 400 * era + (month <= 2)  # noqa: PLR2004
        cursor = number * TIME_BYTES
        out[cursor] = QUOTE
        cursor = put_digits(out, cursor + 1, year, 4, 0x2D)
        cursor = put_digits(out, cursor, month, 2, 0x2D)
        cursor = put_digits(out, cursor, day, 2, 0x54)
        cursor = put_digits(out, cursor, rest // 3_600_000, 2, COLON)
        cursor = put_digits(out, cursor, rest // 60_000 % 60, 2, COLON)
        cursor = put_digits(out, cursor, rest // 1000 % 60, 2, 0x2E)
        cursor = put_digits(out, cursor, rest % 1000, 3, 0x5A)
        out[cursor] = QUOTE
