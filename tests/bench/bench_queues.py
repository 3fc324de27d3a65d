"""What many queues cost: each command on the same bytes in few queues and in many.

    python -m tests.bench.bench_queues [--rounds N] [--queues N] [--rocksdb]

1 GiB of 470-byte records, spread at random over 100,000 queues and over 160, in files or in
RocksDB, warm, whole processes by turns, the least of each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

# ruff: noqa: T201 - a benchmark prints
from tests.bench.store_builder import GIB, Builder, Spec

ROUNDS: Final = 5
TOPICS: Final = 100
COMMANDS: Final = (
    ("info",),
    ("validate",),
    ("repair",),
    ("startup", "--broker-version", "5.3.3"),
    ("doctor",),
    ("rebuild", "--check"),
)
FEW: Final = Spec(total_bytes=GIB, segment_bytes=GIB // 4, queues=16)
REBUILD: Final = ("rebuild-cq", "--check")  # of RocksDB: it has no rebuild of all kinds
# The child is asked for its own peak: that of all children only grows.
PROGRAM: Final = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run([sys.executable, "-m", "rmqtool", *sys.argv[1:]], capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10)
"""


def spent(*words: str) -> tuple[float, float, float]:
    """Run a command; give seconds on the clock, of the processors, and MiB at most."""
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", PROGRAM, *words], check=True, capture_output=True, text=True
    )
    clock, processors, peak = map(float, done.stdout.split())
    return clock, processors, peak


class BuilderOfLogs(Builder):
    """Builds stores whose queues are written later."""

    def write_queues(self) -> None:
        """Write none."""


def build(store: Path, spec: Spec, *, in_rocksdb: bool) -> None:
    """Build a store."""
    if not in_rocksdb:
        Builder(store, spec).build()
        return
    BuilderOfLogs(store, spec).build()
    made = store.with_name(f"{store.name}-queues")
    words = ["rebuild-cq", str(store), "--as", "rocksdb", "--output", str(made), "--quiet"]
    with Path("/dev/null").open("wb") as nothing:
        run = [sys.executable, "-m", "rmqtool", *words]
        subprocess.run(run, check=True, stdout=nothing)  # noqa: S603 - ourselves
    (made / "consumequeue").rename(store / "consumequeue")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--rocksdb", action="store_true")
    asked = parser.parse_args()
    commands = [*COMMANDS[:-1], REBUILD] if asked.rocksdb else COMMANDS
    many = replace(FEW, topics=TOPICS, queues=asked.queues // TOPICS)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as room:
        stores = {"few": Path(room) / "few", "many": Path(room) / "many"}
        for name, spec in (("few", FEW), ("many", many)):
            build(stores[name], spec, in_rocksdb=asked.rocksdb)
        print(f"{'':20}{'160: s (CPU), MiB':>26}{asked.queues:>10,}: s (CPU), MiB{'times':>8}")
        for command, *options in commands:
            found: dict[str, list[tuple[float, float, float]]] = {"few": [], "many": []}
            for _ in range(asked.rounds):
                for name, store in stores.items():
                    found[name].append(spent(command, str(store), *options))
            least = {name: tuple(map(min, zip(*rows, strict=True))) for name, rows in found.items()}
            cells = [f"{a:.2f} ({b:.2f}), {c:.0f}" for a, b, c in least.values()]
            times = least["many"][0] / least["few"][0]
            print(f"{' '.join([command, *options[:1]]):20}{cells[0]:>26}{cells[1]:>27}{times:8.1f}")


if __name__ == "__main__":
    main()
