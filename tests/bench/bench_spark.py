"""Bulk commands on Spark, side by side with this process, in one run on one machine.

    python -m tests.bench.bench_spark [--gib 2] [--rounds 3] [--cores 2]

Spark is `local[CORES]`, this process has as many threads. What is fixed (the start of Spark, and of
its Python workers, which load the kernels) is reported apart. Each figure is the median of its
rounds, warm; rounds of both alternate. Shuffle bytes are those that Spark's own status store
counts, the driver's memory is the largest resident set of this process, JVM and workers not
included.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool import engine, rebuild
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import FORWARDING, session
from tests.bench.store_builder import GIB, Spec, bench_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET: Final = 1.5  # times this process
SHUFFLE_TARGET: Final = 1.2  # times the bytes of the queues
SMALL: Final = Spec(total_bytes=64 << 10, queues=2, segment_bytes=64 << 10, slots=100, entries=1000)
WARMING: Final = 2  # rounds: files, workers, and what Java compiles
COMMANDS: Final = ("validate", "rebuild-cq")


def run_once(command: str, store: Path, jobs: int) -> dict[str, float]:
    """Run a command here, with the engine that is chosen; give its time and what it counted."""
    with tempfile.TemporaryDirectory(dir=store.parent) as place:
        start = time.perf_counter()
        if command == "validate":
            findings = validate(ValidateOptions(store, jobs=jobs))
            found = sum(1 for _ in findings)
            seconds = time.perf_counter() - start
            return {"seconds": seconds, "findings": found, "units": findings.summary.account.units}
        result = rebuild.consume_queues(store, f"{place}/queues", jobs=jobs)
        seconds = time.perf_counter() - start - result.fsync_seconds
        shutil.rmtree(f"{place}/queues")
        return {"seconds": seconds, "units": result.units, "records": result.records}


def shuffle_bytes(spark: SparkSession) -> int:
    """Give the bytes that all stages so far have written for a shuffle."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 - there is no other way
    gateway, java = context._gateway, context._jvm  # noqa: SLF001
    assert gateway is not None
    assert java is not None
    quantiles = gateway.new_array(java.double, 0)
    stages = store.stageList(None, False, False, quantiles, None)
    return sum(stages.apply(number).shuffleWriteBytes() for number in range(stages.size()))


def timed(function: Callable[[], object]) -> float:
    """Give the seconds that a function takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print JSON lines and a sentence for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--commands", nargs="+", default=COMMANDS, choices=COMMANDS)
    asked = parser.parse_args()
    store = bench_store(Spec(total_bytes=asked.gib * GIB))
    start = time.perf_counter()
    spark = session(f"local[{asked.cores}]", options=FORWARDING)  # as commands start it
    report("start of Spark, s", time.perf_counter() - start)
    cluster = SparkEngine.on(spark)
    small = bench_store(SMALL)
    with engine.using(cluster):
        first = timed(lambda: run_once("validate", small, asked.cores))
    report("first tasks of Spark: workers load kernels, s", first)
    for command in asked.commands:
        measure(command, store, cluster, asked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    report(f"peak memory of the driver at {asked.gib} GiB, MB", peak / 1e6)
    largest = cluster.traffic.largest_in_memory / 1e6
    report("results in the driver's memory at a time, MB", largest)
    spark.stop()


def measure(command: str, store: Path, cluster: SparkEngine, asked: argparse.Namespace) -> None:
    """Compare a command on both engines."""
    here: list[float] = []
    there: list[float] = []
    units, shuffled = 0.0, 0
    for number in range(asked.rounds + WARMING):
        local = run_once(command, store, asked.cores)
        before = shuffle_bytes(cluster.spark)
        with engine.using(cluster):
            distant = run_once(command, store, asked.cores)
        units, shuffled = local["units"], shuffle_bytes(cluster.spark) - before
        same = {**local, "seconds": distant["seconds"]}
        assert same == distant, f"{same} is not {distant}"
        if number >= WARMING:
            here.append(local["seconds"])
            there.append(distant["seconds"])
    ratio = statistics.median(there) / statistics.median(here)
    report(f"{command}: this process, s", statistics.median(here))
    report(f"{command}: Spark, s", statistics.median(there))
    report(f"{command}: times this process", ratio, TARGET)
    if command == "rebuild-cq":
        queues = units * CQ_UNIT_SIZE
        what = "rebuild-cq: shuffle bytes for each byte of the queues"
        report(what, shuffled / queues, SHUFFLE_TARGET)


def report(what: str, value: float, at_most: float | None = None) -> None:
    """Print a figure."""
    verdict = "" if at_most is None else ("met" if value <= at_most else "missed")
    row = {"figure": what, "value": round(value, 3), "at_most": at_most, "verdict": verdict}
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
