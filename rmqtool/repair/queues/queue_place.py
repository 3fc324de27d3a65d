"""Where the units of one queue belong when its log has bridges: which unit passes over a lost one.

The table, proven with real brokers and consumers in tests/repair/broker. A unit left on a bridge
would deliver it; a removed one would shift the queue under its consumers' offsets; a range that is
made up hides neighbours from some pulls, and later messages from dispatch where it is the last
unit. So:

- in front of a sound unit of the queue: a copy of that next unit. Its message is delivered twice,
  which consumers must expect; none is lost. The next, not the one before: its record's own queue
  offset leads a consumer on, and offsets into the log never decrease, as searches rely on.
- after the last sound unit: a copy of that. Without a unit the queue offset would be given to a
  new message, which groups that had consumed the lost one would never see.
- the only message of its queue: a unit that nothing is read for, see `alone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, first_offset
from rmqtool.ledger.numbering import PlacedUnits, Turn, WrongNumbers
from rmqtool.rebuild.placement import Placement, UnitTally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.repair.log.stretches import Damaged

KNOWN: Final = CQ_UNIT["size"].end  # bytes of a unit before its tags code, which may be an address


class Hole(NamedTuple):
    """Queue offsets of which the log has no record."""

    start: int  # the first one
    length: int  # how many
    before: int  # physical offset of the record in front of them
    after: int  # physical offset of the record after them

    def holds(self, queue_offset: int) -> bool:
        """Tell whether a queue offset is one of them."""
        return 0 <= queue_offset - self.start < self.length


class HasUnits(Protocol):
    """A queue as it is."""

    def packed(self, first: int, count: int) -> bytes:
        """Read units by number; zeros where none is."""


class BridgedPlacement(Placement):
    """Places units by their queue offset; a hole repeats the unit after it.

    Attributes:
        holes: all of them, in order.
        times: store time of the last unit of each file, by the file's number, ms.
        left_at_end: last records without a unit, as their queue offset is impossible.

    Args:
        log: first physical offset of the log, and bytes of one of its files.
        file_length: bytes of a queue file; 0 where nothing tells.
        units: of the queue, as they are.
    """

    __slots__ = ("_filled", "_there", "_units_each", "holes", "left_at_end", "times")

    def __init__(self, log: tuple[int, int], file_length: int, units: HasUnits) -> None:
        super().__init__(*log)
        self._filled: set[int] | None = None  # of 200,000 queues few have a hole
        self._there, self._units_each = units, file_length // CQ_UNIT_SIZE
        self.holes: list[Hole] = []
        self.times: dict[int, int] = {}
        self.left_at_end = 0

    def place(self, run: QueueRun) -> Iterator[PlacedUnits | WrongNumbers]:
        """Take the next run in log order; yield what is certain now.

        A queue that was deleted and made again begins anew: its files hold the newer units.
        """
        number = run.queue_offset
        there = self._there.packed(number, 1) if 0 <= number < self.next else b""
        if there and there[:KNOWN] == run.units[:KNOWN]:
            yield WrongNumbers(Turn.RESTART, self.next, number, run.count, first_offset(run.units))
            self.first = self.next = -1
            self._seen, self._last, self._doubtful = self._log[0], b"", None
            self.tally, self.holes, self._filled = UnitTally(), [], None
        yield from self.add(run)

    def finish(self) -> Iterator[PlacedUnits]:
        """See `Placement`."""
        before = self.tally.implausible
        yield from super().finish()
        self.left_at_end = self.tally.implausible - before

    @property
    def last_unit(self) -> bytes:
        """The last unit of a record; empty before the first."""
        return self._last

    @property
    def newest(self) -> int:
        """Physical offset of the newest record that has a unit."""
        return self._seen

    def is_filled(self, queue_offset: int) -> bool:
        """Tell whether a hole begins here, and repeats the unit after it."""
        return self._filled is not None and queue_offset in self._filled

    def wants(self, queue_offset: int) -> bool:
        """Tell whether a record of the log asks for the unit of a queue offset."""
        in_hole = any(hole.holds(queue_offset) for hole in self.holes)
        return self.first <= queue_offset < self.next and not in_hole

    def put_back(self, queue_offset: int, unit: bytes, store_timestamp: int) -> PlacedUnits:
        """Take a unit that no run had; after the last one it is the last one then."""
        if self._filled is not None:
            self._filled.discard(queue_offset)
        if queue_offset == self.next or self.next < 0:
            return self._put_units(memoryview(unit), queue_offset, store_timestamp)
        return self._timed(PlacedUnits(queue_offset, unit, store_timestamp))

    def _put_units(
        self, packed: memoryview, queue_offset: int, store_timestamp: int
    ) -> PlacedUnits:
        return self._timed(super()._put_units(packed, queue_offset, store_timestamp))

    def _timed(self, units: PlacedUnits) -> PlacedUnits:
        """Take note of a store time."""
        if self._units_each:
            last = units.queue_offset + units.length // CQ_UNIT_SIZE - 1
            self.times[last // self._units_each] = units.store_timestamp
        return units

    def _fill(self, hole: int, run: QueueRun) -> PlacedUnits:
        self._filled = self._filled or set()
        self._filled.add(self.next)
        after = first_offset(run.units)
        self.holes.append(Hole(self.next, hole, self._seen, after))
        placed = PlacedUnits(self.next, bytes(run.units[:CQ_UNIT_SIZE]), run.store_timestamp, hole)
        self.tally.filler += hole
        self.next += hole
        return self._timed(placed)


def alone(damaged: Damaged, log_start: int, segment_length: int, last_start: int) -> bytes | None:
    """Give the unit for a queue whose every message is lost; None without one.

    - Its segment is not the log's last: the last byte of that segment, where no record can begin.
      Pulls go on with the next segment, where every new message will be.
    - Its segment is the last one: from the last byte in front of it to the bridge's end, where
      dispatch goes on, too.
    - Its segment is all there is, and begins at 0: nothing comes before it, and pre-blank would let
      4.9 dispatch nothing for 2 GiB. The queue begins anew, and so must its consumers.

    Args:
        damaged: the bridged stretch that the unit pointed into.
        log_start: physical offset of the first segment.
        segment_length: bytes of a segment.
        last_start: physical offset of the last segment in use.
    """
    start = log_start
    if segment_length:
        start += (damaged.start - log_start) // segment_length * segment_length
    if start < last_start:
        return CQ_UNIT.packer.pack(start + segment_length - 1, 2, 0)
    if start > 0:
        return CQ_UNIT.packer.pack(start - 1, damaged.end - start + 1, 0)
    return None
