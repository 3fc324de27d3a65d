"""Where machine code may be kept: in directories that nobody else can write to.

What lies there is run. So a directory counts only if no other user could have put anything into
it: it and every directory above it belongs to root or to whoever runs this, and no other user may
write to it. A directory in which all may write, as /tmp, serves on the way if it is sticky: there
nobody can replace what belongs to another user. Links are resolved first, and the directories that
they lead through count. No path is relative, so nothing depends on the current directory.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = 0
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
OWN: Final = "rmqtool"  # the directory in the user's cache
# O_PATH asks for no right to read: a directory of homes may be closed to all but those inside.
_STEP: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Untrusted(Exception):
    """A directory in which no machine code may lie; its text says why."""


class Place(NamedTuple):
    """A directory for machine code, and who may read what is put there.

    Attributes:
        path: absolute.
        directory_mode: of directories that are made.
        file_mode: of files.
    """

    path: str
    directory_mode: int = 0o700
    file_mode: int = 0o600


def installed() -> Place:
    """Give the directory beside the modules, where `rmqtool warm-up` puts code for all users."""
    beside = Path(__file__).resolve().parent / "__pycache__" / "kernels"
    return Place(str(beside), 0o755, 0o644)


def own() -> list[Place]:
    """Give the directories of the user's own, the one to take first first.

    A home that belongs to another user is none: `sudo` may keep that of who called it.
    """
    found = [os.environ.get("NUMBA_CACHE_DIR", ""), _below(os.environ.get("XDG_CACHE_HOME", ""))]
    found.append(_below(os.environ.get("HOME", ""), ".cache"))
    with suppress(KeyError):  # a container may run as a user whom nobody knows
        found.append(_below(pwd.getpwuid(os.geteuid()).pw_dir, ".cache"))
    return [Place(path) for path in dict.fromkeys(found) if path.startswith("/")]


def _below(place: str, *names: str) -> str:
    return "/".join([place, *names, OWN]) if place else ""


@contextmanager
def opened(place: Place, *, makes: bool = False) -> Iterator[int]:
    """Open a directory in which machine code may lie; give its descriptor.

    Args:
        place: which.
        makes: make it, and what is missing above it.

    Raises:
        Untrusted: another user may write there.
        OSError: it is not there, or cannot be made.
    """
    found = os.open("/", _STEP)
    try:
        _refuse(os.fstat(found), "/", is_last=False)
        names = os.path.realpath(place.path).split("/")
        for number in range(1, len(names)):
            inner = _enter(found, names[number], place.directory_mode if makes else None)
            os.close(found)
            found = inner
            is_last = number == len(names) - 1
            _refuse(os.fstat(found), "/".join(names[: number + 1]), is_last=is_last)
        yield found
    finally:
        os.close(found)


def _enter(above: int, name: str, mode: int | None) -> int:
    """Open a directory in another one; make it unless `mode` is None."""
    try:
        return os.open(name, _STEP, dir_fd=above)
    except FileNotFoundError:
        if mode is None:
            raise
    with suppress(FileExistsError):  # another process was first
        os.mkdir(name, 0o700, dir_fd=above)
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
