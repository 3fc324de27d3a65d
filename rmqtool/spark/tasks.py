"""What executors run: a function over parts, or the two halves of a shuffle. Needs no pyspark.

The functions that are given here travel pickled with what they close over.
"""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import lz4.block
import pyarrow as pa

from rmqtool.errors import RmqtoolError
from rmqtool.memory import give_back_arrays
from rmqtool.writing.task_results import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from rmqtool.writing.task_results import Spool


Part = TypeVar("Part")
Result = TypeVar("Result")
RESULTS: Final = "task bigint, result binary"
BLOBS: Final = "number int, task bigint, place bigint, blob binary"
SPOOLED_TOGETHER: Final = 16 << 20  # bytes of parts: a file for each small one takes longer
TO_ALL, DONE, ERROR = -1, -2, -3  # numbers of blobs that are for nobody
_BLOBS: Final = pa.schema(
    [("number", pa.int32()), ("task", pa.int64()), ("place", pa.int64()), ("blob", pa.binary())]
)


def mapper(
    function: Callable[[Any], Any], wave: Sequence[Sequence[Any]], spool: Spool | None
) -> Callable[..., Any]:
    """Give what maps task numbers to the results of the parts of each task.

    Args:
        function: what to do with a part.
        wave: the parts of each task.
        spool: where results are put down; None where the driver is on another machine.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                left: dict[int, Any] = {}
                waiting: list[Any] = []
                size = 0
                for place, part in enumerate(wave[number], 1):
                    waiting.append(outcome(function, part))
                    size += length_of(part)
                    if size >= SPOOLED_TOGETHER or place == len(wave[number]):
                        first = place - len(waiting)
                        if spool is None or not spool.put(number, first, waiting):
                            left |= enumerate(waiting, first)
                        waiting, size = [], 0
                settle()
                yield result_batch(number, left)

    return work


@cache
def settle() -> None:
    """Let the collector of garbage forget what is loaded by now, once in a process.

    pyspark's worker runs it after each task; to look through all modules takes 25 ms. Arrays are
    of one size from part to part, and their memory is used again.
    """
    gc.freeze()
    give_back_arrays()


def outcome(function: Callable[[Part], Result], part: Part) -> Result | RmqtoolError:
    """Give the result of a part, or the error that was raised on purpose: both travel."""
    try:
        return function(part)
    except RmqtoolError as error:
        return error


def result_batch(number: int, outcomes: dict[int, Any]) -> pa.RecordBatch:
    """Give the row of a task: outcomes by the place of the part.

    They are packed: Spark copies each byte several times.
    """
    packed = lz4.block.compress(pickle.dumps(outcomes, pickle.HIGHEST_PROTOCOL))
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int64()), pa.array([packed], pa.binary())], names=["task", "result"]
    )


def spreader(
    spread: Callable[[Sequence[Any], int], Iterator[list[tuple[int, bytes]]]],
    tasks: Sequence[Sequence[Any]],
    writers: int,
) -> Callable[..., Any]:
    """Give what maps numbers of tasks to the numbered blobs of their segments."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                place = 0
                try:
                    for blobs in spread(tasks[task], writers):
                        rows = [
                            (number, task, place + n, blob)
                            for n, (number, blob) in enumerate(blobs)
                        ]
                        place += len(rows)
                        yield blob_batch(rows)
                except RmqtoolError as error:
                    yield blob_batch([(ERROR, task, 0, pickle.dumps(error))])
                settle()

    return work


def gatherer(gather: Callable[[Iterable[bytes]], bytes]) -> Callable[..., Any]:
    """Give what lets one writer have its blobs and passes on what is for nobody."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        blobs = _wanted(batches, passed)
        first = next(blobs, None)
        if first is not None:
            try:
                yield blob_batch([(DONE, 0, 0, gather(chain([first], blobs)))])
            except RmqtoolError as error:
                yield blob_batch([(ERROR, 0, 0, pickle.dumps(error))])
        yield from passed

    return work


def _wanted(batches: Iterable[pa.RecordBatch], passed: list[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the blobs that are for writers; put the others aside."""
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for number, task, place, blob in rows:
            if number >= 0:
                yield blob
            else:
                passed.append(blob_batch([(number, task, place, blob)]))


def blob_batch(rows: Sequence[tuple[int, int, int, bytes]]) -> pa.RecordBatch:
    """Give the rows of blobs."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _BLOBS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOBS)


# Parts of a store as tasks, tasks as waves; and the results of a wave, in order.
#
# A wave is one Spark job. Its results are in the memory of the driver at a time, or, on one
# machine,
# on its disk, so a wave is as large as they may be.


TASK_BYTES: Final = 512 << 20  # of the log, at most: a task costs some 20 ms, beside its work
POLL_SECONDS: Final = 0.004


@dataclass(slots=True)
class DriverTraffic:
    """What went through the driver."""

    waves: int = 0  # jobs
    tasks: int = 0  # in all of them
    part_bytes: int = 0  # of parts
    result_bytes: int = 0  # of results
    shuffled_bytes: int = 0  # of what came back of shuffles
    largest_in_memory: int = 0  # bytes of results at a time

    def ratio(self, unknown: float) -> float:
        """Give the bytes of results for each byte of the log."""
        return max(self.result_bytes / self.part_bytes, 1e-3) if self.part_bytes else unknown


class Grouped(Generic[Part]):
    """Puts parts together to tasks, and tasks to waves, as they are asked for."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._next: Part | None = next(self._parts, None)

    def wave(self, groups: int, workers: int, limit: int) -> Assignment:
        """Give the next tasks, about equally large; none when there are no more parts.

        Args:
            groups: of consecutive parts; how many there should be, where parts are small enough.
            workers: tasks that deal with a group together, a part each by turns.
            limit: bytes of parts in all of them, but for one part at least.
        """
        parts: list[Part] = []
        taken = 0
        most = min(limit, groups * workers * TASK_BYTES)
        while self._next is not None and (not parts or taken + length_of(self._next) <= most):
            parts.append(self._next)
            taken += length_of(self._next)
            self._next = next(self._parts, None)
        return assigned(grouped(parts, taken / groups), workers)


class Assignment(NamedTuple):
    """Parts as tasks."""

    tasks: list[list[Any]]  # parts of each
    order: list[tuple[int, int]]  # task, and place in it, of each part, in the order of the parts


def assigned(groups: Iterable[Sequence[Any]], workers: int) -> Assignment:
    """Let tasks have the parts of each group by turns.

    Results are used in the order of the parts. Where tasks that run at a time have parts next to
    each other, little is left to use when the last of them ends.
    """
    assignment = Assignment([], [])
    for group in groups:
        first = len(assignment.tasks)
        assignment.order.extend((first + n % workers, n // workers) for n in range(len(group)))
        assignment.tasks.extend(list(group[n::workers]) for n in range(min(workers, len(group))))
    return assignment


def grouped(parts: Iterable[Part], each: float) -> list[list[Part]]:
    """Put parts together to tasks that end next to multiples of a length."""
    tasks: list[list[Part]] = []
    done, end = 0, 0.0
    for part in parts:
        middle = done + length_of(part) / 2
        if middle >= end:
            tasks.append([])
            while middle >= end:
                end += each
        tasks[-1].append(part)
        done += length_of(part)
    return tasks


def length_of(part: object) -> int:
    """Give the bytes of a part or a segment; of what does not say, those of a small file."""
    return max(int(getattr(part, "length", getattr(part, "size", 1 << 16))), 1)


@dataclass(slots=True)
class Wave:
    """A job that runs, and what it gives."""

    parts: Assignment  # of its tasks, and their order
    spool: Spool | None  # where results are put down; None where they all come through Spark
    job: Future[pa.Table]  # gives the rows of the tasks
    seen: int = 0  # bytes of results so far
    largest: int = 0  # bytes of the largest one that was put down
    _packed: dict[int, bytes] | None = None
    _unpacked: dict[tuple[int, int], Any] = field(default_factory=dict)

    def results(self) -> Iterator[Any]:
        """Yield the results in the order of the parts, those that are put down as they come.

        Raises:
            RmqtoolError: that of a part.
            SparkFailed: executors were lost, again and again.
        """
        for task, place in self.parts.order:
            result = self._wait_for(task, place)
            if isinstance(result, RmqtoolError):
                raise result
            yield result
        self.job.result()

    def _wait_for(self, task: int, place: int) -> Any:  # noqa: ANN401 - whatever a part gave
        while self.spool is not None and (task, place) not in self._unpacked:
            is_over = self.job.done()  # asked first: what is put down is there when it is over
            packed, size = self.spool.take(task, place)
            if packed is not NOTHING:
                self.seen += size
                self.largest = max(self.largest, size)
                self._unpacked |= {(task, place + n): result for n, result in enumerate(packed)}
            elif is_over:
                break
            else:
                wait([self.job], POLL_SECONDS)
        if (task, place) not in self._unpacked:
            self._unpack(task)
        return self._unpacked.pop((task, place))

    def _unpack(self, task: int) -> None:
        """Take what of a task came through Spark."""
        if self._packed is None:
            table = self.job.result()
            rows = zip(table["task"].to_pylist(), table["result"].to_pylist(), strict=True)
            self._packed = dict(rows)
            self.seen += 0 if self.spool else sum(map(len, self._packed.values()))
        packed = lz4.block.decompress(self._packed.pop(task))
        results = pickle.loads(packed)  # noqa: S301 - our own executors made it
        self._unpacked |= {(task, place): result for place, result in results.items()}
