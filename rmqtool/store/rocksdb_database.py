"""Reads the rows of a RocksDB database, read-only, in a process of its own.

The library writes a file into the directory that it opens, and may end the process on damaged
files. So it gets a directory of links, and a process: see `writing.rocksdb_links`. Nothing in the
store changes. Damage is an error after the rows that could be read, never fewer rows in silence.
While a command runs, who asks for the same files again is given the same process: `rocksdb_idle`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from rmqtool.errors import DamagedDatabase, EngineMissing
from rmqtool.store.entry import EntryKind
from rmqtool.store.rocksdb import FILE_NAME
from rmqtool.store.rocksdb_idle import leave, take
from rmqtool.store.rocksdb_server import FRAME, ITEM, PREFIX, SKIP_CORRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb_idle import Opening

PACKAGE: Final = "rocksdict"
INSTALL: Final = "pip install rocksdict"
PACKAGES: Final = str(Path(__file__).parents[2])
MODULE: Final = "rmqtool.writing.rocksdb_links"  # a program: nothing of it is imported
SILENCE_SECONDS = 60.0  # without a byte from the process: it hangs
# Of address space. What lies in the logs is in memory as a whole.
MEMORY_BYTES = 4 << 30
CLOSED: Final = "the database was closed"
READ_BYTES: Final = 1 << 20
LINKED: Final = ("CURRENT", "IDENTITY", "MANIFEST-")  # and table files and write-ahead logs
SUFFIXES: Final = (".sst", ".log", ".blob")
# RocksDB reads the first two into memory, and the others from their begin to their end. Its own
# are far below; a stranger has a hole of any length for nothing.
LARGEST: Final = {"CURRENT": 4096, "IDENTITY": 4096, "MANIFEST-": 2 << 30, ".log": 4 << 30}
MOST_COPIED: Final = 4 << 30  # bytes of files that are not on this machine's disks


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of a family, in the order of their keys.

    Attributes:
        joined_keys: all keys, one after another.
        joined_values: the same of the values.
        key_lengths: bytes of each key.
        value_lengths: bytes of each value.
    """

    joined_keys: bytes
    joined_values: bytes
    key_lengths: tuple[int, ...]
    value_lengths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.key_lengths)

    @property
    def keys(self) -> list[bytes]:
        """Key of each row."""
        return _cut(self.joined_keys, self.key_lengths)

    @property
    def values(self) -> list[bytes]:
        """Value of each row."""
        return _cut(self.joined_values, self.value_lengths)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of each row."""
        return zip(self.keys, self.values, strict=True)


@dataclass(eq=False, slots=True)
class Served:
    """A process that has opened a database.

    Attributes:
        process: that answers.
        opening: how it was opened, and on what.
        families: names of the column families.
        live: table files that the library uses, with the size that the MANIFEST gives.
        is_answered: whether all of its last answer was read.
    """

    process: subprocess.Popen[bytes]
    opening: Opening
    families: tuple[str, ...] = ()
    live: dict[str, int] = field(default_factory=dict)
    is_answered: bool = False

    def end(self) -> None:
        """End the process; it only reads, and its parent removes the directory."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.terminate()
        self.process.wait()

    @property
    def can_answer(self) -> bool:
        """Whether it has opened the database, owes nobody an answer, and lives."""
        return self.is_answered and bool(self.families) and self.process.poll() is None

    def close(self) -> None:
        """Leave it to the next reader, where it can answer."""
        if self.can_answer:
            leave(self)
        else:
            self.end()


class Database:
    """A database, open for reading; a context manager.

    Attributes:
        place: its directory.
        path: the same relative to the store root.
        families: names of its column families.
        live: table files that the library uses, with the size that the MANIFEST gives.
    """

    def __init__(self, place: Place, path: str) -> None:
        """Open a database.

        Raises:
            DamagedDatabase: RocksDB refuses it.
            UnreadablePath: the directory may not be listed.
            EngineMissing: the library is not installed.
        """
        self.place, self.path = place, path
        _require()
        links, copies, opening = self._files()
        waiting = take(opening)
        self._served = waiting if isinstance(waiting, Served) else Served(_start(), opening)
        self._close = weakref.finalize(self, self._served.close)
        if waiting is None:
            answer = self._begin(links, copies)
            self._served.families, self._served.live = tuple(answer["families"]), answer["live"]
        self.families, self.live = self._served.families, self._served.live

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the process to whoever reads the same files next; twice does no harm."""
        self._close()

    def rows(
        self, family: str, begin: bytes = b"", end: bytes = b"", limit: int = sys.maxsize
    ) -> Iterator[RowBatch]:
        """Yield the rows of a family, in the order of their keys.

        Args:
            family: its name; one that the database has not got has no rows.
            begin: the smallest key.
            end: past the largest key; empty for all.
            limit: rows at most.

        Raises:
            DamagedDatabase: after the rows that could be read: there are more.
        """
        if family not in self.families:
            return
        yield from self._scan(family, begin, end, limit, is_last=False)

    def last(self, family: str, begin: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Give the last row of a range; None when the range has none.

        Raises:
            DamagedDatabase: it cannot be read.
        """
        if family not in self.families:
            return None
        batches = self._scan(family, begin, end, 1, is_last=True)
        return next(((one.keys[0], one.values[0]) for one in list(batches)), None)

    def get(self, family: str, key: bytes) -> bytes | None:
        """Give the value of a key; None without one.

        Raises:
            DamagedDatabase: it cannot be read.
        """
        found = list(self.rows(family, key, key + b"\0", 1))
        return found[0].values[0] if found else None

    def _files(self) -> tuple[dict[str, str], dict[str, Place], Opening]:
        """Give the files of the database: of this machine to link to, and remote ones to copy.

        Returns:
            Those to link to, those to copy, and the opening; of copies there is none to repeat.

        Raises:
            DamagedDatabase: a file is too large.
        """
        links: dict[str, str] = {}
        copies: dict[str, Place] = {}
        files = []
        for entry in self.place.entries():
            if entry.kind is not EntryKind.FILE or not FILE_NAME.fullmatch(entry.name):
                continue
            if not entry.name.startswith(LINKED) and not entry.name.endswith(SUFFIXES):
                continue
            self._refuse_large(entry)
            file = self.place.child(entry.name)
            if file.is_local:
                location = os.path.abspath(file.location)  # noqa: PTH100 - of any bytes
                links[entry.name] = location
                files.append((location, entry.size, entry.mtime_ns, entry.inode))
            else:
                copies[entry.name] = file
        return links, copies, () if copies else (self._mode, *sorted(files))

    def _begin(self, links: dict[str, str], copies: dict[str, Place]) -> dict[str, Any]:
        """Have the process open the database; give what it says of it."""
        with ExitStack() as stack:
            opened = {name: stack.enter_context(file.open()) for name, file in copies.items()}
            sizes = {name: file.size for name, file in opened.items()}
            self._require_room(sum(sizes.values()))
            self._tell(
                {"links": links, "copies": sizes, "mode": self._mode, "memory": MEMORY_BYTES}
            )
            for file in opened.values():
                for position in range(0, file.size, READ_BYTES):
                    self._send(file.read_at(position, READ_BYTES))
        return self._answer()

    @property
    def _mode(self) -> str:
        return SKIP_CORRUPTED if self.path.startswith("config/") else "point"

    def _require_room(self, count: int) -> None:
        """Refuse copies that are too long: a file of an archive may be one hole of a terabyte."""
        if count > MOST_COPIED:
            reason = f"copies of {count:,} bytes; at most {MOST_COPIED:,} are made: unpack it"
            raise self._damaged(reason)

    def _refuse_large(self, entry: Entry) -> None:
        for part, limit in LARGEST.items():
            if entry.size > limit and (entry.name.startswith(part) or entry.name.endswith(part)):
                reason = f"{entry.name} has {entry.size:,} bytes; at most {limit:,} are read"
                raise self._damaged(reason)

    def _scan(
        self, family: str, begin: bytes, end: bytes, limit: int, *, is_last: bool
    ) -> Iterator[RowBatch]:
        asked = {"family": family, "begin": begin.hex(), "end": end.hex(), "limit": limit}
        self._tell({**asked, "is_last": is_last})
        is_read = False
        try:
            while (batch := self._batch()) is not None:
                yield batch
            is_read = True
        finally:
            if not is_read and self._close.alive:  # nobody wants the rest, or it is damaged
                self._drain()

    def _drain(self) -> None:
        """Read what is left of an answer, so that the next question gets its own."""
        if not self._served.is_answered:
            try:
                while self._batch() is not None:
                    pass
            except DamagedDatabase:
                return

    def _answer(self) -> dict[str, Any]:
        rows, length, _ = FRAME.unpack(self._read(FRAME.size))
        answer: dict[str, Any] = json.loads(self._read(length))
        if rows or "error" in answer:
            self.close()
            raise self._damaged(answer.get("error", "no answer"))
        self._served.is_answered = True
        return answer

    def _tell(self, question: dict[str, Any]) -> None:
        self._served.is_answered = False
        self._send(json.dumps(question).encode() + b"\n")

    def _send(self, data: bytes) -> None:
        stdin, left = self._served.process.stdin, memoryview(data)
        try:
            if stdin is None or stdin.closed:
                raise self._damaged(CLOSED)
            while left:
                left = left[stdin.write(left) :]
        except OSError as error:
            raise self._died() from error

    def _batch(self) -> RowBatch | None:
        """Read a frame; None is the end of the answer.

        Raises:
            DamagedDatabase: the answer is that there are more rows.
        """
        rows, key_bytes, value_bytes = FRAME.unpack(self._read(FRAME.size))
        if not rows:
            answer = json.loads(self._read(key_bytes))
            self._served.is_answered = True
            if "error" in answer:
                raise self._damaged(answer["error"])
            return None
        lengths = memoryview(self._read(2 * rows * 4)).cast(ITEM).tolist()
        keys, values = self._read(key_bytes), self._read(value_bytes)
        return RowBatch(keys, values, tuple(lengths[:rows]), tuple(lengths[rows:]))

    def _read(self, length: int) -> bytes:
        """Read from the process, which has to say something from time to time."""
        stdout = self._served.process.stdout
        if stdout is None or stdout.closed:
            raise self._damaged(CLOSED)
        parts, descriptor = [], stdout.fileno()
        while length:
            if not select.select([descriptor], [], [], SILENCE_SECONDS)[0]:
                self._served.process.terminate()
                reason = f"RocksDB gave no answer for {SILENCE_SECONDS:g} s"
                raise self._died(reason)
            part = os.read(descriptor, min(length, READ_BYTES))
            if not part:
                raise self._died()
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _died(self, reason: str = "") -> DamagedDatabase:
        code = self._served.process.wait()
        self.close()
        return self._damaged(reason or f"RocksDB's process ended, status {code}, on these files")

    def _damaged(self, reason: str) -> DamagedDatabase:
        return DamagedDatabase(path=self.path, reason=_without_links(reason))


def _without_links(reason: str) -> str:
    """Leave out the directory of links, which nobody else can see."""
    words = (word.rpartition("/")[2] if f"/{PREFIX}" in word else word for word in reason.split())
    return " ".join(words)


def _require() -> None:
    from importlib.util import find_spec

    if find_spec(PACKAGE) is None:
        raise EngineMissing(needs=f"{PACKAGE}, the reader of RocksDB databases", install=INSTALL)


def _start() -> subprocess.Popen[bytes]:
    """Start the process; it finds this package where this process found it."""
    paths = os.pathsep.join([PACKAGES, *(path for path in sys.path if path)])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-P", "-m", MODULE],  # -P: never from the current directory
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        bufsize=0,
    )


def _cut(joined: bytes, lengths: tuple[int, ...]) -> list[bytes]:
    parts, position = [], 0
    for length in lengths:
        parts.append(joined[position : position + length])
        position += length
    return parts
