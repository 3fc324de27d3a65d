"""What a directory holds: names, their kinds, and what the operating system tells of each."""

from __future__ import annotations

import enum
import os
import stat
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


class EntryKind(enum.StrEnum):
    """What a name in a directory stands for."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"  # FIFO, socket, device: never opened


class Entry(NamedTuple):
    """One name in a directory, as it was when it was listed."""

    name: str  # last part of the path
    kind: EntryKind  # of the name itself; a link is a link, whatever it leads to
    size: int  # bytes, as the file says
    mtime_ns: int  # last change, ns since 1970 UTC
    allocated: int  # bytes that the disk really holds; less than `size` for a sparse file
    inode: int = 0  # number of the file in its file system; 0 where there is not one
    owner: int | None = None  # number of the user that it belongs to; None without one
    group: int = 0  # number of its group
    mode: int = 0  # permission bits, and what the operating system keeps beside them

    @property
    def stored(self) -> int:
        """Bytes that somebody really sent: a hole may be of any length."""
        return min(self.size, self.allocated)

    @property
    def mtime_ms(self) -> int:
        """Last change, ms since 1970 UTC."""
        return self.mtime_ns // 1_000_000


def stored_bytes(facts: os.stat_result) -> int:
    """Give the bytes of a file that somebody really sent: a hole may be of any length."""
    return min(facts.st_size, getattr(facts, "st_blocks", 0) * 512)


def printable(name: str) -> str:
    """Give a file name as text that can be encoded: bytes that are not UTF-8 show as hex."""
    if name.isascii():  # nearly every name
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def listed(directory: str | int, seen: Callable[[os.DirEntry[str]], Answer]) -> list[Answer]:
    """List a directory, or an open one, again where a signal ends that: Python does so elsewhere.

    Raises:
        OSError: it is no directory, or may not be listed.
    """
    while True:
        try:
            with os.scandir(directory) as entries:
                return [seen(entry) for entry in entries]
        except InterruptedError:
            continue


def entry_of(listed: os.DirEntry[str]) -> Entry | None:
    """Say what a name stands for; None where it vanished meanwhile."""
    try:
        return entry(listed.name, listed.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None


def whose(listed: os.DirEntry[str]) -> tuple[str, int, int, int] | None:
    """Give name, mode, owner and group; None where it vanished meanwhile."""
    try:
        facts = listed.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return listed.name, facts.st_mode, facts.st_uid, facts.st_gid


def entry(name: str, facts: os.stat_result) -> Entry:
    """Say what the operating system tells of a name."""
    allocated = getattr(facts, "st_blocks", 0) * 512
    kind = kind_of(facts.st_mode)
    whose = (facts.st_uid, facts.st_gid, facts.st_mode)
    return Entry(name, kind, facts.st_size, facts.st_mtime_ns, allocated, facts.st_ino, *whose)


def named(listed: os.DirEntry[str]) -> tuple[str, EntryKind]:
    """Give a name and its kind, without asking for more."""
    if listed.is_dir(follow_symlinks=False):
        return listed.name, EntryKind.DIRECTORY
    if listed.is_file(follow_symlinks=False):
        return listed.name, EntryKind.FILE
    return listed.name, EntryKind.LINK if listed.is_symlink() else EntryKind.OTHER


def kind_of(mode: int) -> EntryKind:
    """Give the kind that a mode tells."""
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER
