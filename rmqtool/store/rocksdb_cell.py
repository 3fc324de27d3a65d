"""A process that runs RocksDB, which gets open files and directories, and nothing else.

What it is and gives up is in `writing.rocksdb_keeper` and `confinement`; here it is started, asked,
and ended. It reads what a stranger wrote: what it answers is believed as far as a stranger is.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import EngineMissing
from rmqtool.store import rocksdb_frames
from rmqtool.store.confinement import WAYS
from rmqtool.store.rocksdb_frames import LONG, BadFrame
from rmqtool.store.rocksdb_idle import LACKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from rmqtool.store.rocksdb_frames import RowBatch

PACKAGE: Final = "rocksdict"
INSTALL: Final = "pip install rocksdict"
PACKAGES: Final = os.path.dirname(__file__).rpartition("/rmqtool/")[0]  # noqa: PTH120 - a str
# A program: nothing of it is imported. It finds modules where this process found them.
PROGRAM: Final = (
    "import sys; sys.path[:] = {!r}; from rmqtool.writing.rocksdb_keeper import main;"
    " sys.exit(main())"
)
# Never from the current directory, nor from the user's own, nor by what a site does at each start.
FLAGS: Final = ("-P", "-s", "-S")
# What the interpreter itself may need to start, and where temporary files belong.
ENVIRONMENT: Final = (
    *("PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("TMPDIR", "TEMP", "TMP"),
)
SILENCE_SECONDS = 60.0  # without a byte from the process: it hangs
WHY: Final = {
    -signal.SIGABRT: ": they are broken, or need more memory than such files may take",
    -signal.SIGXCPU: ": they take more time of a processor than such files may take",
}
READ_BYTES: Final = 1 << 20
LARGEST_REASON: Final = 1000  # characters
CLOSED: Final = "the database was closed"
MEMORY_BYTES = 4 << 30  # at most
LEAST_MEMORY: Final = 512 << 20


class CellFailed(Exception):
    """RocksDB refused, or its process gave no answer, or none that can be; its text says why."""


class Cell:
    """A process that runs RocksDB.

    Args:
        order: for `rocksdb_keeper`.
        handles: what the order speaks of, open; they may be closed afterwards.
        silence: seconds without a byte before it hangs; None for what is usual.
    """

    def __init__(
        self, order: dict[str, Any], handles: Sequence[int], silence: float | None = None
    ) -> None:
        """Start it.

        Raises:
            EngineMissing: the library is not installed.
            CellFailed: it cannot be started.
        """
        from importlib.util import find_spec

        if find_spec(PACKAGE) is None:
            raise EngineMissing(needs=f"{PACKAGE}, which opens RocksDB databases", install=INSTALL)
        try:
            self.process = _start(handles)
        except OSError as error:
            message = f"its process cannot be started: {error}"
            raise CellFailed(message) from error
        self._silence = SILENCE_SECONDS if silence is None else silence
        self.seconds = 0.0  # of a processor that it took, once it has ended
        self._code: int | None = None  # how it has ended; None before
        self.tell(order)

    def tell(self, content: dict[str, Any]) -> None:
        """Send a message. Raises CellFailed: the process has ended."""
        self.write([rocksdb_frames.message(content)])

    def write(self, parts: Sequence[Buffer]) -> None:
        """Send bytes. Raises CellFailed: the process has ended."""
        stdin = self.process.stdin
        if stdin is None or stdin.closed:
            raise CellFailed(CLOSED)
        try:
            for part in parts:
                left = memoryview(part).cast("B")
                while left:
                    left = left[stdin.write(left) :]
        except OSError as error:
            raise self._ended() from error

    def read(self, longest: int = LONG) -> RowBatch | dict[str, Any]:
        """Read rows, or a message.

        Args:
            longest: bytes that a value may have.

        Raises:
            CellFailed: the process has ended, is silent, or answers nonsense.
        """
        try:
            return rocksdb_frames.read_frame(self._read, longest)
        except BadFrame as error:
            raise self.stopped(str(error)) from error

    def answer(self) -> dict[str, Any]:
        """Read a message that is no error. Raises CellFailed: it is one, or does not come."""
        answer = self.read()
        if not isinstance(answer, dict):
            reason = "it returns rows that were not requested"
            raise self.stopped(reason)
        if "error" in answer:
            raise CellFailed(str(answer["error"])[:LARGEST_REASON])
        lacking = answer.get("lacking")
        LACKING.update(way for way in WAYS if isinstance(lacking, list) and way in lacking)
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._status(os.WNOHANG) is None

    def end(self) -> None:
        """End the process; twice does no harm."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self._code is None:
            self.process.terminate()
        self._status()

    @property
    def took_too_long(self) -> bool:
        """Whether it was ended as it took more time of a processor than it may."""
        return self._code == -signal.SIGXCPU

    def _status(self, options: int = 0) -> int | None:
        """Give how the process has ended, and note what it took; None while it runs."""
        if self._code is not None:
            return self._code
        try:
            pid, status, used = os.wait4(self.process.pid, options)
        except ChildProcessError:  # another thread was faster
            self._code = self.process.poll() if options else self.process.wait()
        else:
            if pid:
                self._code = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.seconds = used.ru_utime + used.ru_stime
        return self._code

    def wait(self) -> None:
        """Wait for the end of a process that was told to end."""
        self._ended()

    def _read(self, length: int) -> bytes:
        """Read from the process, which has to say something from time to time."""
        stdout = self.process.stdout
        if stdout is None or stdout.closed:
            raise CellFailed(CLOSED)
        parts, descriptor = [], stdout.fileno()
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        while length:
            if not waiting.poll(self._silence * 1000):
                reason = f"it gave no answer for {self._silence:g} s"
                raise self.stopped(reason)
            part = os.read(descriptor, min(length, READ_BYTES))
            if not part:
                raise self._ended()
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stopped(self, reason: str) -> CellFailed:
        """End the process, for a reason; give what to raise."""
        self.process.terminate()
        self._ended()
        return CellFailed(f"RocksDB's process was stopped: {reason}")

    def _ended(self) -> CellFailed:
        """Say how the process has ended."""
        code = self._status() or 0
        self.end()
        reason = f"RocksDB's process ended, status {code}, on these files"
        return CellFailed(reason + WHY.get(code, ""))


def limits(memory: int, seconds: int, descriptors: int, file_bytes: int = 0) -> tuple[int, ...]:
    """Give the limits of a process in the order of `confinement.Limits`.

    Args:
        memory: bytes beside what it needs in any case.
        seconds: of a processor.
        descriptors: files that it keeps open.
        file_bytes: of a file that it writes.
    """
    return min(MEMORY_BYTES, LEAST_MEMORY + memory), seconds, descriptors, file_bytes


def environment() -> dict[str, str]:
    """Give what the process is told about its surroundings: no word of the user's."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _start(handles: Sequence[int]) -> subprocess.Popen[bytes]:
    paths = [PACKAGES, *(path for path in sys.path if path)]
    flags = [*FLAGS, *(["-B"] if sys.dont_write_bytecode else [])]
    if sys.pycache_prefix:
        flags += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, *flags, "-c", PROGRAM.format(paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        pass_fds=handles,
        bufsize=0,
    )
