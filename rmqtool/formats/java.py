"""How Java computes: string hashes, integers that wrap, text from bytes, the CRC of 31 bits."""

from __future__ import annotations

import codecs
import re
from typing import Final
from zlib import crc32

_INT_SIGN: Final = 1 << 31
_LONG_SIGN: Final = 1 << 63
_INT_MASK: Final = 0xFFFFFFFF
_LONG_MASK: Final = 0xFFFFFFFFFFFFFFFF
# What Character#isWhitespace takes: spaces that a line may be broken at, and some controls.
_WHITE: Final = "".join(
    (
        *map(chr, (*range(0x09, 0x0E), *range(0x1C, 0x21), 0x1680, *range(0x2000, 0x2007))),
        *map(chr, (*range(0x2008, 0x200B), 0x2028, 0x2029, 0x205F, 0x3000)),
    )
)
_ENCODED_SURROGATE: Final = re.compile(rb"\xED[\xA0-\xBF][\x80-\xBF]?")
_LONG_TEXT: Final = re.compile(r"([+-]?)0*(\d{1,255})")  # zeros of other scripts lead, too


def to_int32(number: int) -> int:
    """Wrap a number as Java's `int` does."""
    return ((number + _INT_SIGN) & _INT_MASK) - _INT_SIGN


def to_int64(number: int) -> int:
    """Wrap a number as Java's `long` does."""
    return ((number + _LONG_SIGN) & _LONG_MASK) - _LONG_SIGN


def parse_long(text: str) -> int | None:
    """Read a number as `Long#parseLong` does; None where that throws.

    Digits of any script, as a JVM's locale may have put them into file names; no spaces. Java looks
    at UTF-16 units, and half of a surrogate pair is no digit.
    """
    match = _LONG_TEXT.fullmatch(text)
    if match is None or max(text) > "\uffff":
        return None
    number = int(match[1] + match[2])
    return number if number == to_int64(number) else None


def split(text: str, separator: str) -> list[str]:
    """Cut a text as `String#split` does: empty texts at the end vanish, all of them if need be."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def is_blank(text: str) -> bool:
    """Tell whether a text is empty or white, as `StringUtils#isBlank` does."""
    return not text.strip(_WHITE)


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
    """Give the CRC-32 of zlib without its top bit. Source: UtilAll#crc32, 4.9.3 to 5.5.0."""
    return crc32(data) & 0x7FFFFFFF


def text(raw: bytes) -> str:
    """Decode UTF-8 as `new String(raw, UTF_8)` does, with U+FFFD where it is malformed.

    Python and Java agree but for encoded surrogates: three marks there, one here. It matters, as
    hashes of keys are over the decoded text.
    Source: observed, Java 17.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", _MALFORMED)


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """Give one U+FFFD and where to go on, an encoded surrogate as one."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    if surrogate := _ENCODED_SURROGATE.match(error.object, error.start):
        return "\ufffd", surrogate.end()
    return "\ufffd", error.end


_MALFORMED: Final = "rmqtool-java"
codecs.register_error(_MALFORMED, _replace_malformed)
