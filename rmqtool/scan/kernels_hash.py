"""Java's `String#hashCode` of UTF-8 bytes, inside kernels.

The hash runs over UTF-16 units. Text that is plain ASCII, nearly all of it, goes eight
characters at a time; other text is decoded as Java decodes it, which replaces a malformed stretch
by U+FFFD in its own way (an encoded surrogate is one U+FFFD there, three in Python).
Source: String#hashCode; JDK UTF_8.Decoder#decode with CodingErrorAction.REPLACE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.machine.compiled import called, inlined
from rmqtool.machine.intrinsics import load_i8, load_u1

if TYPE_CHECKING:
    from rmqtool.machine.arrays import UInt8s

WORD: Final = 8
TOP_BITS: Final = -0x7F7F7F7F7F7F7F80  # 0x80 in each byte: what no ASCII has
LOW_32: Final = 0xFFFFFFFF
LOW_16_OF_32: Final = 0x0000FFFF0000FFFF
LOW_8_OF_16: Final = 0x00FF00FF00FF00FF
REPLACEMENT: Final = 0xFFFD
POWERS: Final = tuple(pow(31, power, 1 << 32) for power in range(WORD + 1))  # 31 ** n, wrapped


@inlined
def first_bytes(word: int, count: int) -> int:
    """Keep the first `count` of 8 bytes as loaded, moved to the low end; count is 1 to 8."""
    if count == WORD:
        return word
    return (word >> (8 * (WORD - count))) & ((1 << (8 * count)) - 1)


@inlined
def hash_of_8(word: int) -> int:
    """Give what 8 ASCII characters add to a hash: the sum of c(n) * 31 ** (7 - n).

    Neighbours are put together in lanes of 16, 32 and 64 bits; no lane overflows into the next.
    """
    pairs = ((word >> 8) & LOW_8_OF_16) * 31 + (word & LOW_8_OF_16)
    fours = ((pairs >> 16) & LOW_16_OF_32) * POWERS[2] + (pairs & LOW_16_OF_32)
    return (fours >> 32) * POWERS[4] + (fours & LOW_32)


@inlined
def java_hash(window: UInt8s, start: int, length: int, seed: int) -> int:
    """Give the hash of a stretch of UTF-8, 32 bits unsigned, going on from `seed`.

    Args:
        window: uint8, shape (n,); up to 7 bytes after the stretch are read, too.
        start: first byte.
        length: bytes, not negative.
        seed: hash of what stands before, 0 for nothing.
    """
    value, seen, end = seed, 0, start + length
    odd = length % WORD
    if odd:
        word = first_bytes(load_i8(window, start), odd)
        seen |= word
        value = (value * POWERS[odd] + hash_of_8(word)) & LOW_32
    for position in range(start + odd, end, WORD):
        word = load_i8(window, position)
        seen |= word
        value = (value * POWERS[WORD] + hash_of_8(word)) & LOW_32
    if seen & TOP_BITS:
        return decoded_hash(window, start, length, seed)[0]
    return value


@inlined
def continues(window: UInt8s, position: int, end: int) -> bool:
    """Tell whether a byte is there and goes on with a sequence."""
    return position < end and (window[position] & 0xC0) == 0x80  # noqa: PLR2004 - UTF-8's own


@inlined
def sequence_length(window: UInt8s, start: int, end: int) -> tuple[int, int]:
    """Give the bytes that the sequence at `start` needs, and how many of them are well formed.

    The second is less than the first for a malformed sequence, which is replaced as a whole.
    """
    lead = load_u1(window, start)
    second = load_u1(window, start + 1) if start + 1 < end else 0
    if 0xC2 <= lead <= 0xDF:  # noqa: PLR2004
        needed = 2
    elif 0xE0 <= lead <= 0xEF:  # noqa: PLR2004
        needed = 0 if lead == 0xE0 and 0x80 <= second <= 0x9F else 3  # noqa: PLR2004
    elif 0xF0 <= lead <= 0xF4:  # noqa: PLR2004
        low = 0x90 if lead == 0xF0 else 0x80  # noqa: PLR2004
        high = 0x8F if lead == 0xF4 else 0xBF  # noqa: PLR2004
        needed = 0 if start + 1 < end and not low <= second <= high else 4
    else:
        needed = 0
    present = 1
    while present < needed and continues(window, start + present, end):
        present += 1
    return needed, present


@called
def decoded_hash(window: UInt8s, start: int, length: int, seed: int) -> tuple[int, bool]:
    """Give the hash of a stretch of UTF-8 that is not plain ASCII, and whether it is malformed."""
    value, malformed = seed, False
    position, end = start, start + length
    while position < end:
        lead = load_u1(window, position)
        if lead < 0x80:  # noqa: PLR2004 - ASCII
            value = (31 * value + lead) & LOW_32
            position += 1
            continue
        needed, present = sequence_length(window, position, end)
        if needed != present:
            malformed = True
            value = (31 * value + REPLACEMENT) & LOW_32
            position += present
            continue
        point = lead & (0x7F >> needed)
        for number in range(1, needed):
            point = (point << 6) | (load_u1(window, position + number) & 0x3F)
        position += needed
        if point >= 0x10000:  # noqa: PLR2004 - two UTF-16 units
            point -= 0x10000
            value = (31 * value + 0xD800 + (point >> 10)) & LOW_32
            point = 0xDC00 + (point & 0x3FF)
        elif 0xD800 <= point <= 0xDFFF:  # noqa: PLR2004 - a surrogate is no character
            malformed, point = True, REPLACEMENT
        value = (31 * value + point) & LOW_32
    return value, malformed


@inlined
def signed(value: int) -> int:
    """Read 32 bits as Java's int."""
    return value - ((value & 0x80000000) << 1)


@inlined
def index_hash(value: int) -> int:
    """Give the hash that the key index files: the absolute value, where Java's has one.

    Source: IndexFile#indexKeyHashMethod, 4.9.3 to 5.5.0.
    """
    return abs(signed(value)) & 0x7FFFFFFF  # the smallest int has no absolute value: 0
