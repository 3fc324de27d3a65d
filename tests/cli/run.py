"""Run the command line as a process; `loaded` starts it quickly, wherever that shows the same."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from rmqtool.machine.announce import COMPILING
from tests.cli.loaded import Loaded, Order, loaded

PATIENCE: Final = 1800  # seconds, on a busy machine
COMMAND = [sys.executable, "-m", "rmqtool"]
# What lets root read and write whatever it is forbidden to.
MIGHT = "-dac_override,-dac_read_search,-fowner"
OF_PYTHON: Final = (
    *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONPATH", "PYTHONWARNINGS", "LC_ALL", "LANG"),
    *("LC_CTYPE", "PYTHONSAFEPATH", "PYTHONOPTIMIZE", "PYTHONCOERCECLOCALE"),
)
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
    by: Loaded | None = None,
) -> Run:
    """Run a command with pipes for output.

    Args:
        *arguments: of the command line.
        env: added to the environment.
        cwd: where it runs.
        given: its standard input.
        is_mighty: False: modes of files count, whoever runs the tests.
        by: runs it, one command at a time; None is the one that all share.
    """
    order = Order((*map(str, arguments),), {**CLEAN, **(env or {})}, str(cwd or Path.cwd()))
    return _run(order, os.pipe(), (given or "").encode(), is_mighty=is_mighty, by=by)


def on_terminal(
    arguments: Sequence[object], columns: int, env: Mapping[str, str] | None = None
) -> Run:
    """Run a command whose stdout is a terminal of some width; stderr is a pipe."""
    environment = {"TERM": "xterm", **CLEAN, "COLUMNS": str(columns), **(env or {})}
    done = _run(Order((*map(str, arguments),), environment, str(Path.cwd())), pty.openpty())
    return done._replace(out=done.out.replace(b"\r\n", b"\n"))


def _run(
    order: Order,
    out: tuple[int, int],
    given: bytes = b"",
    *,
    is_mighty: bool = True,
    by: Loaded | None = None,
) -> Run:
    """Run a command whose standard output has two ends: ours, and that of the process."""
    taken, err = os.pipe(), os.pipe()
    theirs = taken[0], out[1], err[1]
    wait = _started(order, theirs, is_mighty=is_mighty, by=by)
    for descriptor in theirs:
        os.close(descriptor)
    with ThreadPoolExecutor(2) as pool:
        written, said = pool.submit(_all_of, out[0]), pool.submit(_all_of, err[0])
        with open(taken[1], "wb") as stream, suppress(BrokenPipeError):  # noqa: PTH123
            stream.write(given)
        code = wait(PATIENCE)
    # What only the first run after a change says is left out.
    heard = said.result().decode().replace(f"rmqtool: {COMPILING}\n", "")
    return Run(code, written.result(), heard)


def _started(
    order: Order, descriptors: tuple[int, int, int], *, is_mighty: bool, by: Loaded | None
) -> Callable[[float], int]:
    """Start a command; give what waits for its end."""
    before = [] if is_mighty or os.geteuid() else ["setpriv", "--bounding-set", MIGHT]
    # Python itself looks at these when it starts.
    is_odd = any(order.environment.get(name) != CLEAN.get(name) for name in OF_PYTHON)
    if not before and not is_odd:
        forker = by or loaded()
        forker.start(order, descriptors)
        return forker.wait
    stdin, stdout, stderr = descriptors
    return subprocess.Popen(  # noqa: S603 - our own program
        [*before, *COMMAND, *order.arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=order.environment,
        cwd=order.directory,
    ).wait


def _all_of(descriptor: int) -> bytes:
    found = bytearray()
    with suppress(OSError):  # how Linux says that a terminal ends
        while piece := os.read(descriptor, 1 << 16):
            found += piece
    os.close(descriptor)
    return bytes(found)
