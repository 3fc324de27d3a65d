"""The store's lock keeps brokers and other runs away, and leaves the store as it was."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rmqtool.errors import RepairError, StoreLocked, UnreadablePath, WriteFailed
from rmqtool.store import tree as lock_state
from rmqtool.store.place import Place
from rmqtool.writing.lock import StoreLock
from tests.evidence import snapshot
from tests.store.faults import Faults, killed_at, no_space, operations

# What a broker does: opens `lock`, loads, then takes the lock as Java does (fcntl, byte 0).
BROKER = """
import fcntl, os, sys
path, takes_lock, mode = sys.argv[1:]
file = open(path, mode)
if takes_lock == "True":
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def broker(root: Path, *, takes_lock: bool = True, mode: str = "r+") -> Iterator[int]:
    """Run a process that has the lock file open, as a broker has; give its id."""
    (root / "lock").touch()
    command = [sys.executable, "-c", BROKER, str(root / "lock"), str(takes_lock), mode]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:  # type: ignore[call-overload] # noqa: S603
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.stdin.close()


def test_broker_holds_it(tmp_path: Path) -> None:
    """A running broker is named by the process id of `abort`, which 5.x write."""
    with broker(tmp_path) as process:
        (tmp_path / "abort").write_text(str(process))
        with pytest.raises(StoreLocked, match=rf"running broker .*process {process}\b"):
            StoreLock(tmp_path).__enter__()
    with StoreLock(tmp_path) as lock:
        assert lock.is_held
    assert not lock.is_held


def test_without_pid(tmp_path: Path) -> None:
    """4.x leave `abort` empty: then the process is named that has the file open."""
    with broker(tmp_path) as process:
        (tmp_path / "abort").touch()
        with pytest.raises(StoreLocked, match=str(process)):
            StoreLock(tmp_path).__enter__()


def test_fifo_for_abort(tmp_path: Path) -> None:
    """Who holds the lock is said without waiting for a FIFO that is called `abort`."""
    os.mkfifo(tmp_path / "abort")
    with broker(tmp_path) as process, pytest.raises(StoreLocked, match=str(process)):
        StoreLock(tmp_path).__enter__()


@pytest.mark.parametrize("name", ["lock", "abort"])
def test_links(tmp_path: Path, name: str) -> None:
    """A link called `lock` is refused, wherever it leads; one called `abort` is not followed."""
    store, outside = tmp_path / "store", tmp_path / "outside"
    store.mkdir()
    (store / name).symlink_to(outside)
    if name == "lock":
        with pytest.raises(RepairError, match="is a link"):
            StoreLock(store).__enter__()
    else:
        outside.write_text("4711")
        with broker(store), pytest.raises(StoreLocked) as caught:
            StoreLock(store).__enter__()
        assert "4711" not in str(caught.value)
    assert (name == "abort") == outside.exists()


@pytest.mark.parametrize("text", [b"", b"x" * 100, b"-5", "\u0663".encode(), b"9" * 99])
def test_strange_abort(tmp_path: Path, text: bytes) -> None:
    """An `abort` that is no process id does not disturb."""
    (tmp_path / "abort").write_bytes(text)
    with broker(tmp_path), pytest.raises(StoreLocked):
        StoreLock(tmp_path).__enter__()


def test_broker_loads(tmp_path: Path) -> None:
    """A broker that still loads has no lock yet, but changes the store: it counts."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files of others cannot be seen here")
    lock = StoreLock(tmp_path)
    with broker(tmp_path, takes_lock=False) as pid, pytest.raises(StoreLocked, match=str(pid)):
        lock.__enter__()


def test_reader_is_harmless(tmp_path: Path) -> None:
    """Whoever only reads `lock`, to ask about it, does not count."""
    with broker(tmp_path, takes_lock=False, mode="r"), StoreLock(tmp_path) as lock:
        assert lock.is_held


def test_keeps_broker_away(tmp_path: Path) -> None:
    """While it is held a broker cannot take its lock, even after the file was opened here again."""
    with StoreLock(tmp_path):
        with (tmp_path / "lock").open("rb"):
            pass  # closing any handle of the file would drop a lock of the old kind
        with pytest.raises(AssertionError), broker(tmp_path):
            pass


def test_two_runs(tmp_path: Path) -> None:
    """Two holders exclude each other, in one process, too."""
    with StoreLock(tmp_path), pytest.raises(StoreLocked), StoreLock(tmp_path):
        pass
    with StoreLock(tmp_path):
        pass


@pytest.mark.parametrize("text", [None, "", "lock"])
def test_leaves_no_trace(tmp_path: Path, text: str | None) -> None:
    """The store is as before, mtimes included; a lock file that was missing is missing again."""
    if text is not None:
        (tmp_path / "lock").write_text(text)
        os.utime(tmp_path / "lock", ns=(1, 1_600_000_000_000_000_001))
    os.utime(tmp_path, ns=(1, 1_600_000_000_000_000_000))
    before = snapshot(tmp_path)
    with StoreLock(tmp_path) as lock:
        assert (None if text != "lock" else (4, 1_600_000_000_000_000_001)) == lock.as_left
    assert before == snapshot(tmp_path)


def test_killed(tmp_path: Path) -> None:
    """A lock file that a killed run left is no sign of a broker, and goes with the next run."""

    def work() -> None:
        with StoreLock(tmp_path):
            (tmp_path / "x").mkdir()

    number = 0
    while killed_at(number, work):
        if (tmp_path / "x").exists():
            (tmp_path / "x").rmdir()
        with StoreLock(tmp_path) as lock:
            assert lock.as_left is None
        left = [path.name for path in tmp_path.iterdir()]
        # Killed right after its creation it cannot be known as ours; it is empty, so harmless.
        assert left in ([], ["lock"] if number == 1 else []), number
        (tmp_path / "lock").unlink(missing_ok=True)
        number += 1
    assert number > 3


def test_fails(tmp_path: Path) -> None:
    """Whatever the system refuses is an error with path and reason, and leaves nothing."""

    def work() -> None:
        with StoreLock(tmp_path):
            pass

    for number in range(operations(work)):
        # What fails in letting go is not worth an error: the work is done.
        with Faults(number, no_space).injected(), suppress(WriteFailed):
            work()
        with StoreLock(tmp_path):
            pass
        (tmp_path / "lock").unlink(missing_ok=True)


def test_no_directory(tmp_path: Path) -> None:
    """Where no store is, nothing is made."""
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        with pytest.raises(UnreadablePath, match=name):
            StoreLock(tmp_path / name).__enter__()
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_lock_is_a_directory(tmp_path: Path) -> None:
    """A `lock` that cannot be opened is an error, not a crash."""
    (tmp_path / "lock").mkdir()
    with pytest.raises(RepairError):
        StoreLock(tmp_path).__enter__()


def test_old_kind_of_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locks of open files are unknown, the old kind keeps a broker away just as well."""
    monkeypatch.setattr(sys, "platform", "other")
    with StoreLock(tmp_path), pytest.raises(AssertionError), broker(tmp_path):
        pass


@pytest.mark.parametrize("process", [0, -1, -4711])
def test_holder_without_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: int) -> None:
    """Any answer but "unlocked" is a holder: of another container, an open file, another host."""
    answer = lock_state.FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, process)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: answer)
    (tmp_path / "lock").touch()
    state = lock_state.lock_state(Place.of(tmp_path / "lock"))
    assert (True, 0) == (state.is_held, state.process)
    assert "without an id here" in state.holder


def test_child_does_not_keep_it(tmp_path: Path) -> None:
    """A child that was forked meanwhile, and lives on, does not hold the store."""
    (tmp_path / "lock").write_text("lock")
    read, write = os.pipe()
    with StoreLock(tmp_path):
        child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    try:
        with (tmp_path / "lock").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    finally:
        os.close(read)
        os.close(write)
        os.waitpid(child, 0)
