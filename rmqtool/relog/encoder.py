"""One record at a new place, made with the declarations: the reference of the kernels.

Also what is done to the few records whose properties or body name queue offsets.
"""

from __future__ import annotations

from typing import Final

from rmqtool.errors import UsageError
from rmqtool.formats import properties
from rmqtool.formats.host import split_host
from rmqtool.formats.message import (
    MESSAGE_MIDDLES,
    TOPIC_LENGTH_BYTES,
    Message,
    decode,
    encode,
    sealed,
)

PORT: Final = MESSAGE_MIDDLES[False, False]["store_port"]
CRC_ITEM: Final = properties.CRC32_RESERVED_LENGTH
_CRC_NAME: Final = properties.CRC32.encode() + properties.NAME_VALUE_SEPARATOR


def placed(
    raw: bytes,
    *,
    physical_offset: int,
    queue_offset: int,
    prepared_transaction_offset: int,
    host: bytes = b"",
    magic_code: int | None = None,
) -> bytes:
    """Give a record as a broker would have written it at another place.

    Args:
        raw: the record.
        physical_offset: where it goes.
        queue_offset: its number in its queue.
        prepared_transaction_offset: where its half message is.
        host: address and port of the broker; empty leaves those that it has.
        magic_code: of the version that it is to have; None leaves it.

    Raises:
        DecodeError: it is no record.
    """
    message = decode(raw)._replace(
        physical_offset=physical_offset,
        queue_offset=queue_offset,
        prepared_transaction_offset=prepared_transaction_offset,
    )
    if host:
        address, port = split_host(host)
        crc = message.body_crc  # of the body that was stored, whatever it is
        message = sealed(message._replace(store_address=address, store_port=port))
        message = message._replace(body_crc=crc)
    if magic_code is not None:
        width = TOPIC_LENGTH_BYTES[magic_code] - TOPIC_LENGTH_BYTES[message.magic_code]
        size = message.total_size + width
        message = message._replace(magic_code=magic_code, total_size=size)
    return with_crc(message)


def with_crc(message: Message) -> bytes:
    """Encode a record; a property CRC at its end is computed anew."""
    raw = encode(message)
    if not has_crc_item(message.properties_bytes):
        return raw
    return raw[:-CRC_ITEM] + properties.crc_item(raw[:-CRC_ITEM])


def has_crc_item(stored: bytes) -> bool:
    """Tell whether properties end with the checksum of their record."""
    item = stored[-CRC_ITEM:]
    return len(item) == CRC_ITEM and item.startswith(_CRC_NAME)


def host_of(text: str) -> bytes:
    """Read a broker's address, `10.0.0.1:10911` or `[::1]:10911`, as records store it.

    Raises:
        UsageError: it is not one.
    """
    import ipaddress

    address, separator, port = text.rpartition(":")
    try:
        packed = ipaddress.ip_address(address.removeprefix("[").removesuffix("]")).packed
        number = int(port)
    except ValueError:
        separator, packed, number = "", b"", 0
    if not separator or not 0 < number < 1 << 16:
        reason = f"{text!r} is not an address with a port, such as 10.0.0.1:10911 or [::1]:10911"
        raise UsageError(option="--store-host", reason=reason)
    return packed + PORT.build(number)
