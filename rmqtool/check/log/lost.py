"""Stretches of the log that hold no readable record, and what points into them.

One torn sector is one finding: the queue units and index entries that point into it are its
consequences, and are counted in its message instead of being findings of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import numpy as np

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_consume_queue import CQ_NOREC
from rmqtool.findings.registry_index import IX_KEY
from rmqtool.machine.arrays import are_within
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.findings.finding import Finding


MOST: Final = 100_000  # stretches; a log that is lost in more places is one large stretch
ONE_BY_ONE: Final = 8  # looking for one offset takes as long as making arrays of so many stretches


@dataclass(slots=True)
class LostStretch:
    """One lost stretch."""

    start: int  # physical offset of its first byte
    end: int  # after its last byte
    finding: Finding  # what is said of it
    units: int = 0  # queue units that point into it
    entries: int = 0  # index entries that point into it


class StretchOfLog(Protocol):
    """A stretch: its last byte is the one before `end`."""

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        ...


AnyStretch = TypeVar("AnyStretch", bound=StretchOfLog)


class StretchSet(Generic[AnyStretch]):
    """Stretches of the log, by physical offset; they do not overlap.

    A log is lost in as many places as a stranger likes, and each part of it adds some and asks. So
    an answer must not cost as much as there are stretches, unless as many offsets are asked about.
    """

    def __init__(self) -> None:
        self._stretches: list[AnyStretch] = []
        self._starts: list[int] = []
        self._arrays: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._stretches)

    def at(self, physical_offset: int) -> AnyStretch | None:
        """Give the stretch that holds a byte of the log."""
        number = bisect_right(self._starts, physical_offset) - 1
        if number < 0 or physical_offset >= self._stretches[number].end:
            return None
        return self._stretches[number]

    def mask(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each offset whether it lies in a stretch: bool, shape (n,)."""
        if not self._starts:
            return np.zeros(len(physical_offsets), bool)
        if self._arrays is None and len(physical_offsets) * ONE_BY_ONE < len(self._starts):
            return np.array(
                [
                    self.at(physical_offset) is not None
                    for physical_offset in physical_offsets.tolist()
                ],
                bool,
            )
        if self._arrays is None:
            ends = np.array([stretch.end for stretch in self._stretches], np.int64)
            self._arrays = np.array(self._starts, np.int64), ends
        return are_within(physical_offsets, *self._arrays)

    def insert(self, start: int, stretch: AnyStretch) -> None:
        """Add a stretch that overlaps no other."""
        place = bisect_right(self._starts, start)
        self._starts.insert(place, start)
        self._stretches.insert(place, stretch)
        self._arrays = None


class LostRanges(StretchSet[LostStretch]):
    """All lost stretches."""

    def add(self, start: int, end: int, defect: Finding) -> None:
        """Add a stretch, and hold back what is said of it until its consequences are known."""
        if len(self._stretches) >= MOST and start >= self._starts[-1]:
            last = self._stretches[-1]
            last.end = max(last.end, end)
        else:
            self.insert(start, LostStretch(start, end, defect))
        self._arrays = None

    def begin_earlier(self, start: int, new_start: int) -> None:
        """Let the stretch that begins at `start` begin earlier, with what reaches into it."""
        number = bisect_right(self._starts, start) - 1
        if number >= 0 and self._starts[number] == start:
            self._starts[number] = self._stretches[number].start = min(start, new_start)
            self._arrays = None

    def end_later(self, end: int, new_end: int) -> bool:
        """Let the stretch that ends at `end` end later; tell whether there is one."""
        number = bisect_right(self._starts, end - 1) - 1
        if number < 0 or self._stretches[number].end != end:
            return False
        self._stretches[number].end = new_end
        self._arrays = None
        return True

    def reaches_past(self, physical_offset: int) -> bool:
        """Tell whether something was lost after a place."""
        return any(stretch.end > physical_offset + 1 for stretch in self._stretches[-1:])

    def between(self, start: int, end: int) -> bool:
        """Tell whether something was lost in [start, end)."""
        number = bisect_right(self._starts, end - 1) - 1
        return number >= 0 and self._stretches[number].end > start

    def count_units(self, physical_offsets: npt.NDArray[np.int64]) -> None:
        """Count queue units that point into lost stretches."""
        for physical_offset in physical_offsets.tolist():
            stretch = self.at(physical_offset)
            if stretch is not None:
                stretch.units += 1

    def count_entries(self, physical_offsets: npt.NDArray[np.int64]) -> None:
        """Count index entries that point into lost stretches."""
        for physical_offset in physical_offsets.tolist():
            stretch = self.at(physical_offset)
            if stretch is not None:
                stretch.entries += 1

    def findings(self, keeps: Callable[[Finding], bool]) -> Iterator[Finding]:
        """Give the findings that were held back, with their consequences.

        Args:
            keeps: whether a finding was asked for.
        """
        hidden = {"units": 0, "entries": 0}
        for stretch in self._stretches:
            if keeps(stretch.finding):
                yield _with_consequences(stretch)
            elif stretch.finding.severity is not Severity.NOTE:
                hidden["units"] += stretch.units
                hidden["entries"] += stretch.entries
        # With --only, what would have been said of the log is not; its consequences must be.
        if hidden["units"]:
            amount = counted(hidden["units"], "unit points", "units point")
            message = f"{amount} into stretches of the log that are lost"
            yield finding(CQ_NOREC, At("consumequeue"), message)
        if hidden["entries"]:
            amount = counted(hidden["entries"], "entry points", "entries point")
            message = f"{amount} into stretches of the log that are lost"
            yield finding(IX_KEY, At("index"), message)


def _with_consequences(stretch: LostStretch) -> Finding:
    """Word what points into a stretch."""
    parts = []
    if stretch.units:
        parts.append(counted(stretch.units, "queue unit"))
    if stretch.entries:
        parts.append(counted(stretch.entries, "index entry", "index entries"))
    if not parts:
        return stretch.finding
    verb = "point" if stretch.units + stretch.entries > 1 else "points"
    message = f"{stretch.finding.message}; {' and '.join(parts)} {verb} into it"
    return stretch.finding._replace(message=message)
