"""Finish, or take back, edits of a store in place.

`resume` completes whatever a kill left half done; `undo` gives back the bytes, the lengths and the
mtimes from before an edit, and may be killed and resumed itself. Both need the store's lock. What a
broker, or anybody else, changed since is never overwritten: then both refuse.
"""

from __future__ import annotations

import enum
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import PlanMismatch, RepairError, Trouble, WriteFailed
from rmqtool.writing.discard import as_json, discard, remove_leftovers
from rmqtool.writing.file_edit import NEW, OLD, FileEdit
from rmqtool.writing.journal import Journal, State, state_line
from rmqtool.writing.settling import (
    changes_of,
    checkpoint_digest,
    finish,
    restore_mtimes,
    settle,
    unfinished,
)
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.swap import Swap
from rmqtool.writing.undo_directory import UndoDirectory, refuse_others, undo_directories
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.settling import Change, Sides


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
    found: list[Resumed] = []
    for edit in undo_directories(lock.directory):
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
    edits = undo_directories(lock.directory)
    chosen = [edit for edit in edits if which in {None, edit.name}]
    if not chosen:
        reason = "there is no edit to take back" if which is None else f"there is no edit {which}"
        raise RepairError(path=str(lock.root), reason=reason, trouble=Trouble.NO_EDIT)
    if chosen[-1] is not edits[-1]:
        raise PlanMismatch(path=str(lock.root), reason=f"{edits[-1].name} has to be undone first")
    edit = chosen[-1]
    refuse_others(lock.directory, edit)
    if edit.state is State.PREPARED:
        discard(lock, edit.name, sync)
    else:
        _undo(lock, edit, sync)
    return edit


def _resume_one(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> Outcome | None:
    """Bring one edit to its end; None when it was there already."""
    if edit.state is State.DONE:
        return None
    refuse_others(lock.directory, edit)
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
        with unfinished(work.undo, "what was interrupted is finished in part"):
            settle(work, changes, sides, NEW, sync, trusted=False)
            finish(lock, work, sync)
    return Outcome.FINISHED


def _undo(lock: StoreLock, edit: UndoDirectory, sync: DiskSync) -> None:
    """Take a committed edit back, however far it, or its undoing, is."""
    _refuse_after_broker(lock, edit, edit.last(edit.state))
    with _workplace(lock, edit) as work:
        changes = changes_of(work.undo)
        if edit.state is State.DONE:
            _refuse_changed(lock, work, edit, changes)
        sides = _sides(work, edit, changes)
        if edit.state is not State.UNDOING:
            Journal(work.undo, sync).append(state_line(State.UNDOING, lock=lock.found))
        with unfinished(work.undo, "the edit is taken back in part"):
            settle(work, changes, sides, OLD, sync, trusted=edit.state is State.DONE)
            restore_mtimes(work, edit.last(State.COMMITTED)["directories"])
        try:
            discard(lock, edit.name, sync)
        except RepairError as error:
            reason = f"{error}; the edit is taken back: the next repair removes what it had kept"
            raise WriteFailed(path=edit.name, reason=reason, trouble=Trouble.TOLD) from error


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


@contextmanager
def _workplace(lock: StoreLock, edit: UndoDirectory) -> Iterator[Workplace]:
    root = lock.directory
    with write_errors(root.shown(edit.name)), root.enter(edit.name) as undo:
        yield Workplace(root, undo, lock.elsewhere, is_confined=not edit.is_from_here)


def _refuse_after_broker(lock: StoreLock, edit: UndoDirectory, line: dict[str, Any]) -> None:
    if line["lock"] != as_json(lock.found):
        reason = f"a broker ran on it since; what was replaced is kept in {edit.name}"
        raise PlanMismatch(path=str(lock.root), reason=reason)


def _refuse_changed(
    lock: StoreLock, work: Workplace, edit: UndoDirectory, changes: Sequence[Change]
) -> None:
    """Refuse a store that is not as the edit left it."""
    prints = edit.last(State.COMMITTED)["fingerprints"]
    if edit.last(State.DONE)["checkpoint"] != checkpoint_digest(lock.directory):
        raise PlanMismatch(path=str(lock.root / "checkpoint"), reason="changed since")
    for change in changes:
        if isinstance(change, FileEdit):
            problem = change.problem(work)
        else:
            is_same = prints.get(str(change.number)) == change.fingerprints(work)[::-1]
            problem = None if is_same else "it, or what it replaced, was changed since"
        if problem is not None:
            raise PlanMismatch(path=f"{lock.root}/{change.path}", reason=problem)
