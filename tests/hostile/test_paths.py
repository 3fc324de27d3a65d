"""No library, and nothing else, looks up a name below a store or an output by its path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.asked import can_trace
from tests.hostile.paths import COMMANDS, STORES, by_path, wrong_in

pytestmark = pytest.mark.skipif(not can_trace(), reason="strace sees what the kernel is asked")
LOOKS = """
import os, sys
store = sys.argv[1]
handle = os.open(store, os.O_RDONLY)
os.stat("file", dir_fd=handle)
os.readlink("link", dir_fd=handle)
os.chdir("/")
if sys.argv[2] == "path":
    open(store + "/file")
if sys.argv[2] == "here":
    open(store.lstrip("/") + "/file")
if sys.argv[2] == "renamed":
    os.rename(store + "/file", "/nowhere/file")
"""


@pytest.mark.parametrize(
    ("store", "command"),
    [
        # Each command with every second store, and each store with every second command.
        pytest.param(store, command, marks=pytest.mark.all_variants if (row + column) % 2 else ())
        for row, store in enumerate(STORES)
        for column, command in enumerate(COMMANDS)
    ],
)
def test_from_open_directories(store: str, command: str) -> None:
    """What is below is looked up from the store or the output, which stays open."""
    assert [] == wrong_in(store, command)


@pytest.mark.parametrize("how", ["open", "path", "here", "renamed"])
def test_notices(tmp_path: Path, how: str) -> None:
    """A lookup by path is found, from the root or from the working directory."""
    store = tmp_path.resolve() / "store"
    store.mkdir()
    (store / "file").touch()
    (store / "link").symlink_to(store / "file")
    log = tmp_path / "log"
    line = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", "trace=%file", "-o", str(log)]
    program = [sys.executable, "-S", "-c", LOOKS, str(store), how]
    subprocess.run([*line, *program], check=False, stderr=subprocess.DEVNULL)  # noqa: S603
    assert (how != "open") == bool([*by_path(log, [str(store)], {str(store)})])
