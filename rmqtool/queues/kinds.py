"""What kind of unit a unit is: said here, by the rules of the broker's recovery, and nowhere else.

numpy is imported when an array is asked for: `info` and `query` do without.
Source: ConsumeQueue, BatchConsumeQueue, SparseConsumeQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, Number, is_pre_blank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.formats.layout import Layout

    Units = npt.NDArray[np.void]
    Kinds = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class UnitKind(enum.IntEnum):
    """What a unit is, by the rules of the broker's recovery."""

    INVALID = 0  # recovery ends in front of it
    REAL = 1  # stands for a record
    PRE_BLANK = 2  # valid for recovery; fills the space in front of the first real unit
    EMPTY = 3  # zeros: space that was never used
    CLOSING = 4  # END_UNIT: the last unit of a finished file of the compaction store's queue


RECOVERED: Final = (UnitKind.REAL, UnitKind.PRE_BLANK)  # what recovery takes for valid


def kind_of(physical_offset: Number, size: Number, tags_code: Number) -> Number:
    """Say what a consume queue unit is: one of `UnitKind`; arrays give int64, shape (n,).

    Source: ConsumeQueue#recover, #fillPreBlank, 4.9.3 to 5.5.0.
    """
    blank = is_pre_blank(physical_offset, size)
    real = (physical_offset >= 0) & (size > 0) & (blank ^ True)
    empty = (physical_offset == 0) & (size == 0) & (tags_code == 0)
    kind: Number = UnitKind.PRE_BLANK * blank + UnitKind.EMPTY * empty + UnitKind.REAL * real
    return kind


def batch_kind_of(
    physical_offset: Number,
    size: Number,
    store_timestamp: Number,
    msg_base_offset: Number,
    batch_size: Number,
) -> Number:
    """Say what a batch queue unit is: one of `UnitKind`; arrays give int64, shape (n,).

    Source: BatchConsumeQueue#recover, SparseConsumeQueue#putEndPositionInfo, 5.0.0 to 5.5.0.
    """
    is_message = (msg_base_offset >= 0) & (batch_size > 0)
    real = (physical_offset >= 0) & (size > 0) & is_message
    rest = (size == 0) & (msg_base_offset == 0) & (batch_size == 0) & (store_timestamp == 0)
    empty, closing = rest & (physical_offset == 0), rest & (physical_offset == -1)
    kind: Number = UnitKind.REAL * real + UnitKind.EMPTY * empty + UnitKind.CLOSING * closing
    return kind


def kinds_of(units: Units) -> Kinds:
    """Say what each unit is: int64, shape (n,), of `UnitKind`.

    Args:
        units: shape (n,), of the dtype of CQ_UNIT or BATCH_CQ_UNIT.
    """
    import numpy as np

    is_batch = units.dtype == BATCH_CQ_UNIT.dtype
    rest = ("store_timestamp", "msg_base_offset", "batch_size") if is_batch else ("tags_code",)
    columns = (units[name].astype(np.int64) for name in ("physical_offset", "size", *rest))
    return batch_kind_of(*columns) if is_batch else kind_of(*columns)


def are_recovered(units: Units) -> Mask:
    """Tell which units recovery takes for valid: bool, shape (n,); see `RECOVERED`.

    The same as by `kinds_of`, at a third of its cost.
    """
    is_recovered: Mask = (units["physical_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_CQ_UNIT.dtype:
        is_recovered &= (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return is_recovered


def are_real(units: Units) -> Mask:
    """Tell which units stand for a record: bool, shape (n,)."""
    is_real = are_recovered(units)
    if units.dtype != BATCH_CQ_UNIT.dtype:
        is_real &= is_pre_blank(units["physical_offset"], units["size"]) == 0
    return is_real


def as_units(raw: bytes | memoryview, layout: Layout = CQ_UNIT) -> Units:
    """Give whole units as a structured array, big-endian; what is left of one is left out."""
    import numpy as np

    units: Units = np.frombuffer(raw, layout.dtype, len(raw) // layout.size)
    return units
