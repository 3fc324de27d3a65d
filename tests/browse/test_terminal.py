"""Where there is no terminal or no textual, on a real terminal, and what the room may cost."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from tests.browse.test_screens import TOUR
from tests.imports import PACKAGE, imports

MOST_LINES: Final = 1800
LONGEST: Final = 60.0  # seconds on a busy machine


def test_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """In a pipe: one line that names `dump`, and exit code 2."""
    assert 2 == main(["browse", str(TOUR)])
    out, said = capfd.readouterr()
    assert "" == out
    assert "needs a terminal" in said
    assert "rmqtool dump" in said


class Tty:
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_no_textual(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Without textual: one line with the command that installs it, and exit code 2."""
    monkeypatch.setattr("sys.stdin", Tty())
    monkeypatch.setattr("sys.stdout", Tty())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert 2 == main(["browse", str(TOUR)])
    said = capfd.readouterr().err
    assert "textual is missing; install it with: pip install '.[browse]'" in said
    assert 1 == said.count("\n")


def test_size() -> None:
    """The room stays small, and only it knows textual; others load it when the command runs."""
    lines = sum(len(path.read_bytes().splitlines()) for path in (PACKAGE / "browse").glob("*.py"))
    assert lines <= MOST_LINES
    users = {one.importer for one in imports() if one.imported.startswith("rmqtool.browse")}
    outside = {name for name in users if not name.startswith("rmqtool.browse")}
    assert {"rmqtool.cli.commands.browse"} == outside
    assert all(
        one.is_lazy for one in imports() if one.importer in outside and "browse" in one.imported
    )


def start(*, no_color: bool) -> tuple[int, int]:
    """Start it on a terminal of 80x24; give the process and the terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.environ.pop("NO_COLOR", None)
        if no_color:
            os.environ["NO_COLOR"] = "1"
        words = [sys.executable, "-m", "rmqtool", "browse", str(TOUR)]
        os.execv(sys.executable, words)  # noqa: S606 - ourselves
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return pid, terminal


def drawn_until(terminal: int, wanted: bytes) -> bytes:
    """Give what is drawn up to something, or to the end."""
    drawn, end = b"", time.monotonic() + LONGEST
    with suppress(OSError):  # it has ended
        while time.monotonic() < end and wanted not in drawn:
            if select.select([terminal], [], [], 0.1)[0]:
                drawn += os.read(terminal, 1 << 16)
    return drawn


@pytest.mark.parametrize("no_color", [False, True])
def test_real_terminal(*, no_color: bool) -> None:
    """On 80x24 it draws, in colour or without, and SIGTERM ends it and restores the terminal."""
    pid, terminal = start(no_color=no_color)
    first = drawn_until(terminal, b"checked")
    assert b"overview" in first
    assert b"\x1b[?1049h" in first
    os.write(terminal, b"f")
    findings = drawn_until(terminal, b"CQ-GAP")
    row = findings.rpartition(b"severity")[2]
    assert no_color is not (b"\x1b[1;31" in row or b";31m" in row)
    os.kill(pid, signal.SIGTERM)
    last = drawn_until(terminal, b"never")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in {143, -signal.SIGTERM}
    os.close(terminal)
    assert b"\x1b[?1049l" in last
    assert b"Traceback" not in first + findings + last


def test_help_is_light() -> None:
    """The command's own help does not load textual."""
    program = (
        "import sys; from rmqtool.cli.main import main; main(['browse', '--help']);"
        "sys.exit('textual' in sys.modules)"
    )
    words = [sys.executable, "-c", program]
    assert 0 == subprocess.run(words, capture_output=True, check=False).returncode  # noqa: S603


def test_documented() -> None:
    """The page has three pictures of screens, and each key."""
    text = (Path(PACKAGE).parent / "docs" / "browse.md").read_text(encoding="utf-8")
    assert 3 <= text.count(".svg)")
