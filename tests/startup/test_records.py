"""The broker's check of one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    Message,
    encode,
    sealed,
)
from rmqtool.startup.records import Checked, RecordCheck, RecordFailure
from rmqtool.startup.settings import Settings

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules

OLD, NEW = Rules(Version.parse("4.9.3")), Rules(Version.parse("5.5.0"))
MESSAGE = sealed(
    Message(
        queue_id=3,
        queue_offset=7,
        physical_offset=4096,
        store_timestamp=1_700_000_000_000,
        body=b"hello, broker",
        topic_bytes=b"orders",
        properties_bytes=b"TAGS\x01a\x02KEYS\x01k1 k2\x02",
    )
)


@dataclass(frozen=True)
class Bytes:
    """Bytes that are read as a file is."""

    raw: bytes

    def read_at(self, position: int, length: int) -> bytes:
        """Read; fewer bytes at the end."""
        return self.raw[position : position + length]


def check(raw: bytes, rules: Rules = NEW, settings: Settings | None = None) -> Checked:
    """Check what lies at the beginning, in a file that goes on behind it."""
    file = raw.ljust(4096, b"\0")
    return RecordCheck(rules, settings or Settings()).check(Bytes(file), 0, len(file))


def test_sound_record() -> None:
    """What dispatch needs comes from the fields, not from where the record lies."""
    checked = check(encode(MESSAGE))
    assert checked.record is not None
    assert (MESSAGE.size, MESSAGE.size) == (checked.size, checked.consumed)
    assert ("orders", 3, 4096, 7) == (
        checked.record.topic,
        checked.record.queue_id,
        checked.record.physical_offset,
        checked.record.queue_offset,
    )


def test_blank_passes_whatever_its_length() -> None:
    """The broker does not compare a blank's length with what is left; since 5.3.2 with too much."""
    for length in (8, 100, -1):
        raw = BLANK.packer.pack(length, BLANK_MAGIC_CODE)
        assert (0, None, None) == (check(raw).size, check(raw).record, check(raw).stop)
    too_long = BLANK.packer.pack(5000, BLANK_MAGIC_CODE)
    assert check(too_long, OLD).passed
    assert RecordFailure.BEYOND_FILE is check(too_long, NEW).stop
    negative = BLANK.packer.pack(-5, BLANK_MAGIC_CODE)
    assert check(negative, Rules(Version(5, 5, 0))).passed
    assert RecordFailure.LENGTHS is check(negative, Rules(Version(5, 5, 1))).stop


@pytest.mark.parametrize(
    ("message", "stop"),
    [
        (MESSAGE._replace(body_crc=1), RecordFailure.BODY_CRC),
        (MESSAGE._replace(total_size=MESSAGE.size + 1), RecordFailure.LENGTHS),
        (MESSAGE._replace(total_size=-5), RecordFailure.LENGTHS),
        (MESSAGE._replace(magic_code=0), RecordFailure.NO_MAGIC),
        (MESSAGE._replace(magic_code=0, total_size=0), RecordFailure.UNUSED),
    ],
)
def test_damage_stops(message: Message, stop: RecordFailure) -> None:
    """Each damage is told from the others, by old and new brokers alike."""
    assert stop is check(encode(message), OLD).stop
    assert stop is check(encode(message), NEW).stop


@pytest.mark.parametrize(
    "message",
    [
        MESSAGE._replace(physical_offset=12345),
        MESSAGE._replace(queue_offset=12345),
        MESSAGE._replace(store_timestamp=0),
        MESSAGE._replace(flag=-1),
    ],
)
def test_unprotected_fields_pass(message: Message) -> None:
    """The broker checks none of these."""
    assert check(encode(message)).passed


def test_second_version_of_records() -> None:
    """Records with long topics stop a broker that is older than they are."""
    message = sealed(MESSAGE._replace(magic_code=MESSAGE_MAGIC_CODE_V2, topic_bytes=b"t" * 200))
    assert check(encode(message), NEW).passed
    assert RecordFailure.NO_MAGIC is check(encode(message), OLD).stop


def test_size_that_fills_the_heap() -> None:
    """Before 5.3.2 the array comes first, and Java's Error is not caught."""
    raw = encode(MESSAGE._replace(total_size=2**31 - 1))
    assert RecordFailure.OUT_OF_MEMORY is check(raw, OLD).stop
    assert RecordFailure.BEYOND_FILE is check(raw, NEW).stop


def test_delay_level_must_be_a_number() -> None:
    """Only in the topic of delayed messages is it read."""
    odd = MESSAGE._replace(properties_bytes=b"DELAY\x01soon\x02")
    delayed = odd._replace(topic_bytes=b"SCHEDULE_TOPIC_XXXX")
    assert check(encode(sealed(odd))).passed
    assert RecordFailure.PROPERTY is check(encode(sealed(delayed))).stop


def test_without_crc_check() -> None:
    """`checkCRCOnRecover=false` lets damaged bodies pass."""
    raw = encode(MESSAGE._replace(body_crc=1))
    assert check(raw, settings=Settings(checks_crc=False)).passed


def test_property_crc_instead_of_body_crc() -> None:
    """`forceVerifyPropCRC` asks for a property that most records do not have; 4.9 knows it not."""
    forced = Settings(forces_property_crc=True)
    assert RecordFailure.PROPERTY_CRC is check(encode(MESSAGE), settings=forced).stop
    assert check(encode(MESSAGE), OLD, forced).passed


@given(flips=st.lists(st.tuples(st.integers(0, MESSAGE.size - 1), st.integers(1, 255)), max_size=4))
def test_content_never_raises(flips: list[tuple[int, int]]) -> None:
    """Whatever the bytes, there is an answer, and a record that passes ends inside the file."""
    raw = bytearray(encode(MESSAGE))
    for position, mask in flips:
        raw[position] ^= mask
    for rules in (OLD, NEW):
        checked = check(bytes(raw), rules)
        assert checked.passed == (checked.stop is None)
        assert checked.record is None or 0 < checked.size <= 4096
