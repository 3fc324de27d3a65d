"""Whether a process holds a store's lock: asked, never taken.

Any answer but "unlocked" is a holder. It may have no id here: a process of another container (0),
a lock that belongs to an open file (-1), a process of another host (negative).
Source: DefaultMessageStore#start (FileChannel.tryLock(0, 1, false)), 4.9.3 to 5.5.0; fcntl_getlk,
locks_translate_pid of Linux.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UnreadablePath

if TYPE_CHECKING:
    from rmqtool.store.place import Place

# struct flock of 64-bit Linux: type, whence, start, length, process.
FLOCK = struct.Struct("hhqqi4x")
# Device and inode of each `lock` that this process holds: what it edits, no broker writes.
OWN_LOCKS: Final[set[tuple[int, int]]] = set()
_WITHOUT_ID: Final = "a process without an id here: another container or host, or an open-file lock"


class LockState(NamedTuple):
    """What the system answers about a lock."""

    is_held: bool | None  # by another process; None where it cannot be asked
    process: int = 0  # id of the holder; 0 where it has none in this process's namespace

    @property
    def holder(self) -> str:
        """Name the process that holds the lock, as well as can be known; empty for none."""
        if not self.is_held:
            return ""
        return f"process {self.process}" if self.process else _WITHOUT_ID


def lock_of(handle: int) -> LockState:
    """Ask who locks the first byte of an open file; locks of this very open file do not count.

    Raises:
        OSError: the file system does not answer.
    """
    if not sys.platform.startswith("linux"):
        return LockState(None)
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, process = FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, question))
    return LockState(kind != fcntl.F_UNLCK, max(process, 0))


def lock_state(place: Place) -> LockState:
    """Ask who locks the first byte of `lock`; this process does not count."""
    try:
        with place.open() as file:
            facts = os.fstat(file.fileno())
            if (facts.st_dev, facts.st_ino) in OWN_LOCKS:
                return LockState(is_held=False)
            return lock_of(file.fileno())
    except (UnreadablePath, OSError):
        return LockState(None)
