"""The tree is as ruff and mypy want it: the second command of the README is all there is to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=["ruff", "format", "mypy"],
)
def test_lint(command: list[str]) -> None:
    """The tool has nothing to say."""
    run = subprocess.run(  # noqa: S603 - fixed commands
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (0, "") == (run.returncode, run.stdout + run.stderr if run.returncode else "")
