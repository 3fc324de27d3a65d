"""Plan and repair a large store with one bad record, beside a validation of the same store.

    python -m tests.bench.bench_repair [--gib 2] [--rounds 3]
    python -m tests.bench.bench_repair --linear [--mib 2]

Planning and validation are whole processes, from their start to their exit. Applying is the library
call alone, on a plan that is made already, in place, with its fsync: a process that plans and
repairs pays its start once. Each figure is the median of its rounds, warm; all take turns. The
store is a copy, so that the one that other benchmarks use stays as it is.

With --linear each harm of `tests.repair.test_linear` is planned for once, twice and four times the
log: instructions, where the processor counts them, else seconds of the processor.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rmqtool import repair
from rmqtool.store.place import Place
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tree import open_store
from tests import inflict
from tests.bench.store_builder import GIB, Spec, bench_store
from tests.repair.test_linear import HARMS, SEGMENT_BYTES, SEGMENTS, harmed

# ruff: noqa: T201 - a benchmark prints
MOST_TO_VALIDATE: Final = 1.2
MOST_TO_PLAN: Final = 0.3


def harm(store: Path) -> None:
    """Flip a bit of the body of a record in the middle of the log."""
    log = open_store(store).commitlog
    segment = log.segments[len(log) // 2]
    with LogReader(log) as reader:
        head = reader.first_from(segment, segment.size // 2)
    assert head is not None
    position = head.physical_offset - segment.start + head.size // 3
    inflict.flip_bits(Path(segment.place.location), position, 1)


def process(*arguments: str) -> Callable[[], float]:
    """Give what runs rmqtool as a process of its own, and tells the seconds."""

    def run() -> float:
        start = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "rmqtool", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode in {0, 1}
        return time.perf_counter() - start

    return run


def cost(*words: str) -> float:
    """Give what a process of rmqtool costs: millions of instructions, or seconds of a processor."""
    command = [sys.executable, "-m", "rmqtool", *words]
    counting = ["perf", "stat", "-x,", "-e", "instructions:u", *command]
    if shutil.which("perf"):
        done = subprocess.run(counting, capture_output=True, text=True, check=False)  # noqa: S603
        if counted := re.search(r"^(\d+),,instructions", done.stderr, re.MULTILINE):
            return int(counted[1]) / 1e6
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - our own program
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def linear(mib: float) -> None:
    """Print what plans cost for once, twice and four times the damage and the log."""
    first = round(mib * (1 << 20) / SEGMENTS / SEGMENT_BYTES)
    for name, harm in HARMS.items():
        with tempfile.TemporaryDirectory() as into:
            stores = [harmed(Path(into), harm, first * times) for times in (1, 2, 4)]
            costs = [
                cost("repair", str(store), "--broker-conf", str(conf)) for store, conf in stores
            ]
        ratios = ", ".join(f"{cost / costs[0]:.2f}" for cost in costs[1:])
        shown = ", ".join(f"{cost:.2f}" for cost in costs)
        print(f"{name:<28}{shown}: {ratios} times, for 2 and 4 times the log")


def main() -> None:
    """Measure all, side by side, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--linear", action="store_true", help="1, 2, 4 times the damage")
    parser.add_argument("--mib", type=float, default=2.0, help="of the smallest log, with --linear")
    options = parser.parse_args()
    if options.linear:
        linear(options.mib)
        return
    source = bench_store(Spec(total_bytes=int(options.gib * GIB)))
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        store = Path(name) / "store"
        subprocess.run(["cp", "-a", "--sparse=always", source, store], check=True)  # noqa: S603, S607
        harm(store)
        validate = process("validate", str(store))
        planning = process("repair", str(store))
        validate(), planning()
        plan = repair.plan(store)
        print(f"{len(plan.edits)} edits, {sum(edit.size for edit in plan.edits)} bytes")
        figures: dict[str, list[float]] = {"validate": [], "plan": [], "apply": [], "undo": []}
        for _ in range(options.rounds):
            figures["validate"].append(validate())
            figures["plan"].append(planning())
            start = time.perf_counter()
            repair.apply(plan, in_place=True)
            figures["apply"].append(time.perf_counter() - start)
            start = time.perf_counter()
            repair.undo(store)
            figures["undo"].append(time.perf_counter() - start)
        start = time.perf_counter()
        repair.apply(plan, Path(name) / "copy")
        copied = time.perf_counter() - start
        shutil.rmtree(Path(name) / "copy")
        size = open_store(Place.of(store).location).commitlog.size
    times = {key: statistics.median(values) for key, values in figures.items()}
    for key, seconds in times.items():
        print(f"{key:<10}{seconds:>7.2f} s")
    print(f"{'copy':<10}{copied:>7.2f} s (once; {size / copied / 1e9:.2f} GB/s)")
    print(f"plan is {times['plan'] / times['validate']:.2f}x validate (at most {MOST_TO_VALIDATE})")
    print(f"apply is {times['apply'] / times['plan']:.2f}x plan (at most {MOST_TO_PLAN})")


if __name__ == "__main__":
    main()
