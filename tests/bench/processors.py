"""Processor time of a process and those that it starts: a busy machine hardly changes it."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

PR_SET_CHILD_SUBREAPER: Final = 36
PATIENCE: Final = 60.0  # seconds, for processes that outlive a command
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(function: Callable[[], object]) -> float:
    """Give the processor time that a function takes, here and in processes that still run."""
    before = _sum()
    function()
    return _sum() - before


def _sum() -> float:
    """Add up user and system time, ended children of each included."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        seconds[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    total, left = 0.0, [os.getpid()]
    while left:
        one = left.pop()
        total += seconds.get(one, 0.0)
        left += children.get(one, [])
    return total


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: exit code.
        processor: seconds of all processes that it started.
        wall: seconds until it ended itself.
    """

    code: int
    processor: float
    wall: float


def run_to_end(
    words: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command, and wait for what it leaves running, such as Java."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own = _own_processes()  # such as the one that multiprocessing keeps
    before, began = _children(), time.perf_counter()
    done = subprocess.run(  # noqa: S603 - ourselves
        words, cwd=cwd, env=environment, capture_output=True, check=False
    )
    wall = time.perf_counter() - began
    end = time.monotonic() + PATIENCE
    with suppress(ChildProcessError):
        while time.monotonic() < end and (left := _own_processes() - own):
            if not any(os.waitpid(process, os.WNOHANG)[0] for process in left):
                time.sleep(0.05)
    return Ended(done.returncode, _children() - before, wall)


def _own_processes() -> set[int]:
    """Give the processes that are children of this one."""
    own = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                own.add(int(entry.name))
    return own


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
