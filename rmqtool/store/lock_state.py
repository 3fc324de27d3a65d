"""Whether a running broker holds a store's lock: asked, never taken.

Source: DefaultMessageStore#start (FileChannel.tryLock(0, 1, false)), 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath

if TYPE_CHECKING:
    from rmqtool.store.place import Place

# struct flock of 64-bit Linux: type, whence, start, length, process.
FLOCK = struct.Struct("hhqqi4x")
# Device and inode of each `lock` that this process holds: what it edits, no broker writes.
OWN_LOCKS: Final[set[tuple[int, int]]] = set()


def lock_holder(place: Place) -> int | None:
    """Give the process that locks the first byte of `lock`, this one left out.

    Returns:
        Its id, or -1 when an open file holds it; 0 when nobody does, or nobody in our process
        space can be asked about (a broker in another container, on another machine); None when
        it cannot be asked.
    """
    if not sys.platform.startswith("linux"):
        return None
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        with place.open() as file:
            facts = os.fstat(file.fileno())
            if (facts.st_dev, facts.st_ino) in OWN_LOCKS:
                return 0
            kind, _, _, _, process = FLOCK.unpack(
                fcntl.fcntl(file.fileno(), fcntl.F_GETLK, question)
            )
    except (UnreadablePath, OSError):
        return None
    return 0 if kind == fcntl.F_UNLCK else process
