"""`rmqtool export` to Parquet against `rmqtool dump --format jsonl`, in bytes of the log a second.

    python -m tests.bench.bench_export [--gib 2]

Records of 470 bytes, warm, whole processes on all processors. What Spark takes to start is measured
with an export of a store of 64 KiB and left out. All columns are written, and then the ones that
analyses mostly use: Parquet is read by column, so few are asked for where many rows are.
"""

from __future__ import annotations

import argparse
import shutil
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
    asked = parser.parse_args()
    spec = Spec(total_bytes=asked.gib * GIB, record_bytes=RECORD_BYTES)
    store = bench_store(spec)
    small = bench_store(
        Spec(
            total_bytes=1 << 16,
            record_bytes=RECORD_BYTES,
            segment_bytes=1 << 16,
            queues=2,
            slots=100,
            entries=1000,
        )
    )
    run("dump", small, "--format", "jsonl")  # the kernels are compiled
    few = ("--columns", FEW)
    dumps = {"all columns": run("dump", store, "--format", "jsonl")}
    dumps["few columns"] = run("dump", store, "--format", "jsonl", *few)
    start, _ = export(small)
    print(f"start of Spark, and a store of 64 KiB: {start:.2f} s")
    ratios = []
    for name, columns in (("all columns", ()), ("few columns", few)):
        seconds, size = export(store, *columns)
        dump = spec.total_bytes / dumps[name] / 1e6
        rate = spec.total_bytes / (seconds - start) / 1e6
        ratios.append(rate / dump)
        print(
            f"{name}: dump {dump:.0f} MB/s; export {rate:.0f} MB/s ({seconds:.2f} s), "
            f"{size / 1e6:.0f} MB of Parquet: {rate / dump:.1f} times"
        )
    return 0 if min(ratios) >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
