"""Message properties: items of name, 0x01, value, 0x02; and the CRC that may be the last of them.

Items are cut in bytes and decoded afterwards: malformed UTF-8 never swallows a separator.
Source: MessageDecoder#string2messageProperties, #messageProperties2String, #createCrc32.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.formats.java import crc31, text, to_int32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME_VALUE_SEPARATOR: Final = b"\x01"
PROPERTY_SEPARATOR: Final = b"\x02"
LENGTH_BYTES: Final = 2  # of the length that stands before them

KEYS: Final = "KEYS"  # separated by single spaces
TAGS: Final = "TAGS"
UNIQ_KEY: Final = "UNIQ_KEY"
DELAY: Final = "DELAY"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"  # of retried and dead messages: where they were first sent to
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"  # the same, of dead messages of 5.x
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"  # their offsetMsgId there
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TRANS_OFFSET: Final = "TRANS_OFFSET"  # 5.4.0+, of op messages: where their halves are, in RocksDB
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"  # of a timer message: the one that it takes back
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
CRC32: Final = "__CRC32#"

_WHOLE_ITEM: Final = rb"[^\x01\x02]++\x01[^\x02]*+"
# Not `*+` for the items: Python before 3.11.5 (Debian 12 has 3.11.2) then takes a last item without
# its 0x02 for none.
_WHOLE_ITEMS: Final = re.compile(rb"(?:%b\x02)*(?:%b)?" % (_WHOLE_ITEM, _WHOLE_ITEM))
_CRC_DIGITS: Final = 10
_NAME_VALUE: Final = NAME_VALUE_SEPARATOR.decode("ascii")
_PROPERTY: Final = PROPERTY_SEPARATOR.decode("ascii")
CRC32_RESERVED_LENGTH: Final = len(CRC32) + 1 + _CRC_DIGITS + 1


class PropertyItem(NamedTuple):
    """One stretch between separators."""

    position: int  # first byte in the properties
    length: int  # bytes, with the separator that ends it
    name: bytes  # bytes before the first 0x01
    value: bytes  # bytes after it, which may hold another 0x01
    is_kept: bool  # whether the broker's reader takes it; empty names and values vanish


def items(raw: bytes) -> Iterator[PropertyItem]:
    """Tile properties with items, in order, the dropped ones included."""
    position = 0
    while position < len(raw):
        end = raw.find(PROPERTY_SEPARATOR, position)
        end = len(raw) if end < 0 else end
        name, _, value = raw[position:end].partition(NAME_VALUE_SEPARATOR)
        length = min(end + 1, len(raw)) - position
        yield PropertyItem(position, length, name, value, is_kept=bool(name and value))
        position += length


def decode(raw: bytes) -> dict[str, str]:
    """Read properties as brokers and clients since 4.9.1 do; the last of equal names wins."""
    if raw.isascii():  # nearly all are
        parts = [item.partition(_NAME_VALUE) for item in raw.decode("ascii").split(_PROPERTY)]
        return {name: value for name, _, value in parts if name and value}
    return {text(item.name): text(item.value) for item in items(raw) if item.is_kept}


def are_torn(raw: bytes) -> bool:
    """Tell whether properties hold what no client writes.

    That is two zero bytes in a row, what is not UTF-8, an item without a name or without its 0x01.
    A client may write an empty value (`Message#setKeys`), although readers drop it.
    """
    if b"\0\0" in raw or _WHOLE_ITEMS.fullmatch(raw) is None:
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def encode(properties: Mapping[str, str], *, ends_with_separator: bool = True) -> bytes:
    """Write properties in the mapping's order.

    Args:
        properties: names and values, without separators in them.
        ends_with_separator: as 4.9.0 and older and 5.2.0 and newer do; those between do not.
    """
    written = PROPERTY_SEPARATOR.join(
        name.encode() + NAME_VALUE_SEPARATOR + value.encode() for name, value in properties.items()
    )
    return written + PROPERTY_SEPARATOR if ends_with_separator and written else written


def keys(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Give the user's keys: KEYS cut at single spaces, empty ones ignored."""
    return tuple(key for key in properties.get(KEYS, "").split(" ") if key)


def origin(properties: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Give topic and offsetMsgId that a retried or dead message had when it was first sent.

    Source: AbstractSendMessageProcessor#consumerSendMsgBack, 4.9.3 to 5.5.0; names of dead
    messages: MessageConst, 5.0.0+.
    """
    topic = properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC)
    identifier = properties.get(ORIGIN_MESSAGE_ID) or properties.get(DLQ_ORIGIN_MESSAGE_ID)
    return topic or None, identifier or None


def crc_item(record_head: bytes) -> bytes:
    """Give the CRC item for a record whose bytes up to the item's place are given.

    The ten digits are in reverse, the lowest first. Source: MessageDecoder#createCrc32, 5.2.0+.
    """
    digits = f"{crc31(record_head):0{_CRC_DIGITS}}"[::-1].encode()
    return CRC32.encode() + NAME_VALUE_SEPARATOR + digits + PROPERTY_SEPARATOR


def stored_crc(properties: Mapping[str, str]) -> int | None:
    """Read the property CRC; None where the broker would say that there is not one.

    Source: CommitLog#checkMessageAndReturnSize, 5.2.0 to 5.5.0; a CRC of 0 counts from 5.3.2 on
    (ISSUE 9121), before that it was none.
    """
    text = properties.get(CRC32)
    if text is None:
        return None
    crc = 0
    for digit in reversed(text):
        crc = to_int32(crc * 10 + ord(digit) - ord("0"))
    return crc if crc >= 0 else None


def crc_matches(record: bytes, properties: Mapping[str, str]) -> bool | None:
    """Tell whether a whole record has the CRC of its properties; None if they have none."""
    if (crc := stored_crc(properties)) is None:
        return None
    return crc == crc31(memoryview(record)[:-CRC32_RESERVED_LENGTH])
