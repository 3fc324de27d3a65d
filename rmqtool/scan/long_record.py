"""Records that do not fit a window: the same record without its body, to be judged and read.

A length found in data allocates nothing, so a record is read whole only up to a ceiling. Of a
longer one header, topic and properties are put together as if it had no body, and the checksum
runs over the body piece by piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from rmqtool.formats.dledger import DLEDGER_ENTRY
from rmqtool.formats.message import (
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
    middle_of,
)
from rmqtool.formats.properties import LENGTH_BYTES
from rmqtool.scan.crc import WITHOUT_TOP_BIT

if TYPE_CHECKING:
    from rmqtool.formats.layout import Field
    from rmqtool.scan.window import Readable

LONGEST_SHORT: Final = 0x7FFF
SIZE: Final = MESSAGE_PREFIX["total_size"]
LONGEST_TAIL: Final = (  # topic and properties
    max(TOPIC_LENGTH_BYTES.values()) + LONGEST_SHORT + LENGTH_BYTES + LONGEST_SHORT
)
PIECE_BYTES: Final = 1 << 20


def without_body(file: Readable, position: int, entry_header: int) -> bytes | None:
    """Give the record at `position` as it would be without a body; None if its lengths disagree.

    Args:
        file: an open segment.
        position: first byte of the record, or of the entry header before it.
        entry_header: bytes of that header; 0 without DLedger.

    Raises:
        UnreadablePath: the disk refused.
    """
    entry = bytearray(_read(file, position, entry_header))
    position += entry_header
    prefix = bytearray(_read(file, position, MESSAGE_PREFIX.size))
    if len(entry) < entry_header or len(prefix) < MESSAGE_PREFIX.size:
        return None
    size, layout = SIZE.of(prefix), middle_of(MESSAGE_PREFIX["sys_flag"].of(prefix))
    middle = bytearray(_read(file, position + len(prefix), layout.size))
    if len(middle) < layout.size:
        return None
    header = len(prefix) + len(middle)
    body_length = max(layout["body_length"].of(middle), 0)
    tail_length = size - header - body_length
    if not 0 < tail_length <= LONGEST_TAIL or position + size > file.size:
        return None
    tail = _read(file, position + size - tail_length, tail_length)
    left = header + len(tail)
    if len(tail) < tail_length or left < SMALLEST_RECORD:
        return None
    _put(prefix, SIZE, left)
    _put(middle, layout["body_length"], 0)
    if entry_header:
        for name, less in (("size", 0), ("body_length", entry_header)):
            field = DLEDGER_ENTRY[name]
            if field.of(entry) != entry_header + size - less:
                return None
            _put(entry, field, entry_header + left - less)
    return bytes(entry + prefix + middle + tail)


def body_of(file: Readable, position: int) -> tuple[int, int, int]:
    """Give the checksum, the start and the length that a record states of its body.

    Nothing of it is judged; a header that the file does not hold states an empty body.

    Args:
        file: an open segment.
        position: first byte of the record.

    Raises:
        UnreadablePath: the disk refused.
    """
    prefix = _read(file, position, MESSAGE_PREFIX.size)
    if len(prefix) < MESSAGE_PREFIX.size:
        return 0, position, 0
    layout = middle_of(MESSAGE_PREFIX["sys_flag"].of(prefix))
    start = position + len(prefix) + layout.size
    middle = _read(file, position + len(prefix), layout.size)
    length = layout["body_length"].of(middle) if len(middle) == layout.size else 0
    return MESSAGE_PREFIX["body_crc"].of(prefix), start, max(length, 0)


def crc_of(file: Readable, position: int, length: int) -> int:
    """Give the checksum of a stretch of a file, read piece by piece; -1 if it ends too early.

    Raises:
        UnreadablePath: the disk refused.
    """
    value, end = 0, position + length
    while position < end:
        piece = _read(file, position, min(PIECE_BYTES, end - position))
        if not piece:
            return -1
        value = crc32(piece, value)
        position += len(piece)
    return value & WITHOUT_TOP_BIT


def _read(file: Readable, position: int, length: int) -> bytes:
    buffer = bytearray(length)
    return bytes(buffer[: file.read_into(buffer, position)]) if length else b""


def _put(raw: bytearray, field: Field, value: int) -> None:
    raw[field.position : field.end] = field.build(value)
