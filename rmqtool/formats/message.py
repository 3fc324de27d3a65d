"""Commitlog records: a 48-byte prefix, one of four middles, then body, topic, properties.

The middle depends on the two IPv6 bits of `sys_flag`, which lies in the prefix; the topic's length
field has one byte in V1 records and two in V2. Walking many records is in scan/message.py.
Source: CommitLog#checkMessageAndReturnSize, MessageExtEncoder#encode, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

from construct import Bytes, Construct, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength, BadMagic, DecodeError, Truncated
from rmqtool.formats import java, properties, sys_flag
from rmqtool.formats.host import IPV6_BYTES, host_text
from rmqtool.formats.layout import Layout, big_endian
from rmqtool.formats.sys_flag import SysFlag

__all__ = [
    "BLANK",
    "BLANK_MAGIC_CODE",
    "LONGEST_PROPERTIES",
    "MESSAGE_MAGIC_BYTES",
    "MESSAGE_MAGIC_CODE",
    "MESSAGE_MAGIC_CODE_V2",
    "MESSAGE_MIDDLES",
    "MESSAGE_PREFIX",
    "SMALLEST_RECORD",
    "TOPIC_LENGTH_BYTES",
    "Message",
    "SysFlag",
    "body_start",
    "decode",
    "encode",
    "middle_of",
    "sealed",
    "store_timestamp_position",
]

MESSAGE_MAGIC_CODE: Final = -626843481  # 0xDAA320A7
MESSAGE_MAGIC_CODE_V2: Final = -626843477  # 0xDAA320AB, 5.1.0+
BLANK_MAGIC_CODE: Final = -875286124  # 0xCBD43194
SMALLEST_RECORD: Final = 91  # bytes: V1, IPv4 hosts, no body, empty topic, no properties
LONGEST_PROPERTIES: Final = 32767  # bytes: their length is a short
TOPIC_LENGTH_BYTES: Final = {MESSAGE_MAGIC_CODE: 1, MESSAGE_MAGIC_CODE_V2: 2}
END_FILE_MIN_BLANK_LENGTH: Final = 8  # bytes that a finished file keeps for its blank record

MESSAGE_PREFIX: Final = Layout(
    "message_prefix",
    Struct(
        "total_size" / Int32sb * "length of the whole record, bytes",  #  0
        "magic_code" / Int32sb * "V1 0xDAA320A7, V2 0xDAA320AB",  #  4
        "body_crc" / Int32sb * "CRC-32 of the stored body, top bit cleared",  #  8
        "queue_id" / Int32sb * "queue of the topic",  # 12
        "flag" / Int32sb * "the application's own flag",  # 16
        "queue_offset" / Int64sb * "number of the unit in the consume queue",  # 20
        "physical_offset" / Int64sb * "commitlog offset of this record, bytes",  # 28
        "sys_flag" / Int32sb * "bits: compression, transaction, IPv6, batch",  # 36
        "born_timestamp" / Int64sb * "sent by the client, ms since 1970",  # 40
    ),  # 48
    "first 48 bytes of a commitlog record, the same in all variants",
)
# How the magic codes of records lie in a file, V1 first.
MESSAGE_MAGIC_BYTES: Final = tuple(
    MESSAGE_PREFIX["magic_code"].build(code) for code in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)
)
_SYS_FLAG: Final = list(MESSAGE_PREFIX.positions).index("sys_flag")


def _middle(*, born_v6: bool, store_v6: bool) -> Layout:
    """Declare the middle of a record with these kinds of host addresses."""
    fields: list[Construct[Any, Any]] = [
        "born_address" / Bytes(16 if born_v6 else 4) * "client address",  #  0
        "born_port" / Int32sb * "client port",  #  4 | 16
        "store_timestamp" / Int64sb * "stored by the broker, ms since 1970",  #  8 | 20
        "store_address" / Bytes(16 if store_v6 else 4) * "broker address",  # 16 | 28
        "store_port" / Int32sb * "broker port",  # 20 | 32 | 44
        "reconsume_times" / Int32sb * "how often consuming it has failed",  # 24 | 36 | 48
        "prepared_transaction_offset" / Int64sb * "physical offset of the half message",  # 28…
        "body_length" / Int32sb * "bytes of the body; negative counts as 0",  # 36 | 48 | 60
    ]  # 40 | 52 | 64
    name = f"message_middle_v{6 if born_v6 else 4}_v{6 if store_v6 else 4}"
    return Layout(name, Struct(*fields), "host addresses to body length of a commitlog record")


MESSAGE_MIDDLES: Final = {
    (born_v6, store_v6): _middle(born_v6=born_v6, store_v6=store_v6)
    for born_v6 in (False, True)
    for store_v6 in (False, True)
}

BLANK: Final = Layout(
    "blank",
    Struct(
        "total_size" / Int32sb * "bytes from here to the end of the file",  # 0
        "magic_code" / Int32sb * "0xCBD43194",  # 4
    ),  # 8; what follows is unspecified and may hold old messages
    "closes each finished commitlog file",
)


class Message(NamedTuple):
    """One commitlog record: its fields as they are stored, and what they mean as properties.

    The defaults are those of an empty V1 record from and to IPv4 hosts; `sealed` fills the sizes.
    """

    total_size: int = SMALLEST_RECORD
    magic_code: int = MESSAGE_MAGIC_CODE
    body_crc: int = 0
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_address: bytes = bytes(4)
    born_port: int = 0
    store_timestamp: int = 0
    store_address: bytes = bytes(4)
    store_port: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_length: int = 0
    body: bytes = b""
    topic_length: int = 0
    topic_bytes: bytes = b""
    properties_length: int = 0
    properties_bytes: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return self.total_size

    @property
    def version(self) -> int:
        """1, or 2 when the topic's length has two bytes."""
        return 2 if self.magic_code == MESSAGE_MAGIC_CODE_V2 else 1

    @property
    def topic(self) -> str:
        """The stored topic, which may be a system topic in front of the real one."""
        return java.text(self.topic_bytes)

    @property
    def properties(self) -> dict[str, str]:
        """Names and values as the broker's reader gives them; decoded anew with each call."""
        return properties.decode(self.properties_bytes)

    @property
    def has_properties(self) -> bool:
        """Whether it has bytes of properties, though they may name none."""
        return self.properties_length > 0

    @property
    def tags(self) -> str | None:
        """The tag string."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The user's keys."""
        return properties.keys(self.properties)

    @property
    def unique_key(self) -> str | None:
        """What the client called the message."""
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def born_host(self) -> str:
        """The client as text."""
        return host_text(self.born_address, self.born_port)

    @property
    def store_host(self) -> str:
        """The broker as text."""
        return host_text(self.store_address, self.store_port)

    @property
    def message_id(self) -> str:
        """The offset message ID, made from the *field* physical_offset, as the broker does."""
        from rmqtool.formats.message_id import OffsetMessageId

        return str(OffsetMessageId(self.store_address, self.store_port, self.physical_offset))

    @property
    def transaction(self) -> str:
        """none, prepared, commit or rollback."""
        return sys_flag.transaction(self.sys_flag)

    @property
    def compression(self) -> str:
        """none, zlib, lz4, zstd or unknown."""
        return sys_flag.compression(self.sys_flag)

    @property
    def crc_matches(self) -> bool | None:
        """Whether the body is the one that was stored; None without a body, as the broker does."""
        return java.crc31(self.body) == self.body_crc if self.body else None


def middle_of(flags: int) -> Layout:
    """Give the middle that a record with this `sys_flag` has."""
    born_v6 = bool(flags & SysFlag.BORNHOST_V6_FLAG)
    return MESSAGE_MIDDLES[born_v6, bool(flags & SysFlag.STOREHOSTADDRESS_V6_FLAG)]


def store_timestamp_position(flags: int) -> int:
    """Give where the store time of a record with this `sys_flag` begins in it."""
    return MESSAGE_PREFIX.size + middle_of(flags).positions["store_timestamp"]


def body_start(flags: int) -> int:
    """Give where the body of a record with this `sys_flag` begins in it."""
    return MESSAGE_PREFIX.size + middle_of(flags).size


def decode(raw: bytes, *, path: str = "<bytes>", position: int = 0) -> Message:
    """Read the record at the beginning of `raw`, and prove that its lengths fit together.

    Args:
        raw: the record; bytes after it are not looked at.
        path: where it came from, for the error.
        position: where it lay in that file, for the error.

    Raises:
        Truncated: the record goes on after `raw`.
        BadMagic: it is no record (a blank, for one).
        BadLength: a length is impossible, or the parts do not add up to the total size.
    """
    try:
        return _decode(raw)
    except DecodeError as error:
        error.path, error.position = path, position
        raise


def _decode(raw: bytes) -> Message:
    size, magic = _size_and_magic(raw)
    prefix = MESSAGE_PREFIX.packer.unpack_from(raw)
    layout = middle_of(prefix[_SYS_FLAG])
    start = MESSAGE_PREFIX.size + layout.size
    if start > size:
        _refuse("total_size", f"{size:,}, there are {start:,} bytes before the body")
    middle = layout.packer.unpack_from(raw, MESSAGE_PREFIX.size)

    body_length, width = middle[-1], TOPIC_LENGTH_BYTES[magic]
    body_end = start + max(body_length, 0)  # the broker reads a negative length as 0, too
    topic_start = body_end + width
    if topic_start + properties.LENGTH_BYTES > size:
        _refuse("body_length", f"{body_length:,} does not fit into {size:,} bytes")

    topic_length = big_endian(raw[body_end:topic_start])
    topic_end = topic_start + topic_length
    properties_start = topic_end + properties.LENGTH_BYTES
    if topic_length < 0 or properties_start > size:
        _refuse("topic_length", f"{topic_length:,} does not fit into {size:,} bytes")

    properties_length = big_endian(raw[topic_end:properties_start])
    end = properties_start + max(properties_length, 0)
    if end != size:
        _refuse("total_size", f"{size}, but the parts add up to {end}")
    body, topic = raw[start:body_end], raw[topic_start:topic_end]
    tail: tuple[Any, ...] = (
        body,
        topic_length,
        topic,
        properties_length,
        raw[properties_start:end],
    )
    return Message(*prefix, *middle, *tail)


def encode(message: Message) -> bytes:
    """Give the bytes of a record, the inverse of `decode`; every length as it stands.

    Raises:
        DecodeError: a value does not fit its field.
    """
    values = message._asdict()
    width = TOPIC_LENGTH_BYTES.get(message.magic_code, 1)
    try:
        topic_length = message.topic_length.to_bytes(width, "big", signed=True)
        properties_length = message.properties_length.to_bytes(
            properties.LENGTH_BYTES, "big", signed=True
        )
    except OverflowError as error:
        reason = f"cannot be written: {error}"
        raise DecodeError(path="<values>", position=0, field="length", reason=reason) from error
    return b"".join(
        (
            MESSAGE_PREFIX.build(values),
            middle_of(message.sys_flag).build(values),
            message.body,
            topic_length,
            message.topic_bytes,
            properties_length,
            message.properties_bytes,
        )
    )


def sealed(message: Message) -> Message:
    """Give a message its lengths, body CRC and IPv6 bits, as a broker does before it appends.

    The magic code stays: V2 is the caller's choice.
    Source: MessageExtEncoder#calMsgLength, 4.9.3 to 5.5.0.
    """
    hosts = SysFlag.BORNHOST_V6_FLAG | SysFlag.STOREHOSTADDRESS_V6_FLAG
    flags = message.sys_flag & ~hosts
    if len(message.born_address) == IPV6_BYTES:
        flags |= SysFlag.BORNHOST_V6_FLAG
    if len(message.store_address) == IPV6_BYTES:
        flags |= SysFlag.STOREHOSTADDRESS_V6_FLAG
    parts = (message.body, message.topic_bytes, message.properties_bytes)
    lengths = TOPIC_LENGTH_BYTES.get(message.magic_code, 1) + properties.LENGTH_BYTES
    return message._replace(
        total_size=MESSAGE_PREFIX.size + middle_of(flags).size + lengths + sum(map(len, parts)),
        body_crc=java.crc31(message.body),
        sys_flag=flags,
        body_length=len(message.body),
        topic_length=len(message.topic_bytes),
        properties_length=len(message.properties_bytes),
    )


def _size_and_magic(raw: bytes) -> tuple[int, int]:
    """Read the first two fields and prove that as many bytes are there."""
    if len(raw) < BLANK.size:
        raise _short(len(raw), BLANK.size)
    size, magic = BLANK.packer.unpack_from(raw)
    if magic not in TOPIC_LENGTH_BYTES:
        reason = f"{magic & 0xFFFFFFFF:#010x} is not a message's"
        raise BadMagic(path="", position=0, field="magic_code", reason=reason)
    if size < SMALLEST_RECORD:
        _refuse("total_size", f"{size}, the smallest record has {SMALLEST_RECORD}")
    if len(raw) < size:
        raise _short(len(raw), size)
    return size, magic


def _refuse(field: str, reason: str) -> NoReturn:
    raise BadLength(path="", position=0, field=field, reason=reason)


def _short(there: int, needed: int) -> Truncated:
    reason = f"{there:,} bytes are there, {needed:,} are needed"
    return Truncated(path="", position=0, field="total_size", reason=reason)
