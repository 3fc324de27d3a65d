"""Where the units of one queue belong when its log has bridges: which unit passes over a lost one.

The table, proven with real brokers and consumers in tests/repair/broker. A unit left on a bridge
would deliver it; a removed one would shift the queue under its consumers' offsets; a range that is
made up hides neighbours from some pulls, and later messages from dispatch where it is the last
unit. So:

- in front of a sound unit of the queue: a copy of that next unit. Its message is delivered twice,
  which consumers must expect; none is lost. The next, not the one before: its record's own queue
  offset leads a consumer on, and offsets into the log never decrease, as searches rely on.
- behind the last sound unit: a copy of that. Without a unit the queue offset would be given to a
  new message, which groups that had consumed the lost one would never see.
- the only message of its queue: a unit that nothing is read for, see `alone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, PRE_BLANK
from rmqtool.rebuild.placement import Placement, Units

if TYPE_CHECKING:
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.repair.stretches import Damaged


class BridgedPlacement(Placement):
    """Places units by their queue offset; a hole repeats the unit behind it.

    Attributes:
        filled: first queue offset of each hole.
    """

    __slots__ = ("filled",)

    def __init__(self, log_start: int, segment_length: int) -> None:
        super().__init__(log_start, segment_length)
        self.filled: set[int] = set()

    @property
    def last_unit(self) -> bytes:
        """The last unit of a record; empty before the first."""
        return self._last

    def _fill(self, hole: int, run: QueueRun) -> Units:
        self.filled.add(self.next)
        placed = Units(self.next, bytes(run.units[:CQ_UNIT_SIZE]), run.store_timestamp, hole)
        self.tally.filler += hole
        self.next += hole
        return placed


def alone(damaged: Damaged, log_start: int, segment_length: int) -> bytes:
    """Give the unit for a queue whose every message is lost.

    With a segment in front of the bridge it begins on that segment's last byte, where no record
    can be read, and ends with the bridge, so that dispatch goes on behind it. In the first segment
    there is only the pre-blank unit: pulls that come to it go on with the next segment.
    """
    start = log_start
    if segment_length:
        start += (damaged.start - log_start) // segment_length * segment_length
    if start <= log_start:
        return PRE_BLANK
    return CQ_UNIT.packer.pack(start - 1, damaged.end - (start - 1), 0)
