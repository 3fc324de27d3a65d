"""What one validation learns of the commitlog: its ends, what is lost of it, what lies elsewhere.

The pass over the log writes it, and what comes after reads it. Offsets are physical offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.log.lost import LostRanges
from rmqtool.machine.arrays import are_within

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.findings.catalogue import Code, Severity


def _no_timers() -> npt.NDArray[np.int64]:
    return np.empty((5, 0), np.int64)


@dataclass(slots=True)
class LogFacts:
    """What is known of the log."""

    is_known: bool = False  # a log is there, and was looked at
    start: int = 0  # first byte that is read: of the first segment, but for what is taken over
    oldest: int = 0  # first byte of the first segment
    end: int = 0  # after the last record: where the next one goes
    last_record: int = -1  # start of the last record; -1 without records
    newest_time: int = 0  # largest store timestamp of a record, ms; 0 without records
    is_scanned: bool = False  # every record was read; else only the tail was looked at
    lost: LostRanges = field(default_factory=LostRanges)  # stretches of the log without records
    foreign: frozenset[int] = frozenset()  # starts of the files that another broker wrote
    # records that lie elsewhere than they say: what they say to where they lie
    moved: dict[int, int] = field(default_factory=dict)
    # of the records that repair has put over damage, in order
    bridges: list[int] = field(default_factory=list)
    # int64, shape (5, n); see `Transactions.timer_messages`
    timer_messages: npt.NDArray[np.int64] = field(default_factory=_no_timers)
    # findings that were only counted
    counted: Counter[tuple[Code, Severity]] = field(default_factory=Counter)
    _moved_places: set[int] = field(default_factory=set)

    def move(self, moved: dict[int, int]) -> None:
        """Note records that do not lie where they say."""
        self.moved.update(moved)
        self._moved_places.update(moved.values())

    def is_moved(self, physical_offset: int) -> bool:
        """Tell whether a record that lies elsewhere than it says is concerned."""
        return physical_offset in self.moved or physical_offset in self._moved_places

    def mask(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which records are lost, or lie elsewhere than they say: bool, shape (n,)."""
        explained = self.lost.mask(physical_offsets)
        if self.moved:
            explained |= np.fromiter(map(self.is_moved, physical_offsets.tolist()), np.bool_)
        return explained

    def between(self, start: int, end: int) -> bool:
        """Tell whether any of them may be in [start, end) of the log."""
        return bool(self.moved) or self.lost.between(start, end)

    def are_bridged(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which offsets lie in a bridge that repair has put over lost records: shape (n,)."""
        stretches = [self.lost.at(start) for start in self.bridges]
        ends = [stretch.end if stretch else 0 for stretch in stretches]
        return are_within(physical_offsets, *np.array([self.bridges, ends], np.int64))

    def has_bridges(self, start: int, end: int) -> bool:
        """Tell whether repair has put a bridge over a lost record in [start, end) of the log."""
        number = bisect_left(self.bridges, start)
        return number < len(self.bridges) and self.bridges[number] < end
