"""The program loaded once: each command is a process of its own, forked after the imports.

A process that `python -m rmqtool` starts spends most of its time on imports. `Loaded` pays them
once: it asks a process that has all modules of rmqtool, and that has run nothing, to fork. The
child gets the descriptors, directory and environment of the command, and ends as any process does.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import os
import pickle
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

ROOT: Final = Path(__file__).parents[2]
_LENGTH: Final = struct.Struct("=q")
_STANDARD: Final = 3  # descriptors: standard input, output, error
# Modules that need what is not always there, or that run when they are imported.
_NOT_LOADED: Final = ("rmqtool.spark", "rmqtool.__main__")
_WITHOUT_ONE: Final = {"OPENBLAS_NUM_THREADS": "1"}  # as main() has it, before numpy is imported


class Order(NamedTuple):
    """What to run, and where."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    directory: str


class Loaded:
    """A process with all modules of rmqtool, which forks one command at a time."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **_WITHOUT_ONE},
                stdin=subprocess.DEVNULL,
            )

    def start(self, order: Order, descriptors: Sequence[int]) -> None:
        """Start a command.

        Args:
            order: what.
            descriptors: its standard input, output and error.
        """
        raw = pickle.dumps(order)
        sent = array.array("i", descriptors).tobytes()
        self._line.sendmsg([_LENGTH.pack(len(raw))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
        self._line.sendall(raw)

    def wait(self, timeout: float) -> int:
        """Wait for the end of the command that was started; return its code, as `Popen` does.

        Raises:
            subprocess.TimeoutExpired: it has not ended; it is killed, and this is not usable.
        """
        self._line.settimeout(timeout)
        try:
            (status,) = _LENGTH.unpack(_exactly(self._line, _LENGTH.size))
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(__name__, timeout) from None
        return int(os.waitstatus_to_exitcode(status))


@cache
def loaded() -> Loaded:
    """Give the one of this process."""
    return Loaded()


def _exactly(line: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = line.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


# ---- the other side ----------------------------------------------------------------------------


def _load() -> None:
    """Import all modules, and what they import only when it is needed."""
    import rmqtool

    for module in pkgutil.walk_packages(rmqtool.__path__, "rmqtool."):
        if not module.name.startswith(_NOT_LOADED):
            import_module(module.name)
    for name in ("numpy", "pyarrow", "pyarrow.compute", "orjson", "rich.console", "typer"):
        import_module(name)
    _link()
    gc.collect()
    gc.freeze()  # nothing of it is looked through, and so copied, by the children


def _link() -> None:
    """Link all kernels whose machine code is kept; a child compiles what is not."""
    from rmqtool.machine import cache
    from rmqtool.machine.warm_up import kernels

    places = cache.places()
    for kernel in kernels():
        if cache.find(kernel.key, places) is not None:
            kernel._load()  # noqa: SLF001 - as its first call does


def _ordered(line: socket.socket) -> Order | None:
    """Serve orders, in this process; give one in the child that is to do it, None at the end."""
    while True:
        head, ancillary, _, _ = line.recvmsg(_LENGTH.size, socket.CMSG_SPACE(_STANDARD * 4))
        if not head:
            return None
        (size,) = _LENGTH.unpack(head)
        order: Order = pickle.loads(_exactly(line, size))  # noqa: S301 - from the tests
        descriptors = array.array("i")
        for _, _, sent in ancillary:
            descriptors.frombytes(sent)
        child = os.fork()
        if not child:
            line.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return order
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        line.sendall(_LENGTH.pack(status))


def _opened(descriptor: int, *, writes: bool) -> Any:  # noqa: ANN401 - of any stream
    """Open a standard stream as Python does at its start."""
    raw = open(descriptor, "wb" if writes else "rb", closefd=False)  # noqa: SIM115
    return TextIOWrapper(
        raw,
        encoding="utf-8",
        errors="backslashreplace" if descriptor == 2 else "strict",
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=False,
    )


def _become(order: Order) -> None:
    """Take the streams, the directory and the environment of an order."""
    sys.stdin, sys.stdout, sys.stderr = (
        _opened(number, writes=number > 0) for number in range(_STANDARD)
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    sys.argv = ["rmqtool", *order.arguments]


def _serve(descriptor: int) -> None:
    os.setpgid(0, 0)
    _load()
    with contextlib.suppress(ConnectionError, EOFError):
        order = _ordered(socket.socket(fileno=descriptor))
        if order is not None:
            _become(order)
            _end(_run())


def _run() -> int:
    """Run the program, and end it as the interpreter does, up to where it frees its memory."""
    from rmqtool.cli.main import main

    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads
    atexit._run_exitfuncs()  # noqa: SLF001 - no other way to call what was registered
    return code


def _end(code: int) -> NoReturn:
    """End without freeing all modules, which takes longer than most commands."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
