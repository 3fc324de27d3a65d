"""Numbers in order: what numpy says of them, in a fraction of its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.machine.arrays import are_within, distinct, in_order, is_in, numbered, order_of

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=40)


@given(NUMBERS, NUMBERS)
def test_as_numpy(some: list[int], others: list[int]) -> None:
    """What is left without doubles, what is among them, and their order, is what numpy finds."""
    left, right = np.array(some, np.int64), np.array(others, np.int64)
    assert np.unique(right).tolist() == distinct(right).tolist()
    assert np.isin(left, right).tolist() == is_in(left, distinct(right)).tolist()
    assert np.argsort(left, kind="stable").tolist() == order_of(left).tolist()
    assert np.sort(left).tolist() == in_order(left)[0].tolist()


@given(NUMBERS.filter(bool))
def test_numbered(some: list[int]) -> None:
    """Each of the distinct ones has its place, near each other or far away."""
    for numbers in (np.array(some, np.int64), np.array(some, np.int64) // 2**60):
        expected = np.unique(numbers, return_inverse=True)
        for wanted, made in zip(expected, numbered(numbers), strict=True):
            assert wanted.tolist() == made.tolist()


@pytest.mark.parametrize("lowest", [0, -5, 1 << 40])
def test_few_runs(lowest: int) -> None:
    """Long runs one after the other are merged; equal numbers stay as they stood."""
    numbers = lowest + np.concatenate([np.arange(5000), np.arange(3, 5003), np.arange(4000)])
    ordered, places = in_order(numbers)
    assert np.sort(numbers).tolist() == ordered.tolist()
    assert np.argsort(numbers, kind="stable").tolist() == places.tolist()


@given(NUMBERS.map(sorted), NUMBERS)
def test_within(borders: list[int], offsets: list[int]) -> None:
    """An offset is in a stretch when it is at its begin or after it, and before its end."""
    stretches = [*zip(borders[::2], borders[1::2], strict=False)]
    starts = np.array([start for start, _ in stretches], np.int64)
    ends = np.array([end for _, end in stretches], np.int64)
    expected = [any(start <= offset < end for start, end in stretches) for offset in offsets]
    assert expected == are_within(np.array(offsets, np.int64), starts, ends).tolist()
