"""Compile every kernel that is not kept yet, several at a time: once, when rmqtool is installed."""

from __future__ import annotations

import functools
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.engine import default_jobs
from rmqtool.machine import announce, cache
from rmqtool.machine.cache import CacheDirectory, installed, own
from rmqtool.machine.compiled import PROBE, Kernel
from rmqtool.writing.private_place import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE: Final = Path(__file__).parents[1]
DECLARED: Final = b"\n@kernel("


@dataclass(frozen=True, slots=True)
class Ready:
    """What is compiled now."""

    kernels: int  # how many there are
    compiled: int  # how many of them were not kept there yet
    seconds: float  # how long that took
    place: str  # the directory in which they are kept


def warm_up(watch: Callable[[int, int], None] = lambda *_: None) -> Ready:
    """Compile what is not kept yet, and keep it.

    As root it is kept beside the modules, where every user finds it, if only root may write there;
    else in the user's own cache.

    Args:
        watch: takes how many kernels are done, and how many there are to do.

    Raises:
        NotKept: there is no place to keep anything.
    """
    begin = time.monotonic()
    place = cache.writable([installed(), *own()] if os.geteuid() == ROOT else own())
    known = _named()
    missing = [name for name, kernel in known.items() if cache.find(kernel.key, [place]) is None]
    if missing:
        announce.say(announce.COMPILING)  # once, and not in each process
    for number, _ in enumerate(_all_made(missing, place), 1):
        watch(number, len(missing))
    return Ready(len(known), len(missing), time.monotonic() - begin, place.path)


def kernels() -> Iterator[Kernel]:
    """Yield every kernel of the package."""
    yield PROBE
    for path in sorted(PACKAGE.rglob("*.py")):
        if DECLARED in path.read_bytes():
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            values = vars(import_module(name)).values()
            yield from (kernel for kernel in values if isinstance(kernel, Kernel))


def for_level(level: str, directory: str = "") -> None:
    """Compile all kernels for a level of processors.

    Args:
        level: a name of LEVELS.
        directory: takes them, for a wheel; of none they are put beside the modules.
    """
    place = CacheDirectory(directory, 0o755, 0o644) if directory else installed()
    for kernel in kernels():
        cache.keep(kernel.key_for(level), kernel.compile(level), [place])


@functools.cache
def _named() -> dict[str, Kernel]:
    return {kernel.key.name: kernel for kernel in kernels()}


def _all_made(names: list[str], place: CacheDirectory) -> Iterator[None]:
    """Make the kernels of these names, one for each processor at a time."""
    make = functools.partial(_make, place=place)
    jobs = min(default_jobs(), len(names))
    pool = _pool(jobs) if jobs > 1 else None
    if pool is None:
        yield from map(make, names)
        return
    try:
        yield from pool.map(make, names)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor | None:
    """Start processes; None where a system, such as one without /dev/shm, has no means for it."""
    try:
        return ProcessPoolExecutor(jobs, initializer=_ignore_interrupts)
    except OSError:
        return None


def _ignore_interrupts() -> None:
    """Let the process that waits for this one decide."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _make(name: str, place: CacheDirectory) -> None:
    """Compile a kernel, unless the user has it, and keep it."""
    kernel = _named()[name]
    made = cache.find(kernel.key, cache.places()) or kernel.compile()
    cache.keep(kernel.key, made, [place])
