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
from tests.processes import of_session
from tests.rocksdb import fixture

ENDED_WITHIN: Final = 20  # seconds, on a machine that does other things
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


READ: Final = """
import os, sys, time
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
database = Database(Place(sys.argv[1]), "consumequeue")
rows = database.rows("default")
if sys.argv[2] == "asks":
    database._served.cell.tell({"family": "default", "begin": "", "end": "", "limit": 1 << 40,
                                "is_last": False, "longest": 1 << 20})
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["waits", "asks", "stopped"])
def test_cell_ends(tmp_path: Path, way: str) -> None:
    """The processes that run RocksDB end with a killed run, whether they wait or are at work."""
    store, temporary = fixture("rocketmq-5.5.0-rocksdb-crash", tmp_path), tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", READ, str(store / "consumequeue"), way]
    with subprocess.Popen(  # noqa: S603 - ours
        command, stdout=subprocess.PIPE, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = of_session(process.pid) - {process.pid}
        assert 2 == len(started)  # who keeps the cell, and who is in it
        if way == "stopped":  # as if it were at work, and had no answer yet
            os.kill(max(started), signal.SIGSTOP)
        process.send_signal(signal.SIGKILL)
        process.wait()
    end = time.monotonic() + ENDED_WITHIN
    while of_session(process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert set() == of_session(process.pid)
    assert [] == [*temporary.iterdir()]


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
