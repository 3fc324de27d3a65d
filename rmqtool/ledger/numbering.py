"""Where the units of a queue belong, by the queue offsets of its records and by the queue itself.

The queue was written while the records were sound. So it decides whether the queue offset of a
record is wrong, or records are missing, or the numbering began again.
Source: ConsumeQueue#putMessagePositionInfo, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import first_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.queues.units import QueueUnits


class PlacedUnits(NamedTuple):
    """Units that lie one after the other."""

    queue_offset: int  # of the first unit
    packed: memoryview | bytes  # 20 bytes each
    store_timestamp: int  # of the record of the last unit, ms
    repeated: int = 1  # how often `packed` lies there: a hole of a million units is one unit here

    @property
    def length(self) -> int:
        """Bytes."""
        return len(self.packed) * self.repeated


class Break(NamedTuple):
    """Queue offsets that no record of the log has."""

    start: int  # first of them
    end: int  # after the last one
    before: int  # physical offset of the record in front of them
    after: int  # physical offset of the record after them


class Turn(enum.Enum):
    """Why queue offsets do not follow."""

    OUTLIER = enum.auto()  # wrong in some records: their units follow, and the next records, too
    JUMP = enum.auto()  # wrong in one record, which has no unit: the next one goes on before it
    SHIFT = enum.auto()  # right: from here on units are elsewhere
    RESTART = enum.auto()  # right: the numbering begins again


class WrongNumbers(NamedTuple):
    """Records whose queue offsets do not follow."""

    turn: Turn  # why
    number: int  # queue offset at which their units lie, or should
    queue_offset: int  # what the first of them says
    records: int  # how many
    physical_offset: int  # of the first of them


@dataclass(slots=True)
class Numbering:
    """Places the units of one queue where the queue has them. Numbers count from its begin."""

    units: QueueUnits  # of the queue
    is_moved: Callable[[int], bool]  # asked of records that may lie elsewhere than they say
    first: int = -1  # first unit that a record of the log wants; -1 before there was one
    next: int = -1  # where the next record's unit belongs; -1 likewise
    first_physical_offset: int = -1  # of the first record of the queue; -1 likewise
    last_physical_offset: int = -1  # of the last record; -1 likewise
    breaks: list[Break] = field(default_factory=list)  # queue offsets without a record
    delta: int = 0  # what the queue offsets of the records are ahead of their units
    outlier: WrongNumbers | None = None  # records with wrong ones, until the next ones decide

    def resume(self, seen: SoundSoFar) -> None:
        """Go on after units that lie where they belong."""
        self.first, self.next = seen.first, seen.next
        self.first_physical_offset = seen.first_physical_offset
        self.last_physical_offset = seen.last_physical_offset

    def place(self, run: QueueRun) -> Iterator[PlacedUnits | WrongNumbers]:
        """Take the next run in log order; yield it where its units should be."""
        first = run.first_physical_offset
        if run.count == 1 and self.is_moved(first):
            return  # it may stand anywhere in the log; its own finding says so
        if self.next < 0:
            self.first = self.next = run.queue_offset
            self.first_physical_offset = first
        if run.queue_offset - self.delta != self.next:
            yield from self._turn(run, first)
        else:
            yield from self.finish()
        start = self.next
        self.next += run.count
        self.last_physical_offset = run.last_physical_offset
        yield PlacedUnits(start, run.units, run.store_timestamp)

    def finish(self) -> Iterator[WrongNumbers]:
        """Yield the records that have a wrong queue offset: the ones after them go on without."""
        outlier, self.outlier = self.outlier, None
        if outlier is not None:
            yield outlier

    def _turn(self, run: QueueRun, first: int) -> Iterator[WrongNumbers]:
        """Find out what to make of queue offsets that do not follow."""
        number, outlier = run.queue_offset, self.outlier
        if outlier is not None:
            delta = outlier.queue_offset - outlier.number
            if number - delta == self.next:
                yield outlier._replace(turn=Turn.SHIFT)
                self.delta, self.outlier = delta, None
                return
            yield from self.finish()
        if not self._points_to(number, first) and self._points_to(self.next, first):
            self.outlier = WrongNumbers(Turn.OUTLIER, self.next, number, run.count, first)
            return
        self.delta = 0
        if number > self.next:
            self.breaks.append(Break(self.next, number, self.last_physical_offset, first))
        elif number < self.next and self._is_left(number):
            jump = self.breaks.pop()
            yield WrongNumbers(Turn.JUMP, jump.start, jump.end, 1, jump.after)
        elif number < self.next:
            yield WrongNumbers(Turn.RESTART, self.next, number, run.count, first)
            self.first = number
            self.breaks.clear()
        self.next = number

    def _is_left(self, number: int) -> bool:
        """Tell whether one record had gone over the last break, and this is where it begins."""
        ends = [(jump.end + 1, jump.start + 1) for jump in self.breaks[-1:]]
        return ends == [(self.next, number)]

    def _points_to(self, number: int, physical_offset: int) -> bool:
        try:
            raw = self.units.packed(number, 1)
        except UnreadablePath:
            return False
        return first_offset(raw) == physical_offset


@dataclass(slots=True)
class BatchNumbering:
    """Places the units of one batch queue one after the other, from that of the first record on."""

    units: QueueUnits  # of the queue
    next: int = -1  # number of the unit where the next one should be; -1 before the first one

    def place(self, run: QueueRun) -> Iterator[PlacedUnits]:
        """Take the next run in log order; yield it where its units should be."""
        if self.next < 0:  # units of records before the first one of the log have expired
            start = self.units.files.start // self.units.layout.size
            first = find_unit(self.units, start, run.first_physical_offset)
            self.next = start if first is None else first
        start, self.next = self.next, self.next + run.count
        yield PlacedUnits(start, run.units, run.store_timestamp)


def find_unit(units: QueueUnits, first: int, physical_offset: int) -> int | None:
    """Find the unit of a record from a number on."""
    for number, used in units.used(first):
        rows = np.flatnonzero((used["physical_offset"] == physical_offset) & (used["size"] > 0))
        if rows.size:
            return number + int(rows[0])
    return None
