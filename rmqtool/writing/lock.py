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
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import StoreLocked, UnreadablePath, WriteFailed

if TYPE_CHECKING:
    from types import TracebackType

_FLOCK: Final = "hhqqi4x"  # struct flock: type, whence, start, length, process
_HELD: Final = (errno.EAGAIN, errno.EACCES)
_NO_OFD: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_OUR_MTIME_NS: Final = 0  # marks an empty `lock` that a killed rmqtool made
_PID_DIGITS: Final = 20  # a longer `abort` is not a process id


class StoreLock:
    """Holds the lock of a store; a context manager.

    A `lock` file that had to be created is removed again, so that a store keeps its files.

    Attributes:
        root: the store root, without links.
        found: size and mtime (ns) of `lock` as a broker left it; None when none ever wrote it.
            A broker that starts does, so a change of these tells that one ran.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        self.found: tuple[int, int] | None = None
        self._path = self.root / "lock"
        self._handle = -1
        self._is_ours = False

    def __enter__(self) -> Self:
        """Take the lock without waiting.

        Raises:
            StoreLocked: a broker, or another rmqtool, uses the store.
            UnreadablePath: there is no such directory.
            WriteFailed: the lock file cannot be opened for writing, or cannot be locked.
        """
        if not self.root.is_dir():
            raise UnreadablePath(path=str(self.root), reason="no such directory")
        try:
            self._take()
        except OSError as error:
            self._release()
            raise WriteFailed.of(self._path, error) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release()

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock now."""
        return self._handle >= 0

    def _take(self) -> None:
        """Open and lock the file; start over when it was replaced in between."""
        while True:
            facts = self.root.stat()
            self._look()
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if self._is_ours:
                os.utime(self._handle, ns=(_OUR_MTIME_NS, _OUR_MTIME_NS))
                _inherit_owner(self._handle, facts)
                _set_mtime(self.root, facts.st_mtime_ns)
            self._lock()
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_ino == os.fstat(self._handle).st_ino:
                    break
            self._close()
        if self._others():
            raise self._locked()

    def _lock(self) -> None:
        try:
            _lock_first_byte(self._handle, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno in _HELD:  # of the lock only: a file that may not be opened is not held
                raise self._locked() from error
            raise

    def _look(self) -> None:
        """See what a broker left in `lock`, and whether we have to make, and remove, one."""
        try:
            before = self._path.stat()
        except FileNotFoundError:
            self.found, self._is_ours = None, True
            return
        is_empty = not before.st_size
        self.found = None if is_empty else (before.st_size, before.st_mtime_ns)
        self._is_ours = is_empty and before.st_mtime_ns == _OUR_MTIME_NS

    def _release(self) -> None:
        """Let go, and remove a `lock` that was not there before and that nobody else has open."""
        with contextlib.suppress(OSError):  # an empty `lock` that stays behind does no harm
            if self._is_ours and self.is_held:
                here, ours = self._path.stat(), os.fstat(self._handle)
                if here.st_ino == ours.st_ino and not ours.st_size and not self._others():
                    mtime_ns = self.root.stat().st_mtime_ns
                    self._path.unlink()
                    _set_mtime(self.root, mtime_ns)
        self._close()

    def _close(self) -> None:
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # a forked child would keep it
                _lock_first_byte(self._handle, fcntl.F_UNLCK)
            os.close(self._handle)
        self._handle = -1

    def _locked(self) -> StoreLocked:
        """Say who uses the store, as well as can be known."""
        others = self._others()
        told = _abort_pid(self.root / "abort")
        if told is not None and (not others or told in others):
            return StoreLocked(
                path=str(self.root), reason=f"a running broker holds the lock (process {told})"
            )
        who = f" (process {others[0]})" if others else ""
        return StoreLocked(path=str(self.root), reason=f"another process uses this store{who}")

    def _others(self) -> list[int]:
        """Find processes that have `lock` open for writing; empty where that cannot be asked."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            target = self._path.stat()
            for process in os.listdir("/proc"):  # noqa: PTH208 - a Path for each costs 20 ms here
                if process.isdecimal() and int(process) != os.getpid():
                    with contextlib.suppress(OSError):
                        if _writes(f"/proc/{process}", target):
                            found.append(int(process))
        return sorted(found)


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
        wanted = struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 1, 0)
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, wanted)
        except OSError as error:
            if error.errno not in _NO_OFD:
                raise
        else:
            return
    how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
    fcntl.lockf(handle, how, 1, 0, os.SEEK_SET)


def _abort_pid(path: Path) -> int | None:
    """Read the process id that 5.x brokers write to `abort`; 4.x leave it empty."""
    try:
        with path.open("rb") as file:
            text = file.read(_PID_DIGITS).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _inherit_owner(handle: int, facts: os.stat_result) -> None:
    """Give a file to the owner of the store: a broker that is not root must be able to open it."""
    if os.geteuid() == 0:
        os.fchown(handle, facts.st_uid, facts.st_gid)


def _set_mtime(path: Path, mtime_ns: int) -> None:
    os.utime(path, ns=(path.stat().st_atime_ns, mtime_ns))
