"""Which function reads which view: bulk ones as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa

from rmqtool.tables import batch_queue, consume_queue, index, timer_tiered
from rmqtool.tables.fixed import Fixed, fixed_rows

Read: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]


def _fixed(fixed: Fixed) -> Read:
    return partial(fixed_rows, fixed)


# Each takes a part, a selection and `fillers`, and yields batches with the columns of its view.
READERS: Final[dict[str, Read]] = {
    "consume-queue": _fixed(consume_queue.UNITS),
    "batch-queue": _fixed(batch_queue.UNITS),
    "compaction-queue": _fixed(batch_queue.UNITS),
    "dledger-index": _fixed(timer_tiered.DLEDGER_INDEX),
    "timer-wheel": _fixed(timer_tiered.TIMER_WHEEL),
    "timer-log": _fixed(timer_tiered.TIMER_LOG),
    "index": index.entry_rows,
    "index-slot": index.slot_rows,
    "tiered-index": timer_tiered.tiered_rows,
    "tiered-index-slot": timer_tiered.tiered_slot_rows,
}
