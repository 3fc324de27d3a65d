"""Offsets in stretches of the log that are lost, while more of them are found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.check.log.lost import ONE_BY_ONE, StretchSet


@dataclass
class Stretch:
    """A stretch that counts how often it is asked where it ends."""

    last: int
    asked: int = 0

    @property
    def end(self) -> int:
        """Behind its last byte."""
        self.asked += 1
        return self.last


@given(
    borders=st.lists(st.integers(0, 400), unique=True, max_size=80),
    offsets=st.lists(st.integers(-5, 405), max_size=40),
)
def test_mask(borders: list[int], offsets: list[int]) -> None:
    """Few offsets and many are told the same: whether a stretch has them."""
    borders = sorted(borders)[: len(borders) // 2 * 2]
    pairs = [*zip(borders[::2], borders[1::2], strict=True)]
    expected = [any(start <= offset < end for start, end in pairs) for offset in offsets]
    for asked in (offsets, offsets * ONE_BY_ONE * 80):
        covering: StretchSet[Stretch] = StretchSet()
        for start, end in pairs:
            covering.insert(start, Stretch(end))
        times = len(asked) // max(len(offsets), 1)
        assert expected * times == covering.mask(np.array(asked, np.int64)).tolist()


@pytest.mark.parametrize("count", [100, 1000])
def test_cost(count: int) -> None:
    """Whoever adds a stretch and asks about an offset, again and again, looks at no other ones."""
    stretches = [Stretch(10 * number + 5) for number in range(count)]
    covering: StretchSet[Stretch] = StretchSet()
    for number, stretch in enumerate(stretches):
        covering.insert(10 * number, stretch)
        assert covering.mask(np.array([10 * number + 1])).tolist() == [True]
    assert sum(stretch.asked for stretch in stretches) <= count * (ONE_BY_ONE + 1)
