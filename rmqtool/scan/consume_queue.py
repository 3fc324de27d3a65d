"""Consume queue files as arrays of units. Judging is in check/queues/consume_queue.py.

Source: ConsumeQueue#recover, #fillPreBlank, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK_SIZE
from rmqtool.scan.units import UnitBatch, scan_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.segment import SegmentPart


def scan(part: SegmentPart) -> Iterator[UnitBatch]:
    """Tile a part of a consume queue file with batches of units.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises.
    """
    return scan_units(part, CQ_UNIT)


def is_accepted(batch: UnitBatch) -> npt.NDArray[np.bool_]:
    """Tell which units a broker takes for valid when it recovers; pre-blanks are among them."""
    accepted: npt.NDArray[np.bool_] = (batch.column("physical_offset") >= 0) & (
        batch.column("size") > 0
    )
    return accepted


def is_pre_blank(batch: UnitBatch) -> npt.NDArray[np.bool_]:
    """Tell which units only fill the space before the first one of a queue."""
    blank: npt.NDArray[np.bool_] = (batch.column("size") == PRE_BLANK_SIZE) & (
        batch.column("physical_offset") == 0
    )
    return blank
