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
from tests.stores import fixture_store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("has_spark")]
ROOT = Path(__file__).parents[2]


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


def is_running(process: int) -> bool:
    """Whether a process is there, and more than a name that nobody has asked for yet."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
