"""Rebuild queues and index of a large store, side by side with a real broker that does the same.

    python -m tests.bench.bench_rebuild [--gib 2] [--rounds 3] [--versions 4.9.3 5.3.3]
    python -m tests.bench.bench_rebuild --gib 1 --queues 100000 --rocksdb --versions 5.5.1

Ours is the whole process, from its start to its exit; its fsync is reported apart, as a broker does
none. A broker's time is `load` and dispatch of a `DefaultMessageStore` on the same log without
queues and index, in two kinds of JVM (see `rival`). Each figure is the median of its rounds, warm;
rounds of both alternate. A broker holds each file of a queue open and mapped: of 100,000 queues
in files only one that may open as many files (`ulimit -n`) and map them (`vm.max_map_count`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from rmqtool.store.tree import open_store
from tests.bench.rival import JVMS, broker
from tests.bench.store_builder import GIB, Spec, bench_store

# ruff: noqa: T201 - a benchmark prints
Command = tuple[str, ...]
COMMANDS: Final[tuple[Command, ...]] = (("rebuild",), ("rebuild-cq",), ("rebuild-index",))
IN_ROCKSDB: Final[tuple[Command, ...]] = (("rebuild-cq", "--as", "rocksdb"),)
TOPICS: Final = 100  # that many queues are of
TARGETS: Final = {  # times the fastest path of a broker, by its version; with C1, see `rival`
    "rebuild": {"4.9.3": 5.0, "5.3.3": 12.0},
    "rebuild-cq": {"4.9.3": 8.0},
    "rebuild-index": {"4.9.3": 5.0},
}
WAITED: Final = re.compile(r"\(([0-9.]+) s of it waiting")


class Figure(NamedTuple):
    """What one run of ours took, in seconds and bytes."""

    wall: float
    fsync: float
    user: float
    system: float
    memory: int


def ours(command: Command, store: Path, output: Path) -> Figure:
    """Run a command as a process of its own."""
    program = (
        "import resource, subprocess, sys, json;"
        "done = subprocess.run([sys.executable, '-m', 'rmqtool', *sys.argv[1:]],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(json.dumps([done.stderr, used.ru_utime, used.ru_stime, used.ru_maxrss]))"
    )
    arguments = [*command, str(store), "--output", str(output)]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, check=True
    )
    wall = time.perf_counter() - start
    said, user, system, memory = json.loads(done.stdout)
    shutil.rmtree(output)
    found = WAITED.search(said)
    return Figure(wall, float(found[1]) if found else 0.0, user, system, memory << 10)


def median(figures: Sequence[Figure]) -> Figure:
    """Give the median of each column."""
    return Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))


def main() -> None:
    """Measure all, side by side, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="*", default=["4.9.3", "5.3.3"])
    parser.add_argument("--jvms", nargs="*", default=list(JVMS))
    parser.add_argument("--queues", type=int, help="instead of 160, of 100 topics")
    parser.add_argument("--rocksdb", action="store_true", help="queues in RocksDB")
    options = parser.parse_args()
    spec = Spec(total_bytes=int(options.gib * GIB))
    if options.queues:
        spec = replace(spec, topics=TOPICS, queues=options.queues // TOPICS)
    commands = IN_ROCKSDB if options.rocksdb else COMMANDS
    settings = {"storeType": "defaultRocksDB"} if options.rocksdb else {}
    store = bench_store(spec)
    size = open_store(store).commitlog.size
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        directory = Path(name)
        for command in commands:  # compiles, and warms the page cache
            ours(command, store, directory / "new")
        figures: dict[Command, list[Figure]] = {command: [] for command in commands}
        brokers: dict[tuple[str, str, bool], list[float]] = {}
        for _ in range(options.rounds):
            for command in commands:
                figures[command].append(ours(command, store, directory / "new"))
            for key in product(options.versions, options.jvms, (False, True)):
                version, kind, abort = key
                took = broker(
                    *(version, kind, (store, directory)),
                    abort=abort,
                    dispatches=True,
                    settings=settings,
                )
                brokers.setdefault(key, []).append(took.all)
    theirs = {key: statistics.median(times) for key, times in brokers.items()}
    for (version, kind, abort), seconds in theirs.items():
        print(f"broker {version}, {kind}{', with abort' if abort else '':<14}{seconds:>7.2f} s")
    for command, rounds in figures.items():
        figure = median(rounds)
        own = figure.wall - figure.fsync
        print(
            f"{command[0]:<15}{own:>6.2f} s + {figure.fsync:.2f} s fsync, CPU {figure.user:.2f} + "
            f"{figure.system:.2f} s, {int(figure.memory) >> 20} MB, {size / own / 1e9:.2f} GB/s"
        )
        for version, kind in product(options.versions, options.jvms):
            fastest = min(theirs[version, kind, abort] for abort in (False, True))
            is_asked = kind == "C1" and not options.queues
            target = TARGETS[command[0]].get(version) if is_asked else None
            asked = f" (target {target})" if target else ""
            print(f"    {fastest / own:.1f} times {version}, {kind}{asked}")


if __name__ == "__main__":
    main()
