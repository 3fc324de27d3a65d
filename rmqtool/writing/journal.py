r"""The journal of an edit in place, and the undo directory that it lies in.

`R/rmqtool-undo-<UTC time>/` holds all that is needed to finish an edit of the store `R`, or to take
it back. A broker opens below `R` only what it knows by name (StorePathConfigHelper,
BrokerPathConfigHelper, IndexStoreService; 4.9.3 to 5.5.0), so the directory does not disturb it.

    journal.jsonl   what is done and how far it is: JSON lines, on the disk before the next step
    bytes.old       the bytes that were overwritten or cut off, one stretch after the other
    bytes.new       the bytes that replace them
    aside/<number>  before the commit what will be swapped in; after it what was swapped out

The lines, in this order:

    {"journal": 1, "rmqtool": …, "command": …, "time": …, "root_mtime_ns": …, "lock": …, "inode": …}
    {"outside": path}           an `aside` on another file system, where a link of the store leads
    {"number": 1, "operation": "swap", "path": …, "aside": …, "what": "replace|create|remove", …}
    {"number": 2, "operation": "edit", "path": …, "length": [old, new], "mtime_ns": [old, new], …}
    {"number": 2, "operation": "bytes", "position": …, "old": {at, length, sha256}, "new": {…}}
    {"state": "prepared", …}    all of the above is on the disk; the store is untouched
    {"state": "committed", …}   from here on the edit is finished, not taken back, after a kill;
                                with inodes and fingerprints of both sides, to tell which is where
    {"state": "done", …}
    {"state": "undoing", …}     from here on it is taken back, also after a kill

Paths are relative to `R`, or absolute where the broker's configuration leads out of it. `lock` is
size and mtime of the broker's lock file: a broker that starts writes it. `inode` is the journal's:
one that came with a store from elsewhere has another, and is not followed out of `R`. A line that a
kill cut off does not count. Until all is prepared, and again before it is removed, the directory is
called `rmqtool-discard-<UTC time>`: what has that name may go at any time, what has the other never
does without its journal saying so.
"""

from __future__ import annotations

import enum
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rmqtool import __version__
from rmqtool.errors import PlanMismatch
from rmqtool.writing.staging import write_all, write_errors
from rmqtool.writing.workplace import inode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.writing.staging import DiskSync

UNDO_PREFIX: Final = "rmqtool-undo-"
DISCARD_PREFIX: Final = "rmqtool-discard-"
JOURNAL_NAME: Final = "journal.jsonl"
FORMAT: Final = 1
_LOCK: Final = {"lock": (list, type(None))}
_FACTS: Final[dict[str, dict[str, Any]]] = {
    "": {"command": str, "time": str, "root_mtime_ns": int, "inode": int, **_LOCK},
    "outside": {"outside": str},
    "prepared": {},
    "committed": {"inodes": dict, "fingerprints": dict, "directories": dict, **_LOCK},
    "done": {"checkpoint": (str, type(None)), **_LOCK},
    "undoing": _LOCK,
}
_CHANGE: Final = b'{"number": '  # what the lines of changes begin with


class State(enum.StrEnum):
    """How far an edit is."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    DONE = "done"
    UNDOING = "undoing"


@dataclass(frozen=True, slots=True)
class UndoDirectory:
    """An edit in place, as its journal tells.

    Attributes:
        path: the directory.
        lines: of its journal, in order, but for those of the changes: there may be 100,000.
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
        return State([line["state"] for line in self.lines if "state" in line][-1])

    @property
    def command(self) -> str:
        """What was run."""
        return str(self.lines[0]["command"])

    @property
    def is_from_here(self) -> bool:
        """Whether the journal is the file that was written, and no copy of it."""
        return inode(self.path / JOURNAL_NAME) == int(self.lines[0]["inode"])

    @property
    def time(self) -> str:
        """When it was begun, ISO 8601 UTC."""
        return str(self.lines[0]["time"])

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

    def begin(self, command: str, **facts: object) -> None:
        """Create the journal with its first line.

        Raises:
            WriteFailed: the system refused.
        """
        self.append()
        head = {"journal": FORMAT, "rmqtool": __version__, "command": command, "time": now()}
        self.append(head | facts | {"inode": inode(self.path)})

    def append(self, *lines: dict[str, Any]) -> None:
        """Append lines, in place of a line that was cut off by a kill.

        Raises:
            WriteFailed: the system refused.
        """
        text = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
        with write_errors(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self.path, flags, 0o644)
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
    """Read the journal of an undo directory.

    Raises:
        PlanMismatch: there is none, or none that this version can read.
    """
    lines = head_lines(path) if is_directory(path) and is_directory(path / "aside") else ()
    states = [line["state"] for line in lines if "state" in line]
    if not states or (states != [State.PREPARED] and State.COMMITTED not in states):
        reason = "has no journal, or half of one: move it away if nothing in it is needed"
        raise PlanMismatch(path=str(path), reason=reason)
    return UndoDirectory(path, lines)


def is_directory(path: Path) -> bool:
    """Whether a name is a directory itself, and no link to one."""
    with write_errors(path):
        return path.is_dir() and not path.is_symlink()


def head_lines(path: Path) -> tuple[dict[str, Any], ...]:
    """Give the lines of a journal but for those of the changes; none where there is no journal.

    Raises:
        PlanMismatch: it is none that this version can read.
    """
    lines = tuple(_lines(path, changes=False))
    if lines and lines[0].get("journal") != FORMAT:
        reason = "was written by another version of rmqtool"
        raise PlanMismatch(path=str(path / JOURNAL_NAME), reason=reason)
    if not all(_is_complete(line, number) for number, line in enumerate(lines)):
        raise PlanMismatch(path=str(path / JOURNAL_NAME), reason="is not a journal")
    return lines


def change_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Give the lines of the changes from the journal of an undo directory.

    Raises:
        PlanMismatch: one is no line of a journal.
    """
    return _lines(path, changes=True)


def _is_complete(line: dict[str, Any], number: int) -> bool:
    """Whether a line has all that is asked of it later: a journal may be damaged like any file."""
    kind = "" if not number else str(line.get("state") or "outside")
    wanted = _FACTS.get(kind)
    return wanted is not None and all(
        name in line and isinstance(line[name], types) for name, types in wanted.items()
    )


def _lines(path: Path, *, changes: bool) -> Iterator[dict[str, Any]]:
    journal = path / JOURNAL_NAME
    with write_errors(journal):
        raw = journal.read_bytes()[: _end_of_lines(journal)] if inode(journal) is not None else b""
    for text in raw.splitlines():
        if text.startswith(_CHANGE) == changes:
            line: object = None
            with suppress(ValueError):
                line = json.loads(text)
            if not isinstance(line, dict):
                raise PlanMismatch(path=str(journal), reason="is not a journal")
            yield line


def discard_path(path: Path) -> Path:
    """Give the name that an undo directory has before it is prepared, and when it has served."""
    return path.with_name(path.name.replace(UNDO_PREFIX, DISCARD_PREFIX, 1))


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
