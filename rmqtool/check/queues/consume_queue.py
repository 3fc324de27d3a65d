"""Compare dispatch runs with the consume queues on disk: CQ-*, CL-QOFF-*.

A run is the very bytes that belong at `queue offset * 20`, so a sound queue is proven by comparing
memory. Only where bytes differ are units looked at one by one, and only after the whole log was
read: what a unit points to can be judged no earlier.
Source: ConsumeQueue#putMessagePositionInfo, #recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.check.observer import NONE_PROVEN
from rmqtool.check.queues.grouping import grouped
from rmqtool.check.queues.queue_state import (
    UNIT,
    Break,
    Outlier,
    QueueState,
    at_unit,
    not_the_next,
)
from rmqtool.check.queues.queue_tails import Tails
from rmqtool.check.queues.queue_units import UnitJudge
from rmqtool.derive.run_pool import RunPool
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
from rmqtool.formats.consume_queue import first_offset
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.ledger.differences import ADDRESS, by_fields, point_alike, tags_right
from rmqtool.ledger.extensions import ExtUnits
from rmqtool.ledger.sound import SoundQueues
from rmqtool.plural import counted
from rmqtool.queues.kinds import as_units
from rmqtool.store.record_heads import LogReader
from rmqtool.store.unread import unread_stretches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.check.observer import Proven
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.kinds import Units

    Numbers = npt.NDArray[np.int64]


MOST_STRETCHES: Final = 1000  # of one queue that are judged; more is one stretch to its end
NO_OFFSET: Final = -1
EVERYTHING: Final = 1 << 62


def sound_queues(inspection: Inspection) -> SoundQueues[str]:
    """Begin to compare the short queues of a store with its log, by columns."""

    def path_of(topic: bytes, queue_id: int) -> str | None:
        text, family = topic_text(topic), inspection.queues.files.family
        is_there = inspection.scope.placement.in_files(text) and (
            (text, queue_id) in inspection.units("queues")
        )
        return f"{family.path}/{text}/{queue_id}" if family and is_there else None

    return SoundQueues(inspection.short_queues(), path_of)


class QueueComparer:
    """Takes the runs of the log in order, and judges the queues when all have been taken."""

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        self._inspection, self._facts, self._queue_facts = inspection, facts, queue_facts
        self._states: dict[tuple[bytes, int], QueueState] = {}
        self._tags = TagJudge(inspection, facts.lost)
        self._seen: set[tuple[str, int]] = set()
        length = inspection.store.geometry.consume_queue.value
        self._pool = RunPool(length // UNIT)
        self._sound = sound_queues(inspection)
        self._proven_units = 0

    def take(self, runs: QueueRuns, proven: Proven = NONE_PROVEN) -> Iterator[Finding]:
        """Take the runs of one part, and compare them at once, or with those of later parts.

        Args:
            runs: of the part.
            proven: what somebody has compared already, and which is as the log wants it.
        """
        sound = self._sound
        left = sound.take(runs, self._is_explained)
        self._inspection.account.units += sound.units - self._proven_units
        self._inspection.account.bytes += (sound.units - self._proven_units) * UNIT
        self._proven_units = sound.units
        if sound.newest:
            self._queue_facts.note_newest(sound.newest)
        for ready in self._pool.add(left):
            yield from self._compare(ready, proven)

    def _is_explained(self, offsets: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which records are lost, or lie elsewhere than they say: bool, shape (n,)."""
        if self._facts.moved:
            return np.ones(len(offsets), np.bool_)
        return self._facts.lost.mask(offsets)

    @grouped
    def _compare(self, runs: QueueRuns, proven: Proven = NONE_PROVEN) -> Iterator[Finding]:
        topic = self._inspection.options.topic
        for run in self._without_lost(runs):
            if not self._inspection.scope.placement.in_files(topic_text(run.topic)):
                continue
            key = run.topic, run.queue_id
            state = self._states.get(key) or self._new_state(*key)
            if topic is not None and state.topic != topic:
                continue
            yield from self._take(state, run, proven)

    def _without_lost(self, runs: QueueRuns) -> Iterator[QueueRun]:
        """Leave out the units of records that a gap has taken with it."""
        lost = self._facts.lost
        for run in runs:
            if not len(lost) or not lost.between(
                run.first_physical_offset, run.last_physical_offset + 1
            ):
                yield run
                continue
            here = self._with_units(run)
            is_lost = lost.mask(as_units(here.units)["physical_offset"].astype(np.int64))
            yield from here.parts(~is_lost)

    def _with_units(self, run: QueueRun) -> QueueRun:
        """Give a run with the units that an executor has left out, as they lie in the queue."""
        if run.ends is None:
            return run
        queue = self._inspection.queue("queues", (topic_text(run.topic), run.queue_id))
        try:
            units = memoryview(queue.packed(run.queue_offset, run.count))
        except UnreadablePath:  # it could be read a moment ago
            units = memoryview(bytes(run.count * UNIT))
        return replace(run, units=units, ends=None)

    def _new_state(self, topic: bytes, queue_id: int) -> QueueState:
        name = (topic_text(topic), queue_id)
        state = QueueState(self._inspection.queue("queues", name))
        if self._inspection.account.unread or state.files.oddities:
            state.unread += self._unread_units(state)
        seen = self._sound.seen_of(topic, queue_id)
        if seen is not None:
            state.first, state.expected = seen.first, seen.next
            state.first_physical_offset = seen.first_physical_offset
            state.last_physical_offset = seen.last_physical_offset
        self._states[topic, queue_id] = state
        self._seen.add(name)
        return state

    def _unread_units(self, state: QueueState) -> Iterator[tuple[int, int]]:
        """Yield which units of a queue cannot be read, as far as its listing tells."""
        if self._inspection.is_below_unread(state.path):
            yield 0, EVERYTHING
        else:
            yield from self._inspection.name_unread(state.units.unread())

    def _unread(self, state: QueueState, error: UnreadablePath) -> Iterator[Finding]:
        """Say once that a file cannot be read; nothing is said of its units, the others go on."""
        path = self._inspection.path_of(error.path)
        bad = next((file for file in state.units.files if file.path == path), None)
        state.unread.append((bad.start // UNIT, bad.end // UNIT) if bad else (0, EVERYTHING))
        if not self._inspection.is_known_unread(path):
            yield self._inspection.unread(path, error, (state.topic, state.queue_id))

    def _on_disk(
        self, state: QueueState, start: int, wanted: bytes
    ) -> Generator[Finding, None, bytes]:
        """Read units; those that cannot be read are taken for what they should be."""
        count = len(wanted) // UNIT
        if state.unread and state.assume(start, wanted, b"\0" * len(wanted)) == wanted:
            return wanted
        try:
            on_disk = state.units.packed(start, count)
        except UnreadablePath as error:
            yield from self._unread(state, error)
            return wanted
        return state.assume(start, wanted, on_disk) if state.unread else on_disk

    def _wanted(self, state: QueueState, run: QueueRun) -> Generator[Finding, None, bytes]:
        """Give the units of a run, from the queue where an executor has left them out."""
        if run.ends is None:
            return bytes(run.units)
        try:
            return state.units.packed(run.queue_offset, run.count)
        except UnreadablePath as error:  # it could be read a moment ago
            yield from self._unread(state, error)
            return bytes(run.count * UNIT)

    def _take(self, state: QueueState, run: QueueRun, proven: Proven) -> Iterator[Finding]:
        """Compare one run with the queue, where its units should be."""
        first = run.first_physical_offset
        if self._facts.moved and run.count == 1 and self._facts.is_moved(first):
            return  # it may stand anywhere in the log; its own finding says so
        if state.expected < 0:
            state.first = state.expected = run.queue_offset
            state.first_physical_offset = first
        if run.queue_offset - state.delta != state.expected:
            yield from self._turn(state, run, first)
        elif state.outlier is not None:
            yield from self._resumed(state)
        start = state.expected
        wanted = on_disk = b""
        if run.ends is None or start != run.queue_offset:
            wanted = yield from self._wanted(state, run)
            is_proven = (run.topic, run.queue_id, start, run.count) in proven
            on_disk = wanted if is_proven else (yield from self._on_disk(state, start, wanted))
        state.expected += run.count
        state.last_physical_offset = run.last_physical_offset
        if on_disk == wanted:
            self._queue_facts.note_newest(state.last_physical_offset)
        else:
            yield from self._differ(state, start, wanted, on_disk)
        self._inspection.account.units += run.count
        self._inspection.account.bytes += run.count * UNIT

    def _turn(self, state: QueueState, run: QueueRun, first: int) -> Iterator[Finding]:
        """Find out what to make of queue offsets that do not follow.

        The queue on disk was written when the records were sound, so it decides whether the
        record's field is wrong, or records are missing, or the numbering began anew.
        """
        outlier = state.outlier
        if outlier is not None:
            delta = outlier.queue_offset - outlier.number
            if run.queue_offset - delta == state.expected:
                yield self._of_shifted(state, outlier, delta)
                state.delta, state.outlier = delta, None
                return
            yield from self._resumed(state)
        is_right = self._points_to(state, run.queue_offset, first)
        if not is_right and self._points_to(state, state.expected, first):
            state.outlier = Outlier(state.expected, run.queue_offset, run.count, first)
            return
        number = run.queue_offset
        state.delta = 0
        if number > state.expected:
            before = state.last_physical_offset
            state.breaks.append(Break(state.expected, number, before, first))
        elif (
            number < state.expected and state.breaks and state.breaks[-1].is_left_by(state, number)
        ):
            yield from self._come_back(state)
        elif number < state.expected:
            yield self._of_restart(state, number, first)
            state.first = number
            state.wrong.clear()
            state.breaks.clear()
        state.expected = number

    def _come_back(self, state: QueueState) -> Iterator[Finding]:
        """Blame the one record that jumped, and has no unit: the next goes on where it began."""
        jump = state.breaks.pop()
        state.wrong = [span for span in state.wrong if span[0] < jump.end]
        state.outlier = Outlier(jump.start, jump.end, 1, jump.after)
        yield from self._resumed(state)
        state.mark_wrong(jump.start, jump.start + 1, jump.after)

    def _points_to(self, state: QueueState, number: int, physical_offset: int) -> bool:
        try:
            raw = state.units.packed(number, 1)
        except UnreadablePath:
            return False
        return first_offset(raw) == physical_offset

    def _resumed(self, state: QueueState) -> Iterator[Finding]:
        """Say that records have a wrong queue offset: the ones after them go on without."""
        outlier, state.outlier = state.outlier, None
        if outlier is None:
            return
        if outlier.queue_offset > outlier.number:
            code = CL_QOFF_GAP
        else:
            code = CL_QOFF_DUP if outlier.queue_offset >= state.first else CL_QOFF_BACK
        yield finding(
            code,
            self._record_at(state, outlier.physical_offset, outlier.queue_offset),
            not_the_next(outlier.records, state.topic, state.queue_id),
            expected=outlier.number,
            actual=outlier.queue_offset,
        )

    def _of_shifted(self, state: QueueState, outlier: Outlier, delta: int) -> Finding:
        shifted = finding(
            CQ_SHIFT,
            at_unit(state.units, outlier.number, None, outlier.physical_offset),
            f"from here on units are {abs(delta)} {'before' if delta > 0 else 'behind'} "
            "the queue offsets of their records",
            expected=f"queue offset {outlier.queue_offset}",
            actual=f"queue offset {outlier.number}",
        )
        hidden = min(outlier.number - outlier.queue_offset, outlier.number - state.first)
        return rebuild_hides(shifted, hidden) if hidden > 0 else shifted

    def _of_restart(self, state: QueueState, number: int, physical_offset: int) -> Finding:
        return finding(
            CL_QOFF_BACK,
            self._record_at(state, physical_offset, number),
            f"queueOffset of topic {state.topic} queue {state.queue_id} goes back",
            expected=state.expected,
            actual=number,
        )

    def _record_at(self, state: QueueState, physical_offset: int, queue_offset: int) -> At:
        place = self._facts.moved.get(physical_offset, physical_offset)
        segment = self._inspection.segment_at(place)
        queue = (state.topic, state.queue_id, queue_offset)
        if segment is None:
            return At("commitlog", None, None, place, *queue)
        return At(segment.path, place - segment.start, None, place, *queue)

    def _differ(
        self, state: QueueState, start: int, wanted: bytes, on_disk: bytes
    ) -> Iterator[Finding]:
        """Note which units are not as wanted; tags codes can be judged at once."""
        want, have = as_units(wanted), as_units(on_disk)
        is_same = want == have
        only_tags = ~is_same & point_alike(want, have)
        if only_tags.any():
            yield from self._tags.judge(state, start, (np.flatnonzero(only_tags), want, have))
        other = np.flatnonzero(~is_same & ~only_tags)
        offsets = want["physical_offset"]
        if self._facts.moved and other.size:
            other = self._without_moved(other, offsets, have["physical_offset"])
        good = np.flatnonzero(is_same | only_tags)
        if good.size:
            self._queue_facts.note_newest(int(offsets[good[-1]]))
        if not other.size:
            return
        for stretch in np.split(other, np.flatnonzero(np.diff(other) != 1) + 1):
            low, high = int(stretch[0]), int(stretch[-1]) + 1
            if len(state.wrong) >= MOST_STRETCHES:
                state.wrong[-1][1] = start + high
            else:
                state.mark_wrong(start + low, start + high, int(offsets[low]))

    def _without_moved(
        self,
        rows: npt.NDArray[np.int64],
        wanted: npt.NDArray[np.int64],
        on_disk: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Leave out units of records that say they lie elsewhere: the log's finding says so."""
        moved = self._facts.moved
        kept = [
            row
            for row in rows.tolist()
            if moved.get(int(wanted[row]), NO_OFFSET) != int(on_disk[row])
        ]
        return np.array(kept, np.int64)

    @grouped
    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge what the log did not ask for, and what it asked for in vain."""
        for runs in self._pool.rest():
            yield from self._compare(runs)
        judge = UnitJudge(self._inspection, self._facts, log)
        tails = Tails(self._inspection, self._queue_facts, log)
        self._finish_sound(judge)
        for state in sorted(self._states.values(), key=lambda state: (state.topic, state.queue_id)):
            topic = self._inspection.options.topic
            if topic is not None and state.topic != topic:
                continue
            try:
                yield from self._finish(state, judge, tails)
            except UnreadablePath as error:
                yield from self._unread(state, error)
        for name in self._inspection.units("queues"):
            if name not in self._seen:
                state = QueueState(self._inspection.queue("queues", name))
                try:
                    yield from judge.uncovered(state, 0, None, is_first=True)
                except UnreadablePath as error:
                    yield from self._unread(state, error)
        yield from self._inspection.pending()
        if judge.expired and not self._inspection.scope.taken_over:
            queues = judge.expired_queues
            message = f"{judge.expired:,} units of {len(queues):,} queues point to expired messages"
            yield finding(CQ_EXPIRED, At(min(queues)), message)
        yield from tails.findings()
        self._tags.close()

    def _finish_sound(self, judge: UnitJudge) -> None:
        """Take note of the queues that are as the log wants them, and leave the rest to be judged.

        Args:
            judge: of units that no record asks for.
        """

        def is_other(units: Units) -> npt.NDArray[np.bool_]:
            places = units["physical_offset"].astype(np.int64)
            mask = judge.pass_over(units) | self._facts.lost.mask(places)
            mask |= places + units["size"] > self._facts.end
            return mask

        remains = self._sound.rest(self._facts.start, is_other)
        self._queue_facts.whole.append(remains.whole)
        self._seen.update(remains.whole)
        judge.expired += remains.expired
        judge.expired_queues |= remains.expired_paths
        for key in remains.others:
            self._new_state(*key)

    def _finish(self, state: QueueState, judge: UnitJudge, tails: Tails) -> Iterator[Finding]:
        yield from self._resumed(state)
        self._queue_facts.wanted[state.topic, state.queue_id] = state.expected
        if not state.units.is_there:
            if state.unread:
                return
            is_expected = tails.add(state, state.first, state.first_physical_offset)
            for gap in state.breaks if is_expected else ():
                yield from self._of_break(state, gap, judge)
            return
        yield from judge.uncovered(state, 0, state.first, is_first=True)
        for gap in state.breaks:
            yield from self._of_break(state, gap, judge)
        yield from judge.uncovered(state, state.expected, None)
        for start, end, physical_offset in state.wrong:
            if end == state.expected and not any(True for _ in state.units.used(start)):
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

    def judge(
        self,
        state: QueueState,
        start: int,
        units: tuple[Numbers, npt.NDArray[np.void], npt.NDArray[np.void]],
    ) -> Iterator[Finding]:
        """Judge some units of a run.

        Args:
            state: of the queue.
            start: number of the first unit of the run.
            units: rows to be judged; units as wanted; units as they are.
        """
        rows, want, have = units
        stored = have["tags_code"][rows].astype(np.int64)
        computed = want["tags_code"][rows].astype(np.int64)
        offsets = want["physical_offset"][rows].astype(np.int64)
        is_address = stored <= LARGEST_ADDRESS
        extension = (yield from self._extension(state)) if is_address.any() else None
        wrong = ~tags_right(state.topic, computed, stored, extension)
        if self._is_unread(state):
            wrong &= ~is_address
        lost = self._lost.mask(offsets)
        self._lost.count_units(offsets[lost])
        for number in np.flatnonzero(wrong & ~lost).tolist():
            place = start + int(rows[number])
            at = at_unit(state.units, place, UNIT, int(offsets[number]))
            expected, actual = int(computed[number]), int(stored[number])
            difference = ADDRESS if is_address[number] else by_fields(["tags_code"])
            yield finding(difference.code, at, expected=expected, actual=actual)
        if self._inspection.options.level.is_deep:
            right = np.flatnonzero(~wrong & ~lost)
            numbers = start + rows[right]
            yield from self._times(state, numbers, stored[right], offsets[right])

    def _extension(self, state: QueueState) -> Generator[Finding, None, ExtUnits | None]:
        """Give the extension of a queue; None where it has none, or it cannot be read."""
        try:
            return self._ext_units(state)
        except UnreadablePath as error:
            path = self._inspection.path_of(error.path)
            if not self._inspection.is_known_unread(path):
                yield self._inspection.unread(path, error, (state.topic, state.queue_id))
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
