"""Killed at any moment, a store in place is the old or the new one, and a rerun finishes.

That each file operation may be the last one is proven in tests/store/test_edit_faults.py; here a
whole process is killed, wherever it happens to be.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from rmqtool import rebuild
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from tests.cli.run import COMMAND
from tests.rebuild.test_identity import FAMILIES, files_of
from tests.store.edited_store import leftovers, traces_below
from tests.stores import fixture_store

NAME = "rocketmq-4.9.3-traffic"
KILLS = 5
ALL_KILLS = 50  # with --all-variants
MOST_TRIES = 4  # for each kill: a process may have ended before it is killed
SHORTER = 0.85
FIRST_SHARE = 0.4  # of a whole run: before that Python only imports


def harmed(tmp_path: Path) -> Path:
    """Give a store whose queues and index are not what the log says."""
    root = fixture_store(NAME, tmp_path)
    for path in [*files_of(root, *FAMILIES).values()][::3]:
        path.write_bytes(bytes(path.stat().st_size))
    shutil.rmtree(next((root / "consumequeue").iterdir()))
    return root


def start(root: Path) -> subprocess.Popen[bytes]:
    """Start the command on a store."""
    return subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, "rebuild", str(root), "--in-place", "--yes", "--quiet", "--format", "jsonl"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def contents(root: Path) -> dict[str, dict[str, bytes]]:
    """Give the bytes of the files of each family."""
    return {
        family: {path: file.read_bytes() for path, file in files_of(root, family).items()}
        for family in FAMILIES
    }


def test_killed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Every family is wholly the old or the new one after each kill; a rerun gives the new one."""
    chance = np.random.default_rng(5)
    kills = ALL_KILLS if pytestconfig.getoption("--all-variants") else KILLS
    original = harmed(tmp_path)
    rebuild.all(original, dry_run=True)  # or the first process compiles, and takes much longer
    old = contents(original)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    begin = time.monotonic()
    assert 0 == start(copy).wait()
    whole = time.monotonic() - begin
    new = contents(copy)
    killed = number = 0
    while killed < kills and number < MOST_TRIES * kills:
        number += 1
        shutil.rmtree(copy)
        shutil.copytree(original, copy)
        process = start(copy)
        time.sleep(whole * chance.uniform(FIRST_SHARE, 1))
        process.kill()
        if process.wait() == -signal.SIGKILL:
            killed += 1
        else:
            whole *= SHORTER  # the first run was slow: this one had ended
        for family, files in contents(copy).items():
            assert files in (old[family], new[family]), number
        rebuild.all(copy, in_place=True)
        assert new == contents(copy), number
        assert 1 >= len(leftovers(copy))
    assert killed == kills


def test_killed_then_undone(tmp_path: Path) -> None:
    """What a killed run left is finished by `resume`, or is the original, times included."""
    original = harmed(tmp_path)
    before = traces_below(original)
    process = start(original)
    while not leftovers(original) and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
    with StoreLock(original) as lock:
        outcomes = [one.outcome for one in resume(lock)]
    assert outcomes == ["finished"] or before == traces_below(original)
