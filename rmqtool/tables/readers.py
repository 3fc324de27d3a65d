"""Which function reads which view: bulk ones as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa

from rmqtool.tables import index, simple
from rmqtool.tables.batch_queue import BATCH_QUEUE
from rmqtool.tables.consume_queue import CONSUME_QUEUE
from rmqtool.tables.fixed import Fixed, fixed_rows

Read: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]
_OPTIONAL: Final = {"count", "extent", "code", "deliver_time", "ext_position", "write_time"}


@dataclass(frozen=True, slots=True)
class Reader:
    """How to read a view.

    Attributes:
        schema: its public columns.
        read: takes a part, a selection and `fillers`, and yields batches.
    """

    schema: pa.Schema
    read: Read

    @property
    def optional(self) -> frozenset[str]:
        """The fields that JSON leaves out where they are null."""
        return frozenset(_OPTIONAL.intersection(self.schema.names))


def _fixed(fixed: Fixed) -> Reader:
    read: Any = partial(fixed_rows, fixed)
    return Reader(fixed.schema, read)


READERS: Final = {
    "consume-queue": _fixed(CONSUME_QUEUE),
    "batch-queue": _fixed(BATCH_QUEUE),
    "compaction-queue": _fixed(BATCH_QUEUE),
    "dledger-index": _fixed(simple.DLEDGER_INDEX),
    "timer-wheel": _fixed(simple.TIMER_WHEEL),
    "timer-log": _fixed(simple.TIMER_LOG),
    "index": Reader(index.ENTRIES, index.entry_rows),
    "index-slot": Reader(index.SLOTS, index.slot_rows),
    "tiered-index": Reader(simple.TIERED_ITEMS.schema, simple.tiered_rows),
    "tiered-index-slot": Reader(simple.TIERED_SLOTS.schema, simple.tiered_slot_rows),
}
