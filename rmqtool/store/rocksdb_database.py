"""Reads the rows of a RocksDB database, read-only, in a process of its own.

The library writes a file into the directory that it opens, and may end the process on damaged
files. So it gets open files, a directory of links to them, and a process that can do nothing else:
see `rocksdb_cell`. Nothing in the store changes. Damage is an error after the rows that could be
read, never fewer rows in silence. While a command runs, who asks for the same files again is given
the same process: `rocksdb_idle`.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import sys
import weakref
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from rmqtool.budget import OverBudget, ParseBudget
from rmqtool.errors import DamagedDatabase, Trouble, UnreadablePath
from rmqtool.formats.rocksdb_families import longest_value
from rmqtool.plural import counted
from rmqtool.store.anchors import from_anchor
from rmqtool.store.confinement import spare_user
from rmqtool.store.entry import EntryKind, entry_of, listed, stored_bytes
from rmqtool.store.place import OPEN_FLAGS, OpenFile
from rmqtool.store.rocksdb import CURRENT, FILE_NAME
from rmqtool.store.rocksdb_cell import LARGEST_REASON, WHY, Cell, CellFailed, limits
from rmqtool.store.rocksdb_frames import LONG, RowBatch
from rmqtool.store.rocksdb_idle import free_seconds, leave, refuse, refused, spend, take
from rmqtool.store.rocksdb_kept import MOST_ROWS, KeptRows
from rmqtool.store.rocksdb_server import SKIP_CORRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb_idle import Opening


Answer = TypeVar("Answer")

READ_BYTES: Final = 1 << 20
ROW_STEPS: Final = 10  # see `budget`
BYTES_A_STEP: Final = 4  # of keys and values
MOST_FAMILIES: Final = 64  # brokers make ten at most
MOST_COPIED: Final = 4 << 30  # bytes of files that the process cannot open by itself
MOST_KEPT: Final = 256 << 20  # bytes of the files of a database whose rows may be kept
MEMORY_OF_LOGS: Final = 4  # bytes in memory for each in a write-ahead log
SECONDS_A_GIB: Final = 600  # of a processor, beside those that are free: it is read some times


class Served:
    """A process that has opened a database.

    Args:
        cell: the process.
        opening: how it was opened, and on what.
    """

    def __init__(self, cell: Cell, opening: Opening) -> None:
        self.cell, self.opening = cell, opening
        self.store, self.own_seconds = "", 0.0  # whose it is; what it may take by itself
        self.families: tuple[str, ...] = ()  # names of the column families
        self.live: dict[str, int] = {}  # table files that the library uses, and their sizes
        self.size = 0  # bytes of all files, without holes
        self.kept: dict[str, KeptRows | None] = {}  # by family; None where it is too large
        self.answers: dict[str, object] = {}  # what was found out about these very files
        self.is_answered = False  # whether all of its last answer was read

    def end(self) -> None:
        """End the process; it only reads, and its parent removes the directory."""
        self.cell.end()
        spend(self.store, max(0.0, self.cell.seconds - self.own_seconds))
        self.own_seconds = max(self.cell.seconds, self.own_seconds)  # ended twice, it is paid once

    @property
    def can_answer(self) -> bool:
        """Whether it has opened the database, owes nobody an answer, and lives."""
        return self.is_answered and bool(self.families) and self.cell.is_alive

    def forget(self) -> None:
        """Keep nothing of what was read."""
        self.kept, self.answers = {}, {}

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
        size: bytes of all its files, without holes.
    """

    def __init__(self, place: Place, path: str) -> None:
        """Open a database.

        Raises:
            DamagedDatabase: RocksDB refuses it.
            UnreadablePath: the directory may not be listed.
            EngineMissing: the library is not installed.
        """
        self.place, self.path = place, path
        if (reason := refused(str(place))) is not None:
            raise self._damaged(reason)
        with ExitStack() as stack:
            if place.child(CURRENT).is_local:
                files = stack.enter_context(DatabaseFiles(place, path))
                self._served = self._of_files(files)
            else:
                self._served = self._of_copies(stack)
        self._close = weakref.finalize(self, self._served.close)
        self.families, self.live = self._served.families, self._served.live
        self.size = self._served.size

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
        if (kept := self._served.kept.get(family)) is not None:
            yield from kept.rows(begin, end, limit)
        else:
            yield from self._scan(family, begin, end, limit, is_last=False)

    def keep(self, family: str) -> None:
        """Have the rows of a small family in memory from now on: much is to be asked of them.

        Where they are many, or damaged, each question goes to the library as before.
        """
        kept = self._served.kept
        if family in kept or family not in self.families or self.size > MOST_KEPT:
            return
        kept[family] = None
        with suppress(DamagedDatabase):
            rows = self._scan(family, b"", b"", MOST_ROWS + 1, is_last=False)
            kept[family] = KeptRows.of(rows)

    def once(self, question: str, ask: Callable[[], Answer]) -> Answer:
        """Give an answer about these very files, found out once for all who read them.

        Args:
            question: what is asked.
            ask: finds it out; what it raises is not kept.
        """
        answers = self._served.answers
        if question not in answers:
            answers[question] = ask()
        return cast("Answer", answers[question])

    def kept(self, family: str) -> KeptRows | None:
        """Give the rows of a family that are in memory; None where they are not."""
        return self._served.kept.get(family)

    def last(self, family: str, begin: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Give the last row of a range; None when the range has none.

        Raises:
            DamagedDatabase: it cannot be read.
        """
        if family not in self.families:
            return None
        if (kept := self._served.kept.get(family)) is not None:
            batches = kept.last(begin, end)
        else:
            batches = self._scan(family, begin, end, 1, is_last=True)
        return next(((batch.keys[0], batch.values[0]) for batch in list(batches)), None)

    def get(self, family: str, key: bytes) -> bytes | None:
        """Give the value of a key; None without one. Raises DamagedDatabase: it cannot be read."""
        batches = list(self.rows(family, key, key + b"\0", 1))
        return batches[0].values[0] if batches else None

    def _of_files(self, files: DatabaseFiles) -> Served:
        """Give a process that has opened files of this machine: one that waits, or a new one."""
        opening = (self._mode, *files.state)
        waiting = take(opening)
        if isinstance(waiting, Served):
            return waiting
        files.open()
        user, closed = files.reader()
        handles = {name: handle for name, handle in files.handles.items() if name not in closed}
        most_open, of_library = files.most_open
        order: dict[str, Any] = {"links": handles, "user": user, "open_files": of_library}
        copies = {name: files.opened(name) for name in closed}
        return self._served_by(order, copies, files.stored, most_open, () if closed else opening)

    def _of_copies(self, stack: ExitStack) -> Served:
        """Give a process that opens copies of files that are not on this machine's disks."""
        copies: dict[str, OpenFile] = {}
        stored: dict[str, int] = {}
        for entry in filter(is_used, self.place.entries()):
            if (reason := too_large(entry.name, entry.size)) is not None:
                raise self._damaged(reason)
            copies[entry.name] = stack.enter_context(self.place.child(entry.name).open())
            stored[entry.name] = entry.stored
        order: dict[str, Any] = {"links": {}, "user": None, "open_files": -1}
        return self._served_by(order, copies, stored, len(copies) + SPARE, ())

    def _served_by(
        self,
        order: dict[str, Any],
        copies: dict[str, OpenFile],
        stored: dict[str, int],
        most_open: int,
        opening: Opening,
    ) -> Served:
        """Start a process, and have it open the database.

        Args:
            order: what it opens by itself, as whom.
            copies: what is copied for it.
            stored: bytes of each file that somebody really sent.
            most_open: files that it may have open.
            opening: see `Served`.
        """
        self._require_room(sum(file.size for file in copies.values()))
        size = sum(stored.values())
        logs = sum(size for name, size in stored.items() if name.endswith(".log"))
        store, own_seconds = _root(self.place, self.path), SECONDS_A_GIB * size / (1 << 30)
        seconds = 1 + int(free_seconds(store) + own_seconds)
        order |= {
            "copies": {name: file.size for name, file in copies.items()},
            "mode": self._mode,
            "limits": limits(size + MEMORY_OF_LOGS * logs, seconds, most_open),
        }
        with self._failures():
            cell = Cell(order, [*order["links"].values()])
            served = Served(cell, opening)
            served.store, served.own_seconds = store, own_seconds
            try:
                for file in copies.values():
                    for position in range(0, file.size, READ_BYTES):
                        cell.write([file.read_at(position, READ_BYTES)])
                answer = cell.answer()
            except BaseException:
                served.end()
                self._refuse(cell)
                raise
            if not _is_description(answer):
                reason = "it does not say what it has opened"
                raise cell.stopped(reason)
        served.families, served.live = tuple(answer["families"]), answer["live"]
        served.size = size
        served.is_answered = True
        return served

    @property
    def _mode(self) -> str:
        return SKIP_CORRUPTED if self.path.startswith("config/") else "point"

    def _require_room(self, count: int) -> None:
        """Refuse copies that are too long: a file of an archive may be one hole of a terabyte."""
        if count > MOST_COPIED:
            reason = f"copies of {count:,} bytes; at most {MOST_COPIED:,} are made: unpack it"
            raise self._damaged(reason)

    def _scan(
        self, family: str, begin: bytes, end: bytes, limit: int, *, is_last: bool
    ) -> Iterator[RowBatch]:
        longest = longest_value(self.path, family)
        asked = {"family": family, "begin": begin.hex(), "end": end.hex(), "limit": limit}
        self._served.is_answered = False
        is_read = False
        next_key = begin
        budget = ParseBudget("its rows", self.size)
        try:
            with self._failures():
                self._served.cell.tell({**asked, "is_last": is_last, "longest": longest})
                while (batch := self._batch(longest)) is not None:
                    self._pay(budget, batch)
                    next_key, limit = self._past(batch, next_key, end, limit)
                    yield batch
            is_read = True
        finally:
            if not is_read and self._close.alive:  # nobody wants the rest, or it is damaged
                self._drain()
            self._refuse(self._served.cell)

    def _past(self, batch: RowBatch, begin: bytes, end: bytes, limit: int) -> tuple[bytes, int]:
        """Give what the next rows begin at, and how many there may be: whoever asks gets on.

        Raises:
            CellFailed: rows go back, past the end, or are too many.
        """
        first = batch.joined_keys[: batch.key_lengths[0]]
        last = batch.joined_keys[len(batch.joined_keys) - batch.key_lengths[-1] :]
        if not begin <= first <= last or (end and last >= end) or len(batch) > limit:
            reason = "it returns other rows than requested"
            raise self._served.cell.stopped(reason)
        return last + b"\0", limit - len(batch)

    def _pay(self, budget: ParseBudget, batch: RowBatch) -> None:
        """Pay for rows: keys share what they begin with, so that tables of a MiB may hold a TiB.

        Raises:
            CellFailed: they cost too much; the process has ended.
        """
        content = len(batch.joined_keys) + len(batch.joined_values)
        try:
            budget.spend(len(batch) * ROW_STEPS + content // BYTES_A_STEP)
        except OverBudget as error:
            raise self._served.cell.stopped(str(error)) from error

    def _refuse(self, cell: Cell) -> None:
        """See that what took too long is not opened again."""
        if cell.took_too_long:
            refuse(str(self.place), f"RocksDB's process was stopped{WHY[-signal.SIGXCPU]}")

    def _drain(self) -> None:
        """Read what is left of an answer, so that the next question gets its own."""
        with suppress(CellFailed):
            while not self._served.is_answered and self._batch() is not None:
                pass

    def _batch(self, longest: int = LONG) -> RowBatch | None:
        """Read rows; None is the end of the answer.

        Raises:
            CellFailed: the answer is that there are more rows, or there is not one.
        """
        frame = self._served.cell.read(longest)
        if isinstance(frame, RowBatch):
            return frame
        self._served.is_answered = True
        if "error" in frame:
            raise CellFailed(str(frame["error"])[:LARGEST_REASON])
        return None

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except CellFailed as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> DamagedDatabase:
        return DamagedDatabase(path=self.path, reason=reason)


def _root(place: Place, path: str) -> str:
    """Give the store that a database is of."""
    return str(place).removesuffix(f"/{path}")


def _is_description(answer: dict[str, Any]) -> bool:
    """Say whether an answer has names of families, and tables with their sizes."""
    families, live = answer.get("families"), answer.get("live")
    if not isinstance(families, list) or not isinstance(live, dict):
        return False
    if len(families) > MOST_FAMILIES:
        return False
    return {*map(type, families)} <= {str} and {*map(type, live.values())} <= {int}


# The files of a RocksDB database, opened one by one in its open directory.
#
# Whoever owns the store may rename and link meanwhile what he likes: what is opened is a regular
# file, by a name in the directory that was opened first. The directory itself may be reached
# through
# a link, as by brokers, if it belongs to whoever could have put it there: nobody makes root read a
# directory of somebody else.


USED: Final = ("CURRENT", "IDENTITY", "MANIFEST-")  # and table files and write-ahead logs
SUFFIXES: Final = (".sst", ".log", ".blob")
# RocksDB reads the first two into memory, and the others from their begin to their end. Its own
# are far below; a stranger has a hole of any length for nothing.
LARGEST: Final = {"CURRENT": 1 << 20, "IDENTITY": 1 << 20, "MANIFEST-": 2 << 30, ".log": 4 << 30}
SPARE: Final = 64  # files that a process has open beside those of the database
OPEN_HERE: Final = "/proc/self/fd"
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
IS_LINK: Final = (errno.ENOTDIR, errno.ELOOP)
LINK: Final = "is a link to a directory of another user: not followed"
_DIRECTORY: Final = os.O_DIRECTORY | os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class DatabaseFiles:
    """A directory of a database on this machine, open; a context manager.

    Args:
        place: the directory.
        path: of it, relative to the store root.
    """

    def __init__(self, place: Place, path: str) -> None:
        """Open it, and list it. Raises UnreadablePath: it may not be opened."""
        self.path, self._place = path, place
        self.handles: dict[str, int] = {}  # by name of the file
        self._facts: dict[str, os.stat_result] = {}
        self._directory = _directory(place, path)
        entries = listed(self._directory, entry_of)
        self.entries = sorted(filter(is_used, filter(None, entries)), key=lambda entry: entry.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in (self._directory, *self.handles.values()):
            os.close(handle)

    @property
    def state(self) -> tuple[object, ...]:
        """What is the same as long as the files are: facts of the directory and of each file."""
        own = os.fstat(self._directory)
        files = ((entry.name, entry.inode, entry.size, entry.mtime_ns) for entry in self.entries)
        return own.st_dev, own.st_ino, *files

    @property
    def stored(self) -> dict[str, int]:
        """Bytes of each open file that somebody really sent."""
        return {name: stored_bytes(facts) for name, facts in self._facts.items()}

    def opened(self, name: str) -> OpenFile:
        """Give an open file, to be read as long as this is open."""
        return OpenFile(self._place.child(name), self.handles[name], self._facts[name].st_size)

    def open(self) -> None:
        """Open each file; what is not a regular file any more is left out.

        Raises:
            DamagedDatabase: a file is too large or may not be read, or there are too many.
        """
        self._make_room()
        for entry in self.entries:
            try:
                handle = os.open(entry.name, OPEN_FLAGS, dir_fd=self._directory)
            except OSError as error:
                if Trouble.of(error) in {Trouble.MISSING, Trouble.LINK}:
                    continue  # the library says whether it needs it
                reason = f"{entry.name}: {error.strerror}"
                raise self._refused(reason) from error
            self.handles[entry.name] = handle
            facts = self._facts[entry.name] = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                os.close(self.handles.pop(entry.name))
                del self._facts[entry.name]
            elif too_long := too_large(entry.name, facts.st_size):
                raise self._refused(too_long)

    def reader(self) -> tuple[int | None, list[str]]:
        """Choose a user who may open the files again, for root: one without rights if possible.

        Returns:
            The user, None for whoever this is; and the names of files that he may not open.
        """
        if not sys.platform.startswith("linux"):
            return None, [*self._facts]  # no path leads to an open file there
        if os.geteuid() != 0:
            return None, []
        owners = {fact.st_uid for fact in self._facts.values()}
        users = [spare_user(os.getpid()), *sorted(owners - {0}), 0]
        choices = [(user, self._closed_to(user)) for user in users if user is not None]
        return min(choices, key=self._copied)

    @property
    def most_open(self) -> tuple[int, int]:
        """How many files the process that reads may have open, and how many of them RocksDB."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        needed = 2 * (len(self.handles) + SPARE)
        if hard == resource.RLIM_INFINITY or needed <= hard:
            return needed, -1
        return hard, hard - len(self.handles) - SPARE

    def _copied(self, choice: tuple[int | None, list[str]]) -> int:
        return sum(self._facts[name].st_size + 1 for name in choice[1])

    def _closed_to(self, user: int) -> list[str]:
        return [name for name, facts in self._facts.items() if not _may_read(user, facts)]

    def _make_room(self) -> None:
        """Raise the limit of open files to what is needed, if that is allowed."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        others = len(os.listdir(OPEN_HERE)) if os.path.isdir(OPEN_HERE) else 0  # noqa: PTH112, PTH208
        needed = others + len(self.entries) + 2 * SPARE
        if hard != resource.RLIM_INFINITY and needed > hard:
            reason = (
                f"{counted(len(self.entries), 'file')}, and a process may have {hard:,} open here:"
                " raise the limit (ulimit -Hn)"
            )
            raise self._refused(reason)
        if soft != resource.RLIM_INFINITY and needed > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

    def _refused(self, reason: str) -> DamagedDatabase:
        return DamagedDatabase(path=self.path, reason=reason)


def too_large(name: str, size: int) -> str | None:
    """Say that a file is too large to be given to RocksDB; None when it is not."""
    for part, limit in LARGEST.items():
        if size > limit and (name.startswith(part) or name.endswith(part)):
            return f"{name} has {size:,} bytes; at most {limit:,} are read"
    return None


def is_used(entry: Entry) -> bool:
    """Say whether RocksDB uses a file to read rows."""
    name = entry.name
    if entry.kind is not EntryKind.FILE or not FILE_NAME.fullmatch(name):
        return False
    return name.startswith(USED) or name.endswith(SUFFIXES)


def _may_read(user: int, facts: os.stat_result) -> bool:
    """Say whether a user of no group may open a file."""
    wanted = stat.S_IRUSR if facts.st_uid == user else stat.S_IROTH
    return bool(facts.st_mode & wanted)


def _directory(place: Place, path: str) -> int:
    """Open the directory of a database, one component below the store root after the other."""
    root = place.location.removesuffix(f"/{path}")
    names = path.split("/")
    if root == place.location:
        root, _, name = place.location.rpartition("/")
        names = [name]
    try:
        named, above = from_anchor(root or "/")
        handle = os.open(named, _DIRECTORY, dir_fd=above)
        for name in names:
            outer = handle
            try:
                handle = _enter(outer, name)
            finally:
                os.close(outer)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadablePath(path=str(place), reason=reason, trouble=Trouble.of(error)) from error
    return handle


def _enter(above: int, name: str) -> int:
    """Open a directory in another one."""
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno not in IS_LINK:
            raise
    handle = os.open(name, _DIRECTORY, dir_fd=above)
    if not _is_trusted(os.fstat(above), os.fstat(handle)):
        os.close(handle)
        raise OSError(errno.ELOOP, LINK)
    return handle


def _is_trusted(above: os.stat_result, directory: os.stat_result) -> bool:
    """Say whether a link may lead to a directory, by who can have made the link.

    A stranger's link leads to his own directories only. The user's, and root's, lead anywhere.
    """
    is_ours = above.st_uid in {0, os.geteuid()} and not above.st_mode & OTHERS_WRITE
    return is_ours or above.st_uid == directory.st_uid
