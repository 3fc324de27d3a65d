"""Join the queue runs of several parts, so that a file is opened once for all of its units.

With 50,000 queues a part has a handful of units for each: to open a file takes longer than to
compare what is in it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.derive.queue_runs import QueueRuns, RunQueues
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, QueueKind
from rmqtool.machine.arrays import distinct, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

WHOLE: Final = np.dtype((np.void, CQ_UNIT_SIZE))  # a unit as one item
SHORT_RUN: Final = 1 << 14  # bytes; parts whose runs are longer on average gain nothing
LARGEST: Final = 16 << 20  # bytes that wait
JOINED_RUNS: Final = 1 << 19  # runs of parts that wait: then they become fewer, and longer
_ELSEWHERE: Final = -1
LONG_RUN: Final = 32  # units
UNITS_AT_A_TIME: Final = 1 << 18  # that are brought into the order of their queues

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
        self._parts_joined = 0  # the first ones of those that wait
        self._unjoined = 0  # runs of the others

    def add(self, runs: QueueRuns) -> Iterator[QueueRuns]:
        """Take the runs of the next part; yield those that need not wait any more, in log order."""
        is_long = runs.units.nbytes >= self._short_run * len(runs) or bool(len(runs.ends))
        if not is_long:
            self._keep(runs)
            self._unjoined += len(runs)
            if self._unjoined >= JOINED_RUNS:
                for joined in self._taken(self._parts_joined):
                    self._keep(joined)
                self._parts_joined, self._unjoined = len(self._runs), 0
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
        """Yield all that waits, by queue: all of one at once."""
        if self._units:
            taken = self._taken(0)
            self._parts_joined = self._unjoined = 0
            yield from taken

    def _taken(self, first_part: int) -> Iterator[QueueRuns]:
        """Take what waits, from a part on; give it by queue, a run for each stretch unbroken."""
        waiting = _Waiting(
            *(self._units[first_part:], self._times[first_part:]),
            np.concatenate(self._runs[first_part:], axis=1),
            [part.shape[1] for part in self._runs[first_part:]],
        )
        topics = (*self._topics,)
        del self._units[first_part:], self._times[first_part:], self._runs[first_part:]
        if not first_part:
            self._topics = {}
        self._bytes = 0
        for held in (self._units, self._times, self._runs):
            self._bytes += sum(column.nbytes for column in held)
        return (self._joined(topics, *columns) for columns in waiting.by_queue())

    def _joined(
        self,
        topics: tuple[bytes, ...],
        runs: npt.NDArray[np.int64],
        units: npt.NDArray[np.uint8],
        times: npt.NDArray[np.int64],
    ) -> QueueRuns:
        """Join runs that are sorted by queue where one follows on the other."""
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


class _Waiting(NamedTuple):
    """What has waited, part by part."""

    units: list[npt.NDArray[np.uint8]]  # of each part: shape (n, 20)
    times: list[npt.NDArray[np.int64]]  # of each: shape (n,), or empty
    runs: npt.NDArray[np.int64]  # what is known of them: shape (4, runs)
    lengths: list[int]  # runs of each part

    def by_queue(
        self,
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """Yield runs, units and times in the order of queues, some queues at a time.

        All of them at once would lie in memory twice.
        """
        order = order_of(self.runs[QUEUE]).astype(np.int32)
        for begin, end in pairwise(self._cuts(order)):
            rows = order[begin:end]
            yield self.runs[:, rows], *self._of(rows)

    def _cuts(self, order: npt.NDArray[np.int32]) -> list[int]:
        """Give between which runs to cut, their ends included: no queue is cut in two."""
        key, before = self.runs[QUEUE, order], np.cumsum(self.runs[COUNT, order])
        borders = np.flatnonzero(key[1:] != key[:-1]) + 1
        wanted = np.arange(UNITS_AT_A_TIME, int(before[-1]), UNITS_AT_A_TIME)
        chosen = np.searchsorted(before[borders - 1], wanted)
        cuts = distinct(borders[chosen[chosen < len(borders)]])
        return [0, *cuts.tolist(), len(order)]

    def _of(
        self, rows: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Give the units and times of some runs, in this order."""
        all_counts, count = self.runs[COUNT], self.runs[COUNT, rows]
        target = np.full(len(all_counts), _ELSEWHERE)
        target[rows] = np.cumsum(count) - count
        units = np.empty((int(count.sum()), CQ_UNIT_SIZE), np.uint8)
        times = np.empty(len(units) if any(map(len, self.times)) else 0, np.int64)
        first = 0
        for part, of_part, length in zip(self.units, self.times, self.lengths, strict=True):
            counts = all_counts[first : first + length]
            begins, sources = target[first : first + length], np.cumsum(counts) - counts
            first += length
            here = begins != _ELSEWHERE
            runs = begins[here], sources[here], counts[here]
            if len(part) >= LONG_RUN * length:  # a copy of each takes less
                for begin, source, units_here in zip(*(it.tolist() for it in runs), strict=True):
                    units[begin : begin + units_here] = part[source : source + units_here]
                    if len(times):
                        times[begin : begin + units_here] = of_part[source : source + units_here]
                continue
            places, chosen = (_each_unit(at, runs[2]) for at in runs[:2])
            units.view(WHOLE)[places] = part.view(WHOLE)[chosen]
            if len(times):
                times[places] = of_part[chosen]
        return units, times


def _each_unit(
    begins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Give the numbers of all units of runs, of which the first ones are given."""
    numbers: npt.NDArray[np.int64] = np.repeat(begins - np.cumsum(counts) + counts, counts)
    numbers += np.arange(len(numbers))
    return numbers
