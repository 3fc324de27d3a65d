"""Plan and repair a large store with one bad record, beside a validation of the same store.

    python -m tests.bench.bench_repair [--gib 2] [--rounds 3]

Planning and validation are whole processes, from their start to their exit. Applying is the library
call alone, on a plan that is made already, in place, with its fsync: a process that plans and
repairs pays its start once. Each figure is the median of its rounds, warm; all take turns. The
store is a copy, so that the one that other benchmarks use stays as it is.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    """Measure all, side by side, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
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
