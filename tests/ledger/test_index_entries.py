"""Why index entries are not those that the log wants: the shortest explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from rmqtool.ledger.index_entries import LOOK_AHEAD, EntryVerdict, are_expired, explain

if TYPE_CHECKING:
    import numpy.typing as npt

START: Final = 1000  # of the log
# hash and physical offset; each record has two keys
WANTED: Final = [(key, START + 100 * (key // 2)) for key in range(40)]
WILD: Final = (7, 1 << 40)
EXPIRED: Final = [(key, 10 * key) for key in range(1, 9)]


def pairs(entries: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
    """Give entries by columns, as many as are looked at."""
    return np.array(entries[:LOOK_AHEAD], np.int64).reshape(-1, 2).T


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([WILD, *WANTED[1:]], (EntryVerdict.DAMAGED, 1, 1)),
        ([WILD, WILD, WILD, *WANTED[3:]], (EntryVerdict.DAMAGED, 3, 3)),
        ([WILD, WILD, *WANTED], (EntryVerdict.UNASKED, 2, 0)),
        (WANTED[3:], (EntryVerdict.MISSING, 0, 3)),
        ([*EXPIRED, *WANTED], (EntryVerdict.EXPIRED, 8, 0)),
        ([WILD, *EXPIRED, *WANTED], (EntryVerdict.UNASKED, 1, 0)),
        ([WILD], (EntryVerdict.LATER, 0, 40)),
        ([(99, START + 450), (98, START + 460)], (EntryVerdict.LATER, 0, 10)),
        ([(99, START), (98, START + 1)], (EntryVerdict.DAMAGED, 1, 1)),
        ([(99, START - 1), (98, START - 2)], (EntryVerdict.EXPIRED, 2, 0)),
    ],
)
def test_shortest(there: list[tuple[int, int]], expected: tuple[EntryVerdict, int, int]) -> None:
    """Damaged entries, too many, too few, and those before the begin of the log."""
    assert expected == explain(pairs(WANTED), pairs(there), START, has_tags=False)


def test_last_of_a_file() -> None:
    """After the last entry none tells that it is too far: the next file, or the log, does."""
    there = pairs([WILD])
    later = explain(pairs(WANTED), there, None, has_tags=False, limit=WILD[1])
    assert (EntryVerdict.LATER, 0, 40) == later
    damaged = explain(pairs(WANTED), there, None, has_tags=False, limit=WILD[1] - 1)
    assert (EntryVerdict.DAMAGED, 1, 1) == damaged


def test_no_live_one_expires() -> None:
    """After an entry that the log wants, one from before the log is damaged."""
    there = pairs([(99, START - 1), (98, START - 2), (97, 0)])
    found = explain(pairs(WANTED), there, None, has_tags=False)
    assert (EntryVerdict.DAMAGED, 1, 1) == found


def test_tags() -> None:
    """The last entry of a record may be missing, where releases before wrote none for tags."""
    without = pairs([entry for entry in WANTED if entry[0] % 2 == 0][1:])
    want = pairs(WANTED[1:])
    assert (EntryVerdict.UNTAGGED, 0, 1) == explain(want, without, START, has_tags=True)
    assert (EntryVerdict.MISSING, 0, 1) == explain(want, without, START, has_tags=False)


def test_expired() -> None:
    """Some damaged entries before those of expired records do not hide them, many do."""
    for wild in range(12):
        offsets = np.array([10, *[START + 1] * wild, 20, START, 30], np.int64)
        seen = [True, *[False] * wild, wild <= 8, False, wild <= 7]
        assert seen == are_expired(offsets, START).tolist()
