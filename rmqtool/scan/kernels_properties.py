"""Kernels' helpers that cut the properties of a record and note those that scans care for.

Source: MessageDecoder#string2messageProperties (4.9.1+), CommitLog#checkMessageAndReturnSize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats import properties as names
from rmqtool.formats.layout import big_endian, unsigned
from rmqtool.machine.compiled import called, inlined
from rmqtool.machine.intrinsics import (
    MASK_BYTES,
    differences,
    load_i8,
    load_u1,
    mask_of,
    trailing_zeros,
)
from rmqtool.scan import columns as row
from rmqtool.scan.kernels_hash import WORD, first_bytes, signed

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

NAME_VALUE_SEPARATOR: Final = names.NAME_VALUE_SEPARATOR[0]
PROPERTY_SEPARATOR: Final = names.PROPERTY_SEPARATOR[0]
ZERO_DIGIT: Final = 0x30
MINUS: Final = 0x2D
PLUS: Final = 0x2B

# What properties hold takes rows of the scratch: those that matter, each as the start of its
# value after the first byte of the properties, and the length of it.
TAGS, KEYS, UNIQUE_KEY, DELAY, INNER_NUM, INNER_BASE, CRC, DISPATCH, DISPATCH_OFFSET = range(9)
WANTED: Final = 9
MARKS: Final = 9  # marks of the record
ITEMS: Final = 10  # rows
# Records of one producer have properties of one shape: the same names at the same places, only
# values differ. A shape that was seen twice is remembered after its items: an example of it, and
# for each 32 bytes which of them belong to names and separators, and which to values.
EXAMPLE: Final = ITEMS  # where it begins in the window, its length; -1 for none
MISSES: Final = ITEMS + 1  # how many records in a row had another shape
BLOCKS: Final = ITEMS + 2
LARGEST_SHAPE: Final = 512  # bytes
SHAPE_ROWS: Final = BLOCKS + LARGEST_SHAPE // MASK_BYTES
SHAPES: Final = 16  # by the length of the properties; a power of two
FIRST_SHAPE: Final = ITEMS  # rows in front of it: what was found in properties of no known shape
STATE: Final = FIRST_SHAPE + SHAPES * SHAPE_ROWS  # scratch[STATE, 0]: keys collected so far
SCRATCH: Final = (STATE + 1, 2)  # shape of the scratch


def _words(name: str) -> tuple[int, ...]:
    """Give the first, the second and the last 8 bytes of a name as `load_i8` does.

    Of a shorter name there is only the first, as `first_bytes` gives it.
    """
    raw = name.encode()
    if len(raw) < WORD:
        return (unsigned(raw),)
    return tuple(big_endian(raw[at : at + WORD]) for at in (0, WORD, len(raw) - WORD))


# What the wanted names are told by: their lengths first, then their words.
SHORT: Final = len(names.TAGS)  # likewise KEYS
LONG: Final = len(names.UNIQ_KEY)  # likewise the CRC's
SELDOM: Final = (
    *(names.DELAY, names.INNER_NUM, names.INNER_BASE),
    *(names.INNER_MULTI_DISPATCH, names.INNER_MULTI_QUEUE_OFFSET),
)
SELDOM_LENGTHS: Final = tuple(map(len, SELDOM))
DELAY_LENGTH, NUM_LENGTH, BASE_LENGTH, DISPATCH_LENGTH, DISPATCH_OFFSET_LENGTH = SELDOM_LENGTHS
TAGS_WORD: Final = _words(names.TAGS)[0]
KEYS_WORD: Final = _words(names.KEYS)[0]
DELAY_WORD: Final = _words(names.DELAY)[0]
UNIQ_KEY_WORD: Final = _words(names.UNIQ_KEY)[0]
CRC_WORD: Final = _words(names.CRC32)[0]
NUM_WORDS: Final = _words(names.INNER_NUM)[::2]
BASE_WORDS: Final = _words(names.INNER_BASE)[::2]
DISPATCH_WORDS: Final = _words(names.INNER_MULTI_DISPATCH)
DISPATCH_OFFSET_WORDS: Final = _words(names.INNER_MULTI_QUEUE_OFFSET)
LARGEST_SHORT, LARGEST_INT, LARGEST_LONG = 2**15 - 1, 2**31 - 1, 2**63 - 1


@called
def which_seldom(window: UInt8s, start: int, length: int) -> int:
    """Say which of the less common wanted properties has this name; WANTED for none."""
    word, last = load_i8(window, start), load_i8(window, start + length - WORD)
    if length == DELAY_LENGTH:
        return DELAY if first_bytes(word, length) == DELAY_WORD else WANTED
    if length == NUM_LENGTH:
        return INNER_NUM if (word, last) == NUM_WORDS else WANTED
    if length == BASE_LENGTH:
        return INNER_BASE if (word, last) == BASE_WORDS else WANTED
    middle = load_i8(window, start + WORD)
    if length == DISPATCH_LENGTH:
        return DISPATCH if (word, middle, last) == DISPATCH_WORDS else WANTED
    return DISPATCH_OFFSET if (word, middle, last) == DISPATCH_OFFSET_WORDS else WANTED


@inlined
def which_property(window: UInt8s, start: int, length: int) -> int:
    """Say which wanted property has the name at `start`; WANTED for none."""
    word = load_i8(window, start)
    if length == SHORT:
        word = first_bytes(word, length)
        if word == TAGS_WORD:
            return TAGS
        return KEYS if word == KEYS_WORD else WANTED
    if length == LONG:
        if word == UNIQ_KEY_WORD:
            return UNIQUE_KEY
        return CRC if word == CRC_WORD else WANTED
    if length in SELDOM_LENGTHS:
        return which_seldom(window, start, length)
    return WANTED


@inlined
def take_item(
    window: UInt8s, start: int, name_end: int, end: int, offset: int, scratch: Int64s
) -> None:
    """Note one property item if it is a wanted one.

    Args:
        window: uint8, shape (n,).
        start: first byte of the item.
        name_end: its first 0x01; negative when it has none.
        end: its 0x02, or the end of the properties.
        offset: first byte of the properties.
        scratch: int64, shape SCRATCH.
    """
    if name_end <= start or name_end + 1 >= end:  # the reader drops empty names and values
        if end > start:
            scratch[MARKS, 0] |= row.MARK_DROPPED_ITEM
        return
    which = which_property(window, start, name_end - start)
    if which != WANTED:
        if scratch[which, 1] and which != UNIQUE_KEY:
            # 5.x brokers append the unique key of a batch to each of its messages: no oddity.
            scratch[MARKS, 0] |= row.MARK_DUPLICATE
        scratch[which, 0] = name_end + 1 - offset
        scratch[which, 1] = end - name_end - 1


@inlined
def cut_items(window: UInt8s, start: int, end: int, scratch: Int64s) -> None:
    """Cut properties at 0x02 and note the wanted ones; a later duplicate wins.

    A block of bytes at a time: one mask says where items end, another where names may.
    """
    scratch[:ITEMS] = 0
    item, name_end = start, -1
    for block in range(start, end + 1, MASK_BYTES):
        names = mask_of(window, block, NAME_VALUE_SEPARATOR)
        ends = mask_of(window, block, PROPERTY_SEPARATOR)
        if end - block < MASK_BYTES:  # the end counts as a separator: an empty item is not one
            last = 1 << (end - block)
            names, ends = names & (last - 1), ends & (last - 1) | last
        while ends:
            lowest = ends & -ends
            if name_end < 0 and names & (lowest - 1):
                name_end = block + trailing_zeros(names)
            position = block + trailing_zeros(ends)
            take_item(window, item, name_end, position, start, scratch)
            item, name_end = position + 1, -1
            ends ^= lowest
            names &= -lowest
        if name_end < 0 and names:
            name_end = block + trailing_zeros(names)


@inlined
def has_shape(window: UInt8s, start: int, length: int, scratch: Int64s, shape: int) -> bool:
    """Tell whether names and separators are those of a remembered shape of the same length."""
    example, wrong = scratch[shape + EXAMPLE, 0], 0
    for number in range((length + MASK_BYTES - 1) // MASK_BYTES):
        block = start + number * MASK_BYTES
        separators = mask_of(window, block, NAME_VALUE_SEPARATOR)
        separators |= mask_of(window, block, PROPERTY_SEPARATOR)
        wrong |= separators & scratch[shape + BLOCKS + number, 1]
        differing = differences(window, block, example + number * MASK_BYTES)
        wrong |= differing & scratch[shape + BLOCKS + number, 0]
    return wrong == 0


@called
def remember(window: UInt8s, start: int, length: int, scratch: Int64s, shape: int) -> None:
    """Remember the shape of properties that have just been cut."""
    for item in range(ITEMS):
        scratch[shape + item, 0], scratch[shape + item, 1] = scratch[item, 0], scratch[item, 1]
    scratch[shape + EXAMPLE, 0], scratch[shape + EXAMPLE, 1] = start, length
    scratch[shape + MISSES, 0] = 0
    scratch[shape + BLOCKS : shape + SHAPE_ROWS] = 0
    in_value = 0
    for position in range(length):
        byte = load_u1(window, start + position)
        if byte == PROPERTY_SEPARATOR:
            in_value = 0
        block = shape + BLOCKS + position // MASK_BYTES
        scratch[block, in_value] |= 1 << (position % MASK_BYTES)
        if byte == NAME_VALUE_SEPARATOR:
            in_value = 1


@inlined
def forget_shapes(scratch: Int64s) -> None:
    """Forget all shapes: their examples lie in another window."""
    for number in range(SHAPES):
        scratch[FIRST_SHAPE + number * SHAPE_ROWS + EXAMPLE, 1] = -1


@inlined
def read_properties(window: UInt8s, start: int, length: int, scratch: Int64s) -> int:
    """Find the properties that matter; give the row of the scratch at which they begin."""
    shape = FIRST_SHAPE + (length % SHAPES) * SHAPE_ROWS
    if scratch[shape + EXAMPLE, 1] == length and has_shape(window, start, length, scratch, shape):
        scratch[shape + MISSES, 0] = 0
        return shape
    cut_items(window, start, start + length, scratch)
    scratch[shape + MISSES, 0] += 1
    if scratch[shape + MISSES, 0] > 1 and length <= LARGEST_SHAPE:
        remember(window, start, length, scratch, shape)
    return 0


@called
def parse_number(window: UInt8s, value: tuple[int, int], largest: int) -> int:
    """Read a decimal number as Java's parse methods do.

    The smallest number of each type is taken for unparsable; no broker writes it.
    """
    position, end = value[0], value[0] + value[1]
    negative = window[position] == MINUS
    if negative or window[position] == PLUS:
        position += 1
    if position == end:
        return row.UNPARSABLE
    number = 0
    while position < end:
        digit = load_u1(window, position) - ZERO_DIGIT
        if not 0 <= digit <= 9 or number > (largest - digit) // 10:  # noqa: PLR2004
            return row.UNPARSABLE
        number = number * 10 + digit
        position += 1
    return -number if negative else number


@called
def parse_crc(window: UInt8s, start: int, length: int) -> int:
    """Read a property CRC: decimal digits, least significant first, wrapping as Java's int.

    Source: CommitLog#checkMessageAndReturnSize, 5.2.0 to 5.5.0, which takes a negative result
    for "not found".
    """
    value = 0
    for position in range(start + length - 1, start - 1, -1):
        value = (value * 10 + load_u1(window, position) - ZERO_DIGIT) & 0xFFFFFFFF
    value = signed(value)
    return value if value >= 0 else row.UNPARSABLE
