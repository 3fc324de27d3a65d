"""The kernel that follows the chains of a key index file.

Source: IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.index import INDEX_ENTRY
from rmqtool.machine.compiled import kernel
from rmqtool.machine.intrinsics import load_i4

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

ENTRY: Final = INDEX_ENTRY.size
AT_HASH: Final = INDEX_ENTRY.positions["key_hash"]
AT_PREVIOUS: Final = INDEX_ENTRY.positions["previous"]


@kernel("int64(uint8[::1], UniTuple(int64, 2), int32[::1], int64[:, ::1])")
def follow_chains(raw: UInt8s, place: tuple[int, int], newest: Int64s, wrong: Int64s) -> int:
    """Compare the links of entries with what a broker would have written; return the wrong ones.

    Args:
        raw: uint8, shape (ENTRY * n,).
        place: number of the first entry, and entries.
        newest: int32, shape (slots,): newest entry of each chain so far; kept up to date.
        wrong: int64, shape (3, m), m >= n: number, expected, actual of each wrong link.
    """
    first, count = place
    slots, found = newest.size, 0
    for at in range(count):
        key_hash = load_i4(raw, at * ENTRY + AT_HASH)
        previous = load_i4(raw, at * ENTRY + AT_PREVIOUS)
        expected = -1
        if key_hash >= 0:
            slot = key_hash % slots
            expected = newest[slot]
            newest[slot] = first + at
        if previous != expected:
            wrong[0, found], wrong[1, found], wrong[2, found] = first + at, expected, previous
            found += 1
    return found
