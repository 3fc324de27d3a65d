"""`extract`, `rebuild-log` and `carve`, each beside a rival on the same bytes: speed and memory.

    python -m tests.bench.bench_messages [--gib 2] [--rounds 3] [--on /dev/shm] [--only carve ...]

Whole processes in turns, page cache warm; each writes a new file into an empty directory on the
file system of `--on`, which is removed between runs. `dump` writes bodies, too. `cp` says what it
takes to write the log at all. Carving is asked three times: of the segments of the store, all of
which are records and are written; of the same, but only where records lie; and of as many random
bytes, which hold none. The store is called `store`, as each line of an extract names it.

What `send` does with a window is measured by `bench_send`, to real brokers.

Ratios are held against their bars by the time of the processors, which other work on the machine
matters least to. A rate is the bytes of the log by the clock: it says something only of a machine
that is quiet, which the load that is printed tells.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from tests.bench.bench_validate import LOG, RMQTOOL, Figure, one_pass, process, running_crc
from tests.bench.store_builder import GIB, Spec, bench_directory, bench_store

# ruff: noqa: T201 - a benchmark prints
LARGEST_PEAK: Final = 400_000_000
LEAST_REBUILT: Final = 300e6  # bytes of log a second
LEAST_CARVED: Final = 2e9
CHUNK: Final = 1 << 24
KEEPS: Final = "rebuild-log, kept"
SEARCH: Final = "carve, a search"
NOISE: Final = "carve, no records"
KEEP: Final = ("--positions", "keep", "--queue-offsets", "keep")
# What `carve` does before it writes.
SEARCHES: Final = """
import sys
from contextlib import ExitStack
from rmqtool.carve.carving import Carved, Carving
from rmqtool.carve.options import CarveOptions
with ExitStack() as keep:
    carving = Carving(CarveOptions(tuple(sys.argv[1:]), "none.rmq"), keep)
    assert carving.search(Carved(carving.images)).size
"""
Contestants = dict[str, Callable[[], Figure]]


def noise(size: int) -> Path:
    """Give random bytes in a log's place, made when they are first wanted."""
    path = bench_directory() / f"noise-{size}" / "commitlog" / "image"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial, random = path.with_name("partial"), np.random.default_rng(1)
        with partial.open("wb") as file:
            for _ in range(0, size, CHUNK):
                file.write(random.bytes(CHUNK))
        partial.rename(path)
    return path


def contestants(store: Path, scratch: Path) -> Contestants:
    """Give everything that is measured, by name."""
    short = scratch / "store"
    short.symlink_to(store)
    segments = [str(path) for path in sorted((short / "commitlog").iterdir())]
    size = sum(os.path.getsize(path) for path in segments)  # noqa: PTH202 - they are texts

    def writes(*command: str, code: int = 0) -> Callable[[], Figure]:
        return lambda: written(command, scratch, code)

    rows = ("--format", "jsonl", "--body", "text")
    return {
        "dump": writes(*RMQTOOL, "dump", "../store", *rows, "--output", "rows.jsonl"),
        "extract": writes(*RMQTOOL, "extract", "../store", "--output", "rows.jsonl"),
        "cp": writes("cp", "-r", str(store / "commitlog"), "log"),
        "extract to .rmq": writes(*RMQTOOL, "extract", "../store", "--output", "all.rmq"),
        "rebuild-log": writes(*RMQTOOL, "rebuild-log", "../store", "--output", "new"),
        KEEPS: writes(*RMQTOOL, "rebuild-log", "../store", "--output", "new", *KEEP),
        "bare read": lambda: read(store, len),
        "zlib.crc32": lambda: read(store, running_crc(zlib.crc32)),
        "validate": lambda: process([*RMQTOOL, *LOG, str(store)]),
        "carve": writes(*RMQTOOL, "carve", *segments, "--output", "all.rmq"),
        SEARCH: lambda: process([sys.executable, "-c", SEARCHES, *segments]),
        NOISE: writes(*RMQTOOL, "carve", str(noise(size)), "--output", "all.rmq", code=1),
    }


def read(store: Path, take: Callable[[memoryview], object]) -> Figure:
    """Read the log in this process, and tell what its processor was busy with."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    wall = one_pass(store, take).wall
    after = resource.getrusage(resource.RUSAGE_SELF)
    return Figure(wall, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)


def written(command: Sequence[str], scratch: Path, code: int) -> Figure:
    """Run a command in a directory that is empty before and gone afterwards."""
    with tempfile.TemporaryDirectory(dir=scratch) as name, within(name):
        return process(command, code=code)


@contextmanager
def within(directory: str) -> Iterator[None]:
    """Stand in a directory; the package is still found where it was."""
    before = Path.cwd()
    os.environ["PYTHONPATH"] = str(before)
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def compare(figures: dict[str, Figure], name: str, rival: str) -> None:
    """Print how two compare, on the clock and by their processors."""
    figure, other = figures[name], figures[rival]
    said = f"{name}: {figure.wall / other.wall:.2f} times as long as {rival}"
    if other.user:
        said += f", {spent(figure) / spent(other):.2f} times the processor time"
    print(said)


def told(name: str, figure: Figure, size: int) -> str:
    """Put a figure into a line."""
    rate = size / figure.wall / 1e9
    return (
        f"{name:<18}{figure.wall:>7.2f} s{rate:>7.2f} GB/s, CPU {spent(figure):.2f} s, "
        f"peak {figure.memory / 1e6:.0f} MB"
    )


def spent(figure: Figure) -> float:
    """Give the seconds of the processors."""
    return figure.user + figure.system


def verdict(figures: dict[str, Figure], size: int) -> bool:
    """Print what was to be shown, and tell whether it is."""
    is_fine = True
    for name, rival in (
        ("extract", "dump"), ("extract to .rmq", "cp"), ("rebuild-log", "cp"), (KEEPS, "cp"),
        ("carve", "cp"), ("carve", "validate"), (SEARCH, "validate"), (NOISE, "validate"),
        (NOISE, "bare read"), (NOISE, "zlib.crc32"),
    ):  # fmt: skip
        if name in figures and rival in figures:
            compare(figures, name, rival)
    for name, rival in (("extract", "dump"), (SEARCH, "validate")):
        if {name, rival} <= figures.keys():
            ratio = spent(figures[name]) / spent(figures[rival])
            print(f"{name} by {rival}: {ratio:.2f} (target 1.00)")
            is_fine = is_fine and ratio <= 1
    for name, least in (
        ("rebuild-log", LEAST_REBUILT), (KEEPS, LEAST_REBUILT),
        (SEARCH, LEAST_CARVED), (NOISE, LEAST_CARVED),
    ):  # fmt: skip
        if name in figures:
            rate = size / figures[name].wall
            print(f"{name}: {rate / 1e6:.0f} MB/s (target {least / 1e6:.0f})")
            is_fine = is_fine and rate >= least
    peak = max(figure.memory for figure in figures.values())
    print(f"largest peak {peak / 1e6:.0f} MB (target {LARGEST_PEAK / 1e6:.0f})")
    return is_fine and peak < LARGEST_PEAK


def main() -> int:
    """Measure in turns and print; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--on", type=Path, default=None, help="where to write")
    parser.add_argument("--only", nargs="*", default=None, help="names, as they are printed")
    asked = parser.parse_args()
    total = int(asked.gib * GIB)
    store = bench_store(Spec(total_bytes=total, segment_bytes=min(total, GIB)))
    size = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    with tempfile.TemporaryDirectory(dir=asked.on or bench_directory()) as name:
        wanted = contestants(store, Path(name))
        wanted = {key: wanted[key] for key in asked.only or wanted}
        taken: dict[str, list[Figure]] = {key: [] for key in wanted}
        for _ in range(asked.rounds + 1):  # the first one compiles, and warms the page cache
            for key, run in wanted.items():
                taken[key].append(run())
                print(told(key, taken[key][-1], size), file=sys.stderr, flush=True)
    figures = {
        key: Figure(*(statistics.median(column) for column in zip(*rounds[1:], strict=True)))
        for key, rounds in taken.items()
    }
    for key, figure in figures.items():
        print(told(key, figure, size))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} processors")
    return 0 if verdict(figures, size) else 1


if __name__ == "__main__":
    sys.exit(main())
