"""Which function reads which view: bulk ones as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.broker.dispatch import tags_hash
from rmqtool.findings.registry_consume_queue import BQ_UNIT
from rmqtool.findings.registry_index import IX_LEN, IX_STALE
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    entry_position,
    slot_position,
)
from rmqtool.scan.index import entry_times
from rmqtool.tables import arrow, timer_tiered
from rmqtool.tables import fixed as consume_queue
from rmqtool.tables.fixed import (
    VALUE,
    Fixed,
    UnusedUnits,
    by_physical_offset,
    everything,
    fixed_rows,
    odd_row,
    overlaps,
    queue_kinds,
    read_units,
    rows_of_units,
    unused_row,
    used_end,
    zeros_are_holes,
)
from rmqtool.tables.unit_tables import BATCH_QUEUE, INDEX, INDEX_SLOTS

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.rows import Chunk
    from rmqtool.tables.fixed import FileUnits
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]

    import numpy.typing as npt


# Entries and hash slots of a key index file. Its header is in small_files.py.


NO_GEOMETRY: Final = IX_LEN


def entry_rows(part: FilePart, selection: Selection, *, fillers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the entries of one file, entry 1 first.

    Times are the file's begin time plus whole seconds, which is all that is stored: `entry_times`.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.open() as file:
        begin = entry_position(part.slots, FIRST_ENTRY)
        if not part.slots or file.size < begin:
            yield odd_row(_entries(part, 0), part, 0, NO_GEOMETRY)
            return
        header = INDEX_HEADER.parse(file.read_at(0, INDEX_HEADER.size))
        fixed = _entries(part, header["begin_timestamp"])
        end = begin + (file.size - begin) // INDEX_ENTRY.size * INDEX_ENTRY.size
        used = _round_up(used_end(file), begin, INDEX_ENTRY.size)
        first = FIRST_ENTRY - begin // INDEX_ENTRY.size
        for units in read_units(file, INDEX_ENTRY, begin, min(used, end)):
            yield from rows_of_units(fixed, part, units, first, selection, fillers=fillers)
        if fillers and used < end:
            number = FIRST_ENTRY + (used - begin) // INDEX_ENTRY.size
            yield unused_row(fixed, part, UnusedUnits(used, end, number))


def slot_rows(part: FilePart, selection: Selection, *, fillers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the hash slots of one file that are in use.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.open() as file:
        begin, end = slot_position(0), slot_position(part.slots)
        if not part.slots or file.size < end:
            yield odd_row(_SLOTS, part, 0, NO_GEOMETRY)
            return
        first = -(begin // INDEX_SLOT.size)
        for units in read_units(file, INDEX_SLOT, begin, end):
            yield from rows_of_units(_SLOTS, part, units, first, selection, fillers=fillers)


def _round_up(position: int, begin: int, size: int) -> int:
    """Give the end of the unit in which a position lies."""
    return begin + -(-max(position - begin, 0) // size) * size


def _entries(part: FilePart, begin_timestamp: int) -> Fixed:
    """Give what is particular about the entries of one file."""

    def times_of(units: FileUnits) -> Int64s:
        first = (units.position - entry_position(part.slots, 0)) // INDEX_ENTRY.size
        return entry_times(units.column("time_difference"), begin_timestamp, first)

    def wanted(units: FileUnits, kinds: Int64s, selection: Selection) -> Bools:
        times = times_of(units)
        is_wanted = by_physical_offset(units, kinds, selection)
        # Seconds are rounded down: a record within the first one may have been stored later.
        is_wanted &= overlaps(times, np.full_like(times, 1000), selection.store_time)
        if selection.key is not None:
            hashes = [java.key_hash(topic, selection.key) for topic in selection.topics]
            is_wanted &= np.isin(units.column("key_hash"), hashes)
        return is_wanted

    def columns(_: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
        hashes = units.column("key_hash")
        return {
            "number": pa.array(numbers),
            "key_hash": arrow.numbers(hashes, pa.int32()),
            "physical_offset": pa.array(units.column("physical_offset")),
            "store_time": arrow.times(times_of(units)),
            "time_difference": arrow.numbers(units.column("time_difference"), pa.int32()),
            "previous": arrow.numbers(units.column("previous"), pa.int32()),
            "slot": arrow.numbers(hashes % max(part.slots, 1), pa.int32()),
        }

    return Fixed(INDEX_ENTRY, INDEX, zeros_are_holes, columns, wanted, code=IX_STALE)


def _slot_columns(_: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
    return {
        "slot": pa.array(numbers),
        "number": arrow.numbers(units.column("number"), pa.int32()),
    }


_SLOTS: Final = Fixed(
    INDEX_SLOT, INDEX_SLOTS, zeros_are_holes, _slot_columns, everything, code="", is_hash_table=True
)


# The table of batch queue units, and of those of the compaction store.


def _wanted(units: FileUnits, kinds: Int64s, selection: Selection) -> Bools:
    times = units.column("store_timestamp")
    is_wanted = by_physical_offset(units, kinds, selection)
    is_wanted &= overlaps(times, np.ones_like(times), selection.store_time)
    if selection.tag is not None:
        is_wanted &= units.column("tags_code") == tags_hash(selection.tag)
        is_wanted &= kinds == VALUE
    return is_wanted


def _columns(part: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
    return {
        "topic": arrow.constant(part.topic, numbers.size),
        "queue_id": arrow.numbers(np.full(numbers.size, part.queue_id), pa.int32()),
        "number": pa.array(numbers),
        "store_time": arrow.times(units.column("store_timestamp")),
    } | {
        name: arrow.numbers(units.column(name), BATCH_QUEUE.arrow.field(name).type)
        for name in BATCH_CQ_UNIT.positions
        if name in BATCH_QUEUE.names
    }


UNITS: Final = Fixed(BATCH_CQ_UNIT, BATCH_QUEUE, queue_kinds, _columns, _wanted, code=BQ_UNIT)


Read: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]


def _fixed(fixed: Fixed) -> Read:
    return partial(fixed_rows, fixed)


# Each takes a part, a selection and `fillers`, and yields batches with the columns of its view.
READERS: Final[dict[str, Read]] = {
    "consume-queue": _fixed(consume_queue.UNITS),
    "batch-queue": _fixed(UNITS),
    "compaction-queue": _fixed(UNITS),
    "dledger-index": _fixed(timer_tiered.DLEDGER_INDEX),
    "timer-wheel": _fixed(timer_tiered.TIMER_WHEEL),
    "timer-log": _fixed(timer_tiered.TIMER_LOG),
    "index": entry_rows,
    "index-slot": slot_rows,
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
