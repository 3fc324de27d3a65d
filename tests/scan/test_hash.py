"""Hashes in the kernels are Java's: of ASCII, of any UTF-8, and of what is none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqtool.formats import java
from rmqtool.machine.compiled import kernel
from rmqtool.scan.kernels_hash import decoded_hash, java_hash, signed
from tests.scan.test_texts import as_window

# `new String(bytes, UTF_8).hashCode()` of random bytes, as OpenJDK 17 prints it.
MALFORMED = [
    ("f5c2", 2097056),
    ("c002", 2031525),
    ("f8ef", 2097056),
    ("e0ed", 2097056),
    ("dff4", 2097056),
    ("9fa0", 2097056),
    ("f102", 2031525),
    ("807f", 2031650),
    ("7fdf02", 2153572),
    ("90c1c0", 65074269),
    ("018ff8", 2098017),
    ("80f0ef", 65074269),
    ("80c0f0", 65074269),
    ("f7e1e1", 65074269),
    ("f0a0c2", 2097056),
    ("7fc290", 4081),
    ("f0f07fc2", 2015340286),
    ("f5c1e1f1", 2017367872),
    ("c0bfeddf", 2017367872),
    ("f8f0ed8f", 65074269),
    ("bfefe080", 2017367872),
    ("ed01a041", 1954326152),
    ("dffff8e1", 2017367872),
    ("c2f04101", 2015272832),
    ("c080f090f4", 2017367872),
    ("e07f4101c2", 395471035),
    ("f8ede18f8f", 65013807),
    ("edf5f541ef", -1888069383),
    ("f7eff8f19f", 2017367872),
    ("e080f741df", -1888069383),
    ("8fa0dfc1c0", -1886039875),
    ("bfbf41f0e1", -1948954623),
    ("41f0e0ef90f0", 2077396737),
    ("f1dfc0f802e0", 1660340091),
    ("908f908f80e0", 1662371552),
    ("9fc2017f8ff0", -352747426),
    ("e190c101f7f7", -1949016127),
    ("bfedf5ffe090", 1662371552),
    ("dff8e1ede0ff", 1662371552),
    ("a080ffe1e101", 1662306020),
    ("f4ed8fc1c0ff02", 1662306021),
    ("ffc0f4417fef01", -2019301793),
    ("f7edf8ffc29fe1", 1660344958),
    ("01c1c2f4dfa080", -1859379751),
    ("df01e1f8ef90c2", 1271735524),
    ("c27f80bfe0ffa0", 81466843),
    ("020201f8f0c2f5", -444410239),
    ("a0f8efdf414101", -71033695),
    ("c101a0e090f0f47f", -1925809146),
    ("7fc17f7f7f8ff501", 152199232),
    ("f8c0f4f4f041909f", -249590332),
    ("9fc0bfc1bf9fffc0", -186675584),
    ("f5417fc141f1ed01", 1471952322),
    ("c2eda0ed80e09ff5", 1662371552),
    ("efef7f01f802ffef", -552796153),
    ("c1f090e1c1a0f5c2", -6023907),
]
VECTORS = [
    ("TagA", 2598919),
    ("TagA || TagB", 1359775119),
    ("订单", 1129459),
    ("\U0001f600", 1772899),
    ("TopicTest#ORDER-1", -1111209712),
    ("TopicTest#T#TagA", 1311325016),
    ("TopicTest#订单", 3872117),
    ("polygenelubricants", -2147483648),
    ("", 0),
]


@kernel("UniTuple(int64, 2)(uint8[::1], int64, int64, int64)")
def hash_text(window: npt.NDArray[np.uint8], start: int, length: int, seed: int) -> tuple[int, int]:
    """Give the signed hash of a stretch, by the quick way and by the decoder."""
    quick = java_hash(window, start, length, seed)
    return signed(quick), signed(decoded_hash(window, start, length, seed)[0])


@pytest.mark.parametrize(("text", "expected"), VECTORS)
def test_vectors(text: str, expected: int) -> None:
    """The vectors of the formats' manual."""
    raw = text.encode()
    assert (expected, expected) == hash_text(as_window(b"##" + raw), 2, len(raw), 0)


@pytest.mark.parametrize(("digits", "expected"), MALFORMED)
def test_malformed(digits: str, expected: int) -> None:
    """Malformed UTF-8 is replaced as Java replaces it."""
    raw = bytes.fromhex(digits)
    assert (expected, expected) == hash_text(as_window(raw), 0, len(raw), 0)


@given(raw=st.one_of(st.text().map(str.encode), st.binary()), split=st.integers(0, 40))
@example(raw=b"\xed\xa0\x80", split=0)
@example(raw="\u0800\u0fff".encode(), split=0)  # the first of three bytes
@example(raw=b"\xe0\x80\x80", split=0)  # two bytes would do
@example(raw="\U00010000\U0010ffff".encode(), split=0)  # the first and the last of four bytes
def test_agrees_with_formats(raw: bytes, split: int) -> None:
    """Any bytes have the hash that `formats.java` gives them, however they lie."""
    expected = java.string_hash(java.text(raw))
    assert (expected, expected) == hash_text(as_window(bytes(split) + raw), split, len(raw), 0)


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_goes_on(before: str, after: str) -> None:
    """A hash goes on from that of what stands before."""
    seed = java.string_hash(before) & 0xFFFFFFFF
    raw = after.encode()
    expected = java.string_hash(before + after)
    assert (expected, expected) == hash_text(as_window(raw), 0, len(raw), seed)
