"""The walks still begin where their page says; `python -m tests.walks` goes all the way."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.walks.__main__ import WALKS, Walk

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "CONTRIBUTING.md"
each_walk = pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.name)


def git_apply(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Ask git about a patch; the tree needs no repository."""
    return subprocess.run(  # noqa: S603 - git, found on the path
        ["git", "apply", "--recount", "-C1", *words],  # noqa: S607 - wherever it is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@each_walk
def test_applies(walk: Walk) -> None:
    """The lines that a walk changes are there."""
    done = git_apply("--check", walk.patch)
    assert (0, "") == (done.returncode, done.stderr), f"write {walk.patch} anew"


def opened(walk: Walk) -> int:
    """Count the files of a patch."""
    return len(git_apply("--numstat", walk.patch).stdout.splitlines())


@each_walk
def test_page(walk: Walk) -> None:
    """A walk opens as many files as its page says."""
    assert f"**{walk.title}** ({opened(walk)} files)" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.name)
def test_bar(walk: Walk) -> None:
    """A walk opens no more files than its bar."""
    assert 0 < opened(walk) <= walk.bar


def test_page_has_no_others() -> None:
    """Each walk of the page is done."""
    named = re.findall(
        r"^\*\*(.+)\*\* \(\d files\)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [walk.title for walk in WALKS] == named
