"""What has opened a RocksDB database stays for whoever reads the same files next.

To open one means a process, and all of its write-ahead logs read into memory; one command may ask
four times. So while a command runs, a process that was asked and has answered waits here. Files
that have changed since are another database: beside a broker nobody is given what is old. Threads
share what waits; a list adds and removes at once, so the first one gets it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    # How its logs are read, then location, size, mtime in ns and inode of each file as listed.
    Opening = tuple[object, ...]

    class Idle(Protocol):
        """A database that a process has opened."""

        opening: Opening  # how it was opened, and on what; empty when nobody else can have it

        @property
        def can_answer(self) -> bool:
            """Whether its process lives."""

        def end(self) -> None:
            """End the process."""


MOST: Final = 4  # that wait; each has what lies in the logs of its database in memory
LACKING: Final[set[str]] = set()  # what could not confine a process of this one: `confinement.WAYS`
_WAITING: Final[list[tuple[int, list[Idle]]]] = []  # of which process: a child shares their pipes


@contextmanager
def databases_wait() -> Iterator[None]:
    """Let databases wait for their next reader until the block ends."""
    waiting: list[Idle] = []
    _WAITING.append((os.getpid(), waiting))
    try:
        yield
    finally:
        _WAITING.pop()
        for one in waiting:
            one.end()


def take(opening: Opening) -> Idle | None:
    """Give a database on files that are as they were; it is the caller's until `leave`."""
    waiting = _here() or []
    for one in [*waiting]:
        if one.opening == opening and one.can_answer:
            with suppress(ValueError):  # another thread was faster
                waiting.remove(one)
                return one
    return None


def leave(served: Idle) -> None:
    """Let a database wait; where none may, end it. The one that waited longest makes room."""
    waiting = _here()
    if waiting is None or not served.opening:
        served.end()
        return
    waiting.append(served)
    with suppress(IndexError):  # another thread made room
        while len(waiting) > MOST:
            waiting.pop(0).end()


def _here() -> list[Idle] | None:
    """Give what waits for this process; None where nothing may wait."""
    process, waiting = _WAITING[-1] if _WAITING else (0, None)
    return waiting if process == os.getpid() else None
