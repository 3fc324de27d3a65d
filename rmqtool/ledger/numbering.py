"""Where the units of a queue belong, by the queue offsets of its records and by the queue itself.

The queue was written while the records were sound. So it decides whether the queue offset of a
record is wrong, or records are missing, or the numbering began again.
Source: ConsumeQueue#putMessagePositionInfo, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, first_offset
from rmqtool.queues.kinds import as_units

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.queues.kinds import Units
    from rmqtool.queues.units import QueueUnits


UNREAD: Final = CQ_UNIT.packer.pack(-1, 0, 0)


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
    TAKEN = enum.auto()  # those of earlier records, which have the units: these have none


class WrongNumbers(NamedTuple):
    """Records whose queue offsets do not follow."""

    turn: Turn  # why
    number: int  # queue offset at which their units lie, or should
    queue_offset: int  # what the first of them says
    records: int  # how many
    physical_offset: int  # of the first of them
    size: int | None = None  # bytes of the only one, where that is known


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
        taken = 0
        if run.queue_offset - self.delta != self.next:
            taken = yield from self._turn(run, first)
        else:
            yield from self.finish()
        if taken == run.count:
            return
        start = self.next
        self.next += run.count - taken
        self.last_physical_offset = run.last_physical_offset
        yield PlacedUnits(start, run.units[taken * CQ_UNIT_SIZE :], run.store_timestamp)

    def finish(self) -> Iterator[WrongNumbers]:
        """Yield the records that have a wrong queue offset: the ones after them go on without."""
        outlier, self.outlier = self.outlier, None
        if outlier is not None:
            yield outlier

    def _turn(self, run: QueueRun, first: int) -> Generator[WrongNumbers, None, int]:
        """Find out what to make of queue offsets that do not follow; return `_taken`."""
        number, outlier = run.queue_offset, self.outlier
        if outlier is not None:
            delta = outlier.queue_offset - outlier.number
            if number - delta == self.next:
                yield outlier._replace(turn=Turn.SHIFT)
                self.delta, self.outlier = delta, None
                return 0
            yield from self.finish()
        if not self._points_to(number, first) and self._points_to(self.next, first):
            self.outlier = WrongNumbers(Turn.OUTLIER, self.next, number, run.count, first)
            return 0
        delta, self.delta = self.delta, 0
        if number > self.next:
            self.breaks.append(Break(self.next, number, self.last_physical_offset, first))
        elif number < self.next and self._is_left(number):
            jump = self.breaks.pop()
            yield WrongNumbers(Turn.JUMP, jump.start, jump.end, 1, jump.after)
        elif number < self.next:
            taken = 0 if delta else self._taken(run, first)
            turn = Turn.TAKEN if taken else Turn.RESTART
            yield WrongNumbers(turn, self.next, number, taken or run.count, first)
            if taken:
                return taken
            self.first = number
            self.breaks.clear()
        self.next = number
        return 0

    def _taken(self, run: QueueRun, first: int) -> int:
        """Count the first records of a run whose queue offsets earlier records of the log have.

        Brokers drop them ("Build consume queue repeatedly"): a unit is written once. A queue that
        was deleted and made again has no units of earlier records.
        """
        if run.queue_offset < self.first:
            return 0
        there, size, _ = CQ_UNIT.packer.unpack(self._unit(run.queue_offset))
        is_earlier = size > 0 and self.first_physical_offset <= there < first
        return min(run.count, self.next - run.queue_offset) if is_earlier else 0

    def _is_left(self, number: int) -> bool:
        """Tell whether one record had gone over the last break, and this is where it begins."""
        ends = [(jump.end + 1, jump.start + 1) for jump in self.breaks[-1:]]
        return ends == [(self.next, number)]

    def _points_to(self, number: int, physical_offset: int) -> bool:
        return first_offset(self._unit(number)) == physical_offset

    def _unit(self, number: int) -> bytes:
        """Give the unit of a queue offset; one that leads nowhere where it cannot be read."""
        try:
            return self.units.packed(number, 1)
        except UnreadablePath:
            return UNREAD


@dataclass(slots=True)
class BatchNumbering:
    """Places the units of one batch queue one after the other, from that of the first record on."""

    units: QueueUnits  # of the queue
    next: int = -1  # number of the unit where the next one should be; -1 before the first one
    end: int = -1  # queue offset after the last unit; -1 likewise

    def place(self, run: QueueRun) -> Iterator[PlacedUnits | WrongNumbers]:
        """Take the next run in log order; yield it where its units should be.

        The queue offset of a record that the next one shows to be wrong is put right before.
        """
        if self.next < 0:  # units of records before the first one of the log have expired
            start = self.units.files.start // self.units.layout.size
            first = find_unit(self.units, start, run.first_physical_offset)
            self.next = start if first is None else first
        start, self.next = self.next, self.next + run.count
        units, wrong = with_right_numbers(as_units(run.units, BATCH_CQ_UNIT), self.end)
        self.end = end_of(units[-1])
        yield from wrong
        yield PlacedUnits(start, units.tobytes() if wrong else run.units, run.store_timestamp)


def end_of(unit: np.void) -> int:
    """Give the queue offset after the messages of a unit of a batch queue."""
    return int(unit["msg_base_offset"]) + int(unit["batch_size"])


def with_right_numbers(units: Units, first: int) -> tuple[Units, list[WrongNumbers]]:
    """Put right the queue offsets of single records that those beside them show to be wrong.

    The next record goes on as if the number of the one before were another: the end of the record
    before that. A lost record leaves a jump, too, and the next one goes on from there.

    Args:
        units: of a batch queue, in the order of the log, shape (n,): as their records want them.
        first: queue offset after the unit before them; negative where that is not known.

    Returns:
        The units, and what is wrong in the log; the last record has none after it.
    """
    bases = units["msg_base_offset"].astype(np.int64)
    counts = units["batch_size"].astype(np.int64)
    right = np.append(first if first >= 0 else bases[0], (bases + counts)[:-1])
    rows = np.flatnonzero((bases != right)[:-1] & (right + counts == np.roll(bases, -1))[:-1])
    if not rows.size:
        return units, []
    mended = units.copy()
    mended["msg_base_offset"][rows] = right[rows]
    return mended, [
        WrongNumbers(Turn.OUTLIER, int(right[row]), int(bases[row]), 1, *map(int, place))
        for row, place in zip(rows, units[["physical_offset", "size"]][rows], strict=True)
    ]


def find_unit(units: QueueUnits, first: int, physical_offset: int) -> int | None:
    """Find the unit of a record from a number on."""
    for number, used in units.used(first):
        rows = np.flatnonzero((used["physical_offset"] == physical_offset) & (used["size"] > 0))
        if rows.size:
            return number + int(rows[0])
    return None
