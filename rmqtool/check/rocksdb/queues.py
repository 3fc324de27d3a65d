"""Compare dispatch runs with consume queues in RocksDB, unit by unit: RQ-RANGE, RQ-UNIT.

Every unit below CHECKPOINT must be there, and nothing else but units of expired messages and those
that a truncation has left. The rows of `max`, `min` and CHECKPOINT are judged in `queue_ends`.
Source: RocksDBConsumeQueueStore, 5.2.0 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import is_deleted, topic_text
from rmqtool.check.queues.queue_state import not_the_next
from rmqtool.check.queues.ranges import WholeQueues
from rmqtool.check.rocksdb.unit_tables import UnitTables
from rmqtool.derive.run_pool import RunPool
from rmqtool.errors import DamagedDatabase, DecodeError
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_rocksdb import RQ_RANGE, RQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import (
    CQ_KEY_HEAD,
    CQ_KEY_TAIL,
    ROCKSDB_CQ_UNIT,
    queue_offset_of,
    unit_row,
)
from rmqtool.ledger.differences import difference_of, point_alike, wrong_units
from rmqtool.ledger.sound import SoundRocksQueues
from rmqtool.machine import arrays
from rmqtool.queues.kinds import as_units
from rmqtool.queues.rocks import RocksQueue
from rmqtool.queues.short_rocks import short_rocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.check.rocksdb.databases import Databases
    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.queues.short_rocks import RocksShortQueues
    from rmqtool.store.rocksdb_frames import RowBatch

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


VALUE: Final = ROCKSDB_CQ_UNIT.size
KEY_BYTES: Final = CQ_KEY_HEAD.size + CQ_KEY_TAIL.size  # of a key, without the topic
SHORT_RUN: Final = 1 << 16  # bytes; a block of a table has as many as a part of the log, or more
MOST_DOUBTFUL: Final = 1000  # records that may have a wrong queue offset
MOST_STRETCHES: Final = 100  # of one run that are told one by one


@dataclass(slots=True)
class QueueSeen:
    """What is known of one queue, once the log was read."""

    queue: RocksQueue  # where its units are
    # stretches of numbers that the log implies below CHECKPOINT, in order
    covered: list[tuple[int, int]] = field(default_factory=list)
    # physical offset and number of the last unit that the log implies; None without
    last: tuple[int, int] | None = None
    first_alive: int = -1  # number of the first one; -1 without
    # units that the log implies of a queue whose topic has none, and is not configured
    absent: int = 0
    absent_newest: int = -1  # physical offset of the last of their records

    def cover(self, begin: int, end: int) -> None:
        """Take note of numbers that the log implies."""
        if self.covered and self.covered[-1][1] == begin:
            self.covered[-1] = (self.covered[-1][0], end)
        else:
            self.covered.append((begin, end))

    def imply(self, begin: int, end: int, physical_offset: int) -> None:
        """Take note of what a run implies; its last record lies at an offset."""
        self.first_alive = begin if self.first_alive < 0 else min(self.first_alive, begin)
        self.cover(begin, end)
        self.last = max(self.last or (-1, -1), (physical_offset, end - 1))

    @property
    def name(self) -> str:
        """Topic and queue, as a finding says it."""
        return f"topic {self.queue.topic}, queue {self.queue.queue_id}"


class Doubtful(NamedTuple):
    """A record alone, and what would be said of its unit if the record had the right number."""

    seen: QueueSeen  # the queue that it names
    number: int  # queue offset that it states
    physical_offset: int  # where it lies
    findings: list[Finding]


@dataclass(slots=True)
class Dispatch:
    """How far the log goes, and how far the database."""

    checkpoint: int  # end of the last dispatched record, as the database says; 0 without the row
    end: int = 0  # of the last record that is dispatched to any queue
    late: int = 0  # units that the log implies past the checkpoint
    is_record_end: bool = False  # a record ends at the checkpoint


class RocksComparer:
    """Takes the runs of the log in order.

    Attributes:
        seen: what was found of each queue.
        dispatch: how far the log and the database go.
        databases: says what cannot be read.
        nowhere: units of light queues that neither store keeps, by queue.
    """

    def __init__(
        self,
        inspection: Inspection,
        databases: Databases,
        source: RocksQueues,
        queue_facts: QueueFacts,
    ) -> None:
        self._inspection, self.databases, self.source = inspection, databases, source
        self._queue_facts = queue_facts
        self.seen: dict[tuple[bytes, int], QueueSeen] = {}
        self.dispatch = Dispatch(source.dispatched or 0)
        self._pool = RunPool(0, SHORT_RUN)
        self._kept_topics: dict[bytes, bool] = {}
        self._short, self._sound_units = self._short_queues(), 0
        self._sound = (
            SoundRocksQueues(self._short, self.keeps, self._is_late) if self._short else None
        )
        self._tables = UnitTables.of(source.database)
        self._odd: list[tuple[bytes, bytes]] = []
        self._doubtful: list[Doubtful] = []
        self.nowhere: dict[str, int] = {}
        self._left: frozenset[str] | None = None  # topics that have a queue here

    def take(self, runs: QueueRuns) -> Iterator[Finding]:
        """Take the runs of one part of the log."""
        self._note(runs)
        left = runs
        if self._sound is not None:
            left = self._sound.take(runs)
            self._inspection.account.units += self._sound.units - self._sound_units
            self._sound_units = self._sound.units
        for queue_runs in self._pool.add(left):
            yield from self._compare(queue_runs)

    def rest(self) -> Iterator[Finding]:
        """Compare the runs that wait, when all have been taken."""
        for queue_runs in self._pool.rest():
            yield from self._compare(queue_runs)

    def close(self) -> None:
        """Close the table files."""
        if self._tables is not None:
            self._tables.close()

    def queue_of(self, topic: bytes, queue_id: int) -> QueueSeen:
        """Give what is known of a queue."""
        name = (topic, queue_id)
        if name not in self.seen:
            ends = self.source.ends.of(name)
            seen = self.seen[name] = QueueSeen(RocksQueue(self.source.database, *name, ends))
            if self._sound and (sound := self._sound.seen_of(topic, queue_id)) is not None:
                seen.cover(sound.first, sound.next)
                seen.first_alive = sound.first
                seen.last = (sound.last_physical_offset, sound.next - 1)
                self._want(seen, sound.next)
        return self.seen[name]

    def whole(self, oldest: int) -> Mask:
        """Tell of which queues nothing is to be said: units and ends are as the log wants.

        Args:
            oldest: first physical offset that the log has.

        Returns:
            bool, shape (names,): by the rows of the source's names.
        """
        names = self.source.names
        if self._short is None or self._sound is None:
            return np.zeros(len(names), np.bool_)
        exact = self._sound.exact()
        spans = np.full((3, len(names)), -1, np.int64)
        rows = self._short.rows.of_names[exact.rows]
        spans[:, rows] = exact.first, exact.next, exact.last_physical_offset
        first, after, last_place = spans
        is_whole = self.source.ends.columns(names).whole(first, after - 1, last_place, oldest)
        is_whole &= after > 0
        self._queue_facts.whole.append(WholeQueues(self.source, is_whole, first, after))
        return is_whole

    def _is_late(self, offsets: Int64s) -> Mask:
        """Tell which records the database need not have yet: bool, shape (n,)."""
        return offsets >= self.dispatch.checkpoint

    def _short_queues(self) -> RocksShortQueues | None:
        """Give what is compared by columns; None where one topic is looked at alone."""
        try:
            return short_rocks(self.source) if self._inspection.options.topic is None else None
        except DamagedDatabase:  # who looks at each queue says so
            return None

    def _note(self, runs: QueueRuns) -> None:
        """Take note of how far the log is dispatched."""
        units = runs.units.reshape(-1).view(CQ_UNIT.dtype)
        ends = units["physical_offset"].astype(np.int64) + units["size"]
        dispatch, kept = self.dispatch, np.repeat(self._kept(runs), runs.count)
        dispatch.end = max(dispatch.end, int(ends[kept].max(initial=0)))
        dispatch.is_record_end |= bool((ends == dispatch.checkpoint).any())

    def _compare(self, runs: QueueRuns) -> Iterator[Finding]:
        topic = self._inspection.options.topic
        units = runs.units.reshape(-1).view(CQ_UNIT.dtype)
        offsets = units["physical_offset"].astype(np.int64)
        kept = self._kept(runs)
        dispatched = np.append(0, np.cumsum(offsets < self.dispatch.checkpoint))
        dues = (dispatched[runs.first + runs.count] - dispatched[runs.first]).tolist()
        for run, due, first, is_kept in zip(
            runs, dues, runs.first.tolist(), kept.tolist(), strict=True
        ):
            if not is_kept:
                self._leave_out(run)
                continue
            seen = self.queue_of(run.topic, run.queue_id)
            if topic in {None, seen.queue.topic}:
                try:
                    yield from self._run(seen, run, offsets[first : first + due])
                except DamagedDatabase as error:
                    yield from self.databases.cannot_read(self.source.path, error)

    def keeps(self, topic: bytes) -> bool:
        """Tell whether the queues of a topic are to be in the database."""
        if topic not in self._kept_topics:
            placement = self._inspection.scope.placement
            self._kept_topics[topic] = placement.in_rocksdb(topic_text(topic))
        return self._kept_topics[topic]

    def _kept(self, runs: QueueRuns) -> Mask:
        """Tell of each run whether it is to be in the database."""
        kept = np.array([self.keeps(topic) for topic, _ in runs.queues], np.bool_)
        return kept[runs.queue] if len(runs) else np.zeros(0, np.bool_)

    def _leave_out(self, run: QueueRun) -> None:
        """Count the units of a light queue that is to be in neither store."""
        topic = topic_text(run.topic)
        if self._inspection.scope.placement.nowhere(topic):
            ends = self.source.ends.of((run.topic, run.queue_id))
            lacking = run.queue_offset + run.count - max(ends.next_offset, run.queue_offset)
            if lacking > 0:
                self.nowhere[topic] = self.nowhere.get(topic, 0) + lacking

    def _run(self, seen: QueueSeen, run: QueueRun, offsets: Int64s) -> Iterator[Finding]:
        due = len(offsets)  # they ascend: those are the first ones
        self.dispatch.late += run.count - due
        if not due:
            self._want(seen, run.queue_offset + run.count)
            return
        if self._is_absent(seen):
            self._want(seen, run.queue_offset + run.count)
            seen.absent += due
            seen.absent_newest = int(offsets[due - 1])
            return
        self._inspection.account.units += due
        begin, end = run.queue_offset, run.queue_offset + due
        try:
            if self._tables is None or not self._tables.confirm(run, due):
                bad, findings = self._judge(seen, run, due)
                if self._is_doubtful(bad, due):
                    row = int(bad[0])
                    record = (begin + row, int(offsets[row]))
                    self._doubtful.append(Doubtful(seen, *record, findings))
                    begin, end = (begin, end - 1) if row else (begin + 1, end)
                else:
                    yield from findings
        finally:  # also where the units cannot be read: the log wants them all the same
            if begin < end:
                self._want(seen, end if due == run.count else run.queue_offset + run.count)
                seen.imply(begin, end, int(offsets[end - 1 - run.queue_offset]))

    def _is_doubtful(self, bad: Int64s, due: int) -> bool:
        """Tell whether one unit at either end of a run is wrong: a wrong number breaks runs."""
        return len(bad) == 1 and bad[0] in {0, due - 1} and len(self._doubtful) < MOST_DOUBTFUL

    def misnumbered(self) -> Iterator[Finding]:
        """Tell records that have a wrong queue offset, or queue, from units that are wrong.

        The unit that a broker wrote for such a record, before it was damaged, leads to it still.
        """
        units: dict[int, tuple[QueueSeen, int]] = {}
        try:
            units = self._unclaimed({doubt.physical_offset for doubt in self._doubtful})
        except DamagedDatabase as error:
            yield from self.databases.cannot_read(self.source.path, error)
        for doubt in self._doubtful:
            own = units.get(doubt.physical_offset)
            number, place = doubt.number, doubt.physical_offset
            if own is not None:
                seen, actual = own
                self._want(seen, actual + 1)
                seen.imply(actual, actual + 1, place)
                yield self._of_record(doubt, seen, actual)
            elif any(begin <= number < end for begin, end in doubt.seen.covered):
                yield self._of_record(doubt, doubt.seen, None)  # another record has this unit
            else:
                self._want(doubt.seen, number + 1)
                doubt.seen.imply(number, number + 1, place)
                yield from doubt.findings

    def _unclaimed(self, places: set[int]) -> dict[int, tuple[QueueSeen, int]]:
        """Find the units of some records among those that no record asks for: queue and number.

        Those of the topics that the records name are looked through, but for queues that hold what
        the log wants and nothing else.

        Raises:
            DamagedDatabase: not all units can be read.
        """
        units: dict[int, tuple[QueueSeen, int]] = {}
        wanted = np.array(sorted(places), np.int64)
        exact = {*self._sound.exact().rows.tolist()} if self._sound and places else set()
        for topic in {doubt.seen.queue.topic_bytes: None for doubt in self._doubtful}:
            for name in self.source.names.of_topic(topic):
                if self._short is not None and self._short.rows.get(name) in exact:
                    continue
                seen = self.queue_of(*name)
                for numbers, offsets in self.uncovered(seen):
                    for row in np.flatnonzero(np.isin(offsets, wanted)).tolist():
                        units[int(offsets[row])] = seen, int(numbers[row])
        return units

    def _of_record(self, doubt: Doubtful, seen: QueueSeen, number: int | None) -> Finding:
        """Say that a record has a wrong queue offset, or names a wrong queue."""
        place, stated, queue = doubt.physical_offset, doubt.number, seen.queue
        segment = self._inspection.segment_at(place)
        path, position = (segment.path, place - segment.start) if segment else ("commitlog", None)
        at = At(path, position, None, place, queue.topic, queue.queue_id, stated)
        expected = "" if number is None else str(number)
        if seen is not doubt.seen:
            named = doubt.seen.queue.queue_id
            message = f"{seen.name}: the record of queue offset {number} names queue {named}"
            actual = f"queue {named}"
            at = at._replace(queue_offset=number)
            return finding(CL_QOFF_DUP, at, message, expected=expected, actual=actual)
        is_later = number is not None and stated > number
        is_before = stated < seen.first_alive
        return finding(
            CL_QOFF_GAP if is_later else CL_QOFF_BACK if is_before else CL_QOFF_DUP,
            at,
            not_the_next(1, queue.topic, queue.queue_id),
            expected=expected,
            actual=stated,
        )

    def _want(self, seen: QueueSeen, after: int) -> None:
        """Note how far the log wants a queue."""
        name, wanted = (seen.queue.topic, seen.queue.queue_id), self._queue_facts.wanted
        wanted[name] = max(after, wanted.get(name, 0))

    def _is_absent(self, seen: QueueSeen) -> bool:
        """Tell whether a topic has no queue in the database, and need not have one.

        Raises:
            DamagedDatabase: the queues of the database cannot be listed.
        """
        configured = self._inspection.topics
        if configured is None or seen.queue.ends.maximum is not None:
            return False
        if self._left is None:
            self._left = frozenset(self.source.topics())
        return is_deleted(seen.queue.topic, configured, self._left)

    def _judge(self, seen: QueueSeen, run: QueueRun, due: int) -> tuple[Int64s, list[Finding]]:
        """Compare the first units of a run with what the library reads.

        Returns:
            Which are missing or wrong: int64, shape (n,); none where one of them leads to its
            record all the same. What is to be said.
        """
        begin = run.queue_offset
        on_disk, there = np.zeros((due, VALUE), np.uint8), np.zeros(due, np.bool_)
        for numbers, values in self._read(seen, begin, begin + due):
            on_disk[numbers - begin], there[numbers - begin] = values, True
        rows = np.frombuffer(run.units, np.uint8).reshape(-1, CQ_UNIT_SIZE)[:due]
        wrong = there & (on_disk[:, :CQ_UNIT_SIZE] != rows).any(axis=1)
        want, have = (as_units(some[wrong, :CQ_UNIT_SIZE].tobytes()) for some in (rows, on_disk))
        are_wrong, leads = wrong_units(seen.queue.topic, want, have), point_alike(want, have)
        wrong[wrong] = are_wrong
        times = ROCKSDB_CQ_UNIT["store_timestamp"].column(on_disk)
        moved = there & ~wrong & (times != run.times[:due])
        findings = [
            *self._missing(seen, begin, ~there),
            *self._wrong(seen, begin, wrong, rows, on_disk),
            *self._wrong_times(seen, begin, moved, run, times),
        ]
        astray = np.flatnonzero(~there | wrong)
        return astray[:0] if (are_wrong & leads).any() else astray, findings

    def _read(
        self, seen: QueueSeen, begin: int, end: int | None
    ) -> Iterator[tuple[Int64s, npt.NDArray[np.uint8]]]:
        """Yield numbers and values of the units that are there; odd rows are kept for later.

        Raises:
            DamagedDatabase: not all of them can be read.
        """
        length = len(seen.queue.topic_bytes) + KEY_BYTES
        for batch in seen.queue.batches(begin, end):
            numbers, values = numbered(batch, length)
            if len(numbers) != len(batch):
                self._odd += [pair for pair in batch.items() if not _is_unit(*pair, length)]
            yield numbers, values

    def odd_rows(self, others: list[tuple[bytes, bytes]]) -> Iterator[Finding]:
        """Yield the rows among the units of queues, and others, that are none: RD-KEY."""
        for key, value in [*self._odd, *others]:
            try:
                unit_row(key, value)
            except DecodeError as error:
                yield self.databases.odd_row(self.source.path, DEFAULT, key, error)

    def _missing(self, seen: QueueSeen, begin: int, missing: Mask) -> Iterator[Finding]:
        for first, count in stretches(missing):
            yield missing_units(seen, begin + first, count)

    def _wrong(
        self,
        seen: QueueSeen,
        begin: int,
        wrong: Mask,
        rows: npt.NDArray[np.uint8],
        on_disk: npt.NDArray[np.uint8],
    ) -> Iterator[Finding]:
        for first, count in stretches(wrong):
            want = as_units(rows[first : first + count].tobytes())
            have = as_units(on_disk[first : first + count, :CQ_UNIT_SIZE].tobytes())
            wanted = CQ_UNIT.parse(rows[first].tobytes())
            message = f"{seen.name}: not as in the commitlog: {units_of(begin + first, count)}"
            yield finding(
                difference_of(want, have).rocksdb_code,
                At(seen.queue.path, physical_offset=wanted["physical_offset"]),
                message,
                expected=_worded(wanted),
                actual=_worded(CQ_UNIT.parse(on_disk[first, :CQ_UNIT_SIZE].tobytes())),
            )

    def _wrong_times(
        self, seen: QueueSeen, begin: int, wrong: Mask, run: QueueRun, times: Int64s
    ) -> Iterator[Finding]:
        """Say where units have another store time than their records; RocksDB finds them by it."""
        for first, count in stretches(wrong):
            unit = CQ_UNIT.parse(bytes(run.units[first * CQ_UNIT_SIZE :][:CQ_UNIT_SIZE]))
            yield finding(
                RQ_UNIT,
                At(seen.queue.path, physical_offset=unit["physical_offset"]),
                f"{seen.name}: another store time: {units_of(begin + first, count)}",
                expected=int(run.times[first]),
                actual=int(times[first]),
            )

    def uncovered(self, seen: QueueSeen) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield numbers and physical offsets of the units that the log does not imply.

        Raises:
            DamagedDatabase: not all of them can be read.
        """
        begin = 0
        for first, end in [*sorted(seen.covered), (None, None)]:
            if first is None or first > begin:
                for numbers, values in self._read(seen, begin, first):
                    yield numbers, ROCKSDB_CQ_UNIT["physical_offset"].column(values)
            begin = max(begin, end or 0)


def numbered(batch: RowBatch, key_length: int) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """Give the numbers and values of rows of one queue; rows of no known shape are left out.

    Args:
        batch: the rows.
        key_length: bytes of a key of this queue.

    Returns:
        Numbers: int64, shape (n,). Values: uint8, shape (n, 28).
    """
    if {*batch.key_lengths} == {key_length} and {*batch.value_lengths} == {VALUE}:
        keys = np.frombuffer(batch.joined_keys, np.uint8).reshape(-1, key_length)
        numbers = CQ_KEY_TAIL["queue_offset"].column(keys[:, -CQ_KEY_TAIL.size :])
        return numbers, np.frombuffer(batch.joined_values, np.uint8).reshape(-1, VALUE)
    rows = [
        (queue_offset_of(key), value)
        for key, value in batch.items()
        if _is_unit(key, value, key_length)
    ]
    values = np.frombuffer(b"".join(value for _, value in rows), np.uint8).reshape(-1, VALUE)
    return np.array([number for number, _ in rows], np.int64), values


def _is_unit(key: bytes, value: bytes, key_length: int) -> bool:
    return len(key) == key_length and len(value) == VALUE


def missing_units(seen: QueueSeen, begin: int, count: int) -> Finding:
    """Say that units are missing."""
    message = f"{seen.name}: missing: {units_of(begin, count)}"
    return finding(RQ_RANGE, At(seen.queue.path), message, expected=count, actual=0)


def stretches(marked: Mask) -> Iterator[tuple[int, int]]:
    """Yield begin and length of the stretches that are marked; of too many the rest is one."""
    pairs = arrays.stretches(marked)
    for begin, end in pairs[:MOST_STRETCHES]:
        yield begin, end - begin
    if len(pairs) > MOST_STRETCHES:
        begin = pairs[MOST_STRETCHES][0]
        yield begin, int(marked[begin:].sum())


def units_of(begin: int, count: int) -> str:
    """Word a stretch of units."""
    if count == 1:
        return f"the unit of queue offset {begin}"
    return f"{count:,} units from queue offset {begin} on"


def _worded(unit: dict[str, int]) -> str:
    offset, size, tags_code = unit.values()
    return f"physical offset {offset}, size {size}, tags code {tags_code}"
