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
    import re
    from collections.abc import Iterator

ROOT: Final = 0
LARGEST: Final = 16 << 20  # bytes of a file that is read
PRIVATE: Final = 0o700
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
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
    handle = os.open("/", _STEP)
    try:
        _refuse(os.fstat(handle), "/", is_last=False)
        place = ""
        *above, last = os.path.realpath(path).split("/")[1:]
        for part in (*above, last):
            inner = _enter(handle, part, makes=makes, mode=mode)
            os.close(handle)
            handle, place = inner, f"{place}/{part}"
            _refuse(os.fstat(handle), place, is_last=part is last)
        yield handle
    finally:
        os.close(handle)


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


def read(directory: int, name: str) -> bytes:
    """Read a file that only root or the user can have written; no bytes for any other.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FILE, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        is_trusted = (
            stat.S_ISREG(facts.st_mode)
            and is_ours(facts)
            and not facts.st_mode & OTHERS_WRITE
            and facts.st_size <= LARGEST
        )
        return file.read() if is_trusted else b""


def put(directory: int, name: str, content: bytes, mode: int) -> None:
    """Write a file, in place of one of that name; others see all or nothing of it.

    Raises:
        OSError: it cannot be written.
    """
    new = f"{name}.{os.urandom(8).hex()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)  # whatever the umask takes away
        os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise


def forget(directory: int, ours: re.Pattern[str], before: float) -> None:
    """Remove files that nobody has read or written since a moment; whoever reads one has it whole.

    Args:
        directory: where.
        ours: what their names match; no other file is touched.
        before: s since 1970.
    """
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with os.scandir(readable) as entries:
            names = [entry.name for entry in entries if ours.fullmatch(entry.name)]
    finally:
        os.close(readable)
    for name in names:
        with suppress(OSError):  # somebody else is removing it
            facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if max(facts.st_atime, facts.st_mtime) < before:
                os.unlink(name, dir_fd=directory)
