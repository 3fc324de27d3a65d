"""Directories of the user's own, into which nobody else can have put anything.

What lies in one is run, or is believed. So a directory counts only if it and every directory above
it belongs to root or to whoever runs this, and no other user may write to it. A directory in which
all may write, as /tmp, serves on the way if it is sticky: there nobody can replace what belongs to
another user. Links are resolved first, and the directories that they lead through count. No path
is relative, so nothing depends on the current directory.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rmqtool.writing.directory import OTHERS_WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = 0
PRIVATE: Final = 0o700
# O_PATH asks for no right to read: a directory of homes may be closed to all but those inside.
_STEP: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Untrusted(Exception):
    """A directory into which another user may have put something; its text says why."""


@contextmanager
def opened(path: str, *, makes: bool = False, mode: int = PRIVATE) -> Iterator[int]:
    """Open a directory of the own; give its descriptor, which may serve for `dir_fd` only.

    Args:
        path: absolute.
        makes: make it, and what is missing above it.
        mode: of what is made.

    Raises:
        Untrusted: another user may write there.
        OSError: it is not there, or cannot be made.
    """
    found = os.open("/", _STEP)
    try:
        _refuse(os.fstat(found), "/", is_last=False)
        place = ""
        *above, last = os.path.realpath(path).split("/")[1:]
        for part in (*above, last):
            inner = _enter(found, part, makes=makes, mode=mode)
            os.close(found)
            found, place = inner, f"{place}/{part}"
            _refuse(os.fstat(found), place, is_last=part is last)
        yield found
    finally:
        os.close(found)


def _enter(above: int, name: str, *, makes: bool, mode: int) -> int:
    """Open a directory in another one."""
    try:
        return os.open(name, _STEP, dir_fd=above)
    except FileNotFoundError:
        if not makes:
            raise
    with suppress(FileExistsError):  # another process was first
        os.mkdir(name, PRIVATE, dir_fd=above)
        os.chmod(name, mode, dir_fd=above)  # whatever the umask takes away
    return os.open(name, _STEP, dir_fd=above)


def _refuse(facts: os.stat_result, place: str, *, is_last: bool) -> None:
    """Refuse a directory in which another user may have put something.

    Raises:
        Untrusted: it is one.
    """
    if not is_ours(facts):
        message = f"{place} belongs to another user"
        raise Untrusted(message)
    if not facts.st_mode & OTHERS_WRITE:
        return
    # Many systems give each user a group of his own, and let it write.
    is_own_group = facts.st_gid in {ROOT, os.getegid()} and not facts.st_mode & stat.S_IWOTH
    if is_last or not (is_own_group or facts.st_mode & stat.S_ISVTX):
        message = f"other users may write to {place}"
        raise Untrusted(message)


def is_ours(facts: os.stat_result) -> bool:
    """Say whether a file or directory belongs to root or to whoever runs this."""
    return facts.st_uid in {ROOT, os.geteuid()}
