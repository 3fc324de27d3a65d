"""The prompt of `sql`, on a terminal: it completes and remembers, and Ctrl-C is not its end."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.sql_prompt import Completer, known_names
from tests.sql.test_questions import FOREVER
from tests.stores import fixture_store

PATIENCE: Final = 120.0  # seconds, on a busy machine
AGAIN: Final = 5.0  # seconds after which a person presses a key again
CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"
COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Conversation:
    """A process at a prompt."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.text = ""

    def type(self, keys: str) -> None:
        """Press keys; what was read before is forgotten."""
        self.text = ""
        os.write(self._terminal, keys.encode())

    def press(self, key: str, pattern: str) -> None:
        """Press a key, as a person does, until a text is there.

        Python's readline takes a signal that comes while it looks at a key with the next key only.
        """
        for _ in range(5):
            self.type(key)
            with suppress(AssertionError):
                self.wait_for(pattern, AGAIN)
                return
        pytest.fail(f"{pattern}: {self.text}")

    def wait_for(self, pattern: str, patience: float = PATIENCE) -> float:
        """Read until a text is there; give the seconds."""
        began = time.monotonic()
        while not re.search(pattern, self.text):
            assert time.monotonic() - began < patience, (pattern, self.text)
            if select.select([self._terminal], [], [], 0.1)[0]:
                raw = os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
                self.text = COLOURS.sub("", self.text + raw).replace("\r\n", "\n")
        return time.monotonic() - began


@contextmanager
def conversation(store: Path, home: Path) -> Iterator[Conversation]:
    """Talk to `rmqtool sql` on a terminal; it ends well."""
    terminal, side = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(home), "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "rmqtool", "sql", str(store)],
        stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # noqa: PLW1509 - its own
    )  # fmt: skip
    os.close(side)
    try:
        talk = Conversation(terminal)
        talk.wait_for("sql> $")
        yield talk
        talk.type(CTRL_D)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A small store."""
    return fixture_store("rocketmq-5.3.3-lmq", tmp_path)


def test_prompt(store: Path, tmp_path: Path) -> None:
    """Names are completed, answers and lines are stopped, questions are there the next time."""
    with conversation(store, tmp_path) as talk:
        talk.type(f"TABLE queue_un{TAB};\n")
        talk.wait_for(r"queue_units.*;\n(.|\n)*read [\d,]+ bytes of the store(.|\n)*sql> $")
        talk.type(f"{FOREVER};\n")
        assert talk.wait_for(r"sql .*(━|bytes)") < PATIENCE  # it is not silent
        talk.type(CTRL_C)
        talk.wait_for("rmqtool: stopped\n(.|\n)*sql> $")
        talk.type("SELECT nonsense")
        talk.wait_for("nonsense")
        talk.press(CTRL_C, "sql> $")
        talk.type("SELECT 6 * 7 AS a;\n")
        talk.wait_for(r"42\n(.|\n)*sql> $")
    (kept,) = tmp_path.glob("rmqtool/sql-history.txt")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().splitlines()[-1] == "SELECT 6 * 7 AS a;"
    with conversation(store, tmp_path) as talk:
        talk.type(f"{UP}\n")
        talk.wait_for(r"42\n(.|\n)*sql> $")


def test_names() -> None:
    """Tables, views, columns, functions and words are completed in whatever case is typed."""
    complete = Completer(known_names())
    for text, name in {
        "disk_u": "disk_use_per_topic", "INDEX_E": "index_entries", "unique_k": "unique_key",
        "sel": "SELECT", "lost_m": "lost_messages", "substring_i": "substring_index(",
    }.items():  # fmt: skip
        assert complete(text, 0) == name
    assert complete("", 0) is None
    assert complete("no such name", 0) is None


def test_no_home(store: Path, tmp_path: Path) -> None:
    """What cannot be remembered is forgotten; a link in its place is not followed."""
    state = tmp_path / "state" / "rmqtool"
    state.mkdir(parents=True, mode=0o700)
    (tmp_path / "other").write_text("SELECT 1;\n")
    (state / "sql-history.txt").symlink_to(tmp_path / "other")
    with conversation(store, tmp_path / "state") as talk:
        talk.type(f"{UP}SELECT 2 AS a;\n")
        talk.wait_for(r"2\n(.|\n)*sql> $")
    assert (tmp_path / "other").read_text() == "SELECT 1;\n"
    assert (state / "sql-history.txt").read_text() == "SELECT 2 AS a;\n"
