"""How fast files are read: as fast as the disk gives, or at a rate that leaves it to a broker.

What is read at a rate is not kept in the page cache, where it would take the place of what a broker
works with. Pages that a broker has mapped stay: the system drops none that somebody uses.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

AHEAD_SECONDS: Final = 0.1  # of reading that may come at once
_CHOSEN: Final[list[Pace]] = []


class Pace:
    """Keeps all threads of this process together at a rate.

    Args:
        rate: bytes a second.
    """

    def __init__(self, rate: int) -> None:
        import threading  # every command imports this module, and few ask for a rate

        self._rate = rate
        self._due = time.monotonic()
        self._lock = threading.Lock()

    def took(self, descriptor: int, position: int, length: int) -> None:
        """Take note of bytes that were read; wait until more may be.

        Args:
            descriptor: the file.
            position: of the first byte.
            length: bytes.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now - AHEAD_SECONDS) + length / self._rate
            wait = self._due - now
        if wait > 0:
            time.sleep(wait)


@contextmanager
def paced(rate: int | None) -> Iterator[None]:
    """Read files at this rate at most while the block runs.

    Args:
        rate: bytes a second of all threads of this process together; None is any.
    """
    if rate is None:
        yield
        return
    _CHOSEN.append(Pace(rate))
    try:
        yield
    finally:
        _CHOSEN.pop()


def pace() -> Pace | None:
    """Give the rate that is kept now; None without one."""
    return _CHOSEN[-1] if _CHOSEN else None
