"""What has opened a RocksDB database stays for whoever reads the same files next.

To open one means a process, and all of its write-ahead logs read into memory; one command may ask
four times. So while a command runs, a process that was asked and has answered waits here. Files
that have changed since are another database: beside a broker nobody is given what is old.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 4  # that wait; each has what lies in the logs of its database in memory
# How its logs are read, then location, size, mtime in ns and inode of each file as it was listed.
Opening = tuple[object, ...]


class Idle(Protocol):
    """A database that a process has opened.

    Attributes:
        opening: how it was opened, and on what; empty when nobody else can have it.
    """

    opening: Opening

    @property
    def can_answer(self) -> bool:
        """Whether its process lives."""

    def end(self) -> None:
        """End the process."""


class _Waiting:
    """Databases that nobody reads now; of this process alone, as a child shares their pipes."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.served: list[Idle] = []


_LOCK: Final = threading.RLock()  # a collection of garbage may `leave` one at any moment
_WAITING: Final[list[_Waiting]] = []


@contextmanager
def databases_wait() -> Iterator[None]:
    """Let databases wait for their next reader until the block ends."""
    waiting = _Waiting()
    with _LOCK:
        _WAITING.append(waiting)
    try:
        yield
    finally:
        with _LOCK:
            _WAITING.remove(waiting)
        for one in waiting.served:
            one.end()


def take(opening: Opening) -> Idle | None:
    """Give a database on files that are as they were; it is the caller's until `leave`."""
    with _LOCK:
        for waiting in _WAITING[-1:]:
            for one in waiting.served if waiting.process == os.getpid() else ():
                if one.opening == opening and one.can_answer:
                    waiting.served.remove(one)
                    return one
    return None


def leave(served: Idle) -> None:
    """Let a database wait; where none may, end it. The one that waited longest makes room."""
    ended = [served]
    with _LOCK:
        for waiting in _WAITING[-1:]:
            if served.opening and waiting.process == os.getpid():
                waiting.served.append(served)
                ended = waiting.served[:-MOST]
                del waiting.served[:-MOST]
    for one in ended:
        one.end()
