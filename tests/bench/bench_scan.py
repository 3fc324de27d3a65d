"""How fast a commitlog is scanned, beside what the machine can do: GB/s, all in one run.

    python -m tests.bench.bench_scan [--gib 2] [--jobs 2] [--rounds 3]

Each line is the median of its rounds, warm. `CPU` is the processor time of all threads for one GiB:
it tells more than the rate on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np
from isal.isal_zlib import crc32 as isal_crc32

from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.engine import run
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, DEFAULT_FILE_LENGTH
from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan
from rmqtool.scan.window import DEFAULT_WINDOW_BYTES
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from tests.bench.store_builder import GIB, Spec, bench_store

if TYPE_CHECKING:
    from rmqtool.store.segment import SegmentPart

PART_BYTES: Final = 64 << 20
RUN_UNITS: Final = DEFAULT_FILE_LENGTH // CQ_UNIT_SIZE
Work = Callable[["SegmentPart"], int]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one stage took: the median of its rounds.

    Attributes:
        rate: GB/s.
        cpu: processor seconds a GiB.
        count: what the stage counted, to show that it did its work.
    """

    rate: float
    cpu: float
    count: int


def read_only(part: SegmentPart) -> int:
    """Read with `preadv` into one buffer."""
    buffer = np.empty(DEFAULT_WINDOW_BYTES, np.uint8)
    position = part.begin
    with part.segment.open() as file:
        while position < part.end:
            position += file.read_into(buffer[: part.end - position].data, position)
    return part.length


def summed(function: Callable[[memoryview], int], part: SegmentPart) -> int:
    """Read and sum all bytes."""
    buffer = np.empty(DEFAULT_WINDOW_BYTES, np.uint8)
    position = part.begin
    with part.segment.open() as file:
        while position < part.end:
            count = file.read_into(buffer[: part.end - position].data, position)
            function(buffer[:count].data)
            position += count
    return part.length


def scanned(options: ScanOptions, part: SegmentPart) -> int:
    """Scan and count records."""
    return sum(batch.count for batch in scan(part, options))


def derived(options: DeriveOptions, part: SegmentPart) -> int:
    """Derive and count units and index entries."""
    runs = derive(part, options)
    return len(runs.queues.units) + len(runs.index)


def stages(window_bytes: int) -> dict[str, Work]:
    """Give what is measured, by name."""
    options = partial(ScanOptions, window_bytes=window_bytes)
    run_options = DeriveOptions(run_units=RUN_UNITS, scan=options(body_crc=False))
    checked = DeriveOptions(run_units=RUN_UNITS, scan=options(body_crc=True))
    walked = options(body_crc=False, texts=False)
    return {
        "bare read": read_only,
        "zlib.crc32": partial(summed, crc32),
        "isal crc32": partial(summed, isal_crc32),
        "walk, headers": partial(scanned, walked),
        "+ body CRC": partial(scanned, options(texts=False)),
        "+ topics, properties": partial(scanned, options()),
        "+ index keys": partial(scanned, options(keys=True)),
        "all with runs": partial(derived, checked),
        "all, runs, no CRC": partial(derived, run_options),
        "CRC by tables": partial(scanned, options(texts=False, crc_by_tables=True)),
    }


def measure(work: Work, log: list[SegmentPart], jobs: int, rounds: int) -> Figure:
    """Run one stage over the log a few times."""
    size = sum(part.length for part in log)
    walls, cpus, count = [], [], 0
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        count = sum(run(work, log, jobs=jobs))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Figure(
        size / statistics.median(walls) / 1e9, statistics.median(cpus) * GIB / size, count
    )


def main() -> None:
    """Measure all stages, side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window-bytes", type=int, default=DEFAULT_WINDOW_BYTES)
    parser.add_argument("--only", default="", help="stages whose name contains this")
    options = parser.parse_args()
    store = open_store(bench_store(Spec(total_bytes=int(options.gib * GIB))))
    log = parts(store.commitlog, PART_BYTES)
    sum(map(read_only, log))  # now it is warm
    print(f"{'stage':<24}{'GB/s':>8}{'CPU s/GiB':>12}{'of read':>10}{'of zlib':>10}")  # noqa: T201
    base: dict[str, float] = {}
    for name, work in stages(options.window_bytes).items():
        if options.only not in name and len(base) > 1:
            continue
        figure = measure(work, log, options.jobs, options.rounds)
        base[name] = figure.rate
        print(  # noqa: T201
            f"{name:<24}{figure.rate:>8.2f}{figure.cpu:>12.3f}"
            f"{figure.rate / base['bare read']:>9.2f}x"
            f"{figure.rate / base.get('zlib.crc32', figure.rate):>9.2f}x   {figure.count}"
        )


if __name__ == "__main__":
    main()
