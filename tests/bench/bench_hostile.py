"""Double what a store counts up, and see what a command then takes.

    python -m tests.bench.bench_hostile [--largest 4000] [--commands doctor diff] [--kinds holes]

`--largest 200000` shows what 15 minutes of a machine can. Each figure is of a whole process; CPU
seconds and memory are those beyond the same command on a store of one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.many import MANY

# ruff: noqa: T201 - a benchmark prints
STORE: Final = "{store}"  # once more
COMMANDS: Final = {
    "validate": ("validate", "--level", "quick"),
    "repair": ("repair",),
    "startup": ("startup", "--broker-version", "5.3.3"),
    "info": ("info",),
    "rebuild": ("rebuild", "--check"),
    "rebuild-cq": ("rebuild-cq", "--check"),
    "doctor": ("doctor",),
    "report": ("report",),
    "diff": ("diff", STORE),
}
CODES: Final = {0, 1, 3}
MOST: Final = 2.1  # times as much for twice the input; the rest is noise
LEAST_SECONDS: Final = 0.2  # below it a ratio says nothing
LEAST_BYTES: Final = 16 << 20
STEPS: Final = 3


class Figure(NamedTuple):
    """What a process took, in CPU seconds and bytes."""

    seconds: float
    memory: int


def process(command: Sequence[str], store: Path) -> Figure:
    """Run a command on a store."""
    others = [word.format(store=store) for word in command[1:]]
    arguments = [sys.executable, "-m", "rmqtool", command[0], str(store), *others, "--quiet"]
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in CODES, arguments
    return Figure(used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def is_linear(figures: Sequence[Figure]) -> bool:
    """Tell whether all doublings together took at most as many times as much, beyond nothing.

    A single doubling says little on a machine that does other things. Memory is compared by what
    the last two doublings added: what a process starts with is put to use by what follows.
    """
    base, first, *_, middle, last = figures
    most = MOST ** (len(figures) - 2)
    seconds = first.seconds - base.seconds, last.seconds - base.seconds
    added = middle.memory - figures[-3].memory, last.memory - middle.memory
    is_quick = seconds[1] <= most * max(seconds[0], LEAST_SECONDS)
    return is_quick and added[1] <= MOST * max(added[0], LEAST_BYTES)


def main() -> int:
    """Print a row for each kind of store and command; 1 when one of them is not linear."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=4000)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--kinds", nargs="+", choices=MANY, default=[*MANY])
    asked = parser.parse_args()
    sizes = [1, *(asked.largest >> step for step in reversed(range(STEPS)))]
    failed = False
    for kind in asked.kinds:
        with tempfile.TemporaryDirectory(prefix="rmqtool-many-") as top:
            stores = {size: Path(top) / str(size) for size in sizes}
            for size, store in stores.items():
                MANY[kind](store, size)
            for name in asked.commands:
                figures = [process(COMMANDS[name], store) for store in stores.values()]
                shown = ", ".join(
                    f"{size:,}: {figure.seconds:.2f} s, {figure.memory >> 20} MiB"
                    for size, figure in zip(sizes, figures, strict=True)
                )
                verdict = "linear" if is_linear(figures) else "MORE THAN LINEAR"
                failed |= verdict != "linear"
                print(f"{kind} | {name} | {shown} | {verdict}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
