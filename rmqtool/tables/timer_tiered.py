"""Units of the timer, of a DLedger index and of the tiered index: a layout and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.findings.registry_commitlog import DL_ENTRY
from rmqtool.findings.registry_state import TL_REC
from rmqtool.formats.dledger import DLEDGER_INDEX_UNIT, ENTRY_MAGIC
from rmqtool.formats.tiered_index import (
    END_MAGIC_CODE,
    TIERED_INDEX_COMPACTED_ITEM,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from rmqtool.formats.timer import (
    BLANK_MAGIC,
    DEFAULT_PRECISION_MS,
    MAGIC_BITS,
    TIMER_LOG_RECORD,
    TIMER_SLOT,
    magic_names,
)
from rmqtool.tables import arrow
from rmqtool.tables import unit_tables as tables
from rmqtool.tables.fixed import (
    FILLER,
    HOLE,
    INVALID,
    VALUE,
    Fixed,
    by_physical_offset,
    everything,
    odd_row,
    read_units,
    rows_of_units,
    zeros_are_holes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.formats.layout import Layout
    from rmqtool.tables.fixed import FileUnits
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Columns: TypeAlias = dict[str, pa.Array]

_ITEMS_A_SLOT: Final = 4  # 20,000,000 items and 5,000,000 slots by default


def _stored(layout: Layout, units: FileUnits, numbers: Int64s) -> Columns:
    columns = {
        field.name: arrow.numbers(units.column(field.name), field.type) for field in layout.arrow
    }
    return columns | {"number": pa.array(numbers)}


def _plain(
    layout: Layout, more: Callable[[FileUnits], Columns]
) -> Callable[[FilePart, FileUnits, Int64s], Columns]:
    """Give the columns as they are stored, and some more."""

    def columns(_: FilePart, units: FileUnits, numbers: Int64s) -> Columns:
        return _stored(layout, units, numbers) | more(units)

    return columns


def _wheel(units: FileUnits) -> Columns:
    times = units.column("time")
    return {"deliver_time": arrow.times(times * DEFAULT_PRECISION_MS, times == 0)}


def _log(units: FileUnits) -> Columns:
    magics, delays = units.column("magic"), units.column("delayed_time")
    few, places = np.unique(magics, return_inverse=True)
    is_blank = magics == BLANK_MAGIC
    written = units.column("curr_write_time")
    return {
        "meaning": arrow.words(places.astype(np.int64), [_bits(int(slot)) for slot in few]),
        "write_time": arrow.times(written, is_blank),
        "deliver_time": arrow.times(written + delays, is_blank),
    }


def _bits(magic: int) -> str:
    return "blank" if magic == BLANK_MAGIC else ",".join(magic_names(magic))


def _log_kinds(units: FileUnits) -> Int64s:
    """Say what each timer log record is.

    Source: TimerMessageStore#recoverAndRevise, 5.0.0 to 5.5.0.
    """
    magics, sizes = units.column("magic"), units.column("size")
    is_record = (sizes == TIMER_LOG_RECORD.size) & ((magics & ~MAGIC_BITS) == 0) & (magics != 0)
    kinds = np.where(is_record, VALUE, INVALID)
    kinds = np.where(magics == BLANK_MAGIC, FILLER, kinds)
    return np.where(zeros_are_holes(units) == HOLE, HOLE, kinds)


def _index_kinds(units: FileUnits) -> Int64s:
    kinds = np.where(units.column("magic") == ENTRY_MAGIC, VALUE, INVALID)
    return np.where(zeros_are_holes(units) == HOLE, HOLE, kinds)


def _nothing(_: FileUnits) -> Columns:
    return {}


def _tiered_slot_columns(_: FilePart, units: FileUnits, numbers: Int64s) -> Columns:
    stored = {name: pa.array(units.column(name)) for name in TIERED_INDEX_SLOT.positions}
    return stored | {"slot": pa.array(numbers)}


TIMER_WHEEL: Final = Fixed(
    TIMER_SLOT,
    tables.TIMER_WHEEL,
    zeros_are_holes,
    _plain(TIMER_SLOT, _wheel),
    everything,
    code="",
    is_hash_table=True,
)
TIMER_LOG: Final = Fixed(
    TIMER_LOG_RECORD,
    tables.TIMER_LOG,
    _log_kinds,
    _plain(TIMER_LOG_RECORD, _log),
    by_physical_offset,
    code=TL_REC,
    ends_in_blank=True,
)
DLEDGER_INDEX: Final = Fixed(
    DLEDGER_INDEX_UNIT,
    tables.DLEDGER_INDEX,
    _index_kinds,
    _plain(DLEDGER_INDEX_UNIT, _nothing),
    everything,
    code=DL_ENTRY,
)
TIERED_SLOTS: Final = Fixed(
    TIERED_INDEX_SLOT,
    tables.TIERED_INDEX_SLOTS,
    zeros_are_holes,
    _tiered_slot_columns,
    everything,
    code="",
    is_hash_table=True,
)


def _tiered(layout: Layout, begin_timestamp: int = 0) -> Fixed:
    """Give what is particular about the items of one file.

    Source: tieredstore IndexStoreFile#putKey, 5.1.0 to 5.5.0: time differences are seconds.
    """

    def times(units: FileUnits) -> Columns:
        return {"store_time": arrow.times(begin_timestamp + units.column("time_difference") * 1000)}

    return Fixed(
        layout,
        tables.TIERED_INDEX,
        zeros_are_holes,
        _plain(layout, times),
        by_physical_offset,
        code="",
        is_hash_table=True,
    )


def tiered_rows(part: FilePart, selection: Selection, *, fillers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the items of a tiered index file. Raises UnreadablePath: the file cannot be read."""
    with part.open() as file:
        raw = file.read_at(0, TIERED_INDEX_HEADER.size)
        if len(raw) < TIERED_INDEX_HEADER.size:
            yield odd_row(_tiered(TIERED_INDEX_ITEM), part, 0)
            return
        header = TIERED_INDEX_HEADER.parse(raw)
        compacted = header["magic_code"] == END_MAGIC_CODE
        layout = TIERED_INDEX_COMPACTED_ITEM if compacted else TIERED_INDEX_ITEM
        fixed = _tiered(layout, header["begin_timestamp"])
        begin = slots_end(file.size)
        first = 1 - begin // layout.size
        for units in read_units(file, layout, begin, file.size):
            yield from rows_of_units(fixed, part, units, first, selection, fillers=fillers)


def tiered_slot_rows(
    part: FilePart, selection: Selection, *, fillers: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the hash slots of a tiered index file that are in use.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.open() as file:
        begin, end = TIERED_INDEX_HEADER.size, slots_end(file.size)
        first = -(begin // TIERED_INDEX_SLOT.size)
        for units in read_units(file, TIERED_INDEX_SLOT, begin, end):
            yield from rows_of_units(TIERED_SLOTS, part, units, first, selection, fillers=fillers)


def slots_end(size: int) -> int:
    """Give where the slots of a file of this size end: it has four items a slot, by default."""
    each = TIERED_INDEX_SLOT.size + _ITEMS_A_SLOT * TIERED_INDEX_ITEM.size
    slots = max(size - TIERED_INDEX_HEADER.size, 0) // each
    return TIERED_INDEX_HEADER.size + TIERED_INDEX_SLOT.size * slots
