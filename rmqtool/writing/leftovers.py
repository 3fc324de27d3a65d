"""Temporary directories of this user: held while their process lives, and removed by a later one.

A process that is killed removes nothing. So each of its temporary directories is locked as long as
it, or a child of it, has the directory open; the system then lets go. The next process removes what
has our kind of name, belongs to this user alone, is locked by nobody and is not brand-new.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from typing import Final

PREFIX: Final = "rmqtool-run-"  # a directory of an earlier version, without a lock, has another one
_NAME: Final = re.compile(rf"{PREFIX}[a-z0-9_-]{{8,40}}")
_NEW_SECONDS: Final = 60  # between its making and its lock nothing takes so long
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_HELD: Final[list[int]] = []  # open until this process ends


def hold(path: str) -> None:
    """Lock a directory for the rest of this process, and of its children."""
    with suppress(OSError):  # a file system without locks: it stays where it is
        handle = os.open(path, _DIRECTORY)
        _HELD.append(handle)
        fcntl.flock(handle, fcntl.LOCK_SH)


def sweep(above: str) -> None:
    """Remove what killed processes of this user have left in a directory for temporary files."""
    with suppress(OSError):
        with os.scandir(above) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError):
                _remove(above, name)


def _remove(above: str, name: str) -> None:
    path = f"{above}/{name}"
    handle = os.open(path, _DIRECTORY)
    try:
        facts = os.fstat(handle)
        is_ours = facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS_WRITE
        if not is_ours or time.time() - facts.st_ctime < _NEW_SECONDS:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: somebody lives
        from shutil import rmtree

        rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
