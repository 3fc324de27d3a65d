"""Stores that are nothing but many: files, holes, queues, whatever a stranger can count up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

SEGMENT: Final = 4096
QUEUES_A_TOPIC: Final = 8


def empty_logs(root: Path, count: int) -> None:
    """Make commitlog files of no byte, each after a hole."""
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{number * SEGMENT:020}").touch()


def holes(root: Path, count: int) -> None:
    """Make commitlog files of zeros, each after a hole as long as it."""
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{2 * number * SEGMENT:020}").write_bytes(bytes(SEGMENT))


def queues(root: Path, count: int) -> None:
    """Make queues with one empty file each, and a directory that is no queue for each."""
    empty_logs(root, 1)
    for number in range(count):
        topic = root / f"consumequeue/topic-{number // QUEUES_A_TOPIC}"
        queue = topic / str(number % QUEUES_A_TOPIC)
        queue.mkdir(parents=True)
        (queue / f"{0:020}").touch()
        (topic / f"no-queue-{number}").mkdir()


MANY: Final[dict[str, Callable[[Path, int], None]]] = {
    "empty logs": empty_logs,
    "holes": holes,
    "queues": queues,
}
