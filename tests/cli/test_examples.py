"""No help without an example: what a person copies first."""

from __future__ import annotations

import pytest

from rmqtool.cli.app import CONTENTS, PROGRAM
from rmqtool.cli.main import main
from rmqtool.cli.manual_examples import first_example

NAMES = [PROGRAM, *(entry.name for entry in CONTENTS)]


@pytest.mark.parametrize("name", NAMES)
def test_help_has_an_example(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The help of each command ends in one that is run by a test, on a line of its own."""
    found = first_example(name)
    assert found is not None
    assert 0 == main(["--help"] if name == PROGRAM else [name, "--help"])
    shown = capfd.readouterr().out
    assert f"\n  {found[1]}\n" in shown
    assert shown.rstrip().endswith("help" if name == PROGRAM else f"help {name}")
