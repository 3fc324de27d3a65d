"""Walk along the log, and hold its runs against consume queues in RocksDB, unit by unit.

Every unit below CHECKPOINT must be there, with the store time of its record. Most are proven by
columns, or from the table files; what comes out is what differs.
Source: RocksDBConsumeQueueStore, 5.2.0 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.broker.names import is_deleted, topic_text
from rmqtool.derive.run_pool import RunPool
from rmqtool.errors import DamagedDatabase
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import (
    CQ_KEY_HEAD,
    CQ_KEY_TAIL,
    ROCKSDB_CQ_UNIT,
    queue_offset_of,
)
from rmqtool.ledger.sound import SoundQueues, UnitsHeld
from rmqtool.ledger.walk import HeldUnits
from rmqtool.queues.kinds import as_units
from rmqtool.queues.rocks import RocksQueue
from rmqtool.queues.short_rocks import short_rocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.derive.placement import QueuePlacement
    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.queues.short import ShortQueues
    from rmqtool.store.rocksdb_frames import RowBatch

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


VALUE: Final = ROCKSDB_CQ_UNIT.size
KEY_BYTES: Final = CQ_KEY_HEAD.size + CQ_KEY_TAIL.size  # of a key, without the topic
SHORT_RUN: Final = 1 << 16  # bytes; a block of a table has as many as a part of the log, or more


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


@dataclass(slots=True)
class Dispatch:
    """How far the log goes, and how far the database."""

    checkpoint: int  # end of the last dispatched record, as the database says; 0 without the row
    end: int = 0  # of the last record that is dispatched to any queue
    late: int = 0  # units that the log implies past the checkpoint
    is_record_end: bool = False  # a record ends at the checkpoint


@dataclass(slots=True)
class HeldRows:
    """Units of one queue in a row, as the log wants them and as the library reads them."""

    units: HeldUnits  # zeros for those that are missing
    is_there: Mask  # bool, shape (n,): which are not missing
    wanted_times: Int64s  # int64, shape (n,): store times of their records, ms
    times: Int64s  # int64, shape (n,): store times that they have, ms
    # whether nothing is to be said of the unit at `lone` yet: another one may be its record's
    is_doubtful: bool = False

    @property
    def wrong(self) -> Mask:
        """Which are there and wrong: bool, shape (n,)."""
        return self.units.wrong & self.is_there

    @property
    def lone(self) -> int:
        """Which one alone is missing or wrong, at either end: a wrong number breaks runs.

        -1 for none, and where one leads to its record all the same.
        """
        bad = np.flatnonzero(~self.is_there | self.wrong)
        is_lone = len(bad) == 1 and bad[0] in {0, len(self.is_there) - 1}
        return int(bad[0]) if is_lone and not (self.wrong & self.units.alike).any() else -1


RocksStretch: TypeAlias = HeldRows | DamagedDatabase


@dataclass(slots=True)
class RocksWalk:
    """Takes the runs of the log in order."""

    source: RocksQueues  # the queues
    placement: QueuePlacement  # which queues are to be in the database
    # says, at no cost, whether the first units of a run are all as they should be
    confirm: Callable[[QueueRun, int], bool]
    topic: str | None  # the only one that is compared; None is all
    configured: frozenset[str] | None  # the topics of the broker; None where nothing tells
    wanted: dict[tuple[str, int], int]  # how far the log wants each queue; to be added to
    dispatch: Dispatch = field(init=False)  # how far the log and the database go
    sound: SoundQueues | None = None  # compares short queues by columns
    short: ShortQueues | None = None  # what these hold; None where one topic is compared
    seen: dict[tuple[bytes, int], QueueSeen] = field(default_factory=dict)  # the other queues
    # units of light queues that neither store keeps, by queue
    nowhere: dict[str, int] = field(default_factory=dict)
    units: int = 0  # how many were compared
    odd: list[tuple[bytes, bytes]] = field(default_factory=list)  # rows that are no units
    _pool: RunPool = field(default_factory=partial(RunPool, 0, SHORT_RUN))
    _kept_topics: dict[bytes, bool] = field(default_factory=dict)
    _left: frozenset[str] | None = None  # topics that have a queue here

    def __post_init__(self) -> None:
        self.dispatch = Dispatch(self.source.dispatched or 0)
        with suppress(DamagedDatabase):  # who looks at each queue says so
            self.short = short_rocks(self.source) if self.topic is None else None
        if self.short is not None:
            self.sound = SoundQueues(UnitsHeld(self.short), self._name_of, self._is_late)

    def take(self, runs: QueueRuns) -> Iterator[tuple[QueueSeen, RocksStretch]]:
        """Take the runs of one part of the log."""
        self._note(runs)
        left = runs
        if self.sound is not None:
            before, left = self.sound.units, self.sound.take(runs)
            self.units += self.sound.units - before
        for queue_runs in self._pool.add(left):
            yield from self._compare(queue_runs)

    def rest(self) -> Iterator[tuple[QueueSeen, RocksStretch]]:
        """Compare the runs that wait, when all have been taken."""
        for queue_runs in self._pool.rest():
            yield from self._compare(queue_runs)

    def queue_of(self, topic: bytes, queue_id: int) -> QueueSeen:
        """Give what is known of a queue."""
        name = (topic, queue_id)
        if name not in self.seen:
            ends = self.source.ends.of(name)
            seen = self.seen[name] = QueueSeen(RocksQueue(self.source.database, *name, ends))
            if self.sound and (sound := self.sound.seen_of(topic, queue_id)) is not None:
                seen.cover(sound.first, sound.next)
                seen.first_alive = sound.first
                seen.last = (sound.last_physical_offset, sound.next - 1)
                self.want(seen, sound.next)
        return self.seen[name]

    def _is_late(self, offsets: Int64s) -> Mask:
        """Tell which records the database need not have yet: bool, shape (n,)."""
        return offsets >= self.dispatch.checkpoint

    def _note(self, runs: QueueRuns) -> None:
        """Take note of how far the log is dispatched."""
        units = runs.units.reshape(-1).view(CQ_UNIT.dtype)
        ends = units["physical_offset"].astype(np.int64) + units["size"]
        dispatch, kept = self.dispatch, np.repeat(self._kept(runs), runs.count)
        dispatch.end = max(dispatch.end, int(ends[kept].max(initial=0)))
        dispatch.is_record_end |= bool((ends == dispatch.checkpoint).any())

    def _compare(self, runs: QueueRuns) -> Iterator[tuple[QueueSeen, RocksStretch]]:
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
            if self.topic in {None, seen.queue.topic}:
                try:
                    for held in self._run(seen, run, offsets[first : first + due]):
                        yield seen, held
                except DamagedDatabase as error:
                    yield seen, error

    def keeps(self, topic: bytes) -> bool:
        """Tell whether the queues of a topic are to be in the database."""
        if topic not in self._kept_topics:
            self._kept_topics[topic] = self.placement.in_rocksdb(topic_text(topic))
        return self._kept_topics[topic]

    def _name_of(self, topic: bytes) -> bytes | None:
        return topic if self.keeps(topic) else None

    def _kept(self, runs: QueueRuns) -> Mask:
        """Tell of each run whether it is to be in the database."""
        kept = np.array([*map(self.keeps, runs.queues.topics)], np.bool_)
        return kept[runs.queues.topic[runs.queue]] if len(runs) else np.zeros(0, np.bool_)

    def _leave_out(self, run: QueueRun) -> None:
        """Count the units of a light queue that is to be in neither store."""
        topic = topic_text(run.topic)
        if self.placement.nowhere(topic):
            ends = self.source.ends.of((run.topic, run.queue_id))
            lacking = run.queue_offset + run.count - max(ends.next_offset, run.queue_offset)
            if lacking > 0:
                self.nowhere[topic] = self.nowhere.get(topic, 0) + lacking

    def _run(self, seen: QueueSeen, run: QueueRun, offsets: Int64s) -> Iterator[HeldRows]:
        due = len(offsets)  # they ascend: those are the first ones
        self.dispatch.late += run.count - due
        if not due:
            self.want(seen, run.queue_offset + run.count)
            return
        if self._is_absent(seen):
            self.want(seen, run.queue_offset + run.count)
            seen.absent += due
            seen.absent_newest = int(offsets[due - 1])
            return
        self.units += due
        begin, end = run.queue_offset, run.queue_offset + due
        try:
            if not self.confirm(run, due):
                held = self._held(seen, run, due)
                yield held
                if held.is_doubtful:
                    begin, end = (begin, end - 1) if held.lone else (begin + 1, end)
        finally:  # also where the units cannot be read: the log wants them all the same
            if begin < end:
                self.want(seen, end if due == run.count else run.queue_offset + run.count)
                seen.imply(begin, end, int(offsets[end - 1 - run.queue_offset]))

    def _held(self, seen: QueueSeen, run: QueueRun, due: int) -> HeldRows:
        """Hold the first units of a run against what the library reads."""
        begin = run.queue_offset
        on_disk, there = np.zeros((due, VALUE), np.uint8), np.zeros(due, np.bool_)
        for numbers, values in self._read(seen, begin, begin + due):
            on_disk[numbers - begin], there[numbers - begin] = values, True
        want = as_units(run.units)[:due]
        have = as_units(on_disk[:, :CQ_UNIT_SIZE].tobytes())
        units = HeldUnits.of(seen.queue.topic, begin, want, have)
        times = ROCKSDB_CQ_UNIT["store_timestamp"].column(on_disk)
        return HeldRows(units, there, run.times[:due], times)

    def want(self, seen: QueueSeen, after: int) -> None:
        """Note how far the log wants a queue."""
        name = (seen.queue.topic, seen.queue.queue_id)
        self.wanted[name] = max(after, self.wanted.get(name, 0))

    def _is_absent(self, seen: QueueSeen) -> bool:
        """Tell whether a topic has no queue in the database, and need not have one.

        Raises:
            DamagedDatabase: the queues of the database cannot be listed.
        """
        configured = self.configured
        if configured is None or seen.queue.ends.maximum is not None:
            return False
        if self._left is None:
            self._left = frozenset(self.source.topics())
        return is_deleted(seen.queue.topic, configured, self._left)

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
                self.odd += [pair for pair in batch.items() if not _is_unit(*pair, length)]
            yield numbers, values

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
