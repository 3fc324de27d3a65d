"""Instructions that each command executes on a small store, beside another checkout.

    python -m tests.bench.bench_instructions --against TREE [NAME ...]

Seconds of the processor differ by a tenth from run to run; instructions, counted by valgrind,
by a thousandth, on a busy machine, too. All is compiled before: modules, and machine code by a run
that is not counted, as valgrind's processor is another one than the machine's. The exit code is 1
when a command that both trees have takes over 5 % more than in the other tree.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.bench.bench_start import COMMANDS, ROOT, STORE

# ruff: noqa: T201 - a benchmark prints
LARGEST_RATIO: Final = 1.05
VALGRIND: Final = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
)
COUNTED: Final = re.compile(r"I\s+refs:\s+([\d,]+)")
NOT_DONE: Final = 2
LEFT_OUT: Final = {"warm-up", "sql", "export"}  # what compiles, and what may start Java


def counted(tree: Path, command: str, above: Path) -> int | None:
    """Give the instructions of a command; None where the tree does not have it."""
    new = above / "new"
    paths = {"STORE": str(STORE), "NEW": str(new)}
    line = [
        command.split(maxsplit=1)[0],
        *(paths.get(word, word) for word in COMMANDS[command].split()),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    text = ""
    for _ in range(2):
        words = [*VALGRIND, sys.executable, "-P", "-m", "rmqtool", *line]
        done = subprocess.run(  # noqa: S603 - ourselves
            words, cwd=above, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode >= NOT_DONE:
            return None
        text = done.stderr
        if new.is_dir():
            shutil.rmtree(new)
        new.unlink(missing_ok=True)
    found = COUNTED.search(text)
    return int(found[1].replace(",", "")) if found else None


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these commands")
    parser.add_argument("--against", type=Path, required=True, help="another checkout")
    asked = parser.parse_args()
    worst = 0.0
    print(f"millions of instructions: here, {asked.against.name}, ratio")
    for command in COMMANDS:
        if command in LEFT_OUT or (asked.names and command not in asked.names):
            continue
        with tempfile.TemporaryDirectory() as above:
            here, there = (
                counted(tree, command, Path(above)) for tree in (ROOT, asked.against.resolve())
            )
        if here is None or there is None:
            print(f"{command:18} only {'there' if here is None else 'here'}")
            continue
        worst = max(worst, here / there)
        print(f"{command:18} {here / 1e6:8.0f} {there / 1e6:8.0f} {here / there:6.3f}", flush=True)
    return 0 if worst <= LARGEST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
