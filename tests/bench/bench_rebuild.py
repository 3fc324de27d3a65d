"""Rebuild queues and index of a large store, side by side with a real broker that does the same.

    python -m tests.bench.bench_rebuild [--gib 2] [--rounds 3] [--versions 4.9.3 5.3.3]

Ours is the whole process, from its start to its exit; its fsync is reported apart, as a broker does
none. A broker's time is `load` and dispatch of a `DefaultMessageStore` on the same log without
queues and index, in a JVM that runs already, with all of its optimisations. Each figure is the
median of its rounds, warm; rounds of both alternate.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from rmqtool.store.tree import open_store
from tests.bench.store_builder import GIB, Spec, bench_store
from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm

COMMANDS: Final = ("rebuild", "rebuild-cq", "rebuild-index")
TARGETS: Final = {"rebuild": 5.0, "rebuild-cq": 8.0, "rebuild-index": 5.0}  # times 4.9.3
WAITED: Final = re.compile(r"\(([0-9.]+) s of it waiting")
SETTINGS: Final = {
    "mappedFileSizeCommitLog": GIB,
    "commitLogRecoverMaxNum": 1000,  # 5.4 and later dispatch the newest ten only
    "fileReservedTime": 500_000,  # hours
}
FAST: Final = ("-Xmx4g", "-XX:MaxDirectMemorySize=4g", "-XX:TieredStopAtLevel=4")


class Figure(NamedTuple):
    """What one run of ours took, in seconds and bytes."""

    wall: float
    fsync: float
    user: float
    system: float
    memory: int


def ours(command: str, store: Path, output: Path) -> Figure:
    """Run a command as a process of its own."""
    program = (
        "import resource, subprocess, sys, json;"
        "done = subprocess.run([sys.executable, '-m', 'rmqtool', *sys.argv[1:]],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(json.dumps([done.stderr, used.ru_utime, used.ru_stime, used.ru_maxrss]))"
    )
    arguments = [command, str(store), "--output", str(output)]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, check=True
    )
    wall = time.perf_counter() - start
    said, user, system, memory = json.loads(done.stdout)
    shutil.rmtree(output)
    found = WAITED.search(said)
    return Figure(wall, float(found[1]) if found else 0.0, user, system, memory << 10)


@contextmanager
def bare_log(store: Path, directory: Path, *, abort: bool) -> Iterator[Path]:
    """Give a store that has the log of another, by hard links, and nothing else."""
    root = directory / "broker"
    (root / "commitlog").mkdir(parents=True)
    for path in (store / "commitlog").iterdir():
        (root / "commitlog" / path.name).hardlink_to(path)
    if abort:
        (root / "abort").touch()
    try:
        yield root
    finally:
        shutil.rmtree(root)


def broker(version: str, store: Path, directory: Path, *, abort: bool) -> float:
    """Let a broker load the log and dispatch all of it; give the seconds."""
    with (
        bare_log(store, directory, abort=abort) as root,
        Jvm(version, directory / f"home-{version}", options=FAST) as jvm,
    ):
        bare = BareStore(jvm, root, SETTINGS)
        start = time.perf_counter()
        assert bare.load()
        bare.start()
        return time.perf_counter() - start


def median(figures: Sequence[Figure]) -> Figure:
    """Give the median of each column."""
    return Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))


def main() -> None:
    """Measure all, side by side, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="*", default=["4.9.3", "5.3.3"])
    options = parser.parse_args()
    store = bench_store(Spec(total_bytes=int(options.gib * GIB)))
    size = open_store(store).commitlog.size
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        directory = Path(name)
        for command in COMMANDS:  # compiles, and warms the page cache
            ours(command, store, directory / "new")
        figures: dict[str, list[Figure]] = {command: [] for command in COMMANDS}
        brokers: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for command in COMMANDS:
                figures[command].append(ours(command, store, directory / "new"))
            for version in options.versions:
                for abort in (False, True):
                    key = f"{version}{' with abort' if abort else ''}"
                    took = broker(version, store, directory, abort=abort)
                    brokers.setdefault(key, []).append(took)
    theirs = {key: statistics.median(times) for key, times in brokers.items()}
    for key, seconds in theirs.items():
        print(f"{'broker ' + key:<24}{seconds:>7.2f} s")  # noqa: T201
    for command, rounds in figures.items():
        one = median(rounds)
        own = one.wall - one.fsync
        ratios = "  ".join(f"{seconds / own:.1f}x {key}" for key, seconds in theirs.items())
        print(  # noqa: T201
            f"{command:<24}{own:>7.2f} s + {one.fsync:.2f} s fsync, CPU {one.user:.2f} + "
            f"{one.system:.2f} s, {int(one.memory) >> 20} MB, {size / own / 1e9:.2f} GB/s; "
            f"{ratios} (target {TARGETS[command]}x 4.9.3)"
        )


if __name__ == "__main__":
    main()
