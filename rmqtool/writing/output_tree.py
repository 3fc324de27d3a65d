"""Write a directory tree, a file at a time, with no file kept open.

A rebuilt store has more queues than a process may have open files. What is written here lies in a
staged place, of a new directory (`output.py`) or of an edit in place (`edits.py`).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rmqtool.errors import OutputExists, RepairError
from rmqtool.store.names import relative_path
from rmqtool.writing.staging import DiskSync, remove, write_all, write_errors
from rmqtool.writing.system_calls import clone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Buffer

    Pieces = Iterable[tuple[int, Buffer]]  # (position, bytes)

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES: Final = 1 << 24
_COMPARED_BYTES: Final = 1 << 20


class OutputTreeFile:
    """One file of an `OutputTree`; it is open only while something is written.

    Attributes:
        path: where it is staged.
        size: bytes, fixed when it was created: a mapped file never grows.
        mtime_ns: what its mtime will be, ns since 1970 UTC; None leaves the time of writing.
    """

    __slots__ = ("mtime_ns", "path", "size")

    def __init__(self, path: str, size: int, mtime_ns: int | None) -> None:
        self.path = path
        self.size = size
        self.mtime_ns = mtime_ns

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
            handle = os.open(self.path, _OPEN)
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


class OutputTree:
    """A directory tree while it is made. Several threads may write, each its own files.

    Args:
        top: a directory that exists and is empty.
        sync: counts the time that the disk takes.
        like: whose owner and mode new entries get; None leaves those of this process.
    """

    def __init__(self, top: Path, sync: DiskSync, like: os.stat_result | None = None) -> None:
        self.top = top
        self.files: dict[str, OutputTreeFile] = {}
        self._directories: set[str] = set()
        self._subtrees: dict[str, OutputTree] = {}
        self._sync = sync
        self._like = like
        if like is not None:
            inherit(top, like)

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    def directory(self, *parts: str) -> None:
        """Create a directory, and those above it.

        Raises:
            RepairError: a part cannot be a file name.
            WriteFailed: the system refused.
        """
        self._directory(relative_path(parts))

    def file(
        self, *parts: str, size: int, pieces: Pieces = (), mtime_ms: int | None = None
    ) -> OutputTreeFile:
        """Create a file of zeros (sparse) with some bytes in it, and the directories above it.

        Args:
            parts: the path below the top.
            size: bytes; for a mapped file, the length that the broker expects.
            pieces: (position, bytes) to write at once, which spares opening it again.
            mtime_ms: its mtime in the end, ms since 1970 UTC.

        Raises:
            OutputExists: this tree has a file of that name already.
            RepairError: a part cannot be a file name, or a piece is outside of the file.
            WriteFailed: the system refused.
        """
        path = relative_path(parts)
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        file = OutputTreeFile(f"{self.top}/{path}", size, mtime_ms and mtime_ms * 1_000_000)
        with write_errors(file.path):
            handle = self._create(file.path)
            try:
                os.ftruncate(handle, size)
                for position, data in pieces:
                    file.put(handle, position, data)
            finally:
                os.close(handle)
        self.files[path] = file
        return file

    def copy(
        self, source: str | os.PathLike[str], *parts: str, size: int | None = None
    ) -> OutputTreeFile:
        """Copy a file with its mtime: by sharing blocks where the file system can, else its bytes.

        Never by a hard link: a broker that runs on the copy would write into the original.

        Args:
            source: the original.
            parts: the path below the top.
            size: bytes of the copy, cut or extended by zeros; None is as many as the original has.

        Raises:
            WriteFailed: the system refused to read or to write.
        """
        with write_errors(source):
            facts = os.stat(source)  # noqa: PTH116 - a str or a path
            copied = self.file(*parts, size=facts.st_size if size is None else size)
            copied.mtime_ns = facts.st_mtime_ns
            handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with copied.writing() as target:
                if clone(handle, target):
                    with write_errors(copied.path):
                        os.ftruncate(target, copied.size)
                else:
                    length = min(facts.st_size, copied.size)
                    for position, data in _stretches(handle, length, source):
                        copied.put(target, position, data)
        finally:
            os.close(handle)
        return copied

    def subtree(self, *parts: str, like: os.stat_result | None = None) -> OutputTree:
        """Create a directory and give it as a tree, which is finished with this one.

        Raises:
            OutputExists: it was given already.
            RepairError: a part cannot be a file name.
            WriteFailed: the system refused.
        """
        path = relative_path(parts)
        if path in self._subtrees:
            raise OutputExists(path=f"{self.top}/{path}", reason="was written already")
        self._directory(path)
        tree = OutputTree(self.top / path, self._sync, like or self._like)
        self._subtrees[path] = tree
        return tree

    def adopt(self, directory: str, path: str) -> None:
        """Take a directory that lies on the disk already, with all below it, in place of a new one.

        Args:
            directory: what to move, on the same file system.
            path: where to, below the top; nothing is there yet.

        Raises:
            WriteFailed: the system refused.
        """
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        with write_errors(f"{self.top}/{path}"):
            os.rename(directory, f"{self.top}/{path}")  # noqa: PTH104 - one of thousands
        self._directories.add(path)

    def drop(self, name: str) -> None:
        """Remove a file, or a directory with all below it, of the top again."""
        with write_errors(self.top / name):
            remove(self.top / name)
        self.files.pop(name, None)
        self._directories.discard(name)
        self._subtrees.pop(name, None)

    def equals(self, path: Path) -> bool:
        """Whether a tree on the disk has the same names, lengths, bytes, and mtimes asked for."""
        with write_errors(path):
            files, directories = self._all()
            names = {True: set[str](), False: set[str]()}
            if path.is_symlink() or not path.is_dir() or not _listed(str(path), "", names):
                return False
            if names[True] != directories or names[False] != files.keys():
                return False
            return all(has_content(file, path / name) for name, file in sorted(files.items()))

    def finish(self) -> None:
        """Set the mtimes and bring everything to the disk.

        Raises:
            WriteFailed: the system refused.
        """
        with write_errors(self.top):
            files, directories = self._all()
            for file in files.values():
                if file.mtime_ns is not None:
                    os.utime(file.path, ns=(file.mtime_ns, file.mtime_ns))
            paths = [file.path for file in files.values()]
            paths += [f"{self.top}/{path}" for path in sorted(directories)]
            self._sync.all([*paths, str(self.top)])

    def _all(self) -> tuple[dict[str, OutputTreeFile], set[str]]:
        """Give the files and the directories, those of subtrees, too."""
        files, directories = dict(self.files), set(self._directories)
        for path, tree in self._subtrees.items():
            below, beneath = tree._all()  # noqa: SLF001 - of this class
            files |= {f"{path}/{name}": file for name, file in below.items()}
            directories |= {f"{path}/{name}" for name in beneath}
        return files, directories

    def _create(self, path: str) -> int:
        try:
            handle = os.open(path, _CREATE, 0o666)
        except FileExistsError as error:
            raise OutputExists(path=path, reason="was written already") from error
        if self._like is not None:
            inherit(handle, self._like, mode=None)
        return handle

    def _directory(self, path: str) -> None:
        if path in self._directories:
            return
        above = path.rpartition("/")[0]
        if above:
            self._directory(above)
        made = self.top / path
        with write_errors(made):
            with suppress(FileExistsError):  # another thread was first
                made.mkdir()
            if self._like is not None:
                inherit(made, self._like)
        self._directories.add(path)


def has_content(file: OutputTreeFile, path: Path) -> bool:
    """Whether a file on the disk is what was staged: length, mtime where asked for, bytes."""
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != file.size:
        return False
    if file.mtime_ns not in {None, facts.st_mtime_ns}:
        return False
    with open(file.path, "rb") as staged, path.open("rb") as present:  # noqa: PTH123 - a str
        while chunk := staged.read(_COMPARED_BYTES):
            if chunk != present.read(_COMPARED_BYTES):
                return False
    return True


def _listed(path: str, relative: str, names: dict[bool, set[str]]) -> bool:
    """Collect the names below a directory; False when one is neither file nor directory."""
    with os.scandir(path) as entries:
        found = list(entries)
    for entry in found:
        name = f"{relative}{entry.name}"
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not entry.is_file(follow_symlinks=False):
            return False
        names[is_directory].add(name)
        if is_directory and not _listed(entry.path, f"{name}/", names):
            return False
    return True


def inherit(thing: int | Path, like: os.stat_result, *, mode: int | None = stat.S_IRWXU) -> None:
    """Give a new file or directory the owner, and a directory the mode, of what it stands for.

    A broker is seldom root; one who repairs its store often is.
    """
    with write_errors(thing):
        if os.geteuid() == 0:
            os.chown(thing, like.st_uid, like.st_gid)
        if mode is not None:
            os.chmod(thing, stat.S_IMODE(like.st_mode) | mode)  # noqa: PTH101 - or a handle


def _stretches(handle: int, size: int, path: object) -> Iterator[tuple[int, bytes]]:
    """Read the stretches of a file that hold data, so that its holes stay holes."""
    position = end = 0
    while position < size:
        with write_errors(path):
            if position == end:  # the end of a stretch
                position, end = _next_stretch(handle, position, size)
            data = os.pread(handle, min(_COPY_BYTES, end - position), position)
        if not data:
            return
        yield position, data
        position += len(data)


def _next_stretch(handle: int, position: int, size: int) -> tuple[int, int]:
    """Give start and end of the next data below `size`; both `size` when there is none."""
    try:
        begin = os.lseek(handle, position, os.SEEK_DATA)
        return min(begin, size), min(os.lseek(handle, begin, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        if error.errno == errno.EINVAL:  # no such question here: all of it
            return position, size
        raise
