"""Stores on which every engine must give the same: fixtures, sound and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tests.damage import DAMAGES, NotApplicable
from tests.stores import fixture_names, fixture_store

Variant: TypeAlias = tuple[str, str]
SAMPLE: tuple[Variant, ...] = (
    ("rocketmq-5.3.3-traffic", ""),
    ("rocketmq-5.3.3-traffic", "zero-8-sectors-middle"),
    ("rocketmq-4.9.3-dledger", ""),
    ("rocketmq-5.3.3-batch-queue", "garbage-middle"),
)
MOST_TASKS = 64
DAMAGED = ("", "zero-8-sectors-middle", "garbage-late", "flip-body-early", "negative-size")


def variants(*, is_all: bool) -> list[Variant]:
    """Give a fixture and a damage each; no damage is an empty text."""
    if not is_all:
        return list(SAMPLE)
    return [(name, damage) for name in fixture_names() for damage in DAMAGED]


def name_of(variant: Variant) -> str:
    """Give a name for people and directories."""
    return "-".join(filter(None, variant))


def variant_store(variant: Variant, into: Path) -> Path | None:
    """Make the store in a directory; None where the fixture has nothing to damage in this way."""
    name, damage = variant
    store = fixture_store(name, into)
    if damage:
        try:
            DAMAGES[damage].inflict(store)
        except NotApplicable:
            return None
    return store


def task_bytes(store: Path, part_bytes: int) -> int:
    """Give the length of tasks that lets a small log be many of them, and a large one not too many.

    A task is a part, then; of a log of 1 GiB, nearly all of it hole, it is many small ones.
    """
    log = store / "commitlog"
    size = sum(path.stat().st_size for path in log.glob("*")) if log.is_dir() else 0
    return max(part_bytes, size // MOST_TASKS)
