r"""The journal of an edit in place, and the undo directory that it lies in.

`R/rmqtool-undo-<UTC time>/` holds all that is needed to finish an edit of the store `R`, or to take
it back. A broker opens below `R` only what it knows by name (StorePathConfigHelper,
BrokerPathConfigHelper, IndexStoreService; 4.9.3 to 5.5.0), so the directory does not disturb it.

    journal.jsonl   what is done and how far it is: JSON lines, on the disk before the next step
    bytes.old       the bytes that were overwritten or cut off, one stretch after the other
    bytes.new       the bytes that replace them
    aside/<number>  before the commit what will be swapped in; after it what was swapped out

The lines, in this order:

    {"journal": 2, "rmqtool": …, "command": …, "time": …, "root_mtime_ns": …, "lock": …, "inode": …}
    {"outside": path}           an `aside` on another file system, where a link of the store leads
    {"number": 1, "operation": "swap", "path": …, "aside": …, "what": "replace|create|remove", …}
    {"number": 2, "operation": "edit", "path": …, "length": [old, new], "mtime_ns": [old, new], …}
    {"number": 2, "operation": "bytes", "position": …, "old": {at, length, sha256}, "new": {…}}
    {"state": "prepared", …}    all of the above is on the disk; the store is untouched; with inodes
                                and fingerprints of both sides, to tell which is where
    {"state": "committed", …}   from here on the edit is finished, not taken back, after a kill
    {"state": "done", …}
    {"state": "undoing", …}     from here on it is taken back, also after a kill

Paths are relative to `R`, or absolute in what the broker's configuration places elsewhere, and then
followed only where the command line names that configuration. `lock` is size and mtime of the
broker's lock file: a broker that starts writes it. `inode` is the journal's: one that came with a
store from elsewhere has another, and is never followed out of `R`.

Each line ends in its own length and CRC-32. The last line may be torn by a kill or a power cut,
with or without the end of its line. Nothing that it announces has begun, so it does not count. But
a disk may have lost it later. So the store decides (`undo.completed`): where a change is in the
store, `committed` counts; where one was taken out again, `undoing` does. A damaged line before the
last is refused. Journals of format 1 have neither length nor CRC; they are read.

Until all is prepared, and again before it is removed, the directory is called
`rmqtool-discard-<UTC time>`: what has that name may go at any time, what has the other never does
without its journal saying so.
"""

from __future__ import annotations

import enum
import json
import os
import re
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool import __version__
from rmqtool.errors import PlanMismatch
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.staging import DiskSync

JOURNAL_NAME: Final = "journal.jsonl"
FORMAT: Final = 2
OLDEST: Final = 1  # without checksums, and with inodes and fingerprints in `committed`
_LOCK: Final = {"lock": (list, type(None))}
_FACTS: Final[dict[str, dict[str, Any]]] = {
    "": {"command": str, "time": str, "root_mtime_ns": int, "inode": int, **_LOCK},
    "outside": {"outside": str},
    "prepared": {},
    "committed": _LOCK,
    "done": {"checkpoint": (str, type(None)), **_LOCK},
    "undoing": _LOCK,
}
_SIDES: Final = {"inodes": dict, "fingerprints": dict, "directories": dict}
_WITH_SIDES: Final = {OLDEST: "committed", FORMAT: "prepared"}  # the line that has them
_CHANGE: Final = b'{"number": '  # what the lines of changes begin with
_SEAL: Final = re.compile(rb', "line_bytes": (\d{1,12}), "crc32": "([0-9a-f]{8})"\}')
_LONGEST_SEAL: Final = 64
_OLDEST: Final = b'{"journal": 1,'
NO_JOURNAL: Final = "is not a journal, or is damaged"


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
        text = b"".join(_sealed(line) for line in lines)
        with write_errors(self._path):
            handle = self._directory.open_file(JOURNAL_NAME, os.O_RDWR)
            try:
                raw = _read_all(handle)
                end = len(raw) - len(_split(raw)[1])
                os.ftruncate(handle, end)
                write_all(handle, text, end)
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


class JournalHead(NamedTuple):
    """The lines of a journal, but for those of the changes."""

    lines: tuple[dict[str, Any], ...]  # in order; none where there is no journal
    is_torn: bool  # whether something follows the last one


def read_head(undo: Directory) -> JournalHead:
    """Read a journal but for the lines of the changes: there may be 100,000.

    Raises:
        PlanMismatch: it is not one that this version can read.
    """
    path = undo.shown(JOURNAL_NAME)
    raw = _read(undo)
    texts, torn = _split(raw)
    version = _version(raw) if texts else FORMAT
    if version not in _WITH_SIDES:
        reason = "was written by another version of rmqtool"
        raise PlanMismatch(path=path, reason=reason)
    lines = tuple(_lines(path, texts, changes=False))
    if not all(_is_complete(line, number, version) for number, line in enumerate(lines)):
        raise PlanMismatch(path=path, reason=NO_JOURNAL)
    return JournalHead(lines, bool(torn))


def change_lines(undo: Directory) -> Iterator[dict[str, Any]]:
    """Give the lines of the changes from the journal of an undo directory.

    Raises:
        PlanMismatch: one is no line of a journal.
    """
    return _lines(undo.shown(JOURNAL_NAME), _split(_read(undo))[0], changes=True)


def _version(raw: bytes) -> int:
    """Give the format that the first line names; the newest one where it names none."""
    with suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return int(json.loads(raw.partition(b"\n")[0]).get("journal", 0))
    return FORMAT


def _is_complete(line: dict[str, Any], number: int, version: int) -> bool:
    """Whether a line has all that is asked of it later: a journal may be damaged like any file."""
    kind = "" if not number else str(line.get("state") or "outside")
    wanted = _FACTS.get(kind)
    if kind == _WITH_SIDES[version]:
        wanted = {**(wanted or {}), **_SIDES}
    return wanted is not None and all(
        name in line and isinstance(line[name], types) for name, types in wanted.items()
    )


def _lines(path: str, texts: list[bytes], *, changes: bool) -> Iterator[dict[str, Any]]:
    is_sealed = bool(texts) and not texts[0].startswith(_OLDEST)
    for text in texts:
        if text.startswith(_CHANGE) == changes:
            line: object = None
            with suppress(ValueError, RecursionError):
                line = None if is_sealed and not is_whole(text) else json.loads(text)
            if not isinstance(line, dict):
                raise PlanMismatch(path=path, reason=NO_JOURNAL)
            yield line


def _sealed(line: dict[str, Any]) -> bytes:
    """Give a line with its length and CRC-32, which are those of the line without them."""
    text = json.dumps(line, ensure_ascii=True).encode()
    seal = f', "line_bytes": {len(text)}, "crc32": "{zlib.crc32(text):08x}"}}\n'
    return text[:-1] + seal.encode()


def is_whole(text: bytes) -> bool:
    """Say whether a line of a journal, without its end, is as it was written."""
    start = max(len(text) - _LONGEST_SEAL, 0)
    seal = _SEAL.search(text, start)
    if seal is None or seal.end() != len(text):
        return False
    written = text[: seal.start()] + b"}"
    return int(seal[1]) == len(written) and int(seal[2], 16) == zlib.crc32(written)


def _split(raw: bytes) -> tuple[list[bytes], bytes]:
    """Give the lines of a journal, and what follows them: a line that is torn.

    A journal whose first line has no seal is of format 1, where the end of a line is all there is.
    """
    end = raw.rfind(b"\n") + 1
    lines = raw[:end].splitlines()
    if not lines or lines[0].startswith(_OLDEST):
        return lines, raw[end:]
    if end < len(raw):
        return lines, raw[end:]
    if is_whole(lines[-1]):
        return lines, b""
    return lines[:-1], raw[raw.rfind(b"\n", 0, end - 1) + 1 :]


def _read(undo: Directory) -> bytes:
    with write_errors(undo.shown(JOURNAL_NAME)), suppress(FileNotFoundError):
        handle = undo.open_file(JOURNAL_NAME)
        try:
            return _read_all(handle)
        finally:
            os.close(handle)
    return b""


def _read_all(handle: int) -> bytes:
    """Read a journal; whoever wrote it may have changed many files."""
    with open(handle, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
