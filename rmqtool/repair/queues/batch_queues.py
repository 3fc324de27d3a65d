"""Compare batch queues with what the repaired log dispatches.

Units of a batch queue follow each other in the order of the log, and are found by the queue offset
in them. A hole in these stops consumers for good, so the unit of a lost record keeps its place and
its range of queue offsets, and names the record of the next sound unit, at the end of the queue of
the one before: its messages are delivered twice. Source: BatchConsumeQueue#recover,
#searchOffsetFromFiles, 5.0.0 to 5.5.0; observed, 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_raw, topic_text
from rmqtool.errors import UnreadablePath
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, MOST_MESSAGES
from rmqtool.ledger.numbering import PlacedUnits, end_of, with_right_numbers
from rmqtool.ledger.walk import HeldUnits, QueueWalk, WalkedQueue
from rmqtool.store.record_heads import HEAD_BYTES, head_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.ledger.walk import Stretch
    from rmqtool.repair.log.stretches import Damaged
    from rmqtool.repair.queues.unit_judge import LostUnits

UNIT: Final = BATCH_CQ_UNIT.size
MOST_LOST: Final = 1 << 30  # messages between two records of a queue


@dataclass(slots=True)
class RepairedBatchQueue(WalkedQueue):
    """One batch queue while it is compared."""

    end: int = 0  # number after the last unit that the log wants
    # (number of the first unit, bytes) of what differs
    patches: list[tuple[int, bytes]] = field(default_factory=list)
    time: int = 0  # store time of the last unit, ms
    next_base: int = -1  # queue offset after the last unit; -1 before the first
    last: bytes = b""  # the last unit

    def put(self, wanted: bytes) -> PlacedUnits:
        """Place units after the last one."""
        start, self.end = self.end, self.end + len(wanted) // UNIT
        return PlacedUnits(start, wanted, self.time)


class BatchRepair:
    """All batch queues of a store.

    Attributes:
        walk: takes the runs of the log; `keep` what it gives.
        queues: what each should hold, once `finish` was called.
        tail_end: after the last record in the log's tail that a queue knows; 0 for none.
        kept: physical offsets of records that no longer ask for the unit that delivers them.

    Args:
        inspection: of the store.
        facts: of its log.
        judge: knows what is damaged of the log.
    """

    def __init__(self, inspection: Inspection, facts: LogFacts, judge: LostUnits) -> None:
        self.walk = QueueWalk(self._begin, self._place)
        self.queues = self.walk.queues
        self.tail_end = 0
        self.kept: set[int] = set()
        self._inspection, self._facts, self._judge = inspection, facts, judge
        length = inspection.store.geometry.batch_queue.value
        self.file_length = length // UNIT * UNIT

    def keep(self, stretches: Iterable[tuple[RepairedBatchQueue, Stretch]]) -> None:
        """Keep what differs. Raises UnreadablePath: a queue cannot be read."""
        for queue, stretch in stretches:
            if isinstance(stretch, UnreadablePath):
                raise stretch
            if isinstance(stretch, HeldUnits):
                queue.patches.append((stretch.first, stretch.wanted.tobytes()))

    def _place(self, queue: RepairedBatchQueue, run: QueueRun) -> Iterator[PlacedUnits]:
        """Place the units of a run, and before them those that stand for lost ones."""
        stated = np.frombuffer(run.units, BATCH_CQ_UNIT.dtype)
        units, _ = with_right_numbers(stated, queue.next_base)
        ends = units["msg_base_offset"] + units["batch_size"]
        breaks = np.flatnonzero(units["msg_base_offset"][1:] != ends[:-1]) + 1
        for part in np.split(units, breaks):
            if self._is_there(queue, part):
                continue
            yield from self._fill(queue, part[0])
            yield queue.put(part.tobytes())
            queue.next_base = end_of(part[-1])
            queue.last = part[-1].tobytes()
        queue.time = run.store_timestamp

    def _is_there(self, queue: RepairedBatchQueue, part: npt.NDArray[np.void]) -> bool:
        """Pass over units whose numbers follow on disk, though not in their records.

        Then a record's number is damaged, and its unit is right.
        """
        if queue.next_base in {-1, int(part["msg_base_offset"][0])}:
            return False
        there = queue.units.read(queue.end, len(part))
        ends = there["msg_base_offset"] + there["batch_size"]
        starts = [queue.next_base, *ends[:-1].tolist()]
        is_same = (there["physical_offset"] == part["physical_offset"]).all()
        if not is_same or there["msg_base_offset"].tolist() != starts:
            return False
        queue.end += len(part)
        queue.next_base, queue.last = int(ends[-1]), there[-1].tobytes()
        return True

    def _fill(self, queue: RepairedBatchQueue, following: np.void) -> Iterator[PlacedUnits]:
        """Let units that name the next record stand for lost ones, each with its own range."""
        base = int(following["msg_base_offset"])
        while (lost := self._lost(queue, base)) is not None:
            if not self._is_sound(lost):
                yield queue.put(_standing_for(lost, following))
            else:
                queue.end += 1  # a flipped transaction bit, for one: it still delivers
                self.kept.add(int(lost["physical_offset"]))
            queue.next_base = int(lost["msg_base_offset"] + lost["batch_size"])
        if base - queue.next_base > MOST_LOST:
            return  # of a damaged number: it would be filled without end
        while 0 <= queue.next_base < base:
            count = min(base - queue.next_base, MOST_MESSAGES)
            lost = following.copy()
            lost["msg_base_offset"], lost["batch_size"] = queue.next_base, count
            yield queue.put(lost.tobytes())
            queue.next_base += count

    def _lost(self, queue: RepairedBatchQueue, limit: int) -> np.void | None:
        """Give the unit on disk that is next, if it is that of a lost record, or stands for one."""
        unit: np.void = queue.units.read(queue.end, 1)[0]
        base, count = int(unit["msg_base_offset"]), int(unit["batch_size"])
        is_next = (
            queue.next_base in {-1, base} and count > 0 and base >= 0 and base + count <= limit
        )
        is_lost = self._is_lost(unit)
        is_known = is_lost or bool(self._facts.bridges) or self._is_sound(unit)
        return unit if is_next and is_known else None

    def _is_lost(self, unit: np.void) -> bool:
        """Tell whether a unit points into a damaged stretch, or under a blank that covers it."""
        place = int(unit["physical_offset"]), int(unit["size"])
        return self._judge.damaged_at(*place) is not None

    def _is_sound(self, unit: np.void) -> bool:
        """Tell whether a unit names a sound record of its own queue offset."""
        offset = int(unit["physical_offset"])
        if self._is_lost(unit):
            return False
        raw = self._inspection.store.commitlog.read_at(offset, HEAD_BYTES)
        head = head_of(raw, 0, offset)
        own = (int(unit["size"]), int(unit["msg_base_offset"]))
        return head is not None and (head.size, head.queue_offset) == own

    def keeps(self, defect: Finding) -> bool:
        """Tell whether a finding is about units that stay, as they deliver what no record asks."""
        return defect.position is not None and defect.physical_offset in self.kept

    def finish(self, tail: Damaged | None) -> None:
        """Keep the ranges of lost records at the end; cut what else stands there.

        Args:
            tail: stretch at the end of the log that holds no record; None for none.
        """
        for queue in self.queues.values():
            while queue.last and (lost := self._lost(queue, 1 << 62)) is not None:
                offset = int(lost["physical_offset"])
                is_tail = tail is not None and tail.start <= offset < tail.end
                if is_tail and self._inspection.scope.has_crashed:
                    break
                last = np.frombuffer(queue.last, BATCH_CQ_UNIT.dtype)[0]
                is_repeat = offset == int(last["physical_offset"])
                if not (self._is_lost(lost) or is_tail or is_repeat):
                    break
                if is_tail:
                    self.tail_end = max(self.tail_end, offset + int(lost["size"]))
                self.keep(self.walk.held(queue, queue.put(_standing_for(lost, last))))
                queue.next_base = int(lost["msg_base_offset"] + lost["batch_size"])
            self._cut(queue)
        is_known = self._facts.last_record >= 0  # a log without any may be elsewhere
        names = self._inspection.units("batch_queues") if is_known else ()
        for name in self.walk.without(names):
            with suppress(UnreadablePath):  # it stays as it is
                queue = RepairedBatchQueue(self._inspection.queue("batch_queues", name))
                queue.end = self._end_of_known(queue)
                self._cut(queue)
                self.queues[topic_raw(name[0]), name[1]] = queue

    def _end_of_known(self, queue: RepairedBatchQueue) -> int:
        """Give the number after the last unit whose record has expired, or is there.

        What follows delivers nothing, or what lies where its record was: without it the queue goes
        on with the number of the first message that is lost.
        """
        end, start = 0, self._inspection.store.commitlog.start
        for number, units in queue.units.used():
            offsets = units["physical_offset"].astype(np.int64)
            is_kept = (units["size"] > 0) & (offsets >= 0) & (offsets < start)
            for row in np.flatnonzero(
                (offsets >= start) & (offsets < self._judge.log_end)
            ).tolist():
                if self._is_sound(units[row]):
                    is_kept[row] = True
                    self.kept.add(int(offsets[row]))
            rows = np.flatnonzero(is_kept)
            end = number + int(rows[-1]) + 1 if rows.size else end
        return end

    def _cut(self, queue: RepairedBatchQueue) -> None:
        """Zero what stands after the last unit, what is left of a unit included."""
        for segment in queue.files:
            torn = segment.end // UNIT
            if segment.size % UNIT and torn >= queue.end:
                queue.patches.append((torn, bytes(UNIT)))
        for number, units in queue.units.used(queue.end):
            queue.patches.append((number, bytes(len(units.tobytes().rstrip(b"\0")))))

    def _begin(self, name: bytes, queue_id: int, _: SoundSoFar | None) -> RepairedBatchQueue:
        """Begin a queue with the first unit that has not expired."""
        units = self._inspection.queue("batch_queues", (topic_text(name), queue_id))
        first, log_start = units.files.start // UNIT, self._inspection.store.commitlog.start
        for number, used in units.used(first):
            alive = np.flatnonzero((used["size"] <= 0) | (used["physical_offset"] >= log_start))
            if number != first or alive.size:
                first += int(alive[0]) if number == first else 0
                break
            first += len(used)
        return RepairedBatchQueue(units, end=first)


def _standing_for(lost: np.void, sound: np.void) -> bytes:
    """Give a unit that names the record of a sound one, with the queue offsets of a lost one."""
    unit = sound.copy()
    for name in ("msg_base_offset", "batch_size"):
        unit[name] = lost[name]
    return unit.tobytes()
