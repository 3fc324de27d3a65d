"""Message IDs: create, decode, recognise."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import BadLength, DecodeError
from rmqtool.formats import message_id
from rmqtool.formats.message_id import ClientMessageId, OffsetMessageId, UniqueKey
from tests.formats.strategies import ADDRESSES, INTS, LONGS

UINT16 = st.integers(0, 2**16 - 1)
UINT32 = st.integers(0, 2**32 - 1)


def milliseconds(*date: int) -> int:
    """Give a UTC date as ms since 1970."""
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type, misc]


def test_offset_id_vector() -> None:
    """The ID of the appendix's record."""
    text = "0A00000200002A9F0000000040000000"
    found = message_id.decode_offset_id(text)
    assert OffsetMessageId(bytes([10, 0, 0, 2]), 10911, 1073741824) == found
    assert (text, "10.0.0.2:10911") == (str(found), found.host)


@given(ADDRESSES, INTS, LONGS)
def test_offset_id_round_trip(address: bytes, port: int, physical_offset: int) -> None:
    """Decode inverts text, in either case of the digits."""
    made = OffsetMessageId(address, port, physical_offset)
    assert made == message_id.decode_offset_id(str(made))
    assert made == message_id.decode_offset_id(str(made).lower())


@given(ADDRESSES, UINT16, INTS, UINT32, UINT16)
def test_unique_key_round_trip(
    address: bytes, process_id: int, loader_hash: int, time: int, counter: int
) -> None:
    """Decode inverts text; pid, time and counter are unsigned."""
    made = UniqueKey(address, process_id, loader_hash, time, counter)
    assert made == message_id.decode_unique_key(str(made))


@given(st.binary(min_size=6, max_size=6), UINT16, UINT32, UINT32)
def test_client_id_round_trip(mac: bytes, process_id: int, seconds: int, sequence: int) -> None:
    """Decode inverts text, and 34 digits are recognised."""
    made = ClientMessageId(1, mac, process_id, seconds, sequence)
    assert made == message_id.decode_client_id(str(made)) == message_id.recognise(str(made))
    assert made.time == milliseconds(2021, 1, 1) + seconds * 1000


TIMES = {
    "same month": (milliseconds(2023, 11, 14, 22), milliseconds(2023, 11, 14, 22)),
    "client ahead of UTC, first of the month": (
        milliseconds(2023, 12, 1, 7),
        milliseconds(2023, 11, 30, 23),
    ),
    "behind 24.86 days the count passes 2^31": (
        milliseconds(2024, 1, 31, 12),
        milliseconds(2024, 1, 31, 12),
    ),
    "new year": (milliseconds(2024, 1, 1, 5), milliseconds(2023, 12, 31, 21)),
}


@pytest.mark.parametrize(("local", "born"), TIMES.values(), ids=TIMES)
def test_unique_key_time(local: int, born: int) -> None:
    """The candidate nearest to the birth is the client's own wall clock."""
    date = datetime.fromtimestamp(local / 1000, UTC)
    since = local - milliseconds(date.year, date.month, 1)
    key = UniqueKey(bytes(4), 1, 2, since, 3)
    assert local == key.nearest_time(born)
    assert len(key.time_candidates(born)) == 3


@given(LONGS)
def test_any_birth(born: int) -> None:
    """A born timestamp outside the calendar gives no time, and no error."""
    found = UniqueKey(bytes(4), 1, 2, 5, 3).nearest_time(born)
    assert found is None or isinstance(found, int)


RECOGNISED = {
    "0A00000200002A9F0000000040000000": OffsetMessageId,
    "7F0000010BC318B4AAC28D7C2D0A0000": UniqueKey,
    "0A0000020000000000000000400000AA": UniqueKey,  # port 0
    "0A00000200002A9FFFFFFFFF40000000": UniqueKey,  # below the log
    "20010DB800000000000000000000000100002A9F0000000040000000": OffsetMessageId,
    "01" + "AB" * 16: ClientMessageId,
    "02" + "AB" * 16: type(None),
    "my own key": type(None),
    "0A000002 0002A9F0000000040000000": type(None),
    "": type(None),
    "Z" * 32: type(None),
    "٣" * 32: type(None),
}


@pytest.mark.parametrize(("text", "expected"), RECOGNISED.items())
def test_recognise(text: str, expected: type) -> None:
    """An offset ID has a port; what is not hex digits of a known length is nobody's ID."""
    assert expected is type(message_id.recognise(text))


@pytest.mark.parametrize("text", ["", "00", "0" * 33, "0" * 10_000])
def test_bad_length(text: str) -> None:
    """Another number of digits is refused, and a long text is not repeated in the error."""
    with pytest.raises(BadLength) as caught:
        message_id.decode_offset_id(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["Z" * 32, "0A000002 0002A9F0000000040000000"])
def test_bad_digits(text: str) -> None:
    """What is no hex digits is refused as a whole, from its first character on."""
    for decode in (message_id.decode_offset_id, message_id.decode_unique_key):
        with pytest.raises(DecodeError, match="not all are hex digits") as caught:
            decode(text)
        assert (text, 0) == (caught.value.path, caught.value.position)


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    """Any text is an ID or nothing."""
    found = message_id.recognise(text)
    assert found is None or str(found) == text.upper()
    for decode in (message_id.decode_unique_key, message_id.decode_client_id):
        if found is None and len(text) not in {32, 34, 56}:
            with pytest.raises(DecodeError):
                decode(text)
