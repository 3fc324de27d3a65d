"""Units are of one kind each, the same one by one and as arrays, by the rule of recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, END_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK, PRE_BLANK_SIZE
from rmqtool.queues.kinds import (
    RECOVERED,
    UnitKind,
    are_real,
    are_recovered,
    as_units,
    batch_kind_of,
    kind_of,
    kinds_of,
)

LONGS = st.one_of(st.sampled_from([-(2**63), -1, 0, 1, 2**40]), st.integers(-(2**63), 2**63 - 1))
SIZES = st.one_of(st.sampled_from([-1, 0, 1, PRE_BLANK_SIZE]), st.integers(-(2**31), 2**31 - 1))
SHORTS = st.one_of(st.sampled_from([-1, 0, 1]), st.integers(-(2**15), 2**15 - 1))
PLAIN = {"physical_offset": 0, "size": 0, "tags_code": 0}
BATCH = dict.fromkeys(BATCH_CQ_UNIT.positions, 0)


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (CQ_UNIT.build(PLAIN), UnitKind.EMPTY),
        (PRE_BLANK, UnitKind.PRE_BLANK),
        (CQ_UNIT.build(PLAIN | {"size": 200}), UnitKind.REAL),  # the first record of a log
        (CQ_UNIT.build(PLAIN | {"physical_offset": 7, "size": PRE_BLANK_SIZE}), UnitKind.REAL),
        (CQ_UNIT.build(PLAIN | {"physical_offset": -1, "size": 200}), UnitKind.INVALID),
        (CQ_UNIT.build(PLAIN | {"physical_offset": 7}), UnitKind.INVALID),
        (CQ_UNIT.build(PLAIN | {"tags_code": 7}), UnitKind.INVALID),
        (BATCH_CQ_UNIT.build(BATCH), UnitKind.EMPTY),
        (END_UNIT, UnitKind.CLOSING),
        (BATCH_CQ_UNIT.build(BATCH | {"size": 200, "batch_size": 2}), UnitKind.REAL),
        (BATCH_CQ_UNIT.build(BATCH | {"size": 200}), UnitKind.INVALID),
    ],
)  # fmt: skip
def test_kind(unit: bytes, kind: UnitKind) -> None:
    """Each unit has the kind that the broker's code gives it."""
    layout = CQ_UNIT if len(unit) == CQ_UNIT.size else BATCH_CQ_UNIT
    assert [kind] == kinds_of(as_units(unit, layout)).tolist()


def assert_masks(unit: np.ndarray[Any, np.dtype[np.void]], kind: int) -> None:
    """Assert that the quick masks say what the kind says."""
    assert [kind in RECOVERED] == are_recovered(unit).tolist()
    assert [kind == UnitKind.REAL] == are_real(unit).tolist()


@given(LONGS, SIZES, LONGS)
def test_plain(physical_offset: int, size: int, tags_code: int) -> None:
    """One unit alone is what it is in an array; recovery goes on behind what ConsumeQueue says."""
    unit = as_units(CQ_UNIT.packer.pack(physical_offset, size, tags_code))
    kind = kind_of(physical_offset, size, tags_code)
    assert [kind] == kinds_of(unit).tolist()
    assert (physical_offset >= 0 and size > 0) == (kind in RECOVERED)
    assert_masks(unit, kind)


@given(LONGS, SIZES, LONGS, LONGS, SHORTS)
def test_batch(physical_offset: int, size: int, time: int, base: int, messages: int) -> None:
    """The same of batch queues."""
    raw = BATCH_CQ_UNIT.packer.pack(physical_offset, size, 0, time, base, messages, -1, 0)
    kind = batch_kind_of(physical_offset, size, time, base, messages)
    unit = as_units(raw, BATCH_CQ_UNIT)
    assert [kind] == kinds_of(unit).tolist()
    assert_masks(unit, kind)
    is_valid = physical_offset >= 0 and size > 0 and base >= 0 and messages > 0
    assert is_valid == (kind in RECOVERED)
