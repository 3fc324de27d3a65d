"""Queue runs to consume queue files, byte for byte as a broker writes them.

Units are kept in memory until there are many, then written queue by queue: memory does not grow
with the store, and 50,000 queues need no 50,000 open files.
Source: ConsumeQueue#putMessagePositionInfo, #fillPreBlank, BatchConsumeQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rmqtool.derive.run_pool import RunPool
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, PRE_BLANK, QueueKind, first_offset
from rmqtool.ledger.numbering import PlacedUnits
from rmqtool.rebuild.ext import ExtQueue
from rmqtool.rebuild.pieces import QueueFileBytes, QueueKey, QueueOptions, QueueResult
from rmqtool.rebuild.placement import (
    BrokerPlacement,
    Placement,
    ProvenPlacement,
    UnitTally,
)
from rmqtool.rebuild.single_runs import QueueSink, SingleRuns
from rmqtool.store.names import name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.derive.queue_runs import QueueRun, QueueRuns

BASE, COUNT = BATCH_CQ_UNIT["msg_base_offset"], BATCH_CQ_UNIT["batch_size"]
EARLY_BYTES: Final = 16 << 20  # while the log is still read, the disk may as well take some
EARLY_BYTES_EACH: Final = 4 << 10  # but not less for each queue: opening a file costs time, too
PENDING_UNIT_COST: Final = 200  # bytes that one piece of units costs beside its bytes


class QueueBuilder:
    """Takes runs in log order and gives the pieces of queue files to a sink."""

    def __init__(self, options: QueueOptions, sink: QueueSink) -> None:
        self.units = 0
        self._options, self._sink = options, sink
        self._queues: dict[QueueKey, _Queue | None] = {}
        self._texts: dict[bytes, str] = {}
        self._left_out: list[QueueResult] = []
        self._pending = 0
        self._pool = RunPool(options.file_length // CQ_UNIT_SIZE, largest=options.pending_bytes)

    def add(self, runs: QueueRuns) -> None:
        """Take the runs of the next part of the log; short ones wait for more of their queues."""
        waited = self._pool.add(runs) if runs.kind is QueueKind.CONSUME_QUEUE else (runs,)
        for joined in waited:
            self._take(joined)

    def _take(self, runs: QueueRuns) -> None:
        for run in self._in_order(runs):
            self._add(run)
        early = max(EARLY_BYTES, EARLY_BYTES_EACH * len(self._queues))
        if self._pending > min(early, self._options.pending_bytes):
            self._flush(self._queues.values())

    def _add(self, run: QueueRun) -> None:
        key = self._key(run)
        if key not in self._queues:
            self._queues[key] = self._open(run, key[1])
        queue = self._queues[key]
        if queue is not None:
            self.units += run.count
            self._pending += queue.add(run)

    def _key(self, run: QueueRun) -> QueueKey:
        return run.kind, self._texts[run.topic], run.queue_id

    def finish(self) -> Iterator[QueueResult]:
        """Write what is left; yield what became of each queue, by family, topic and number."""
        results = self._left_out
        for joined in self._pool.rest():
            runs = self._in_order(joined)
            is_whole = runs is joined  # all of its runs: there may be a million queues
            if is_whole and not self._queues:
                single, runs = SingleRuns.of(joined, self._texts, self._options)
                self._sink.put_single(single)
                self.units += single.units
                results += single.results()
            for key, of_queue in groupby(runs, self._key):
                for run in of_queue:
                    self._add(run)
                if is_whole:
                    results += self._close(key)
        for key in [*self._queues]:
            results += self._close(key)
        if self._options.ext is not None:
            self._options.ext.close()
        yield from sorted(results, key=lambda queue: (queue.kind, queue.topic, queue.queue_id))

    def _close(self, key: QueueKey) -> Iterator[QueueResult]:
        """Write what is left of a queue, and let go of it."""
        queue = self._queues.get(key)
        if queue is not None:
            queue.finish()
            self._flush([queue])
            del self._queues[key]
            yield queue.result()

    def _in_order(self, runs: QueueRuns) -> Iterable[QueueRun]:
        """Give runs so that those of one queue are in log order.

        Topics whose bytes Java decodes to one text are one queue to a broker.
        """
        topics = runs.queues.topics
        for topic in topics:
            if topic not in self._texts:
                self._texts[topic] = java.text(topic)
        if len({self._texts[topic] for topic in topics}) == len(topics):
            return runs
        return sorted(runs, key=lambda run: first_offset(run.units))

    def _open(self, run: QueueRun, topic: str) -> _Queue | None:
        """Begin a queue; None for one that was not asked for, or that cannot be a directory."""
        options = self._options
        if options.topic not in {None, topic} or options.queue_id not in {None, run.queue_id}:
            return None
        if options.is_deleted is not None and options.is_deleted(topic):
            return None
        problem = name_problem(topic)
        if problem is not None:
            reason = f"the topic {problem}"
            nothing = QueueResult(run.kind, topic, run.queue_id, -1, -1, 0, UnitTally(), reason)
            self._left_out.append(nothing)
            return None
        return (_BatchQueue if run.kind is QueueKind.BATCH_QUEUE else _ConsumeQueue)(
            run, topic, options
        )

    def _flush(self, queues: Iterable[_Queue | None]) -> None:
        for queue in queues:
            if queue is not None and queue.pending:
                for _, pieces in groupby(
                    queue.pieces(), key=lambda file: (file.kind, file.file_start)
                ):
                    self._sink.put(list(pieces))
                queue.pending.clear()
        self._pending = 0


class _Queue:
    """One queue while it is built."""

    def __init__(self, run: QueueRun, topic: str, options: QueueOptions) -> None:
        self.pending: list[PlacedUnits] = []
        self.topic, self.kind, self.queue_id = topic, run.kind, run.queue_id
        self.options = options
        self.files: set[int] = set()

    def add(self, run: QueueRun) -> int:
        """Take a run; return what it costs in memory."""
        raise NotImplementedError

    def finish(self) -> None:
        """Take note that no run follows."""

    def pieces(self) -> Iterator[QueueFileBytes]:
        """Yield the bytes that are pending at their places."""
        raise NotImplementedError

    def result(self) -> QueueResult:
        """Say what became of the queue."""
        raise NotImplementedError

    def keep(self, placed: Iterable[PlacedUnits]) -> int:
        """Keep units until they are written; return what they cost in memory."""
        before = len(self.pending)
        self.pending += [units._replace(packed=self.packed(units)) for units in placed]
        return sum(len(units.packed) + PENDING_UNIT_COST for units in self.pending[before:])

    def packed(self, units: PlacedUnits) -> bytes:
        """Copy units: the run's own array holds those of all queues of its part."""
        return bytes(units.packed)

    def cut(self, position: int, units: PlacedUnits, length: int) -> Iterator[QueueFileBytes]:
        """Cut bytes where files end."""
        data, end = memoryview(units.packed), position + units.length
        while position < end:
            within = position % length
            taken = min(length - within, end - position)
            if units.repeated > 1:
                piece = memoryview(bytes(units.packed) * (taken // len(units.packed)))
            else:
                piece, data = data[:taken], data[taken:]
            self.files.add(position - within)
            yield QueueFileBytes(
                self.kind, self.topic, self.queue_id, position - within, length, within, piece,
                self.last_timestamp(piece, units),
            )  # fmt: skip
            position += taken

    def last_timestamp(self, piece: memoryview, units: PlacedUnits) -> int:  # noqa: ARG002 - see batches
        """Give the store time of the last unit of a piece, ms: runs end where files do."""
        return units.store_timestamp


class _ConsumeQueue(_Queue):
    """A consume queue: units at their queue offset."""

    def __init__(self, run: QueueRun, topic: str, options: QueueOptions) -> None:
        super().__init__(run, topic, options)
        kind: Callable[[int, int], Placement]
        kind = BrokerPlacement if options.like_broker else Placement
        kind = ProvenPlacement if options.proven else kind
        self.placement = kind(options.log_start, options.segment_length)
        self.ext = None if options.ext is None else ExtQueue(options.ext)

    def add(self, run: QueueRun) -> int:
        before = self.ext.pending_bytes if self.ext else 0
        cost = self.keep(self.placement.add(run))
        return cost + (self.ext.pending_bytes - before if self.ext else 0)

    def finish(self) -> None:
        self.keep(self.placement.finish())

    def packed(self, units: PlacedUnits) -> bytes:
        if self.ext is None or units.repeated > 1:
            return super().packed(units)
        return self.ext.addressed(units.packed)

    def pieces(self) -> Iterator[QueueFileBytes]:
        length = self.options.file_length
        for units in self.pending:
            position = units.queue_offset * CQ_UNIT_SIZE
            if not self.files and position % length:
                lead = self.placement.lead(bytes(units.packed[:CQ_UNIT_SIZE]))
                count = position % length // CQ_UNIT_SIZE
                before = lead * count
                if lead != PRE_BLANK:
                    self.placement.tally.filler += count
                    self.placement.tally.copies += count
                self.files.add(position - position % length)
                yield QueueFileBytes(
                    self.kind, self.topic, self.queue_id, position - position % length, length, 0,
                    before, units.store_timestamp, is_filler=True,
                )  # fmt: skip
            yield from self.cut(position, units, length)
        if self.ext is not None and self.options.ext is not None:
            length = self.options.ext.file_length
            for unit in self.ext.pending:
                start, within = unit.position - unit.position % length, unit.position % length
                yield QueueFileBytes(
                    QueueKind.CONSUME_QUEUE_EXT, self.topic, self.queue_id, start, length, within,
                    memoryview(unit.data), unit.store_timestamp,
                )  # fmt: skip
            self.ext.pending = []

    def result(self) -> QueueResult:
        placement = self.placement
        return QueueResult(
            self.kind, self.topic, self.queue_id, placement.first, placement.next,
            len(self.files), placement.tally,
        )  # fmt: skip


class _BatchQueue(_Queue):
    """A batch queue: units one after the other; a queue offset gives no place."""

    def __init__(self, run: QueueRun, topic: str, options: QueueOptions) -> None:
        super().__init__(run, topic, options)
        self.first, self.next, self.end = run.queue_offset, -1, 0
        self.tally = UnitTally()

    def add(self, run: QueueRun) -> int:
        last = len(run.units) - BATCH_CQ_UNIT_SIZE
        self.next = BASE.of(run.units, last) + COUNT.of(run.units, last)
        self.tally.units += run.count
        return self.keep([PlacedUnits(run.queue_offset, run.units, run.store_timestamp)])

    def pieces(self) -> Iterator[QueueFileBytes]:
        length = self.options.batch_file_length // BATCH_CQ_UNIT_SIZE * BATCH_CQ_UNIT_SIZE
        for units in self.pending:
            yield from self.cut(self.end, units, length)
            self.end += units.length

    def last_timestamp(self, piece: memoryview, units: PlacedUnits) -> int:  # noqa: ARG002 - of one unit
        """Give the store time that the last unit itself says, ms: these runs go over files."""
        return BATCH_CQ_UNIT["store_timestamp"].of(piece, len(piece) - BATCH_CQ_UNIT_SIZE)

    def result(self) -> QueueResult:
        return QueueResult(
            self.kind, self.topic, self.queue_id, self.first, self.next, len(self.files),
            self.tally,
        )  # fmt: skip
