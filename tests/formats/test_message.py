"""Commitlog records: vectors, round trips, and every length that can lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import BadLength, BadMagic, DecodeError, Truncated
from rmqtool.formats import properties
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_MIDDLES,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    Message,
    SysFlag,
    decode,
    encode,
    middle_of,
    sealed,
)
from tests.formats.strategies import messages
from tests.formats.vectors import RECORD_V1, RECORD_V1_WITH_CRC

VECTOR = Message(
    queue_id=3,
    queue_offset=7,
    physical_offset=1073741824,
    born_timestamp=1700000000000,
    born_address=bytes([10, 0, 0, 1]),
    born_port=54321,
    store_timestamp=1700000000005,
    store_address=bytes([10, 0, 0, 2]),
    store_port=10911,
    body=b"hello",
    topic_bytes=b"TopicTest",
    properties_bytes=b"KEYS\x01ORDER-1\x02TAGS\x01TagA\x02",
)


def test_vector() -> None:
    """The record of the format's appendix, field for field."""
    assert sealed(VECTOR) == decode(RECORD_V1)
    assert RECORD_V1 == encode(sealed(VECTOR))


def test_vector_meaning() -> None:
    """What the vector's fields mean."""
    message = decode(RECORD_V1)
    assert (128, 1, "TopicTest") == (message.size, message.version, message.topic)
    assert {"KEYS": "ORDER-1", "TAGS": "TagA"} == message.properties
    assert ("TagA", ("ORDER-1",), None) == (message.tags, message.keys, message.unique_key)
    assert ("10.0.0.1:54321", "10.0.0.2:10911") == (message.born_host, message.store_host)
    assert ("none", "none") == (message.transaction, message.compression)
    assert message.message_id == "0A00000200002A9F0000000040000000"
    assert message.crc_matches is True


def test_vector_with_property_crc() -> None:
    """The property CRC covers all but its own 20 bytes, digits in reverse."""
    message = decode(RECORD_V1_WITH_CRC)
    assert properties.stored_crc(message.properties) == 448894950
    assert properties.crc_matches(RECORD_V1_WITH_CRC, message.properties) is True
    assert properties.crc_item(RECORD_V1_WITH_CRC[:-20]) == b"__CRC32#\x010594988440\x02"


@given(messages())
def test_round_trip(message: Message) -> None:
    """Decode inverts encode, and only the record's own bytes are looked at."""
    raw = encode(message)
    assert message.total_size == len(raw)
    assert message == decode(raw)
    assert message == decode(raw + b"\xff" * 9)


@given(messages())
def test_construct_agrees(message: Message) -> None:
    """The declarations give the values that decode takes through struct."""
    raw = encode(message)
    prefix = MESSAGE_PREFIX.parse(raw)
    middle = middle_of(prefix["sys_flag"]).parse(raw[MESSAGE_PREFIX.size :])
    assert {**prefix, **middle} == {name: getattr(message, name) for name in (*prefix, *middle)}


@given(messages())
def test_hosts(message: Message) -> None:
    """IPv6 hosts are in brackets, IPv4 ones are not."""
    for host, address in (
        (message.born_host, message.born_address),
        (message.store_host, message.store_address),
    ):
        assert host.startswith("[") == (len(address) == 16)


def test_smallest_record() -> None:
    """An empty message has the smallest size that a record may have."""
    assert len(encode(sealed(Message()))) == SMALLEST_RECORD
    assert {(False, False): 40, (False, True): 52, (True, False): 52, (True, True): 64} == {
        hosts: middle.size for hosts, middle in MESSAGE_MIDDLES.items()
    }


def test_negative_lengths_count_as_zero() -> None:
    """The broker reads a negative body or properties length as no body, no properties."""
    message = sealed(Message())._replace(body_length=-1, properties_length=-5)
    assert message == decode(encode(message))


def test_empty_body_is_neither_right_nor_wrong() -> None:
    """Without a body the CRC says nothing."""
    assert decode(encode(sealed(Message(body_crc=5)))).crc_matches is None
    assert sealed(VECTOR)._replace(body=b"hellp").crc_matches is False


LIES = {
    "no bytes": (b"", Truncated, "total_size"),
    "half a prefix": (RECORD_V1[:40], Truncated, "total_size"),
    "cut": (RECORD_V1[:-1], Truncated, "total_size"),
    "magic": (RECORD_V1[:4] + bytes(4) + RECORD_V1[8:], BadMagic, "magic_code"),
    "blank": (
        BLANK.build({"total_size": 128, "magic_code": BLANK_MAGIC_CODE}) + bytes(120),
        BadMagic,
        "magic_code",
    ),
    "too small": (bytes([0, 0, 0, 90]) + RECORD_V1[4:], BadLength, "total_size"),
    "negative": (b"\xff" * 4 + RECORD_V1[4:], BadLength, "total_size"),
    "one less": (bytes([0, 0, 0, 127]) + RECORD_V1[4:], BadLength, "total_size"),
    "one more": (bytes([0, 0, 0, 129]) + RECORD_V1[4:] + b"x", BadLength, "total_size"),
    "huge": (b"\x7f\xff\xff\xff" + RECORD_V1[4:], Truncated, "total_size"),
    "IPv6 in 91 bytes": (
        encode(sealed(Message())._replace(sys_flag=0))[:36]
        + bytes([0, 0, 0, 0x30])
        + encode(sealed(Message()))[40:],
        BadLength,
        "total_size",
    ),
    "body": (RECORD_V1[:84] + b"\x7f\xff\xff\xff" + RECORD_V1[88:], BadLength, "body_length"),
    "topic": (RECORD_V1[:93] + b"\x7f" + RECORD_V1[94:], BadLength, "topic_length"),
    "negative topic": (RECORD_V1[:93] + b"\x80" + RECORD_V1[94:], BadLength, "topic_length"),
    "properties": (RECORD_V1[:103] + b"\x7f\xff" + RECORD_V1[105:], BadLength, "total_size"),
}


@pytest.mark.parametrize(("raw", "error", "field"), LIES.values(), ids=LIES)
def test_lies(raw: bytes, error: type[DecodeError], field: str) -> None:
    """Each lie has its own error, which names the place and the field."""
    with pytest.raises(error, match=rf"^log/00: at 0x3e8 \(1000\): {field}: ") as caught:
        decode(raw, path="log/00", position=1000)
    assert (1000, field) == (caught.value.position, caught.value.field)


@pytest.mark.parametrize(
    "change",
    [
        {"queue_id": 2**31},
        {"topic_length": 128},
        {"properties_length": 2**15},
        {"born_address": bytes(5)},
    ],
    ids=str,
)
def test_unwritable(change: dict[str, Any]) -> None:
    """What does not fit a field cannot be written."""
    with pytest.raises(DecodeError):
        encode(sealed(VECTOR)._replace(**change))


def test_long_topic_needs_v2() -> None:
    """A topic of 128 bytes or more fits into a V2 record only."""
    long = VECTOR._replace(topic_bytes=b"%RETRY%" + b"g" * 200, magic_code=MESSAGE_MAGIC_CODE_V2)
    assert decode(encode(sealed(long))).topic_bytes == long.topic_bytes
    assert sealed(long).version == 2


@given(st.integers(-(2**31), 2**31 - 1))
def test_middle_follows_two_bits(flags: int) -> None:
    """Only the two IPv6 bits choose the middle."""
    expected = MESSAGE_MIDDLES[
        bool(flags & SysFlag.BORNHOST_V6_FLAG), bool(flags & SysFlag.STOREHOSTADDRESS_V6_FLAG)
    ]
    assert expected is middle_of(flags)
