"""Messages as a client encodes them: back to back in the body of an inner batch.

The same encoding carries a multi-message batch over the wire, but there the broker stores each
message as a record of its own.
Source: MessageDecoder#encodeMessage, #decodeMessage, 4.9.3 to 5.5.0; inner batches from 5.0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from construct import Int32sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats import properties
from rmqtool.formats.layout import Layout, big_endian

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_MESSAGE_PREFIX: Final = Layout(
    "client_message_prefix",
    Struct(
        "total_size" / Int32sb * "bytes of the whole message",  #  0
        "magic_code" / Int32sb * "0",  #  4
        "body_crc" / Int32sb * "0",  #  8
        "flag" / Int32sb * "the application's own flag",  # 12
        "body_length" / Int32sb * "bytes of the body",  # 16
    ),  # 20; then body, properties length (two bytes), properties
    "body of an inner batch: head of one message",
)
SMALLEST_CLIENT_MESSAGE: Final = CLIENT_MESSAGE_PREFIX.size + properties.LENGTH_BYTES


class ClientMessage(NamedTuple):
    """One message out of a batch."""

    position: int  # first byte in the body of the batch
    total_size: int  # bytes
    flag: int  # the application's own
    body: bytes  # payload
    properties_bytes: bytes  # names and values as in a record

    @property
    def properties(self) -> dict[str, str]:
        """Names and values, decoded anew with each call."""
        return properties.decode(self.properties_bytes)


def messages(batch: bytes, *, path: str = "<bytes>", position: int = 0) -> Iterator[ClientMessage]:
    """Take the body of an inner batch apart, in order.

    Args:
        batch: the body, decompressed.
        path: where it came from, for the error.
        position: where it lay in that file, for the error.

    Raises:
        BadLength: a length does not fit; what came before has been given.
    """
    start = 0
    while start < len(batch):
        try:
            message = _message(batch, start)
        except BadLength as error:
            error.path, error.position = path, position + start
            raise
        yield message
        start += message.total_size


def encode(message: ClientMessage) -> bytes:
    """Give the bytes of one message, as a client writes them; the lengths are computed.

    Raises:
        DecodeError: a value does not fit its field.
    """
    size = SMALLEST_CLIENT_MESSAGE + len(message.body) + len(message.properties_bytes)
    head = {
        "total_size": size,
        "magic_code": 0,
        "body_crc": 0,
        "flag": message.flag,
        "body_length": len(message.body),
    }
    length = len(message.properties_bytes).to_bytes(properties.LENGTH_BYTES, "big")
    return CLIENT_MESSAGE_PREFIX.build(head) + message.body + length + message.properties_bytes


def _message(batch: bytes, start: int) -> ClientMessage:
    left = len(batch) - start
    if left < SMALLEST_CLIENT_MESSAGE:
        _refuse(f"{left:,} bytes are left, the smallest message has {SMALLEST_CLIENT_MESSAGE}")
    size, _, _, flag, body_length = CLIENT_MESSAGE_PREFIX.packer.unpack_from(batch, start)
    body_start = start + CLIENT_MESSAGE_PREFIX.size
    body_end = body_start + max(body_length, 0)
    properties_start = body_end + properties.LENGTH_BYTES
    if properties_start > len(batch):
        _refuse(f"a body of {body_length:,} bytes does not fit into {left:,}")
    length = big_endian(batch[body_end:properties_start])
    end = properties_start + max(length, 0)
    if end > len(batch) or end - start != size:
        _refuse(f"{size:,}, but the parts add up to {end - start:,} of {left:,} bytes")
    return ClientMessage(start, size, flag, batch[body_start:body_end], batch[properties_start:end])


def _refuse(reason: str) -> NoReturn:
    raise BadLength(path="", position=0, field="total_size", reason=reason)
