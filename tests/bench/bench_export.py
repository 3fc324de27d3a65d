"""`rmqtool export` to Parquet against `rmqtool dump --format jsonl`, in bytes of the log a second.

    python -m tests.bench.bench_export [--gib 2] [--rounds 3]

Records of 470 bytes, warm, whole processes on all processors, medians of rounds in turn. Bytes are
those of the log that is read, not of what is written. What both take for a log of two segments of
64 KiB is left out of both: their start, that of Spark and of its workers. All columns are written,
and then the ones that analyses mostly use: Parquet is read by column, so few are asked for where
many rows are.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# ruff: noqa: T201 - a benchmark prints
from tests.bench.store_builder import GIB, Spec, bench_store

RMQTOOL: Final = (sys.executable, "-m", "rmqtool")
RECORD_BYTES: Final = 470
LEAST_RATIO: Final = 5.0
SMALL: Final = Spec(
    total_bytes=1 << 17,
    record_bytes=RECORD_BYTES,
    segment_bytes=1 << 16,
    queues=2,
    slots=100,
    entries=1000,
)
FEW: Final = "topic,queue_id,queue_offset,physical_offset,size,store_time,unique_key"


def run(*arguments: object) -> float:
    """Run a command, its rows thrown away; give the seconds."""
    began = time.perf_counter()
    command = [*RMQTOOL, *map(str, arguments)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - began


def export(store: Path, *arguments: object) -> tuple[float, int]:
    """Export into a new directory; give the seconds and the bytes of its files."""
    with tempfile.TemporaryDirectory(dir=store.parent) as above:
        output = Path(above) / "output"
        seconds = run("export", store, "--output", output, "--quiet", *arguments)
        size = sum(path.stat().st_size for path in output.rglob("*.parquet"))
        shutil.rmtree(output)
    return seconds, size


def main() -> int:
    """Measure and print; 1 when a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    total = asked.gib * GIB
    store = bench_store(Spec(total_bytes=total, record_bytes=RECORD_BYTES))
    small = bench_store(SMALL)
    run("dump", small, "--format", "jsonl")  # the kernels are compiled
    ratios = []
    for name, columns in (("all columns", ()), ("few columns", ("--columns", FEW))):
        taken: dict[str, list[float]] = {}
        size = 0
        for _ in range(asked.rounds):
            for what, one in (("start", small), ("whole", store)):
                dumped = run("dump", one, "--format", "jsonl", *columns)
                exported, size = export(one, *columns)
                taken.setdefault(f"dump {what}", []).append(dumped)
                taken.setdefault(f"export {what}", []).append(exported)
        median = {what: statistics.median(seconds) for what, seconds in taken.items()}
        dump = total / (median["dump whole"] - median["dump start"]) / 1e6
        rate = total / (median["export whole"] - median["export start"]) / 1e6
        ratios.append(rate / dump)
        print(
            f"{name}: dump {dump:.0f} MB/s; export {rate:.0f} MB/s beside its start of "
            f"{median['export start']:.2f} s, {size / 1e6:.0f} MB of Parquet: "
            f"{rate / dump:.1f} times"
        )
    return 0 if min(ratios) >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
