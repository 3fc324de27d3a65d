"""Batch consume queue files as arrays of units. Judging is in check/queues/batch_queue.py.

Source: BatchConsumeQueue#recover, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.scan.units import UnitBatch, scan_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.segment import SegmentPart


def scan(part: SegmentPart) -> Iterator[UnitBatch]:
    """Tile a part of a batch queue file with batches of units.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises.
    """
    return scan_units(part, BATCH_CQ_UNIT)


def is_accepted(batch: UnitBatch) -> npt.NDArray[np.bool_]:
    """Tell which units a broker takes for valid when it recovers."""
    accepted: npt.NDArray[np.bool_] = (
        (batch.column("physical_offset") >= 0)
        & (batch.column("size") > 0)
        & (batch.column("msg_base_offset") >= 0)
        & (batch.column("batch_size") > 0)
    )
    return accepted
