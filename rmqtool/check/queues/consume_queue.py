"""Word how consume queues differ from what the log wants: CQ-*, CL-QOFF-*.

Where the ledger finds that bytes differ, units are looked at one by one, but only after the whole
log was read: what a unit points to can be judged no earlier.
Source: ConsumeQueue#putMessagePositionInfo, #recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import name_in_files, topic_text
from rmqtool.check.queues.grouping import grouped
from rmqtool.check.queues.queue_state import (
    EVERYTHING,
    UNIT,
    QueueState,
    StretchJudge,
    UnreadQueue,
    at_unit,
    empty_files,
    not_the_next,
)
from rmqtool.check.queues.queue_tails import Tails
from rmqtool.check.queues.queue_units import UnitJudge
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, rebuild_hides
from rmqtool.findings.registry_commitlog import CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import (
    CQ_EXPIRED,
    CQ_EXTADDR,
    CQ_EXTRA,
    CQ_SHIFT,
)
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.ledger.differences import ADDRESS, by_fields
from rmqtool.ledger.extensions import ExtUnits
from rmqtool.ledger.numbering import Numbering, Turn
from rmqtool.ledger.sound import LogBounds, SoundQueues
from rmqtool.ledger.walk import QueueWalk
from rmqtool.machine.arrays import stretches
from rmqtool.plural import counted
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.unread import unread_stretches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection, QueueName
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.numbering import Break, WrongNumbers
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.ledger.walk import HeldUnits

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


MOST_STRETCHES: Final = 1000  # of one queue that are judged; more is one stretch to its end
NO_OFFSET: Final = -1


def sound_queues(inspection: Inspection, is_explained: Callable[[Numbers], Mask]) -> SoundQueues:
    """Begin to compare the short queues of a store with its log, by columns.

    Args:
        inspection: of the store.
        is_explained: tells which physical offsets a finding about the log explains.
    """

    def name_of(topic: bytes) -> bytes | None:
        text = topic_text(topic)
        is_there = inspection.scope.placement.in_files(text)
        return name_in_files(text) if is_there else None

    return SoundQueues(inspection.units_held(), name_of, is_explained)


def log_bounds(inspection: Inspection, facts: LogFacts) -> LogBounds:
    """Say where the log begins and ends, once it was read."""
    return LogBounds(facts.start, facts.end, inspection.store.commitlog.file_length)


class QueueComparer(StretchJudge[QueueState]):
    """Words what is wrong with queues, and judges them when all runs have been taken."""

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        super().__init__(inspection, facts, queue_facts)
        self._tags = TagJudge(inspection, facts.lost)
        self.walk = QueueWalk(
            self._new_state,
            lambda state, run: state.placement.place(run),
            self._tags.extension,
            sound_queues(inspection, self._is_explained),
            inspection.store.geometry.consume_queue.value,
            facts.lost,
        )

    def _is_explained(self, offsets: Numbers) -> Mask:
        """Tell which records are lost, or lie elsewhere than they say: bool, shape (n,)."""
        if self._facts.moved:
            return np.ones(len(offsets), np.bool_)
        return self._facts.lost.mask(offsets)

    def _new_state(self, topic: bytes, queue_id: int, seen: SoundSoFar | None) -> QueueState | None:
        """Begin a queue; None for one that is not compared here, or was not asked for."""
        name = (topic_text(topic), queue_id)
        inspection = self._inspection
        if inspection.options.topic not in {None, name[0]} or not self._is_here(name[0]):
            return None
        state = self._opened(name)
        if inspection.account.unread or state.files.oddities:
            state.unread += (*self._unread_units(state),)
        if seen is not None:
            state.placement.resume(seen)
        return state

    def _is_here(self, topic: str) -> bool:
        return self._inspection.scope.placement.in_files(topic)

    def _opened(self, name: QueueName) -> QueueState:
        units = self._inspection.queue("queues", name)
        return QueueState(units, Numbering(units, self._facts.is_moved))

    def _unread_units(self, state: QueueState) -> Iterator[tuple[int, int]]:
        """Yield which units of a queue cannot be read, as far as its listing tells."""
        if self._inspection.is_below_unread(state.path):
            yield 0, EVERYTHING
        else:
            yield from self._inspection.name_unread(state.units.unread())

    def _of_numbers(self, state: QueueState, numbers: WrongNumbers) -> Iterator[Finding]:
        """Say that records have a wrong queue offset, or that their units lie elsewhere."""
        turn, number, stated, records, physical_offset, _ = numbers
        if turn is Turn.SHIFT:
            yield self._of_shifted(state, numbers)
            return
        if turn is Turn.RESTART:
            message = f"queueOffset of topic {state.topic} queue {state.queue_id} goes back"
            state.wrong.clear()
        else:
            message = not_the_next(records, state.topic, state.queue_id)
        if stated > number:
            code = CL_QOFF_GAP
        elif turn is Turn.RESTART or stated < state.placement.first:
            code = CL_QOFF_BACK
        else:
            code = CL_QOFF_DUP
        at = self._record_at(state, physical_offset, stated)
        yield finding(code, at, message, expected=number, actual=stated)
        if turn is Turn.JUMP:
            state.wrong = [span for span in state.wrong if span[0] < stated]
            state.mark_wrong(number, number + 1, physical_offset)

    def _of_shifted(self, state: QueueState, numbers: WrongNumbers) -> Finding:
        delta = numbers.queue_offset - numbers.number
        shifted = finding(
            CQ_SHIFT,
            at_unit(state.units, numbers.number, None, numbers.physical_offset),
            f"from here on units are {abs(delta)} {'before' if delta > 0 else 'behind'} "
            "the queue offsets of their records",
            expected=f"queue offset {numbers.queue_offset}",
            actual=f"queue offset {numbers.number}",
        )
        hidden = min(-delta, numbers.number - state.placement.first)
        return rebuild_hides(shifted, hidden) if hidden > 0 else shifted

    def _record_at(self, state: QueueState, physical_offset: int, queue_offset: int) -> At:
        place = self._facts.moved.get(physical_offset, physical_offset)
        return self._inspection.at_record(place, (state.topic, state.queue_id, queue_offset))

    def _differ(self, state: QueueState, held: HeldUnits) -> Iterator[Finding]:
        """Note which units are not as wanted; tags codes can be judged at once."""
        yield from self._tags.judge(state, held)
        offsets, moved = held.wanted["physical_offset"], self._facts.moved
        is_other = held.wrong & ~held.alike
        # What is said of a record that lies elsewhere than it says covers its unit, too.
        for row in np.flatnonzero(is_other).tolist() if moved else ():
            there = int(held.there["physical_offset"][row])
            is_other[row] = moved.get(int(offsets[row]), NO_OFFSET) != there
        for low, high in stretches(is_other):
            if len(state.wrong) >= MOST_STRETCHES:
                state.wrong[-1][1] = held.first + high
            else:
                state.mark_wrong(held.first + low, held.first + high, int(offsets[low]))

    @grouped
    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge what the log did not ask for, and what it asked for in vain."""
        inspection, walk = self._inspection, self.walk
        yield from self.take(walk.rest())
        judge = UnitJudge(inspection, self._facts, log)
        tails = Tails(inspection, self._queue_facts, log)
        lost = self._facts.lost
        remains = walk.finish(
            log_bounds(inspection, self._facts),
            lambda units: lost.mask(units["physical_offset"].astype(np.int64)),
        )
        self._queue_facts.whole.append(remains.whole)
        judge.expired += remains.expired
        if (family := inspection.queues.files.family) is not None:
            paths = (family.numbered(*name).path for name in remains.expired_queues)
            judge.expired_queues.update(paths)
        for state in sorted(walk.queues.values(), key=lambda state: (state.topic, state.queue_id)):
            try:
                yield from self._finish(state, judge, tails)
            except UnreadablePath as error:
                yield from self._unread(state, error)
        for name in walk.without(inspection.units("queues")):
            state = self._opened(name)
            try:
                yield from judge.uncovered(state, 0, None, is_first=True)
                yield from empty_files(inspection, state.units, 0)
            except UnreadablePath as error:
                yield from self._unread(state, error)
        yield from inspection.pending()
        if judge.expired and not inspection.scope.taken_over:
            queues = judge.expired_queues
            amount = counted(judge.expired, "unit")
            message = f"{amount} of {counted(len(queues), 'queue')} for expired messages"
            yield finding(CQ_EXPIRED, At(min(queues)), message)
        yield from tails.findings()
        self._tags.close()

    def _finish(self, state: QueueState, judge: UnitJudge, tails: Tails) -> Iterator[Finding]:
        placement = state.placement
        for numbers in placement.finish():
            yield from self._of_numbers(state, numbers)
        self._queue_facts.wanted[state.topic, state.queue_id] = placement.next
        if not state.units.is_there:
            if state.unread:
                return
            is_expected = tails.add(state, placement.first, placement.first_physical_offset)
            for gap in placement.breaks if is_expected else ():
                yield from self._of_break(state, gap, judge)
            return
        if not judge.is_led(state):
            yield from judge.uncovered(state, 0, placement.first, is_first=True)
        for gap in placement.breaks:
            yield from self._of_break(state, gap, judge)
        yield from judge.uncovered(state, placement.next, None)
        yield from empty_files(self._inspection, state.units, placement.next)
        for start, end, physical_offset in state.wrong:
            if end == placement.next and not any(True for _ in state.units.used(start)):
                tails.add(state, start, physical_offset)
            else:
                yield from judge.wrong(state, start, end)

    def _of_break(self, state: QueueState, gap: Break, judge: UnitJudge) -> Iterator[Finding]:
        """Explain queue offsets that no record has: lost, or never to be dispatched, or missing."""
        findings = judge.uncovered(state, gap.start, gap.end)
        # By the unit of the record after a gap, repair passes over the messages that are lost.
        others = [finding for finding in findings if finding.physical_offset != gap.after]
        yield from others
        is_lost = self._facts.lost.between(gap.before, gap.after)
        if is_lost or any(other.code == CQ_EXTRA for other in others):
            return
        if self._facts.has_bridges(gap.before, gap.after) or self._is_moved(state, gap):
            return
        count, queue = gap.end - gap.start, f"topic {state.topic} queue {state.queue_id}"
        is_passed = self._is_passed(state, gap, judge)
        yield finding(
            CL_QOFF_GAP,
            self._record_at(state, gap.after, gap.start),
            f"{counted(count, 'queue offset')} of {queue} {'has' if count == 1 else 'have'} no "
            f"record{'; brokers skip their units' if is_passed else ''}",
            expected=gap.start,
            actual=gap.end,
            severity=Severity.NOTE if is_passed else None,
        )

    def _is_passed(self, state: QueueState, gap: Break, judge: UnitJudge) -> bool:
        """Tell whether all units of a gap are those that a rebuild puts there."""
        count = 0
        for _, units in state.units.used(gap.start, gap.end):
            if not judge.pass_over(units).all():
                return False
            count += len(units)
        return count == gap.end - gap.start

    def _is_moved(self, state: QueueState, gap: Break) -> bool:
        """Tell whether units of a gap are those of records that do not lie where they say."""
        if not self._facts.moved:
            return False
        units = state.units.read(gap.start, min(gap.end - gap.start, MOST_STRETCHES))
        return any(map(self._facts.is_moved, units["physical_offset"].tolist()))


class UnreadQueues(QueueComparer):
    """Says which queue offsets do not follow, of queues in a database that tells of none.

    They are rebuilt from the log, which alone tells what they should hold.
    """

    def _is_here(self, topic: str) -> bool:
        return self._inspection.scope.placement.in_rocksdb(topic)

    def _note_compared(self) -> None:
        """Take note of nothing: no unit was read."""

    def _opened(self, name: QueueName) -> QueueState:
        units = self._inspection.queues.missing(ArtefactKind.CONSUME_QUEUE, name)
        return UnreadQueue(units, Numbering(units, self._facts.is_moved))

    @grouped
    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge queue offsets that no record has."""
        yield from self.take(self.walk.rest())
        judge = UnitJudge(self._inspection, self._facts, log)
        for _, state in sorted(self.walk.queues.items()):
            for numbers in state.placement.finish():
                yield from self._of_numbers(state, numbers)
            for gap in state.placement.breaks:
                yield from self._of_break(state, gap, judge)


# Judge units that differ from the wanted ones in nothing but their tags code: CQ-TAG, CQ-EXTADDR.
#
# See ConsumeQueue#putMessagePositionInfoWrapper, ConsumeQueueExt#get, 4.9.3 to 5.5.0.


class TagJudge:
    """Judges tags codes: hashes, delivery times, and addresses of the extension."""

    def __init__(self, inspection: Inspection, lost: LostRanges) -> None:
        self._inspection, self._lost = inspection, lost
        self._ext: dict[tuple[str, int], ExtUnits | None] = {}
        self._unread: set[tuple[str, int]] = set()
        store = inspection.store
        self._log = LogReader(store.old_commitlog, store.commitlog)

    def close(self) -> None:
        """Close the files of the log."""
        self._log.__exit__()

    def judge(self, state: QueueState, held: HeldUnits) -> Iterator[Finding]:
        """Judge the units that lead to the right records."""
        rows = np.flatnonzero(held.alike & (held.wanted["tags_code"] != held.there["tags_code"]))
        if not rows.size:
            return
        stored = held.there["tags_code"][rows].astype(np.int64)
        computed = held.wanted["tags_code"][rows].astype(np.int64)
        offsets = held.wanted["physical_offset"][rows].astype(np.int64)
        is_address, wrong = stored <= LARGEST_ADDRESS, held.wrong[rows]
        if self._is_unread(state):
            wrong &= ~is_address
        lost = self._lost.mask(offsets)
        self._lost.count_units(offsets[lost])
        for number in np.flatnonzero(wrong & ~lost).tolist():
            place = held.first + int(rows[number])
            at = at_unit(state.units, place, UNIT, int(offsets[number]))
            expected, actual = int(computed[number]), int(stored[number])
            difference = ADDRESS if is_address[number] else by_fields(["tags_code"])
            yield finding(difference.code, at, expected=expected, actual=actual)
        if self._inspection.options.level.is_deep:
            right = np.flatnonzero(~wrong & ~lost)
            numbers = held.first + rows[right]
            yield from self._times(state, numbers, stored[right], offsets[right])

    def extension(self, state: QueueState) -> ExtUnits | None:
        """Give the extension of a queue; None where it has none, or it cannot be read."""
        try:
            return self._ext_units(state)
        except UnreadablePath as error:
            path = self._inspection.path_of(error.path)
            if not self._inspection.is_known_unread(path):
                queue = (state.topic, state.queue_id)
                self._inspection.postpone(self._inspection.unread(path, error, queue))
            self._ext[state.topic, state.queue_id] = None
            self._unread.add((state.topic, state.queue_id))
            return None

    def _is_unread(self, state: QueueState) -> bool:
        """Tell whether nothing can be said of the addresses of a queue."""
        path = f"consumequeue_ext/{state.topic}/{state.queue_id}"
        return (state.topic, state.queue_id) in self._unread or self._inspection.is_below_unread(
            path
        )

    def _ext_units(self, state: QueueState) -> ExtUnits | None:
        """Give the extension of a queue; None when it has none."""
        name = (state.topic, state.queue_id)
        if name not in self._ext:
            queue = self._inspection.family("ext_queues").get(name)
            files = self._inspection.files_of(queue) if queue else None
            if files is not None and self._inspection.name_unread(unread_stretches(files)):
                self._unread.add(name)
                files = None
            self._ext[name] = ExtUnits.of(files) if files else None
        return self._ext[name]

    def _times(
        self, state: QueueState, numbers: Numbers, addresses: Numbers, offsets: Numbers
    ) -> Iterator[Finding]:
        """Compare the store times of extension units with those of the records."""
        ext = self._ext.get((state.topic, state.queue_id))
        if ext is None or not numbers.size:
            return
        times = ext.times_at(addresses).tolist()
        units = zip(numbers.tolist(), offsets.tolist(), times, strict=True)
        for number, offset, time in units:
            try:
                head = self._log.head_at(offset)
            except UnreadablePath:
                continue  # the log's own check says so
            if head is not None and head.store_timestamp != time:
                message = "the extension unit does not have the store time of the record"
                at = at_unit(state.units, number, UNIT, offset)
                yield finding(CQ_EXTADDR, at, message, expected=head.store_timestamp, actual=time)
