"""New files and directories that are there completely or not at all.

`OutputDirectory` is a new tree, `OutputFile` a single file: staged beside the target, brought to
the disk, renamed. `OutputTree` is what both a new directory and an edit of a store in place
(`edits.py`) write trees with. Only the modules `output`, `staging`, `journal`, `edits`, `lock` and
`system_calls` of this package change anything on a disk.

No file is kept open: a rebuilt store has more queues than a process may have open files.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import OutputExists, RepairError
from rmqtool.store.names import relative_path
from rmqtool.store.staging import DiskSync, Staging, write_all, write_errors
from rmqtool.store.system_calls import clone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import BinaryIO, TextIO

    from typing_extensions import Buffer

    Pieces = Iterable[tuple[int, Buffer]]  # (position, bytes)

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES: Final = 1 << 24


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
        self._sync = sync
        self._like = like
        if like is not None:
            inherit(top, like)

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    @property
    def directories(self) -> set[str]:
        """The directories below the top, `/` separated."""
        return set(self._directories)

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

    def copy(self, source: str | os.PathLike[str], *parts: str) -> OutputTreeFile:
        """Copy a file with its mtime: by sharing blocks where the file system can, else its bytes.

        Never by a hard link: a broker that runs on the copy would write into the original.

        Raises:
            WriteFailed: the system refused to read or to write.
        """
        with write_errors(source):
            facts = os.stat(source)  # noqa: PTH116 - a str or a path
            copied = self.file(*parts, size=facts.st_size)
            copied.mtime_ns = facts.st_mtime_ns
            handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with copied.writing() as target:
                if not clone(handle, target):
                    for position, data in _stretches(handle, facts.st_size, source):
                        copied.put(target, position, data)
        finally:
            os.close(handle)
        return copied

    def finish(self) -> None:
        """Set the mtimes and bring everything to the disk.

        Raises:
            WriteFailed: the system refused.
        """
        with write_errors(self.top):
            for file in self.files.values():
                if file.mtime_ns is not None:
                    os.utime(file.path, ns=(file.mtime_ns, file.mtime_ns))
            directories = [f"{self.top}/{path}" for path in sorted(self._directories)]
            files = [file.path for file in self.files.values()]
            self._sync.all([*files, *directories, str(self.top)])

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


class OutputDirectory(OutputTree):
    """A new directory tree; a context manager. It appears, complete, when the block ends.

    On an error in the block nothing appears and nothing stays behind.

    Args:
        path: the target; must not exist, its parent must.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        sync = DiskSync()
        self._staging = Staging(Path(path), sync)
        super().__init__(self._staging.path, sync)

    def __enter__(self) -> Self:
        """Stage the directory.

        Raises:
            OutputExists: the target is there.
            WriteFailed: the system refused.
        """
        try:
            self._staging.open(directory=True)
        except BaseException:
            self._staging.discard()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.finish()
                self._staging.commit()
        finally:
            self._staging.discard()


class OutputFile:
    """A single new file; a context manager. It appears, complete, when the block ends.

    Attributes:
        binary: what to write bytes to.
        text: what to write text to (UTF-8); use one of the two.

    Args:
        path: the target.
        overwrite: whether a regular file that is there may be replaced.
    """

    binary: BinaryIO
    text: TextIO

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._sync = DiskSync()
        self._staging = Staging(Path(path), self._sync, overwrite=overwrite)

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    def __enter__(self) -> Self:
        """Stage the file.

        Raises:
            OutputExists: the target is there.
            WriteFailed: the system refused.
        """
        try:
            self._staging.open(directory=False)
            self._raw = _Raw(self._staging)
        except BaseException:
            self._staging.discard()
            raise
        self.binary = io.BufferedWriter(self._raw)
        self.text = io.TextIOWrapper(self.binary, "utf-8", "backslashreplace", newline="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.text.flush()
                with write_errors(self._staging.target):
                    self._sync.handle(self._staging.handle)
                self._staging.commit()
        finally:
            self._raw.is_ended = True
            self.text.close()
            self._staging.discard()


class _Raw(io.RawIOBase):
    """Writes to a staged file; says `WriteFailed`, which a bare file object would not."""

    def __init__(self, staging: Staging) -> None:
        super().__init__()
        self._staging = staging
        self._position = 0
        self.is_ended = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        length = memoryview(data).nbytes
        if not self.is_ended:  # what is still buffered after an error goes nowhere
            with write_errors(self._staging.target):
                write_all(self._staging.handle, data, self._position)
            self._position += length
        return length


def inherit(thing: int | Path, like: os.stat_result, *, mode: int | None = stat.S_IRWXU) -> None:
    """Give a new file or directory the owner, and a directory the mode, of what it stands for.

    A broker is seldom root; one who repairs its store often is.
    """
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
    """Give start and end of the next stretch that holds data; both `size` when there is none."""
    try:
        begin = os.lseek(handle, position, os.SEEK_DATA)
        return begin, os.lseek(handle, begin, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        if error.errno == errno.EINVAL:  # no such question here: all of it
            return position, size
        raise
