"""Compressed bodies: all encodings both ways, ceilings, damage."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.compression import decompress
from tests.memory import peak

if TYPE_CHECKING:
    from collections.abc import Callable

WRITERS: dict[int, Callable[[bytes], bytes]] = {
    0x001: zlib.compress,
    0x101: lz4.frame.compress,
    0x201: zstandard.ZstdCompressor(level=5).compress,
    0x301: zlib.compress,
}
each_encoding = pytest.mark.parametrize("flags", WRITERS, ids=hex)


@each_encoding
@given(body=st.binary(max_size=3000))
def test_round_trip(flags: int, body: bytes) -> None:
    """What a client compressed comes back."""
    assert decompress(WRITERS[flags](body), flags) == (body, "")


@each_encoding
def test_large_body(flags: int) -> None:
    """A body of several steps comes back whole."""
    body = bytes(range(256)) * 8000
    assert decompress(WRITERS[flags](body), flags).body == body


@each_encoding
def test_ceiling(flags: int) -> None:
    """Exactly the ceiling is given, one byte more is not."""
    raw = WRITERS[flags](bytes(1000))
    assert decompress(raw, flags, 1000).body == bytes(1000)
    assert decompress(raw, flags, 999) == (None, "inflates to more than 999 bytes")


@each_encoding
def test_bomb(flags: int) -> None:
    """A body that inflates to 64 MiB is left long before it has."""
    raw = WRITERS[flags](bytes(64 << 20))
    assert decompress(raw, flags, 1 << 20).body is None
    assert peak(lambda: decompress(raw, flags, 1 << 20)) < 24 << 20


@each_encoding
def test_cut_off(flags: int) -> None:
    """A body that ends too early is no body, wherever it was cut."""
    raw = WRITERS[flags](bytes(range(256)) * 40)
    for length in (0, 1, 3, 5, 9, 17, len(raw) // 2, len(raw) - 1):
        decompressed = decompress(raw[:length], flags)
        if length or flags & 0x300 in {0, 0x300}:  # no frame at all is an empty body elsewhere
            assert decompressed.body is None
            assert decompressed.reason


@each_encoding
@given(raw=st.binary(max_size=200))
def test_rubbish(flags: int, raw: bytes) -> None:
    """Any bytes give a body or a reason."""
    decompressed = decompress(raw, flags, 10_000)
    assert (decompressed.body is None) == bool(decompressed.reason)


@each_encoding
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1))
def test_flips(flags: int, flips: list[tuple[int, int]]) -> None:
    """A damaged body gives a body or a reason, below the ceiling."""
    raw = bytearray(WRITERS[flags](b"all work and no play " * 50))
    for position, mask in flips:
        raw[position % len(raw)] ^= mask
    decompressed = decompress(bytes(raw), flags, 100_000)
    assert (decompressed.body is None) == bool(decompressed.reason)
    assert decompressed.body is None or len(decompressed.body) <= 100_000


@pytest.mark.parametrize("flags", [0x101, 0x201], ids=hex)
def test_several_frames(flags: int) -> None:
    """Frames one behind the other are one body, as in Java."""
    raw = WRITERS[flags](b"a" * 5000) + WRITERS[flags](b"b" * 5000)
    assert decompress(raw, flags).body == b"a" * 5000 + b"b" * 5000


@pytest.mark.parametrize("flags", [0, 0x300, 0x02])
def test_not_compressed(flags: int) -> None:
    """Without the compression bit the body is what is stored."""
    assert decompress(b"plain", flags).body == b"plain"


def test_unknown_type() -> None:
    """A type that Java throws at is a reason."""
    assert decompress(b"x", 0x401) == (None, "unknown compression type 0x400")
