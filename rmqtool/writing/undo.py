"""Finish, or take back, edits of a store in place.

`resume` completes whatever a kill left half done; `undo` gives back the bytes, the lengths and the
mtimes from before an edit, and may be killed and resumed itself. Both need the store's lock. What a
broker, or anybody else, changed since is never overwritten: then both refuse.
"""

from __future__ import annotations

import enum
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import PlanMismatch, RepairError, Trouble, WriteFailed
from rmqtool.store.names import DISCARD_PREFIX, UNDO_PREFIX
from rmqtool.writing.directory import Spot
from rmqtool.writing.file_edit import NEW, OLD, FileEdit
from rmqtool.writing.journal import JOURNAL_NAME, Journal, State, read_head, state_line
from rmqtool.writing.roll_forward import (
    changes_of,
    checkpoint_digest,
    finish,
    restore_mtimes,
    settle,
    unfinished,
)
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.swap import Swap
from rmqtool.writing.system_calls import rename_new
from rmqtool.writing.undo_directory import (
    UndoDirectory,
    discarded,
    is_believed,
    refuse_others,
    undo_directories,
)
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.roll_forward import Change, Sides


class Outcome(enum.StrEnum):
    """What `resume` did about an interrupted run."""

    REMOVED = "removed"  # it had changed nothing yet
    FINISHED = "finished"
    UNDONE = "undone"


class Resumed(NamedTuple):
    """One interrupted run that `resume` dealt with."""

    name: str  # of its undo directory
    command: str  # what had been run
    outcome: Outcome  # what became of it

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        what = f"an earlier {self.command} was interrupted"
        if self.outcome is Outcome.REMOVED:
            return f"{what} before it changed anything; {self.name} is removed"
        if self.outcome is Outcome.UNDONE:
            return f"{what} while it was taken back; now it is taken back ({self.name})"
        return f"{what}; it is finished now ({self.name})"


def resume(lock: StoreLock) -> list[Resumed]:
    """Finish what killed runs left: forwards what was committed, backwards what was being undone.

    To be called, with the lock held, before a store is read in order to change it.

    Raises:
        PlanMismatch: a broker ran since, or a file is not as either side left it.
        WriteFailed: the system refused; the next call goes on.
    """
    sync = DiskSync()
    remove_leftovers(lock, sync)
    resumed: list[Resumed] = []
    for edit in undo_directories(lock.directory):
        outcome = _resume_one(lock, edit, sync)
        if outcome is not None:
            resumed.append(Resumed(edit.name, edit.command, outcome))
    return resumed


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
    edits = undo_directories(lock.directory)
    chosen = [edit for edit in edits if which in {None, edit.name}]
    if not chosen:
        reason = "there is no edit to take back" if which is None else f"there is no edit {which}"
        raise RepairError(path=str(lock.root), reason=reason, trouble=Trouble.NO_EDIT)
    if chosen[-1] is not edits[-1]:
        raise PlanMismatch(path=str(lock.root), reason=f"{edits[-1].name} has to be undone first")
    edit = chosen[-1]
    refuse_others(lock.directory, edit)
    edit = completed(lock, edit, sync)
    if edit.state is State.PREPARED:
        discard(lock, edit.name, sync)
    else:
        _undo(lock, edit, sync)
    return edit


def _resume_one(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> Outcome | None:
    """Bring one edit to its end; None when it was there already."""
    if edit.state is State.DONE and not edit.is_torn:
        return None
    refuse_others(lock.directory, edit)
    edit = completed(lock, edit, sync)
    if edit.state is State.DONE:
        return None
    if edit.state is State.PREPARED:
        discard(lock, edit.name, sync)
        return Outcome.REMOVED
    if edit.state is State.UNDOING:
        _undo(lock, edit, sync)
        return Outcome.UNDONE
    _refuse_after_broker(lock, edit, edit.last(edit.state))
    with _workplace(lock, edit) as work:
        changes = changes_of(work.undo)
        sides = _sides(work, edit, changes)
        with unfinished(work.undo, "an interrupted edit is finished in part"):
            settle(work, changes, sides, NEW, sync, trusted=False)
            finish(lock, work, sync)
    return Outcome.FINISHED


def completed(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> UndoDirectory:
    """Write a torn line again where the store shows that it took effect; give the edit as it is.

    A line is on the disk before what it announces begins. So one that a kill or a power cut tore
    did not take effect, and what the edit was before it still holds. Where the store shows that it
    did, the disk has lost the line since. Journals of format 1 do not say which side is where.

    Raises:
        PlanMismatch: the journal is damaged.
        WriteFailed: the system refused.
    """
    wanted = {State.PREPARED: State.COMMITTED, State.DONE: State.UNDOING}.get(edit.state)
    if not edit.is_torn or wanted is None or not edit.is_from_here:
        return edit
    with _workplace(lock, edit) as work:
        side = NEW if wanted is State.COMMITTED else OLD
        inodes = edit.sides.get("inodes", {})
        if not any(_is_at(work, change, inodes, side) for change in changes_of(work.undo)):
            return edit
        Journal(work.undo, sync).append(state_line(wanted, lock=edit.lines[0]["lock"]))
        lines, is_torn = read_head(work.undo)
    return edit._replace(lines=lines, is_torn=is_torn)


def _is_at(work: Workplace, change: Change, inodes: dict[str, list[int | None]], side: int) -> bool:
    """Whether anything of a change is certainly on one side."""
    if isinstance(change, FileEdit):
        return side in change.sides(work)
    before = inodes.get(str(change.number))
    return before is not None and change.inodes(work) == (before[::-1] if side else before)


def _undo(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> None:
    """Take a committed edit back, however far it, or its undoing, is."""
    _refuse_after_broker(lock, edit, edit.last(edit.state))
    with _workplace(lock, edit) as work:
        changes = changes_of(work.undo)
        if edit.state is State.DONE:
            _refuse_changed(lock, work, edit, changes)
        sides = _sides(work, edit, changes)
        if edit.state is not State.UNDOING:
            Journal(work.undo, sync).append(state_line(State.UNDOING, lock=lock.as_left))
        with unfinished(work.undo, "the edit is taken back in part"):
            settle(work, changes, sides, OLD, sync, trusted=edit.state is State.DONE)
            restore_mtimes(work, edit.sides["directories"])
        try:
            discard(lock, edit.name, sync)
        except RepairError as error:
            reason = f"{error}; the edit is taken back: the next repair removes what it had kept"
            raise WriteFailed(path=edit.name, reason=reason, trouble=Trouble.EXPLAINED) from error


def _sides(work: Workplace, edit: UndoDirectory, changes: Sequence[Change]) -> Sides:
    """Give the inodes of both sides of each swap, whatever state the edit is in."""
    swaps = [change for change in changes if isinstance(change, Swap)]
    if edit.state is State.DONE:
        return {str(swap.number): swap.inodes(work)[::-1] for swap in swaps}
    if edit.is_from_here:
        return dict(edit.sides["inodes"])
    prints = edit.sides["fingerprints"]
    return {
        str(swap.number): swap.sides(work, prints.get(str(swap.number), [None, None]))
        for swap in swaps
    }


@contextmanager
def _workplace(lock: StoreLock, edit: UndoDirectory) -> Iterator[Workplace]:
    root = lock.directory
    with write_errors(root.shown(edit.name)), root.enter(edit.name) as undo:
        yield Workplace(root, undo, lock.elsewhere, is_confined=not edit.is_from_here)


def _refuse_after_broker(lock: StoreLock, edit: UndoDirectory, line: dict[str, Any]) -> None:
    if line["lock"] != as_json(lock.as_left):
        reason = f"a broker ran on it since; the replaced files are kept in {edit.name}"
        raise PlanMismatch(path=str(lock.root), reason=reason)


def _refuse_changed(
    lock: StoreLock, work: Workplace, edit: UndoDirectory, changes: Sequence[Change]
) -> None:
    """Refuse a store that is not as the edit left it."""
    prints = edit.sides["fingerprints"]
    if edit.last(State.DONE)["checkpoint"] != checkpoint_digest(lock.directory):
        raise PlanMismatch(path=str(lock.root / "checkpoint"), reason="changed since")
    for change in changes:
        if isinstance(change, FileEdit):
            problem = change.problem(work)
        else:
            is_same = prints.get(str(change.number)) == change.fingerprints(work)[::-1]
            problem = None if is_same else "it, or the file that it replaced, was changed since"
        if problem is not None:
            raise PlanMismatch(path=f"{lock.root}/{change.path}", reason=problem)


# Remove undo directories that have served, or that a killed run had not prepared yet.


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
    """Remove what killed runs had not prepared yet, or were about to remove.

    Raises:
        WriteFailed: the system refused, or cannot promise what an edit or an undo needs.
    """
    with write_errors(lock.root):
        sync.handle(lock.directory.handle)
        leftovers = [name for name in lock.directory.names() if name.startswith(DISCARD_PREFIX)]
        for name in leftovers:
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
                lines = read_head(undo).lines if is_ours else ()
            for inside in undo.names():
                if inside != JOURNAL_NAME:
                    undo.remove(inside)
            _remove_outside(lock, undo, name, lines)
            with suppress(FileNotFoundError):
                undo.remove(JOURNAL_NAME)
        os.rmdir(name, dir_fd=root.handle)
        sync.handle(root.handle)
        head = lines[0] if lines else {}
        if head and head["lock"] == as_json(lock.as_left):  # nobody else changed it meanwhile
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


def as_json(pair: tuple[int, int] | None) -> list[int] | None:
    """Give the state of the lock file as it is read back from a journal."""
    return None if pair is None else list(pair)
