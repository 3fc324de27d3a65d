"""The checksum that a broker gives for a range of its log: murmur3 over what all replicas share.

Store timestamp and store host differ between replicas, so a broker leaves them out; it takes each
message apart and puts it together again, which orders its properties as a Java HashMap does.
Source: DefaultMessageStore#calcDeltaChecksum, MessageDecoder#encodeUniquely, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import mmh3

from rmqtool.formats.java import string_hash
from rmqtool.formats.layout import unsigned
from rmqtool.formats.message import (
    BLANK,
    MESSAGE_MAGIC_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
    middle_of,
)
from rmqtool.formats.properties import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import OpenFile

LARGEST_RANGE: Final = 1 << 30  # maxChecksumRange
WINDOW: Final = 4 << 20
CAPACITY: Final = 128  # of the HashMap that a broker fills
LOAD_FACTOR: Final = 0.75
LEFT_OUT: Final = 8  # the store timestamp; the store host leaves zeros at the end
SHORTEST_ITEM: Final = 3
SIZE: Final = MESSAGE_PREFIX["total_size"]
MAGIC: Final = MESSAGE_PREFIX["magic_code"]


def range_checksum(file: OpenFile) -> str:
    """Give the checksum of a whole segment; empty where a broker gives none.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    if not 0 < file.size <= LARGEST_RANGE:
        return ""
    checksum = mmh3.mmh3_x64_128()
    done = 0
    for record in _records(file):
        unique = _unique(record)
        if unique is None:
            return ""
        checksum.update(unique)
        done += len(unique)
    if not done:
        return ""
    for start in range(done, file.size, WINDOW):
        checksum.update(bytes(min(WINDOW, file.size - start)))
    return bytes(checksum.digest()).hex()


def _records(file: OpenFile) -> Iterator[bytes]:
    """Yield whole records up to the first thing that is not one."""
    position = start = 0
    window = b""
    while True:
        at = position - start
        size = SIZE.of(window, at)
        if len(window) - at < BLANK.size or len(window) - at < size:
            start, window = position, file.read_at(position, max(WINDOW, size))
            at = 0
            size = SIZE.of(window)
        magic = MAGIC.of(window, at)
        is_record = magic in {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2}
        if not is_record or not SMALLEST_RECORD <= size <= len(window) - at:
            return
        yield window[at : at + size]
        position += size


def _unique(record: bytes) -> bytes | None:
    """Give what replicas share of a record; None where a broker fails to take it apart."""
    begin = MESSAGE_PREFIX.size
    middle = middle_of(MESSAGE_PREFIX["sys_flag"].of(record))
    body = begin + middle.size
    body_end = body + middle["body_length"].of(record, begin)
    topic_start = body_end + TOPIC_LENGTH_BYTES[MAGIC.of(record)]
    topic_end = topic_start + unsigned(record[body_end:topic_start])
    properties_start = topic_end + LENGTH_BYTES
    if body_end <= body or properties_start > len(record):
        return None  # a message without a body: a null that the broker stumbles over
    properties = _properties(record[properties_start:])
    parts = (
        record[: SIZE.end],
        MESSAGE_MAGIC_BYTES[0],
        record[MAGIC.end : begin + middle["store_timestamp"].position],
        record[begin + middle["reconsume_times"].position : body_end],
        bytes([topic_end - topic_start & 0xFF]),
        record[topic_start:topic_end],
        (len(properties) & 0xFFFF).to_bytes(LENGTH_BYTES, "big"),
        properties,
    )
    joined = b"".join(parts)
    room = len(record) - LEFT_OUT
    return joined.ljust(room, b"\0") if len(joined) <= room else None


def _properties(raw: bytes) -> bytes:
    """Put properties in the order in which a broker's HashMap gives them."""
    items: dict[bytes, bytes] = {}
    for item in raw.split(b"\2"):
        name, mark, value = item.partition(b"\1")
        if len(item) >= SHORTEST_ITEM and mark and name and value:
            items[name] = value
    return b"".join(b"%b\1%b\2" % (name, items[name]) for name in _order(tuple(items)))


@lru_cache(maxsize=1024)
def _order(names: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Order names as a HashMap does: by place, and by time of coming within one."""
    capacity = CAPACITY
    while len(names) > LOAD_FACTOR * capacity:
        capacity *= 2

    def place(name: bytes) -> int:
        value = string_hash(name.decode("utf-8", "replace")) & 0xFFFFFFFF
        return (value ^ value >> 16) & (capacity - 1)

    return tuple(sorted(names, key=place))
