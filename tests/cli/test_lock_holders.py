"""Whoever holds a store's lock is seen, whether or not the system can name the process.

A command is a process of its own: beside the holder, or in a PID namespace without it, as in
another container that shares the store.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.evidence import snapshot
from tests.stores import fixture_store

HOLDER: Final = """
import fcntl, struct, sys
file = open(sys.argv[1], "r+b")
if sys.argv[2] == "open file":
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
else:  # as Java's FileChannel.tryLock(0, 1, false)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""
ELSEWHERE: Final = ("unshare", "--pid", "--fork", "--mount-proc")  # its own processes, and no other
AS_USER: Final = () if os.geteuid() == 0 else ("--user", "--map-root-user")
WITHOUT_ID: Final = "a process without an id here"


class Ran(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


@contextmanager
def holder(lock: Path, kind: str, before: tuple[str, ...] = ()) -> Iterator[int]:
    """Hold the first byte of a file; give the process id."""
    command = [*before, sys.executable, "-c", HOLDER, str(lock), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:  # type: ignore[call-overload] # noqa: S603
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


def can_be_elsewhere() -> bool:
    """Tell whether a process may have a PID namespace of its own here."""
    line = [*ELSEWHERE, *AS_USER, "true"]
    return bool(shutil.which("unshare")) and not subprocess.run(line, check=False).returncode  # noqa: S603


def run(before: tuple[str, ...], *words: object) -> Ran:
    """Run a command of rmqtool."""
    line = [*before, sys.executable, "-m", "rmqtool", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert "Traceback" not in done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("kind", ["process", "open file"])
@pytest.mark.parametrize("asker", ["beside", "elsewhere"])
def test_holder_is_seen(tmp_path: Path, kind: str, asker: str) -> None:
    """Each command says that the store is in use, and none that its broker crashed."""
    before = () if asker == "beside" else (*ELSEWHERE, *AS_USER)
    if before and not can_be_elsewhere():
        pytest.skip("no PID namespaces here")
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    (store / "lock").write_bytes(b"lock")
    with holder(store / "lock", kind) as process:
        named = f"process {process}" if (kind, asker) == ("process", "beside") else WITHOUT_ID
        untouched = snapshot(store)
        about = json.loads(run(before, "info", store, "--section", "store").out)
        assert (True, True) == (about["lock_held"], named in about["stopped"]), about
        rows = map(json.loads, run(before, "validate", store, "--only", "FS-LOCK").out.splitlines())
        assert [named] == [row["actual"][: len(named)] for row in rows]
        doctor = run(before, "doctor", store)
        assert "not stopped" in doctor.out
        assert "start the broker" not in doctor.out
        assert "if its broker died now" in run(before, "startup", store).err
        for command in ("repair", "rebuild"):
            refused = run(before, command, store, "--in-place", "--yes")
            assert refused.code == 2
            who = f"process {process}" if asker == "beside" else WITHOUT_ID
            assert f"another process uses this store ({who}" in refused.err
        assert untouched == snapshot(store)
    assert json.loads(run(before, "info", store, "--section", "store").out)["lock_held"] is False


def test_id_of_another_container(tmp_path: Path) -> None:
    """An id that a broker wrote in another container is given as what it is."""
    if not can_be_elsewhere():
        pytest.skip("no PID namespaces here")
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    (store / "lock").write_bytes(b"lock")
    (store / "abort").write_text("1")
    namespace = (*ELSEWHERE, *AS_USER)
    with holder(store / "lock", "process", namespace):
        refused = run(namespace, "repair", store, "--in-place", "--yes")
    assert refused.code == 2
    assert f"({WITHOUT_ID}" in refused.err
    assert "; its `abort` says process 1)" in refused.err
