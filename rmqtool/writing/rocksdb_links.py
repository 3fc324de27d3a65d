"""The process that keeps a directory of links for RocksDB, and removes it whatever happens.

RocksDB writes a file into the directory that it opens, and may end its process, or never answer,
on damaged files. So `store.rocksdb_database` starts this module as a program, with the names of
the files on its first line. It makes a directory for this user alone (0700), and links in it. A
child of it has a limit of memory, opens the database there and answers: see `rocksdb_server`.
When the child ends, of itself or because somebody has had enough, the directory goes. This process
itself never touches the database, so it always can: a signal that would end it ends the child
alone, and changes nothing about what is left to do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, Final, NoReturn

from rmqtool.store.rocksdb_server import PREFIX, serve

PART_BYTES: Final = 1 << 20
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> int:
    """Make the directory that the first line describes, and let a child answer what follows.

    The line is an object: `links` gives the place that each name leads to, `copies` the length of
    each file that follows in bytes, in this order; `mode` and `memory` are for `serve`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until there is a child to end
    _leave_no_core()
    asked = sys.stdin.buffer
    wanted = json.loads(asked.readline())
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as directory:
        _fill(directory, wanted, asked)
        child = os.fork()
        if not child:
            _answer(directory, wanted)
        status = _end_of(child)
    if status < 0:  # tell as what the child died of
        with suppress(OSError):  # SIGKILL has no other way
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


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
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its number is not given to another one
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _leave_no_core() -> None:
    """Let damaged bytes end a process without a copy of its memory on the disk."""
    with suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fill(directory: str, wanted: dict[str, Any], asked: BinaryIO) -> None:
    """Make links to files of this machine, and copies of what is sent."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name, location in wanted["links"].items():
            os.symlink(location, name, dir_fd=handle)
        for name, length in wanted["copies"].items():
            with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=handle), "wb") as copy:
                copy.truncate(length)
                left = length
                while left and (part := asked.read(min(left, PART_BYTES))):
                    if part.count(0) == len(part):
                        copy.seek(len(part), os.SEEK_CUR)  # a hole stays one
                    else:
                        copy.write(part)
                    left -= len(part)
    finally:
        os.close(handle)


def _answer(directory: str, wanted: dict[str, Any]) -> NoReturn:
    """Be the child; nothing of what its parent has to clean up is this process's to clean."""
    code = 1
    try:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        serve(directory, wanted["mode"], wanted["memory"])
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
