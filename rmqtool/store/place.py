"""The seam between rmqtool and the file system: places that can be listed and read, never written.

A `Place` is local; one on a remote file system (`remote.py`) has the same face, so nothing else
touches `os` or `pathlib` for the content of a store, but for `queues/lone_queues.py`, which reads
100,000 files at once. Links are not followed by `open`: evidence that is reached through a link may
lie outside of the store that was asked for.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeVar

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.anchors import from_anchor, keep
from rmqtool.store.entry import (
    EntryKind,
    entry,
    entry_of,
    kind_of,
    listed,
    named,
    printable,
    stored_bytes,
    whose,
)
from rmqtool.store.refused import note_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from typing_extensions import Buffer

    from rmqtool.store.entry import Entry


Answer = TypeVar("Answer")

URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")
LISTINGS = 20  # of a directory in which names vanish meanwhile
SEPARATOR = "!"  # between an archive and what is inside
OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO in place of a segment must not hang us
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC


def is_remote(path: object) -> bool:
    """Say whether a path as a user wrote it is a URI of a file system that is not the local one."""
    text = str(path)
    return Place.is_uri(text) and not text.lower().startswith("file:")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory or a file that may exist; small and picklable."""

    location: str  # absolute path, as the operating system spells it

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Place:
        """Give the place of a path of this machine; links are followed, here only.

        A URI is for `address.place_of`, which takes paths as well. A path below an open directory
        of this process stays as it is: it leads there whatever that is called by now.
        """
        if os.fspath(path).startswith(f"/proc/{os.getpid()}/fd/"):
            return Place(os.fspath(path))
        try:
            location = os.path.realpath(os.fspath(path), strict=False)
        except (OSError, ValueError) as error:
            raise _refused(printable(str(path)), error) from error
        keep(location)
        return Place(location)

    @staticmethod
    def is_uri(path: str) -> bool:
        """Say whether a path as a user wrote it is a URI."""
        return URI.match(path) is not None

    def __str__(self) -> str:
        return printable(self.location)

    @property
    def is_local(self) -> bool:
        """Whether the operating system knows the location: not remote, not in an archive."""
        return type(self) is Place

    @property
    def troubles(self) -> Sequence[tuple[str, str]]:
        """What is missing of the archive that this place lies in, and why; nothing of a disk."""
        return ()

    def outside(self, path: str) -> Place:
        """Give the place of an absolute path of the machine that this place is on."""
        return Place.of(path)

    @property
    def name(self) -> str:
        """Last part of the path, as the operating system spells it."""
        return os.path.basename(self.location)  # noqa: PTH119 - a Path per queue costs 50,000 times

    @property
    def parent(self) -> Self:
        """The directory that holds this place."""
        return type(self)(os.path.dirname(self.location) or self.location)  # noqa: PTH120

    def child(self, name: str) -> Self:
        """Give the place of a name in this directory."""
        return type(self)(f"{self.location.rstrip('/')}/{name}")

    def resolved(self) -> Place:
        """Give the place that a link leads to, there or not; itself when it is not one.

        Raises:
            UnreadablePath: the link leads into a loop.
        """
        return type(self)(self._ask(lambda path, above: _followed(self.location, path, above)))

    def stat(self) -> Entry | None:
        """Say what is here, without following a link; None when nothing is."""
        try:
            path, above = from_anchor(self.location)
            return entry(self.name, os.stat(path, dir_fd=above, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise _refused(str(self), error) from error

    def names(self) -> list[tuple[str, EntryKind]]:
        """List this directory, sorted by name, without asking for sizes.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        return sorted(self._ask(lambda path, above: _listed(path, above, named)))

    def entries(self) -> list[Entry]:
        """List this directory, sorted by name; anew while names vanish, which are left out then.

        A broker that deletes its oldest files would seem to delete some between others: names come
        in any order, and each is asked about when it comes.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        entries = self._ask(lambda path, above: _listed(path, above, entry_of))
        for _ in range(1, LISTINGS):
            if None not in entries:
                break
            entries = self._ask(lambda path, above: _listed(path, above, entry_of))
        return sorted((entry for entry in entries if entry), key=lambda entry: entry.name)

    def owners(self, but: Container[str] = ()) -> list[tuple[str, int, int, int]]:
        """List this directory: name, mode, owner and group of each; nothing where none is known.

        Args:
            but: names that are left out.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        if type(self) is Place:

            def seen(listed: os.DirEntry[str]) -> tuple[str, int, int, int] | None:
                return None if listed.name in but else whose(listed)

            owners = self._ask(lambda path, above: _listed(path, above, seen))
            return [owner for owner in owners if owner]
        return [
            (entry.name, entry.mode, entry.owner, entry.group)
            for entry in self.entries()
            if entry.owner is not None and entry.name not in but
        ]

    def open(self) -> OpenFile:
        """Open a regular file for reading; no other thing is ever opened.

        Raises:
            UnreadablePath: missing, not permitted, or not a regular file.
        """
        try:
            path, above = from_anchor(self.location)
            mode = os.stat(path, dir_fd=above, follow_symlinks=False).st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise no_file(str(self)) from None
        except (OSError, ValueError) as error:
            raise _refused(str(self), error) from error
        if not stat.S_ISREG(mode):
            raise not_a_file(str(self), kind_of(mode))
        return self._opened(self._ask(lambda path, above: os.open(path, OPEN_FLAGS, dir_fd=above)))

    def open_listed(self) -> OpenFile:
        """Open a file that a listing has named as regular, with one question less.

        Raises:
            UnreadablePath: see `open`.
        """
        if type(self) is not Place:
            return self.open()
        try:
            path, above = from_anchor(self.location)
            descriptor = os.open(path, OPEN_FLAGS, dir_fd=above)
        except (OSError, ValueError):
            return self.open()  # it says why
        return self._opened(descriptor)

    def _opened(self, descriptor: int) -> OpenFile:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):  # replaced between the two calls
            os.close(descriptor)
            raise not_a_file(str(self), kind_of(facts.st_mode))
        return OpenFile(self, descriptor, facts.st_size)

    def read(self, limit: int) -> bytes:
        """Read a small file: its first `limit` bytes at most."""
        with self.open() as file:
            return file.read_at(0, limit)

    def read_whole(self, limit: int) -> bytes:
        """Read a small file.

        Raises:
            UnreadablePath: see `open`; or it has more than `limit` bytes.
        """
        with self.open() as file:
            if file.size > limit:
                reason = f"{file.size:,} bytes; of such a file at most {limit:,} are read"
                raise UnreadablePath(path=str(self), reason=reason, trouble=Trouble.TOO_LARGE)
            return file.read_at(0, limit)

    def _ask(self, question: Callable[[str, int | None], Answer]) -> Answer:
        """Ask the operating system; its refusal becomes an UnreadablePath.

        Args:
            question: takes a path, and the open directory that it is looked up from.
        """
        try:
            return question(*from_anchor(self.location))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            refused = _refused(str(self), error)
            if refused.trouble is Trouble.MEDIUM:
                note_refused(refused)
            raise refused from error


class OpenFile:
    """A regular file, open for positioned reads.

    The size is the one at opening; a file that is cut short meanwhile gives fewer bytes, and one
    that grows gives no more.
    """

    __slots__ = ("_descriptor", "place", "size")

    def __init__(self, place: Place, descriptor: int, size: int) -> None:
        self.place, self.size = place, size
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenFile({self.place}, {self.size:,} bytes)"

    def __reduce__(self) -> NoReturn:
        message = "an open file does not travel: send its Place"
        raise TypeError(message)

    def close(self) -> None:
        """Close the file; twice does no harm."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def stored(self) -> int:
        """Bytes that somebody really sent: a hole may be of any length."""
        if self._descriptor < 0:
            return self.size
        return min(self.size, stored_bytes(os.fstat(self._descriptor)))

    def fileno(self) -> int:
        """Give the descriptor, for questions about locks and holes."""
        return self._descriptor

    def read_at(self, position: int, length: int) -> bytes:
        """Read `length` bytes; fewer at the end of the file.

        Raises:
            UnreadablePath: the disk refused (a bad sector, a lost mount).
        """
        length = min(length, self.size - position)  # a length from the data must not allocate
        if length <= 0 or position < 0:
            return b""
        data = self._pread(length, position)
        while 0 < len(data) < length:
            more = self._pread(length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; return the bytes read.

        Raises:
            UnreadablePath: the disk refused (a bad sector, a lost mount).
        """
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - position) if position >= 0 else 0
        done = 0
        while done < wanted:
            try:
                count = os.preadv(self._descriptor, [view[done:wanted]], position + done)
            except OSError as error:
                raise self._unreadable(error, position + done) from error
            if not count:
                break
            done += count
        count_read(done)
        if done and (slow := pace()) is not None:
            slow.took(self._descriptor, position, done)
        return done

    def next_data(self, position: int) -> int | None:
        """Give the first byte at or after a position that is not in a hole of a sparse file.

        Returns:
            A position; the given one where the file system cannot tell; None where all that
            follows are holes, which read as zeros.
        """
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            return None if error.errno == errno.ENXIO else position

    def next_hole(self, position: int) -> int:
        """Give where the next hole of a sparse file begins; its size where there is not one."""
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_HOLE), self.size)
        except OSError:
            return self.size

    def _pread(self, length: int, position: int) -> bytes:
        try:
            return read_some(self._descriptor, length, position)
        except OSError as error:
            raise self._unreadable(error, position) from error

    def _unreadable(self, error: OSError, position: int) -> UnreadablePath:
        refused = _refused(str(self.place), error, f"at {position:#x} ({position}): ")
        note_refused(refused)
        return refused


def read_some(descriptor: int, length: int, position: int) -> bytes:
    """Read from an open file, once; perhaps fewer bytes. Raises OSError: the disk refused."""
    data = os.pread(descriptor, length, position)
    count_read(len(data))
    if data and (slow := pace()) is not None:
        slow.took(descriptor, position, len(data))
    return data


def _followed(location: str, path: str, above: int | None) -> str:
    """Give where a link leads; its own directory is looked up from the one that is open."""
    if above is not None:
        try:
            target = os.readlink(path, dir_fd=above)
        except OSError:
            return location
        location = os.path.join(os.path.dirname(location), target)  # noqa: PTH118, PTH120 - of a str
    try:
        return os.path.realpath(location, strict=True)  # strict, or a loop would seem to end
    except FileNotFoundError:
        return os.path.realpath(location)


def _listed(
    path: str, above: int | None, seen: Callable[[os.DirEntry[str]], Answer]
) -> list[Answer]:
    """List a directory, looked up from an open one if there is one."""
    if above is None:
        return listed(path, seen)
    handle = os.open(path, LISTED, dir_fd=above)
    try:
        return listed(handle, seen)
    finally:
        os.close(handle)


def no_file(path: str) -> UnreadablePath:
    """Say that there is no such file."""
    return UnreadablePath(path=path, reason="no such file", trouble=Trouble.NO_FILE)


def not_a_file(path: str, kind: EntryKind) -> UnreadablePath:
    """Say that something else is in place of a file."""
    words, trouble = {
        EntryKind.DIRECTORY: ("is a directory, not a file", Trouble.DIRECTORY),
        EntryKind.LINK: ("is a link; links inside a store are not followed", Trouble.LINK),
    }.get(kind, ("is not a regular file", Trouble.OTHER))
    return UnreadablePath(path=path, reason=words, trouble=trouble)


def note_no_file(directory: Place, entry: Entry) -> None:
    """Tell of a FIFO, a socket, a device, a directory or a link that has the name of a file.

    Nobody opens it, so that no refused read would tell of what is missing.
    """
    if entry.kind is not EntryKind.FILE:
        note_refused(not_a_file(str(directory.child(entry.name)), entry.kind))


def _refused(path: str, error: OSError | ValueError, where: str = "") -> UnreadablePath:
    """Say that the operating system refused."""
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        reason = "the links lead into a loop"
    return UnreadablePath(path=path, reason=where + reason, trouble=Trouble.of(error))


def note_medium(path: str, error: OSError) -> None:
    """Tell of a disk that refused, where what was asked for is asked for again in another way."""
    refused = _refused(path, error)
    if refused.trouble is Trouble.MEDIUM:
        note_refused(refused)


# How many bytes of files are read: what a question takes from a disk or a bucket.


class Meter:
    """Counts what one thread reads.

    Attributes:
        bytes: so far.
    """

    def __init__(self) -> None:
        self.bytes = 0


_CHOSEN: Final[ContextVar[Meter | None]] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the bytes that this thread reads of files while the block runs."""
    meter = Meter()
    token = _CHOSEN.set(meter)
    try:
        yield meter
    finally:
        _CHOSEN.reset(token)


def count_read(length: int) -> None:
    """Take note of bytes that were read."""
    meter = _CHOSEN.get()
    if meter is not None:
        meter.bytes += length


# How fast files are read: as fast as the disk gives, or at a rate that leaves it to a broker.
#
# What is read at a rate is not kept in the page cache, where it would take the place of what a
# broker
# works with. Pages that a broker has mapped stay: the system drops none that somebody uses.


AHEAD_SECONDS: Final = 0.1  # of reading that may come at once
_PACES: Final[list[Pace]] = []


class Pace:
    """Keeps all threads of this process together at a rate.

    Args:
        rate: bytes a second.
    """

    def __init__(self, rate: int) -> None:
        import threading  # every command imports this module, and few ask for a rate

        self._rate = rate
        self._due = time.monotonic()
        self._lock = threading.Lock()

    def took(self, descriptor: int, position: int, length: int) -> None:
        """Take note of bytes that were read; wait until more may be.

        Args:
            descriptor: the file.
            position: of the first byte.
            length: bytes.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now - AHEAD_SECONDS) + length / self._rate
            wait = self._due - now
        if wait > 0:
            time.sleep(wait)


@contextmanager
def paced(rate: int | None) -> Iterator[None]:
    """Read files at this rate at most while the block runs.

    Args:
        rate: bytes a second of all threads of this process together; None is any.
    """
    if rate is None:
        yield
        return
    _PACES.append(Pace(rate))
    try:
        yield
    finally:
        _PACES.pop()


def pace() -> Pace | None:
    """Give the rate that is kept now; None without one."""
    return _PACES[-1] if _PACES else None
