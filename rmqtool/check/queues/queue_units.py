"""Judge queue units that no record of the log asked for, or that are not what was asked for.

Source: ConsumeQueue#recover, #fillPreBlank, #correctMinOffset, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.broker.rules import passes_pre_blank
from rmqtool.check.queues.queue_state import UNIT, QueueState, at_unit
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_consume_queue import (
    CQ_EXTRA,
    CQ_GAP,
    CQ_HOLE,
    CQ_LMQ,
    CQ_NOREC,
    CQ_ORDER,
    CQ_PREBLANK,
    CQ_RANGE,
    CQ_SHIFT,
)
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.ledger.differences import by_fields
from rmqtool.ledger.sound import pass_over
from rmqtool.plural import counted
from rmqtool.queues.kinds import UnitKind, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.record_heads import LogReader, RecordHead

    Mask = npt.NDArray[np.bool_]
    Numbers = npt.NDArray[np.int64]

LOOKED_AT: Final = 64  # records of one stretch that are read; the rest is like them
NOT_DISPATCHED: Final = (SysFlag.TRANSACTION_PREPARED_TYPE, SysFlag.TRANSACTION_ROLLBACK_TYPE)


class PointedRecord(NamedTuple):
    """A unit and the record that it points to."""

    number: int  # of the unit
    physical_offset: int  # where it points to
    size: int  # what it says of the record's size
    head: RecordHead | None  # the record's; None when none begins there
    topic: str  # the record's


class UnitJudge:
    """Judges stretches of units against the log as a whole, once its end is known."""

    def __init__(self, inspection: Inspection, facts: LogFacts, log: LogReader) -> None:
        self._inspection, self._facts, self._log = inspection, facts, log
        self._start, self._end = facts.start, facts.end
        self.expired = 0
        self.expired_queues: set[str] = set()

    def uncovered(
        self, state: QueueState, begin: int, end: int | None, *, is_first: bool = False
    ) -> Iterator[Finding]:
        """Judge the units in [begin, end) of a queue, which no record of the log asked for.

        Args:
            state: the queue.
            begin: number of the first unit.
            end: after the last one; None is the end of the queue.
            is_first: nothing real lies in front of them, so pre-blanks may.
        """
        last = -1
        for number, units in state.units.used(begin, end):
            offsets = units["physical_offset"].astype(np.int64)
            sizes = units["size"].astype(np.int64)
            kinds = kinds_of(units)
            blank, real = kinds == UnitKind.PRE_BLANK, kinds == UnitKind.REAL
            real &= ~self.pass_over(units)
            yield from self._order(state, number, np.where(real, offsets, -1), last)
            if real.any():
                last = int(offsets[real][-1])
            yield from self._blanks(state, number, blank, real, is_first=is_first)
            is_first = is_first and not bool(real.any())
            yield from self._invalid(state, number, kinds == UnitKind.INVALID)
            yield from self._judge_real(state, number, (offsets, sizes), real)

    def pass_over(self, units: npt.NDArray[np.void]) -> Mask:
        """Tell which units let brokers pass a lost record: bool, shape (n,)."""
        return pass_over(units, self._start, self._inspection.store.commitlog.file_length)

    def is_led(self, state: QueueState) -> bool:
        """Tell whether all units before the first of a queue repeat it: see `Placement.lead`."""
        first = state.placement.first
        if passes_pre_blank(self._start) or first <= state.files.start // UNIT:
            return False
        pair = ["physical_offset", "size"]
        own = state.units.read(first, 1)[pair]
        return all((units[pair] == own).all() for _, units in state.units.used(0, first))

    def _at(self, state: QueueState, number: int, count: int, physical_offset: int | None) -> At:
        return at_unit(state.units, number, count * UNIT, physical_offset)

    def _order(
        self, state: QueueState, number: int, offsets: Numbers, last: int
    ) -> Iterator[Finding]:
        """Find real units that do not point forward."""
        real = np.flatnonzero(offsets >= 0)
        if not real.size:
            return
        steps = np.diff(offsets[real], prepend=last if last >= 0 else offsets[real[0]] - 1)
        least = 0 if self._facts.bridges else 1  # repair repeats a unit for a lost message
        for row in real[steps < least].tolist():
            at = self._at(state, number + row, 1, int(offsets[row]))
            yield finding(CQ_ORDER, at, actual=int(offsets[row]))

    def _blanks(
        self, state: QueueState, number: int, blank: Mask, real: Mask, *, is_first: bool
    ) -> Iterator[Finding]:
        """Find pre-blanks after real units, in a file that is not the first, or handed out."""
        if not blank.any():
            return
        allowed = np.zeros(len(blank), bool)
        if is_first and passes_pre_blank(self._start):
            before = int(np.argmax(real)) if real.any() else len(real)
            allowed[: max(min(before, state.units.blank_end - number), 0)] = True
        odd = np.flatnonzero(blank & ~allowed)
        if odd.size:
            at = self._at(state, number + int(odd[0]), len(odd), None)
            yield finding(CQ_PREBLANK, at, actual=f"{len(odd):,} pre-blank units")

    def _invalid(self, state: QueueState, number: int, invalid: Mask) -> Iterator[Finding]:
        rows = np.flatnonzero(invalid)
        if rows.size:
            at = self._at(state, number + int(rows[0]), len(rows), None)
            message = "these bytes are neither a unit nor unused space"
            yield finding(CQ_HOLE, at, message, actual=counted(len(rows), "unit"))

    def _judge_real(
        self, state: QueueState, number: int, units: tuple[Numbers, Numbers], real: Mask
    ) -> Iterator[Finding]:
        """Sort units by where they point to, and judge each sort."""
        offsets, sizes = units
        expired = real & (offsets < self._start)
        if expired.any():
            self.expired += int(expired.sum())
            self.expired_queues.add(state.path)
        lost = real & self._facts.lost.mask(offsets)
        self._facts.lost.count_units(offsets[lost])
        beyond = real & ~lost & (offsets + sizes > self._end)
        if beyond.any():
            yield self._range(state, number, np.flatnonzero(beyond), offsets)
        rows = np.flatnonzero(real & ~(expired | lost | beyond))
        yield from self._records(state, self._looked(number, rows, units), len(rows))

    def _range(
        self,
        state: QueueState,
        number: int,
        rows: Numbers,
        offsets: Numbers,
        *,
        is_wanted: bool = False,
    ) -> Finding:
        """Say that units point after the log's end.

        While a broker writes, or after it was killed, queues may be ahead of the log: recovery
        cuts them, and no message is concerned that the log has, unless it wants these units, or
        later ones: with those in the same file go, and who pulls a unit in an earlier one is led
        past all that the log has. Source: ConsumeQueue#truncateDirtyLogicFiles,
        DefaultMessageStore#getMessage, 4.9.3 to 5.5.1.
        """
        first, has_crashed = int(rows[0]), self._inspection.scope.has_crashed
        is_wanted |= number + first < state.placement.next
        at = self._at(state, number + first, len(rows), int(offsets[first]))
        plural = f"{len(rows):,} units point" if len(rows) > 1 else "a unit points"
        return finding(
            CQ_RANGE,
            at,
            f"{plural} past the end of the commitlog",
            expected=f"at most {self._end}",
            actual=int(offsets[first]),
            severity=Severity.NOTE if has_crashed and not is_wanted else None,
        )

    def _looked(
        self, number: int, rows: Numbers, units: tuple[Numbers, Numbers]
    ) -> list[PointedRecord]:
        """Read the records that the first of some units point to."""
        looked = []
        for row in rows[:LOOKED_AT].tolist():
            place, size = (int(column[row]) for column in units)
            head = self._log.head_at(self._facts.moved.get(place, place))
            topic = "" if head is None else self._log.topic_of(head)
            looked.append(PointedRecord(number + row, place, size, head, topic))
        return looked

    def _records(
        self, state: QueueState, looked: list[PointedRecord], count: int
    ) -> Iterator[Finding]:
        """Judge units by the records that they point to."""
        shifts = {
            pointed.head.queue_offset - pointed.number
            for pointed in looked
            if pointed.head is not None and self._is_of(state, pointed)
        }
        if len(looked) > 1 and len(shifts) == 1 and 0 not in shifts and looked[0].head is not None:
            yield self._shift(state, looked[0], count, shifts.pop())
            return
        for pointed in looked:
            yield from self._judge_record(state, pointed)

    def _is_of(self, state: QueueState, pointed: PointedRecord) -> bool:
        head = pointed.head
        return head is not None and (pointed.topic, head.queue_id) == (state.topic, state.queue_id)

    def _shift(self, state: QueueState, first: PointedRecord, count: int, shift: int) -> Finding:
        at = self._at(state, first.number, count, first.physical_offset)
        words = "before" if shift > 0 else "behind"
        amount = counted(count, "unit is", "units are")
        message = f"{amount} {abs(shift):,} {words} the queue offsets in the log"
        return finding(
            CQ_SHIFT,
            at,
            message,
            expected=f"queue offset {first.number + shift}",
            actual=f"queue offset {first.number}",
        )

    def _judge_record(self, state: QueueState, pointed: PointedRecord) -> Iterator[Finding]:
        """Judge one unit that nobody asked for."""
        head = pointed.head
        if self._facts.bridges and self._is_repeated(state, pointed):
            return
        at = self._at(state, pointed.number, 1, pointed.physical_offset)
        if head is None:
            # A record that lies about its place was found; its unit is not to blame.
            is_known = self._facts.is_moved(pointed.physical_offset) or self._is_skip(pointed)
            if not is_known:
                yield finding(
                    CQ_NOREC, at, actual=f"{pointed.physical_offset}, {pointed.size:,} bytes"
                )
            return
        if head.sys_flag & SysFlag.TRANSACTION_ROLLBACK_TYPE in NOT_DISPATCHED:
            if pointed.topic.encode() != BRIDGE_TOPIC:
                message = "the unit points to a record that is never dispatched"
                yield finding(CQ_EXTRA, at, message, actual=f"topic {pointed.topic}")
            return
        if state.topic.startswith(LMQ_PREFIX):
            message = "INNER_MULTI_DISPATCH of its record does not name this unit"
            yield finding(CQ_LMQ, at, message, actual=f"record of topic {pointed.topic}")
            return
        if not self._fits(state, pointed):
            yield self._mismatch(state, pointed, head)

    def _fits(self, state: QueueState, pointed: PointedRecord) -> bool:
        """Tell whether a unit is that of its record, which then is one nobody can dispatch."""
        head = pointed.head
        if head is None or not self._is_of(state, pointed):
            return False
        return (head.queue_offset, head.size) == (pointed.number, pointed.size)

    def _mismatch(self, state: QueueState, pointed: PointedRecord, head: RecordHead) -> Finding:
        name = f"{state.topic} queue {state.queue_id}"
        is_own = self._is_of(state, pointed) and head.queue_offset == pointed.number
        return finding(
            by_fields(["size"] if is_own else []).code,
            self._at(state, pointed.number, 1, pointed.physical_offset),
            expected=f"{name} offset {pointed.number}, {pointed.size:,} bytes",
            actual=f"{pointed.topic} queue {head.queue_id} offset {head.queue_offset}, "
            f"{head.size:,} bytes",
        )

    def _is_skip(self, pointed: PointedRecord) -> bool:
        """Tell whether a unit is one by which `rmqtool repair` lets brokers pass a lost record.

        It names the last byte of a segment, and one segment's length or less with a bridge in it.
        """
        segment = self._inspection.segment_at(pointed.physical_offset)
        length = self._inspection.store.commitlog.file_length
        is_last = segment is not None and pointed.physical_offset == segment.end - 1
        if segment is None or not is_last:
            return False
        end = max(segment.end, pointed.physical_offset + pointed.size)
        return pointed.size == length or self._facts.has_bridges(segment.start, end)

    def _is_repeated(self, state: QueueState, pointed: PointedRecord) -> bool:
        """Tell whether a unit repeats its neighbour: so repair passes over a lost message."""
        unit = (pointed.physical_offset, pointed.size)
        first = max(pointed.number - 1, 0)
        near = state.units.read(first, pointed.number + 2 - first)
        pairs = list(zip(near["physical_offset"].tolist(), near["size"].tolist(), strict=True))
        return pairs.count(unit) > 1

    def wrong(self, state: QueueState, start: int, end: int) -> Iterator[Finding]:
        """Judge the units in [start, end), of which records of the log wanted others."""
        units = state.units.read(start, end - start)
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        kinds = kinds_of(units)
        blank, real, empty = (
            kinds == kind for kind in (UnitKind.PRE_BLANK, UnitKind.REAL, UnitKind.EMPTY)
        )
        if blank.any():
            first = int(np.argmax(blank))
            yield from self._wrong_blanks(state, start + first, int(blank.sum()))
        if empty.any() and (real.any() or end < state.placement.next or self._has_more(state, end)):
            yield from self._holes(state, start, empty, real)
        yield from self._invalid(state, start, kinds == UnitKind.INVALID)
        yield from self._wrong_real(state, start, (offsets, sizes), real)

    def _has_more(self, state: QueueState, number: int) -> bool:
        return any(True for _ in state.units.used(number))

    def _holes(self, state: QueueState, start: int, empty: Mask, real: Mask) -> Iterator[Finding]:
        """Say that zeros stand before valid units; those that layout has explained do not count."""
        rows = np.flatnonzero(empty)
        if (
            real.any()
            and rows[0] > np.flatnonzero(real)[-1]
            and not self._has_more(state, start + len(empty))
        ):
            return  # what a shift leaves at the end of the queue
        before = rows[start + rows < state.files.start // UNIT]
        if before.size:  # no file before the first one expires as long as the log has its records
            at = self._at(state, start + int(before[0]), len(before), None)
            amount = counted(len(before), "record")
            message = f"{amount} without a unit: the queue begins with a later file"
            yield finding(CQ_GAP, at, message)
        rows = np.array([row for row in rows.tolist() if state.units.holds(start + row)], np.int64)
        if rows.size:
            at = self._at(state, start + int(rows[0]), len(rows), None)
            message = "units are zero although valid ones follow"
            yield finding(CQ_HOLE, at, message, actual=counted(len(rows), "unit"))

    def _wrong_blanks(self, state: QueueState, number: int, count: int) -> Iterator[Finding]:
        at = self._at(state, number, count, None)
        if number == state.placement.first:
            message = (
                f"{counted(count, 'record has', 'records have')} a pre-blank in place of a unit"
            )
            yield finding(CQ_GAP, at, message)
        else:
            yield finding(CQ_PREBLANK, at, actual=f"{count:,} pre-blank units")

    def _wrong_real(
        self, state: QueueState, start: int, units: tuple[Numbers, Numbers], real: Mask
    ) -> Iterator[Finding]:
        """Judge units that point to something, but not to what was wanted."""
        offsets, sizes = units
        beyond = real & (offsets + sizes > self._end)
        if beyond.any():
            rows = np.flatnonzero(beyond)
            yield self._range(state, start, rows, offsets, is_wanted=True)
        rows = np.flatnonzero(real & ~beyond)
        if not rows.size:
            return
        looked = self._looked(start, rows, units)
        own = [pointed for pointed in looked if self._is_of(state, pointed)]
        shifts = {pointed.head.queue_offset - pointed.number for pointed in own if pointed.head}
        if len(looked) > 1 and len(own) == len(looked) and len(shifts) == 1 and 0 not in shifts:
            yield self._shift(state, looked[0], len(rows), shifts.pop())
        elif len(rows) > 1 and (np.diff(offsets[rows]) <= 0).any():
            first = int(rows[0])
            at = self._at(state, start + first, len(rows), int(offsets[first]))
            yield finding(CQ_ORDER, at, actual=f"{counted(len(rows), 'unit')} out of order")
        else:
            for pointed in looked:
                yield from self._one_wrong(state, pointed)

    def _one_wrong(self, state: QueueState, pointed: PointedRecord) -> Iterator[Finding]:
        if pointed.head is None or state.topic.startswith(LMQ_PREFIX):
            yield from self._judge_record(state, pointed)
            return
        if self._fits(state, pointed) and self._inspection.store.moment.is_live:
            return  # a running broker has made the unit since it was compared
        yield self._mismatch(state, pointed, pointed.head)
