"""The broker's own lock, so that nothing is written while a broker uses the store.

A broker opens `lock` when its store is constructed, loads (and thereby repairs, cuts, deletes), and
only in `start` takes an exclusive lock on the first byte, which it then overwrites with `lock`. So
two things tell of a broker: the byte is locked, or a process has the file open for writing.
Source: DefaultMessageStore#DefaultMessageStore, #start (FileChannel.tryLock(0, 1, false)), 4.9.3
to 5.5.0.

The lock taken here belongs to the open file (`F_OFD_SETLK`) where Linux has that: it excludes
Java's lock just as well, and is not lost when something in this process opens and closes `lock`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from pathlib import Path
from typing import Final, Self

from rmqtool.errors import RepairError, StoreLocked, Trouble, UnreadablePath, WriteFailed
from rmqtool.store.tree import FLOCK, OWN_LOCKS, LockState, lock_of
from rmqtool.writing.directory import Directory

_NAME: Final = "lock"
_HELD: Final = (errno.EAGAIN, errno.EACCES)
_NO_OFD: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_OUR_MTIME_NS: Final = 0  # marks an empty `lock` that a killed rmqtool made
_PID_DIGITS: Final = 20  # a longer `abort` is not a process id


class StoreLock:
    """Holds the lock of a store; a context manager.

    A `lock` file that had to be created is removed again, so that a store keeps its files.

    Attributes:
        root: the store root, without links.
        elsewhere: absolute paths of what the broker's configuration places outside of the root.
        as_left: size and mtime (ns) of `lock` as a broker left it; None when none ever wrote it. A
            broker that starts does, so a change of these tells that one ran.

    Args:
        root: the store root, as the user names it.
        elsewhere: as above.
    """

    # the same, open while the lock is held: all that is written goes through it
    directory: Directory

    def __init__(self, root: str | os.PathLike[str], elsewhere: tuple[str, ...] = ()) -> None:
        self.root = Path(root).resolve()
        self.elsewhere = elsewhere
        self.as_left: tuple[int, int] | None = None
        self._handle = -1
        self._is_ours = False
        self._taken: set[tuple[int, int]] = set()  # what it has added to OWN_LOCKS

    def __enter__(self) -> Self:
        """Take the lock without waiting.

        Raises:
            StoreLocked: a broker, or another rmqtool, uses the store.
            UnreadablePath: there is no such directory.
            RepairError: `lock` is a link, or no file.
            WriteFailed: the lock file cannot be opened for writing, or cannot be locked.
        """
        try:
            self.directory = Directory.at(self.root)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UnreadablePath(
                path=str(self.root), reason="no such directory", trouble=Trouble.MISSING
            ) from error
        except OSError as error:
            raise WriteFailed.of(self.root, error) from error
        try:
            self._take()
        except OSError as error:
            self._release()
            raise WriteFailed.of(self.root / _NAME, error) from error
        except BaseException:
            self._close()
            self.directory.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release()

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock now."""
        return self._handle >= 0

    def _take(self) -> None:
        """Open and lock the file; start over when it was replaced in between."""
        while True:
            self._look()
            self._open()
            self._lock()
            here = self.directory.facts(_NAME)
            ours = os.fstat(self._handle)
            if here is not None and here.st_ino == ours.st_ino:
                break
            self._close()
        if self._others():
            raise self._locked()
        self._taken.add((ours.st_dev, ours.st_ino))
        OWN_LOCKS.update(self._taken)

    def _open(self) -> None:
        """Open the file, or make one that its broker can open."""
        root = os.fstat(self.directory.handle)
        try:
            self._handle = self.directory.create(_NAME, 0o644)
        except FileExistsError:
            self._handle = self.directory.open_file(_NAME, os.O_RDWR)
            return
        self._is_ours = True
        os.utime(self._handle, ns=(_OUR_MTIME_NS, _OUR_MTIME_NS))
        if os.geteuid() == 0:  # a broker that is not root must be able to open it
            os.fchown(self._handle, root.st_uid, root.st_gid)
        self.directory.set_mtime(root.st_mtime_ns)

    def _lock(self) -> None:
        try:
            _lock_first_byte(self._handle, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno in _HELD:  # of the lock only: a file that may not be opened is not held
                raise self._locked() from error
            raise

    def _look(self) -> None:
        """See what a broker left in `lock`, and whether we have to make, and remove, one."""
        before = self.directory.facts(_NAME)
        if before is None:
            self.as_left, self._is_ours = None, False
            return
        is_empty = not before.st_size
        self.as_left = None if is_empty else (before.st_size, before.st_mtime_ns)
        self._is_ours = is_empty and before.st_mtime_ns == _OUR_MTIME_NS

    def _release(self) -> None:
        """Let go, and remove a `lock` that was not there before and that nobody else has open."""
        with contextlib.suppress(OSError):  # an empty `lock` that stays behind does no harm
            if self._is_ours and self.is_held:
                here, ours = self.directory.facts(_NAME), os.fstat(self._handle)
                is_same = here is not None and here.st_ino == ours.st_ino
                if is_same and not ours.st_size and not self._others():
                    mtime_ns = os.fstat(self.directory.handle).st_mtime_ns
                    self.directory.unlink(_NAME)
                    self.directory.set_mtime(mtime_ns)
        self._close()
        self.directory.close()

    def _close(self) -> None:
        if self._handle >= 0:
            OWN_LOCKS.difference_update(self._taken)
            self._taken.clear()
            with contextlib.suppress(OSError):  # a forked child would keep it
                _lock_first_byte(self._handle, fcntl.F_UNLCK)
            os.close(self._handle)
        self._handle = -1

    def _locked(self) -> StoreLocked:
        """Say who uses the store, as well as can be known.

        The id that a broker writes to `abort` is of its own container: it is believed only where
        a process of that id here has the lock.
        """
        state = LockState(is_held=True)
        with contextlib.suppress(OSError):  # then its process cannot be named
            state = lock_of(self._handle)
        others = [state.process] if state.process else self._others()
        abort = _abort_pid(self.directory)
        if abort is not None and abort in others:
            reason = f"a running broker holds the lock (process {abort})"
        else:
            who = f"process {others[0]}" if others else state.holder
            marked = "" if others or abort is None else f"; its `abort` says process {abort}"
            reason = f"another process uses this store ({who}{marked})"
        return StoreLocked(path=str(self.root), reason=reason)

    def _others(self) -> list[int]:
        """Find processes that have `lock` open for writing; empty where that cannot be asked."""
        processes: list[int] = []
        with contextlib.suppress(OSError):
            target = os.fstat(self._handle)
            for process in os.listdir("/proc"):  # noqa: PTH208 - a Path for each costs 20 ms here
                if process.isdecimal() and int(process) != os.getpid():
                    with contextlib.suppress(OSError):
                        if _writes(f"/proc/{process}", target):
                            processes.append(int(process))
        return sorted(processes)


def _writes(process: str, target: os.stat_result) -> bool:
    """Whether a process has a file open for writing; reading `lock` is harmless."""
    for name in os.listdir(f"{process}/fd"):  # noqa: PTH208 - as above
        link = f"{process}/fd/{name}"
        if not os.readlink(link).endswith("/lock"):  # noqa: PTH115 - asks no other file system
            continue
        facts = Path(link).stat()
        if (facts.st_ino, facts.st_dev) == (target.st_ino, target.st_dev):
            flags = Path(f"{process}/fdinfo/{name}").read_text().split("flags:")[1].split()[0]
            if int(flags, 8) & os.O_ACCMODE:
                return True
    return False


def _lock_first_byte(handle: int, kind: int) -> None:
    """Lock bytes [0, 1) exclusively, or unlock them, or raise the OSError of the system."""
    if sys.platform == "linux":
        wanted = FLOCK.pack(kind, os.SEEK_SET, 0, 1, 0)
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, wanted)
        except OSError as error:
            if error.errno not in _NO_OFD:
                raise
        else:
            return
    how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
    fcntl.lockf(handle, how, 1, 0, os.SEEK_SET)


def _abort_pid(root: Directory) -> int | None:
    """Read the process id that 5.x brokers write to `abort`; 4.x leave it empty."""
    try:
        handle = root.open_file("abort")
    except (OSError, RepairError):  # a FIFO, too: nobody waits for it
        return None
    try:
        text = os.read(handle, _PID_DIGITS).strip()
    except OSError:
        return None
    finally:
        os.close(handle)
    return int(text) if text.isdigit() else None
