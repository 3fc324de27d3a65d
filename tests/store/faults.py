"""A disk that fails, and a process that is killed, at the n-th thing it asks of the system."""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from unittest import mock

from rmqtool.writing import system_calls

CHANGING = (
    "mkdir", "rmdir", "unlink", "rename", "replace", "ftruncate", "pwrite", "fsync", "utime",
    "chown", "chmod", "fchown", "fchmod",
)  # fmt: skip
ASKING = ("lstat", "stat", "fstat", "scandir", "listdir", "pread", "lseek")
CREATING = os.O_CREAT | os.O_TRUNC
PERSISTENT = 10**9  # operations that fail, beginning with the n-th
PRODUCT = f"{os.sep}rmqtool{os.sep}"
KIND_DEPTH = 4  # lines that tell two calls apart
NO_EXCHANGE = 2  # RENAME_EXCHANGE


class Faults:
    """Counts what is asked of the system and does something at a certain one.

    Args:
        at: number of the operation, from 0; a large one only counts.
        action: called at that operation with (call, arguments) instead of it.
        reads: whether operations that change nothing count, too.
        lasting: operations that fail, from `at` on.

    Attributes:
        count: operations so far.
        seen: their names.
        named: numbers of those that look up a name; the others have a descriptor alone, for which
            it is all the same what has become of names.
        kinds: of each operation the call, and from where rmqtool makes it.
    """

    def __init__(
        self,
        at: int = PERSISTENT,
        action: Callable[..., object] | None = None,
        *,
        reads: bool = False,
        lasting: int = 1,
    ) -> None:
        self.count = 0
        self.seen: list[str] = []
        self.named: list[int] = []
        self.kinds: list[str] = []
        self._at, self._action, self._reads = at, action, reads
        self._lasting = lasting

    @contextmanager
    def injected(self) -> Iterator[None]:
        """Let the operations of this process pass through here."""
        names = (*CHANGING, *ASKING) if self._reads else CHANGING
        patches = [mock.patch.object(os, name, self._passing(getattr(os, name))) for name in names]
        patches.append(mock.patch.object(os, "open", self._opening(os.open)))
        for name in ("_rename", "sync_file_system"):
            call = self._passing(getattr(system_calls, name))
            patches.append(mock.patch.object(system_calls, name, call))
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()

    def _passing(self, call: Callable[..., object]) -> Callable[..., object]:
        def passing(*args: object, **options: object) -> object:
            return self._pass(call, args, options)

        return passing

    def _opening(self, call: Callable[..., object]) -> Callable[..., object]:
        def opening(path: object, flags: int, *args: object, **options: object) -> object:
            if self._reads or flags & CREATING:
                return self._pass(call, (path, flags, *args), options)
            return call(path, flags, *args, **options)

        return opening

    def _pass(
        self, call: Callable[..., object], args: tuple[object, ...], options: dict[str, object]
    ) -> object:
        number = self.count
        self.count += 1
        self.seen.append(call.__name__)
        if self._reads:
            self.kinds.append(f"{call.__name__} {_place()}")
        if not args or not isinstance(args[0], int):
            self.named.append(number)
        if self._action is not None and self._at <= number < self._at + self._lasting:
            return self._action(_with(call, options), args)
        return call(*args, **options)


def _place() -> str:
    """Name the lines of rmqtool that lead to a call: the nearest, and those that call them."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented; traceback is slow
    lines: list[str] = []
    while frame is not None and len(lines) < KIND_DEPTH:
        if PRODUCT in frame.f_code.co_filename:
            lines.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " ".join(lines)


def _with(call: Callable[..., object], options: dict[str, object]) -> Callable[..., object]:
    """Give a call that has its options already."""

    @functools.wraps(call)
    def bound(*args: object) -> object:
        return call(*args, **options)

    return bound


def no_space(call: Callable[..., object], args: tuple[object, ...]) -> object:
    """Fail as a full disk does."""
    del call, args
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def bad_disk(call: Callable[..., object], args: tuple[object, ...]) -> object:
    """Fail as a broken disk does."""
    del call, args
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def kill(call: Callable[..., object], args: tuple[object, ...]) -> object:
    """End this process at once; a write is done by half before that."""
    if call.__name__ == "pwrite":
        handle, data, position = args
        assert isinstance(data, memoryview)
        call(handle, data[: len(data) // 2], position)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def operations(work: Callable[[], object], *, reads: bool = False) -> int:
    """Count what a piece of work asks of the system."""
    faults = Faults(reads=reads)
    with faults.injected():
        work()
    return faults.count


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do a piece of work in a process that is killed at an operation.

    Returns:
        Whether it was; False when it had ended before that.
    """
    child = os.fork()
    if not child:
        try:
            with Faults(number, kill).injected():
                work()
        except BaseException:  # noqa: BLE001 - the parent asks how it ended
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert signal.SIGKILL == os.WTERMSIG(status)
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed before it was killed"
    return False


@contextmanager
def without_exchange() -> Iterator[None]:
    """Take from the system what swaps two names in one step, as on file systems without it."""
    original = system_calls._rename  # noqa: SLF001 - the seam to the system

    def plain(source: object, target: object, flags: int) -> bool:
        if flags == NO_EXCHANGE:
            return False
        return original(source, target, flags)  # type: ignore[arg-type]

    with mock.patch.object(system_calls, "_rename", plain):
        yield
