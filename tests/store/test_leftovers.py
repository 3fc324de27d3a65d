"""What a killed process leaves among temporary files is removed by the next one, and no more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from rmqtool.writing import leftovers
from rmqtool.writing.leftovers import PREFIX, hold, sweep

MAKE: Final = """
import sys, time
from rmqtool.writing.temporary_copy import put
print(put("file", b"content"), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what was made just now count as old."""
    monkeypatch.setattr(leftovers, "_NEW_SECONDS", -1)


def test_killed(tmp_path: Path) -> None:
    """As long as the process lives its directory stays; once it is killed, it goes."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", MAKE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        made = Path(process.stdout.readline().strip())
        sweep(str(tmp_path))
        assert made.read_bytes() == b"content"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert made.exists()
    sweep(str(tmp_path))
    assert [] == [*tmp_path.iterdir()]


def test_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other names, links, files, what others may write to, and what is held stay."""
    for name in ("rmqtool-abcdefgh", f"{PREFIX}UPPER-CASE", f"{PREFIX}short", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{PREFIX}of_others").mkdir()
    (tmp_path / f"{PREFIX}of_others").chmod(0o777)
    (tmp_path / f"{PREFIX}is_a_link").symlink_to(tmp_path / "other")
    (tmp_path / f"{PREFIX}is_a_file").touch()
    held = tmp_path / f"{PREFIX}is__held"
    held.mkdir(0o700)
    hold(str(held))
    before = sorted(tmp_path.iterdir())
    sweep(str(tmp_path))
    assert before == sorted(tmp_path.iterdir())
    os.close(leftovers._HELD.pop())  # noqa: SLF001 - as the end of the process does
    monkeypatch.setattr(leftovers, "_NEW_SECONDS", time.time())
    sweep(str(tmp_path))
    assert held.exists()
    monkeypatch.setattr(leftovers, "_NEW_SECONDS", -1)
    sweep(str(tmp_path))
    assert not held.exists()
