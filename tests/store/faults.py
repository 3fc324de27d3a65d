"""A disk that fails, and a process that is killed, at the n-th thing it asks of the system."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast
from unittest import mock

from rmqtool.machine import calls
from rmqtool.writing import staging, system_calls
from rmqtool.writing.directory import Spot

CHANGING = (
    "mkdir", "rmdir", "unlink", "rename", "replace", "ftruncate", "pwrite", "fsync", "utime",
    "chown", "chmod", "fchown", "fchmod", "symlink",
)  # fmt: skip
LISTING = ("scandir", "listdir")
OF_TWO = ("rename", "replace", "_rename")  # names
ASKING = ("lstat", "stat", "fstat", "readlink", *LISTING, "pread", "lseek")
CREATING = os.O_CREAT | os.O_TRUNC
PERSISTENT = 10**9  # operations that fail, beginning with the n-th
NO_EXCHANGE = 2  # RENAME_EXCHANGE
_readlink = os.readlink  # what nobody has put something in the place of


def _no_calls() -> None:
    """Give kernels no function of the C library."""


class Faults:
    """Counts what is asked of the system and does something at a certain one.

    Args:
        at: number of the operation, from 0; a large one only counts.
        action: called at that operation with (call, arguments) instead of it.
        reads: whether operations that change nothing count, too.
        lasting: operations that fail, from `at` on.
        entries: whether to ask an entry of a listing for its facts counts, too, and paths are kept.

    Attributes:
        count: operations so far.
        seen: their names.
        named: numbers of those that look up a name, or list names; the others have a descriptor
            alone, for which it is all the same what has become of names.
        paths: of each operation, what it looks up, or has open; with `entries` only.
    """

    def __init__(
        self,
        at: int = PERSISTENT,
        action: Callable[..., object] | None = None,
        *,
        reads: bool = False,
        lasting: int = 1,
        entries: bool = False,
    ) -> None:
        self.count = 0
        self.seen: list[str] = []
        self.named: list[int] = []
        self.paths: list[list[str]] = []
        self._at, self._action, self._reads = at, action, reads
        self._lasting, self._entries = lasting, entries

    @contextmanager
    def injected(self) -> Iterator[None]:
        """Let the operations of this process pass through here."""
        names = (*CHANGING, *ASKING) if self._reads else CHANGING
        patches = [mock.patch.object(os, name, self._passing(getattr(os, name))) for name in names]
        patches.append(mock.patch.object(os, "open", self._opening(os.open)))
        if self._reads:  # what kernels ask does not come by
            patches.append(mock.patch.object(calls, "calls", new=_no_calls))
        if self._entries:
            patches.append(mock.patch.object(os, "scandir", self._scanning(os.scandir)))
        for owner, name in ((system_calls, "_rename"), (staging, "sync_file_system")):
            call = self._passing(getattr(owner, name))
            patches.append(mock.patch.object(owner, name, call))
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

    def _scanning(
        self, call: Callable[..., AbstractContextManager[Iterator[os.DirEntry[str]]]]
    ) -> Callable[..., object]:
        passing = self._passing(call)

        @contextmanager
        def scanning(*args: object) -> Iterator[Iterator[object]]:
            (where,) = _looked_up(call.__name__, args or (".",), {})
            with cast(
                "AbstractContextManager[Iterator[os.DirEntry[str]]]", passing(*args)
            ) as found:
                yield (_Entry(one, f"{where}/{one.name}", self._pass) for one in found)

        return scanning

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
        if self._entries:
            self.paths.append(_looked_up(call.__name__, args, options))
        if not args or not isinstance(args[0], int) or call.__name__ in LISTING:
            self.named.append(number)
        if self._action is not None and self._at <= number < self._at + self._lasting:
            return self._action(_with(call, options), args)
        return call(*args, **options)


class _Entry:
    """An entry of a listing, which asks the system no question behind our back."""

    def __init__(self, entry: os.DirEntry[str], path: str, passing: Callable[..., object]) -> None:
        self._entry, self._path, self._passing = entry, path, passing

    def __getattr__(self, name: str) -> object:
        return getattr(self._entry, name)

    def stat(self, *, follow_symlinks: bool = True) -> object:
        """Look the name up, as the entry would."""

        def entry_stat(_: str) -> os.stat_result:
            return self._entry.stat(follow_symlinks=follow_symlinks)

        return self._passing(entry_stat, (self._path,), {})


def _looked_up(call: str, args: tuple[object, ...], options: dict[str, object]) -> list[str]:
    """Give the paths that a call is about: those of its descriptors, and of names below them."""
    args = args[: 2 if call in OF_TWO else 1]
    first, second = options.get("src_dir_fd"), options.get("dst_dir_fd")
    bases = (options.get("dir_fd", first), second)
    found = []
    for one, base in zip(args, bases, strict=False):
        if isinstance(one, Spot):
            found.append(f"{_path_of(one.directory.handle)}/{one.name}")
        elif isinstance(one, int):
            found.append(_path_of(one))
        elif isinstance(one, str | os.PathLike):
            above = _path_of(base) if isinstance(base, int) else os.getcwd()  # noqa: PTH109
            found.append(os.path.join(above, os.fspath(one)))  # noqa: PTH118 - of a str
    return found


def _path_of(handle: int) -> str:
    """Give the path of what is open; an empty one when it is closed, and the call will fail."""
    return _readlink(f"/proc/self/fd/{handle}") if handle >= 0 else ""


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


@contextmanager
def before_call(name: str, look: Callable[[int], None]) -> Iterator[None]:
    """Let kernels ask a function before they call one of the C library.

    Args:
        name: which, a field of `Calls`.
        look: takes the first argument; an OSError is what the kernel gets for an answer.
    """
    real = calls.calls()
    if real is None:
        yield
        return
    kind = ctypes.CFUNCTYPE(*[ctypes.c_long] * 6, use_errno=True)
    plain = kind(getattr(real, name))

    def instead(*arguments: int) -> int:
        try:
            look(arguments[0])
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1
        return int(plain(*arguments))

    routine = kind(instead)
    address = ctypes.cast(routine, ctypes.c_void_p).value or 0
    with mock.patch.object(calls, "calls", return_value=real._replace(**{name: address})):
        yield


@contextmanager
def bad_sector(path: Path) -> Iterator[None]:
    """Let a file open, but not be read."""
    real_pread, real_preadv = os.pread, os.preadv
    number = path.stat().st_ino

    def refuse(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def pread(descriptor: int, *arguments: int) -> bytes:
        refuse(descriptor)
        return real_pread(descriptor, *arguments)

    def preadv(descriptor: int, buffers: list[memoryview], position: int) -> int:
        refuse(descriptor)
        return real_preadv(descriptor, buffers, position)

    with (
        mock.patch.object(os, "pread", pread),
        mock.patch.object(os, "preadv", preadv),
        before_call("pread", refuse),
    ):
        yield
