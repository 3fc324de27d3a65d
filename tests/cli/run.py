"""Run the command line: in this process where that is enough, as a process where it matters."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rmqtool.machine.announce import COMPILING

COMMAND = [sys.executable, "-m", "rmqtool"]
# What lets root read and write whatever it is forbidden to.
MIGHT = "-dac_override,-dac_read_search,-fowner"
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in {"NO_COLOR", "COLUMNS", "LINES", "RMQTOOL_DEBUG"}
}


class Run(NamedTuple):
    """What a process did."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output as lines."""
        return self.out.decode().splitlines()


def rmqtool(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: object = None,
    given: str | None = None,
    is_mighty: bool = True,
) -> Run:
    """Run a command with pipes for output.

    Args:
        *arguments: of the command line.
        env: added to the environment.
        cwd: where it runs.
        given: its standard input.
        is_mighty: False: modes of files count, whoever runs the tests.
    """
    before = [] if is_mighty or os.geteuid() else ["setpriv", "--bounding-set", MIGHT]
    done = subprocess.run(  # noqa: S603 - our own program
        [*before, *COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        input=given.encode() if given else None,
        env={**CLEAN, **(env or {})},
        cwd=str(cwd) if cwd else None,
        timeout=120,
    )
    return Run(done.returncode, done.stdout, _said(done.stderr))


def _said(err: bytes) -> str:
    """Give what a command said, but for what only the first run after a change says."""
    return err.decode().replace(f"rmqtool: {COMPILING}\n", "")


def on_terminal(
    arguments: Sequence[object], columns: int, env: Mapping[str, str] | None = None
) -> Run:
    """Run a command whose stdout is a terminal of some width; stderr is a pipe."""
    terminal, process_side = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, *map(str, arguments)],
        stdout=process_side,
        stderr=subprocess.PIPE,
        env={"TERM": "xterm", **CLEAN, "COLUMNS": str(columns), **(env or {})},
    )
    os.close(process_side)
    out = bytearray()
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so at the end
            break
        if not piece:
            break
        out += piece
    os.close(terminal)
    _, err = process.communicate(timeout=120)
    return Run(process.returncode, bytes(out).replace(b"\r\n", b"\n"), _said(err))
