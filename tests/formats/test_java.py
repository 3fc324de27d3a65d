"""Java's arithmetic: the vectors, and what Java 17 was seen to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import java

HASHES = {
    "TagA": 2598919,
    "TagA || TagB": 1359775119,
    "订单": 1129459,
    "\U0001f600": 1772899,
    "TopicTest#ORDER-1": -1111209712,
    "TopicTest#T#TagA": 1311325016,
    "TopicTest#订单": 3872117,
    "polygenelubricants": -2147483648,
    "T#jllgvmc": -2147483648,
    "": 0,
}
KEY_HASHES = {
    ("TopicTest", "ORDER-1"): 1111209712,
    ("TopicTest", "T#TagA"): 1311325016,
    ("TopicTest", "订单"): 3872117,
    ("T", "jllgvmc"): 0,  # Math.abs(Integer.MIN_VALUE) is negative, and then 0 is taken
}
CRCS = {b"123456789": 1274296614, b"hello": 907060870, b"": 0}
# new String(bytes, UTF_8).hashCode() and .length(), run under Java 17
MALFORMED = {
    "eda080": (65533, 1),  # an encoded surrogate is one mark
    "eda0": (65533, 1),
    "eda041": (2031588, 2),
    "edbfbf": (65533, 1),
    "f5": (65533, 1),
    "e282": (65533, 1),
    "e20102": (62977246, 3),  # separators of properties are never swallowed
    "f0908041": (2031588, 2),
    "c080": (2097056, 2),
    "f4909090": (2017367872, 4),
}


@pytest.mark.parametrize(("text", "expected"), HASHES.items())
def test_string_hash(text: str, expected: int) -> None:
    """Hashes are over UTF-16 units and wrap."""
    assert expected == java.string_hash(text)


@pytest.mark.parametrize(("topic_and_key", "expected"), KEY_HASHES.items())
def test_key_hash(topic_and_key: tuple[str, str], expected: int) -> None:
    """A key's hash is never negative."""
    assert expected == java.key_hash(*topic_and_key)


@pytest.mark.parametrize(("data", "expected"), CRCS.items())
def test_crc31(data: bytes, expected: int) -> None:
    """The top bit of the CRC is thrown away."""
    assert expected == java.crc31(data)


@given(st.text())
def test_string_hash_is_a_polynomial(text: str) -> None:
    """The hash is the sum of unit times power of 31, any plane included."""
    raw = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    expected = sum(unit * 31**power for power, unit in enumerate(reversed(units)))
    assert java.to_int32(expected) == java.string_hash(text)


@given(st.integers())
def test_wrapping(number: int) -> None:
    """Wrapped numbers are in range and equal modulo the word."""
    for wrap, bits in ((java.to_int32, 32), (java.to_int64, 64)):
        wrapped = wrap(number)
        assert -(2 ** (bits - 1)) <= wrapped < 2 ** (bits - 1)
        assert (wrapped - number) % 2**bits == 0


@given(st.integers(-(2**63), 2**63 - 1))
def test_parse_long(number: int) -> None:
    """What Java prints it reads."""
    assert number == java.parse_long(str(number))


@pytest.mark.parametrize("text", ["", "-", " 1", "1 ", "1_0", "0x1", "1.0", str(2**63), "9" * 5000])
def test_parse_long_refuses(text: str) -> None:
    """What Long.parseLong throws at is None, however long it is."""
    assert java.parse_long(text) is None


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text(text: str) -> None:
    """Sound UTF-8 is decoded as it is."""
    assert text == java.text(text.encode())


@pytest.mark.parametrize(("raw", "expected"), MALFORMED.items())
def test_malformed_text(raw: str, expected: tuple[int, int]) -> None:
    """Malformed UTF-8 gives as many marks as in Java, as key hashes are over them."""
    text = java.text(bytes.fromhex(raw))
    assert expected == (java.string_hash(text), len(text))


@given(st.binary())
def test_any_bytes_are_text(raw: bytes) -> None:
    """Any bytes become text that can be encoded again."""
    assert bool(raw) == bool(java.text(raw).encode())
