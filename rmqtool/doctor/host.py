"""Where a store lies: who owns its files, what the broker may do with them, the disk below it.

Only a store on this machine is looked at. Nothing is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import CLEANS_FORCIBLY
from rmqtool.store.access import held, owner_name, user_named, usual_user

if TYPE_CHECKING:
    from rmqtool.store.tree import Store

# Past diskSpaceCleanForciblyRatio a broker deletes the oldest commitlog files before their time,
# past diskSpaceWarningLevelRatio it refuses messages, too: CleanCommitLogService#isSpaceToDelete of
# DefaultMessageStore, 4.9.3 to 5.5.0.
DELETES_RATIO: Final = 0.85
REFUSES_RATIO: Final = 0.90
# With less than a block a store into a hole of a mapped file is a SIGBUS, at which Java ends. On a
# full disk 5.3.3 did not come up (observed); 4.9.3 came up and refused messages, 5.5.0 took some.
LEAST_FREE: Final = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Host:
    """What is around the files of a store."""

    user: str  # who asks
    owner: str  # who runs the broker; see `store.access`
    # paths that this user cannot read and write, relative to the store root, sorted
    denied: tuple[str, ...]
    is_read_only: bool  # whether the file system of root or log takes no writes
    free: int  # bytes that an ordinary user may still write there, the least of all
    used: float  # share of that file system that is used, 0 to 1
    fullest: str  # a path on that file system; empty where it is that of the store root
    deletes_early: bool  # whether a broker deletes files before their time where it is too full

    @property
    def is_full(self) -> bool:
        """Whether a broker may end as soon as it writes into a hole of a file."""
        return self.free < LEAST_FREE


def host_of(store: Store, as_user: str | None = None) -> Host | None:
    """Look around a store; None where it is on no file system of this machine.

    Args:
        store: the store.
        as_user: who runs the broker, by name or number; None is whoever owns most of the store.

    Raises:
        UsageError: there is no such user.
    """
    if not store.root.is_local:
        return None
    root = store.root.location
    outside = [branch.place.location for branch in store.branches if branch.path.startswith("/")]
    disks = {path: os.statvfs(path) for path in (root, *outside)}
    place = min(disks, key=lambda one: disks[one].f_bavail * disks[one].f_frsize)
    fullest = disks[place]
    taken = fullest.f_blocks - fullest.f_bfree
    everything = held(store)
    broker = usual_user(everything) if as_user is None else user_named(as_user)
    return Host(
        user=owner_name(os.geteuid()),
        owner=broker.name if broker else "",
        denied=tuple(one.path for one in everything if broker and not one.allows(broker)),
        is_read_only=any(disk.f_flag & os.ST_RDONLY for disk in disks.values()),
        free=fullest.f_bavail * fullest.f_frsize,
        used=taken / (taken + fullest.f_bavail) if taken + fullest.f_bavail else 0.0,
        fullest="" if place == root else place,
        deletes_early=CLEANS_FORCIBLY.of(store.broker_conf),
    )
