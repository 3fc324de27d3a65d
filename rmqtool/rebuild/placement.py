"""Where the units of one queue belong: the rules for late starts, holes, duplicates and restarts.

A unit belongs at its queue offset. A broker does not look at that: it appends, so that one lost
unit shifts all later ones (`BrokerPlacement`); `Placement` keeps them where consumers look for them
and fills true holes. Source: ConsumeQueue#putMessagePositionInfo, #fillPreBlank, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqtool.broker.rules import passes_pre_blank
from rmqtool.formats.consume_queue import (
    CQ_UNIT,
    CQ_UNIT_SIZE,
    PRE_BLANK,
    first_offset,
    last_offset,
)
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.ledger.numbering import PlacedUnits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derive.queue_runs import QueueRun

FILLER_TAGS_CODE: Final = 0
FEW_FILLERS: Final = 1 << 16  # a queue file with default settings has 300,000 units


@dataclass(slots=True)
class UnitTally:
    """What became of the units of one queue."""

    units: int = 0  # written for a record
    filler: int = 0  # written in place of records that are lost
    copies: int = 0  # of those, copies of a neighbour: consumers receive its message again
    repeated: int = 0  # left out, as an earlier record has their queue offset
    # records whose queue offset is damaged; their unit is at the offset that their neighbours leave
    # free
    misnumbered: int = 0
    implausible: int = 0  # left out, as so many messages before them cannot have been in the log
    shifted: int = 0  # appended elsewhere than at their queue offset, as a broker does

    @property
    def left_out(self) -> int:
        """Records that have no unit, as their queue offset is taken or impossible."""
        return self.repeated + self.implausible

    @property
    def is_whole(self) -> bool:
        """Whether each unit is where its record says, and none stands in for a lost one."""
        others = (self.filler, self.repeated, self.misnumbered, self.implausible, self.shifted)
        return not any(others)


class Placement:
    """Places the units of one queue by their queue offset.

    Args:
        filler_start: commitlog offset of the first segment that is there.
        segment_length: bytes of a commitlog segment.
    """

    __slots__ = ("_doubtful", "_last", "_log", "_seen", "first", "next", "tally")

    def __init__(self, filler_start: int, segment_length: int) -> None:
        self.first = self.next = -1
        self.tally = UnitTally()
        self._log = (filler_start, segment_length)
        self._last = b""  # the last unit of a record
        self._seen = filler_start  # commitlog offset of the newest record that has a unit
        self._doubtful: QueueRun | None = None

    def resume(self, first: int, last: bytes, next_: int) -> None:
        """Go on after units that lie where they belong.

        Args:
            first: number of the first of them.
            last: the last of them.
            next_: number after it.
        """
        self.first, self.next, self._last = first, next_, last
        self._seen = first_offset(last)

    def add(self, run: QueueRun) -> Iterator[PlacedUnits]:
        """Take the next run in log order; yield what is certain now."""
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None:
            place = self._place_before(doubtful, run)
            if place is None and self._is_stray(doubtful, run):
                self.tally.implausible += doubtful.count
            elif place is None:
                yield from self._decide(doubtful)
            else:
                self.tally.misnumbered += doubtful.count
                yield self._put(doubtful, place)
        is_certain = run.count > 1 if self.next < 0 else run.queue_offset == self.next
        if is_certain:
            yield from self._decide(run)
        else:  # the next run tells whether this one's number is wrong
            # Copied: the run's own array holds the units of all queues of its part.
            self._doubtful = replace(run, units=memoryview(bytes(run.units)))

    def finish(self) -> Iterator[PlacedUnits]:
        """Yield what was kept back."""
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None:
            yield from self._decide(doubtful)

    def lead(self, first: bytes) -> bytes:
        """Give the unit that fills the first file of a queue up to its first unit.

        Pre-blank where brokers pass it over; else the first unit is repeated.
        """
        return PRE_BLANK if passes_pre_blank(self._log[0]) else first

    def _place_before(self, doubtful: QueueRun, run: QueueRun) -> int | None:
        """Give the place of a misnumbered run, which the next one tells; None if it is not one."""
        place = run.queue_offset - doubtful.count
        if self.next >= 0:
            return place if place == self.next else None
        is_backwards = 0 <= place < doubtful.queue_offset
        return place if is_backwards and run.queue_offset > 0 else None

    def _is_stray(self, doubtful: QueueRun, run: QueueRun) -> bool:
        """Tell whether a run is another queue's, or of an earlier life of this one.

        It leaps ahead, and the next one goes on where the queue was, up to its place and beyond.
        """
        end = run.queue_offset + run.count
        return run.queue_offset == self.next <= doubtful.queue_offset < end

    def _decide(self, run: QueueRun) -> Iterator[PlacedUnits]:
        """Yield a run at its own queue offset, with the hole before it filled."""
        if not self._is_plausible(run):
            self.tally.implausible += run.count
            return
        if self.next < 0:
            yield self._put(run, run.queue_offset)
            return
        hole = run.queue_offset - self.next
        if hole > 0:
            yield self._fill(hole, run)
        known = min(max(-hole, 0), run.count)
        self.tally.repeated += known
        if known < run.count:
            rest = run.units[known * CQ_UNIT_SIZE :]
            yield self._put_units(rest, run.queue_offset + known, run.store_timestamp)

    def _is_plausible(self, run: QueueRun) -> bool:
        """Whether the messages that a queue offset claims can have been in the log.

        The field is in no checksum, and a flipped bit must not fill the disk. What lies before the
        first unit has expired, so all of the log counts; what lies in a hole was in the log between
        its neighbours, unless several records in a row agree on a small one.
        """
        physical_offset = first_offset(run.units)
        if self.next < 0:
            return 0 <= run.queue_offset <= physical_offset // SMALLEST_RECORD
        most = (physical_offset - self._seen) // SMALLEST_RECORD
        if run.count > 1:
            most = max(most, FEW_FILLERS)
        return run.queue_offset >= 0 and run.queue_offset - self.next <= most

    def _put(self, run: QueueRun, queue_offset: int) -> PlacedUnits:
        return self._put_units(run.units, queue_offset, run.store_timestamp)

    def _put_units(
        self, packed: memoryview, queue_offset: int, store_timestamp: int
    ) -> PlacedUnits:
        if self.first < 0:
            self.first = queue_offset
        count = len(packed) // CQ_UNIT_SIZE
        self.next = queue_offset + count
        self.tally.units += count
        self._last = bytes(packed[-CQ_UNIT_SIZE:])
        self._seen = first_offset(self._last)
        return PlacedUnits(queue_offset, packed, store_timestamp)

    def _fill(self, hole: int, run: QueueRun) -> PlacedUnits:
        """Fill a hole with units that cost no neighbour, whatever the release.

        One that begins on the last byte of the segment before and has a segment's length is
        passed over by `getMessage`; where there is no such segment, the next unit is repeated, as
        a repair does: a message twice is legal, a lost one is not.
        Source: observed, 4.9.3, 5.3.3 and 5.5.0.
        """
        start, length = self._log
        physical_offset = first_offset(run.units)
        segment_start = start + (physical_offset - start) // length * length if length else start
        if segment_start > start:
            unit = CQ_UNIT.packer.pack(segment_start - 1, length, FILLER_TAGS_CODE)
        else:
            unit = bytes(run.units[:CQ_UNIT_SIZE])
            self.tally.copies += hole
        placed = PlacedUnits(self.next, unit, run.store_timestamp, repeated=hole)
        self.tally.filler += hole
        self.next += hole
        return placed


class ProvenPlacement(Placement):
    """Places units of a log that was packed: fewer bytes lie before a record than once did."""

    __slots__ = ()

    def _is_plausible(self, run: QueueRun) -> bool:
        return run.queue_offset >= 0


class BrokerPlacement(Placement):
    """Places the units of one queue as a broker does: what does not fit is appended anyway."""

    __slots__ = ("_reached",)

    def __init__(self, filler_start: int, segment_length: int) -> None:
        super().__init__(filler_start, segment_length)
        self._reached = -1  # end of the newest record that has a unit

    def lead(self, first: bytes) -> bytes:  # noqa: ARG002 - see `Placement`
        """Give pre-blank, always."""
        return PRE_BLANK

    def add(self, run: QueueRun) -> Iterator[PlacedUnits]:
        """Take the next run in log order; yield it where a broker puts it."""
        physical_offset, size, _ = CQ_UNIT.packer.unpack_from(run.units)
        if self.next < 0:
            if self._is_plausible(run):
                yield from self._append(run, run.units, run.queue_offset)
            else:
                self.tally.implausible += run.count
        elif physical_offset + size <= self._reached:
            self.tally.repeated += run.count
        elif run.queue_offset >= self.next:
            self.tally.shifted += run.count if run.queue_offset != self.next else 0
            yield from self._append(run, run.units, self.next)
        else:
            at = 0
            if run.queue_offset == 0:  # the only number that is appended unseen
                self.tally.shifted += 1
                yield from self._append(run, run.units[:CQ_UNIT_SIZE], self.next)
                at = 1
            known = min(self.next - run.queue_offset - at, run.count - at)  # "built repeatedly"
            self.tally.repeated += known
            yield from self._append(run, run.units[(at + known) * CQ_UNIT_SIZE :], self.next)

    def _append(
        self, run: QueueRun, packed: memoryview, queue_offset: int
    ) -> Iterator[PlacedUnits]:
        if len(packed):
            size = CQ_UNIT["size"].of(packed, len(packed) - CQ_UNIT_SIZE)
            self._reached = last_offset(packed) + size
            yield self._put_units(packed, queue_offset, run.store_timestamp)
