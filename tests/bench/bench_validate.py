"""Validate a large store, side by side with what reads or checks the same bytes.

    python -m tests.bench.bench_validate [--gib 2] [--rounds 3] [--versions 4.9.3 5.3.3] [--cold]
    python -m tests.bench.bench_validate --memory [--gib 2] [--topics 98 --queues 512]

Ours is the whole process, from its start to its exit. A broker's time is `load` of a
`DefaultMessageStore` on the same log without queues and index, which checks the CRC of each body
and nothing else, in two kinds of JVM that run already (see `rival`). The fixed start is the
same command on a store of a few records; the bare imports are those that no checker in Python with
compiled kernels can avoid. Each figure is the median of its rounds, warm; all take turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from isal import isal_zlib

from rmqtool.store.tree import open_store
from tests.bench.rival import JVMS, broker
from tests.bench.store_builder import GIB, Spec, bench_directory, bench_store

# ruff: noqa: T201 - a benchmark prints
RMQTOOL: Final = (sys.executable, "-m", "rmqtool")
FULL: Final = ("validate", "--level", "full")
LOG: Final = ("validate", "--only", "commitlog")
IMPORTS: Final = ("-c", "import numpy, numba, typer")
NO_BYTE_CODE: Final = "PYTHONDONTWRITEBYTECODE"
PIECE: Final = 1 << 20
TINY: Final = Spec(total_bytes=1 << 16, segment_bytes=1 << 16, queues=2, slots=100, entries=1000)
TARGETS: Final = {"4.9.3": 3.0, "5.3.3": 12.0}  # times a broker's rate, with C1, see `rival`
LEAST_ZLIB: Final = 2.5
LARGEST_PEAK: Final = 400 << 20
LARGEST_OF_REBUILD: Final = 500 << 20
FEW_FILES: Final = 256


class Figure(NamedTuple):
    """What one run took, in seconds and bytes."""

    wall: float
    user: float = 0.0
    system: float = 0.0
    memory: int = 0


def process(command: Sequence[str], *, code: int = 0) -> Figure:
    """Run a process from its start to its exit, with the code that is expected of it."""
    began = time.perf_counter()
    child = subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_as_installed()
    )
    _, status, used = os.wait4(child.pid, 0)
    assert code == os.waitstatus_to_exitcode(status), command
    wall = time.perf_counter() - began
    return Figure(wall, used.ru_utime, used.ru_stime, used.ru_maxrss << 10)


def _as_installed() -> dict[str, str]:
    """Give an environment in which modules are compiled once, as an installer does."""
    kept = {name: value for name, value in os.environ.items() if name != NO_BYTE_CODE}
    return {**kept, "PYTHONPYCACHEPREFIX": str(bench_directory() / "pycache")}


def one_pass(store: Path, take: Callable[[memoryview], object]) -> Figure:
    """Read the log with one thread and hand over each piece."""
    buffer = bytearray(PIECE)
    view = memoryview(buffer)
    began = time.perf_counter()
    for path in sorted((store / "commitlog").iterdir()):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                take(view[:count])
    return Figure(time.perf_counter() - began)


def running_crc(function: Callable[[memoryview, int], int]) -> Callable[[memoryview], None]:
    """Give a checksum that goes on from piece to piece."""
    state = [0]

    def take(piece: memoryview) -> None:
        state[0] = function(piece, state[0])

    return take


def load(version: str, kind: str, where: tuple[Path, Path]) -> Figure:
    """Let a broker load the log."""
    return Figure(broker(version, kind, where, abort=False, dispatches=False).load)


def forget(store: Path) -> None:
    """Drop the store's files from the page cache, as far as the system does as it is told."""
    for path in store.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def contestants(
    store: Path, directory: Path, versions: Sequence[str]
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Give everything that is measured, by name."""
    tiny = bench_store(TINY)
    yield "bare read", lambda: one_pass(store, len)
    yield "zlib.crc32", lambda: one_pass(store, running_crc(zlib.crc32))
    yield "isal crc32", lambda: one_pass(store, running_crc(isal_zlib.crc32))
    yield "bare imports", lambda: process([sys.executable, *IMPORTS])
    yield "start, log", lambda: process([*RMQTOOL, *LOG, str(tiny)])
    yield "start, full", lambda: process([*RMQTOOL, *FULL, str(tiny)])
    yield "--only commitlog", lambda: process([*RMQTOOL, *LOG, str(store)])
    yield "--level full", lambda: process([*RMQTOOL, *FULL, str(store)])
    for version, kind in product(versions, JVMS):
        yield f"load {version}, {kind}", partial(load, version, kind, (store, directory))


def median(figures: Sequence[Figure]) -> Figure:
    """Give the median of each column."""
    return Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))


def show(name: str, figure: Figure, size: int) -> None:
    """Print one line."""
    line = f"{name:<20}{figure.wall:>8.2f} s{size / figure.wall / 1e9:>8.2f} GB/s"
    if figure.memory:
        line += (
            f", CPU {figure.user:.2f} + {figure.system:.2f} s, peak {figure.memory >> 20:.0f} MiB"
        )
    print(line)


def verdicts(figures: dict[str, Figure], versions: Sequence[str]) -> bool:
    """Print what was to be shown, and tell whether it is."""
    is_fine = True
    full = figures["--level full"].wall
    for version, kind in product(versions, JVMS):
        ratio = figures[f"load {version}, {kind}"].wall / full
        target = TARGETS.get(version, 0.0) if kind == "C1" else 0.0
        asked = f" (target {target})" if target else ""
        print(f"--level full: {ratio:.1f} times the rate of load {version}, {kind}{asked}")
        is_fine = is_fine and ratio >= target
    beyond = figures["--only commitlog"].wall - figures["start, log"].wall
    ratio = figures["zlib.crc32"].wall / beyond
    print(
        f"--only commitlog beyond its start: {beyond:.2f} s, {ratio:.1f} times zlib.crc32 "
        f"(target {LEAST_ZLIB})"
    )
    peak = max(figure.memory for figure in figures.values())
    print(f"largest peak: {int(peak) >> 20} MiB (target {LARGEST_PEAK >> 20})")
    return is_fine and ratio >= LEAST_ZLIB and peak < LARGEST_PEAK


def speed(store: Path, rounds: int, versions: Sequence[str], *, cold: bool) -> bool:
    """Measure all, side by side."""
    size = open_store(store).commitlog.size
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        all_of_them = dict(contestants(store, Path(name), versions))
        process([*RMQTOOL, *FULL, str(store)])  # compiles, and warms the page cache
        process([*RMQTOOL, *LOG, str(store)])
        taken: dict[str, list[Figure]] = {}
        for _ in range(rounds):
            for key, run in all_of_them.items():
                taken.setdefault(key, []).append(run())
    figures = {key: median(rounds) for key, rounds in taken.items()}
    for key, figure in figures.items():
        show(key, figure, size)
    if cold:
        for key in ("bare read", "--only commitlog", "--level full"):
            forget(store)
            show(f"cold {key}", all_of_them[key](), size)
    return verdicts(figures, versions)


def memory(store: Path, entries: int, size: int) -> bool:
    """Measure the peak memory alone: of validate, and of rebuild with few open files."""
    is_fine = True
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        conf, output = Path(name, "broker.conf"), Path(name, "rebuilt")
        # One index file for all keys is longer than any that a broker makes by itself.
        conf.write_text(f"maxHashSlotNum={Spec().slots}\nmaxIndexNum={entries}\n")
        common = [str(store), "--broker-conf", str(conf)]
        for options in (FULL, LOG):
            figure = process([*RMQTOOL, *options, *common])
            show(" ".join(options[1:]), figure, size)
            is_fine = is_fine and figure.memory < LARGEST_PEAK
        with open_files(FEW_FILES):
            figure = process([*RMQTOOL, "rebuild", *common, "--output", str(output)])
        show("rebuild", figure, size)
    return is_fine and figure.memory < LARGEST_OF_REBUILD


@contextmanager
def open_files(count: int) -> Iterator[None]:
    """Let the processes that are started within have so many open files at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main() -> int:
    """Measure and print; 1 when a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--topics", type=int, default=Spec().topics)
    parser.add_argument("--queues", type=int, default=Spec().queues)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="*", default=list(TARGETS))
    parser.add_argument("--cold", action="store_true", help="once more with an empty page cache")
    parser.add_argument("--memory", action="store_true", help="peak memory only, of rebuild, too")
    asked = parser.parse_args()
    total = int(asked.gib * GIB)
    entries = max(Spec().entries, total // 200)  # two keys for each record, in one file
    store = bench_store(
        Spec(total_bytes=total, topics=asked.topics, queues=asked.queues, entries=entries)
    )
    if asked.memory:
        is_fine = memory(store, entries, open_store(store).commitlog.size)
    else:
        is_fine = speed(store, asked.rounds, asked.versions, cold=asked.cold)
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
