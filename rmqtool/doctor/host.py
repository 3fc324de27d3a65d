"""Where a store lies: who owns its files, what the broker may do with them, the disk below it.

Only a store on this machine is looked at. Nothing is written.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.store.place import is_remote, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.tree import Store

# A broker writes both; the older one tells who it runs as. Source: DefaultMessageStore, 4.9.3.
OF_THE_BROKER: Final = ("lock", "checkpoint")
UNDO: Final = "rmqtool-undo-"
DIRECTORY, FILE = 0o7, 0o6  # rights that a broker needs: it opens all of its files for writing
ROOT: Final = 0
# Past diskSpaceCleanForciblyRatio a broker deletes the oldest commitlog files before their time,
# past diskSpaceWarningLevelRatio it refuses messages, too: CleanCommitLogService#isSpaceToDelete of
# DefaultMessageStore, 4.9.3 to 5.5.0.
DELETES_RATIO: Final = 0.85
REFUSES_RATIO: Final = 0.90


@dataclass(frozen=True, slots=True)
class Host:
    """What is around the files of a store.

    Attributes:
        user: who asks.
        owner: who owns what the broker writes at each start: the user that the broker runs as.
        denied: paths that this user may not read and write, relative to the store root, sorted.
        is_read_only: whether the file system of root or log takes no writes.
        free: bytes that an ordinary user may still write there, the least of all.
        used: share of that file system that is used, 0 to 1.
    """

    user: str
    owner: str
    denied: tuple[str, ...]
    is_read_only: bool
    free: int
    used: float

    @property
    def obstacle(self) -> str:
        """Why a broker would refuse to start here; empty where nothing stands in its way."""
        if self.is_read_only:
            return "the file system is mounted read-only"
        if self.denied:
            return f"{self.owner} may not read and write {self.denied[0]}"
        return ""


def host_of(store: Store) -> Host | None:
    """Look around a store; None where it is on no file system of this machine.

    Args:
        store: the store.
    """
    root = store.root.location
    if is_remote(root):
        return None
    outside = [one.place.location for one in store.branches if one.path.startswith("/")]
    disks = [os.statvfs(path) for path in (root, *outside)]
    fullest = min(disks, key=lambda one: one.f_bavail * one.f_frsize)
    taken = fullest.f_blocks - fullest.f_bfree
    facts = _facts_of_broker(root)
    return Host(
        user=user_name(os.geteuid()),
        owner=user_name(facts.st_uid),
        denied=tuple(_denied(root, outside, facts)),
        is_read_only=any(one.f_flag & os.ST_RDONLY for one in disks),
        free=fullest.f_bavail * fullest.f_frsize,
        used=taken / (taken + fullest.f_bavail) if taken + fullest.f_bavail else 0.0,
    )


def user_name(number: int) -> str:
    """Give the name of a user; the number of one that this machine does not know."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _facts_of_broker(root: str) -> os.stat_result:
    """Give the facts of what the broker writes at each start, else of the root."""
    for name in OF_THE_BROKER:
        try:
            return os.stat(os.path.join(root, name))  # noqa: PTH116, PTH118 - names of any bytes
        except OSError:
            continue
    return Path(root).stat()


def _denied(root: str, outside: Iterable[str], broker: os.stat_result) -> Iterator[str]:
    """Yield what the broker's user may not use; root may use everything."""
    if broker.st_uid == ROOT:
        return
    groups = _groups(broker)
    found = []
    for top in (root, *outside):
        for path, facts, need in _walk(top):
            if not _may(facts, broker.st_uid, groups, need):
                found.append(printable(os.path.relpath(path, root) if top == root else path))
    yield from sorted(found)


def _walk(top: str) -> Iterator[tuple[str, os.stat_result, int]]:
    """Yield directories and files below one, itself included; what vanishes is left out."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            yield path, Path(path).stat(), DIRECTORY
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.startswith(UNDO):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file():
                        yield entry.path, entry.stat(), FILE
        except OSError:
            continue  # whoever reads it says so


def _groups(broker: os.stat_result) -> frozenset[int]:
    try:
        name, group = pwd.getpwuid(broker.st_uid).pw_name, pwd.getpwuid(broker.st_uid).pw_gid
    except KeyError:
        return frozenset((broker.st_gid,))
    return frozenset(os.getgrouplist(name, group))


def _may(facts: os.stat_result, user: int, groups: frozenset[int], need: int) -> bool:
    """Tell whether a user has all rights that are needed."""
    if facts.st_uid == user:
        rights = facts.st_mode >> 6
    elif facts.st_gid in groups:
        rights = facts.st_mode >> 3
    else:
        rights = facts.st_mode
    return rights & need == need
