"""Files of fixed-size units: read as columns, with runs of equal nothing put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.formats.layout import Layout
    from rmqtool.store.place import OpenFile
    from rmqtool.tables.selection import Range

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]

CHUNK_BYTES: Final = 1 << 20


class FileUnits(NamedTuple):
    """Consecutive units of a file."""

    position: int  # of the first one in the file
    values: npt.NDArray[Any]  # a structured array of the layout's dtype, big-endian

    def column(self, name: str) -> Int64s:
        """Give one field."""
        found: Int64s = self.values[name].astype(np.int64)
        return found


def read_units(file: OpenFile, layout: Layout, begin: int, end: int) -> Iterator[FileUnits]:
    """Yield the whole units in a stretch of a file.

    Raises:
        UnreadablePath: the disk refused.
    """
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
    found = np.ones(firsts.size, np.bool_)
    if start is not None:
        found &= firsts + counts > start
    if end is not None:
        found &= firsts < end
    return found
