"""No help without an example: what a person copies first."""

from __future__ import annotations

import pytest

from rmqtool.cli.commands import CONTENTS, NAMES, PROGRAM
from rmqtool.cli.main import main
from rmqtool.cli.manual import page, topics
from rmqtool.cli.manual.blocks import Verbatim
from rmqtool.cli.manual.examples import first_example

ALL = [PROGRAM, *NAMES]


@pytest.mark.parametrize("name", ALL)
def test_help_has_an_example(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The help of each command ends in one that is run by a test, on a line of its own."""
    found = first_example(name)
    assert found is not None
    assert 0 == main(["--help"] if name == PROGRAM else [name, "--help"])
    shown = capfd.readouterr().out
    assert f"\n  {found[1]}\n" in shown
    assert shown.rstrip().endswith("help" if name == PROGRAM else f"help {name}")


@pytest.mark.parametrize("topic", [topic for topic in topics() if topic != "tables"])
def test_page_has_an_example(topic: str) -> None:
    """Each page of the manual shows what a terminal shows."""
    shown = [block for block in page(topic).blocks if isinstance(block, Verbatim)]
    assert any(line.startswith(("$ ", ">>> ", "from ")) for one in shown for line in one.lines)


def test_each_task_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The program alone lists commands under what a person wants to do, each task once."""
    assert 2 == main([])
    said = capfd.readouterr().err
    tasks = [f"\n{task}:\n" for task in CONTENTS]
    assert [1] * len(tasks) == [said.count(task) for task in tasks]
    assert all(f"\n  {name} " in said for name in NAMES)
