"""Commands of rmqtool in processes of their own: their rows are those of the line that is shown.

What reads a whole store may take minutes and a gigabyte. In a process of its own it holds up no
key, ends when it is left, and gives its memory back.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from orjson import JSONDecodeError, loads

from rmqtool.browse.sources import READING, RowSource
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.browse.sources import Post, Some
    from rmqtool.rows import Row

Document: TypeAlias = dict[str, list[dict[str, Any]]]
NOT_DONE: Final = 2  # exit code: the command line, or the store, cannot be used
AHEAD: Final = 1024  # rows that are read before they are seen
MOST_ROWS: Final = 200_000
MOST_BYTES: Final = 64 << 20  # of rows that are kept
SHOWN_SECONDS: Final = 0.1  # between two looks at how many rows there are


class Commander:
    """Starts commands of rmqtool on one store.

    Args:
        program: what starts rmqtool.
        store: path of the store.
        options: that each command gets, such as `--broker-conf FILE`.
        post: takes what is to be done by the thread that draws.
    """

    def __init__(
        self, program: Sequence[str], store: str, options: Sequence[str], post: Post
    ) -> None:
        self.store, self.post = store, post
        self._program, self._options = [*program], [*options]

    def words(self, command: str, *words: str, path: str = "") -> list[str]:
        """Give the words of a command line, without the program's name."""
        return [command, path or self.store, *words, *self._options]

    def line(self, command: str, *words: str, path: str = "") -> str:
        """Give a command line, ready to be pasted."""
        return shlex.join(["rmqtool", *self.words(command, *words, path=path)])

    def start(self, words: Sequence[str], file_format: str) -> subprocess.Popen[bytes]:
        """Start a command."""
        return subprocess.Popen(  # noqa: S603 - ourselves
            [*self._program, *words, "--format", file_format, "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that nobody waits for any more; it cleans up by itself."""
    if process.poll() is None:
        process.terminate()


def _reason(process: subprocess.Popen[bytes], raw: bytes) -> str:
    """Say what a command could not do; empty where it did it."""
    if process.returncode < NOT_DONE:
        return ""
    text = raw.decode("utf-8", "replace").strip().removeprefix("rmqtool: ")
    return text.partition("\n")[0] or f"it ended with {process.returncode}"


class CommandRows(RowSource):
    """The rows of a command. It is held up until its rows are wanted.

    Args:
        shown: columns.
        commander: starts it.
        words: of its command line.
        ahead: rows that are read before they are seen.
    """

    def __init__(
        self, shown: Sequence[str], commander: Commander, words: Sequence[str], ahead: int = AHEAD
    ) -> None:
        super().__init__(shown)
        self.state = READING
        self._post, self._ahead = commander.post, ahead
        self._before: list[Row] = []  # what is shown until there are rows
        self._lines: list[bytes] = []
        self._wanted = ahead
        self._turn = Condition()
        self._is_closed = False
        self._process = commander.start(words, "jsonl")
        self._remarks: list[bytes] = []
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        Thread(target=self._read, daemon=True).start()

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        if first + count + self._ahead > self._wanted:
            with self._turn:
                self._wanted = first + count + self._ahead
                self._turn.notify()
        if not self._lines:
            return [*self._before[first : first + count]]
        return [loads(line) for line in self._lines[first : min(first + count, self.count)]]

    def begin_with(self, before: list[Row]) -> None:
        """Show rows until the command gives its own."""
        if not self._lines and self.state == READING:
            self._before, self.count = before, len(before)
            self.changed()

    def close(self) -> None:
        """See `RowSource`."""
        self._is_closed = True
        _end(self._process)
        with self._turn:
            self._turn.notify()

    def _listen(self) -> None:
        """Take what the command says, so that it never waits for us."""
        if self._process.stderr is not None:
            self._remarks.append(self._process.stderr.read())

    def _read(self) -> None:
        with self._process:  # which closes what it reads from
            is_whole = self._take_lines()
            if not is_whole:
                _end(self._process)
            self._listener.join()
        end = _reason(self._process, b"".join(self._remarks))
        self._show(end if is_whole else "these are the first; the command gives all")

    def _take_lines(self) -> bool:
        """Take the rows; tell whether these are all."""
        size, shown = 0, time.monotonic()
        for line in self._process.stdout or ():
            self._lines.append(line)
            size += len(line)
            if size > MOST_BYTES or len(self._lines) >= MOST_ROWS:
                return False
            if time.monotonic() - shown > SHOWN_SECONDS or len(self._lines) >= self._wanted:
                shown = time.monotonic()
                self._show(READING)
            with self._turn:
                while len(self._lines) >= self._wanted and not self._is_closed:
                    self._turn.wait()
        return True

    def _show(self, state: str) -> None:
        def show() -> None:
            if not self._is_closed:
                self._before = self._before if state == READING else []
                self.count, self.state = len(self._lines) or len(self._before), state
                self.changed()

        self._post(show)


class Diagnosis:
    """What `rmqtool doctor` says of the store: diagnosis, steps, findings, losses, plan.

    Attributes:
        document: rows by the names of their tables; None before they are there.
        reason: why there are none; empty otherwise.
        line: the command line that says the same.
    """

    def __init__(self, commander: Commander) -> None:
        self._commander = commander
        self.line = commander.line("doctor")
        self.forget()

    def forget(self) -> None:
        """Know nothing; what is being read is left."""
        if process := getattr(self, "_process", None):
            _end(process)
        self._process: subprocess.Popen[bytes] | None = None
        self._began, self.reason = 0.0, ""
        self.document: Document | None = None

    @property
    def state(self) -> str:
        """A few words for a heading; empty when it is there."""
        if self._process is None:
            return "not asked for: d"
        if self.document is not None or self.reason:
            return self.reason
        return f"{READING} {time.monotonic() - self._began:.0f} s"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The diagnosis in short."""
        if not (rows := self.rows("diagnosis")):
            return [("diagnosis", self.state)]
        row = rows[0]
        counts = f"{row['damages']:,} damage, {row['warnings']:,} warning, {row['notes']:,} note"
        lost = f"{row['messages_lost'] or 0:,} if started, {row['messages_missing']:,} already"
        due, gone = row["files_deleted_soon"], row["messages_deleted_soon"] or 0
        return [
            ("start", row["start"]),
            ("checked", f"{row['verdict']}: {counts}"),
            ("lost", f"messages: {lost}"),
            ("deleted", due and f"soon: {counted(due, 'oldest file')}, {counted(gone, 'message')}"),
            ("next", row["next"]),
        ]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Give the rows of a table; none before they are there."""
        return (self.document or {}).get(table, [])

    def places(self, table: str) -> list[int]:
        """Give the physical offsets that a table has, in order."""
        offsets = (row.get("physical_offset") for row in self.rows(table))
        return sorted({offset for offset in offsets if isinstance(offset, int)})

    def start(self) -> None:
        """Begin to read, once."""
        if self._process is None:
            self._began = time.monotonic()
            self._process = self._commander.start(self._commander.words("doctor"), "json")
            Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        raw, remarks = process.communicate()
        reason, document = _reason(process, remarks), None
        try:
            document, reason = loads(raw), ""
        except JSONDecodeError:
            reason = reason or "it did not write valid JSON"

        def take() -> None:
            if process is self._process:
                self.document, self.reason = document, reason

        self._commander.post(take)
