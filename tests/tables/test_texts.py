"""The kernels that read texts agree with the formats, whatever the bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import java
from rmqtool.formats import properties as formats
from rmqtool.tables import text_kernels as kernels
from rmqtool.tables.texts import TextStretches, lists_of_keys, properties, strings, values_of

PIECES = st.sampled_from(
    [
        b"\x01",
        b"\x02",
        b"a",
        b"b",
        b"KEYS",
        b"TAGS",
        b"=",
        b" ",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc3\xa9",
    ]
)
RAW = st.lists(PIECES, max_size=20).map(b"".join)
ROWS = st.lists(RAW, max_size=6)


def stretches_of(rows: list[bytes]) -> TextStretches:
    """Put texts into a window, with other bytes between them."""
    window, starts = bytearray(b"\x02x\x01"), []
    for raw in rows:
        starts.append(len(window))
        window += raw + b"\x01y\x02 "
    lengths = np.array([len(raw) for raw in rows], np.int64)
    return TextStretches(
        np.frombuffer(bytes(window), np.uint8).copy(), np.array(starts, np.int64), lengths
    )


@given(ROWS)
def test_strings(rows: list[bytes]) -> None:
    """Texts are decoded as Java does."""
    assert [java.text(raw) for raw in rows] == strings(stretches_of(rows)).to_pylist()


@given(ROWS)
def test_keys(rows: list[bytes]) -> None:
    """Keys are cut as the format says."""
    expected = [[key for key in java.text(raw).split(" ") if key] for raw in rows]
    assert expected == lists_of_keys(stretches_of(rows)).to_pylist()


@given(ROWS)
def test_properties(rows: list[bytes]) -> None:
    """Properties are those that the format reads, in its order."""
    found = properties(stretches_of(rows))
    expected = [list(formats.decode(raw).items()) for raw in rows]
    assert expected == found.maps.to_pylist()


@given(ROWS)
def test_lossy(rows: list[bytes]) -> None:
    """Where the map writes back to the stored bytes it is not called lossy."""
    lossy = set(properties(stretches_of(rows)).lossy.tolist())
    for number, raw in enumerate(rows):
        written = formats.encode(formats.decode(raw))
        is_exact = raw in {written, written.removesuffix(b"\x02")}
        assert is_exact == (number not in lossy)


@given(ROWS, st.sampled_from(["a", "b", "KEYS", "é"]))
def test_values_of(rows: list[bytes], name: str) -> None:
    """A property has the value that the format gives it, and none where it gives none."""
    found = values_of(stretches_of(rows), name)
    expected = [
        {item.name: item.value for item in formats.items(raw) if item.is_kept}.get(name.encode())
        for raw in rows
    ]
    assert expected == [found.raw(number) or None for number in range(len(rows))]


@given(ROWS, ROWS, st.sampled_from(["a", "ab", "KEYS", ""]))
def test_match_key(keys: list[bytes], unique: list[bytes], wanted: str) -> None:
    """A key matches when it is one of the keys, or the unique key."""
    count = min(len(keys), len(unique))
    key_rows, unique_rows = stretches_of(keys[:count] + unique[:count]), count
    places = key_rows.places
    first = (places[0][:unique_rows].copy(), places[1][:unique_rows].copy())
    second = (places[0][unique_rows:].copy(), places[1][unique_rows:].copy())
    mask = np.ones(count, np.uint8)
    raw = wanted.encode()
    kernels.match_key(key_rows.window, first, second, np.frombuffer(raw, np.uint8).copy(), mask)
    expected = [
        (raw in keys[n].split(b" ") and raw != b"") or raw == unique[n] for n in range(count)
    ]
    assert expected == mask.astype(bool).tolist()


@pytest.mark.parametrize("text", ["", "a", "TagA"])
def test_match_text(text: str) -> None:
    """A text matches when it is the same from end to end."""
    rows = [b"", b"a", b"TagA", b"TagB", b"TagAA"]
    mask = np.ones(len(rows), np.uint8)
    stretches = stretches_of(rows)
    wanted = np.frombuffer(text.encode(), np.uint8).copy()
    kernels.match_text(stretches.window, stretches.places, wanted, mask)
    assert [raw == text.encode() for raw in rows] == mask.astype(bool).tolist()
