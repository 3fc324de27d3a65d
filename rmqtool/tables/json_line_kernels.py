"""Kernels that put pieces of JSON together: lists, objects, lines.

A column's texts are pieces, as in `json_kernels`. A start below zero stands for no piece: `NULL`,
or a `NUMBER`, which is then in place of the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from rmqtool.machine.compiled import inlined, kernel
from rmqtool.tables.copying import copy_bytes, copy_memory
from rmqtool.tables.json_kernels import COLON, PIECES, QUOTE, ZERO

if TYPE_CHECKING:
    from rmqtool.tables.json_kernels import Int64s, Pieces, UInt8s

    Fields: TypeAlias = tuple[UInt8s, Int64s]
    Columns: TypeAlias = tuple[Int64s, Int64s]

NULL: Final = -2
NUMBER: Final = -3
NUMBER_BYTES: Final = 20  # "-9223372036854775808"
LARGEST_REST: Final = (1 << 60) - 1  # of an integer without its last digit
NULL_TEXT: Final = tuple(b"null")
SLACK: Final = 32  # bytes that are there after each text and may be read, or written, in one go
FIELDS: Final = "Tuple((uint8[::1], int64[:, ::1]))"
COLUMNS: Final = "UniTuple(int64[:, ::1], 2)"

# Rows of the matrix of fields: bounds of the name, whether texts need quotes, address of the first.
NAME_FROM, NAME_TO, QUOTES, ADDRESS = range(4)
FIELD_ROWS: Final = 4

COMMA: Final = 0x2C
MINUS: Final = 0x2D
BRACE: Final = 0x7B
END_BRACE: Final = 0x7D
LINE_FEED: Final = 0x0A


@inlined
def copy_short(out: UInt8s, cursor: int, text: UInt8s, start: int, end: int) -> int:
    """Write a stretch of bytes, most often of a few, after which both sides have SLACK."""
    copy_bytes(out, cursor, text, start, SLACK)  # no call, as the length is known
    if end - start > SLACK:
        copy_bytes(out, cursor + SLACK, text, start + SLACK, end - start - SLACK)
    return cursor + end - start


@inlined
def put_text(out: UInt8s, cursor: int, text: UInt8s, start: int, end: int, quotes: int) -> int:
    """Write a stretch of bytes that has SLACK after it, in quotes or as it is."""
    if quotes:
        out[cursor] = QUOTE
        cursor = copy_short(out, cursor + 1, text, start, end)
        out[cursor] = QUOTE
        return cursor + 1
    return copy_short(out, cursor, text, start, end)


@inlined
def copy_out(out: UInt8s, cursor: int, address: int, length: int) -> int:
    """Do the same as `copy_short` with bytes at an address."""
    copy_memory(out, cursor, address, SLACK)
    if length > SLACK:
        copy_memory(out, cursor + SLACK, address + SLACK, length - SLACK)
    return cursor + length


@inlined
def put_null(out: UInt8s, cursor: int) -> int:
    """Write that there is nothing."""
    for place in range(4):
        out[cursor + place] = NULL_TEXT[place]
    return cursor + 4


@inlined
def put_number(out: UInt8s, cursor: int, number: int) -> int:
    """Write an integer."""
    digit, rest = number % 10, number // 10
    if number < 0:
        out[cursor] = MINUS
        cursor += 1
        if digit:  # the smallest integer has no positive twin, all that is left of it has
            digit, rest = 10 - digit, rest + 1
        rest = -rest
    rest &= LARGEST_REST  # so the compiler knows its sign, and divides without looking at it
    end, power = cursor + 1, 1
    while power <= rest:
        end, power = end + 1, 10 * power
    out[end - 1] = ZERO + digit
    place = end - 2
    while rest:
        out[place] = ZERO + rest % 10
        place, rest = place - 1, rest // 10
    return end


@kernel(f"int64(int64[::1], {PIECES}, {PIECES}, UniTuple(int64, 3), int64[::1], uint8[::1])")
def write_groups(
    groups: Int64s,
    names: Pieces,
    values: Pieces,
    marks: tuple[int, int, int],
    offsets: Int64s,
    out: UInt8s,
) -> int:
    """Write lists or objects of pieces; give the bytes that were written.

    Args:
        groups: int64, shape (n + 1,); number of the first piece of each list or object.
        names: m pieces; without starts for lists.
        values: m pieces.
        marks: the opening byte and 256 times the closing one; whether names, and whether values
            are still to be put in quotes.
        offsets: int64, shape (n + 1,); filled with where each group begins.
        out: uint8; filled; it has room for eight bytes a piece and SLACK beside all texts.
    """
    name_text, name_starts, name_ends = names
    value_text, value_starts, value_ends = values
    brackets, name_quotes, value_quotes = marks
    cursor = 0
    for number in range(groups.size - 1):
        offsets[number] = cursor
        out[cursor] = brackets & 0xFF
        cursor += 1
        for piece in range(groups[number], groups[number + 1]):
            if piece > groups[number]:
                out[cursor] = COMMA
                cursor += 1
            if name_starts.size:
                start, end = name_starts[piece], name_ends[piece]
                cursor = put_text(out, cursor, name_text, start, end, name_quotes)
                out[cursor] = COLON
                cursor += 1
            start, end = value_starts[piece], value_ends[piece]
            cursor = put_text(out, cursor, value_text, start, end, value_quotes)
        out[cursor] = brackets >> 8
        cursor += 1
    offsets[groups.size - 1] = cursor
    return cursor


@kernel(f"int64({FIELDS}, {COLUMNS})")
def room_for_lines(fields: Fields, columns: Columns) -> int:
    """Give bytes that suffice for the lines that `write_lines` makes of the same."""
    _, facts = fields
    starts, ends = columns
    room: int = 3 * starts.shape[1] + SLACK
    for field in range(starts.shape[0]):
        name = facts[NAME_TO, field] - facts[NAME_FROM, field]
        for number in range(starts.shape[1]):
            is_text = starts[field, number] >= 0
            text = ends[field, number] - starts[field, number] + 2
            room += name + (text if is_text else NUMBER_BYTES)
    return room


@kernel(f"int64({FIELDS}, {COLUMNS}, uint8[::1])")
def write_lines(fields: Fields, columns: Columns, out: UInt8s) -> int:
    """Write rows as JSON lines; give the bytes that were written.

    Args:
        fields: names with the comma before and the colon after them; int64, shape
            (FIELD_ROWS, f).
        columns: where the pieces start and end, int64, shape (f, n), counted from the address of
            their field; the bytes there have SLACK, and the caller keeps them.
        out: uint8; filled.
    """
    names, facts = fields
    starts, ends = columns
    cursor = 0
    for number in range(starts.shape[1]):
        begin = cursor
        for field in range(starts.shape[0]):
            start, end = starts[field, number], ends[field, number]
            cursor = copy_short(out, cursor, names, facts[NAME_FROM, field], facts[NAME_TO, field])
            if start >= 0:
                address, quotes = facts[ADDRESS, field] + start, facts[QUOTES, field]
                out[cursor] = QUOTE  # overwritten where there are none
                cursor = copy_out(out, cursor + quotes, address, end - start)
                out[cursor] = QUOTE
                cursor += quotes
            elif start == NUMBER:
                cursor = put_number(out, cursor, end)
            else:
                cursor = put_null(out, cursor)
        out[begin] = BRACE  # in place of the first field's comma
        cursor = max(cursor, begin + 1)
        out[cursor] = END_BRACE
        out[cursor + 1] = LINE_FEED
        cursor += 2
    return cursor
