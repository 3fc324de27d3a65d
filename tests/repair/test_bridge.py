"""Bridges: well-formed, inert, and just as long as asked for, whatever the length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.java import crc31
from rmqtool.formats.message import decode, encode
from rmqtool.formats.properties import crc_matches
from rmqtool.repair.log.bridge import SMALLEST_BRIDGE, BridgeMaker

TIME = 1_700_000_000_123


@given(
    length=st.integers(SMALLEST_BRIDGE + 20, 40_000),
    start=st.integers(0, 1 << 50),
    has_crc=st.booleans(),
)
def test_tiles(length: int, start: int, *, has_crc: bool) -> None:
    """Bridges tile a stretch; each is a ROLLBACK record that says where it lies, with its CRC."""
    maker = BridgeMaker(largest=5000, property_crc=has_crc)
    position = start
    for physical_offset, content in maker.over(start, length, TIME):
        raw = content.raw()
        message = decode(raw)
        assert (position, position) == (physical_offset, message.physical_offset)
        assert raw == encode(message)
        assert (b"rmqtool", "rollback", TIME) == (
            message.topic_bytes,
            message.transaction,
            message.store_timestamp,
        )
        assert crc31(message.body) == message.body_crc
        assert not any(message.body)
        assert (True if has_crc else None) == crc_matches(raw, message.properties)
        assert 5000 >= len(raw)
        position += len(raw)
    assert start + length == position


def test_smallest() -> None:
    """The smallest bridge has no body, and nothing smaller can be made."""
    maker = BridgeMaker()
    (_, content), *rest = maker.over(0, maker.smallest, TIME)
    assert (0, []) == (decode(content.raw()).body_length, rest)
    with pytest.raises(ValueError, match="needs 98 bytes"):
        list(maker.over(0, maker.smallest - 1, TIME))


def test_larger_than_a_message() -> None:
    """No bridge is larger than a message may be: two stand for a byte more."""
    maker = BridgeMaker()
    sizes = [content.size for _, content in maker.over(0, maker.largest + 1, TIME)]
    assert [maker.largest // 2, maker.largest // 2 + 1] == sizes
