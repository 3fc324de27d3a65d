"""Message IDs: where a record lies (offset ID), and what its client called it (unique key).

Both are 32 hex digits with an IPv4 address and 56 with an IPv6 one, and nothing in them tells
which is which. IDs are opaque to the broker: any application may set a `UNIQ_KEY` of its own.
Source: MessageDecoder#createMessageId, MessageClientIDSetter, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from construct import Bytes, Int16sb, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength, DecodeError
from rmqtool.formats.host import IPV4_BYTES, IPV6_BYTES, address_text, host_text
from rmqtool.formats.layout import Layout
from rmqtool.plural import counted

OFFSET_MESSAGE_ID: Final = Layout(
    "offset_message_id",
    Struct(
        "store_address" / Bytes(4) * "broker address",  # 0
        "store_port" / Int32sb * "broker port",  # 4
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  # 8
    ),  # 16
    "ID that the broker answers, IPv4",
)
OFFSET_MESSAGE_ID_V6: Final = Layout(
    "offset_message_id_v6",
    Struct(
        "store_address" / Bytes(16) * "broker address",  #  0
        "store_port" / Int32sb * "broker port",  # 16
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  # 20
    ),  # 28
    "ID that the broker answers, IPv6",
)
UNIQUE_KEY_TAIL: Final = Layout(
    "unique_key_tail",
    Struct(
        "process_id" / Int16sb * "low 16 bits of the client's pid",  #  0
        "loader_hash" / Int32sb * "hash code of a class loader",  #  2
        "milliseconds" / Int32sb * "since the month began in the client's zone; unsigned",  #  6
        "counter" / Int16sb * "wraps",  # 10
    ),  # 12
    "UNIQ_KEY, after the client's address of 4 or 16 bytes",
)
CLIENT_MESSAGE_ID: Final = Layout(
    "client_message_id",
    Struct(
        "version" / Bytes(1) * "1",  #  0
        "hardware_address" / Bytes(6) * "MAC of the client",  #  1
        "process_id" / Int16sb * "low 16 bits of the client's pid",  #  7
        "seconds" / Int32sb * "since 2021-01-01",  #  9
        "sequence" / Int32sb * "wraps",  # 13
    ),  # 17
    "UNIQ_KEY of the clients of the 5.x generation, 34 hex digits",
)

HIGHEST_PORT: Final = 0xFFFF
_CLIENT_EPOCH_SECONDS: Final = 1_609_459_200  # 2021-01-01 UTC


class OffsetMessageId(NamedTuple):
    """An ID that names a place."""

    address: bytes  # of the broker that stored the record, 4 or 16 bytes
    port: int  # of that broker
    physical_offset: int  # commitlog offset of the record, bytes

    def __str__(self) -> str:
        layout = OFFSET_MESSAGE_ID if len(self.address) == IPV4_BYTES else OFFSET_MESSAGE_ID_V6
        return layout.packer.pack(self.address, self.port, self.physical_offset).hex().upper()

    @property
    def host(self) -> str:
        """The broker as text."""
        return host_text(self.address, self.port)


class UniqueKey(NamedTuple):
    """An ID that a Java client made."""

    address: bytes  # of the client, 4 or 16 bytes
    process_id: int  # low 16 bits, unsigned
    loader_hash: int  # hash code of a class loader, signed
    milliseconds: int  # since the month began in the client's zone, unsigned
    counter: int  # low 16 bits, unsigned

    def __str__(self) -> str:
        tail = UNIQUE_KEY_TAIL.packer.pack(
            *(_signed(self.process_id, 16), self.loader_hash),
            *(_signed(self.milliseconds, 32), _signed(self.counter, 16)),
        )
        return (self.address + tail).hex().upper()

    @property
    def host(self) -> str:
        """The client's address as text."""
        return address_text(self.address)

    def time_candidates(self, reference_ms: int) -> tuple[int, ...]:
        """Give when it may have been made, ms since 1970, for the months around a reference.

        The client's time zone is not in the ID; these take it as UTC, so each is off by its offset.
        """
        return tuple(start + self.milliseconds for start in _month_starts(reference_ms))

    def nearest_time(self, born_timestamp: int) -> int | None:
        """Give the candidate nearest to when the record was born; None outside the calendar."""
        candidates = self.time_candidates(born_timestamp)
        return min(candidates, key=lambda time: abs(time - born_timestamp), default=None)


class ClientMessageId(NamedTuple):
    """An ID of the clients of the 5.x generation."""

    version: int  # 1
    hardware_address: bytes  # MAC of the client, 6 bytes
    process_id: int  # low 16 bits, unsigned
    seconds: int  # since 2021-01-01, unsigned; in which zone is not certain
    sequence: int  # low 32 bits, unsigned

    def __str__(self) -> str:
        head = bytes([self.version]) + self.hardware_address + self.process_id.to_bytes(2, "big")
        tail = self.seconds.to_bytes(4, "big") + self.sequence.to_bytes(4, "big")
        return (head + tail).hex().upper()

    @property
    def time(self) -> int:
        """When it was made, ms since 1970, if the base is UTC."""
        return (_CLIENT_EPOCH_SECONDS + self.seconds) * 1000


def decode_offset_id(text: str) -> OffsetMessageId:
    """Read an offset ID.

    Raises:
        BadLength: it has neither 32 nor 56 digits.
        DecodeError: they are not hex digits.
    """
    raw = _hex(text, (OFFSET_MESSAGE_ID.size, OFFSET_MESSAGE_ID_V6.size))
    layout = OFFSET_MESSAGE_ID if len(raw) == OFFSET_MESSAGE_ID.size else OFFSET_MESSAGE_ID_V6
    return OffsetMessageId(*layout.packer.unpack(raw))


def decode_unique_key(text: str) -> UniqueKey:
    """Read a unique key of 32 or 56 digits.

    Raises:
        BadLength: it has another length.
        DecodeError: they are not hex digits.
    """
    sizes = (IPV4_BYTES + UNIQUE_KEY_TAIL.size, IPV6_BYTES + UNIQUE_KEY_TAIL.size)
    raw = _hex(text, sizes)
    start = len(raw) - UNIQUE_KEY_TAIL.size
    process_id, loader_hash, milliseconds, counter = UNIQUE_KEY_TAIL.packer.unpack_from(raw, start)
    return UniqueKey(
        raw[:start],
        process_id & 0xFFFF,
        loader_hash,
        milliseconds & 0xFFFFFFFF,
        counter & 0xFFFF,
    )


def decode_client_id(text: str) -> ClientMessageId:
    """Read an ID of 34 digits.

    Raises:
        BadLength: it has another length.
        DecodeError: they are not hex digits.
    """
    raw = _hex(text, (CLIENT_MESSAGE_ID.size,))
    version, hardware_address, process_id, seconds, sequence = CLIENT_MESSAGE_ID.packer.unpack(raw)
    return ClientMessageId(
        version[0],
        hardware_address,
        process_id & 0xFFFF,
        seconds & 0xFFFFFFFF,
        sequence & 0xFFFFFFFF,
    )


def recognise(text: str) -> OffsetMessageId | UniqueKey | ClientMessageId | None:
    """Say what an ID most likely is; None for what no RocketMQ client or broker makes.

    An offset ID holds a port, so that two of its bytes are zero; in a unique key they are the
    client's pid and hash. A small chance of error stays: only a record at that place proves it.
    """
    try:
        if len(text) == 2 * CLIENT_MESSAGE_ID.size:
            client_id = decode_client_id(text)
            return client_id if client_id.version == 1 else None
        offset_id = decode_offset_id(text)
        if 0 < offset_id.port <= HIGHEST_PORT and offset_id.physical_offset >= 0:
            return offset_id
        return decode_unique_key(text)
    except DecodeError:
        return None


def _hex(text: str, sizes: tuple[int, ...]) -> bytes:
    if len(text) not in {2 * size for size in sizes}:
        digits = " or ".join(str(2 * size) for size in sizes)
        reason = f"{counted(len(text), 'character')}, {digits} hex digits are needed"
        raise BadLength(path=text[:80], position=0, field="message_id", reason=reason)
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        reason = "not all are hex digits"
        raise DecodeError(path=text, position=0, field="message_id", reason=reason) from error
    if 2 * len(raw) != len(text):  # fromhex skips spaces
        reason = "not all are hex digits"
        raise DecodeError(path=text, position=0, field="message_id", reason=reason)
    return raw


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _month_starts(reference_ms: int) -> tuple[int, ...]:
    """Give when the month of a time, the one before and the one after it began, in UTC."""
    try:
        reference = datetime.fromtimestamp(reference_ms / 1000, UTC)
        first = reference.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        before = (first - timedelta(days=1)).replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
    except (ValueError, OverflowError, OSError):
        return ()  # a born timestamp out of a damaged record
    return tuple(int(start.timestamp()) * 1000 for start in (before, first, after))
