"""An open directory: what is done to a name in it is done there, whoever renames what meanwhile.

A path is looked up anew by each call of the system. Between two calls whoever owns a directory on
the way may put a link in its place, and the second call then reaches another file than the first.
So a directory is opened once, one component after the other and never through a link, and all
else is asked by its descriptor and one name. What is opened is what was checked.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import RepairError
from rmqtool.store.anchors import from_anchor
from rmqtool.store.entry import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAFE: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a FIFO, or a terminal, does nothing
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | _SAFE
_IS_LINK: Final = (errno.ELOOP, errno.ENOTDIR)  # what O_NOFOLLOW says of one, by what is wanted
_LINK: Final = "is a link: not followed"
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Directory:
    """A directory, open until `close`; a context manager.

    Attributes:
        handle: its descriptor.
        path: what people call it; nothing is ever opened by it.
    """

    __slots__ = ("handle", "path")

    def __init__(self, handle: int, path: str) -> None:
        self.handle, self.path = handle, path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Self:
        """Open a directory that the user named; links on the way are the user's own.

        One at or below a directory that the command has open already is looked up from there.

        Raises:
            OSError: it cannot be opened.
        """
        named, above = from_anchor(os.fspath(path))
        return cls(os.open(named, _DIRECTORY, dir_fd=above), os.fspath(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; twice does no harm."""
        if self.handle >= 0:
            os.close(self.handle)
        self.handle = -1

    @property
    def name(self) -> str:
        """The last component of its path."""
        return self.path.rstrip("/").rpartition("/")[2]

    def shown(self, name: str) -> str:
        """Give the path of a name, for people."""
        return f"{self.path.rstrip('/')}/{name}"

    def enter(self, *names: str) -> Directory:
        """Open a directory below, without following a link.

        Args:
            names: one component each; none opens this one again.

        Raises:
            RepairError: a component is a link.
            OSError: it cannot be opened.
        """
        directory = Directory(os.dup(self.handle), self.path)
        for name in names:
            above, directory = directory, Directory(-1, directory.shown(name))
            with above:
                directory.handle = above.open_directory(name)
        return directory

    def open_directory(self, name: str) -> int:
        """Give a descriptor of a directory in it.

        Raises:
            RepairError: it is a link.
            OSError: it cannot be opened.
        """
        try:
            return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.handle)
        except OSError as error:
            self._refuse_link(name, error)
            raise

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Give a descriptor of a regular file; no other thing is ever opened, and nothing waits.

        Raises:
            RepairError: it is a link, or no regular file.
            OSError: it cannot be opened.
        """
        before = os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        self._refuse_odd(name, before)
        try:
            handle = os.open(name, flags | os.O_NOFOLLOW | _SAFE, dir_fd=self.handle)
        except OSError as error:
            self._refuse_link(name, error)
            raise
        try:
            self._refuse_odd(name, os.fstat(handle))  # replaced between the two calls
        except BaseException:
            os.close(handle)
            raise
        return handle

    def create(self, name: str, mode: int = 0o666) -> int:
        """Give a descriptor of a new file, for reading and writing; the umask counts.

        Args:
            name: one component, or several of a tree that nobody else can enter.
            mode: at most.

        Raises:
            FileExistsError: something has that name, be it a link that leads nowhere.
            OSError: it cannot be made.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=self.handle)

    def make(self, name: str, mode: int = 0o777) -> None:
        """Make a directory; the umask counts.

        Raises:
            FileExistsError: something has that name.
            OSError: it cannot be made.
        """
        os.mkdir(name, mode, dir_fd=self.handle)

    def own(self, name: str) -> Directory:
        """Make a directory that nobody but this user can enter, and open it.

        Raises:
            FileExistsError: something has that name.
            RepairError: somebody put another in its place.
            OSError: it cannot be made.
        """
        self.make(name, stat.S_IRWXU)
        made = self.enter(name)
        facts = os.fstat(made.handle)
        if facts.st_uid != os.geteuid() or facts.st_mode & OTHERS_WRITE:
            made.close()
            reason = "was replaced by another process while it was made"
            raise RepairError(path=self.shown(name), reason=reason)
        return made

    def facts(self, name: str = "") -> os.stat_result | None:
        """Say what a name stands for, a link for itself; without a name, of this directory.

        Returns:
            None when there is no such name.
        """
        if not name:
            return os.fstat(self.handle)
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self) -> list[str]:
        """List it, sorted."""
        return sorted(listed(self.handle, lambda entry: entry.name))

    def entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names in it, sorted, each with what it stands for; a link for itself."""
        for entry in sorted(listed(self.handle, lambda entry: entry), key=lambda entry: entry.name):
            yield entry.name, entry.stat(follow_symlinks=False)

    def unlink(self, name: str) -> None:
        """Remove a file, or a link itself."""
        os.unlink(name, dir_fd=self.handle)

    def remove(self, name: str) -> None:
        """Remove a file, a link itself, or a directory with all below it; links are not followed.

        Raises:
            OSError: it is not there, or cannot be removed.
        """
        facts = os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            shutil.rmtree(name, dir_fd=self.handle)
        else:
            self.unlink(name)

    def set_mtime(self, mtime_ns: int, name: str = "") -> None:
        """Set the mtime (ns) of it, or of a name in it; the access time stays."""
        facts = self.facts(name)
        atime_ns = facts.st_atime_ns if facts is not None else mtime_ns
        if name:
            os.utime(name, ns=(atime_ns, mtime_ns), dir_fd=self.handle, follow_symlinks=False)
        else:
            os.utime(self.handle, ns=(atime_ns, mtime_ns))

    def _refuse_link(self, name: str, error: OSError) -> None:
        facts = self.facts(name) if error.errno in _IS_LINK else None
        if facts is not None and stat.S_ISLNK(facts.st_mode):
            raise RepairError(path=self.shown(name), reason=_LINK) from error

    def _refuse_odd(self, name: str, facts: os.stat_result) -> None:
        if stat.S_ISLNK(facts.st_mode):
            raise RepairError(path=self.shown(name), reason=_LINK)
        if not stat.S_ISREG(facts.st_mode):
            raise RepairError(path=self.shown(name), reason="is not a regular file")


class Spot(NamedTuple):
    """A name in an open directory, whether something has it or not."""

    directory: Directory  # open as long as the spot is used
    name: str  # one component

    def __str__(self) -> str:
        return self.directory.shown(self.name)

    def beside(self, suffix: str) -> Spot:
        """Give the spot of a longer name in the same directory."""
        return Spot(self.directory, self.name + suffix)

    def facts(self) -> os.stat_result | None:
        """Say what is here, a link for itself; None when nothing is."""
        return self.directory.facts(self.name)

    def inode(self) -> int | None:
        """Give the inode that is here; None without one."""
        facts = self.facts()
        return None if facts is None else facts.st_ino


def spot_of(path: str | os.PathLike[str]) -> Spot:
    """Give the spot of a path that the user named: its directory is opened, and is to be closed.

    Raises:
        OSError: its directory cannot be opened.
    """
    whole = Path(path).absolute()
    return Spot(Directory.at(whole.parent), whole.name)
