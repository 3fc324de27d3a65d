"""The files of a RocksDB database, opened one by one in its open directory.

Whoever owns the store may rename and link meanwhile what he likes: what is opened is a regular
file, by a name in the directory that was opened first. The directory itself may be reached through
a link, as by brokers, if it belongs to whoever could have put it there: nobody makes root read a
directory of somebody else.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import DamagedDatabase, Trouble, UnreadablePath
from rmqtool.store.anchors import from_anchor
from rmqtool.store.confinement import spare_user
from rmqtool.store.entry import EntryKind, entry_of, listed
from rmqtool.store.place import OPEN_FLAGS, OpenFile
from rmqtool.store.rocksdb import FILE_NAME

if TYPE_CHECKING:
    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place

USED: Final = ("CURRENT", "IDENTITY", "MANIFEST-")  # and table files and write-ahead logs
SUFFIXES: Final = (".sst", ".log", ".blob")
# RocksDB reads the first two into memory, and the others from their begin to their end. Its own
# are far below; a stranger has a hole of any length for nothing.
LARGEST: Final = {"CURRENT": 4096, "IDENTITY": 4096, "MANIFEST-": 2 << 30, ".log": 4 << 30}
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
        """Open it, and list it.

        Raises:
            UnreadablePath: it may not be opened.
        """
        self.path, self._place = path, place
        self.handles: dict[str, int] = {}  # by name of the file
        self._facts: dict[str, os.stat_result] = {}
        self._directory = _directory(place, path)
        found = listed(self._directory, entry_of)
        self.entries = sorted(filter(is_used, filter(None, found)), key=lambda one: one.name)

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
    def sizes(self) -> dict[str, int]:
        """Bytes of each open file."""
        return {name: facts.st_size for name, facts in self._facts.items()}

    def opened(self, name: str) -> OpenFile:
        """Give an open file, to be read as long as this is open."""
        return OpenFile(self._place.child(name), self.handles[name], self._facts[name].st_size)

    def open(self) -> None:
        """Open each file; what is no regular file any more is left out.

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
                f"{len(self.entries):,} files, and a process may have {hard:,} open here:"
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


def _is_trusted(above: os.stat_result, found: os.stat_result) -> bool:
    """Say whether a link may lead to a directory, by who can have made the link.

    A stranger's link leads to his own directories only. The user's, and root's, lead anywhere.
    """
    is_ours = above.st_uid in {0, os.geteuid()} and not above.st_mode & OTHERS_WRITE
    return is_ours or above.st_uid == found.st_uid
