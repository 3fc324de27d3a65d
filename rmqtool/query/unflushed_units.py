"""Queue units that a RocksDB database has not got yet, derived from the end of the log.

A broker keeps units in memory until RocksDB flushes: after 128 MB of them, or when it stops. There
is no write-ahead log. So beside a running broker, and after a crash, the database is as it was at
its last flush, and the records from its CHECKPOINT on have units that only the log tells.
Source: ConsumeQueueRocksDBStorage, RocksDBConsumeQueueStore, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.derive.collector import RunCollector
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.derive.settings import rocksdb_rules, rules_of
from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.query.log import LogRange
from rmqtool.query.scan import parts_of
from rmqtool.queues.kinds import UnitKind, kind_of
from rmqtool.queues.units import LookedUp, QueueSpan, QueueUnits, Unit, UnitPlace
from rmqtool.scan.join import run_joined
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.moment import GONE
from rmqtool.store.release import written_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.derive.runs import Runs
    from rmqtool.query.log import Log
    from rmqtool.queues.kinds import Units
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.store.segment import SegmentPart

PROBLEM: Final = "no record of the log has this queue offset"


class UnflushedQueue(QueueUnits):
    """A queue as its broker knows it: what was flushed, then what the log tells.

    Attributes:
        flushed: the queue in the database; None when the database does not know it.

    Args:
        name: topic, printable, and number.
        path: of the database.
        flushed: as above.
        runs: of its late units, in the order of the log.
    """

    kind = ArtefactKind.ROCKSDB
    layout = CQ_UNIT

    def __init__(
        self, name: tuple[str, int], path: str, flushed: QueueUnits | None, runs: list[QueueRun]
    ) -> None:
        (self.topic, self.queue_id), self.path, self.flushed = name, path, flushed
        numbers = [np.arange(run.queue_offset, run.queue_offset + run.count) for run in runs]
        queue_offsets = np.concatenate(numbers)
        order = np.argsort(queue_offsets, kind="stable")
        self._numbers: npt.NDArray[np.int64] = queue_offsets[order]
        joined = b"".join(bytes(run.units) for run in runs)
        self._units: Units = np.frombuffer(joined, CQ_UNIT.dtype)[order]
        self._times: npt.NDArray[np.int64] = np.concatenate([run.times for run in runs])[order]

    def span(self, log_start: int = 0) -> QueueSpan:
        """Find out how far the queue reaches: from its first flushed unit to its last late one."""
        last = self._unflushed(int(self._numbers[-1])) or self._unflushed(int(self._numbers[0]))
        first_unflushed = self._unflushed(int(self._numbers[0]))
        if self.flushed is None:
            sizes = self._units["size"].astype(np.int64)
            name, mean = (self.topic, self.queue_id), float(sizes.mean())
            return QueueSpan(*name, self.kind, first_unflushed, last, 0, mean, is_exact=True)
        span = self.flushed.span(log_start)
        if last is None or (span.last is not None and span.last.number > last.number):
            return span
        mean = span.mean_size or float(self._units["size"].astype(np.int64).mean())
        return span._replace(
            first=span.first or first_unflushed, last=last, mean_size=mean, is_exact=False
        )

    def packed(self, first: int, count: int) -> bytes:
        """Read units as they would lie in a file; zeros for those that are missing."""
        packed = bytearray(
            self.flushed.packed(first, count) if self.flushed else count * CQ_UNIT_SIZE
        )
        begin, end = np.searchsorted(self._numbers, (first, first + count))
        for row in range(begin, end):
            at = (int(self._numbers[row]) - first) * CQ_UNIT_SIZE
            packed[at : at + CQ_UNIT_SIZE] = self._units[row].tobytes()
        return bytes(packed)

    def used(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Units]]:
        """Yield the flushed stretches, then the late ones."""
        if self.flushed is not None:
            yield from self.flushed.used(first, end)
        rows = np.flatnonzero(
            (self._numbers >= first)
            & (self._numbers < (np.iinfo(np.int64).max if end is None else end))
        )
        for some in np.split(rows, np.flatnonzero(np.diff(self._numbers[rows]) != 1) + 1):
            if some.size:
                yield int(self._numbers[some[0]]), self._units[some]

    def locate(self, number: int) -> UnitPlace:  # noqa: ARG002 - no file holds a single unit
        """Say where a unit will lie: in the database."""
        return UnitPlace(self.path, None)

    def look_up(self, number: int) -> LookedUp | None:
        """Give the unit of a number; None outside of the queue."""
        if (unit := self._unflushed(number)) is not None:
            return LookedUp(unit, self.locate(number))
        flushed = self.flushed.look_up(number) if self.flushed else None
        if flushed is None and 0 <= number <= self._numbers[-1]:
            return LookedUp(None, self.locate(number), PROBLEM)
        return flushed

    def _unflushed(self, number: int) -> Unit | None:
        """Give a late unit; None when it is not of a record, or not late."""
        row = int(np.searchsorted(self._numbers, number, "right")) - 1
        if row < 0 or self._numbers[row] != number:
            return None
        offset, size, tags_code = self._units[row].tolist()
        if kind_of(offset, size, tags_code) != UnitKind.REAL:
            return None
        return Unit(number, number, 1, offset, size, int(self._times[row]))


@dataclass(frozen=True, slots=True)
class DeriveQueues:
    """Derives the queue units of one part of the log. Picklable."""

    options: DeriveOptions

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Runs:
        """Give the runs of a part; none of a file that cannot be read.

        Raises:
            UnreadablePath: a running broker has deleted it meanwhile.
        """
        try:
            return derive(part, self.options, start=start)
        except UnreadablePath as error:
            if error.trouble in GONE:
                raise
            return RunCollector(self.options.rules).finish(part.end)


def unflushed_queues(log: Log, queues: RocksQueues) -> dict[tuple[str, int], UnflushedQueue]:
    """Give the queues that the end of the log has units for, and the database has not.

    Args:
        log: of the store.
        queues: of its database.

    Raises:
        UnreadablePath: the database cannot be read, or a file of the log expired meanwhile.
    """
    begin = max(queues.dispatched or 0, log.start)
    if begin >= log.end:
        return {}
    store = log.store
    rules = rules_of(store, written_by(store, lambda _: None).version)
    rules = rocksdb_rules(store, rules, queues, has_files=False)
    runs: dict[tuple[bytes, int], list[QueueRun]] = {}
    options = DeriveOptions(rules, index=False, times=True)
    parts = parts_of(log, LogRange(begin, log.end))
    for _, runs_of_part in run_joined(DeriveQueues(options), parts, jobs=log.jobs):
        for run in runs_of_part.queues:
            runs.setdefault((run.topic, run.queue_id), []).append(run)
    late = {}
    for (topic, queue_id), some in runs.items():
        name = topic_text(topic), queue_id
        late[name] = UnflushedQueue(name, queues.path, queues.queue(*name), some)
    return late
