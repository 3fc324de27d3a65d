"""What every check of queues in files does with what the walk of the ledger gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic

from rmqtool.broker.rules import counts_zeros
from rmqtool.check.queues.grouping import grouped
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_consume_queue import CQ_EMPTY
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.ledger.walk import HeldUnits, Queue, QueueWalk, WalkedQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.numbering import Numbering, WrongNumbers
    from rmqtool.ledger.walk import Proven, Stretch
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.record_heads import LogReader

UNIT: Final = CQ_UNIT.size
EVERYTHING: Final = 1 << 62


def not_the_next(records: int, topic: str, queue_id: int) -> str:
    """Say that records of a queue have a wrong queue offset, in files or in RocksDB."""
    whose = "a record" if records == 1 else f"{records:,} records"
    return f"the queueOffset of {whose} of topic {topic} queue {queue_id} is not the next one"


def at_unit(
    units: QueueUnits, number: int, length: int | None = None, physical_offset: int | None = None
) -> At:
    """Give the place of units, for a finding; of a batch queue, whose unit tells its own offset.

    Args:
        units: of a queue.
        number: of the first one.
        length: bytes.
        physical_offset: of the record of the first one.
    """
    path, position = units.locate(number)
    number_is_offset = units.layout is CQ_UNIT
    queue = (units.topic, units.queue_id, number if number_is_offset else None)
    return At(path, position, length, physical_offset, *queue)


def empty_files(inspection: Inspection, units: QueueUnits, end: int) -> Iterator[Finding]:
    """Find the newest files of a queue without a unit, which begin at a number or later.

    A running broker makes a file before it writes the first unit. See `counts_zeros`.

    Args:
        inspection: of the store.
        units: of a plain queue or a batch queue.
        end: number after the last unit that the log wants.

    Raises:
        UnreadablePath: a file may not be read.
    """
    first, count, size = EVERYTHING, 0, units.layout.size
    for segment in reversed(units.files.segments):
        begin = segment.start // size
        if not segment.size or begin < end or any(True for _ in units.used(begin, first)):
            break
        first, count = begin, count + segment.size // size
    if not count or inspection.store.moment.is_live:
        return
    is_first = first == units.files.start // size
    is_counted = counts_zeros(None if is_first else units.packed(first - 1, 1))
    yield finding(
        CQ_EMPTY,
        at_unit(units, first, count * size),
        actual=f"{count * size:,} bytes of zeros",
        severity=None if is_counted else Severity.NOTE,
    )


@dataclass(slots=True)
class QueueState(WalkedQueue):
    """One queue. Numbers count units from the begin of the queue."""

    placement: Numbering  # where its units belong
    # [start, end, physical offset wanted at start] of units that are not as wanted
    wrong: list[list[int]] = field(default_factory=list)

    def mark_wrong(self, start: int, end: int, physical_offset: int) -> None:
        """Note units that are not as wanted; neighbours become one stretch."""
        if self.wrong and self.wrong[-1][1] == start:
            self.wrong[-1][1] = end
        else:
            self.wrong.append([start, end, physical_offset])


class UnreadQueue(QueueState):
    """One queue of which nothing can be read: no unit is compared."""

    def there(self, first: int, wanted: bytes) -> bytes:  # noqa: ARG002 - as others take it
        """Take the units for what they should be."""
        return wanted


class StretchJudge(Generic[Queue]):
    """Words what the walk gives.

    Attributes:
        walk: takes the runs of the log.
    """

    walk: QueueWalk[Queue]
    unit_size = UNIT  # bytes

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        self._inspection, self._facts, self._queue_facts = inspection, facts, queue_facts
        self._compared = 0

    def compare(self, report: PartReport, proven: Proven) -> Iterator[Finding]:
        """Compare what one part of the log asks for.

        Args:
            report: of the part.
            proven: what somebody has compared already, and which is as the log wants it.
        """
        if report.runs is not None:
            yield from self.take(self.walk.take(report.runs.queues, proven))

    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge the queues, of which all runs have been taken."""
        raise NotImplementedError

    @grouped
    def take(self, stretches: Iterable[tuple[Queue, Stretch]]) -> Iterator[Finding]:
        """Word what the walk gives for one part of the log."""
        for state, stretch in stretches:
            try:
                if isinstance(stretch, UnreadablePath):
                    raise stretch
                elif isinstance(stretch, HeldUnits):
                    yield from self._differ(state, stretch)
                else:
                    yield from self._of_numbers(state, stretch)
            except UnreadablePath as error:
                yield from self._unread(state, error)
        self._note_compared()

    def _note_compared(self) -> None:
        walk, account = self.walk, self._inspection.account
        account.units += walk.units - self._compared
        account.bytes += (walk.units - self._compared) * self.unit_size
        self._compared = walk.units
        if walk.newest >= 0:
            self._queue_facts.note_newest(walk.newest)

    def _differ(self, state: Queue, held: HeldUnits) -> Iterator[Finding]:
        raise NotImplementedError

    def _of_numbers(self, state: Queue, numbers: WrongNumbers) -> Iterator[Finding]:
        raise NotImplementedError

    def _unread(self, state: Queue, error: UnreadablePath) -> Iterator[Finding]:
        """Say once that a file cannot be read; nothing is said of its units, the others go on."""
        path, size = self._inspection.path_of(error.path), self.unit_size
        bad = next((file for file in state.files if file.path == path), None)
        state.unread += ((bad.start // size, bad.end // size) if bad else (0, EVERYTHING),)
        if not self._inspection.is_known_unread(path):
            yield self._inspection.unread(path, error, (state.topic, state.queue_id))
