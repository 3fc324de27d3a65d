"""Numbers in order: what numpy says of them, in a fraction of its time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.machine.arrays import are_within, distinct, is_in, order_of

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=40)


@given(NUMBERS, NUMBERS)
def test_as_numpy(some: list[int], others: list[int]) -> None:
    """What is left without doubles, what is among them, and their order, is what numpy finds."""
    left, right = np.array(some, np.int64), np.array(others, np.int64)
    assert np.unique(right).tolist() == distinct(right).tolist()
    assert np.isin(left, right).tolist() == is_in(left, distinct(right)).tolist()
    assert np.argsort(left, kind="stable").tolist() == order_of(left).tolist()


@given(NUMBERS.map(sorted), NUMBERS)
def test_within(borders: list[int], offsets: list[int]) -> None:
    """An offset is in a stretch when it is at its begin or after it, and before its end."""
    stretches = [*zip(borders[::2], borders[1::2], strict=False)]
    starts = np.array([start for start, _ in stretches], np.int64)
    ends = np.array([end for _, end in stretches], np.int64)
    expected = [any(start <= offset < end for start, end in stretches) for offset in offsets]
    assert expected == are_within(np.array(offsets, np.int64), starts, ends).tolist()
