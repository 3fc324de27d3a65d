"""The flag word: every bit has its word, and unknown ones are kept."""

from __future__ import annotations

import pytest
from hypothesis import given

from rmqtool.formats import sys_flag
from tests.formats.strategies import INTS

WORDS = {
    0x000: ((), "none", "none"),
    0x001: (("compressed", "zlib"), "none", "zlib"),
    0x101: (("compressed", "lz4"), "none", "lz4"),
    0x201: (("compressed", "zstd"), "none", "zstd"),
    0x301: (("compressed", "zlib"), "none", "zlib"),
    0x701: (("compressed", "unknown"), "none", "unknown"),
    0x300: ((), "none", "none"),  # type bits say nothing without the compression bit
    0x002: (("multi_tags",), "none", "none"),
    0x004: (("prepared",), "prepared", "none"),
    0x008: (("commit",), "commit", "none"),
    0x00C: (("rollback",), "rollback", "none"),
    0x0C0: (("need_unwrap", "inner_batch"), "none", "none"),
    0x030: (("born_host_v6", "store_host_v6"), "none", "none"),
    0x800: (("0x800",), "none", "none"),
    -1: (
        (
            *("compressed", "multi_tags", "born_host_v6", "store_host_v6", "need_unwrap"),
            *("inner_batch", "rollback", "unknown", "0xfffff800"),
        ),
        "rollback",
        "unknown",
    ),
}


@pytest.mark.parametrize(("flags", "expected"), WORDS.items())
def test_words(flags: int, expected: tuple[tuple[str, ...], str, str]) -> None:
    """Names, transaction type and compression of a flag word."""
    found = (sys_flag.names(flags), sys_flag.transaction(flags), sys_flag.compression(flags))
    assert expected == found


@given(INTS)
def test_any_word(flags: int) -> None:
    """Any number has a transaction type and a compression."""
    assert sys_flag.transaction(flags) in {"none", "prepared", "commit", "rollback"}
    assert sys_flag.compression(flags) in {"none", "zlib", "lz4", "zstd", "unknown"}
