"""A disk that fails at any single read, or gives fewer bytes than it was asked for."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from rmqtool.cli.main import main
from rmqtool.store.address import place_of
from rmqtool.writing.directory import Directory
from tests.evidence import snapshot
from tests.hostile.asked import can_trace
from tests.stores import fixture_store

COMMANDS = (
    ("validate",), ("info",), ("dump",), ("query", "--key", "none"), ("rebuild", "--check"),
    ("startup", "--broker-version", "5.3.3"), ("repair",), ("doctor",), ("dump", "--as", "all"),
)  # fmt: skip
ONE_THREAD = {"info", "startup", "doctor"}
ANSWERS = {"validate", "info"}  # rows name what cannot be read
ERROR = "input/output error"
LOG, QUEUE = (f"{name}/{0:020}" for name in ("commitlog", "consumequeue/crash-orders/1"))
NAMING = {  # command: what it names when it is no file
    ("dump",): (LOG,), ("extract", "--output", "{top}/all.jsonl"): (LOG,),
    ("info",): (LOG, QUEUE), ("dump", "--as", "all"): (LOG, QUEUE),
    ("rebuild", "--check"): (LOG, QUEUE), ("rebuild", "--output", "{top}/rebuilt"): (LOG, QUEUE),
    ("rebuild-log", "--output", "{top}/log"): (LOG, QUEUE),
}  # fmt: skip
CALLS = "openat,read,pread64,preadv,preadv2"  # every other one is interrupted
LISTS = "getdents64"  # every fifth is: a listing that is interrupted begins anew
AT_FIRST = {"validate", "repair"}  # the others are interrupted when all variants are asked for
FEW = 4  # reads of each command that fail, unless all variants are asked for


@contextmanager
def reads(*, failing: int = -1, longest: int | None = None) -> Iterator[list[int]]:
    """Let the n-th read fail with EIO, or give each read some bytes only; count reads.

    EINTR is none of these, as Python itself asks again (PEP 475): see `test_interrupted`.
    """
    count, pread, preadv = [0], os.pread, os.preadv

    def asked() -> None:
        count[0] += 1
        if count[0] - 1 == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def one(handle: int, length: int, position: int) -> bytes:
        asked()
        return pread(handle, min(length, longest or length), position)

    def many(handle: int, buffers: Sequence[memoryview], position: int) -> int:
        asked()
        return preadv(handle, [memoryview(part)[:longest] for part in buffers[:1]], position)

    with mock.patch.object(os, "pread", one), mock.patch.object(os, "preadv", many):
        yield count


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_fails_once(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
    command: tuple[str, ...],
) -> None:
    """A bad sector at any read is told of: no command says that all is well, or fails oddly."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    before = snapshot(store)
    jobs = () if command[0] in ONE_THREAD else ("--jobs", "1")
    words = [command[0], str(store), *command[1:], *jobs, "--format", "jsonl"]
    with reads() as count:
        main(words)
    capfd.readouterr()
    assert count[0] > 0, command
    step = 1 if pytestconfig.getoption("--all-variants") else max(count[0] // FEW, 1)
    for number in range(0, count[0], step):
        with reads(failing=number):
            code = main(words)
        told = capfd.readouterr()
        assert code in {1, 2, 3}, (number, told.err)
        assert ERROR in told.err, (number, told.err)
        assert command[0] not in ANSWERS or code == 2 or ERROR in told.out, (number, told.out)
        assert before == snapshot(store)


@pytest.mark.parametrize("longest", [1000, 4097])
@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if command != ("doctor",)],  # which tells how full the disk is
    ids=" ".join,
)
def test_short(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...], longest: int
) -> None:
    """Reads that give fewer bytes than they were asked for change no answer."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    words = [command[0], str(store), *command[1:], "--format", "jsonl"]
    sound = main(words), capfd.readouterr().out
    with reads(longest=longest):
        assert sound == (main(words), capfd.readouterr().out)


@pytest.mark.skipif(not can_trace(), reason="strace interrupts calls")
@pytest.mark.parametrize(
    "command",
    [command for command in (*COMMANDS, ("diff", "{store}")) if command != ("doctor",)],  # as above
    ids=" ".join,
)
def test_interrupted(tmp_path: Path, *, is_whole: bool, command: tuple[str, ...]) -> None:
    """Files and directories of a store whose reads signals end, again and again, are read."""
    if command[0] not in AT_FIRST and not is_whole:
        pytest.skip("--all-variants")
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    options = [one.format(store=store) for one in command[1:]]
    words = [sys.executable, "-m", "rmqtool", command[0], str(store), *options]
    words += ["--format", "jsonl", "--quiet"]
    sound = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - ourselves
    log = tmp_path / "log"
    strace = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS},{LISTS}"]
    strace += ["-e", f"inject={CALLS}:error=EINTR:when=1+2"]
    strace += ["-e", f"inject={LISTS}:error=EINTR:when=5+5"]
    for path in (store, *store.rglob("*")):
        strace += ["-P", str(path)]
    found = subprocess.run([*strace, *words], capture_output=True, check=False)  # noqa: S603
    assert "INJECTED" in log.read_text()
    assert (sound.returncode, sound.stdout) == (found.returncode, found.stdout), found.stderr


def test_interrupted_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory whose listing a signal ends is listed again: Python itself does not do that."""
    (tmp_path / "file").touch()
    scandir, asked = os.scandir, list[object]()

    def once(directory: str | int) -> object:
        asked.append(directory)
        if len(asked) % 2:
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", once)
    assert ["file"] == [name for name, _ in place_of(str(tmp_path)).names()]
    assert ["file"] == [entry.name for entry in place_of(str(tmp_path)).entries()]
    with Directory.at(tmp_path) as directory:
        assert ["file"] == directory.names()
    assert 6 == len(asked)


def _link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    """What is no file in place of a log or queue file is named; the answer is in part."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    (index,) = (store / "index").iterdir()
    log, queue = store / LOG, store / QUEUE
    for path in (log, queue, index):
        path.unlink()
        make: dict[str, Callable[[Path], None]] = {
            "fifo": os.mkfifo,
            "directory": Path.mkdir,
            "link": _link,
        }
        make[kind](path)
    for (command, *options), named in NAMING.items():
        words = [option.format(top=tmp_path) for option in options]
        code = main([command, str(store), *words, "--quiet"])
        said = capfd.readouterr().err
        assert code in {1, 2, 3}, (command, code)
        for name in named:
            assert f"could not be read in full: {store / name}: is " in said, (command, said)
        if QUEUE in named:
            assert f"could not be read in full: {index}: is " in said, (command, said)
