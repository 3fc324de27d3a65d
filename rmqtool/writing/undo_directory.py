"""The undo directories of a store: which edits there are, how far, and whom to believe.

A journal is believed if its directory belongs to whoever runs the tool, or to root, and nobody else
may write into it: the owner of a store may put anything else there.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.errors import PlanMismatch, RepairError, Trouble
from rmqtool.store.names import DISCARD_PREFIX, UNDO_PREFIX
from rmqtool.writing.directory import OTHERS_WRITE
from rmqtool.writing.journal import JOURNAL_NAME, State, read_head
from rmqtool.writing.staging import write_errors
from rmqtool.writing.workplace import ASIDE

if TYPE_CHECKING:
    from rmqtool.writing.directory import Directory

_NO_JOURNAL: Final = "has no journal, or half of one: move it away if nothing in it is needed"
_LAST_LINE_BYTES: Final = 4096


class UndoDirectory(NamedTuple):
    """An edit in place, as its journal tells."""

    name: str  # what `undo` is told to take this edit back
    # of its journal, in order, but for those of the changes: there may be 100,000
    lines: tuple[dict[str, Any], ...]
    inode: int  # of the journal
    owner: int  # id of the user who made it
    is_torn: bool = False  # whether a line follows that is torn, or was lost

    @property
    def state(self) -> State:
        """How far the edit is."""
        return State([line["state"] for line in self.lines if "state" in line][-1])

    @property
    def command(self) -> str:
        """What was run."""
        return str(self.lines[0]["command"])

    @property
    def is_from_here(self) -> bool:
        """Whether the journal is the file that was written, and no copy of it."""
        return self.inode == int(self.lines[0]["inode"])

    @property
    def time(self) -> str:
        """When it was begun, ISO 8601 UTC."""
        return str(self.lines[0]["time"])

    @property
    def sides(self) -> dict[str, Any]:
        """The line with inodes and fingerprints of both sides."""
        return next(line for line in self.lines if "inodes" in line)

    def last(self, state: State) -> dict[str, Any]:
        """Give the last line of a state; empty when it was not reached."""
        return next((line for line in reversed(self.lines) if line.get("state") == state), {})


def undo_directories(root: Directory) -> list[UndoDirectory]:
    """List the edits of a store that can be taken back or have to be finished, oldest first.

    Those of other users are left out, if nobody has to finish them.

    Raises:
        WriteFailed: the store cannot be listed.
        PlanMismatch: a journal is not one that this version can read, or is not believed and does
            not end as one of an edit that is done.
    """
    directories = [_read(root, name) for name in undo_names(root)]
    return [edit for edit in directories if edit is not None]


def undo_names(root: Directory) -> list[str]:
    """List the names of undo directories, whosever they are, oldest first.

    Raises:
        WriteFailed: the store cannot be listed.
    """
    with write_errors(root.path):
        return [name for name in root.names() if name.startswith(UNDO_PREFIX)]


def refuse_others(root: Directory, edit: UndoDirectory) -> None:
    """Refuse an edit that only its maker can finish or take back.

    Raises:
        PlanMismatch: somebody else made it.
    """
    if edit.owner != os.geteuid():
        reason = f"user {edit.owner} made it: run rmqtool as that user"
        raise PlanMismatch(path=root.shown(edit.name), reason=reason, trouble=Trouble.EXPLAINED)


def _read(root: Directory, name: str) -> UndoDirectory | None:
    """Read the journal of an undo directory; None where it is not believed, and says it is done."""
    path = root.shown(name)
    with write_errors(path):
        facts = root.facts(name)
        if facts is None or not stat.S_ISDIR(facts.st_mode):
            raise PlanMismatch(path=path, reason=_NO_JOURNAL, trouble=Trouble.EXPLAINED)
        directory = root.enter(name)
    with write_errors(path), directory as undo:
        facts = os.fstat(undo.handle)
        if not is_believed(facts):
            if _says_done(undo):
                return None
            raise PlanMismatch(path=path, reason=_not_believed(facts), trouble=Trouble.EXPLAINED)
        aside, journal = undo.facts(ASIDE), undo.facts(JOURNAL_NAME)
        if aside is None or not stat.S_ISDIR(aside.st_mode) or journal is None:
            raise PlanMismatch(path=path, reason=_NO_JOURNAL, trouble=Trouble.EXPLAINED)
        lines, is_torn = read_head(undo)
    states = [line["state"] for line in lines if "state" in line]
    if not states or (states != [State.PREPARED] and State.COMMITTED not in states):
        raise PlanMismatch(path=path, reason=_NO_JOURNAL, trouble=Trouble.EXPLAINED)
    return UndoDirectory(name, lines, journal.st_ino, facts.st_uid, is_torn)


def is_believed(facts: os.stat_result) -> bool:
    """Whether what a directory holds can only come from whoever runs the tool, or from root."""
    return facts.st_uid in {0, os.geteuid()} and not facts.st_mode & OTHERS_WRITE


def _not_believed(facts: os.stat_result) -> str:
    if facts.st_uid in {0, os.geteuid()}:
        return "is not believed, as others may write into it: move it away if it is not needed"
    return (
        f"is not believed, as it belongs to user {facts.st_uid}: run rmqtool as that user, or "
        "move it away if it is not needed"
    )


def _says_done(undo: Directory) -> bool:
    """Whether a journal ends as that of an edit that is done, so that nothing follows from it."""
    with suppress(OSError, ValueError, RecursionError, RepairError):
        handle = undo.open_file(JOURNAL_NAME)
        try:
            start = max(os.fstat(handle).st_size - _LAST_LINE_BYTES, 0)
            line = os.pread(handle, _LAST_LINE_BYTES, start).rstrip(b"\n").rpartition(b"\n")[2]
        finally:
            os.close(handle)
        last = json.loads(line)
        return isinstance(last, dict) and last.get("state") == State.DONE
    return False


def discarded(name: str) -> str:
    """Give the name that an undo directory has before it is prepared, and when it has served."""
    return name.replace(UNDO_PREFIX, DISCARD_PREFIX, 1)


def new_undo_name(root: Directory) -> str:
    """Give a name that sorts after every edit of this store, whatever the clock says."""
    wanted = f"{UNDO_PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    latest = max(undo_names(root), default="")
    if latest < wanted:
        return wanted
    stem, mark, number = latest.partition("Z-")
    return f"{stem.removesuffix('Z')}Z-{int(number) + 1 if mark and number.isdecimal() else 2:03}"
