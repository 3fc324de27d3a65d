"""Processor time of each command's first run on a machine, and of its start from then on.

    python -m tests.bench.bench_start [--against TREE] [--rounds 5] [--spark] [NAME ...]

Each command works on a small store, so that what is fixed is all there is: Python, imports, and at
a first run the compiler. Three runs are told apart: the first one on a machine where nothing is
compiled, the first one after `rmqtool warm-up`, and the second one. Seconds are those of the
processor, of all processes that a command starts, and the median of rounds but for the first. With
`--against` another checkout runs beside this one, such as one of an older release; a command that
it does not have is left out there. `--spark` adds what starts Java.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.processors import run_to_end

# ruff: noqa: T201 - a benchmark prints

ROOT: Final = Path(__file__).parents[2]
STORE: Final = ROOT / "fixtures" / "rocketmq-5.3.3-traffic" / "store"
COMMANDS: Final = {
    "--version": "",
    "help": "validate",
    "completion": "bash",
    "info": "STORE",
    "query": "STORE --at 0",
    "query --no-scan": "STORE --topic traffic-orders --queue 1 --queue-offset 3",
    "dump": "STORE --as commitlog",
    "startup": "STORE --broker-version 5.3.3",
    "validate": "STORE",
    "doctor": "STORE",
    "diff": "STORE STORE",
    "report": "STORE --output NEW",
    "repair": "STORE --dry-run",
    "rebuild": "STORE --dry-run",
    "rebuild-cq": "STORE --dry-run",
    "rebuild-index": "STORE --dry-run",
    "extract": "STORE --output NEW",
    "export": "STORE --output NEW --engine local",
    "sql": "STORE --views",
    "warm-up": "",
}
ON_SPARK: Final = {"sql (a question)": "STORE 'SELECT count(*) FROM messages'"}
WARM_UP: Final = "warm-up"
NOT_DONE: Final = 2
# Machine code is kept in the home that the system knows of a user, whatever HOME says: it is moved.
START: Final = """
import os, pwd, sys
known = pwd.getpwuid
def moved(number):
    one = known(number)
    return pwd.struct_passwd((*one[:5], os.environ["HOME"], *one[6:]))
pwd.getpwuid = moved
sys.path.insert(0, os.environ["TREE"])
from rmqtool.cli.main import main
sys.exit(main())
"""


class Seconds(NamedTuple):
    """Of the processor; None where a tree cannot do it.

    Attributes:
        first: nothing is compiled.
        warmed: the first run after `rmqtool warm-up`.
        second: what the command itself needs is compiled.
    """

    first: float | None
    warmed: float | None
    second: float | None

    def __str__(self) -> str:
        return " ".join("    -" if one is None else f"{one:5.2f}" for one in self)


class Machine:
    """A tree as if it were installed on a machine of its own, with a home of its own."""

    def __init__(self, checkout: Path, above: Path) -> None:
        self._tree, self._home = above / "tree", above / "home"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / "rmqtool", self._tree / "rmqtool", ignore=ignored)
        compileall.compile_dir(self._tree, quiet=1)  # as an installer does
        self._start = above / "start.py"
        self._start.write_text(START, encoding="utf-8")
        self._above = above

    def forget(self) -> None:
        """Take away what was compiled."""
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir()
        for directory in self._tree.rglob("__pycache__"):
            for path in directory.iterdir():
                if path.is_dir():  # of machine code; modules are files
                    shutil.rmtree(path)

    def run(self, command: str, given: str) -> float | None:
        """Run a command to its end; give the seconds, or None where the tree cannot do it."""
        new = self._above / "new"
        paths = {"STORE": str(STORE), "NEW": str(new)}
        line = [
            command.split(maxsplit=1)[0],
            *(paths.get(word, word) for word in shlex.split(given)),
        ]
        known = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        environment = {name: text for name, text in os.environ.items() if name not in known}
        environment |= {"HOME": str(self._home), "TREE": str(self._tree)}
        words = [sys.executable, str(self._start), *line]
        done = run_to_end(words, cwd=self._above, environment=environment)
        if new.is_dir():
            shutil.rmtree(new)
        new.unlink(missing_ok=True)
        return None if done.code >= NOT_DONE else done.processor


def measure(machine: Machine, commands: dict[str, str], rounds: int) -> dict[str, Seconds]:
    """Give seconds of each command: first run, first run after warm-up, second run."""
    found: dict[str, Seconds] = {}
    for command, given in commands.items():
        machine.forget()
        first = machine.run(command, given)
        later = [] if first is None else [machine.run(command, given) for _ in range(rounds)]
        known = [seconds for seconds in later if seconds is not None]
        found[command] = Seconds(first, None, statistics.median(known) if known else None)
    machine.forget()
    if machine.run(WARM_UP, "") is None:
        return found
    return {
        command: one._replace(warmed=machine.run(command, commands[command]))
        for command, one in found.items()
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these commands")
    parser.add_argument("--against", type=Path, help="another checkout, measured beside this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="a question for Spark, too")
    asked = parser.parse_args()
    trees = [ROOT, *([asked.against.resolve()] if asked.against else [])]
    known = COMMANDS | (ON_SPARK if asked.spark else {})
    commands = {name: given for name, given in known.items() if name in (asked.names or known)}
    print("seconds of CPU: first run, first run after warm-up, second run")
    results = []
    for tree in trees:
        with tempfile.TemporaryDirectory() as above:
            results.append(measure(Machine(tree, Path(above)), commands, asked.rounds))
    print(f"{'':18} {'   |   '.join(tree.name.ljust(17) for tree in trees)}")
    for command in commands:
        print(f"{command:18} {'   |   '.join(str(result[command]) for result in results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
