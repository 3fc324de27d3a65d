r"""The journal of an edit in place, and the undo directory that it lies in.

`R/rmqtool-undo-<UTC time>/` holds all that is needed to finish an edit of the store `R`, or to take
it back. A broker opens below `R` only what it knows by name (StorePathConfigHelper,
BrokerPathConfigHelper, IndexStoreService; 4.9.3 to 5.5.0), so the directory does not disturb it.

    journal.jsonl   what is done and how far it is: JSON lines, on the disk before the next step
    bytes.old       the bytes that were overwritten or cut off, one stretch after the other
    bytes.new       the bytes that replace them
    aside/<number>  before the commit what will be swapped in; after it what was swapped out

The lines, in this order:

    {"journal": 1, "rmqtool": …, "command": …, "time": …, "root_mtime_ns": …, "lock": …}
    {"outside": path}           an `aside` on another file system, where a link of the store leads
    {"number": 1, "operation": "swap", "path": …, "aside": …, "what": "replace|create|remove", …}
    {"number": 2, "operation": "edit", "path": …, "length": [old, new], "mtime_ns": [old, new], …}
    {"number": 2, "operation": "bytes", "position": …, "old": {at, length, sha256}, "new": {…}}
    {"state": "prepared", …}    all of the above is on the disk; the store is untouched
    {"state": "committed", …}   from here on the edit is finished, not taken back, after a kill
    {"state": "done", …}        with fingerprints of both sides, to see later changes
    {"state": "undoing", …}     from here on it is taken back, also after a kill

Paths are relative to `R`, or absolute where the broker's configuration leads out of it. `lock` is
size and mtime of the broker's lock file: a broker that starts writes it. A line that a kill cut off
does not count. What is taken back or was never committed is renamed to `rmqtool-discard-<UTC time>`
before it is removed, so that no half of it can be mistaken for a whole.
"""

from __future__ import annotations

import enum
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rmqtool import __version__
from rmqtool.errors import PlanMismatch
from rmqtool.store.staging import write_all, write_errors

if TYPE_CHECKING:
    from rmqtool.store.staging import DiskSync

UNDO_PREFIX: Final = "rmqtool-undo-"
DISCARD_PREFIX: Final = "rmqtool-discard-"
JOURNAL_NAME: Final = "journal.jsonl"
FORMAT: Final = 1


class State(enum.StrEnum):
    """How far an edit is."""

    STAGING = "staging"  # no state line yet
    PREPARED = "prepared"
    COMMITTED = "committed"
    DONE = "done"
    UNDOING = "undoing"


@dataclass(frozen=True, slots=True)
class UndoDirectory:
    """An edit in place, as its journal tells.

    Attributes:
        path: the directory.
        lines: of its journal, in order.
    """

    path: Path
    lines: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """What `undo` is told to take this edit back."""
        return self.path.name

    @property
    def state(self) -> State:
        """How far the edit is."""
        states = [line["state"] for line in self.lines if "state" in line]
        return State(states[-1]) if states else State.STAGING

    @property
    def command(self) -> str:
        """What was run."""
        return str(self.lines[0].get("command", "")) if self.lines else ""

    @property
    def time(self) -> str:
        """When it was begun, ISO 8601 UTC."""
        return str(self.lines[0].get("time", "")) if self.lines else ""

    @property
    def outside(self) -> list[Path]:
        """Its directories on other file systems."""
        return [Path(line["outside"]) for line in self.lines if "outside" in line]

    def last(self, state: State) -> dict[str, Any]:
        """Give the last line of a state; empty when it was not reached."""
        return next((line for line in reversed(self.lines) if line.get("state") == state), {})


class Journal:
    """Appends lines to a journal; each is on the disk when `append` returns.

    Args:
        directory: the undo directory.
        sync: counts the time that the disk takes.
    """

    def __init__(self, directory: Path, sync: DiskSync) -> None:
        self.path = directory / JOURNAL_NAME
        self._sync = sync

    def append(self, *lines: dict[str, Any]) -> None:
        """Append lines, in place of a line that was cut off by a kill.

        Raises:
            WriteFailed: the system refused.
        """
        text = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
        with write_errors(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                end = _end_of_lines(self.path)
                os.ftruncate(handle, end)
                write_all(handle, text.encode(), end)
                self._sync.handle(handle)
            finally:
                os.close(handle)


def state_line(state: State, **facts: object) -> dict[str, Any]:
    """Give the line that says how far an edit is."""
    return {"state": state.value, "time": now(), **facts}


def first_line(command: str, **facts: object) -> dict[str, Any]:
    """Give the line that a journal begins with."""
    head = {"journal": FORMAT, "rmqtool": __version__, "command": command, "time": now()}
    return head | facts


def now() -> str:
    """Give the time, ISO 8601 UTC with ms."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def undo_directories(root: str | os.PathLike[str]) -> list[UndoDirectory]:
    """List the edits of a store that can be taken back or have to be finished, oldest first.

    Raises:
        WriteFailed: the store cannot be listed.
        PlanMismatch: a journal is none that this version can read.
    """
    top = Path(root)
    with write_errors(top):
        names = sorted(entry for entry in os.listdir(top) if entry.startswith(UNDO_PREFIX))  # noqa: PTH208
    return [read_undo_directory(top / name) for name in names]


def read_undo_directory(path: Path) -> UndoDirectory:
    """Read the journal of an undo directory; one without a journal has no lines.

    Raises:
        PlanMismatch: it is none that this version can read.
    """
    journal = path / JOURNAL_NAME
    with write_errors(journal):
        raw = journal.read_bytes()[: _end_of_lines(journal)] if journal.exists() else b""
    try:
        lines = [json.loads(line) for line in raw.splitlines()]
        known = not lines or lines[0]["journal"] == FORMAT
    except (ValueError, LookupError, TypeError) as error:
        raise PlanMismatch(path=str(journal), reason="is not a journal") from error
    if not known:
        raise PlanMismatch(path=str(journal), reason="was written by another version of rmqtool")
    return UndoDirectory(path, tuple(lines))


def new_undo_name(root: Path) -> str:
    """Give a name that sorts after every edit of this store, whatever the clock says."""
    with write_errors(root):
        names = [name for name in os.listdir(root) if name.startswith(UNDO_PREFIX)]  # noqa: PTH208
    wanted = f"{UNDO_PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    latest = max(names, default="")
    if latest < wanted:
        return wanted
    stem, mark, number = latest.partition("Z-")
    return f"{stem.removesuffix('Z')}Z-{int(number) + 1 if mark and number.isdecimal() else 2:03}"


def _end_of_lines(path: Path) -> int:
    """Give the length of the journal without a last line that a kill cut off."""
    return path.read_bytes().rfind(b"\n") + 1
