"""`rmqtool diff` of two equal stores against `cmp` of their commitlogs.

    python -m tests.bench.bench_diff [--rounds N]

2 GiB of 470-byte records and a copy, both in the page cache, whole processes by turns, A with B and
B with A. `cmp` reads both logs once, file by file; `diff` compares queues, index, offsets and
settings, too. It may take 1.3 times as long, on the clock; both use one disk cache and each its own
number of processors, so what they work is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.bench.store_builder import Spec, bench_store

# ruff: noqa: T201 - a benchmark prints
ROUNDS: Final = 5
LARGEST_RATIO: Final = 1.3
RMQTOOL: Final = (sys.executable, "-m", "rmqtool")
COMPARE: Final = 'for file in "$0"/commitlog/*; do cmp "$file" "$1/commitlog/${file##*/}"; done'


def spent(*command: str) -> tuple[float, float]:
    """Run a command; give the seconds on the clock and those of the processors."""
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - ours
    after = os.times()
    return time.perf_counter() - began, sum(after[2:4]) - sum(before[2:4])


def copy_of(store: Path) -> Path:
    """Give a copy that shares nothing with the store; holes stay holes."""
    copy = store.with_name(f"{store.name}-copy")
    if not copy.exists():
        growing = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.rmtree(growing, ignore_errors=True)
        words = ("cp", "--recursive", "--preserve", "--sparse=always", "--reflink=never")
        subprocess.run([*words, str(store), str(growing)], check=True)  # noqa: S603 - coreutils
        growing.rename(copy)
    return copy


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    store = bench_store(Spec())
    pair = str(store), str(copy_of(store))
    commands = {"cmp": ("sh", "-c", COMPARE), "diff": (*RMQTOOL, "diff")}
    for command in commands.values():
        spent(*command, *pair)  # warm
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds):
        stores = pair if number % 2 == 0 else pair[::-1]
        for name, command in commands.items():
            found[name].append(spent(*command, *stores))
    print(f"{'':12}{'clock s':>10}{'processors s':>14}")
    for name, taken in found.items():
        clock, processors = (
            statistics.median(command[which] for command in taken) for which in (0, 1)
        )
        print(f"{name:12}{clock:10.2f}{processors:14.2f}")
    by_clock, by_processors = (
        statistics.median(
            ours[which] / theirs[which]
            for ours, theirs in zip(found["diff"], found["cmp"], strict=True)
        )
        for which in (0, 1)
    )
    print(f"{'ratio':12}{by_clock:10.2f}{by_processors:14.2f}   at most {LARGEST_RATIO}")
    if by_clock > LARGEST_RATIO:
        sys.exit(1)


if __name__ == "__main__":
    main()
