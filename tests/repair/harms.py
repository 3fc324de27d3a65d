"""What is done to a store by `tests.repair.lossy_faults`, each at places that are given."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests import inflict, plain_store

Inflict = Callable[[Path], None]


def zeroed(path: str, begin: int, end: int | None = None) -> Inflict:
    """Zero a stretch of a file, or all from a place on."""

    def harm(root: Path) -> None:
        file = root / path
        inflict.write_at(file, begin, bytes((end or file.stat().st_size) - begin))

    return harm


def written_again(path: str, source: int, end: int, target: int) -> Inflict:
    """Write a stretch of a file to another place of it, as a misdirected write does."""

    def harm(root: Path) -> None:
        raw = inflict.read_at(root / path, source, end - source)
        inflict.write_at(root / path, target, raw)

    return harm


def resized(path: str, size: int) -> Inflict:
    """Cut a file, or lengthen it by zeros."""
    return lambda root: inflict.resize(root / path, size)


def gone(*paths: str) -> Inflict:
    """Delete files."""

    def harm(root: Path) -> None:
        for path in paths:
            (root / path).unlink(missing_ok=True)

    return harm


def queue_gone(path: str) -> Inflict:
    """Delete a directory."""
    return lambda root: shutil.rmtree(root / path)


def copied(source: str, target: str) -> Inflict:
    """Copy a file over another."""

    def harm(root: Path) -> None:
        shutil.copy2(root / source, root / target)

    return harm


def exchanged(one: str, other: str) -> Inflict:
    """Exchange the names of two files."""

    def harm(root: Path) -> None:
        aside = root / "aside"
        (root / one).rename(aside)
        (root / other).rename(root / one)
        aside.rename(root / other)

    return harm


def flipped(physical_offset: int, field: str, byte: int = -1, bit: int = 0) -> Inflict:
    """Flip a bit of a field of the record at an offset."""
    return inflict.flip_field(
        field,
        byte=byte,
        bit=bit,
        where=0,
        wanted=lambda record: record.physical_offset == physical_offset,
    )


def flipped_in_queue(queue: tuple[str, int], which: int, field: str, bit: int) -> Inflict:
    """Flip a bit of a field of one of the records of a queue, counted from either end."""

    def harm(root: Path) -> None:
        own = [
            record.physical_offset
            for record in plain_store.records(root)
            if (record.topic, record.integer("queue_id")) == queue
        ]
        flipped(own[which], field, bit=bit)(root)

    return harm


def index_zeroed(root: Path) -> None:
    """Zero half of the entries of the first index file."""
    path = plain_store.index_files(root)[0].path
    size = path.stat().st_size
    inflict.write_at(path, 2040, bytes((size - 2040) // 2))
