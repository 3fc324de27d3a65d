"""Properties: what the readers of the releases keep, what they drop, and the CRC at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import properties
from tests.formats.strategies import PROPERTIES

READERS = {
    b"": {},
    b"a\x01b\x02": {"a": "b"},
    b"a\x01b": {"a": "b"},
    b"a\x01b\x02c\x01d": {"a": "b", "c": "d"},
    b"a\x01\x02": {},
    b"\x01b\x02": {},
    b"a\x01b\x01c\x02": {"a": "b\x01c"},
    b"a\x01b\x01\x02": {"a": "b\x01"},
    b"no separator\x02a\x01b": {"a": "b"},
    b"\x02\x02a\x01b\x02\x02": {"a": "b"},
    b"a\x01first\x02a\x01second\x02": {"a": "second"},
    b"a\x01\xff\x02": {"a": "\ufffd"},
    "键\x01值\x02".encode(): {"键": "值"},
}


@pytest.mark.parametrize(("raw", "expected"), READERS.items())
def test_readers(raw: bytes, expected: dict[str, str]) -> None:
    """What a broker reads from the same bytes."""
    assert expected == properties.decode(raw)


@given(PROPERTIES, st.booleans())
def test_round_trip(values: dict[str, str], ends: bool) -> None:
    """Both writers' forms are read back."""
    raw = properties.encode(values, ends_with_separator=ends)
    assert values == properties.decode(raw)


@given(st.binary())
def test_items_tile(raw: bytes) -> None:
    """Items cover all bytes in order; the kept ones are those that are decoded."""
    position, kept = 0, {}
    for item in properties.items(raw):
        assert position == item.position
        position += item.length
        if item.is_kept:
            kept[item.name] = item.value
    assert position == len(raw)
    assert len(properties.decode(raw)) <= len(kept)


def test_keys() -> None:
    """Keys are cut at single spaces; runs of spaces make no empty keys."""
    assert properties.keys({"KEYS": " a  b c "}) == ("a", "b", "c")
    assert properties.keys({}) == ()


@given(st.binary(max_size=200))
def test_crc(head: bytes) -> None:
    """The CRC that is written is the one that is found and matches; a flip breaks it."""
    item = properties.crc_item(head)
    assert len(item) == properties.CRC32_RESERVED_LENGTH
    values = properties.decode(item)
    record = head + item
    assert properties.crc_matches(record, values) is True
    assert properties.crc_matches(b"\x01" + record, values) is not None


@pytest.mark.parametrize(
    ("value", "expected"), [("", 0), ("0000000000", 0), ("1000000000", 1), ("/000000000", None)]
)
def test_crc_that_is_zero(value: str, expected: int | None) -> None:
    """A CRC of 0 is one, as in 5.3.2 and later; a negative one is none."""
    assert expected == properties.stored_crc({"__CRC32#": value})


def test_crc_of_odd_digits() -> None:
    """Digits that are none never raise."""
    for value in ("/////////0", "z" * 300):
        found = properties.stored_crc({"__CRC32#": value})
        assert found is None or found >= 0


def test_crc_missing() -> None:
    """No CRC is no failure."""
    assert properties.crc_matches(b"", {}) is None


TORN = (
    b"a\x01b\0\0",
    b"a\0\0\x01b",
    b"no separator\x02a\x01b",
    b"\x01b\x02",
    b"\x02\x02a\x01b\x02\x02",
    b"a\x01b\x02\x02",
    b"a\x01\xff\x02",
    b"a\x01b\x02cd",
)


@pytest.mark.parametrize("raw", sorted({*READERS, *TORN}))
def test_torn(raw: bytes) -> None:
    """What a client may write is never torn: empty values, single NULs."""
    assert properties.are_torn(raw) == (raw in TORN)
    assert not properties.are_torn(b"KEYS\x01nul\0byte\x02" + b"WAIT\x01\x02")


def test_no_possessive_repetition_before_an_option() -> None:
    """Python before 3.11.5 goes wrong where `(...)*+` is followed by what may be absent."""
    assert ")*+(" not in properties._WHOLE_ITEMS.pattern.decode()  # noqa: SLF001 - what it must not have
