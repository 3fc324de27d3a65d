"""No command and no option is left out of the campaign."""

from __future__ import annotations

import pytest

from rmqtool.cli.commands import NAMES, load
from rmqtool.cli.declaration import Parameter, parameters
from tests.hostile.lines import COMMANDS

OF_SPARK = {"export", "sql"}  # tests/spark/test_hostile.py
WITHOUT_A_STORE = {"warm-up", "help", "completion"}
ON_A_TERMINAL = {"browse"}  # tests/browse
ON_SPARK = {"--engine", "--master", "--verbose"}
ENDLESS = {"--every", "--follow"}  # tests/cli/test_watching.py, tests/cli/test_follow.py
# The same in each command that has it: one line is enough.
SHARED = {
    *("--broker-conf", "--unpack-limit", "--as-user", "--jobs", "--time-zone"),
    *("--columns", "--color", "--quiet"),
}
ATTACKED = [name for name in NAMES if name not in OF_SPARK | WITHOUT_A_STORE | ON_A_TERMINAL]


def options(name: str) -> list[Parameter]:
    """Give what may be asked of a command."""
    return [parameter for parameter in parameters(load(name)) if not parameter.is_argument]


def words(name: str) -> set[str]:
    """Give all words of the lines of a command."""
    return {word for line in COMMANDS if line[0] == name for word in line}


@pytest.mark.parametrize("name", ATTACKED)
def test_each_option(name: str) -> None:
    """Each option of a command is in a line of it."""
    there = words(name)
    assert there
    alike = SHARED | ON_SPARK | ENDLESS
    missing = [
        option.declaration for option in options(name) if not (there | alike) & {*option.spellings}
    ]
    assert not missing


def test_shared() -> None:
    """What many commands have is in a line of one of them."""
    assert not SHARED - set().union(*map(words, ATTACKED))


def test_no_other() -> None:
    """What is excused is there."""
    assert {*NAMES} >= OF_SPARK | WITHOUT_A_STORE | ON_A_TERMINAL
    known = {spelt for name in NAMES for option in options(name) for spelt in option.spellings}
    assert known >= SHARED | ON_SPARK | ENDLESS
