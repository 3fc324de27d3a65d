"""Run per-part functions as Spark tasks, in waves, with results in the order of the parts.

1. Parts are put together to tasks of some megabytes, tasks to waves of a few for each core.
2. A wave is one job over `spark.range`: an executor gets the pickled function and its parts, and
   gives pickled results as Arrow rows. This works on a cluster as through Spark Connect.
3. While the results of a wave are used, the next one runs. A wave is as large as its results may
   be in memory, as those before tell, so the driver needs the same for any store.
"""

from __future__ import annotations

import pickle
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from rmqtool.spark.jobs import Job, cores
from rmqtool.spark.shipping import ship
from rmqtool.spark.tasks import (
    BLOBS,
    DONE,
    ERROR,
    RESULTS,
    TO_ALL,
    gatherer,
    mapper,
    results,
    spreader,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Part = TypeVar("Part")
Result = TypeVar("Result")
TASK_BYTES: Final = 32 << 20  # of the log: a task costs some 20 ms, reading this as much at best
RESULT_BYTES: Final = 128 << 20  # of one wave; two are in memory
TASKS_A_CORE: Final = 2  # in a wave: who is done early has something to do
LARGEST_WAVE: Final = 4096  # tasks
AT_A_TIME: Final = 2  # waves: one is used while the next one runs
FIRST_RATIO: Final = 1.5  # bytes of results for each byte of the log, before anything is known
BLOB_ROWS: Final = 64  # of some MB each, at a time in the memory of a worker
POLL_SECONDS: Final = 0.2
ARROW_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(slots=True)
class Traffic:
    """What went through the driver.

    Attributes:
        waves: jobs.
        tasks: in all of them.
        part_bytes: of parts.
        result_bytes: of pickled results.
        largest_wave: bytes of results at a time.
    """

    waves: int = 0
    tasks: int = 0
    part_bytes: int = 0
    result_bytes: int = 0
    largest_wave: int = 0


@dataclass(slots=True)
class SparkEngine:
    """Runs parts on a Spark session.

    Attributes:
        spark: the session.
        traffic: what went through the driver so far.
    """

    spark: SparkSession
    traffic: Traffic = field(default_factory=Traffic)

    @classmethod
    def on(cls, spark: SparkSession) -> SparkEngine:
        """Give the engine of a session whose executors have this package."""
        ship(spark)
        return cls(spark)

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yield `function(part)` for each part, in the order of the parts.

        Raises:
            RmqtoolError: what the function raised.
            SparkFailed: executors were lost, again and again.
        """
        job = Job(self.spark)
        source = _Grouped(parts)
        pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="rmqtool-spark")
        waiting: deque[Future[list[bytes]]] = deque()
        try:
            while True:
                while len(waiting) < AT_A_TIME and (wave := self._next_wave(source)):
                    waiting.append(pool.submit(self._run_wave, function, wave, job))
                if not waiting:
                    return
                for packed in waiting.popleft().result():
                    yield from results(packed)
        finally:
            # Somebody may have stopped reading, or pressed Ctrl-C: nothing is to go on then.
            if any(not future.done() for future in waiting):
                job.cancel()
            pool.shutdown(wait=True, cancel_futures=True)

    def shuffle(
        self,
        spread: Callable[[Any], Iterator[tuple[int, bytes]]],
        segments: Sequence[Any],
        gather: Callable[[Iterable[bytes]], bytes],
        advance: Callable[[int], None],
    ) -> tuple[list[bytes], list[bytes]]:
        """Bring blobs of many tasks together by their number, in the order of the segments.

        Args:
            spread: gives numbered blobs of a segment; what is numbered below 0 comes back.
            segments: a task each.
            gather: takes blobs of some numbers, all there are of each; gives one in return.
            advance: told of bytes of the segments that are done, as the status tracker sees it.

        Returns:
            What came back, in order, and what `gather` gave.

        Raises:
            RmqtoolError: what a function raised.
            SparkFailed: executors were lost, again and again.
        """
        spark, tasks = self.spark, max(len(segments), 1)
        writers = min(TASKS_A_CORE * cores(spark), LARGEST_WAVE)
        job = Job(spark)
        with _few_rows_a_batch(spark):
            spreading = spark.range(0, len(segments), 1, tasks)
            blobs = spreading.mapInArrow(spreader(spread, list(segments)), BLOBS)
            sorted_blobs = blobs.repartition(writers, "number").sortWithinPartitions(
                "segment", "place"
            )
            written = sorted_blobs.mapInArrow(gatherer(gather), BLOBS)
            found = self._follow(job, written, segments, advance)
        rows = sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))
        for number, _, _, blob in rows:
            if number == ERROR:
                raise pickle.loads(blob)  # noqa: S301 - our own executors made it
        heads = [blob for number, _, _, blob in rows if number == TO_ALL]
        return heads, [blob for number, _, _, blob in rows if number == DONE]

    def _follow(
        self, job: Job, rows: DataFrame, segments: Sequence[Any], advance: Callable[[int], None]
    ) -> pa.Table:
        """Collect rows, and tell how far Spark is meanwhile."""
        total, told = sum(map(_length, segments)), 0
        with ThreadPoolExecutor(1, thread_name_prefix="rmqtool-spark") as pool:
            future = pool.submit(job.collect, rows)
            try:
                while not future.done():
                    wait([future], POLL_SECONDS)
                    done, tasks = job.tasks_done()
                    part = total * done // tasks if tasks else 0
                    advance(max(part - told, 0))
                    told = max(part, told)
            except BaseException:
                job.cancel()
                raise
            table = future.result()
        advance(total - told)
        return table

    def _next_wave(self, source: _Grouped[Part]) -> list[list[Part]]:
        traffic = self.traffic
        ratio = FIRST_RATIO
        if traffic.part_bytes:
            ratio = max(traffic.result_bytes / traffic.part_bytes, 1e-3)
        tasks = min(TASKS_A_CORE * cores(self.spark), LARGEST_WAVE)
        return source.wave(tasks, int(RESULT_BYTES / ratio))

    def _run_wave(
        self, function: Callable[[Part], Result], wave: list[list[Part]], job: Job
    ) -> list[bytes]:
        tasks = len(wave)
        rows = self.spark.range(0, tasks, 1, tasks).mapInArrow(mapper(function, wave), RESULTS)
        table = job.collect(rows)
        found = dict(zip(table["task"].to_pylist(), table["result"].to_pylist(), strict=True))
        packed = [found[number] for number in range(tasks)]
        self._account(wave, sum(map(len, packed)))
        return packed

    def _account(self, wave: list[list[Any]], result_bytes: int) -> None:
        traffic = self.traffic
        traffic.waves += 1
        traffic.tasks += len(wave)
        traffic.part_bytes += sum(_length(part) for parts in wave for part in parts)
        traffic.result_bytes += result_bytes
        traffic.largest_wave = max(traffic.largest_wave, result_bytes)


class _Grouped(Generic[Part]):
    """Puts parts together to tasks, and tasks to waves, as they are asked for."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._next: Part | None = next(self._parts, None)

    def wave(self, tasks: int, limit: int) -> list[list[Part]]:
        """Give the next tasks; none when there are no more parts.

        Args:
            tasks: how many at most.
            limit: bytes of parts in all of them, but for one part at least.
        """
        each = min(TASK_BYTES, max(limit // tasks, 1))
        wave: list[list[Part]] = []
        taken = 0
        while self._next is not None and len(wave) < tasks and (not wave or taken < limit):
            wave.append(self._task(each))
            taken += sum(map(_length, wave[-1]))
        return wave

    def _task(self, limit: int) -> list[Part]:
        task: list[Part] = []
        taken = 0
        while self._next is not None and (not task or taken + _length(self._next) <= limit):
            task.append(self._next)
            taken += _length(self._next)
            self._next = next(self._parts, None)
        return task


def _length(part: object) -> int:
    """Give the bytes of a part or a segment; of what does not say, those of a small file."""
    return max(int(getattr(part, "length", getattr(part, "size", 1 << 16))), 1)


@contextmanager
def _few_rows_a_batch(spark: SparkSession) -> Iterator[None]:
    """Let workers get few rows at a time: these are large."""
    before = spark.conf.get(ARROW_ROWS)
    spark.conf.set(ARROW_ROWS, str(BLOB_ROWS))
    try:
        yield
    finally:
        spark.conf.set(ARROW_ROWS, str(before))
