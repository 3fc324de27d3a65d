"""Collect the dispatch runs of one part of a commitlog, batch after batch."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import DispatchThrows
from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.derive import kernels
from rmqtool.derive.queue_runs import QueueRuns, RunQueues
from rmqtool.derive.runs import IndexRun, Runs, Stretch
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, INVALID_POS
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.formats.java import text
from rmqtool.formats.properties import decode
from rmqtool.machine.arrays import order_of
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.broker.dispatch import DispatchRules, QueuePlace
    from rmqtool.scan.batch import Batch

    Unit = tuple[tuple[bytes, int], int, int, bytes]  # queue, offset, store timestamp, packed


FIRST_QUEUES: Final = 1 << 10


class QueueTable:
    """Queues as small numbers, in the order of their first unit.

    Attributes:
        slots: int64, shape (power of two,); number of a queue, -1 where empty.
        facts: int64, shape (QUEUE_FACTS, slots / 2).
        count: int64, shape (1,); queues.
    """

    __slots__ = ("count", "facts", "slots")

    def __init__(self) -> None:
        self.slots = np.full(FIRST_QUEUES, -1, np.int64)
        self.facts = np.zeros((kernels.QUEUE_FACTS, FIRST_QUEUES // 2), np.int64)
        self.count = np.zeros(1, np.int64)

    @property
    def state(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Give the arrays in the order in which kernels take them."""
        return self.slots, self.facts, self.count

    def grow(self) -> None:
        """Make room for twice as many queues."""
        self.slots = np.full(2 * self.slots.size, -1, np.int64)
        self.facts = np.concatenate([self.facts, np.zeros_like(self.facts)], axis=1)
        kernels.place_queues(self.slots, self.facts, int(self.count[0]))


class RunCollector:
    """Collects what the batches of one scan dispatch. Belongs to one thread."""

    def __init__(
        self,
        rules: DispatchRules,
        *,
        queues: bool = True,
        index: bool = True,
        run_units: int = 0,
        times: bool = False,
    ) -> None:
        """Begin with nothing.

        Args:
            rules: of the broker.
            queues: collect queue runs.
            index: collect index runs; the scan must collect keys.
            run_units: runs are cut where a consume queue file of so many units ends; 0 for nowhere.
            times: give the store time of each unit of a consume queue.
        """
        self._rules, self._with_queues, self._with_index = rules, queues, index
        self._run_units, self._with_times = run_units, times
        self._levels = np.array(rules.delay_levels_ms, np.int64)
        self._kinds = np.zeros(0, np.int64)
        self._may_multi: list[bool] = []
        self._table = QueueTable()
        self._scratch = Scratch.take()
        self._units = self._entries = 0
        self._destinations = np.zeros(0, np.int64)
        self._light = RareUnits(QueueKind.CONSUME_QUEUE)
        self._batched = RareUnits(QueueKind.BATCH_QUEUE)
        self._undispatched: list[int] = []
        self._stretches: list[Stretch] = []
        self._topics: list[bytes] = []
        self._first: int | None = None
        self._end = self._records = 0
        self._last = (-1, -1)

    def add(self, batch: Batch) -> None:
        """Take the next batch of the scan."""
        if self._first is None:
            self._first = batch.position
        self._end = batch.end
        if batch.kind is not Extent.RECORD:
            self._stretches.append(Stretch(batch.kind, batch.position, batch.length, batch.code))
            return
        self._records += batch.count
        last = batch.count - 1
        self._last = (
            int(batch.matrix[row.PHYSICAL_OFFSET_FIELD, last]),
            int(batch.matrix[row.STORE_TIMESTAMP, last]),
        )
        self._know_topics(batch)
        if self._destinations.size < batch.matrix.shape[1]:
            self._destinations = np.zeros(batch.matrix.shape[1], np.int64)
        self._dispatch(batch)
        if self._with_index:
            self._index(batch)

    def _know_topics(self, batch: Batch) -> None:
        """Say once of each topic what its records are."""
        for number in range(len(self._topics), len(batch.topics)):
            topic = batch.topics[number]
            self._topics.append(topic)
            self._may_multi.append(self._rules.multi_dispatches(text(topic)))
        if self._kinds.size < len(self._topics):
            known = self._topics[self._kinds.size :]
            more = np.array([self._kind(text(topic)) for topic in known], np.int64)
            self._kinds = np.concatenate([self._kinds, more])

    def _kind(self, topic: str) -> int:
        kind = kernels.SCHEDULE if topic == SCHEDULE_TOPIC else 0
        kind |= kernels.DELIVER_TIME if self._rules.has_deliver_time(topic) else 0
        if self._rules.release.reads_batch_numbers:
            kind |= kernels.BATCH_NUMBERS
        has_batch_queue = self._rules.has_batch_queue(topic)
        if has_batch_queue is None:
            return kind | kernels.BATCH_IF_INNER
        return kind | kernels.BATCH if has_batch_queue else kind

    def _dispatch(self, batch: Batch) -> None:
        """Pack the units of a batch."""
        scratch = self._scratch
        scratch.make_room_for_units(self._units, batch.count)
        done, highest = 0, kernels.DISPATCHED
        while True:
            done, why, self._units, highest = kernels.dispatch(
                batch.matrix,
                (done, batch.count, self._units, highest),
                (self._kinds, self._levels),
                self._table.state,
                (scratch.packed, scratch.facts),
                self._destinations,
            )
            if why == kernels.DONE:
                break
            self._table.grow()
        if highest >= kernels.TO_BATCH:
            self._treat_rare(batch)
        if self._rules.multi_dispatch and self._with_queues:
            self._dispatch_to_light_queues(batch)

    def _treat_rare(self, batch: Batch) -> None:
        """Treat the records of a batch that go elsewhere, or nowhere.

        Java reads numbers in digits of any script, and the smallest one, too: so records that the
        kernels refuse are looked at again.
        """
        destinations = self._destinations[: batch.count]
        for number in np.flatnonzero(destinations >= kernels.TO_BATCH).tolist():
            record = RowRecord(batch, number)
            if destinations[number] == kernels.NOWHERE:
                if self._rules.is_refused(record.topic, record.properties):
                    self._undispatched.append(int(batch.columns[row.PHYSICAL_OFFSET, number]))
                    continue
                destinations[number] = kernels.INDEX_ONLY
            for kind, unit in units(record, self._rules):
                (self._batched if kind is QueueKind.BATCH_QUEUE else self._light).add(*unit)

    def _dispatch_to_light_queues(self, batch: Batch) -> None:
        """Add the units of the light queues that records name."""
        marked = batch.columns[row.MARKS] & row.MARK_MULTI_DISPATCH != 0
        marked &= self._destinations[: batch.count] == kernels.DISPATCHED
        for number in np.flatnonzero(marked).tolist():
            if self._may_multi[int(batch.matrix[row.TOPIC_NUMBER, number])]:
                for unit in light_units(RowRecord(batch, number), self._rules):
                    self._light.add(*unit)

    def _index(self, batch: Batch) -> None:
        """Append the index entries of a batch."""
        scratch = self._scratch
        scratch.make_room_for_entries(self._entries, batch.key_count)
        self._entries = kernels.index_entries(
            batch.matrix,
            batch.key_matrix,
            (batch.key_count, self._entries),
            self._destinations,
            (scratch.hashes, scratch.places),
        )

    def finish(self, end: int) -> Runs:
        """Give all runs; nothing can be added any more.

        Args:
            end: position after the part, for one in which nothing begins.
        """
        runs = Runs(
            first=self._first,
            end=end if self._first is None else self._end,
            records=self._records,
            queues=self._queue_runs(),
            batch_queues=self._batched.runs(),
            index=self._index_run(),
            stretches=tuple(self._stretches),
            undispatched=tuple(self._undispatched),
            last_physical_offset=self._last[0],
            last_store_timestamp=self._last[1],
        )
        self._scratch.give_back()
        del self._scratch
        return runs

    def _index_run(self) -> IndexRun:
        return IndexRun(*self._scratch.hand_over_entries(self._entries))

    def _queue_runs(self) -> QueueRuns:
        """Sort units by queue and cut them into runs."""
        table, run_units = self._table, self._run_units
        light = self._light.runs(run_units, times=self._with_times)
        if not self._units:  # a part of zeros: a store may have any number of them
            return light
        count = self._units if self._with_queues else 0
        queues = int(table.count[0])
        units = table.facts[kernels.UNITS, :queues]
        starts = np.cumsum(units) - units
        packed = np.empty(count * CQ_UNIT_SIZE, np.uint8)
        facts = self._scratch.sorted_facts
        run_count = kernels.sort_units(
            (self._scratch.packed, self._scratch.facts), count, starts, run_units, (packed, facts)
        )
        runs = np.empty((kernels.RUN_ROWS, run_count), np.int64)
        kernels.cut_runs(facts, count, run_units, runs)
        keys = table.facts[kernels.KEY, :queues]
        queue, offset, first, counts, last_times = runs
        return QueueRuns(
            QueueKind.CONSUME_QUEUE,
            RunQueues(tuple(self._topics), keys >> 32, keys.astype(np.int32).astype(np.int64)),
            packed.reshape(count, CQ_UNIT_SIZE),
            queue,
            offset,
            first,
            counts,
            last_times,
            facts[kernels.STORE_TIMESTAMP, : count if self._with_times else 0].copy(),
        ).followed_by(light)


# Arrays in which the runs of one part grow, kept for the next part.
#
# Fresh memory costs a page fault for each 4 KiB, which took as long as all the kernels together.


FIRST: Final = 1 << 17
KEPT_BYTES: Final = 1 << 26  # what grew beyond this is not kept

_SPARE: deque[Scratch] = deque(maxlen=16)  # append and pop are atomic


class Scratch:
    """Units and index entries in log order, with room to grow. Belongs to one thread at a time.

    Attributes:
        packed: uint8, shape (20 * units,): packed units.
        facts: int64, shape (FACTS, units): what units are sorted by.
        sorted_facts: the same, sorted by queue.
        hashes: int32, shape (entries,): key hashes.
        places: int64, shape (2, entries): physical offsets and store timestamps.
    """

    __slots__ = ("facts", "hashes", "packed", "places", "sorted_facts")

    def __init__(self) -> None:
        self.packed: npt.NDArray[np.uint8] = np.empty(FIRST * CQ_UNIT_SIZE, np.uint8)
        self.facts: npt.NDArray[np.int64] = np.empty((kernels.FACTS, FIRST), np.int64)
        self.sorted_facts: npt.NDArray[np.int64] = np.empty_like(self.facts)
        self.hashes: npt.NDArray[np.int32] = np.empty(FIRST, np.int32)
        self.places: npt.NDArray[np.int64] = np.empty((2, FIRST), np.int64)

    @classmethod
    def take(cls) -> Scratch:
        """Give one that nobody uses."""
        try:
            return _SPARE.pop()
        except IndexError:
            return cls()

    def give_back(self) -> None:
        """Let somebody else use it; whoever gives it back must forget it."""
        if sum(getattr(self, name).nbytes for name in self.__slots__) <= KEPT_BYTES:
            _SPARE.append(self)

    def make_room_for_units(self, used: int, more: int) -> None:
        """Have room for more units after those in use."""
        while self.facts.shape[1] < used + more:
            self.packed = np.concatenate([self.packed, np.empty_like(self.packed)])
            self.facts = np.concatenate([self.facts, np.empty_like(self.facts)], axis=1)
            self.sorted_facts = np.empty_like(self.facts)

    def make_room_for_entries(self, used: int, more: int) -> None:
        """Have room for more index entries after those in use."""
        while self.hashes.size < used + more:
            self.hashes = np.concatenate([self.hashes, np.empty_like(self.hashes)])
            self.places = np.concatenate([self.places, np.empty_like(self.places)], axis=1)

    def hand_over_entries(
        self, used: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Give hashes, physical offsets and store timestamps away, and take new arrays.

        Few entries are copied: what is given must not hold much more memory than it needs.
        """
        hashes, (offsets, times) = self.hashes[:used], self.places[:, :used]
        if 2 * used < self.hashes.size:
            return hashes.copy(), offsets.copy(), times.copy()
        self.hashes, self.places = np.empty_like(self.hashes), np.empty_like(self.places)
        return hashes, offsets, times


def forget_scratch() -> None:
    """Let go of what is kept for the next part of a log: there is none."""
    _SPARE.clear()


# Units that are made one by one: of batch queues, of light queues, and of records in doubt.


SIZES: Final = {
    QueueKind.CONSUME_QUEUE: CQ_UNIT.size,
    QueueKind.BATCH_QUEUE: BATCH_CQ_UNIT.size,
}


class RareUnits:
    """Units of one kind of queue, in log order."""

    def __init__(self, kind: QueueKind) -> None:
        self._kind = kind
        self._queues: dict[tuple[bytes, int], int] = {}
        self._facts: list[tuple[int, int, int]] = []  # queue, offset, store timestamp
        self._packed = bytearray()

    def add(
        self, queue: tuple[bytes, int], queue_offset: int, store_timestamp: int, packed: bytes
    ) -> None:
        """Take one more unit.

        Args:
            queue: topic and queue id.
            queue_offset: of the unit; with batch queues its `msg_base_offset`.
            store_timestamp: of the record, ms.
            packed: the unit.
        """
        number = self._queues.setdefault(queue, len(self._queues))
        self._facts.append((number, queue_offset, store_timestamp))
        self._packed += packed

    def runs(self, run_units: int = 0, *, times: bool = False) -> QueueRuns:
        """Sort units by queue and cut them into runs.

        Args:
            run_units: a run ends where a file of so many units does; 0 for nowhere.
            times: give the store time of each unit.
        """
        if not self._facts:
            return _no_runs(self._kind)
        facts = np.array(self._facts, np.int64).reshape(-1, 3)
        order = order_of(facts[:, 0])
        queue, offset, store_timestamp = facts[order].T
        begins = np.ones(len(order), bool)
        begins[1:] = queue[1:] != queue[:-1]
        if self._kind is QueueKind.CONSUME_QUEUE:
            begins[1:] |= offset[1:] != offset[:-1] + 1
            begins |= (offset % run_units == 0) if run_units else False
        first = np.flatnonzero(begins)
        count = np.diff(first, append=len(order))
        packed = np.frombuffer(self._packed, np.uint8).reshape(-1, SIZES[self._kind])
        return QueueRuns(
            self._kind,
            RunQueues.of(self._queues),
            packed[order],
            queue[first],
            offset[first],
            first,
            count,
            store_timestamp[first + count - 1],
            store_timestamp if times else store_timestamp[:0],
        )


def _no_runs(kind: QueueKind) -> QueueRuns:
    units = np.empty((0, SIZES[kind]), np.uint8)
    return QueueRuns(kind, RunQueues.of(()), units, *(np.empty(0, np.int64) for _ in range(6)))


class RowRecord:
    """One record of a batch, as `broker.dispatch` takes it.

    Attributes:
        topic: decoded as Java does.
        queue_id: the field.
        queue_offset: the field.
        sys_flag: the field.
        store_timestamp: ms.
        properties: names and values.
        physical_offset: the field, not the place.
        size: bytes of the record.
    """

    def __init__(self, batch: Batch, number: int) -> None:
        """Read it anew.

        Args:
            batch: with texts.
            number: of the record in it.
        """
        record = batch.matrix[:, number].tolist()
        start, length = record[row.PROPERTIES_START], record[row.PROPERTIES_LENGTH]
        self.topic = text(batch.topics[record[row.TOPIC_NUMBER]])
        self.queue_id: int = record[row.QUEUE_ID]
        self.queue_offset: int = record[row.QUEUE_OFFSET]
        self.sys_flag: int = record[row.SYS_FLAG]
        self.store_timestamp: int = record[row.STORE_TIMESTAMP]
        self.properties = decode(batch.text(start, length))
        self.has_properties: bool = length > 0
        self.physical_offset: int = record[row.PHYSICAL_OFFSET_FIELD]
        self.size: int = record[row.SIZE]


def units(record: RowRecord, rules: DispatchRules) -> Iterator[tuple[QueueKind, Unit]]:
    """Yield the units of a record, as far as dispatch gets with it."""
    with suppress(DispatchThrows):
        for place in rules.places(record):
            if place.batch_size is None:
                yield QueueKind.CONSUME_QUEUE, _unit(record, place, rules)
            else:
                yield QueueKind.BATCH_QUEUE, _batch_unit(record, place, rules)


def light_units(record: RowRecord, rules: DispatchRules) -> Iterator[Unit]:
    """Yield the units of the light queues that a record names; its own queue has one already."""
    return (unit for _, unit in islice(units(record, rules), 1, None))


def _unit(record: RowRecord, place: QueuePlace, rules: DispatchRules) -> Unit:
    code = rules.tags_code(record)
    packed = CQ_UNIT.packer.pack(record.physical_offset, record.size, code)
    queue = place.topic.encode(), place.queue_id
    return queue, place.queue_offset, record.store_timestamp, packed


def _batch_unit(record: RowRecord, place: QueuePlace, rules: DispatchRules) -> Unit:
    packed = BATCH_CQ_UNIT.packer.pack(
        record.physical_offset,
        record.size,
        rules.tags_code(record),
        record.store_timestamp,
        place.queue_offset,
        place.batch_size,
        INVALID_POS,
        0,
    )
    queue = place.topic.encode(), place.queue_id
    return queue, place.queue_offset, record.store_timestamp, packed
