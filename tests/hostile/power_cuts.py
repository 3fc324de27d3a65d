"""Power cuts: what a command asks of a disk, and what the disk may show after the power was cut.

    python -m tests.hostile.power_cuts [--work repair] [--states 500] [--seed 1]

A command is run once, and each change that it asks for is taken down. Then states are made that a
disk may be in after a cut at any of them. What was not brought to the disk is there or not: bytes
page by page, names in an order. In `ordered`, as in ext4 and xfs, all names change in their order,
and each fsync forces all before it. In `liberal` the names of each directory have their own order,
forced only by an fsync of that directory. In each state the next command must give the new store,
and an undo the old one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import shutil
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from unittest import mock

import numpy as np

from rmqtool.cli.main import main as rmqtool
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
from rmqtool.writing import staging, system_calls
from rmqtool.writing.directory import Spot
from rmqtool.writing.lock import StoreLock
from tests import inflict
from tests.store.journals import resealed
from tests.stores import fixture_store

# ruff: noqa: T201 - a program that prints
PAGE: Final = 4096
ORDERS: Final = ("ordered", "liberal")
Node: TypeAlias = tuple[int, int]  # an inode, and how often its number was given before
Operation: TypeAlias = tuple[Any, ...]  # what was asked, and of which nodes
NAMES: Final = ("create", "unlink", "rename")
EXCHANGE, NO_REPLACE = 2, 1  # as renameat2 has them
UNKNOWN: Final = 99
QUEUES: Final = "consumequeue"  # where they are in RocksDB, which is written anew
REAL: Final = {
    name: getattr(os, name)
    for name in (
        "open", "pwrite", "ftruncate", "fsync", "utime", "mkdir", "rmdir", "unlink", "rename",
        "fstat", "stat",
    )
}  # fmt: skip


@dataclass
class File:
    """A file or a directory of a modelled disk."""

    mode: int
    mtime_ns: int
    content: bytearray | None  # None: a directory


@dataclass
class Disk:
    """A file system as it may be after a cut."""

    root: Node = (0, 0)
    nodes: dict[Node, File] = field(default_factory=dict)
    names: dict[Node, dict[str, Node]] = field(default_factory=dict)

    @classmethod
    def of(cls, top: Path) -> Disk:
        """Take down what is there."""
        made = cls((top.stat().st_ino, 0))
        for above, _, _ in os.walk(top):
            facts = REAL["stat"](above)
            here = (facts.st_ino, 0)
            made.names[here] = {}
            made.nodes[here] = File(facts.st_mode, facts.st_mtime_ns, None)
            with os.scandir(above) as found:
                for entry in found:
                    facts = entry.stat(follow_symlinks=False)
                    made.names[here][entry.name] = node = (facts.st_ino, 0)
                    if entry.is_file():
                        raw = bytearray(Path(entry.path).read_bytes())
                        made.nodes[node] = File(facts.st_mode, facts.st_mtime_ns, raw)
        return made

    def copy(self) -> Disk:
        """Give a disk of the same content."""
        nodes = {
            node: File(file.mode, file.mtime_ns, None if file.content is None else file.content[:])
            for node, file in self.nodes.items()
        }
        return Disk(self.root, nodes, {node: dict(names) for node, names in self.names.items()})

    def apply(self, operation: Operation) -> None:
        """Do what was asked."""
        getattr(self, f"_{operation[0]}")(*operation[1:])

    def _create(self, above: Node, name: str, node: Node, mode: int) -> None:
        if above in self.names:
            self.names[above][name] = node
            is_directory = os.path.stat.S_ISDIR(mode)  # type: ignore[attr-defined]
            self.nodes.setdefault(node, File(mode, 0, None if is_directory else bytearray()))
            if is_directory:
                self.names.setdefault(node, {})

    def _unlink(self, above: Node, name: str) -> None:
        self.names.get(above, {}).pop(name, None)

    def _rename(self, above: Node, name: str, to: Node, target: str, flags: int) -> None:
        if above not in self.names or to not in self.names or name not in self.names[above]:
            return
        node, there = self.names[above][name], self.names[to].get(target)
        if flags == EXCHANGE and there is not None:
            self.names[above][name], self.names[to][target] = there, node
        elif not (flags == EXCHANGE or (flags == NO_REPLACE and there is not None)):
            del self.names[above][name]
            self.names[to][target] = node

    def _data(self, node: Node, position: int, raw: bytes) -> None:
        content = self._content(node)
        content.extend(bytes(max(position + len(raw) - len(content), 0)))
        content[position : position + len(raw)] = raw

    def _length(self, node: Node, length: int) -> None:
        content = self._content(node)
        del content[length:]
        content.extend(bytes(length - len(content)))

    def _time(self, node: Node, mtime_ns: int) -> None:
        if node in self.nodes:
            self.nodes[node].mtime_ns = mtime_ns

    def _content(self, node: Node) -> bytearray:
        file = self.nodes.setdefault(node, File(0o100644, 0, bytearray()))
        assert file.content is not None
        return file.content

    def put(self, top: Path) -> None:
        """Make it anew; a journal then names the inodes that things have there."""
        shutil.rmtree(top, ignore_errors=True)
        inodes: dict[int, int] = {}
        times: list[tuple[Path, int]] = []
        self._put(self.root, top, inodes, times)
        for path, mtime_ns in times:
            if path.name == "journal.jsonl":
                path.write_bytes(_with_inodes(path.read_bytes(), inodes))
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def _put(
        self, here: Node, path: Path, inodes: dict[int, int], times: list[tuple[Path, int]]
    ) -> None:
        path.mkdir()
        path.chmod(self.nodes[here].mode & 0o7777)
        for name, node in self.names[here].items():
            below, file = path / name, self.nodes.get(node)
            if node in self.names:
                self._put(node, below, inodes, times)
                continue
            below.write_bytes(b"" if file is None or file.content is None else file.content)
            if file is not None:
                below.chmod(file.mode & 0o7777)
                times.append((below, file.mtime_ns))
            inodes[node[0]] = below.stat().st_ino
        inodes[here[0]] = path.stat().st_ino
        times.append((path, self.nodes[here].mtime_ns))


def _with_inodes(raw: bytes, inodes: dict[int, int]) -> bytes:
    """Give a journal whose whole lines name other inodes; a torn line stays as it is."""
    made = []
    for line in raw.splitlines(keepends=True):
        try:
            found = json.loads(line)
            text = line.decode()
            if resealed(text) != text:
                raise ValueError(line)  # noqa: TRY301 - torn, as below
        except (ValueError, AttributeError, TypeError):
            made.append(line)
            continue
        if "inode" in found:
            found["inode"] = inodes.get(found["inode"], found["inode"])
        for number, pair in found.get("inodes", {}).items():
            found["inodes"][number] = [inodes.get(one, one) for one in pair]
        made.append(resealed(json.dumps(found)).encode())
    return b"".join(made)


class Recorder:
    """Takes down what this process asks of the files below a directory.

    Attributes:
        operations: in order.
    """

    def __init__(self, top: Path) -> None:
        self.operations: list[Operation] = []
        self._top, self._shadow = os.path.realpath(top), Disk.of(top)
        self._given: dict[int, int] = {}
        self._foreign: dict[Node, tuple[int, int]] = {}  # files of other processes, as last seen

    def install(self) -> None:
        """Let all that is asked pass through here; for the rest of this process."""
        for name in ("pwrite", "ftruncate", "fsync", "utime", "mkdir", "rmdir", "unlink", "rename"):
            setattr(os, name, getattr(self, f"_{name}"))
        os.remove, os.replace, os.open = self._unlink, self._rename, self._open  # type: ignore[assignment]
        rename, sync = system_calls._rename, system_calls.sync_file_system  # noqa: SLF001 - patched

        def renamed(source: Spot, target: Spot, flags: int) -> bool:
            self._reconcile()
            places = [self._where(one.name, one.directory.handle) for one in (source, target)]
            done = rename(source, target, flags)
            if done and None not in places:
                self._note("rename", *places[0], *places[1], flags)  # type: ignore[misc]
            return done

        def synced(handle: int) -> bool:
            self._reconcile()
            self._note("all")
            return sync(handle)

        system_calls._rename = renamed  # noqa: SLF001
        system_calls.sync_file_system = synced
        vars(staging)["sync_file_system"] = synced

    def _note(self, *operation: Any) -> None:  # noqa: ANN401
        self.operations.append(operation)
        if operation[0] not in {"sync", "all"}:
            self._shadow.apply(operation)

    def _node(self, facts: os.stat_result) -> Node:
        return facts.st_ino, self._given.get(facts.st_ino, 0)

    def _is_inside(self, handle: int) -> bool:
        return f"{Path(f'/proc/self/fd/{handle}').readlink()}/".startswith(f"{self._top}/")

    def _where(self, path: Any, dir_fd: int | None) -> tuple[Node, str] | None:  # noqa: ANN401
        """Give the node of a directory, and the name in it, where it is below the top."""
        if isinstance(path, int):
            return None
        above, name = os.path.split(os.fspath(path))
        if dir_fd is not None and not above:
            return (self._node(os.fstat(dir_fd)), name) if self._is_inside(dir_fd) else None
        handle = REAL["open"](above or ".", os.O_PATH | os.O_DIRECTORY, dir_fd=dir_fd)
        try:
            return (self._node(os.fstat(handle)), name) if self._is_inside(handle) else None
        finally:
            os.close(handle)

    def _created(self, place: tuple[Node, str], facts: os.stat_result) -> None:
        self._given[facts.st_ino] = self._given.get(facts.st_ino, 0) + 1
        self._note("create", *place, self._node(facts), facts.st_mode)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:  # noqa: ANN401
        place = self._where(path, dir_fd) if flags & os.O_CREAT else None
        is_new = place is not None and place[1] not in self._shadow.names.get(place[0], {})
        handle: int = REAL["open"](path, flags, mode, dir_fd=dir_fd)
        if place is not None and is_new:
            self._created(place, os.fstat(handle))
        return handle

    def _pwrite(self, handle: int, data: Any, position: int) -> int:  # noqa: ANN401
        count: int = REAL["pwrite"](handle, data, position)
        if self._is_inside(handle):
            raw = bytes(memoryview(data).cast("B")[:count])
            facts = os.fstat(handle)
            self._note("data", self._node(facts), position, raw)
            self._note("time", self._node(facts), facts.st_mtime_ns)
        return count

    def _ftruncate(self, handle: int, length: int) -> None:
        REAL["ftruncate"](handle, length)
        if self._is_inside(handle):
            facts = os.fstat(handle)
            self._note("length", self._node(facts), length)
            self._note("time", self._node(facts), facts.st_mtime_ns)

    def _fsync(self, handle: int) -> None:
        REAL["fsync"](handle)
        if self._is_inside(handle):
            self._reconcile()
            self._note("sync", self._node(os.fstat(handle)))

    def _utime(self, path: Any, *, ns: tuple[int, int], **where: Any) -> None:  # noqa: ANN401
        REAL["utime"](path, ns=ns, **where)
        facts = REAL["stat"](path, **where)
        if self._node(facts) in self._shadow.nodes:
            self._note("time", self._node(facts), ns[1])

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:  # noqa: ANN401
        place = self._where(path, dir_fd)
        REAL["mkdir"](path, mode, dir_fd=dir_fd)
        if place is not None:
            self._created(place, REAL["stat"](path, dir_fd=dir_fd))

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:  # noqa: ANN401
        self._gone("unlink", path, dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:  # noqa: ANN401
        self._gone("rmdir", path, dir_fd)

    def _gone(self, call: str, path: Any, dir_fd: int | None) -> None:  # noqa: ANN401
        place = self._where(path, dir_fd)
        REAL[call](path, dir_fd=dir_fd)
        if place is not None:
            self._note("unlink", *place)

    def _rename(
        self,
        source: Any,  # noqa: ANN401
        target: Any,  # noqa: ANN401
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        places = (self._where(source, src_dir_fd), self._where(target, dst_dir_fd))
        REAL["rename"](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if places[0] and places[1]:
            self._note("rename", *places[0], *places[1], 0)

    def _reconcile(self) -> None:
        """Take down what another process did: that of RocksDB writes by itself."""
        for above, _, _ in os.walk(self._top):
            here = self._node(REAL["stat"](above))
            known = self._shadow.names.get(here, {})
            with os.scandir(above) as found:
                entries = {entry.name: entry for entry in found}
            for name in known.keys() - entries.keys():
                self._note("unlink", here, name)
            for name, entry in entries.items():
                facts = entry.stat(follow_symlinks=False)
                if name not in known:
                    self._created((here, name), facts)
                    self._foreign[self._node(facts)] = (-1, -1)
                seen = (facts.st_size, facts.st_mtime_ns)
                node = self._node(facts)
                if entry.is_file() and self._foreign.get(node, seen) != seen:
                    self._foreign[node] = seen
                    self._note("length", node, 0)
                    self._note("data", node, 0, Path(entry.path).read_bytes())
                    self._note("time", node, facts.st_mtime_ns)


class Cut:
    """What of some operations is on the disk after the power was cut.

    Args:
        done: what was asked for until then.
        order: of names, one of `ORDERS`.
        chance: decides what of the rest is there; None for nothing.
    """

    def __init__(
        self, done: Sequence[Operation], order: str, chance: np.random.Generator | None
    ) -> None:
        self._done, self._order, self._chance = done, order, chance
        self._synced: dict[Node, int] = {}  # the last fsync of each, by number
        self._whole = -1  # the last one of all
        self._ends: dict[Node | None, int] = {}  # where the names that are there end
        for number, operation in enumerate(done):
            if operation[0] == "all":
                self._whole = number
            elif operation[0] == "sync":
                self._synced[operation[1]] = number
        self._last = max([self._whole, *self._synced.values()])

    def disk(self, base: Disk) -> Disk:
        """Give a disk that was `base` before."""
        disk = base.copy()
        for number, operation in enumerate(self._done):
            for piece in self._there(number, operation):
                disk.apply(piece)
        return disk

    def _there(self, number: int, operation: Operation) -> Iterator[Operation]:
        if operation[0] in {"sync", "all"}:
            return
        if operation[0] in NAMES:
            has = self._has_all_names if self._order == "ordered" else self._has_names
            if has(number, operation):
                yield operation
        elif number < self._whole or self._synced.get(operation[1], -1) > number:
            yield operation
        elif self._chance is not None:
            yield from (page for page in _pages(operation) if self._chance.random() < 0.5)

    def _end(self, directory: Node | None, begin: int) -> int:
        """Give the operation from which on names of a directory are not there."""
        if directory not in self._ends:
            count = len(self._done) + 1
            chance = self._chance
            self._ends[directory] = begin if chance is None else int(chance.integers(begin, count))
        return self._ends[directory]

    def _has_all_names(self, number: int, _: Operation) -> bool:
        return number < self._end(None, self._last + 1)

    def _moved_on(self, number: int, created: Operation) -> int | None:
        """Give the rename of a new name; None where it keeps it."""
        for place, one in enumerate(self._done[number:], number):
            if one[0] == "rename" and one[1:3] == created[1:3]:
                return place
        return None

    def _has_names(self, number: int, operation: Operation) -> bool:
        moved = self._moved_on(number, operation) if operation[0] == "create" else None
        if moved is not None and self._has_names(moved, self._done[moved]):
            return True  # what is there under its later name was made before
        directories = {operation[1]} | ({operation[3]} if operation[0] == "rename" else set())
        synced = {directory: self._synced.get(directory, -1) for directory in directories}
        if number < self._whole or max(synced.values()) > number:
            return True
        begins = {directory: max(last, self._whole) + 1 for directory, last in synced.items()}
        return {number < self._end(directory, begin) for directory, begin in begins.items()} == {
            True
        }


def _pages(operation: Operation) -> Iterator[Operation]:
    if operation[0] != "data":
        yield operation
        return
    _, node, position, raw = operation
    end = position + len(raw)
    while position < end:
        stop = min((position // PAGE + 1) * PAGE, end)
        yield "data", node, position, raw[: stop - position]
        raw, position = raw[stop - position :], stop


class Work(NamedTuple):
    """A command whose power is cut."""

    fixture: str
    harm: Callable[[Path], None]  # what is wrong with the store
    prepare: tuple[tuple[str, ...], ...]  # commands before the one that is cut
    command: tuple[str, ...]  # the one that is cut; its first word is followed by the store
    expects_old: bool = False  # whether it gives back the old store


REPAIR: Final = ("repair", "--in-place", "--yes")
REBUILD: Final = ("rebuild", "--in-place", "--yes")
UNDO: Final = ("repair", "--undo")


def _harm(store: Path) -> None:
    inflict.flip_field("body")(store)
    shutil.rmtree(
        next(path for path in sorted((store / "consumequeue").iterdir()) if path.is_dir())
    )


WORKS: Final[dict[str, Work]] = {
    "repair": Work("rocketmq-4.9.3-lmq", _harm, (), REPAIR),
    "rebuild": Work("rocketmq-5.3.3-ipv6", _harm, (), REBUILD),
    "undo": Work("rocketmq-4.9.3-ipv6", _harm, (REPAIR,), UNDO, expects_old=True),
    "rocksdb": Work("rocketmq-5.5.0-rocksdb", inflict.flip_field("body"), (), REPAIR),
}


def run(command: Sequence[str], store: Path, record: Path | None = None) -> tuple[int, str]:
    """Run a command in a child; give its exit code, and what it says on stderr."""
    with tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            code = UNKNOWN
            try:
                os.dup2(err.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                # Not those of a test, which keep what they get.
                sys.stdout, sys.stderr = (
                    os.fdopen(number, "w", closefd=False) for number in (1, 2)
                )
                recorder = Recorder(store) if record else None
                if recorder:
                    recorder.install()
                code = rmqtool([command[0], str(store), *command[1:], "--quiet"])
                if recorder and record:
                    for name, call in REAL.items():
                        setattr(os, name, call)
                    record.write_bytes(pickle.dumps(recorder.operations))
            except BaseException:  # noqa: BLE001 - a child says what it has to say
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code & 255)
        _, status = os.waitpid(child, 0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), err.read().decode("utf-8", "replace")


def content_of(store: Path) -> dict[str, str]:
    """Give what a broker would read: names and bytes; of RocksDB, rows."""
    found: dict[str, str] = {}
    for above, directories, names in os.walk(store):
        path = os.path.relpath(above, store)
        if path == ".":
            directories[:] = [
                directory for directory in directories if not directory.startswith("rmqtool-")
            ]
        if "CURRENT" in names and path == QUEUES:
            found[path] = _rows(Path(above), path)
            continue
        found[path] = "directory"
        for name in names:
            raw = Path(above, name).read_bytes()
            found[f"{path}/{name}"] = hashlib.sha256(raw).hexdigest()
    return found


def _rows(directory: Path, path: str) -> str:
    digest = hashlib.sha256()
    with Database(Place(str(directory)), path) as database:
        for family in sorted(database.families):
            for batch in database.rows(family):
                for key, value in batch.items():
                    digest.update(b"%d %d" % (len(key), len(value)) + key + value)
    return digest.hexdigest()


class Wrong(NamedTuple):
    """What is wrong in one state."""

    number: int  # operations before the cut
    path: str  # what was run afterwards
    code: int
    words: str  # on stderr
    differs: list[str]  # paths


class Cuts:
    """Cuts the power of one command, in many states.

    Args:
        name: one of `WORKS`.
        top: a directory to work in.
    """

    def __init__(self, name: str, top: Path) -> None:
        self.work, self._store = WORKS[name], top / "store"
        origin = fixture_store(self.work.fixture, top / "origin")
        self.work.harm(origin)
        warm = shutil.copytree(origin, top / "warm")
        # Children have what this process has loaded.
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            assert rmqtool(["repair", str(warm), *REPAIR[1:], "--quiet"]) in {0, 1, 3}
        shutil.copytree(origin, self._store)
        self._old = content_of(self._store)
        for command in self.work.prepare:
            code, words = run(command, self._store)
            assert code in {0, 1, 3}, words
        self._base = Disk.of(self._store)
        code, words = run(self.work.command, self._store, top / "operations")
        assert code in {0, 1, 3}, words
        self.operations: list[Operation] = pickle.loads((top / "operations").read_bytes())  # noqa: S301 - ours
        self._new = content_of(self._store)
        assert self._new != self._old or self.work.expects_old
        disk = self._base.copy()
        for operation in self.operations:
            if operation[0] not in {"sync", "all"}:
                disk.apply(operation)
        disk.put(top / "model")
        assert self._new == content_of(top / "model"), "the model is not what is there"

    def states(self, order: str, count: int, seed: int) -> Iterator[tuple[int, Disk]]:
        """Yield different states: operations before the cut, and the disk."""
        chance, seen = np.random.default_rng(seed), set()
        for turn in range(4 * count):
            number = int(chance.integers(1, len(self.operations) + 1))
            done = self.operations[:number]
            disk = Cut(done, order, chance if turn % 4 else None).disk(self._base)
            names = sorted((file, sorted(below.items())) for file, below in disk.names.items())
            digest = zlib.crc32(repr(names).encode())
            for _, file in sorted(disk.nodes.items()):
                digest = zlib.crc32(file.content or b"", digest)
            if digest not in seen:
                seen.add(digest)
                yield number, disk
            if len(seen) == count:
                return

    def wrong(self, number: int, disk: Disk) -> Iterator[Wrong]:
        """Run the next command, then undo; and undo at once. Yield what is not as it must be."""
        again = (self.work.command, UNDO) if not self.work.expects_old else (UNDO,)
        for commands in (again, (REPAIR,) if self.work.expects_old else (UNDO,)):
            disk.put(self._store)
            for command in commands:
                code, words = run(command, self._store)
                is_old = command is UNDO
                expected = self._old if is_old else self._repaired
                found = content_of(self._store)
                is_done = code in {0, 1, 3} or (is_old and "no edit to take back" in words)
                if not is_done or found != expected:
                    paths = expected.keys() | found.keys()
                    differs = [path for path in paths if expected.get(path) != found.get(path)]
                    yield Wrong(number, " ".join(command), code, words[-300:], sorted(differs)[:4])
                    break

    @property
    def _repaired(self) -> dict[str, str]:
        if not self.work.expects_old:
            return self._new
        if not hasattr(self, "_repaired_"):
            self._base.put(self._store)
            self._repaired_ = content_of(self._store)
        return self._repaired_


def main() -> int:
    """Print what is wrong, then how many states there were; 1 when anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", choices=WORKS, action="append")
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wrong = count = 0
    with mock.patch.object(StoreLock, "_others", return_value=[]):
        for name in asked.work or WORKS:
            with tempfile.TemporaryDirectory() as top:
                cuts = Cuts(name, Path(top))
                print(f"{name}: {len(cuts.operations)} operations", flush=True)
                for order in ORDERS:
                    for number, disk in cuts.states(order, asked.states, asked.seed):
                        count += 1
                        for found in cuts.wrong(number, disk):
                            wrong += 1
                            print(name, order, found, flush=True)
    print(f"{count} states, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
