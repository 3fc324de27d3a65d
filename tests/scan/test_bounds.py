"""Kernels check no bounds: here a read behind a window's slack would end the process."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.scan import window as windows
from rmqtool.scan.batch import ScanOptions
from tests.scan.segments import MESSAGE, dledger_bytes, extents, segment_bytes, whole, written
from tests.scan.test_walk import varied

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

PAGE = mmap.PAGESIZE
KEPT: list[mmap.mmap] = []
OPTIONS = ScanOptions(
    keys=True, tag_keys=True, property_crc=True, well_formed=True, window_bytes=1 << 10
)
RAW = segment_bytes(
    [
        *varied(6),
        MESSAGE._replace(properties_bytes=b"__CRC32#\x010123456789\x02DELAY\x013\x02KEYS\x01a b"),
        MESSAGE._replace(body=bytes(3000)),
        *varied(3),
    ],
    size=9000,
)
ENTRIES = dledger_bytes(varied(12), size=6000)


def guarded(size: int) -> npt.NDArray[np.uint8]:
    """Give memory with a page behind it that may not be touched."""
    pages = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + PAGE)
    KEPT.append(memory)
    del KEPT[:-64]
    everything = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    last = ctypes.c_void_p(everything.ctypes.data + pages)
    assert protect(last, ctypes.c_size_t(PAGE), 0) == 0
    return everything[pages - size : pages]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@given(
    flips=st.lists(st.tuples(st.integers(0, 8999), st.integers(1, 255)), max_size=10),
    is_dledger=st.booleans(),
    cut=st.integers(0, 9000),
)
def test_nothing_behind_the_slack(
    flips: list[tuple[int, int]], is_dledger: bool, cut: int, tmp_path: Path
) -> None:
    """Whatever the bytes, no kernel reads behind the slack of its window."""
    raw = bytearray(ENTRIES if is_dledger else RAW)
    for position, mask in flips:
        raw[position % len(raw)] ^= mask
    segment = written(tmp_path, bytes(raw[: max(cut, 1)]), is_dledger=is_dledger)
    expected = extents(whole(segment), OPTIONS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(windows, "room", guarded)
        assert expected == extents(whole(segment), OPTIONS)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@given(raw=st.binary(min_size=1, max_size=3000))
def test_any_bytes(raw: bytes, tmp_path: Path) -> None:
    """Bytes that are no segment at all are tiled, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(windows, "room", guarded)
        for is_dledger in (False, True):
            found = extents(whole(written(tmp_path, raw, is_dledger=is_dledger)), OPTIONS)
            assert len(raw) == sum(length for _, _, length, _ in found)
