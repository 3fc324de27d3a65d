"""What has opened a RocksDB database stays for whoever reads the same files next.

To open one means a process, and all of its write-ahead logs read into memory; one command may ask
four times. So while a command runs, a process that was asked and has answered waits here. Files
that have changed since are another database: beside a broker nobody is given what is old. Threads
share what waits; a list adds and removes at once, so the first one gets it.

What processes take of a processor counts together, too: a database that took more than its files
may take is not opened again by the same command, and all of a store share the seconds that do not
grow with their files.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

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

        def forget(self) -> None:
            """Keep nothing of what was read."""

        def end(self) -> None:
            """End the process."""


MOST: Final = 4  # that wait; each has what lies in the logs of its database in memory
LACKING: Final[set[str]] = set()  # what could not confine a process of this one: `confinement.WAYS`
FREE_SECONDS: Final = 20.0  # of a processor, for all databases of a store


class _CommandRun(NamedTuple):
    """What is known while a command runs."""

    process: int  # whose it is: a child shares the pipes of what waits
    waiting: list[Idle]
    seconds: dict[str, float]  # left of those that are free, by store
    refused: dict[str, str]  # why a database is not opened again, by its place


_RUNS: Final[list[_CommandRun]] = []


@contextmanager
def databases_wait() -> Iterator[None]:
    """Let databases wait for their next reader until the block ends."""
    run = _CommandRun(os.getpid(), [], {}, {})
    _RUNS.append(run)
    try:
        yield
    finally:
        _RUNS.pop()
        for idle in run.waiting:
            idle.end()


def take(opening: Opening) -> Idle | None:
    """Give a database on files that are as they were; it is the caller's until `leave`."""
    run = _here()
    waiting = run.waiting if run else []
    for idle in [*waiting]:
        if idle.opening == opening and idle.can_answer:
            with suppress(ValueError):  # another thread was faster
                waiting.remove(idle)
                return idle
    return None


def leave(served: Idle) -> None:
    """Let a database wait; where none may, end it. The one that waited longest makes room.

    What was read of it stays in memory, and nothing of the others.
    """
    run = _here()
    if run is None or not served.opening:
        served.end()
        return
    for idle in run.waiting:
        idle.forget()
    run.waiting.append(served)
    with suppress(IndexError):  # another thread made room
        while len(run.waiting) > MOST:
            run.waiting.pop(0).end()


def free_seconds(store: str) -> float:
    """Give the seconds that the databases of a store may still take, beside those of each."""
    run = _here()
    return run.seconds.get(store, FREE_SECONDS) if run else FREE_SECONDS


def spend(store: str, seconds: float) -> None:
    """Note the seconds that a database took beside its own."""
    if run := _here():
        run.seconds[store] = max(0.0, free_seconds(store) - seconds)


def refuse(place: str, reason: str) -> None:
    """See that a database is not opened again."""
    if run := _here():
        run.refused[place] = reason


def refused(place: str) -> str | None:
    """Say why a database is not opened again; None when it may be."""
    run = _here()
    return run.refused.get(place) if run else None


def _here() -> _CommandRun | None:
    """Give what is known of this process's command; None where nothing may wait."""
    run = _RUNS[-1] if _RUNS else None
    return run if run and run.process == os.getpid() else None
