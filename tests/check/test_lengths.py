"""A file of the wrong length: what is said depends on where it lies, and what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.check.validation import run
from tests.stores import broker_conf

NAME = "rocketmq-5.3.3-traffic"
LENGTH = 131_072  # of a commitlog file there


def _said(store: Path, path: str) -> tuple[str, str]:
    """Give message and remedy of what is said of a file's length."""
    findings, _, _ = run(store, "full", broker_conf(NAME))
    (finding,) = (
        finding for finding in findings if finding.code == "FS-LEN" and finding.path == path
    )
    return finding.message, finding.repair


@pytest.mark.parametrize(
    ("number", "length", "message", "remedy"),
    [
        (1, LENGTH - 100, "100 bytes shorter", "bridged in the log"),
        (1, 0, "the file is empty", "bridged in the log"),
        (-1, LENGTH - 100, "100 bytes shorter", "extend it with zeros to 131,072 bytes; rmqtool"),
        (-1, 0, "the last file is empty", "delete it; rmqtool"),
        (-1, LENGTH + 100, "100 bytes longer", "cut off what lies past 131,072 bytes"),
    ],
)
def test_commitlog(
    number: int, length: int, message: str, remedy: str, copy_of: Callable[[str], Path]
) -> None:
    """Only the last file is extended or deleted; in the middle something is lost."""
    store = copy_of(NAME)
    file = sorted((store / "commitlog").iterdir())[number]
    os.truncate(file, length)
    said, helps = _said(store, f"commitlog/{file.name}")
    assert message in said
    assert remedy in helps
