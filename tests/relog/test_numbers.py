"""Queue offsets that stay: no two records of a queue claim the same, whatever a record counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rmqtool.errors import UsageError
from rmqtool.relog import fields as at
from rmqtool.relog.numbers import KeptNumbers


def chunk(*records: tuple[int, int]) -> Any:  # noqa: ANN401 - of a chunk, what numbers look at
    """Give records of one queue: queue offset and how many units each is."""
    fields = np.zeros((at.ROWS, len(records)), np.int64)
    fields[at.QUEUE_OFFSET], fields[at.UNITS] = np.array(records, np.int64).T
    return SimpleNamespace(fields=fields)


@pytest.mark.parametrize(
    ("chunks", "taken"),
    [
        ([[(0, 1), (1, 3), (4, 1)]], None),
        ([[(0, 1)], [(1, 3)], [(4, 1)]], None),
        ([[(0, 1), (0, 1)]], 0),
        ([[(0, 1), (1, 3), (3, 1)]], 3),
        ([[(0, 1), (1, 3)], [(3, 1)]], 3),
    ],
)
def test_taken(chunks: list[list[tuple[int, int]]], taken: int | None) -> None:
    """A record begins past all units of the one before it, in the same chunk or an earlier one."""
    numbers = KeptNumbers({b"orders": 0}, frozenset(), is_needed=True)
    *firsts, last = [chunk(*records) for records in chunks]
    for one in firsts:
        numbers.number(one)
    if taken is None:
        numbers.number(last)
        return
    with pytest.raises(UsageError, match=f"queue offset {taken} in topic orders queue 0"):
        numbers.number(last)
