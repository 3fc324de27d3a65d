"""Bulk commands on Spark, side by side with this process, in one run on one machine.

    python -m tests.bench.bench_spark [--gib 2] [--segment-mib 1024] [--rounds 3] [--cores 2]
    python -m tests.bench.bench_spark --memory 2 8
    python -m tests.bench.bench_spark --driver 2 8
    python -m tests.bench.bench_spark --bytes [--gib 2]
    python -m tests.bench.bench_spark --small [--gib 2] [--rounds 3]

Spark is `local[CORES]`, this process has as many threads. What is fixed is reported apart: the
start of Spark, and of its Python workers, which load the kernels; and what the same command takes
for a log of two segments of 64 KiB, warm, which is the start of its jobs. The times that are
compared hold that last part, and are given once more without it. Waiting for the disk (fsync) is
left out on both sides. Each figure is the median of its rounds, warm; rounds of both alternate.
Processor time counts Java and Python workers, too. `--memory` gives the driver's memory: the
largest resident set of a process of its own, for stores of several sizes; Java and workers are
others. `--driver` gives the bytes that come back to it where executors are on other machines, and
results do not go through files of this one; before is what `validate` sends where tasks leave
nothing out. Shuffle bytes are those of Spark's own status store. `--bytes` gives what a read takes
of files for each byte of the log, without options and with them: what executors do, without Spark.
`--small` counts the records of one log in segments of 1 GiB, and of the same in segments of 1 MiB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa

from rmqtool import engine, rebuild
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.reads import plan
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.readers import batches
from rmqtool.spark import register
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import FORWARDING, session
from rmqtool.store.place import metered
from tests.bench.processors import processor_seconds
from tests.bench.store_builder import GIB, Spec, bench_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB: Final = 1 << 20
TARGETS: Final = {"validate": 1.2, "rebuild-cq": 1.3}  # times this process
DRIVER_TARGET: Final = 1000  # bytes of results for each MiB of a log
SMALL_TARGET: Final = 1.5  # times the processors of large segments
SHUFFLE_TARGET: Final = 1.2  # times the bytes of the queues
SMALL: Final = Spec(total_bytes=128 << 10, segment_bytes=64 << 10, slots=100, entries=1000)
SMALL_WARMING: Final = 8  # rounds: Java goes on compiling what is in a query
WARMING: Final = 2  # rounds: files, workers, and what Java compiles
COMMANDS: Final = tuple(TARGETS)
FLAT: Final = 1.15
PEAK: Final = """
import sys
from rmqtool.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""


def large_store(gib: int, segment_bytes: int = GIB) -> tuple[Path, str]:
    """Give a store of any size, and what its broker.conf says of the index, one file as ever."""
    entries = max(Spec().entries, gib * GIB // 200)  # two keys for each record
    spec = Spec(total_bytes=gib * GIB, segment_bytes=segment_bytes, entries=entries)
    return bench_store(spec), f"maxHashSlotNum={spec.slots}\nmaxIndexNum={entries}\n"


def run_once(command: str, store: Path, jobs: int, conf: str = "") -> dict[str, float]:
    """Run a command here, with the engine that is chosen; give its time and what it counted."""
    with tempfile.TemporaryDirectory(dir=store.parent) as place:
        file = Path(place) / "broker.conf"
        file.write_text(conf)
        start = time.perf_counter()
        if command == "validate":
            findings = validate(ValidateOptions(store, jobs=jobs, broker_conf=file))
            found = sum(1 for _ in findings)
            seconds = time.perf_counter() - start
            return {"seconds": seconds, "findings": found, "units": findings.summary.account.units}
        result = rebuild.consume_queues(store, f"{place}/queues", jobs=jobs)
        seconds = time.perf_counter() - start - result.fsync_seconds
        shutil.rmtree(f"{place}/queues")
        return {"seconds": seconds, "units": result.units, "records": result.records}


class Taken(NamedTuple):
    """What the rounds of one engine took, seconds.

    Attributes:
        clock: by the clock.
        processors: by all processors, of all processes.
    """

    clock: list[float]
    processors: list[float]

    def take(self, function: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Run a round; give what it gives."""
        found: dict[str, float] = {}
        self.processors.append(processor_seconds(lambda: found.update(function())))
        self.clock.append(found["seconds"])
        return found


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
    parser.add_argument("--segment-mib", type=int, default=GIB // MIB)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--commands", nargs="+", default=COMMANDS, choices=COMMANDS)
    parser.add_argument("--memory", type=int, nargs="+", metavar="GIB")
    parser.add_argument("--driver", type=int, nargs="+", metavar="GIB")
    parser.add_argument("--bytes", action="store_true")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if asked.small:
        measure_small(asked)
        return
    if asked.bytes:
        measure_bytes(asked.gib)
        return
    if asked.memory:
        measure_memory(asked)
        return
    if asked.driver:
        measure_driver(asked)
        return
    store, conf = large_store(asked.gib, asked.segment_mib * MIB)
    start = time.perf_counter()
    spark = session(f"local[{asked.cores}]", options=FORWARDING)  # as commands start it
    report("start of Spark, s", time.perf_counter() - start)
    cluster = SparkEngine.on(spark)
    small = bench_store(SMALL)
    with engine.using(cluster):
        first = timed(lambda: run_once("validate", small, asked.cores))
    report("first tasks of Spark: workers load kernels, s", first)
    for command in asked.commands:
        measure(command, partial(run_once, command, store, asked.cores, conf), cluster, asked)
    largest = cluster.traffic.largest_in_memory / 1e6
    report("results in the driver's memory at a time, MB", largest)
    spark.stop()


def measure(
    command: str,
    run: Callable[[], dict[str, float]],
    cluster: SparkEngine,
    asked: argparse.Namespace,
) -> None:
    """Compare a command on both engines."""
    here, there, fixed = Taken([], []), Taken([], []), Taken([], [])
    small = bench_store(SMALL)
    for number in range(asked.rounds + WARMING):
        local = here.take(run)
        with engine.using(cluster):
            distant = there.take(run)
            fixed.take(lambda: run_once(command, small, asked.cores))
        same = {**local, "seconds": distant["seconds"]}
        assert same == distant, f"{same} is not {distant}"
        if number < WARMING:
            here, there, fixed = Taken([], []), Taken([], []), Taken([], [])
    report(f"{command}: this process, s", statistics.median(here.clock))
    report(f"{command}: Spark, s", statistics.median(there.clock))
    report(f"{command}: of it for a log of 128 KiB, s", statistics.median(fixed.clock))
    for what, one, other, small_one in zip(Taken._fields, there, here, fixed, strict=True):
        ratio = statistics.median(one) / statistics.median(other)
        report(f"{command}: times this process, by {what}", ratio, TARGETS[command])
        apart = (statistics.median(one) - statistics.median(small_one)) / statistics.median(other)
        report(f"{command}: the same by {what}, start of its jobs apart", apart)


def measure_bytes(gib: int) -> None:
    """Report what reads take of files, for each byte of the log."""
    store = bench_store(Spec(total_bytes=gib * GIB, topics=20))
    log = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    middle = log // 2
    for what, options, at_most in (
        ("no option", {}, None),
        ("1 MiB of offsets", {"offsets": f"{middle}:{middle + MIB}"}, 0.01),
        ("a limit of ten rows", {"limit": "10"}, 0.01),
    ):
        with metered() as meter:
            for batch in rows_of(store, **options):
                if "limit" in options and batch.num_rows >= int(options["limit"]):
                    break
        report(f"{what}: bytes for each byte of the log", meter.bytes / log, at_most)


def measure_small(asked: argparse.Namespace) -> None:
    """Compare small segments with large ones, by what counting their records takes."""
    spark = register(session(f"local[{asked.cores}]"))
    stores = {
        size: bench_store(Spec(total_bytes=asked.gib * GIB, segment_bytes=size))
        for size in (MIB, GIB)
    }
    taken = {size: Taken([], []) for size in stores}
    for number in range(asked.rounds + SMALL_WARMING):
        for size, store in stores.items():
            if number == SMALL_WARMING:
                taken[size] = Taken([], [])
            taken[size].take(partial(counted, spark, store))
    medians = [[statistics.median(one) for one in taken[size]] for size in stores]
    for size, found in zip(stores, medians, strict=True):
        for what, median in zip(Taken._fields, found, strict=True):
            report(f"counting in segments of {size >> 20} MiB, s by {what}", median)
    for what, small, large in zip(Taken._fields, *medians, strict=True):
        report(f"the first by the second, by {what}", small / large, SMALL_TARGET)
    spark.stop()


def counted(spark: SparkSession, store: Path) -> dict[str, float]:
    """Count the records of a store; give the time."""
    start = time.perf_counter()
    rows = spark.read.format("rocketmq").option("columns", "size,extent").load(str(store))
    count = rows.where("extent IS NULL").count()
    return {"seconds": time.perf_counter() - start, "records": count}


def rows_of(store: Path, **given: str) -> Iterator[pa.RecordBatch]:
    """Read a table as executors do, one task after the other."""
    asked = {"path": str(store), "columns": "topic,queue_offset,unique_key,keys", **given}
    options = SourceOptions.of(asked)
    for task in plan.tasks(options):
        yield from batches(task, options, options.columns or ())


def measure_memory(asked: argparse.Namespace) -> None:
    """Report what the driver takes for stores of several sizes."""
    for command in COMMANDS:
        found = [driver_memory(command, gib, asked.cores) for gib in asked.memory]
        for gib, peak in zip(asked.memory, found, strict=True):
            report(f"{command}: driver at {gib} GiB, MB", peak)
        report(f"{command}: the largest by that of the smallest store", max(found) / found[0], FLAT)


def measure_driver(asked: argparse.Namespace) -> None:
    """Report what comes back to the driver, as where executors are on other machines."""
    spark = session(f"local[{asked.cores}]", options=FORWARDING)
    for gib in asked.driver:
        store, conf = large_store(gib, asked.segment_mib * MIB)
        log = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
        for command, travels in (("validate", False), ("validate", True), ("rebuild-cq", True)):
            cluster = SparkEngine.on(spark)
            with (
                engine.using(cluster),
                patch("rmqtool.spark.engine.is_on_this_machine", return_value=False),
                patch("rmqtool.check.log.commitlog.results_travel", return_value=travels),
            ):
                before = shuffle_bytes(spark)
                units = run_once(command, store, asked.cores, conf)["units"]
                shuffled = shuffle_bytes(spark) - before
            count = cluster.traffic.result_bytes + cluster.traffic.shuffled_bytes
            what = f"{command} of {gib} GiB{'' if travels else ', before'}: bytes to the driver"
            report(what, count)
            bound = DRIVER_TARGET if travels else None
            report(f"{what}, for each MiB of the log", count / (log / MIB), bound)
            if shuffled:
                what = f"{command} of {gib} GiB: shuffle bytes for each byte of the queues"
                report(what, shuffled / (units * CQ_UNIT_SIZE), SHUFFLE_TARGET)
    spark.stop()


def driver_memory(command: str, gib: int, cores: int) -> float:
    """Give the largest resident set of a command's own process, MB."""
    store, said = large_store(gib)
    with tempfile.TemporaryDirectory(dir=store.parent) as place:
        conf = Path(place) / "broker.conf"  # else an index of unusual size cannot be read
        conf.write_text(said)
        arguments = [command, str(store), "--master", f"local[{cores}]", "--quiet"]
        arguments += ["--broker-conf", str(conf)]
        arguments += ["--output", f"{place}/queues"] if command != "validate" else []
        done = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-c", PEAK, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    return int(done.stderr.split()[-2]) / 1000


def report(what: str, value: float, at_most: float | None = None) -> None:
    """Print a figure."""
    verdict = "" if at_most is None else ("met" if value <= at_most else "missed")
    row = {"figure": what, "value": round(value, 3), "at_most": at_most, "verdict": verdict}
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
