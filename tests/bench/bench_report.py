"""`rmqtool report` against `rmqtool validate`, and the size of the page.

    python -m tests.bench.bench_report [--rounds N]

2 GiB of 470-byte records, warm, whole processes, one after the other by turns. The report reads the
log in the same pass, so it may take half as long again and no more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# ruff: noqa: T201 - a benchmark prints
from tests.bench.store_builder import Spec, bench_store

ROUNDS: Final = 3
LARGEST_RATIO: Final = 1.5
LARGEST_PAGE: Final = 5 << 20
RMQTOOL: Final = (sys.executable, "-m", "rmqtool")


def spent(*arguments: str) -> tuple[float, float]:
    """Run a command; give the seconds on the clock and those of the processors."""
    began, before = time.perf_counter(), os.times()
    subprocess.run([*RMQTOOL, *arguments], check=True, capture_output=True)  # noqa: S603 - ours
    after = os.times()
    processors = sum(after[2:4]) - sum(before[2:4])
    return time.perf_counter() - began, processors


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    store = str(bench_store(Spec()))
    spent("validate", store)  # warm
    found: dict[str, list[tuple[float, float]]] = {"validate": [], "report": []}
    with tempfile.TemporaryDirectory() as place:
        for number in range(rounds):
            page = str(Path(place) / f"{number}.html")
            found["validate"].append(spent("validate", store))
            found["report"].append(spent("report", store, "--output", page))
        size = max(path.stat().st_size for path in Path(place).iterdir())
    clock, processors = (
        {name: statistics.median(pair[which] for pair in pairs) for name, pairs in found.items()}
        for which in (0, 1)
    )
    print(f"{'':12}{'clock s':>10}{'processors s':>14}")
    for name in found:
        print(f"{name:12}{clock[name]:10.2f}{processors[name]:14.2f}")
    by_clock = clock["report"] / clock["validate"]
    by_processors = processors["report"] / processors["validate"]
    print(f"{'ratio':12}{by_clock:10.2f}{by_processors:14.2f}   at most {LARGEST_RATIO}")
    print(f"page: {size} bytes, at most {LARGEST_PAGE}")
    if by_clock > LARGEST_RATIO or size > LARGEST_PAGE:
        sys.exit(1)


if __name__ == "__main__":
    main()
