"""Who interrupts a command on Spark gets his prompt back, and nothing goes on behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.run import CLEAN
from tests.processes import of_session
from tests.stores import fixture_store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("has_spark")]
ROOT = Path(__file__).parents[2]
ENDED_WITHIN = 60  # seconds, on a machine that does other things


def test_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C, which all processes of a terminal get, cancels the job: 130, one line, no process."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    marker, temporary, state = (tmp_path / name for name in ("marker", "temporary", "state"))
    temporary.mkdir()
    arguments = ["validate", str(store), "--master", "local[1]", "--verbose"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.spark.sleeper", str(marker), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={
            **CLEAN,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(temporary),
            "XDG_STATE_HOME": str(state),
        },
        start_new_session=True,
    )
    while not marker.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert ("", 130) == (out, process.returncode), err
    assert "interrupted" in err.splitlines()[-1]
    assert "Traceback" not in err
    (log,) = state.glob("rmqtool/spark-*.txt")
    assert "cancel" in log.read_text().lower()
    assert [] == [path for path in temporary.iterdir() if not path.name.startswith("hsperf")]
    while is_running(int(marker.read_text())):
        time.sleep(0.05)
    names = {"marker", "store", "temporary", "state"}
    assert names == {path.name for path in tmp_path.iterdir()}


def test_killed(tmp_path: Path) -> None:
    """Who is killed leaves no process: neither Spark's own, nor those that run its tasks."""
    store, marker = fixture_store("rocketmq-5.3.3-lmq", tmp_path), tmp_path / "marker"
    arguments = [str(marker), "validate", str(store), "--master", "local[1]"]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.spark.sleeper", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**CLEAN, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as process:
        while not marker.exists():
            assert process.poll() is None
            time.sleep(0.05)
        started = of_session(process.pid) - {process.pid}
        process.kill()
    worker = int(marker.read_text())
    assert len(started - {worker}) > 1  # Java, and what starts workers
    wait_until_ended(process.pid, worker)


def test_killed_tests(tmp_path: Path) -> None:
    """A master and a worker end with the tests that started them, whatever killed those."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.spark.cluster", str(tmp_path / "cluster")],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"spark://")
        assert len(of_session(process.pid)) >= 3  # itself, the master, a worker
        process.kill()
    wait_until_ended(process.pid)


def wait_until_ended(leader: int, *others: int) -> None:
    """Wait until no process of a session runs, nor any of the others."""
    end = time.monotonic() + ENDED_WITHIN
    while of_session(leader) or any(map(is_running, others)):
        assert time.monotonic() < end, of_session(leader)
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process is there, and more than a name that nobody has asked for yet."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
