"""Finish, or take back, edits of a store in place.

`resume` completes whatever a kill left half done; `undo` gives back the bytes, the lengths and the
mtimes from before an edit, and may be killed and resumed itself. Both need the store's lock. What a
broker, or anybody else, changed since is never overwritten: then both refuse.
"""

from __future__ import annotations

import enum
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.writing.file_edit import NEW, OLD, ByteRange, FileEdit, Saved
from rmqtool.writing.journal import (
    DISCARD_PREFIX,
    JOURNAL_NAME,
    UNDO_PREFIX,
    Journal,
    State,
    UndoDirectory,
    change_lines,
    discard_path,
    head_lines,
    is_directory,
    state_line,
    undo_directories,
)
from rmqtool.writing.staging import DiskSync, remove, write_errors
from rmqtool.writing.swap import Swap
from rmqtool.writing.system_calls import rename_new
from rmqtool.writing.workplace import Workplace, inode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.writing.lock import StoreLock

    Change = Swap | FileEdit
    Sides = dict[str, list[int | None]]  # number of a swap: inodes [old, new]

_CHECKPOINT_BYTES: Final = 4096
_FEW: Final = 64  # more swaps than this are brought to the disk together


class Outcome(enum.StrEnum):
    """What `resume` did about an interrupted run."""

    REMOVED = "removed"  # it had changed nothing yet
    FINISHED = "finished"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Resumed:
    """One interrupted run that `resume` dealt with.

    Attributes:
        name: of its undo directory.
        command: what had been run.
        outcome: what became of it.
    """

    name: str
    command: str
    outcome: Outcome


def resume(lock: StoreLock) -> list[Resumed]:
    """Finish what killed runs left: forwards what was committed, backwards what was being undone.

    To be called, with the lock held, before a store is read in order to change it.

    Raises:
        PlanMismatch: a broker ran since, or a file is not as either side left it.
        WriteFailed: the system refused; the next call goes on.
    """
    sync = DiskSync()
    remove_leftovers(lock, sync)
    found: list[Resumed] = []
    for edit in undo_directories(lock.root):
        outcome = _resume_one(lock, edit, sync)
        if outcome is not None:
            found.append(Resumed(edit.name, edit.command, outcome))
    return found


def undo(lock: StoreLock, which: str | None = None) -> UndoDirectory:
    """Take an edit back: bytes, lengths, mtimes and names are as before it.

    Args:
        lock: of the store; held.
        which: name of its undo directory; None takes the latest.

    Returns:
        The edit, as it was.

    Raises:
        RepairError: there is no such edit.
        PlanMismatch: the store was changed since, or a later edit has to be taken back first.
        WriteFailed: the system refused; the next `undo` or `resume` goes on.
    """
    sync = DiskSync()
    remove_leftovers(lock, sync)
    edits = undo_directories(lock.root)
    chosen = [edit for edit in edits if which in {None, edit.name}]
    if not chosen:
        reason = "there is no edit to take back" if which is None else f"there is no edit {which}"
        raise RepairError(path=str(lock.root), reason=reason)
    if chosen[-1] is not edits[-1]:
        raise PlanMismatch(path=str(lock.root), reason=f"{edits[-1].name} has to be undone first")
    edit = chosen[-1]
    if edit.state is State.PREPARED:
        discard(lock, edit.path, sync)
    else:
        _undo(lock, edit, sync)
    return edit


def settle(
    work: Workplace,
    changes: Sequence[Change],
    sides: Sides,
    side: int,
    sync: DiskSync,
    *,
    trusted: bool,
) -> None:
    """Bring one side of all changes into the store, in order; the old side in reverse order.

    Args:
        work: where.
        changes: what.
        sides: inodes of both sides of each swap.
        side: `OLD` or `NEW`.
        sync: counts the time that the disk takes.
        trusted: whether nobody can have changed the files meanwhile.
    """
    is_few = sum(isinstance(change, Swap) for change in changes) <= _FEW
    touched: set[Path] = set()
    for change in changes if side == NEW else reversed(changes):
        if isinstance(change, FileEdit):
            change.settle(work, side, sync, trusted=trusted)
            continue
        pair = sides.get(str(change.number), [])
        if len(pair) != len((OLD, NEW)):
            raise PlanMismatch(path=str(work.undo), reason=f"change {change.number} is incomplete")
        change.settle(work, pair[side], pair[1 - side])
        touched |= change.directories(work)
        if is_few:
            _sync_directories(work, touched, sync)
            touched = set()
    _sync_directories(work, touched, sync)


def finish(lock: StoreLock, work: Workplace, sync: DiskSync) -> None:
    """Write down that all is done, and what a broker would change first."""
    facts = {"lock": lock.found, "checkpoint": _checkpoint_digest(lock.root)}
    Journal(work.undo, sync).append(state_line(State.DONE, **facts))


def discard(lock: StoreLock, path: Path, sync: DiskSync) -> None:
    """Remove an undo directory that is no longer needed, under another name first."""
    target = discard_path(path)
    if inode(target) is not None:
        _remove_discarded(lock, target, sync)
    with write_errors(path):
        rename_new(path, target)
        sync.path(lock.root)
    _remove_discarded(lock, target, sync)


def remove_leftovers(lock: StoreLock, sync: DiskSync) -> None:
    """Remove what killed runs had not prepared yet, or were about to remove."""
    with write_errors(lock.root):
        paths = sorted(lock.root.iterdir())
    for path in paths:
        if path.name.startswith(DISCARD_PREFIX) and is_directory(path):
            _remove_discarded(lock, path, sync)


def changes_of(path: Path) -> list[Change]:
    """Read the changes of an undo directory back, in order.

    Raises:
        PlanMismatch: a line is not what this version writes.
    """
    heads: dict[int, dict[str, Any]] = {}
    ranges: dict[int, list[ByteRange]] = {}
    try:
        for line in change_lines(path):
            match line.get("operation"):
                case "swap" | "edit":
                    heads[line["number"]] = line
                case "bytes":
                    old, new = Saved(**line["old"]), Saved(**line["new"])
                    part = ByteRange(line["position"], old, new)
                    ranges.setdefault(line["number"], []).append(part)
        return [_change(line, tuple(ranges.get(number, ()))) for number, line in heads.items()]
    except (LookupError, TypeError, ValueError) as error:
        raise PlanMismatch(
            path=str(path), reason=f"journal cannot be understood: {error}"
        ) from error


def _change(line: dict[str, Any], ranges: tuple[ByteRange, ...]) -> Change:
    if line["operation"] == "swap":
        names = ("number", "path", "aside", "what", "reason")
        return Swap(*(line[name] for name in names))
    (old_length, new_length), (old_mtime, new_mtime) = line["length"], line["mtime_ns"]
    lengths, mtimes = (old_length, new_length), (old_mtime, new_mtime)
    return FileEdit(line["number"], line["path"], lengths, mtimes, ranges, line["reason"])


def _resume_one(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> Outcome | None:
    """Bring one edit to its end; None when it was there already."""
    if edit.state is State.DONE:
        return None
    if edit.state is State.PREPARED:
        discard(lock, edit.path, sync)
        return Outcome.REMOVED
    if edit.state is State.UNDOING:
        _undo(lock, edit, sync)
        return Outcome.UNDONE
    _refuse_after_broker(lock, edit, edit.last(edit.state))
    work, changes = _workplace(lock, edit), changes_of(edit.path)
    settle(work, changes, _sides(work, edit, changes), NEW, sync, trusted=False)
    finish(lock, work, sync)
    return Outcome.FINISHED


def _undo(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> None:
    """Take a committed edit back, however far it, or its undoing, is."""
    work, changes = _workplace(lock, edit), changes_of(edit.path)
    _refuse_after_broker(lock, edit, edit.last(edit.state))
    if edit.state is State.DONE:
        _refuse_changed(lock, work, edit, changes)
    sides = _sides(work, edit, changes)
    if edit.state is not State.UNDOING:
        Journal(edit.path, sync).append(state_line(State.UNDOING, lock=lock.found))
    settle(work, changes, sides, OLD, sync, trusted=edit.state is State.DONE)
    restore_mtimes(work, edit.last(State.COMMITTED)["directories"])
    discard(lock, edit.path, sync)


def _sides(work: Workplace, edit: UndoDirectory, changes: Sequence[Change]) -> Sides:
    """Give the inodes of both sides of each swap, whatever state the edit is in."""
    committed = edit.last(State.COMMITTED)
    swaps = [change for change in changes if isinstance(change, Swap)]
    if edit.state is State.DONE:
        return {str(swap.number): swap.inodes(work)[::-1] for swap in swaps}
    if edit.is_from_here:
        return dict(committed["inodes"])
    prints = committed["fingerprints"]
    return {
        str(swap.number): swap.sides(work, prints.get(str(swap.number), [None, None]))
        for swap in swaps
    }


def restore_mtimes(work: Workplace, mtimes: dict[str, int]) -> None:
    """Put back the mtimes (ns) of the directories that hold some paths of the store."""
    for path, mtime_ns in mtimes.items():
        restore_mtime(work.target(path).parent, mtime_ns)


def restore_mtime(path: Path, mtime_ns: int) -> None:
    """Put the mtime (ns) of a directory back."""
    with write_errors(path):
        os.utime(path, ns=(path.stat().st_atime_ns, mtime_ns))


def _workplace(lock: StoreLock, edit: UndoDirectory) -> Workplace:
    return Workplace(lock.root, edit.path, is_confined=not edit.is_from_here)


def _refuse_after_broker(lock: StoreLock, edit: UndoDirectory, line: dict[str, Any]) -> None:
    if line["lock"] != _as_json(lock.found):
        reason = f"a broker ran on it since; what was replaced is kept in {edit.name}"
        raise PlanMismatch(path=str(lock.root), reason=reason)


def _refuse_changed(
    lock: StoreLock, work: Workplace, edit: UndoDirectory, changes: Sequence[Change]
) -> None:
    """Refuse a store that is not as the edit left it."""
    prints = edit.last(State.COMMITTED)["fingerprints"]
    if edit.last(State.DONE)["checkpoint"] != _checkpoint_digest(lock.root):
        raise PlanMismatch(path=str(lock.root / "checkpoint"), reason="changed since")
    for change in changes:
        if isinstance(change, FileEdit):
            problem = change.problem(work)
        else:
            is_same = prints.get(str(change.number)) == change.fingerprints(work)[::-1]
            problem = None if is_same else "it, or what it replaced, was changed since"
        if problem is not None:
            raise PlanMismatch(path=str(work.target(change.path)), reason=problem)


def _remove_discarded(lock: StoreLock, path: Path, sync: DiskSync) -> None:
    """Remove a discarded directory, its journal last, and put the root's mtime back."""
    lines: tuple[dict[str, Any], ...] = ()
    with suppress(PlanMismatch):  # killed, or damaged, before there was anything to lose
        lines = head_lines(path)
    with write_errors(path):
        for outside in _outside(path, lines):
            remove(outside)
        for inside in sorted(path.iterdir()):
            if inside.name != JOURNAL_NAME:
                remove(inside)
        (path / JOURNAL_NAME).unlink(missing_ok=True)
        path.rmdir()
        sync.path(lock.root)
    head = lines[0] if lines else {}
    if head and head["lock"] == _as_json(lock.found):  # nobody else changed the root meanwhile
        restore_mtime(lock.root, head["root_mtime_ns"])


def _outside(path: Path, lines: tuple[dict[str, Any], ...]) -> list[Path]:
    """Give what a discarded directory has elsewhere, if it is the one that was made here."""
    if not lines or lines[0]["inode"] != inode(path / JOURNAL_NAME):
        return []
    found = [Path(line["outside"]) for line in lines if "outside" in line]
    return [path for path in found if path.name.startswith(UNDO_PREFIX) and is_directory(path)]


def _sync_directories(work: Workplace, paths: set[Path], sync: DiskSync) -> None:
    with write_errors(work.root):
        sync.all(sorted(paths))


def _checkpoint_digest(root: Path) -> str | None:
    """Digest the checkpoint, which a broker writes while it runs; None when there is none."""
    path = root / "checkpoint"
    with write_errors(path):
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_CHECKPOINT_BYTES)).hexdigest()


def _as_json(found: tuple[int, int] | None) -> list[int] | None:
    """Give the state of the lock file as it is read back from a journal."""
    return None if found is None else list(found)
