"""`rmqtool dump --format jsonl` against a plain construct loop, and its memory; starts, too.

    python -m tests.bench.bench_dump [--large]

1 GiB of 500-byte records, warm, whole processes. The loop parses each record with construct and
writes it with orjson, which is what a script of ten lines would do; it runs over the first records
only. `--large` adds 4 GiB, for which the peak memory must be the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

# ruff: noqa: T201 - a benchmark prints
import orjson

from rmqtool.formats import properties
from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from tests.bench.store_builder import GIB, Spec, bench_store

RECORD_BYTES: Final = 500
LOOPED: Final = 40_000
ROUNDS: Final = 3
LEAST_RATIO: Final = 10.0
LARGEST_PEAK: Final = 300 << 20
STARTS: Final = 11
LARGEST_START: Final = 1.5
BARE: Final = (sys.executable, "-c", "import typer, rich")
RMQTOOL: Final = (sys.executable, "-m", "rmqtool")


def construct_rate(segment: Path, record_bytes: int = RECORD_BYTES) -> float:
    """Give the records a second of the plain loop."""
    with segment.open("rb") as file:  # not all of it: a child's peak counts its parent's memory
        raw = file.read(LOOPED * record_bytes)
    position, count = 0, 0
    began = time.perf_counter()
    while position < len(raw):
        start = position + MESSAGE_PREFIX.size
        prefix = MESSAGE_PREFIX.struct.parse(raw[position:start])
        layout = middle_of(prefix.sys_flag)
        middle = layout.struct.parse(raw[start : start + layout.size])
        body_end = position + MESSAGE_PREFIX.size + layout.size + middle.body_length
        topic_end = body_end + 1 + raw[body_end]
        row = {name: prefix[name] for name in MESSAGE_PREFIX.positions}
        row |= {name: middle[name] for name in layout.positions if "address" not in name}
        row["topic"] = raw[body_end + 1 : topic_end].decode()
        end = position + prefix.total_size
        row["properties"] = properties.decode(raw[topic_end + 2 : end])
        orjson.dumps(row)
        position, count = end, count + 1
    return count / (time.perf_counter() - began)


def dump(store: Path) -> tuple[float, int]:
    """Give the seconds and the peak memory, in bytes, of one whole process."""
    began = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [*RMQTOOL, "dump", str(store), "--format", "jsonl"], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert 0 == status
    return time.perf_counter() - began, usage.ru_maxrss * 1024


def start(command: tuple[str, ...]) -> float:
    """Give the seconds of one start."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - began


def starts() -> bool:
    """Compare `--help` and `--version` with a bare import, in turns."""
    is_fine = True
    for option in ("--help", "--version"):
        pairs = [(start(BARE), start((*RMQTOOL, option))) for _ in range(STARTS)]
        bare, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{option}: {ours:.3f} s, bare imports {bare:.3f} s: {ours / bare:.2f} times")
        is_fine = is_fine and ours / bare <= LARGEST_START
    return is_fine


def main() -> int:
    """Measure and print; 1 when a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="4 GiB, too")
    asked = parser.parse_args()
    is_fine = starts()
    for gib in (1, 4) if asked.large else (1,):
        spec = Spec(total_bytes=gib * GIB, record_bytes=RECORD_BYTES)
        store = bench_store(spec)
        segment = min((store / "commitlog").iterdir())
        dump(store)  # warm, and the kernels are compiled
        rounds = [(construct_rate(segment), *dump(store)) for _ in range(ROUNDS)]
        loop, peak = max(one[0] for one in rounds), max(one[2] for one in rounds)
        seconds = min(one[1] for one in rounds)
        rate = spec.records / seconds
        print(
            f"{gib} GiB: {spec.records} records in {seconds:.2f} s, {rate:,.0f} a second, "
            f"{spec.total_bytes / seconds / 1e9:.2f} GB/s; construct {loop:,.0f} a second: "
            f"{rate / loop:.1f} times; peak {peak >> 20} MiB"
        )
        is_fine = is_fine and rate / loop >= LEAST_RATIO and peak < LARGEST_PEAK
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
