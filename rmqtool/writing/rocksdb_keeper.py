"""The program in which RocksDB runs: it makes a cell, and cleans up after what happens in it.

RocksDB takes names of files, may end its process or never answer on damaged files, and writes into
the directory that it opens. So `store.rocksdb_cell` starts this module as a program, with open
files, and says on its first line what they are. To read, it makes a directory for this user alone,
with a link to each open file: whoever renames what meanwhile, the link leads to that file. A child
of it, which is confined before it opens anything, then answers: see `rocksdb_server`. When the
child ends, of itself or because somebody has had enough, the directory goes. This process never
touches the database, so it always can: a signal that would end it ends the child alone.

To write, it is confined to an open directory that others cannot enter: see `rocksdb_maker`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rmqtool.store import rocksdb_frames
from rmqtool.store.confinement import NOWHERE, Limits, Room, confine
from rmqtool.writing.leftovers import PREFIX, hold, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN_FILE: Final = "/proc/self/fd/{}"
OWN_CONFIG: Final = "rocksdict-config.json"  # that the library writes at each opening
SET_NEW_HANDLER: Final = "_ZSt15set_new_handlerPFvvE"  # std::set_new_handler of C++
PART_BYTES: Final = 1 << 20
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")  # as tempfile knows them, which is slow to load
USUAL: Final = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - a directory of its own is made there
PRIVATE: Final = 0o700
READABLE: Final = 0o755  # for a child that is another user; names of links are no secret
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> int:
    """Do what the first message says; give the status of the process that ran RocksDB."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until there is a child to end
    order = rocksdb_frames.read_frame(_read)
    assert isinstance(order, dict)  # noqa: S101 - our own program sends it
    if "directory" in order:
        return _be(order, order["directory"])
    with _room() as directory:
        _fill(directory, order)
        child = os.fork()
        if not child:
            _answer(order, directory)
        status = _end_of(child)
    if status < 0:  # tell as what the child died of
        with suppress(OSError):  # SIGKILL has no other way
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


@contextmanager
def _room() -> Iterator[int]:
    """Make a directory that nobody else can write into; it goes when the block ends.

    Raises:
        OSError: none can be made.
    """
    path = _make()
    hold(path)
    directory = os.open(path, _DIRECTORY)
    try:
        yield directory
    finally:
        with suppress(OSError):
            with os.scandir(directory) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                os.unlink(name, dir_fd=directory)
            os.rmdir(path)  # noqa: PTH106 - pathlib takes as long to load as all else
        os.close(directory)


def _make() -> str:
    """Make a directory of a name that nobody can guess, where temporary files belong."""
    places = [*filter(None, map(os.environ.get, TEMPORARY)), *USUAL]
    name = f"{PREFIX}rocksdb-{os.urandom(12).hex()}"
    for place in places:
        sweep(place)
        with suppress(OSError):
            os.mkdir(f"{place}/{name}", PRIVATE)  # noqa: PTH102 - likewise
            return f"{place}/{name}"
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), places[0])


def _fill(directory: int, order: dict[str, Any]) -> None:
    """Make links to open files, and copies of what follows on stdin."""
    for name, handle in order["links"].items():
        os.symlink(OPEN_FILE.format(handle), name, dir_fd=directory)
    os.symlink(NOWHERE, OWN_CONFIG, dir_fd=directory)
    for name, length in order["copies"].items():
        _copy(directory, name, length, order["user"])
    if order["user"] is not None:
        os.fchmod(directory, READABLE)


def _copy(directory: int, name: str, length: int, user: int | None) -> None:
    with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=directory), "wb") as copy:
        if user is not None:
            os.fchown(copy.fileno(), user, user)
        copy.truncate(length)
        for position in range(0, length, PART_BYTES):
            part = _read(min(PART_BYTES, length - position))
            if part.count(0) == len(part):
                copy.seek(len(part), os.SEEK_CUR)  # a hole stays one
            else:
                copy.write(part)


def _end_of(child: int) -> int:
    """Wait for the child, which a signal to this process kills; give how it ended.

    From then on no signal is taken: whoever has the answer ends this process, too, and most likely
    while it removes the directory.
    """

    def kill(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    for number in ENDING:
        signal.signal(number, kill)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    _watch(child)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its number is not given to another one
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _watch(child: int) -> None:
    """Wait for the end of the child, and kill it when nobody is left who could ask it anything.

    It may be at work for a while then, and would learn of that when it has an answer.
    """
    with suppress(AttributeError, OSError):  # macOS, and Linux before 5.3, have no such handle
        handle = os.pidfd_open(child)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        waiting.register(sys.stdin.fileno(), 0)  # the end of who writes is told in any case
        if handle not in dict(waiting.poll()):
            os.kill(child, signal.SIGKILL)
        os.close(handle)


def _answer(order: dict[str, Any], directory: int) -> NoReturn:
    """Be the child; nothing of what its parent has to clean up is this process's to clean."""
    code = 1
    try:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        code = _be(order, directory)
    finally:
        os._exit(code)


def _be(order: dict[str, Any], directory: int) -> int:
    """Go into the cell, and run RocksDB there until nobody asks any more."""
    _load()
    is_writer = "directory" in order
    if is_writer:
        from rmqtool.writing.rocksdb_maker import make as work
    else:
        from rmqtool.store.rocksdb_server import serve as work
    files = tuple(order.get("links", {}).values())
    room = Room(directory, files, is_writer, order["user"], Limits(*order["limits"]))
    out = sys.stdout.buffer
    with suppress(EOFError, BrokenPipeError):
        work(order | {"lacking": confine(room)}, _read, out)
    return 0


def _load() -> None:
    """Load what is needed later: no module can be read from inside the cell."""
    import pickle  # noqa: F401 - of the library, when it opens a database

    import rocksdict  # noqa: F401

    _end_without_memory()


def _end_without_memory() -> None:
    """Let a length that no memory holds end this process: an exception would leave it waiting."""
    import ctypes

    with suppress(OSError, AttributeError):  # a library that brings its own of this
        library = ctypes.CDLL("libstdc++.so.6")
        handler = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p)
        getattr(library, SET_NEW_HANDLER)(handler)


def _read(length: int) -> bytes:
    """Read from stdin. Raises EOFError: nobody writes there any more."""
    raw = sys.stdin.buffer.read(length)
    if len(raw) < length:
        raise EOFError
    return raw
