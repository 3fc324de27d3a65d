"""The checksum in the kernels: isal's routine, the tables and zlib agree."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqtool.scan import columns as row
from rmqtool.scan import crc
from rmqtool.scan.kernels_walk import body_crcs
from tests.scan.test_texts import as_window


def kernel_crc(raw: bytes, start: int, *, by_tables: bool) -> int:
    """Sum the bytes from `start` on in a kernel."""
    columns = np.zeros((row.ROWS, 1), np.int64)
    columns[row.BODY_START], columns[row.BODY_LENGTH] = start, len(raw) - start
    body_crcs(as_window(raw), columns, 1, crc.checksum(by_tables=by_tables))
    return int(columns[row.BODY_CRC_FOUND, 0])


@pytest.mark.parametrize("by_tables", [False, True])
@given(raw=st.binary(max_size=200), skipped=st.integers(0, 20))
@example(raw=b"hello", skipped=0)
@example(raw=bytes(range(256)) * 20, skipped=3)
def test_agrees_with_zlib(by_tables: bool, raw: bytes, skipped: int) -> None:
    """Any length at any place, the CRC is that of zlib without its top bit."""
    start = min(skipped, len(raw))
    assert crc32(raw[start:]) & 0x7FFFFFFF == kernel_crc(raw, start, by_tables=by_tables)


@pytest.mark.parametrize("by_tables", [False, True])
def test_vectors(by_tables: bool) -> None:
    """The vectors of the formats' manual."""
    assert 1274296614 == kernel_crc(b"123456789", 0, by_tables=by_tables)
    assert 907060870 == kernel_crc(b"hello", 0, by_tables=by_tables)


def test_missing_routine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel that does not export the routine is no error: its address is 0."""
    crc.address.cache_clear()
    monkeypatch.setattr(crc, "ROUTINE", "no_such_function")
    assert crc.address() == 0
    crc.address.cache_clear()
