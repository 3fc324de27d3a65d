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

Paths are relative to `R`, or absolute in what the broker's configuration places elsewhere, and then
followed only where the command line names that configuration. `lock` is size and mtime of the
broker's lock file: a broker that starts writes it. `inode` is the journal's: one that came with a
store from elsewhere has another, and is never followed out of `R`. A line that a kill cut off does
not count.

Until all is prepared, and again before it is removed, the directory is called
`rmqtool-discard-<UTC time>`: what has that name may go at any time, what has the other never does
without its journal saying so.
"""

from __future__ import annotations

import enum
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rmqtool import __version__
from rmqtool.errors import PlanMismatch
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.staging import DiskSync

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


class Journal:
    """Appends lines to a journal; each is on the disk when `append` returns.

    Args:
        directory: the undo directory, open.
        sync: counts the time that the disk takes.
    """

    def __init__(self, directory: Directory, sync: DiskSync) -> None:
        self._directory = directory
        self._sync = sync

    def begin(self, command: str, **facts: object) -> None:
        """Create the journal with its first line. Raises WriteFailed: the system refused."""
        with write_errors(self._path):
            handle = self._directory.create(JOURNAL_NAME, 0o644)
            inode = os.fstat(handle).st_ino
            os.close(handle)
        head = {"journal": FORMAT, "rmqtool": __version__, "command": command, "time": now()}
        self.append(head | facts | {"inode": inode})

    def append(self, *lines: dict[str, Any]) -> None:
        """Append lines, in place of a line that was cut off by a kill.

        Raises:
            WriteFailed: the system refused.
        """
        text = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
        with write_errors(self._path):
            handle = self._directory.open_file(JOURNAL_NAME, os.O_RDWR)
            try:
                end = _read_all(handle).rfind(b"\n") + 1
                os.ftruncate(handle, end)
                write_all(handle, text.encode(), end)
                self._sync.handle(handle)
            finally:
                os.close(handle)

    @property
    def _path(self) -> str:
        return self._directory.shown(JOURNAL_NAME)


def state_line(state: State, **facts: object) -> dict[str, Any]:
    """Give the line that says how far an edit is."""
    return {"state": state.value, "time": now(), **facts}


def now() -> str:
    """Give the time, ISO 8601 UTC with ms."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def head_lines(undo: Directory) -> tuple[dict[str, Any], ...]:
    """Give the lines of a journal but for those of the changes; none where there is no journal.

    Raises:
        PlanMismatch: it is not one that this version can read.
    """
    lines = tuple(_lines(undo, changes=False))
    if lines and lines[0].get("journal") != FORMAT:
        reason = "was written by another version of rmqtool"
        raise PlanMismatch(path=undo.shown(JOURNAL_NAME), reason=reason)
    if not all(_is_complete(line, number) for number, line in enumerate(lines)):
        raise PlanMismatch(path=undo.shown(JOURNAL_NAME), reason="is not a journal")
    return lines


def change_lines(undo: Directory) -> Iterator[dict[str, Any]]:
    """Give the lines of the changes from the journal of an undo directory.

    Raises:
        PlanMismatch: one is no line of a journal.
    """
    return _lines(undo, changes=True)


def _is_complete(line: dict[str, Any], number: int) -> bool:
    """Whether a line has all that is asked of it later: a journal may be damaged like any file."""
    kind = "" if not number else str(line.get("state") or "outside")
    wanted = _FACTS.get(kind)
    return wanted is not None and all(
        name in line and isinstance(line[name], types) for name, types in wanted.items()
    )


def _lines(undo: Directory, *, changes: bool) -> Iterator[dict[str, Any]]:
    path = undo.shown(JOURNAL_NAME)
    raw = b""
    with write_errors(path), suppress(FileNotFoundError):
        handle = undo.open_file(JOURNAL_NAME)
        try:
            raw = _read_all(handle)
        finally:
            os.close(handle)
    for text in raw[: raw.rfind(b"\n") + 1].splitlines():
        if text.startswith(_CHANGE) == changes:
            line: object = None
            with suppress(ValueError, RecursionError):
                line = json.loads(text)
            if not isinstance(line, dict):
                raise PlanMismatch(path=path, reason="is not a journal")
            yield line


def _read_all(handle: int) -> bytes:
    """Read a journal; whoever wrote it may have changed many files."""
    with open(handle, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
