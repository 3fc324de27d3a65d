"""The tree is as ruff and mypy want it, and names say what they hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats import config_names
from tests.kept import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
# What mypy knows of a file is of its content, so a fresh clone need not find it out again.
TYPES = str(cache_directory() / "mypy")


@pytest.mark.every_case
@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy", "--cache-dir", TYPES]],
    ids=["ruff", "format", "mypy"],
)
def test_lint(command: list[str]) -> None:
    """The tool has nothing to say."""
    run = subprocess.run(  # noqa: S603 - fixed commands
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (0, "") == (run.returncode, run.stdout + run.stderr if run.returncode else "")


def test_names() -> None:
    """A name says what it holds, not how it came; texts and columns are no names."""
    odd = re.compile(r"_?(found|one|told|said|further|behind|Found|Told|Said)")
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "rmqtool").rglob("*.py"))
        for name in (path.stem, *_names_in(path))
        if odd.fullmatch(name)
    }
    assert set() == wrong


def _names_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("id", "arg", "attr", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def test_config_names() -> None:
    """Each file of a broker's configuration, and its table, is named in one module."""
    named = {text for text in vars(config_names).values() if isinstance(text, str)}
    named = {text for text in named if text.endswith((".json", "Table"))}
    again = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in sorted((ROOT / "rmqtool").rglob("*.py"))
        if path != Path(config_names.__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in named
    }
    assert set() == again
