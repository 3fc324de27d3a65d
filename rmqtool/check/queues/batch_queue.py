"""Compare the batch queues on disk with the units that the log asks for: BQ-UNIT.

Units of a batch queue have no place of their own; they follow each other in the order of the log.
Source: BatchConsumeQueue#putBatchMessagePositionInfo, #recover, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.check.queues.grouping import grouped
from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import BQ_UNIT, CQ_LAG, CQ_RANGE
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.ledger.differences import by_fields, differing_fields
from rmqtool.queues.kinds import as_units
from rmqtool.queues.units import KnownQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.derive.queue_runs import QueueRuns
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.units import QueueUnits

UNIT: Final = BATCH_CQ_UNIT.size
SEARCHED_UNITS: Final = 1 << 16
MOST: Final = 64  # units of one queue that are reported one by one


@dataclass(slots=True)
class BatchState(KnownQueue):
    """One batch queue."""

    next: int = -1  # number of the unit where the next one should be; -1 before the first one
    is_unread: bool = False  # a part of it cannot be read, so it is not compared
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


class BatchComparer:
    """Takes the batch queue units of the log in order."""

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        self._inspection, self._facts, self._queue_facts = inspection, facts, queue_facts
        self._states: dict[tuple[str, int], BatchState] = {}

    @grouped
    def take(self, runs: QueueRuns) -> Iterator[Finding]:
        """Compare the units of one part."""
        for run in runs:
            name = (topic_text(run.topic), run.queue_id)
            if self._inspection.options.topic not in {None, name[0]}:
                continue
            state = self._states.get(name)
            if state is None:
                state = self._states[name] = self._new_state(name)
            units = self._without_lost(bytes(run.units))
            if not units or state.is_unread:
                continue
            try:
                yield from self._compare(state, units)
            except UnreadablePath as error:
                yield self._unread(state, error)

    def _new_state(self, name: tuple[str, int]) -> BatchState:
        units = self._inspection.queue("batch_queues", name)
        is_lost = self._inspection.is_below_unread(units.path)
        is_unread = is_lost or bool(self._inspection.name_unread(units.unread()))
        return BatchState(units, is_unread=is_unread)

    def _unread(self, state: BatchState, error: UnreadablePath) -> Finding:
        path, queue = self._inspection.path_of(error.path), state.units
        return self._inspection.unread(path, error, (queue.topic, queue.queue_id))

    def _without_lost(self, wanted: bytes) -> bytes:
        """Leave out the units of records that are torn, or that lie elsewhere than they say."""
        units = np.frombuffer(wanted, BATCH_CQ_UNIT.dtype)
        left_out = self._is_explained(units["physical_offset"].astype(np.int64))
        return units[~left_out].tobytes() if left_out.any() else wanted

    def _is_explained(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which units a finding about the log explains: bool, shape (n,)."""
        explained = self._facts.lost.mask(offsets)
        if self._facts.moved:
            explained |= np.fromiter(map(self._facts.is_moved, offsets.tolist()), np.bool_)
        return explained

    def _compare(self, state: BatchState, wanted: bytes) -> Iterator[Finding]:
        """Compare units with those on disk, from where the last ones ended."""
        units = np.frombuffer(wanted, BATCH_CQ_UNIT.dtype)
        if state.next < 0:
            # Units of records before the first one of the log have expired.
            start = state.units.files.start // UNIT
            first = _find(state.units, start, int(units["physical_offset"][0]))
            state.next = start if first is None else first
        on_disk = state.units.packed(state.next, len(units))
        newest = int(units["physical_offset"][-1])
        if on_disk == wanted:
            self._queue_facts.note_newest(newest)
            state.next += len(units)
        else:
            yield from self._differ(state, units, wanted)
        self._inspection.account.units += len(units)
        self._inspection.account.bytes += len(wanted)

    def _differ(
        self, state: BatchState, units: npt.NDArray[np.void], wanted: bytes
    ) -> Iterator[Finding]:
        """Compare unit by unit; find the place again where one is missing or too many."""
        for number in range(len(units)):
            unit = wanted[number * UNIT : (number + 1) * UNIT]
            is_mended = bool(self._facts.bridges)
            while _stands_for_lost(state, units[number], is_mended=is_mended):
                state.next += 1
            on_disk = state.units.packed(state.next, 1)
            if on_disk != unit:
                following = units["physical_offset"][number + 1 : number + 2]
                place = self._place(state, int(units["physical_offset"][number]), following)
                if place is None:
                    state.miss(int(units["physical_offset"][number]))
                    continue
                yield from self._unwanted(state, place)
                yield from self._wrong(state, place, unit)
                state.next = place
            state.next += 1

    def _place(
        self, state: BatchState, offset: int, following: npt.NDArray[np.int64]
    ) -> int | None:
        """Find the unit of a record; the next one where it alone is damaged; None if missing."""
        place = _find(state.units, state.next, offset)
        if place is None and following.size:
            after = state.units.read(state.next + 1, 1)["physical_offset"][0]
            return state.next if after == following[0] else None
        if place is None and state.units.packed(state.next, 1).strip(b"\0"):
            return state.next  # the last unit that can be compared
        return place

    def _unwanted(self, state: BatchState, place: int) -> Iterator[Finding]:
        """Judge units in front of a place that no record asks for."""
        units = state.units.read(state.next, place - state.next)
        offsets = units["physical_offset"].astype(np.int64)
        explained = self._is_explained(offsets)
        self._facts.lost.count_units(offsets[explained])
        if not explained.all():
            count = int((~explained).sum())
            at = state.at(state.next, count, units[~explained][0])
            plural = f"{count:,} units stand" if count > 1 else "a unit stands"
            yield finding(BQ_UNIT, at, f"{plural} here without a record")

    def _wrong(self, state: BatchState, place: int, unit: bytes) -> Iterator[Finding]:
        """Say which fields of a unit are not as its record wants them."""
        want, have = as_units(unit, BATCH_CQ_UNIT)[0], state.units.read(place, 1)[0]
        fields = list(differing_fields(want, have))
        if want["store_timestamp"] <= 0 and fields == ["store_timestamp"]:
            return  # then the record's time is to blame, and its finding says so
        if "msg_base_offset" in fields and _follows(state, place, have):
            yield self._of_record(state, want, int(have["msg_base_offset"]))
            fields = [name for name in fields if name not in {"msg_base_offset", "store_timestamp"}]
        if fields:
            yield finding(
                by_fields(fields).batch_code,
                state.at(place, 1, want),
                f"the unit does not match its record: {', '.join(fields)}",
                expected=", ".join(_word(want[name]) for name in fields),
                actual=", ".join(_word(have[name]) for name in fields),
            )

    def _of_record(self, state: BatchState, want: np.void, expected: int) -> Finding:
        """Say that a record has a wrong queue offset; its unit is right."""
        offset, actual = int(want["physical_offset"]), int(want["msg_base_offset"])
        segment = self._inspection.segment_at(offset)
        path, start = (segment.path, segment.start) if segment else (state.units.path, offset)
        queue = (state.units.topic, state.units.queue_id)
        return finding(
            CL_QOFF_DUP if actual < expected else CL_QOFF_GAP,
            At(path, offset - start, int(want["size"]), offset, *queue, actual),
            f"the queueOffset of a batch of topic {queue[0]} queue {queue[1]} is not the next one",
            expected=expected,
            actual=actual,
        )

    @grouped
    def finish(self) -> Iterator[Finding]:
        """Judge what is missing, and what lies after the last unit of each queue."""
        for state in self._states.values():
            if state.is_unread:
                continue
            if state.missing:
                message = f"{state.missing:,} records of the queue have no unit"
                queue = (state.units.topic, state.units.queue_id)
                at = At(state.units.path, None, None, state.first_missing, *queue)
                newest = self._queue_facts.newest_unit
                is_past_log = self._inspection.scope.has_crashed and newest is not None
                yield finding(CQ_LAG if is_past_log else BQ_UNIT, at, message)
            try:
                yield from self._after_the_log(state)
            except UnreadablePath as error:
                yield self._unread(state, error)

    def _after_the_log(self, state: BatchState) -> Iterator[Finding]:
        units = state.units.read(state.next, SEARCHED_UNITS)
        rows = np.flatnonzero((units["size"] > 0) & (units["batch_size"] > 0))
        if not rows.size:
            return
        offsets = units["physical_offset"][rows].astype(np.int64)
        lost = self._is_explained(offsets)
        self._facts.lost.count_units(offsets[lost])
        if self._facts.bridges and state.next:
            last = state.units.read(state.next - 1, 1)["physical_offset"][0]
            lost |= offsets == last  # repair lets the last record stand for lost ones after it
        left = rows[~lost]
        if left.size:
            at = state.at(state.next + int(left[0]), len(left), units[left[0]])
            beyond = int(offsets[~lost][0]) >= self._facts.end
            message = f"{len(left):,} units are after the last unit of a record"
            yield finding(CQ_RANGE if beyond else BQ_UNIT, at, message)


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
            record is whole and has another topic, the unit after it has to name the same record,
            and to follow on.
    """
    unit, after = state.units.read(state.next, 2)
    is_its = unit["size"] > 0 and unit["physical_offset"] == wanted["physical_offset"]
    end = unit["msg_base_offset"] + unit["batch_size"]
    is_first = after["physical_offset"] == wanted["physical_offset"]
    follows = unit["batch_size"] > 0 and is_first and after["msg_base_offset"] == end
    is_before = unit["msg_base_offset"] < wanted["msg_base_offset"]
    return bool(is_its and is_before and (is_mended or follows))


def _find(units: QueueUnits, first: int, physical_offset: int) -> int | None:
    """Find the unit of a record from a number on."""
    for number, used in units.used(first):
        rows = np.flatnonzero((used["physical_offset"] == physical_offset) & (used["size"] > 0))
        if rows.size:
            return number + int(rows[0])
    return None
