"""Which function reads which view: bulk ones as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from rmqtool.tables import batch_queue, consume_queue, index, timer_tiered
from rmqtool.tables.fixed import Fixed, fixed_rows

if TYPE_CHECKING:
    from rmqtool.rows import Chunk
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection

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


def chunks(
    word: str, selection: Selection, columns: tuple[str, ...], part: FilePart, *, fillers: bool
) -> Iterator[Chunk]:
    """Read a file of units for people and programs that take rows.

    Args:
        word: of the view.
        selection: which rows.
        columns: of rows that are written as JSON here; empty where they are not.
        part: the file.
        fillers: give rows of fillers, too.
    """
    from rmqtool.tables.arrow import plain_rows
    from rmqtool.tables.json_lines import json_lines

    for batch in READERS[word](part, selection, fillers=fillers):
        yield json_lines(batch, columns) if columns else plain_rows(batch)
