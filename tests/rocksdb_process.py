"""The process that reads a RocksDB database, forked after the imports.

Each database that is opened has a process of its own, and most of its time goes into imports. Here
a process that has imported all, and opened nothing, forks instead: a third of the CPU. What runs
in the child is the program itself; `store/test_rocksdb_database.py` starts it as users do.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

from rmqtool.store import rocksdb_cell

ROOT: Final = Path(__file__).parents[1]
START: Final = rocksdb_cell._start  # noqa: SLF001 - what is replaced
_MOST: Final = 1 << 20  # bytes of an order
_DESCRIPTORS: Final = 253  # that a socket takes at a time
_ABOVE: Final = 600  # no descriptor of a test has such a number
RUNS: Final = -1  # no status of a process


class Forked:
    """What `Cell` uses of a `Popen`."""

    def __init__(self, forker: Forker, directory: str, handles: Sequence[int]) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin = open(ours_in, "wb", buffering=0)  # noqa: SIM115, PTH123 - closed by its user
        self.stdout = open(ours_out, "rb", buffering=0)  # noqa: SIM115, PTH123
        order = pickle.dumps((rocksdb_cell.environment(), directory, [0, 1, *handles]))
        self._forker = forker
        self.pid = forker.ask(order, theirs_in, theirs_out, *handles)
        self._status: int | None = None
        self.returncode: int | None = None
        for descriptor in (theirs_in, theirs_out):
            os.close(descriptor)

    def terminate(self) -> None:
        """Ask it to end, unless it is known to have ended."""
        if self._status is None:
            os.kill(self.pid, signal.SIGTERM)

    def poll(self) -> int | None:
        """Give its status, as `Popen` does; None while it runs."""
        if self._status is None:
            status = self._forker.ask(pickle.dumps(-self.pid))
            self._status = None if status == RUNS else os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self) -> int:
        """Wait for its end; give its status as `Popen` does."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(self._forker.ask(pickle.dumps(self.pid)))
        return self._status


class Forker:
    """The process that has imported all."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End it, once the tests have ended; a child of theirs leaves it alone."""
        if self.owner == os.getpid():
            self._line.close()
            self._process.wait()

    def ask(self, order: bytes, *descriptors: int) -> int:
        """Send an order, with descriptors; give the number that is the answer."""
        sent = array.array("i", descriptors).tobytes()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)] if descriptors else []
        with self._lock:
            self._line.sendmsg([order], ancillary)
            return int(self._line.recv(_MOST))


@cache
def _forker() -> Forker:
    return Forker()


def start(handles: Sequence[int]) -> Forked | subprocess.Popen[bytes]:
    """Start the process; in a child of the tests, which is killed at any moment, as users do."""
    forker = _forker()
    if forker.owner != os.getpid() or len(handles) + 2 > _DESCRIPTORS:
        return START(handles)
    return Forked(forker, str(Path.cwd()), handles)


# ---- the other side ----------------------------------------------------------------------------


def _serve(line: socket.socket) -> None:
    """Fork for each order, wait for the end of a child, or ask, until nobody is left to ask."""
    import rocksdict  # noqa: F401 - loaded once

    from rmqtool.store import rocksdb_server  # noqa: F401 - likewise
    from rmqtool.writing import rocksdb_keeper, rocksdb_maker  # noqa: F401 - likewise

    gc.collect()
    gc.freeze()
    while True:
        raw, ancillary, _, _ = line.recvmsg(_MOST, socket.CMSG_SPACE(_DESCRIPTORS * 4))
        if not raw:
            return
        order = pickle.loads(raw)  # noqa: S301 - from the tests
        if isinstance(order, int):
            ended, status = os.waitpid(abs(order), os.WNOHANG if order < 0 else 0)
            line.send(str(status if ended else RUNS).encode())
            continue
        descriptors = array.array("i")
        for _, _, sent in ancillary:
            descriptors.frombytes(sent)
        child = os.fork()
        if not child:
            line.close()
            _become(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(child).encode())


def _become(
    order: tuple[dict[str, str], str, list[int]], descriptors: array.array[int]
) -> NoReturn:
    """Be the program, with descriptors under the numbers that they have where it was started."""
    from rmqtool.writing import rocksdb_keeper

    code = 1
    try:
        environment, directory, numbers = order
        moved = [fcntl.fcntl(one, fcntl.F_DUPFD, _ABOVE) for one in descriptors]
        for descriptor in descriptors:
            os.close(descriptor)
        for descriptor, number in zip(moved, numbers, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        tempfile.tempdir = None  # found out anew
        code = rocksdb_keeper.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
