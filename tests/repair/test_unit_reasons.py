"""What a repair says was wrong with units, from what they are and what they must be."""

from __future__ import annotations

import numpy as np
import pytest

from rmqtool.findings.catalogue import Code
from rmqtool.findings.registry_consume_queue import CQ_GAP, CQ_HOLE, CQ_MISMATCH, CQ_TAG
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.repair.patches import kind_of

WANT = [(1000, 100, 7 << 40), (1100, 100, 8 << 40)]


@pytest.mark.parametrize(
    ("have", "code"),
    [
        ([(1000, 100, 9 << 40), (1100, 100, 8 << 40)], CQ_TAG),
        ([(0, 0, 0), (0, 0, 0)], CQ_GAP),
        ([(0, 0, 0), (1100, 100, 8 << 40)], CQ_HOLE),
        ([(-1, 100, 7 << 40), (1100, 100, 8 << 40)], CQ_HOLE),
        ([(1000, 101, 7 << 40), (1100, 100, 8 << 40)], CQ_MISMATCH),
        ([(2000, 100, 7 << 40), (1100, 100, 8 << 40)], CQ_MISMATCH),
    ],
)
def test_kind(have: list[tuple[int, int, int]], code: Code) -> None:
    """Tags alone, nothing at all, invalid units, others: each has its code."""
    assert code == kind_of(np.array(WANT, CQ_UNIT.dtype), np.array(have, CQ_UNIT.dtype))[0]
