"""The epoch file and the broker's identity, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import DecodeError, Truncated
from rmqtool.formats import epoch, java
from rmqtool.formats.epoch import BrokerIdentity, EpochEntry
from tests.formats.strategies import LONGS

ENTRIES = st.builds(EpochEntry, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))


@given(st.lists(ENTRIES, max_size=5))
def test_round_trip(entries: list[EpochEntry]) -> None:
    """Decode inverts encode, and the CRC is found equal."""
    file = epoch.decode(epoch.encode(tuple(entries)))
    assert (len(entries), tuple(entries)) == (file.count, file.entries)
    assert file.crc == file.crc_found


def test_crc_covers_line_ends() -> None:
    """The CRC is over the lines with their separators."""
    file = epoch.decode(b"2\n0\n1-0\n2-4096\n")
    assert file.entries == (EpochEntry(1, 0), EpochEntry(2, 4096))
    assert file.crc_found == java.crc31(b"1-0\n2-4096\n")


def test_line_that_is_no_entry() -> None:
    """The broker skips such a line; count and entries then differ."""
    file = epoch.decode(b"2\n0\n1-0\nrubbish\n")
    assert (2, 1) == (file.count, len(file.entries))


@pytest.mark.parametrize("raw", [b"", b"1\n", b"\xff\n", b"x\n0\n", b"1\n0\na-b\n"])
def test_rubbish(raw: bytes) -> None:
    """What has no head or no numbers is refused."""
    with pytest.raises(DecodeError):
        epoch.decode(raw)


def test_identity() -> None:
    """Cluster, broker and number; the temporary file has a check code behind them."""
    assert epoch.decode_identity(b"c#b#1") == BrokerIdentity("c", "b", 1)
    assert epoch.decode_identity(b"c#b#1#uuid\n") == BrokerIdentity("c", "b", 1, "uuid")


def test_identity_rubbish() -> None:
    """Too few parts and a number that is none are refused."""
    with pytest.raises(Truncated):
        epoch.decode_identity(b"c#b")
    with pytest.raises(DecodeError):
        epoch.decode_identity(b"c#b#x")


@given(LONGS)
def test_any_number(number: int) -> None:
    """Any long is a broker's number."""
    assert epoch.decode_identity(f"c#b#{number}".encode()).broker_id == number
