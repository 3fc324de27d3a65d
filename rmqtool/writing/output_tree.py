"""Write a directory tree, a file at a time, with no file kept open.

A rebuilt store has more queues than a process may have open files. What is written here lies in a
staged place, of a new directory (`output.py`) or of an edit in place (`edits.py`). Nobody else can
enter that place, so a path below it is looked up from its top and needs no look at each component.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqtool.errors import OutputExists, RepairError, UnreadablePath
from rmqtool.store.names import relative_path
from rmqtool.writing.directory import Spot
from rmqtool.writing.staging import write_all, write_errors
from rmqtool.writing.system_calls import clone, open_path, rename_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place
    from rmqtool.writing.directory import Directory
    from rmqtool.writing.staging import DiskSync

    Pieces = Iterable[tuple[int, Buffer]]  # (position, bytes)


_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES: Final = 1 << 24


class OutputTreeFile:
    """One file of an `OutputTree`; it is open only while something is written.

    Attributes:
        top: the tree that nobody else can enter.
        size: bytes, fixed when it was created: a mapped file never grows. Only `append` adds some.
        mtime_ns: what its mtime will be, ns since 1970 UTC; None leaves the time of writing.
    """

    __slots__ = ("_below", "_path", "mtime_ns", "size", "top")

    def __init__(
        self, top: Directory, below: str, path: str, size: int, mtime_ns: int | None
    ) -> None:
        self.top, self._below, self._path = top, below, path  # a tree has a million of them
        self.size = size
        self.mtime_ns = mtime_ns

    @property
    def name(self) -> str:
        """Its path below the top."""
        return f"{self._below}{self._path}"

    @property
    def path(self) -> str:
        """Where it is staged, for people and for other processes of this user."""
        return self.top.shown(self.name)

    def write(self, position: int, data: Buffer) -> None:
        """Write bytes at a position.

        Raises:
            WriteFailed: the system refused.
            RepairError: they would not end within the file.
        """
        with self.writing() as handle:
            self.put(handle, position, data)

    @contextmanager
    def writing(self) -> Iterator[int]:
        """Keep the file open for several `put`; close it before opening hundreds of others."""
        with write_errors(self.path):
            handle = os.open(self.name, _OPEN, dir_fd=self.top.handle)
            try:
                yield handle
            finally:
                os.close(handle)

    def put(self, handle: int, position: int, data: Buffer) -> None:
        """Write bytes at a position of the file that `writing` gave."""
        end = position + memoryview(data).nbytes
        if position < 0 or end > self.size:
            reason = f"bytes {position} to {end} are not within its length {self.size}"
            raise RepairError(path=self.path, reason=reason)
        write_all(handle, data, position)

    def append(self, handle: int, data: Buffer) -> None:
        """Write bytes past the last one; the file, which no broker maps, grows by them."""
        with write_errors(self.path):
            write_all(handle, data, self.size)
        self.size += memoryview(data).nbytes


class MadeFiles(Protocol):
    """Files of one length, each with a directory of its own, that are there with their mtimes."""

    @property
    def length(self) -> int:
        """Bytes of each."""

    @property
    def names(self) -> Iterator[tuple[str, int]]:
        """Yield path and mtime of each, ms."""


class OutputTree:
    """A directory tree while it is made. Several threads may write, each its own files.

    Attributes:
        top: what it is written in; open as long as it is written.
        files: that were written, by path.
        below: path of the tree in `top`, ending in a slash; empty for all of it.
        made: other files, which were made many at once.
        owner: of new entries; None leaves those of this process.

    Args:
        top: a directory that nobody else can enter.
        sync: counts the time that the disk takes.
        owner: see above.
        below: path of the tree in `top`, ending in a slash; empty for all of it.
    """

    def __init__(
        self, top: Directory, sync: DiskSync, owner: Ownership | None = None, below: str = ""
    ) -> None:
        self.top = top
        self.files: dict[str, OutputTreeFile] = {}
        self.below = below
        self._directories: set[str] = set()
        self._subtrees: dict[str, OutputTree] = {}
        self.made: list[MadeFiles] = []
        self._sync = sync
        self.owner = owner
        if owner is not None and below:
            with write_errors(self):
                owner.take_directory(top, below)

    def __str__(self) -> str:
        return self.top.shown(self.below)

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    def directory(self, *parts: str, mode: int = 0o777) -> None:
        """Create a directory, and those above it.

        Args:
            parts: the path below the top.
            mode: of it, at most; the umask counts, too.

        Raises:
            RepairError: a part cannot be a file name.
            WriteFailed: the system refused.
        """
        self._directory(relative_path(parts), mode)

    def file(
        self,
        *parts: str,
        size: int,
        pieces: Pieces = (),
        mtime_ms: int | None = None,
        owner: Ownership | None = None,
        mode: int = 0o666,
    ) -> OutputTreeFile:
        """Create a file of zeros (sparse) with some bytes in it, and the directories above it.

        Args:
            parts: the path below the top.
            size: bytes; for a mapped file, the length that the broker expects.
            pieces: (position, bytes) to write at once, which spares opening it again.
            mtime_ms: its mtime in the end, ms since 1970 UTC.
            owner: of it; None is that of the tree.
            mode: at most, where there is no owner; the umask counts, too.

        Raises:
            OutputExists: this tree has a file of that name already.
            RepairError: a part cannot be a file name, or a piece is outside of the file.
            WriteFailed: the system refused.
        """
        path = relative_path(parts)
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        mtime_ns = mtime_ms and mtime_ms * 1_000_000
        file = OutputTreeFile(self.top, self.below, path, size, mtime_ns)
        owner = owner or self.owner
        with write_errors(file.path):
            try:
                handle = self.top.create(file.name, mode)
            except FileExistsError as error:
                raise OutputExists(path=file.path, reason="was written already") from error
            try:
                if owner is not None:
                    owner.take_file(handle)
                os.ftruncate(handle, size)
                for position, data in pieces:
                    file.put(handle, position, data)
            finally:
                os.close(handle)
        self.files[path] = file
        return file

    def copy(self, source: Spot, *parts: str, size: int | None = None) -> OutputTreeFile:
        """Copy a file with its mtime, for nobody to read who cannot read the original.

        Blocks are shared where the file system can, else bytes are copied. Never a hard link: a
        broker that runs on the copy would write into the original.

        Args:
            source: the original, a regular file.
            parts: the path below the top.
            size: bytes of the copy, cut or extended by zeros; None is as many as the original has.

        Raises:
            RepairError: the original is not one.
            WriteFailed: the system refused to read or to write.
        """
        with write_errors(source):
            handle = source.directory.open_file(source.name)
            facts = os.fstat(handle)
        try:
            length = facts.st_size if size is None else size
            mode = stat.S_IMODE(facts.st_mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR
            copied = self.file(*parts, size=length, mode=mode)
            copied.mtime_ns = facts.st_mtime_ns
            with copied.writing() as target:
                if clone(handle, target):
                    with write_errors(copied.path):
                        os.ftruncate(target, copied.size)
                else:
                    shared = min(facts.st_size, copied.size)
                    for position, data in _stretches(handle, shared, source):
                        copied.put(target, position, data)
        finally:
            os.close(handle)
        return copied

    def copy_read(
        self, source: Place, entry: Entry, *parts: str, size: int | None = None
    ) -> OutputTreeFile:
        """Copy a file that only a `Place` reads, as a member of an archive, with its mtime.

        Args:
            source: a regular file.
            entry: what its directory says of it.
            parts: the path below the top.
            size: see `copy`.

        Raises:
            UnreadablePath: it cannot be read, or ends before its length.
            WriteFailed: the system refused to write.
        """
        mode = entry.mode & 0o777 or 0o666
        with source.open() as file:
            length = file.size if size is None else size
            copied = self.file(*parts, size=length, mode=mode | stat.S_IRUSR | stat.S_IWUSR)
            copied.mtime_ns = entry.mtime_ns
            end = min(file.size, length)
            with copied.writing() as target:
                position = file.next_data(0)
                while position is not None and position < end:
                    hole = min(file.next_hole(position), end)
                    while position < hole:
                        data = file.read_at(position, min(_COPY_BYTES, hole - position))
                        if not data:
                            reason = f"ends at {position:,} of {file.size:,} bytes"
                            raise UnreadablePath(path=str(source), reason=reason)
                        copied.put(target, position, data)
                        position += len(data)
                    position = file.next_data(hole)
        return copied

    def subtree(self, *parts: str, owner: Ownership | None = None) -> OutputTree:
        """Create a directory and give it as a tree, which is finished with this one.

        Raises:
            OutputExists: it was given already.
            RepairError: a part cannot be a file name.
            WriteFailed: the system refused.
        """
        path = relative_path(parts)
        if path in self._subtrees:
            raise OutputExists(path=f"{self}{path}", reason="was written already")
        self._directory(path)
        owner = owner or self.owner
        tree = OutputTree(self.top, self._sync, owner, f"{self.below}{path}/")
        self._subtrees[path] = tree
        return tree

    def adopt(self, directory: str, path: str) -> None:
        """Take a directory that lies on the disk already, with all below it, in place of a new one.

        Args:
            directory: what to move: its path below the top.
            path: where to, below the top; nothing is there yet.

        Raises:
            WriteFailed: the system refused.
        """
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        handle = self.top.handle
        with write_errors(f"{self}{path}"):
            os.rename(
                f"{self.below}{directory}",
                f"{self.below}{path}",
                src_dir_fd=handle,
                dst_dir_fd=handle,
            )
        self._directories.add(path)

    @property
    def location(self) -> str:
        """Where this process reads what is staged, whatever it is called by now: an open directory.

        Raises:
            WriteFailed: the system does not tell.
        """
        with write_errors(self):
            return f"{open_path(self.top.handle)}/{self.below.rstrip('/') or '.'}"

    def take(self, directory: Directory, name: str) -> None:
        """Move a file that another process has made into the top of this tree.

        Args:
            directory: on the same file system; that process has ended.
            name: in both.

        Raises:
            RepairError: it is not a regular file.
            WriteFailed: the system refused.
        """
        path = f"{self.below}{name}"
        with write_errors(f"{self}{name}"):
            handle = directory.open_file(name)
            try:
                size = os.fstat(handle).st_size
                if self.owner is not None:
                    self.owner.take_file(handle)
                elif os.geteuid() == 0:
                    os.fchown(handle, os.geteuid(), os.getegid())
            finally:
                os.close(handle)
            rename_new(Spot(directory, name), Spot(self.top, path))
        self.files[name] = OutputTreeFile(self.top, "", path, size, None)

    def drop(self, name: str) -> None:
        """Remove a file, or a directory with all below it, of the top again."""
        with write_errors(f"{self}{name}"):
            self.top.remove(f"{self.below}{name}")
        self.files.pop(name, None)
        self._directories.discard(name)
        self._subtrees.pop(name, None)

    def finish(self) -> None:
        """Set the mtimes and bring everything to the disk.

        Raises:
            WriteFailed: the system refused.
        """
        with write_errors(self):
            trees = [*self.trees()]
            for file in (file for tree in trees for file in tree.files.values()):
                if (mtime := file.mtime_ns) is not None:
                    os.utime(
                        file.name,
                        ns=(mtime, mtime),
                        dir_fd=self.top.handle,
                        follow_symlinks=False,
                    )
            if any(tree.made for tree in trees) and self._sync.file_system(self.top):
                return
            files, directories = self.contents()
            names = [file.name for file in files.values()]
            names += [f"{self.below}{path}" for path in sorted(directories)]
            self._sync.names(self.top, names)

    def trees(self) -> Iterator[OutputTree]:
        """Yield this tree and all below it."""
        yield self
        for tree in self._subtrees.values():
            yield from tree.trees()

    def contents(self) -> tuple[dict[str, OutputTreeFile], set[str]]:
        """Give the files by path, and the directories; those of subtrees, too."""
        files, directories = dict(self.files), set(self._directories)
        for made in self.made:
            for name, mtime_ms in made.names:
                mtime_ns = mtime_ms * 1_000_000
                file = OutputTreeFile(self.top, self.below, name, made.length, mtime_ns)
                files[name] = file
                directories.add(name.rpartition("/")[0])
        for path, tree in self._subtrees.items():
            below, beneath = tree.contents()
            files |= {f"{path}/{name}": file for name, file in below.items()}
            directories |= {f"{path}/{name}" for name in beneath}
        return files, directories

    def _directory(self, path: str, mode: int = 0o777) -> None:
        if path in self._directories:
            return
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        made = f"{self.below}{path}"
        with write_errors(f"{self}{path}"):
            with suppress(FileExistsError):  # another thread was first
                self.top.make(made, mode | stat.S_IRWXU)
            if self.owner is not None:
                self.owner.take_directory(self.top, made)
        self._directories.add(path)


def _stretches(handle: int, size: int, path: object) -> Iterator[tuple[int, bytes]]:
    """Read the stretches of a file that hold data, so that its holes stay holes."""
    position = end = 0
    while position < size:
        with write_errors(path):
            if position == end:  # the end of a stretch
                position, end = next_stretch(handle, position, size)
            data = os.pread(handle, min(_COPY_BYTES, end - position), position)
        if not data:
            return
        yield position, data
        position += len(data)


def next_stretch(handle: int, position: int, size: int) -> tuple[int, int]:
    """Give start and end of the next data below `size`; both `size` when there is not one."""
    try:
        begin = os.lseek(handle, position, os.SEEK_DATA)
        return min(begin, size), min(os.lseek(handle, begin, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        if error.errno == errno.EINVAL:  # no such question here: all of it
            return position, size
        raise


# Whose a new file or directory is: of whoever owns what it stands for, and never open to more.
#
# A broker is seldom root; one who repairs its store often is.


_PERMISSIONS: Final = 0o777  # not the bits that let a program run as its owner
_TO_FILES: Final = 0o666


class Ownership(NamedTuple):
    """The owner and the modes that new entries get."""

    uid: int  # of the user
    gid: int  # of the group
    directory_mode: int  # of directories
    file_mode: int  # of files

    @property
    def of_new(self) -> tuple[int, int, int, int]:
        """Give user and group, -1 where only root could give them, modes of directory and file."""
        user = (self.uid, self.gid) if os.geteuid() == 0 else (-1, -1)
        return (*user, self.directory_mode | stat.S_IRWXU, self.file_mode)

    def take_file(self, handle: int) -> None:
        """Give a new file that is open to the owner."""
        if os.geteuid() == 0:
            os.fchown(handle, self.uid, self.gid)
        os.fchmod(handle, self.file_mode)

    def take_directory(self, top: Directory, path: str) -> None:
        """Give a new directory to the owner.

        Args:
            top: a tree that nobody else can enter.
            path: below it.
        """
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, dir_fd=top.handle, follow_symlinks=False)
        os.chmod(path, self.directory_mode | stat.S_IRWXU, dir_fd=top.handle)


def owner_of(spot: Spot) -> Ownership:
    """Give whose what stands at a spot is, else whose the directory is that would hold it.

    A file gets the mode of the file that it replaces. The files of a tree get what all files of
    the tree before it have in common: who could not read one of them can read none now.
    """
    with write_errors(spot):
        above = os.fstat(spot.directory.handle)
        facts = spot.facts()
        if facts is None:
            files = above.st_mode & _TO_FILES
            return Ownership(above.st_uid, above.st_gid, above.st_mode & _PERMISSIONS, files)
        directories = above.st_mode
        if stat.S_ISREG(facts.st_mode):
            files = facts.st_mode
        elif stat.S_ISDIR(facts.st_mode):
            directories, files = facts.st_mode, facts.st_mode & _TO_FILES
            with spot.directory.enter(spot.name) as tree:
                files &= _common_mode(tree)
        else:
            files = above.st_mode & _TO_FILES
    return Ownership(facts.st_uid, facts.st_gid, directories & _PERMISSIONS, files & _PERMISSIONS)


def _common_mode(tree: Directory) -> int:
    """Give the permissions that all files of a tree have."""
    mode = _PERMISSIONS
    for name, facts in tree.entries():
        if stat.S_ISREG(facts.st_mode):
            mode &= facts.st_mode
        elif stat.S_ISDIR(facts.st_mode):
            with tree.enter(name) as below:
                mode &= _common_mode(below)
    return mode | stat.S_IRUSR | stat.S_IWUSR
