"""What is known of one consume queue while the log goes by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.findings.finding import At
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.units import KnownQueue

if TYPE_CHECKING:
    from rmqtool.queues.units import QueueUnits

UNIT: Final = CQ_UNIT.size


def not_the_next(records: int, topic: str, queue_id: int) -> str:
    """Say that records of a queue have a wrong queue offset, in files or in RocksDB."""
    whose = "a record" if records == 1 else f"{records:,} records"
    return f"the queueOffset of {whose} of topic {topic} queue {queue_id} is not the next one"


class Break(NamedTuple):
    """Queue offsets that no record of the log has."""

    start: int  # first of them
    end: int  # after the last one
    before: int  # physical offset of the record in front of them
    after: int  # physical offset of the record after them

    def is_left_by(self, state: QueueState, queue_offset: int) -> bool:
        """Tell whether one record had gone over them, and the next goes on where they begin."""
        return (self.end + 1, self.start + 1) == (state.expected, queue_offset)


class Outlier(NamedTuple):
    """Records whose queue offsets do not follow, although their units do."""

    number: int  # queue offset at which the units lie
    queue_offset: int  # what the first of the records says
    records: int  # how many
    physical_offset: int  # of the first one


def at_unit(
    units: QueueUnits, number: int, length: int | None = None, physical_offset: int | None = None
) -> At:
    """Give the place of units, for a finding.

    Args:
        units: of a consume queue.
        number: of the first one.
        length: bytes.
        physical_offset: of the record of the first one.
    """
    path, position = units.locate(number)
    queue = (units.topic, units.queue_id, number)
    return At(path, position, length, physical_offset, *queue)


@dataclass(slots=True)
class QueueState(KnownQueue):
    """One queue. Numbers count units from the begin of the queue."""

    first: int = -1  # first unit that a record of the log wants; -1 before there was one
    first_physical_offset: int = -1  # of the first record of the queue; -1 before there was one
    expected: int = -1  # where the next record's unit belongs
    delta: int = 0  # what the queue offsets of the records are ahead of their units
    last_physical_offset: int = -1  # of the record before
    # [start, end, physical offset wanted at start] of units that are not as wanted
    wrong: list[list[int]] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)  # queue offsets without a record
    outlier: Outlier | None = None  # records with wrong queue offsets, until the next ones decide
    # [start, end) of units that cannot be read, so that nothing is said of them
    unread: list[tuple[int, int]] = field(default_factory=list)

    def assume(self, start: int, wanted: bytes, on_disk: bytes) -> bytes:
        """Take units that cannot be read for what they should be."""
        patched = bytearray(on_disk)
        for low, high in self.unread:
            begin = max(low - start, 0) * UNIT
            end = max(min((high - start) * UNIT, len(wanted)), begin)
            patched[begin:end] = wanted[begin:end]
        return bytes(patched)

    def mark_wrong(self, start: int, end: int, physical_offset: int) -> None:
        """Note units that are not as wanted; neighbours become one stretch."""
        if self.wrong and self.wrong[-1][1] == start:
            self.wrong[-1][1] = end
        else:
            self.wrong.append([start, end, physical_offset])
