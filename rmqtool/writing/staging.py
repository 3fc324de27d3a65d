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
import stat
import time
from typing import TYPE_CHECKING, Final

from rmqtool.errors import OutputExists, RepairError, RmqtoolError, WriteFailed
from rmqtool.writing.directory import Directory, Spot, spot_of
from rmqtool.writing.system_calls import rename_new, rename_over, sync_file_system

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Buffer

# Of FUSE and CIFS: after a power cut nobody would know what was renamed.
NO_SYNC: Final = "this file system cannot bring the names in a directory to the disk"
_SYNC_EACH: Final = 64  # more names than this: one syncfs is cheaper, 0.3 ms an fsync measured
_TO_SYNC: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
        """Bring an open file or directory to the disk.

        Raises:
            OSError: the disk refused, or its file system knows no such thing.
        """
        start = time.perf_counter()
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno == errno.EINVAL and stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, NO_SYNC) from error
            raise
        finally:
            self.seconds += time.perf_counter() - start

    def names(self, top: Directory, names: Iterable[str]) -> None:
        """Bring files and directories to the disk, many of them at the cost of a few.

        Args:
            top: what they are in; its own entries are brought there, too.
            names: relative paths; `top` is a tree that nobody else can enter.
        """
        wanted = list(names)
        if len(wanted) <= _SYNC_EACH or not self.file_system(top):
            for name in wanted:
                handle = os.open(name, _TO_SYNC, dir_fd=top.handle)
                try:
                    self.handle(handle)
                finally:
                    os.close(handle)
            self.handle(top.handle)

    def file_system(self, directory: Directory) -> bool:
        """Bring all of a file system to the disk; False where that is unknown."""
        start = time.perf_counter()
        try:
            return sync_file_system(directory.handle)
        finally:
            self.seconds += time.perf_counter() - start


class Staging:
    """One staged name, a file or a directory.

    Attributes:
        target: where it will be.
        handle: of the file that is staged; -1 for none.
        top: the directory that is staged; None for none.
        mode: what a staged directory will have at most; it is 0700 until then.

    Args:
        target: its directory must exist.
        sync: counts the time that the disk takes.
        overwrite: whether a regular file there may be replaced.
    """

    def __init__(self, target: Path, sync: DiskSync, *, overwrite: bool = False) -> None:
        if "\0" in str(target):
            raise RepairError(path=ascii(str(target)), reason="contains a NUL")
        self.target = target.absolute()
        self.handle = -1
        self.top: Directory | None = None
        self.mode = 0o777
        self._spot: Spot | None = None
        self._is_made = False
        self._file_mode = 0o666
        self._sync = sync
        self._overwrite = overwrite

    def open(self, *, directory: bool) -> None:
        """Create the staged file or directory, after clearing what killed runs left.

        Raises:
            OutputExists: the target is there, or somebody is just writing it.
            WriteFailed: the system refused.
        """
        with write_errors(self.target):
            self._spot = spot_of(self.target)
            self._refuse_existing(self._spot)
            _remove_leftovers(self._spot)
            try:
                self._create(self._staged(self._spot), directory=directory)
            except FileExistsError as error:
                reason = "another run is just writing it"
                raise OutputExists(path=str(self.target), reason=reason) from error

    def commit(self) -> None:
        """Give the staged thing its name; its content must be on the disk already.

        Raises:
            OutputExists: somebody created the target meanwhile.
            WriteFailed: the system refused.
        """
        target = self._spot
        assert target is not None  # noqa: S101 - it was opened
        staged = self._staged(target)
        with write_errors(self.target):
            if self.top is not None:
                os.fchmod(self.top.handle, self.mode)
            if self._overwrite:
                rename_over(staged, target)
            else:
                try:
                    rename_new(staged, target)
                except FileExistsError as error:
                    reason = "it appeared while we were writing"
                    raise OutputExists(path=str(self.target), reason=reason) from error
            try:
                self._refuse_other(target)
                self._sync.handle(target.directory.handle)
            except OSError:  # then it may vanish with the next power cut: it does not count
                if not self._overwrite:
                    rename_new(target, staged)
                raise
        self._is_made = False
        self._close()

    def discard(self) -> None:
        """Remove what was staged, as far as the system lets us; the target is not touched."""
        if self._is_made and self._spot is not None:
            with contextlib.suppress(OSError):
                self._spot.directory.remove(self._staged(self._spot).name)
        self._is_made = False
        self._close()

    def _staged(self, target: Spot) -> Spot:
        return Spot(target.directory, f".{target.name}.rmqtool-{os.getpid()}")

    def _refuse_other(self, target: Spot) -> None:
        """Refuse what has been put in the place of what was staged.

        Raises:
            WriteFailed: somebody else has done so.
        """
        ours = os.fstat(self.handle if self.top is None else self.top.handle).st_ino
        if target.inode() != ours:
            reason = "another process replaced it while it was written"
            raise WriteFailed(path=str(self.target), reason=reason)

    def _refuse_existing(self, target: Spot) -> None:
        facts = target.facts()
        if facts is None:
            return
        if not self._overwrite:
            raise OutputExists(path=str(self.target), reason="exists already")
        if not stat.S_ISREG(facts.st_mode):
            raise OutputExists(path=str(self.target), reason="is not a regular file")
        self._file_mode &= stat.S_IMODE(facts.st_mode)

    def _create(self, staged: Spot, *, directory: bool) -> None:
        self._is_made = True  # first: a signal may come when it is there, and before we know
        try:
            if directory:
                self._make(staged)
            else:
                self.handle = staged.directory.create(staged.name, self._file_mode)
        except FileExistsError:
            self._is_made = False
            raise
        with contextlib.suppress(OSError):  # no such locks here: the process must do
            handle = self.top.handle if self.top is not None else self.handle
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _make(self, staged: Spot) -> None:
        """Make a directory that nobody else can enter until it has its name."""
        staged.directory.make(staged.name)
        made = staged.directory.enter(staged.name)
        self.top = made
        facts = os.fstat(made.handle)
        self.mode &= stat.S_IMODE(facts.st_mode)
        os.fchmod(made.handle, stat.S_IRWXU)
        if facts.st_uid != os.geteuid() or made.names():
            reason = f"another process has put files into {staged.name}"
            raise RepairError(path=str(self.target), reason=reason)

    def _close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
        self.handle = -1
        if self.top is not None:
            self.top.close()
        if self._spot is not None:
            self._spot.directory.close()


def _remove_leftovers(target: Spot) -> None:
    """Remove what killed runs for the same target left beside it."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.rmqtool-([0-9]{{1,10}})")
    for name in target.directory.names():
        if match := pattern.fullmatch(name):
            with contextlib.suppress(OSError, RepairError):  # another user's: it stays
                _remove_leftover(Spot(target.directory, name), int(match[1]))


def _remove_leftover(spot: Spot, process: int) -> None:
    """Remove what was staged by a process that is gone."""
    is_own = process == os.getpid()  # a number that was used before: only the lock can tell
    if not is_own and _is_alive(process):
        return
    facts = spot.facts()
    if facts is None or stat.S_IFMT(facts.st_mode) not in {stat.S_IFDIR, stat.S_IFREG}:
        return
    is_directory = stat.S_ISDIR(facts.st_mode)
    above = spot.directory
    handle = above.open_directory(spot.name) if is_directory else above.open_file(spot.name)
    try:
        if _is_unlocked(handle, unknown=not is_own):
            above.remove(spot.name)
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
