"""Queue units: vectors, fillers, ext addresses and bitmaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import BadLength, Truncated
from rmqtool.formats import batch_queue, bloom, consume_queue, consume_queue_ext
from rmqtool.formats.consume_queue_ext import ExtUnit
from tests.formats.strategies import LONGS


def test_unit_vector() -> None:
    """The unit of the appendix's record."""
    unit = {"physical_offset": 1073741824, "size": 128, "tags_code": 2598919}
    raw = bytes.fromhex("0000000040000000000000800000000000 27a807")
    assert unit == consume_queue.CQ_UNIT.parse(raw)
    assert raw == consume_queue.CQ_UNIT.build(unit)
    assert 140 == 7 * consume_queue.CQ_UNIT_SIZE


def test_fillers() -> None:
    """The bytes of a pre-blank unit and of the unit that ends a file of the compaction queue."""
    assert consume_queue.PRE_BLANK.hex() == "00000000000000007fffffff0000000000000000"
    assert consume_queue.is_pre_blank(0, 0x7FFFFFFF)
    assert not consume_queue.is_pre_blank(1, 0x7FFFFFFF)
    assert batch_queue.END_UNIT.hex() == "ff" * 8 + "00" * 30 + "ff" * 4 + "00" * 4


@pytest.mark.parametrize(
    ("configured", "expected"), [(6_000_000, 6_000_000), (6001, 6020), (1, 20), (20, 20)]
)
def test_file_length(configured: int, expected: int) -> None:
    """A queue file holds whole units."""
    assert expected == consume_queue.file_length(configured)


@given(st.integers(0, consume_queue_ext.MAX_REAL_OFFSET))
def test_ext_address(position: int) -> None:
    """A position becomes an address and back, and is never taken for a hash."""
    address = consume_queue_ext.address(position)
    assert consume_queue_ext.is_ext_address(address)
    assert position == consume_queue_ext.real_offset(address)


def test_ext_address_limits() -> None:
    """The smallest hash is no address; the number below it is the largest one."""
    assert not consume_queue_ext.is_ext_address(-(2**31))
    assert consume_queue_ext.is_ext_address(-(2**31) - 1)
    assert consume_queue_ext.MAX_REAL_OFFSET == 9_223_372_034_707_292_159
    assert consume_queue_ext.address(0) == -(2**63)


@given(LONGS, LONGS, st.binary(max_size=30))
def test_ext_unit_round_trip(tags_code: int, time: int, bit_map: bytes) -> None:
    """Decode inverts encode, and looks at no byte behind the unit."""
    unit = ExtUnit(20 + len(bit_map), tags_code, time, bit_map)
    raw = consume_queue_ext.encode(unit)
    assert unit == consume_queue_ext.decode(raw) == consume_queue_ext.decode(raw + b"\xff\xff")


@pytest.mark.parametrize("raw", [b"", b"\x00\x22", b"\xff\xff\x00\x00", bytes(20)], ids=bytes.hex)
def test_no_more_ext_units(raw: bytes) -> None:
    """The end marker, unused space, and less than a marker are no unit."""
    assert consume_queue_ext.decode(raw) is None


def test_ext_unit_lies() -> None:
    """A unit that is cut off, or whose two sizes disagree, is refused."""
    raw = consume_queue_ext.encode(ExtUnit(34, 1, 2, bytes(14)))
    with pytest.raises(Truncated):
        consume_queue_ext.decode(raw[:10])
    with pytest.raises(Truncated):
        consume_queue_ext.decode(raw[:-1])
    with pytest.raises(BadLength):
        consume_queue_ext.decode(b"\x00\x23" + raw[2:])
    with pytest.raises(BadLength):
        consume_queue_ext.decode(raw[:18] + b"\x80\x00" + raw[20:])


SIZES = {
    (20, 32): (3, 112),
    (20, 64): (3, 216),
    (10, 128): (4, 616),
    (1, 32): (7, 312),
    (5, 16): (5, 104),
    (50, 32): (1, 48),
}
POSITIONS = {
    "CID_test#TopicTest": (47, 102, 45),
    "group_a#TopicA": (83, 91, 44),
    "": (0, 0, 0),
    "消费组#主题": (101, 21, 111),
    "CID_0#topic0": (80, 66, 42),
    "CID_7#topic7": (63, 97, 19),
}


@pytest.mark.parametrize(("parameters", "expected"), SIZES.items())
def test_bloom_sizes(parameters: tuple[int, int], expected: tuple[int, int]) -> None:
    """Hash functions and bits follow from error rate and expected count."""
    bloom_filter = bloom.BloomFilter(*parameters)
    assert expected == (bloom_filter.hash_count, bloom_filter.bit_count)


@pytest.mark.parametrize(("text", "expected"), POSITIONS.items())
def test_bloom_positions(text: str, expected: tuple[int, ...]) -> None:
    """The bits that RocketMQ's own class gives."""
    assert expected == bloom.BloomFilter().bit_positions(text)


def test_bloom_bit_map() -> None:
    """Bits are counted from the lowest of each byte; the group's name comes first."""
    name = bloom.filter_name("CID_test", "TopicTest")
    bit_map = bloom.BloomFilter().bit_map(name)
    assert bit_map.hex() == "0000000000a00000000000004000"
    assert bloom.is_hit(bit_map, bloom.BloomFilter().bit_positions(name))
    assert not bloom.is_hit(bit_map, bloom.BloomFilter().bit_positions("group_a#TopicA"))
    assert not bloom.is_hit(b"", (0,))


@given(st.lists(st.text(max_size=10), min_size=1, max_size=5))
def test_bloom_holds_all(names: list[str]) -> None:
    """What went into a bitmap is found in it."""
    bloom_filter = bloom.BloomFilter()
    bit_map = bloom_filter.bit_map(*names)
    assert all(bloom.is_hit(bit_map, bloom_filter.bit_positions(name)) for name in names)
