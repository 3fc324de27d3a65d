"""Stage beside the target, bring it to the disk, rename: the parts that every writer shares.

A name is staged as `.<name>.rmqtool-<process>` in the directory of its target, and locked
(`flock`) while its writer lives. What a killed run left is known by that name, by a process that
is gone and by the lock, and the next run for the same target removes it; nothing else ever is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import time
from typing import TYPE_CHECKING, Final

from rmqtool.errors import OutputExists, RepairError, RmqtoolError, WriteFailed
from rmqtool.writing.system_calls import rename_new, sync_file_system

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Buffer

_SYNC_EACH: Final = 64  # more paths than this: one syncfs is cheaper, 0.3 ms an fsync measured
_PROBE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def write_errors(path: object) -> Iterator[None]:
    """Turn what the operating system says about a path into `WriteFailed`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, RmqtoolError):
            raise
        raise WriteFailed.of(path, error) from error


def write_all(handle: int, data: Buffer, position: int) -> None:
    """Write all bytes at a position; one call may take only some of them."""
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(handle, view, position)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view, position = view[written:], position + written


class DiskSync:
    """Brings bytes to the disk and counts the time, which is the disk's and not ours.

    Attributes:
        seconds: spent waiting for the disk.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def handle(self, handle: int) -> None:
        """Bring an open file or directory to the disk."""
        start = time.perf_counter()
        try:
            os.fsync(handle)
        finally:
            self.seconds += time.perf_counter() - start

    def path(self, path: Path | str) -> None:
        """Bring a file or a directory to the disk."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.handle(handle)
        finally:
            os.close(handle)

    def all(self, paths: Iterable[Path | str]) -> None:
        """Bring files and directories to the disk, many of them at the cost of a few."""
        wanted = list(paths)
        if len(wanted) <= _SYNC_EACH or not self._file_systems(wanted):
            for path in wanted:
                self.path(path)

    def _file_systems(self, paths: list[Path | str]) -> bool:
        """Bring the whole file systems to the disk; False where that is unknown."""
        devices = {os.lstat(path).st_dev: path for path in paths}
        start = time.perf_counter()
        try:
            for path in devices.values():
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if not sync_file_system(handle):
                        return False
                finally:
                    os.close(handle)
        finally:
            self.seconds += time.perf_counter() - start
        return True


class Staging:
    """One staged name, a file or a directory.

    Args:
        target: where it will be; its directory must exist.
        sync: counts the time that the disk takes.
        overwrite: whether a regular file there may be replaced.
    """

    def __init__(self, target: Path, sync: DiskSync, *, overwrite: bool = False) -> None:
        if "\0" in str(target):
            raise RepairError(path=ascii(str(target)), reason="contains a NUL")
        self.target = target.absolute()
        self.path = self.target.parent / f".{self.target.name}.rmqtool-{os.getpid()}"
        self.handle = -1
        self._is_made = False
        self._sync = sync
        self._overwrite = overwrite

    def open(self, *, directory: bool) -> None:
        """Create the staged file or directory, after clearing what killed runs left.

        Raises:
            OutputExists: the target is there, or somebody is just writing it.
            WriteFailed: the system refused.
        """
        self._refuse_existing()
        with write_errors(self.target):
            self._remove_leftovers()
            try:
                self._create(directory=directory)
            except FileExistsError as error:
                reason = "another run is just writing it"
                raise OutputExists(path=str(self.target), reason=reason) from error

    def commit(self) -> None:
        """Give the staged thing its name; its content must be on the disk already.

        Raises:
            OutputExists: somebody created the target meanwhile.
            WriteFailed: the system refused.
        """
        with write_errors(self.target):
            if self._overwrite:
                self.path.replace(self.target)
            else:
                try:
                    rename_new(self.path, self.target)
                except FileExistsError as error:
                    reason = "it appeared while we were writing"
                    raise OutputExists(path=str(self.target), reason=reason) from error
            try:
                self._sync.path(self.target.parent)
            except OSError:  # then it may vanish with the next power cut: it does not count
                if not self._overwrite:
                    rename_new(self.target, self.path)
                raise
        self._is_made = False
        self._close()

    def discard(self) -> None:
        """Remove what was staged, as far as the system lets us; the target is not touched."""
        if self._is_made:
            with contextlib.suppress(OSError):
                remove(self.path)
        self._is_made = False
        self._close()

    def _refuse_existing(self) -> None:
        try:
            facts = self.target.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise WriteFailed.of(self.target, error) from error
        if not self._overwrite:
            raise OutputExists(path=str(self.target), reason="exists already")
        if not stat.S_ISREG(facts.st_mode):
            raise OutputExists(path=str(self.target), reason="is not a regular file")

    def _create(self, *, directory: bool) -> None:
        self._is_made = True  # first: a signal may come when it is there, and before we know
        try:
            if directory:
                self.path.mkdir()
                self.handle = os.open(self.path, _PROBE | os.O_DIRECTORY)
            else:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self.handle = os.open(self.path, flags, 0o666)
        except FileExistsError:
            self._is_made = False
            raise
        with contextlib.suppress(OSError):  # no such locks here: the process must do
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _remove_leftovers(self) -> None:
        pattern = re.compile(rf"\.{re.escape(self.target.name)}\.rmqtool-([0-9]{{1,10}})")
        with os.scandir(self.target.parent) as entries:
            found = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
        for name in found:
            with contextlib.suppress(OSError):  # another user's: it stays
                _remove_leftover(self.target.parent / name, int(name.rpartition("-")[2]))

    def _close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
        self.handle = -1


def remove(path: Path) -> None:
    """Remove a file or a directory tree that this program made."""
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove_leftover(path: Path, process: int) -> None:
    """Remove what was staged by a process that is gone."""
    is_own = process == os.getpid()  # a number that was used before: only the lock can tell
    if not is_own and _is_alive(process):
        return
    if stat.S_IFMT(path.lstat().st_mode) not in {stat.S_IFDIR, stat.S_IFREG}:
        return
    handle = os.open(path, _PROBE)
    try:
        if _is_unlocked(handle, unknown=not is_own):
            remove(path)
    finally:
        os.close(handle)


def _is_unlocked(handle: int, *, unknown: bool) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no such locks on this file system
        return unknown
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
