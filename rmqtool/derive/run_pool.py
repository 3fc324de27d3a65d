"""Join the queue runs of several parts, so that a file is opened once for all of its units.

With 50,000 queues a part has a handful of units for each: to open a file takes longer than to
compare what is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.derive.queue_runs import QueueRuns, RunQueues
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, QueueKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

WHOLE: Final = np.dtype((np.void, CQ_UNIT_SIZE))  # a unit as one item
SHORT_RUN: Final = 1 << 14  # bytes; parts whose runs are longer on average gain nothing
LARGEST: Final = 16 << 20  # bytes that wait

QUEUE_ID_BITS: Final = 32
LOWEST_ID: Final = -(1 << 31)
# Rows of what is known of runs that wait.
QUEUE, OFFSET, COUNT, STORE_TIMESTAMP = range(4)


class RunPool:
    """Runs of consume queues that wait for more of their queues."""

    def __init__(self, run_units: int, short_run: int = SHORT_RUN, largest: int = LARGEST) -> None:
        """Begin with nothing.

        Args:
            run_units: a run ends where a file of so many units does; 0 for nowhere.
            short_run: bytes; parts whose runs are longer on average need not wait.
            largest: bytes that wait before runs go on.
        """
        self._short_run, self._largest = short_run, largest
        self._run_units = run_units
        self._topics: dict[bytes, int] = {}  # number of each topic
        self._units: list[npt.NDArray[np.uint8]] = []
        self._times: list[npt.NDArray[np.int64]] = []
        self._runs: list[npt.NDArray[np.int64]] = []
        self._bytes = 0

    def add(self, runs: QueueRuns) -> Iterator[QueueRuns]:
        """Take the runs of the next part; yield those that need not wait any more, in log order."""
        is_long = runs.units.nbytes >= self._short_run * len(runs) or bool(len(runs.ends))
        if not is_long:
            self._keep(runs)
        if is_long or self._bytes >= self._largest:
            yield from self.rest()
        if is_long:
            yield runs

    def _keep(self, runs: QueueRuns) -> None:
        known, queues = self._topics, runs.queues
        numbers = [known.setdefault(topic, len(known)) for topic in queues.topics]
        topics = np.array(numbers, np.int64)[queues.topic]
        keys = (topics << QUEUE_ID_BITS) | (queues.queue_id - LOWEST_ID)
        facts = (keys[runs.queue], runs.queue_offset, runs.count, runs.store_timestamp)
        self._runs.append(np.stack(facts))
        self._units.append(runs.units)
        self._times.append(runs.times)
        self._bytes += runs.units.nbytes + self._runs[-1].nbytes + runs.times.nbytes

    def rest(self) -> Iterator[QueueRuns]:
        """Yield all that waits."""
        if self._units:
            yield self._joined()

    def _joined(self) -> QueueRuns:
        """Give the runs queue by queue, one for each stretch that has no break."""
        lengths, topics = [part.shape[1] for part in self._runs], (*self._topics,)
        runs, self._runs = np.concatenate(self._runs, axis=1), []
        order = np.argsort(runs[QUEUE], kind="stable")
        units, times = self._sorted(runs[COUNT], order, lengths)
        runs = runs[:, order]
        key, offset, count, store_timestamp = runs
        is_new = np.append(True, key[1:] != key[:-1])
        queue, keys = np.cumsum(is_new) - 1, key[is_new]
        queue_ids = (keys & ((1 << QUEUE_ID_BITS) - 1)) + LOWEST_ID
        queues = RunQueues(topics, keys >> QUEUE_ID_BITS, queue_ids)
        begins = is_new.copy()
        begins[1:] |= offset[1:] != (offset + count)[:-1]
        if self._run_units:
            begins |= offset % self._run_units == 0
        firsts = np.flatnonzero(begins)
        last = np.append(firsts[1:], len(queue)) - 1
        ends = np.cumsum(count)
        first = (ends - count)[firsts]
        return QueueRuns(
            QueueKind.CONSUME_QUEUE,
            queues,
            units,
            queue[firsts],
            offset[firsts],
            first,
            ends[last] - first,
            store_timestamp[last],
            times,
        )

    def _sorted(
        self,
        count: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
        runs_of_parts: list[int],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Bring units and times into the order of their runs, and forget all that waited."""
        target = np.empty_like(count)
        target[order] = np.cumsum(count[order]) - count[order]
        units = np.empty((int(count.sum()), CQ_UNIT_SIZE), np.uint8)
        times = np.empty(len(units) if any(map(len, self._times)) else 0, np.int64)
        begin, self._topics, self._bytes = 0, {}, 0
        for runs in runs_of_parts:  # one after the other goes away: no second copy of all
            part, end = self._units.pop(0), begin + runs
            lengths = count[begin:end]
            step = target[begin:end] - (np.cumsum(lengths) - lengths)
            places = np.arange(len(part)) + np.repeat(step, lengths)
            units.view(WHOLE)[places] = part.view(WHOLE)
            of_part = self._times.pop(0)
            if len(times):
                times[places] = of_part
            begin = end
        return units, times
