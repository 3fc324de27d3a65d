"""Consume queue extension: units with the Bloom bitmap of SQL92 filters, and their addresses.

A queue unit's `tags_code` at or below LARGEST_ADDRESS is the address of an ext unit; a plain hash
never reaches that far down. Which bits are set is in bloom.py.
Source: ConsumeQueueExt, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from construct import Int16sb, Int64sb, Struct

from rmqtool.errors import BadLength, Truncated
from rmqtool.formats.layout import Layout

EXT_UNIT: Final = Layout(
    "consume_queue_ext_unit",
    Struct(
        "size" / Int16sb * "length with the bitmap, -1 closes the file, bytes",  #  0
        "tags_code" / Int64sb * "hash of TAGS",  #  2
        "msg_store_time" / Int64sb * "stored by the broker, ms since 1970",  # 10
        "bit_map_size" / Int16sb * "length of the bitmap that follows, bytes",  # 18
    ),  # 20
    "consumequeue_ext/<topic>/<queue id>/*: head of one unit",
)
END_BLANK: Final = -1  # in place of a size, after the last unit of a file
END_BLANK_DATA_LENGTH: Final = 4  # bytes that a file keeps for it
MAX_EXT_UNIT_SIZE: Final = 32_767
DEFAULT_FILE_LENGTH: Final = 50_331_648  # mappedFileSizeConsumeQueueExt
LARGEST_ADDRESS: Final = -(2**31) - 1
MAX_REAL_OFFSET: Final = LARGEST_ADDRESS + 2**63


class ExtUnit(NamedTuple):
    """One ext unit."""

    size: int  # bytes, bitmap included
    tags_code: int  # plain hash of TAGS
    msg_store_time: int  # ms since 1970
    bit_map: bytes  # Bloom bitmap; empty when no filter was registered


def is_ext_address(tags_code: int) -> bool:
    """Tell whether a queue unit's tags code is the address of an ext unit."""
    return tags_code <= LARGEST_ADDRESS


def real_offset(address: int) -> int:
    """Give the position in the queue's ext space that an address stands for."""
    return address + 2**63


def address(position: int) -> int:
    """Give the address of a position in the queue's ext space."""
    return position - 2**63


def decode(raw: bytes, *, path: str = "<bytes>", position: int = 0) -> ExtUnit | None:
    """Read the unit at the beginning of `raw`; None where the file has no more units.

    Source: ConsumeQueueExt.CqExtUnit#read, 4.9.3 to 5.5.0.

    Raises:
        Truncated: the unit goes on after `raw`.
        BadLength: the size is not that of header and bitmap.
    """
    if len(raw) < END_BLANK_DATA_LENGTH or EXT_UNIT["size"].of(raw) < 1:
        return None
    values = EXT_UNIT.parse(raw, path=path, position=position)
    size, bit_map_size = values["size"], values["bit_map_size"]
    if bit_map_size < 0 or size != EXT_UNIT.size + bit_map_size:
        reason = f"{size:,}, with {EXT_UNIT.size} bytes of header and {bit_map_size:,} of bitmap"
        raise BadLength(path=path, position=position, field="size", reason=reason)
    if len(raw) < size:
        reason = f"{len(raw):,} bytes are there, {size:,} are needed"
        raise Truncated(path=path, position=position, field="bit_map", reason=reason)
    bit_map = bytes(raw[EXT_UNIT.size : size])
    return ExtUnit(size, values["tags_code"], values["msg_store_time"], bit_map)


def encode(unit: ExtUnit) -> bytes:
    """Give the bytes of a unit, the inverse of `decode`."""
    head = {
        "size": unit.size,
        "tags_code": unit.tags_code,
        "msg_store_time": unit.msg_store_time,
        "bit_map_size": len(unit.bit_map),
    }
    return EXT_UNIT.build(head) + unit.bit_map
