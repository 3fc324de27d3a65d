"""Remove undo directories that have served, or that a killed run had not prepared yet."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rmqtool.errors import PlanMismatch
from rmqtool.writing.directory import Spot
from rmqtool.writing.journal import JOURNAL_NAME, head_lines
from rmqtool.writing.staging import write_errors
from rmqtool.writing.system_calls import rename_new
from rmqtool.writing.undo_directory import (
    DISCARD_PREFIX,
    UNDO_PREFIX,
    discarded,
    is_believed,
)
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from rmqtool.writing.directory import Directory
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.staging import DiskSync


def discard(lock: StoreLock, name: str, sync: DiskSync) -> None:
    """Remove an undo directory that is no longer needed, under another name first."""
    root, target = lock.directory, discarded(name)
    with write_errors(root.shown(name)):
        if root.facts(target) is not None:
            _remove_discarded(lock, target, sync)
        rename_new(Spot(root, name), Spot(root, target))
        sync.handle(root.handle)
    _remove_discarded(lock, target, sync)


def remove_leftovers(lock: StoreLock, sync: DiskSync) -> None:
    """Remove what killed runs had not prepared yet, or were about to remove."""
    with write_errors(lock.root):
        found = [name for name in lock.directory.names() if name.startswith(DISCARD_PREFIX)]
        for name in found:
            facts = lock.directory.facts(name)
            if facts is not None and stat.S_ISDIR(facts.st_mode):
                _remove_discarded(lock, name, sync)


def _remove_discarded(lock: StoreLock, name: str, sync: DiskSync) -> None:
    """Remove a discarded directory, its journal last, and put the root's mtime back."""
    root = lock.directory
    lines: tuple[dict[str, Any], ...] = ()
    with write_errors(root.shown(name)):
        with root.enter(name) as undo:
            is_ours = is_believed(os.fstat(undo.handle))
            with suppress(PlanMismatch):  # killed, or damaged, before there was anything to lose
                lines = head_lines(undo) if is_ours else ()
            for inside in undo.names():
                if inside != JOURNAL_NAME:
                    undo.remove(inside)
            _remove_outside(lock, undo, name, lines)
            with suppress(FileNotFoundError):
                undo.remove(JOURNAL_NAME)
        os.rmdir(name, dir_fd=root.handle)
        sync.handle(root.handle)
        head = lines[0] if lines else {}
        if head and head["lock"] == as_json(lock.found):  # nobody else changed it meanwhile
            root.set_mtime(head["root_mtime_ns"])


def _remove_outside(
    lock: StoreLock, undo: Directory, name: str, lines: tuple[dict[str, Any], ...]
) -> None:
    """Remove what a discarded directory has elsewhere, if it is the one that was made here."""
    outside = [line["outside"] for line in lines if "outside" in line]
    journal = undo.facts(JOURNAL_NAME)
    if not outside or journal is None or journal.st_ino != lines[0]["inode"]:
        return
    undo.path = lock.directory.shown(name.replace(DISCARD_PREFIX, UNDO_PREFIX, 1))
    work = Workplace(lock.directory, undo, lock.elsewhere)
    for path in outside:
        with work.outside(path) as spot:
            if spot.facts() is not None:
                spot.directory.remove(spot.name)


def as_json(found: tuple[int, int] | None) -> list[int] | None:
    """Give the state of the lock file as it is read back from a journal."""
    return None if found is None else list(found)
