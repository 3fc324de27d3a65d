"""Tables over files of fixed-size units: one row a unit, one row a stretch of nothing.

What is particular about a kind of unit is in a `Fixed`: which units say something, and what their
public columns are. All kinds are read, tiled and selected here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.broker.dispatch import tags_hash
from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.findings.registry_consume_queue import CQ_HOLE
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.queues.kinds import UnitKind, kinds_of
from rmqtool.scan.batch import Extent
from rmqtool.tables import arrow
from rmqtool.tables.unit_tables import CONSUME_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.formats.layout import Layout
    from rmqtool.table import Table
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]
    import numpy.typing as npt

    from rmqtool.store.place import OpenFile
    from rmqtool.tables.selection import Range


# What a unit is. The last two are damage: what was asked for may be lost there.
VALUE, FILLER, UNUSED, INVALID, HOLE = range(5)
_EXTENTS: Final = (None, str(Extent.FILLER), str(Extent.UNUSED), str(Extent.GAP), str(Extent.GAP))
_ODD_LENGTH: Final = FS_LEN
_OF_QUEUES: Final = np.zeros(len(UnitKind), np.int64)
_OF_QUEUES[UnitKind.PRE_BLANK] = _OF_QUEUES[UnitKind.CLOSING] = FILLER
_OF_QUEUES[UnitKind.INVALID], _OF_QUEUES[UnitKind.EMPTY] = INVALID, HOLE


@dataclass(frozen=True, slots=True)
class Fixed:
    """One kind of unit."""

    layout: Layout  # of a unit
    table: Table  # its columns; `position`, `count`, `extent` and `code` are filled here
    kinds: Callable[[FileUnits], Int64s]  # says what each unit is
    # gives the other public columns of units; `numbers` counts units from 0 on
    columns: Callable[[FilePart, FileUnits, Int64s], dict[str, pa.Array]]
    # marks the units that were asked for; the numbers of runs and their lengths decide where a
    # range of numbers was asked for
    wanted: Callable[[FileUnits, Int64s, Selection], Bools]
    code: str  # finding code of an invalid unit and of zeros between others
    is_hash_table: bool = False  # zeros between others are nothing out of the ordinary
    ends_in_blank: bool = False  # bytes after the last whole unit are a blank record


@dataclass(frozen=True, slots=True)
class UnusedUnits:
    """Units at the end of a file that were never used."""

    begin: int  # position of the first one
    end: int  # position after the last one
    first: int  # its number


def fixed_rows(
    fixed: Fixed, part: FilePart, selection: Selection, *, fillers: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that holds nothing but units.

    Args:
        fixed: which units.
        part: the file.
        selection: which rows.
        fillers: whether unused units are rows, too.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.open() as file:
        size = fixed.layout.size
        whole = file.size // size * size
        used = min(-(-used_end(file) // size) * size, whole)
        first = part.start // size
        for units in read_units(file, fixed.layout, 0, used):
            yield from rows_of_units(fixed, part, units, first, selection, fillers=fillers)
        if fillers and used < whole:
            yield unused_row(fixed, part, UnusedUnits(used, whole, first + used // size))
        if whole < file.size and not fixed.ends_in_blank:
            yield odd_row(fixed, part, whole)


def rows_of_units(
    fixed: Fixed,
    part: FilePart,
    units: FileUnits,
    first: int,
    selection: Selection,
    *,
    fillers: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield at most one batch.

    Args:
        fixed: which units.
        part: the file.
        units: stretch of it.
        first: number of the unit at position 0 of the file.
        selection: which rows.
        fillers: whether unused units are rows, too.
    """
    size = fixed.layout.size
    kinds = fixed.kinds(units)
    if fixed.is_hash_table:
        kinds = np.where(kinds == HOLE, UNUSED, kinds)
    runs = runs_of(np.where(kinds == INVALID, VALUE, kinds))
    kinds = kinds[runs.firsts]
    heads = FileUnits(units.position, units.values[runs.firsts])
    numbers = first + units.position // size + runs.firsts
    wanted = overlaps(numbers, runs.counts, selection.queue_offsets)
    wanted &= fixed.wanted(heads, kinds, selection) | (kinds >= INVALID)
    if not fillers:
        wanted &= kinds != UNUSED
    if not wanted.any():
        return
    columns = fixed.columns(part, FileUnits(heads.position, heads.values[wanted]), numbers[wanted])
    columns |= {
        "file": arrow.constant(part.path, int(wanted.sum())),
        "position": pa.array(units.position + size * runs.firsts[wanted]),
        "count": pa.array(runs.counts[wanted], mask=kinds[wanted] == VALUE),
        "extent": arrow.words(kinds[wanted], _EXTENTS),
        "code": arrow.words(kinds[wanted], (None, None, None, fixed.code, fixed.code)),
    }
    yield arrow.batch(fixed.table.arrow, columns, int(wanted.sum()))


def unused_row(fixed: Fixed, part: FilePart, stretch: UnusedUnits) -> pa.RecordBatch:
    """Give the row of units that were never used."""
    zeros = FileUnits(stretch.begin, np.zeros(1, fixed.layout.dtype))
    columns = fixed.columns(part, zeros, np.array([stretch.first], np.int64))
    columns |= {
        "file": arrow.constant(part.path, 1),
        "position": pa.array([stretch.begin]),
        "count": pa.array([(stretch.end - stretch.begin) // fixed.layout.size]),
        "extent": arrow.constant(str(Extent.UNUSED), 1),
    }
    return arrow.batch(fixed.table.arrow, columns, 1)


def odd_row(fixed: Fixed, part: FilePart, position: int, code: str = _ODD_LENGTH) -> pa.RecordBatch:
    """Give the row of bytes that are no whole unit."""
    known = {"topic": part.topic, "queue_id": part.queue_id} if part.topic else {}
    known |= {"file": part.path, "position": position, "extent": str(Extent.GAP), "code": code}
    row = {name: value for name, value in known.items() if name in fixed.table.names}
    return pa.RecordBatch.from_pylist([row], fixed.table.arrow)


def everything(units: FileUnits, _kinds: Int64s, _selection: Selection) -> Bools:
    """Mark all units: nothing in them can be selected by."""
    return np.ones(len(units.values), np.bool_)


def by_physical_offset(units: FileUnits, _kinds: Int64s, selection: Selection) -> Bools:
    """Mark the units whose records lie where it was asked for."""
    offsets = units.column("physical_offset")
    return overlaps(offsets, np.ones_like(offsets), selection.offsets)


def queue_kinds(units: FileUnits) -> Int64s:
    """Say what each unit of a queue is: zeros in front of others are a hole."""
    kinds: Int64s = _OF_QUEUES[kinds_of(units.values)]
    return kinds


def zeros_are_holes(units: FileUnits) -> Int64s:
    """Take a unit for used when any of its bytes is not zero."""
    raw = np.ascontiguousarray(units.values).view(np.uint8)
    used = raw.reshape(len(units.values), units.values.dtype.itemsize).any(axis=1)
    return np.where(used, VALUE, HOLE)


# Files of fixed-size units: read as columns, with runs of equal nothing put together.


CHUNK_BYTES: Final = 1 << 20


class FileUnits(NamedTuple):
    """Consecutive units of a file."""

    position: int  # of the first one in the file
    values: npt.NDArray[Any]  # a structured array of the layout's dtype, big-endian

    def column(self, name: str) -> Int64s:
        """Give one field."""
        values: Int64s = self.values[name].astype(np.int64)
        return values


def read_units(file: OpenFile, layout: Layout, begin: int, end: int) -> Iterator[FileUnits]:
    """Yield the whole units in a stretch of a file. Raises UnreadablePath: the disk refused."""
    step = CHUNK_BYTES // layout.size * layout.size
    position = begin
    while position + layout.size <= end:
        raw = file.read_at(position, min(step, end - position))
        count = len(raw) // layout.size
        if not count:
            return  # cut short while it is read
        yield FileUnits(position, np.frombuffer(raw, layout.dtype, count))
        position += count * layout.size


def used_end(file: OpenFile) -> int:
    """Give the position after the last byte that is not zero; 0 when all are.

    Holes of a sparse file are skipped; all else is read from the end on.
    """
    end = file.size
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        data = file.next_data(begin)
        if data is None or data >= end:
            end = begin
            continue
        raw = file.read_at(begin, end - begin).rstrip(b"\0")
        if raw:
            return begin + len(raw)
        end = begin
    return 0


class UnitRuns(NamedTuple):
    """Rows for units of which runs of the same kind of nothing are one row each."""

    firsts: Int64s  # number of the unit at which each row begins
    counts: Int64s  # units of each row


def runs_of(nothing: Int64s) -> UnitRuns:
    """Put equal neighbours together.

    Args:
        nothing: int64, shape (n,); 0 for a unit that is a row of its own, else which nothing.
    """
    if not nothing.size:
        return UnitRuns(np.empty(0, np.int64), np.empty(0, np.int64))
    begins = np.ones(nothing.size, np.bool_)
    begins[1:] = (nothing[1:] != nothing[:-1]) | (nothing[1:] == 0)
    firsts = np.flatnonzero(begins).astype(np.int64)
    return UnitRuns(firsts, np.diff(np.append(firsts, nothing.size)))


def overlaps(firsts: Int64s, counts: Int64s, wanted: Range) -> Bools:
    """Mark the runs that reach into a range.

    Args:
        firsts: int64, shape (n,); first number of each run.
        counts: int64, shape (n,); numbers in it.
        wanted: the range.
    """
    start, end = wanted
    is_reached = np.ones(firsts.size, np.bool_)
    if start is not None:
        is_reached &= firsts + counts > start
    if end is not None:
        is_reached &= firsts < end
    return is_reached


# The table of consume queue units.


NOTHING, NO_TAG, TAG_HASH, DELIVER_TIME, EXT_ADDRESS, PRE_BLANK = range(6)
MEANINGS: Final = (None, "no tag", "tag hash", "deliver time", "ext address", "filler")


def _wanted(units: FileUnits, kinds: Int64s, selection: Selection) -> Bools:
    is_wanted = by_physical_offset(units, kinds, selection)
    if selection.tag is not None:
        is_wanted &= units.column("tags_code") == tags_hash(selection.tag)
        is_wanted &= kinds == VALUE
    return is_wanted


def _columns(part: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
    tags_codes = units.column("tags_code")
    meanings = _meanings(part.topic, tags_codes, queue_kinds(units))
    return {
        "topic": arrow.constant(part.topic, numbers.size),
        "queue_id": arrow.numbers(np.full(numbers.size, part.queue_id), pa.int32()),
        "queue_offset": pa.array(numbers),
        "physical_offset": pa.array(units.column("physical_offset")),
        "size": arrow.numbers(units.column("size"), pa.int32()),
        "tags_code": pa.array(tags_codes),
        "meaning": arrow.words(meanings, MEANINGS),
        "deliver_time": arrow.times(tags_codes, meanings != DELIVER_TIME),
        "ext_position": pa.array(tags_codes - np.int64(-(2**63)), mask=meanings != EXT_ADDRESS),
    }


def _meanings(topic: str, tags_codes: Int64s, kinds: Int64s) -> Int64s:
    """Say what each tags code means.

    Source: ConsumeQueue#putMessagePositionInfoWrapper, ConsumeQueueExt#isExtAddr, 4.9.3 to 5.5.0.
    """
    usual = DELIVER_TIME if topic == SCHEDULE_TOPIC else TAG_HASH
    meanings = np.where(tags_codes == 0, NO_TAG, usual)
    meanings = np.where(tags_codes <= LARGEST_ADDRESS, EXT_ADDRESS, meanings)
    meanings = np.where(kinds == FILLER, PRE_BLANK, meanings)
    return np.where(kinds >= INVALID, NOTHING, meanings)


UNITS: Final = Fixed(CQ_UNIT, CONSUME_QUEUE, queue_kinds, _columns, _wanted, code=CQ_HOLE)
