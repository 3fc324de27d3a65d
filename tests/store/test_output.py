"""A new directory or file is there completely, or not at all."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rmqtool.errors import OutputExists, RepairError, WriteFailed
from rmqtool.writing.directory import spot_of
from rmqtool.writing.output import OutputDirectory, OutputFile
from tests.evidence import snapshot
from tests.store.faults import (
    PERSISTENT,
    Faults,
    bad_disk,
    killed_at,
    no_space,
    operations,
)

FILE = "00000000000000000000"
MTIME_MS = 1_700_000_000_123
QUEUES = 300


def write_tree(path: Path) -> None:
    """Write a small tree with everything that a tree can have."""
    with OutputDirectory(path) as output:
        file = output.file(
            "orders", "0", FILE, size=6000, pieces=[(20, b"unit")], mtime_ms=MTIME_MS
        )
        file.write(5996, b"last")
        with file.writing() as handle:
            file.put(handle, 40, memoryview(b"more"))
        output.directory("empty", "0")
        output.file("orders", "1", FILE, size=0)


def write_file(path: Path) -> None:
    """Write a small file."""
    with OutputFile(path) as file:
        file.binary.write(b"report\n")


def test_tree(tmp_path: Path) -> None:
    """A tree has the names, lengths, bytes and mtimes that were asked for; the rest is zero."""
    write_tree(tmp_path / "new")
    raw = (tmp_path / "new/orders/0" / FILE).read_bytes()
    assert b"".join([bytes(20), b"unit", bytes(16), b"more", bytes(5952), b"last"]) == raw
    assert MTIME_MS * 1_000_000 == (tmp_path / "new/orders/0" / FILE).stat().st_mtime_ns
    files = {f"orders/0/{FILE}", f"orders/1/{FILE}"}
    directories = {".", "empty", "empty/0", "orders", "orders/0", "orders/1"}
    assert files | directories == snapshot(tmp_path / "new").keys()
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


def test_file(tmp_path: Path) -> None:
    """A file holds what was written; text is UTF-8 and keeps its line ends."""
    with OutputFile(tmp_path / "text") as file:
        file.text.write("straße\r\n")
        assert not (tmp_path / "text").exists()
    assert "straße\r\n".encode() == (tmp_path / "text").read_bytes()
    with OutputFile(tmp_path / "large") as file:
        for _ in range(100):
            file.binary.write(b"x" * 10_007)
    assert b"x" * 1_000_700 == (tmp_path / "large").read_bytes()
    assert file.fsync_seconds > 0


@pytest.mark.parametrize("write", [write_tree, write_file])
def test_existing(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """What is there is never touched: file, empty directory, or link that leads nowhere."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    before = snapshot(tmp_path)
    for name in ("file", "directory", "link"):
        with pytest.raises(OutputExists, match=name):
            write(tmp_path / name)
    assert before == snapshot(tmp_path)


@pytest.mark.parametrize("write", [write_tree, write_file])
def test_appears_meanwhile(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """What somebody else creates while we write stays theirs."""

    def appear(call: Callable[..., object], args: tuple[object, ...]) -> object:
        (tmp_path / "new").mkdir()
        return call(*args)

    with Faults(0, appear).injected(), pytest.raises(OutputExists, match="appeared"):
        write(tmp_path / "new")
    assert ["new"] == [path.name for path in tmp_path.iterdir()]
    assert [] == list((tmp_path / "new").iterdir())


def test_exchanged_meanwhile(tmp_path: Path) -> None:
    """What somebody else has put in the place of what was staged is not taken for it."""

    def write() -> None:
        with OutputDirectory(tmp_path / "new") as tree:
            tree.file("ours", size=10)
            (staged,) = tmp_path.iterdir()
            staged.rename(tmp_path / "away")
            staged.mkdir()

    with pytest.raises(WriteFailed, match="another process replaced it"):
        write()
    assert not (tmp_path / "new/ours").exists()


def test_overwrite(tmp_path: Path) -> None:
    """When told so, a regular file is replaced, but nothing else is."""
    (tmp_path / "file").write_text("old")
    with OutputFile(tmp_path / "file", overwrite=True) as file:
        file.text.write("new")
        file.text.flush()
        assert "old" == (tmp_path / "file").read_text()
    assert "new" == (tmp_path / "file").read_text()
    for target in (Path(os.devnull), tmp_path):
        with pytest.raises(OutputExists, match="regular"), OutputFile(target, overwrite=True):
            pass


@pytest.mark.parametrize("path", ["no/such/directory", "file/below", "nul\0"])
def test_impossible_place(tmp_path: Path, path: str) -> None:
    """A place that cannot be is an error with its path and reason."""
    (tmp_path / "file").write_text("mine")
    for write in (write_tree, write_file):
        with pytest.raises(RepairError) as error:
            write(tmp_path / path)
        assert str(tmp_path) in error.value.path
        assert error.value.reason


@pytest.mark.parametrize("parts", [("..", "x"), ("/x",), ("a", ""), ("x" * 256,), ("a\0",), ()])
def test_hostile_names(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """A name that leads elsewhere is refused, and then there is no output."""
    with pytest.raises(RepairError), OutputDirectory(tmp_path / "new") as output:
        output.file(*parts, size=1)
    assert [] == list(tmp_path.iterdir())


def test_misuse_of_tree(tmp_path: Path) -> None:
    """A file is written once, and never grows."""
    with OutputDirectory(tmp_path / "new") as output:
        file = output.file("a", size=4)
        for position, data in ((3, b"xy"), (-1, b"x"), (5, b"")):
            with pytest.raises(RepairError, match="not within"):
                file.write(position, data)
        with pytest.raises(OutputExists):
            output.file("a", size=4)


def test_error_in_block(tmp_path: Path) -> None:
    """An error while writing leaves nothing behind, buffered text included."""
    with pytest.raises(ZeroDivisionError), OutputDirectory(tmp_path / "new") as output:
        output.file("half", size=1 // 0)
    with pytest.raises(ZeroDivisionError), OutputFile(tmp_path / "new") as file:
        file.text.write("half" * (1 + file.text.write("half") // 0))
    assert [] == list(tmp_path.iterdir())


def test_copy(tmp_path: Path) -> None:
    """A copy has bytes, length and mtime of its source, shares no inode, and keeps holes."""
    source = tmp_path / "segment"
    with source.open("wb") as file:
        file.write(b"record")
        file.seek(1 << 20)
        file.write(b"record")
        file.truncate(1 << 24)
    os.utime(source, ns=(1, 1_600_000_000_123_456_789))
    with OutputDirectory(tmp_path / "new") as output:
        copied = output.copy(spot_of(source), "commitlog", FILE)
        copied.write(3, b"!")
    raw = bytearray(source.read_bytes())
    raw[3:4] = b"!"
    target = tmp_path / "new/commitlog" / FILE
    assert raw == target.read_bytes()
    assert source.stat().st_mtime_ns == target.stat().st_mtime_ns
    assert source.stat().st_ino != target.stat().st_ino
    assert target.stat().st_blocks * 512 < 1 << 23


@pytest.mark.parametrize("hole_at", [0, 1 << 16, 1 << 20])
@pytest.mark.parametrize("size", [0, 1000, 1 << 16, (1 << 16) + 1, 1 << 21])
def test_copy_of_other_length(tmp_path: Path, hole_at: int, size: int) -> None:
    """A copy is cut, or extended by zeros, wherever the original has its holes."""
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.write(b"x" * hole_at)
        file.truncate(hole_at + (1 << 18))
        file.seek(0, os.SEEK_END)
        file.write(b"y" * 5000)
    with OutputDirectory(tmp_path / "out") as output:
        output.copy(spot_of(source), "a", size=size)
    expected = source.read_bytes()[:size].ljust(size, b"\0")
    assert expected == (tmp_path / "out/a").read_bytes()


def test_many_files(tmp_path: Path) -> None:
    """More files than a process may open are written, by several threads, none of it lost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 16, hard))
    try:
        with OutputDirectory(tmp_path / "new") as output, ThreadPoolExecutor(4) as pool:

            def write(number: int) -> None:
                file = output.file("topic", str(number), FILE, size=64, mtime_ms=number)
                file.write(0, b"%d" % number)

            list(pool.map(write, range(QUEUES)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for number in range(QUEUES):
        path = tmp_path / "new/topic" / str(number) / FILE
        assert (b"%d" % number).ljust(64, b"\0") == path.read_bytes()
        assert number * 1_000_000 == path.stat().st_mtime_ns


@pytest.mark.parametrize("write", [write_tree, write_file])
def test_fails(quick_path: Path, write: Callable[[Path], None]) -> None:
    """Whatever the disk refuses, there is an error with path and reason, and no output."""
    count = operations(lambda: write(quick_path / "new"), reads=True)
    remove(quick_path / "new")
    for number in range(count):
        faults = Faults(number, no_space, reads=True)
        with faults.injected(), pytest.raises(WriteFailed, match="No space left"):
            write(quick_path / "new")
        assert [] == list(quick_path.iterdir()), number


@pytest.mark.parametrize("write", [write_tree, write_file])
def test_disk_breaks(quick_path: Path, write: Callable[[Path], None]) -> None:
    """When not even clearing up works, the next run on a mended disk does it, and succeeds."""
    count = operations(lambda: write(quick_path / "new"))
    expected = shape(quick_path / "new")
    remove(quick_path / "new")
    for number in range(count):
        with Faults(number, bad_disk, lasting=PERSISTENT).injected(), pytest.raises(WriteFailed):
            write(quick_path / "new")
        if not (quick_path / "new").exists():
            write(quick_path / "new")
        assert expected == shape(quick_path / "new"), number
        assert ["new"] == [path.name for path in quick_path.iterdir()], number
        remove(quick_path / "new")


@pytest.mark.parametrize("write", [write_tree, write_file])
def test_killed(quick_path: Path, write: Callable[[Path], None]) -> None:
    """Killed at any operation there is nothing or all; the next run clears up and succeeds."""
    write(quick_path / "new")
    number, expected = 0, shape(quick_path / "new")
    remove(quick_path / "new")
    while killed_at(number, lambda: write(quick_path / "new")):
        if not (quick_path / "new").exists():
            write(quick_path / "new")
        assert expected == shape(quick_path / "new"), number
        assert ["new"] == [path.name for path in quick_path.iterdir()], number
        remove(quick_path / "new")
        number += 1
    assert number >= len(("create", "write", "fsync", "rename", "fsync"))


def test_leftovers_of_others(tmp_path: Path) -> None:
    """What only looks like a leftover stays: of a living process, of another target, a link."""
    process = subprocess.Popen(["sleep", "100"])  # noqa: S607 - any living process
    try:
        ended = subprocess.Popen(["true"])  # noqa: S607 - any process that is gone
        ended.wait()
        mine = [
            f".new.rmqtool-{process.pid}",
            f".newer.rmqtool-{ended.pid}",
            f".new.rmqtool-{ended.pid}x",
            ".new.rmqtool-",
            "new.rmqtool-1",
        ]
        for name in mine:
            (tmp_path / name).mkdir()
        (tmp_path / f".new.rmqtool-0{ended.pid}").symlink_to(tmp_path / mine[0])
        (tmp_path / f".new.rmqtool-{ended.pid}" / "deep").mkdir(parents=True)
        write_tree(tmp_path / "new")
        left = {path.name for path in tmp_path.iterdir()}
        assert {"new", f".new.rmqtool-0{ended.pid}", *mine} == left
    finally:
        process.kill()
        process.wait()


def test_two_at_once(tmp_path: Path) -> None:
    """Two writers of one target in one process do not meet: the second is refused."""
    with OutputFile(tmp_path / "new") as first:
        first.text.write("first")
        with pytest.raises(OutputExists, match="another run"), OutputFile(tmp_path / "new"):
            pass
    assert "first" == (tmp_path / "new").read_text()


def test_length_limit(tmp_path: Path) -> None:
    """A limit of the system on the length of files is an error like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WriteFailed, match="too large"), OutputFile(tmp_path / "new") as file:
            file.text.write("x" * 200_000)
        with pytest.raises(WriteFailed), OutputDirectory(tmp_path / "new") as output:
            output.file("a", size=6_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [] == list(tmp_path.iterdir())


def test_full_disk(tmp_path: Path) -> None:
    """On a real full disk there is an error, no output, and the disk is as empty as before."""
    program = f"""
import os, sys
from rmqtool.errors import WriteFailed
from rmqtool.writing.directory import spot_of
from rmqtool.writing.output import OutputDirectory
free = os.statvfs({str(tmp_path)!r}).f_bfree
try:
    with OutputDirectory({str(tmp_path / "new")!r}) as output:
        for number in range(100):
            output.file(str(number), size=1 << 16).write(0, b"x" * (1 << 16))
except WriteFailed as error:
    assert "No space left" in str(error), error
    assert os.listdir({str(tmp_path)!r}) == []
    assert os.statvfs({str(tmp_path)!r}).f_bfree == free
    sys.exit(42)
"""
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c "$0"'
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, program]
    run = subprocess.run(shell, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if "Operation not permitted" in run.stderr or "No such file" in run.stderr:
        pytest.skip("no file system can be mounted here")
    assert (42, "") == (run.returncode, run.stderr)


def shape(path: Path) -> dict[str, tuple[int, str]]:
    """Give names, modes and bytes."""
    return {name: (trace.mode, trace.digest) for name, trace in snapshot(path).items()}


def remove(path: Path) -> None:
    """Remove a file or a tree."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
