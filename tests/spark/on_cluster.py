"""Run all bulk commands on a cluster and write what they gave: a process of its own.

    python -m tests.spark.on_cluster MASTER DIRECTORY

A Spark context of another master cannot be in the process of the other tests. What is defined here
travels to executors as it is, as they know nothing of the tests.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rmqtool import engine, rebuild
from rmqtool.scan.join import Joinable, PerPart
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import session
from rmqtool.store.place import Place
from rmqtool.store.segment import SegmentPart
from tests.spark import results
from tests.spark.cluster import MODEST
from tests.spark.test_engine import SMALL, WHOLE, everything, wrapping
from tests.spark.variants import task_bytes

ASKED, HITS = "asked", "found"  # files in the directory: stores, results
QUICK = {f"spark.{one}.defaultJavaOptions": MODEST for one in ("driver", "executor")}
# Tasks that take longer than others are run a second time, by the other executor.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "100ms",
}
ASLEEP = 3600  # seconds; nobody waits so long


@dataclass(frozen=True)
class KillExecutor:
    """A per-part function that kills the JVM of its executor, once."""

    function: PerPart[Joinable]
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Kill, or work."""
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return self.function(part, start=start)
        daemon = os.getppid()  # pyspark's, which the executor has started
        status = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(status[1]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@dataclass(frozen=True)
class SleepOnce:
    """A per-part function that sleeps the first time that it is called, on whatever executor."""

    function: PerPart[Joinable]
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Sleep, or work."""
        with suppress(FileExistsError):
            self.marker.touch(exist_ok=False)
            time.sleep(ASLEEP)
        return self.function(part, start=start)


@dataclass(frozen=True)
class LoseOnOne:
    """A per-part function for which a segment is missing on the executor that asks for it first."""

    function: PerPart[Joinable]
    segment: str
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Work, on a segment that may not be there."""
        if part.segment.path != self.segment:
            return self.function(part, start=start)
        executor = str(os.getppid())
        try:
            with self.marker.open("x") as file:
                file.write(executor)
        except FileExistsError:
            pass
        if executor == self.marker.read_text():
            nowhere = part.segment._replace(place=Place("/no/such/segment"))
            part = part._replace(segment=nowhere)
        return self.function(part, start=start)


def where(_: object) -> str:
    """Say where an executor has this package from."""
    import rmqtool as package

    return str(package.__file__)


def put(name: str, value: object) -> None:
    """Replace something of a module."""
    module, _, attribute = name.rpartition(".")
    setattr(import_module(module), attribute, value)


def with_killed_executor(store: Path, directory: Path) -> dict[str, Any]:
    """Validate while an executor dies."""
    marker = directory / "killed"
    put("rmqtool.check.log.commitlog.run_joined", wrapping(lambda one: KillExecutor(one, marker)))
    found = results.validated(store, SMALL)
    return {"killed": found, "has killed": marker.exists()}


def with_sleeping_task(store: Path, directory: Path) -> dict[str, Any]:
    """Validate while a task sleeps: it ends only as Spark runs it a second time."""
    marker = directory / "sleeps"
    put("rmqtool.check.log.commitlog.run_joined", wrapping(lambda one: SleepOnce(one, marker)))
    found = results.validated(store, SMALL)
    return {"slept": found, "has slept": marker.exists()}


def with_lost_segment(store: Path, directory: Path) -> dict[str, Any]:
    """Validate and rebuild while one executor misses a segment."""
    lost = sorted((store / "commitlog").iterdir())[1]
    path = f"commitlog/{lost.name}"
    marker = directory / "lost"
    put(
        "rmqtool.check.log.commitlog.run_joined", wrapping(lambda one: LoseOnOne(one, path, marker))
    )
    found = results.validated(store, WHOLE)
    work = import_module("rmqtool.rebuild.work")
    derive = work.DerivePart
    marker = directory / "lost again"
    put("rmqtool.rebuild.work.DerivePart", lambda one: LoseOnOne(derive(one), path, marker))
    result = rebuild.consume_queues(store, directory / "partly")
    return {"lost": found, "partly": (result.lost, result.is_complete, result.records)}


def main(master: str, directory: Path) -> None:
    """Run everything on each store, with parts of a size; then what breaks on the first one."""
    asked: dict[tuple[str, int], Path] = pickle.loads((directory / ASKED).read_bytes())  # noqa: S301 - ours
    found: dict[str, object] = {}
    spark = session(master, log_file=str(directory / "driver.log"), options=QUICK)
    with engine.using(SparkEngine.on(spark)):
        found["where"] = next(iter(engine.run(where, [0])))
        for part_bytes in (WHOLE, SMALL):
            for module in results.PER_PART:
                put(f"{module}.PART_BYTES", part_bytes)
            for (name, size), store in asked.items():
                if size != part_bytes:
                    continue
                put("rmqtool.spark.tasks.TASK_BYTES", task_bytes(store, part_bytes))
                output = directory / f"{name}-{part_bytes}"
                found[output.name] = everything(store, output, part_bytes)
        first = next(iter(asked.values()))
        found |= with_killed_executor(first, directory)
        found |= with_lost_segment(first, directory)
    spark.stop()
    log = str(directory / "speculating.log")
    spark = session(master, log_file=log, options=QUICK | SPECULATION)
    with engine.using(SparkEngine.on(spark)):
        found |= with_sleeping_task(first, directory)
    (directory / HITS).write_bytes(pickle.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
