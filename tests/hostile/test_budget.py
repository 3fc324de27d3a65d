"""One budget for all that a stranger may count up: no input costs more than it is worth."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool.budget import FREE_STEPS, STEPS_A_BYTE, OverBudget, ParseBudget
from rmqtool.cli.main import main
from tests.hostile.generators import GENERATORS

SECONDS: Final = 60
MEMORY_KIB: Final = 1 << 20
NOISE: Final = 0.25  # seconds of a processor that a busy machine adds
# Each command that reads a store; NEW is a path where nothing is.
COMMANDS: Final = (
    "validate",
    "info",
    "doctor",
    "dump",
    "dump --as rocksdb",
    "repair",
    "rebuild --check",
    "startup --broker-version 5.3.3",
    "report --output NEW.html",
    "query --key none",
    "diff {}",
    "extract --output NEW.rmq",
    "rebuild-log --output NEW",
    "rebuild-cq --as rocksdb --output NEW",
    "rebuild-index --as rocksdb --output NEW",
)
# What a command took, of all its processes: seconds of a processor, and KiB of the largest one.
BETWEEN: Final = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, check=False)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def words(command: str, name: str, asked: Path, new: Path) -> list[str]:
    """Give the words of a command about what a generator made."""
    first, *others = command.replace("NEW", str(new)).replace("{}", str(asked)).split()
    if name == "manifest-values":
        others += ["--since-manifest", str(asked / "manifest.json")]
    return [first, str(asked), *others, "--quiet"]


def seconds(work: Callable[[], object]) -> float:
    """Give the time of a processor that some work takes, with all processes that it ends."""
    before = os.times()
    work()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


@pytest.mark.parametrize("name", GENERATORS)
def test_twice(tmp_path: Path, name: str) -> None:
    """Twice the input costs at most twice the time of a processor."""
    make, few, _ = GENERATORS[name]

    def asked(times: int) -> Callable[[], object]:
        path = make(tmp_path / f"of-{times}", times * few)
        return lambda: main(words("validate", name, path, tmp_path / "new"))

    once, twice = asked(1), asked(2)
    once()  # loads what the command needs
    # A machine that does other things disturbs a pair; work that grows faster disturbs each.
    # Twice the memory is also more than the caches hold, which others use meanwhile.
    assert any(seconds(twice) < 2.2 * seconds(once) + NOISE for _ in range(3))


@pytest.mark.parametrize("name", GENERATORS)
def test_bounds(tmp_path: Path, name: str, *, is_whole: bool) -> None:
    """The most that a stranger may send costs each command less than a minute and a GiB.

    Each run has one command for each generator; `--all-variants` has all.
    """
    make, _, many = GENERATORS[name]
    path = make(tmp_path / "of", many)
    commands = ("validate",) if name == "manifest-values" else COMMANDS
    chosen = commands if is_whole else [commands[zlib.crc32(name.encode()) % len(commands)]]
    for number, command in enumerate(chosen):
        line = words(command, name, path, tmp_path / f"new{number}")
        between = [sys.executable, "-c", BETWEEN, sys.executable, "-m", "rmqtool", *line]
        done = subprocess.run(between, capture_output=True, text=True, check=True)  # noqa: S603 - ours
        code, used, memory = map(float, done.stdout.split())
        assert code in {0, 1, 2, 3}
        assert used < SECONDS, f"{command}: {used:.1f} s"
        assert memory < MEMORY_KIB, f"{command}: {memory / 1024:.0f} MiB"


def test_budget() -> None:
    """A larger input may ask for more; what is paid once is not paid again."""
    budget = ParseBudget("its things", 10)
    budget.spend_once("a", FREE_STEPS)
    budget.spend_once("a", FREE_STEPS)
    budget.spend(10 * STEPS_A_BYTE)
    assert budget.spent == FREE_STEPS + 10 * STEPS_A_BYTE
    with pytest.raises(OverBudget, match="its things cost more than an input of this size may"):
        budget.spend(1)
