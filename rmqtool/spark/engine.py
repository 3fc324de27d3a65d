"""Run per-part functions as Spark tasks, in waves, with results in the order of the parts.

1. Parts are put together to tasks, tasks to waves, see `waves`.
2. A wave is one job over `spark.range`: an executor gets the pickled function and its parts, and
   gives pickled results as Arrow rows. This works on a cluster as through Spark Connect. On one
   machine results are files, see `spool`.
3. While the results of a wave are used, the next one runs. A wave is as large as its results may
   be, as those before tell, so the driver needs the same for any store.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import sys
import zipfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rmqtool.errors import EngineMissing
from rmqtool.spark.jobs import INSTALL_THERE, Job, cores, is_connect_session, is_on_this_machine
from rmqtool.spark.tasks import (
    BLOBS,
    DONE,
    ERROR,
    RESULTS,
    TASK_BYTES,
    TO_ALL,
    Assignment,
    DriverTraffic,
    Grouped,
    Wave,
    gatherer,
    grouped,
    length_of,
    mapper,
    spreader,
)
from rmqtool.writing.task_results import Spool
from rmqtool.writing.temporary_copy import job_directory, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


Part = TypeVar("Part")
Result = TypeVar("Result")
TASKS_A_CORE: Final = 4  # in a wave: who is done early has something to do
ROUNDS: Final = 2  # of tasks for all cores, in a wave whose results are used as they come
LARGEST_WAVE: Final = 4096  # tasks
AT_A_TIME: Final = 2  # waves: one is used while the next one runs
WAVE_BYTES: Final = 128 << 20  # of the results of one wave, in the driver's memory
SPOOLED_BYTES: Final = 1 << 30  # of the results of one wave, as files
FIRST_RATIO: Final = 1.5  # bytes of results for each byte of the log, before anything is known
WRITERS_A_CORE: Final = 2  # of queues: who is done early has something to do
POLL_SECONDS: Final = 0.2
SHUFFLING: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",  # of up to some MB each
    "spark.sql.adaptive.enabled": "false",  # how many writers there are is known
}


@dataclass(slots=True)
class SparkEngine:
    """Runs parts on a Spark session."""

    spark: SparkSession  # the session
    # what went through the driver so far
    traffic: DriverTraffic = field(default_factory=DriverTraffic)

    @classmethod
    def on(cls, spark: SparkSession) -> SparkEngine:
        """Give the engine of a session whose executors have this package."""
        ship(spark)
        return cls(spark)

    @property
    def results_travel(self) -> bool:
        """Whether executors are on other machines, as far as the master tells."""
        return not is_on_this_machine(self.spark)

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yield `function(part)` for each part, in the order of the parts.

        Raises:
            RmqtoolError: what the function raised.
            SparkFailed: executors were lost, again and again.
        """
        job = Job(self.spark, words_of(function))
        source = Grouped(parts)
        waiting: deque[Wave] = deque()
        with ExitStack() as running:
            spools = None
            if is_on_this_machine(self.spark):
                spools = running.enter_context(job_directory())
            pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="rmqtool-spark")
            running.callback(pool.shutdown, wait=True, cancel_futures=True)
            # Somebody may have stopped reading, or pressed Ctrl-C: nothing is to go on then.
            running.callback(_cancel, waiting, job)
            while True:
                while len(waiting) < AT_A_TIME:
                    wave = self._next_wave(source, spools)
                    if not wave.tasks:
                        break
                    count = len(wave.tasks)
                    spool = Spool(f"{spools}/{self.traffic.waves}") if spools else None
                    work = mapper(function, wave.tasks, spool)
                    future = pool.submit(self._run_wave, work, count, job)
                    waiting.append(Wave(wave, spool, future))
                    self.traffic.waves += 1
                    self.traffic.tasks += count
                if not waiting:
                    return
                yield from waiting[0].results()
                self._account(waiting.popleft())

    def shuffle(
        self,
        spread: Callable[[Sequence[Any], int], Iterator[list[tuple[int, bytes]]]],
        segments: Sequence[Any],
        gather: Callable[[Iterable[bytes]], bytes],
        advance: Callable[[int], None],
    ) -> tuple[list[bytes], list[bytes]]:
        """Bring blobs of many tasks to their writers, in the order of the segments.

        Args:
            spread: gives blobs of some segments, each with its writer's number, of which it is
                told how many there are; what is numbered below 0 comes back.
            segments: a task each, or some together where they are small.
            gather: takes the blobs of one writer; gives one in return.
            advance: told of bytes of the segments that are done, as the status tracker sees it.

        Returns:
            What came back, in order, and what `gather` gave.

        Raises:
            RmqtoolError: what a function raised.
            SparkFailed: executors were lost, again and again.
        """
        from pyspark.sql.functions import col

        spark = self.spark
        most = min(TASKS_A_CORE * cores(spark), LARGEST_WAVE)
        each = min(sum(map(length_of, segments)) / most, TASK_BYTES)
        tasks = grouped(segments, each)
        writers = min(WRITERS_A_CORE * cores(spark), LARGEST_WAVE)
        job = Job(spark, words_of(spread))
        with _settings(spark, SHUFFLING):
            spreading = spark.range(0, len(tasks), 1, max(len(tasks), 1))
            blobs = spreading.mapInArrow(spreader(spread, tasks, writers), BLOBS)
            brought = blobs.repartitionById(writers, col("number"))
            in_order = brought.sortWithinPartitions(col("task"), col("place"))
            written = in_order.mapInArrow(gatherer(gather), BLOBS)
            collected = self._follow(job, written, segments, advance)
            self.traffic.shuffled_bytes += collected.nbytes
        rows = sorted(
            zip(*(collected[name].to_pylist() for name in collected.column_names), strict=True)
        )
        for number, _, _, blob in rows:
            if number == ERROR:
                raise pickle.loads(blob)  # noqa: S301 - our own executors made it
        heads = [blob for number, _, _, blob in rows if number == TO_ALL]
        return heads, [blob for number, _, _, blob in rows if number == DONE]

    def _follow(
        self, job: Job, rows: DataFrame, segments: Sequence[Any], advance: Callable[[int], None]
    ) -> pa.Table:
        """Collect rows, and tell how far Spark is meanwhile."""
        total, reported = sum(map(length_of, segments)), 0
        with ThreadPoolExecutor(1, thread_name_prefix="rmqtool-spark") as pool:
            future = pool.submit(job.collect, rows)
            try:
                while not wait([future], POLL_SECONDS).done:
                    done, tasks = job.tasks_done()
                    part = total * done // tasks if tasks else 0
                    advance(max(part - reported, 0))
                    reported = max(part, reported)
            except BaseException:
                job.cancel()
                raise
            table = future.result()
        advance(total - reported)
        return table

    def _next_wave(self, source: Grouped[Part], spools: str | None) -> Assignment:
        limit = WAVE_BYTES if spools is None else SPOOLED_BYTES
        bytes_of_parts = int(limit / self.traffic.ratio(FIRST_RATIO))
        if spools is None:  # results are used when all are there: who is done early takes the next
            return source.wave(
                min(TASKS_A_CORE * cores(self.spark), LARGEST_WAVE), 1, bytes_of_parts
            )
        return source.wave(ROUNDS, cores(self.spark), bytes_of_parts)

    def _run_wave(self, work: Callable[..., Any], count: int, job: Job) -> pa.Table:
        return job.collect(self.spark.range(0, count, 1, count).mapInArrow(work, RESULTS))

    def _account(self, wave: Wave) -> None:
        traffic = self.traffic
        traffic.part_bytes += sum(length_of(piece) for task in wave.parts.tasks for piece in task)
        traffic.result_bytes += wave.seen
        in_memory = wave.seen if wave.spool is None else wave.largest
        traffic.largest_in_memory = max(traffic.largest_in_memory, in_memory)


def words_of(function: object) -> str:
    """Name a function over parts: by its module, or by that of its class."""
    named = getattr(function, "func", function)  # of a partial
    kind = named if isinstance(named, FunctionType) else type(named)
    return f"{kind.__module__.removeprefix('rmqtool.')} {kind.__qualname__}"


def _cancel(waiting: Iterable[Wave], job: Job) -> None:
    if any(not wave.job.done() for wave in waiting):
        job.cancel()


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings within the block."""
    before = {name: str(spark.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


# Give executors this package, so that a cluster needs only Python with its dependencies.
#
# What they lack of the dependencies is found out first, by a task of its own, and said in a line.
#
# What is sent is a zip whose `rmqtool/__init__.py` is `writing/executor_bootstrap.py`: kernels are
# compiled and kept per source file, so the package has to be in files on each executor, no zip.


PACKAGE: Final = Path(__file__).parents[1]
LEFT_OUT: Final = frozenset({"cli"})  # executors have nobody to talk to; `export` writes CSV
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same package gives the same bytes, so the same place
SHIM: Final = "writing/executor_bootstrap.py"
INNER: Final = "package.zip"  # as the shim calls it
# What executors import; pandas is for Spark's own half of `mapInArrow`.
NEEDED: Final = (
    *("construct", "isal", "llvmlite", "lz4", "mmh3", "numba"),
    *("numpy", "orjson", "pandas", "pyarrow", "zstandard"),
)
_shipped: set[str] = set()


def ship(spark: SparkSession) -> None:
    """Send this package to the executors of a session, once.

    Raises:
        EngineMissing: the Python of an executor lacks what it needs.
        SparkFailed: no executor ran a task.
    """
    if is_connect_session(spark):
        name = str(getattr(spark, "session_id", id(spark)))
    else:
        if is_on_this_machine(spark) and _is_this_python(spark):
            return  # its Python workers find what this process finds
        name = str(spark.sparkContext.applicationId)
    if name not in _shipped:
        spark.addArtifacts(package_file(), pyfile=True)
        _check(spark)
        _shipped.add(name)


def missing(_: int) -> str:
    """Say what the Python that runs this lacks of `NEEDED`; nothing when all is there."""
    return ", ".join(name for name in NEEDED if find_spec(name) is None)


def _is_this_python(spark: SparkSession) -> bool:
    """Whether workers run the Python of this process; a session of users takes `python3` else."""
    executable = shutil.which(spark.sparkContext.pythonExec)
    return executable is not None and os.path.abspath(executable) == os.path.abspath(sys.executable)  # noqa: PTH100 - a link tells a venv


def _check(spark: SparkSession) -> None:
    """Ask an executor for what it lacks: the job that needs it would fail with a stack.

    Raises:
        EngineMissing: it lacks something.
        SparkFailed: no executor ran a task.
    """
    from pyspark.sql.functions import udf

    # Neither pandas nor pyarrow is needed for a plain function.
    ask = udf(missing, "string", useArrow=False)
    with Job(spark, "what executors lack").running():
        (row,) = spark.range(0, 1, 1, 1).select(ask("id")).collect()
    if row[0]:
        needs = f"the packages that the executors' Python needs ({row[0]})"
        raise EngineMissing(needs=needs, install=INSTALL_THERE)


@cache
def package_file() -> str:
    """Write the zip for executors; give its path. Spark hands the file out while it runs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as outer:
        shim = (PACKAGE / SHIM).read_bytes()
        outer.writestr(zipfile.ZipInfo("rmqtool/__init__.py", EPOCH), shim)
        outer.writestr(zipfile.ZipInfo(f"rmqtool/{INNER}", EPOCH), _package())
    return put("rmqtool-shipped.zip", packed.getvalue())


def _package() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(PACKAGE.rglob("*.py")):
            relative = path.relative_to(PACKAGE)
            if relative.parts[0] not in LEFT_OUT:
                entry = zipfile.ZipInfo(f"rmqtool/{relative.as_posix()}", EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
