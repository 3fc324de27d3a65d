"""Numbers in order: what numpy says of them, in a fraction of its time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.machine.arrays import distinct, is_in

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=40)


@given(NUMBERS, NUMBERS)
def test_as_numpy(some: list[int], others: list[int]) -> None:
    """What is left without doubles, and what is among them, is what numpy finds."""
    left, right = np.array(some, np.int64), np.array(others, np.int64)
    assert np.unique(right).tolist() == distinct(right).tolist()
    assert np.isin(left, right).tolist() == is_in(left, distinct(right)).tolist()
