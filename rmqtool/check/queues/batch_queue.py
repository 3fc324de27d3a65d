"""Compare the batch queues on disk with the units that the log asks for: BQ-UNIT.

Units of a batch queue have no place of their own; they follow each other in the order of the log.
Source: BatchConsumeQueue#putBatchMessagePositionInfo, #recover, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.check.next_start import NextStart
from rmqtool.check.queues.grouping import grouped
from rmqtool.check.queues.queue_state import StretchJudge, empty_files
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import BQ_UNIT, CQ_LAG, CQ_RANGE
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.ledger.differences import by_fields, differing_fields
from rmqtool.ledger.numbering import BatchNumbering, Turn, WrongNumbers, find_unit
from rmqtool.ledger.walk import QueueWalk, WalkedQueue
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.ledger.walk import HeldUnits, Proven
    from rmqtool.store.record_heads import LogReader

UNIT: Final = BATCH_CQ_UNIT.size
MOST: Final = 64  # units of one queue that are reported one by one


@dataclass(slots=True)
class BatchState(WalkedQueue):
    """One batch queue."""

    numbering: BatchNumbering  # where its units belong
    missing: int = 0  # units that are not there
    first_missing: int = -1  # physical offset of the first of them

    def miss(self, physical_offset: int) -> None:
        """Count a record without a unit."""
        self.missing += 1
        self.first_missing = physical_offset if self.first_missing < 0 else self.first_missing

    def at(self, number: int, count: int, first: np.void) -> At:
        """Say where units lie.

        Args:
            number: of the first one.
            count: how many.
            first: the first one, or what it should be.
        """
        queue = (self.units.topic, self.units.queue_id, int(first["msg_base_offset"]))
        path, position = self.units.locate(number)
        return At(path, position, count * UNIT, int(first["physical_offset"]), *queue)


class BatchComparer(StretchJudge[BatchState]):
    """Words what is wrong with batch queues."""

    unit_size = UNIT

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        super().__init__(inspection, facts, queue_facts)
        self.walk = QueueWalk(
            self._begin, lambda state, run: state.numbering.place(run), lost=facts
        )

    def _begin(self, topic: bytes, queue_id: int, _: SoundSoFar | None) -> BatchState | None:
        return self._opened((topic_text(topic), queue_id))

    def _opened(self, name: tuple[str, int]) -> BatchState | None:
        """Begin a queue; None for one that was not asked for, or a part of which is unreadable."""
        if self._inspection.options.topic not in {None, name[0]}:
            return None
        units = self._inspection.queue("batch_queues", name)
        is_lost = self._inspection.is_below_unread(units.path)
        if is_lost or self._inspection.name_unread(units.unread()):
            return None
        return BatchState(units, BatchNumbering(units))

    def _differ(self, state: BatchState, held: HeldUnits) -> Iterator[Finding]:
        """Compare unit by unit; find the place again where one is missing or too many."""
        numbering, offsets = state.numbering, held.wanted["physical_offset"]
        numbering.next, is_mended = held.first, bool(self._facts.bridges)
        for number, want in enumerate(held.wanted):
            while _stands_for_lost(state, want, is_mended=is_mended):
                numbering.next += 1
            if state.units.packed(numbering.next, 1) != want.tobytes():
                place = self._place(state, int(offsets[number]), offsets[number + 1 : number + 2])
                if place is None:
                    state.miss(int(offsets[number]))
                    continue
                yield from self._unwanted(state, place)
                yield from self._wrong(state, place, want)
                numbering.next = place
            numbering.next += 1

    def _place(
        self, state: BatchState, offset: int, following: npt.NDArray[np.int64]
    ) -> int | None:
        """Find the unit of a record; the next one where it alone is damaged; None if missing."""
        place = find_unit(state.units, state.numbering.next, offset)
        if place is None and following.size:
            after = state.units.read(state.numbering.next + 1, 1)["physical_offset"][0]
            return state.numbering.next if after == following[0] else None
        if place is None and state.units.packed(state.numbering.next, 1).strip(b"\0"):
            return state.numbering.next  # the last unit that can be compared
        return place

    def _unwanted(self, state: BatchState, place: int) -> Iterator[Finding]:
        """Judge units in front of a place that no record asks for."""
        units = state.units.read(state.numbering.next, place - state.numbering.next)
        offsets = units["physical_offset"].astype(np.int64)
        explained = self._facts.mask(offsets)
        self._facts.lost.count_units(offsets[explained])
        if not explained.all():
            count = int((~explained).sum())
            at = state.at(state.numbering.next, count, units[~explained][0])
            plural = f"{count:,} units stand" if count > 1 else "a unit stands"
            yield finding(BQ_UNIT, at, f"{plural} here without a record")

    def _wrong(self, state: BatchState, place: int, want: np.void) -> Iterator[Finding]:
        """Say which fields of a unit are not as its record wants them."""
        have = state.units.read(place, 1)[0]
        fields = list(differing_fields(want, have))
        if want["store_timestamp"] <= 0 and fields == ["store_timestamp"]:
            return  # then the record's time is to blame, and its finding says so
        if "msg_base_offset" in fields and _follows(state, place, have):
            physical_offset, stated = int(want["physical_offset"]), int(want["msg_base_offset"])
            base, size = int(have["msg_base_offset"]), int(want["size"])
            numbers = WrongNumbers(Turn.OUTLIER, base, stated, 1, physical_offset, size)
            yield from self._of_numbers(state, numbers)
            fields = [name for name in fields if name not in {"msg_base_offset", "store_timestamp"}]
        if fields:
            yield finding(
                by_fields(fields).batch_code,
                state.at(place, 1, want),
                f"the unit does not match its record: {', '.join(fields)}",
                expected=", ".join(_word(want[name]) for name in fields),
                actual=", ".join(_word(have[name]) for name in fields),
            )

    def _of_numbers(self, state: BatchState, numbers: WrongNumbers) -> Iterator[Finding]:
        """Say that a record has a wrong queue offset."""
        queue = (state.topic, state.queue_id, numbers.queue_offset)
        is_before = numbers.queue_offset < numbers.number
        yield finding(
            CL_QOFF_DUP if is_before else CL_QOFF_GAP,
            self._inspection.at_record(numbers.physical_offset, queue, numbers.size),
            f"the queueOffset of a batch of topic {queue[0]} queue {queue[1]} is not the next one",
            expected=numbers.number,
            actual=numbers.queue_offset,
        )

    @grouped
    def compare(self, report: PartReport, proven: Proven) -> Iterator[Finding]:  # noqa: ARG002
        """See `StretchJudge`: runs of batch queues must stay in the order of the log."""
        if report.runs is not None:
            yield from self.take(self.walk.take_now(report.runs.batch_queues))

    def _note_compared(self) -> None:
        super()._note_compared()
        self._queue_facts.newest_batch = self.walk.newest

    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge what is missing, and what lies after the last unit of each queue."""
        start = NextStart(self._inspection, self._queue_facts, log)
        for state in self.walk.queues.values():
            if state.missing:
                message = f"{counted(state.missing, 'record')} of the queue without a unit"
                queue = (state.units.topic, state.units.queue_id)
                at = At(state.units.path, None, None, state.first_missing, *queue)
                if start.dispatches_from(state.first_missing):
                    yield finding(CQ_LAG, at, message, severity=start.severity)
                else:
                    yield finding(BQ_UNIT, at, message)
            try:
                yield from self._after_the_log(state)
                yield from empty_files(self._inspection, state.units, state.numbering.next)
            except UnreadablePath as error:
                yield from self._unread(state, error)
        for name in self.walk.without(self._inspection.units("batch_queues")):
            if (other := self._opened(name)) is None:
                continue
            try:
                yield from self._after_the_log(other)
                yield from empty_files(self._inspection, other.units, 0)
            except UnreadablePath as error:
                yield from self._unread(other, error)

    def _after_the_log(self, state: BatchState) -> Iterator[Finding]:
        """Judge units after that of the last record; without one all that have not expired.

        After a crash, a queue may be ahead of the log: recovery cuts it there.
        Source: BatchConsumeQueue#truncateDirtyLogicFiles, 5.3.3.
        """
        last, count, first, is_alone = -1, 0, None, state.numbering.next < 0
        is_cut = self._inspection.scope.has_crashed
        if self._facts.bridges and state.numbering.next > 0:
            last = int(state.units.read(state.numbering.next - 1, 1)["physical_offset"][0])
        for number, units in state.units.used(max(state.numbering.next, 0)):
            offsets = units["physical_offset"].astype(np.int64)
            left = (units["size"] > 0) & (units["batch_size"] > 0)
            if is_alone:
                left &= (offsets < 0) | (offsets >= self._facts.start)
            lost = left & self._facts.mask(offsets)
            self._facts.lost.count_units(offsets[lost])
            left &= ~lost & (offsets != last)  # repair lets the last record stand for lost ones
            rows = np.flatnonzero(left)
            if rows.size and first is None:
                first = number + int(rows[0]), units[rows[0]]
            count += rows.size
            is_cut &= bool((offsets[rows] >= self._facts.end).all())
        if first is None:
            return
        at, beyond = state.at(first[0], count, first[1]), first[1]["physical_offset"]
        is_beyond = int(beyond) >= self._facts.end
        message = f"{counted(count, 'unit is', 'units are')} after the last unit of a record"
        if is_beyond:
            message = (
                f"{counted(count, 'unit points', 'units point')} past the end of the commitlog"
            )
        code, severity = CQ_RANGE if is_beyond else BQ_UNIT, Severity.NOTE if is_cut else None
        yield finding(code, at, message, severity=severity)


def _word(value: object) -> str:
    return value.tobytes().hex() if isinstance(value, np.void) else str(value)


def _follows(state: BatchState, place: int, unit: np.void) -> bool:
    """Tell whether a unit begins at the queue offset where the one before it ends."""
    if place * UNIT <= state.units.files.start:
        return False
    before = state.units.read(place - 1, 1)[0]
    end = int(before["msg_base_offset"]) + int(before["batch_size"])
    return bool(before["size"] > 0 and unit["msg_base_offset"] == end)


def _stands_for_lost(state: BatchState, wanted: np.void, *, is_mended: bool) -> bool:
    """Tell whether the next unit names a record, but with queue offsets of a lost one before it.

    Args:
        state: of the queue.
        wanted: unit of the record.
        is_mended: whether repair has put bridges into the log; without one, as where the lost
            record is whole and has another topic, the unit after it has to follow on, too.

    The unit after it has to name the same record: else the record's own queue offset is damaged.
    """
    unit, after = state.units.read(state.numbering.next, 2)
    is_its = unit["size"] > 0 and unit["physical_offset"] == wanted["physical_offset"]
    end = unit["msg_base_offset"] + unit["batch_size"]
    is_first = after["physical_offset"] == wanted["physical_offset"]
    follows = unit["batch_size"] > 0 and after["msg_base_offset"] == end
    is_before = unit["msg_base_offset"] < wanted["msg_base_offset"]
    return bool(is_its and is_before and is_first and (is_mended or follows))
