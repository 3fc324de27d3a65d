"""Validate the same log with its queues in files, and in RocksDB: processor time and memory.

    python -m tests.bench.bench_rocksdb [--gib 2] [--rounds 3]

2 GiB are 4.5 million units. Processor time is that of the process and of the one that reads the
database, so that other work on the machine matters little; both take turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.bench_validate import FULL, RMQTOOL, Figure, process
from tests.bench.store_builder import GIB, Spec, bench_directory, bench_store

# ruff: noqa: T201 - a benchmark prints
LARGEST_RATIO: Final = 1.5
LARGEST_PEAK: Final = 400_000_000
QUEUES: Final = "consumequeue"


def in_rocksdb(store: Path) -> Path:
    """Give the same store with its queues in RocksDB, made when it is first wanted."""
    target = store.with_name(f"{store.name}-rocksdb")
    if target.exists():
        return target
    made = bench_directory() / "made"
    shutil.rmtree(made, ignore_errors=True)
    command = [*RMQTOOL, "rebuild-cq", str(store), "--as", "rocksdb", "--output", str(made)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ourselves
    partial = target.with_name(f"{target.name}-partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(
        store, partial, copy_function=os.link, ignore=lambda *_: {QUEUES}, symlinks=True
    )
    (made / QUEUES).rename(partial / QUEUES)
    partial.rename(target)
    return target


def validated(store: Path) -> Figure:
    """Validate a store whole."""
    return process([*RMQTOOL, *FULL, str(store)])


def main() -> int:
    """Measure both in turns; 1 when the ratio or the memory is more than was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    files = bench_store(Spec(total_bytes=int(asked.gib * GIB)))
    stores = {"files": files, "RocksDB": in_rocksdb(files)}
    taken: dict[str, list[Figure]] = {name: [] for name in stores}
    for _ in range(asked.rounds + 1):  # the first one compiles, and warms the page cache
        for name, store in stores.items():
            taken[name].append(validated(store))
    seconds, peaks = {}, {}
    for name, figures in taken.items():
        seconds[name] = statistics.median(figure.user + figure.system for figure in figures[1:])
        peaks[name] = max(figure.memory for figure in figures)
        print(f"{name:<8} CPU {seconds[name]:.2f} s, peak {peaks[name] / 1e6:.0f} MB")
    ratio = seconds["RocksDB"] / seconds["files"]
    print(f"ratio {ratio:.2f} (target {LARGEST_RATIO}); memory below {LARGEST_PEAK / 1e6:.0f} MB")
    return 0 if ratio <= LARGEST_RATIO and max(peaks.values()) < LARGEST_PEAK else 1


if __name__ == "__main__":
    sys.exit(main())
