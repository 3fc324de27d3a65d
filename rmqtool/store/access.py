"""Whose the files of a store are, and which of them a user cannot use.

Brokers open mapped files, the checkpoint and the lock for reading and writing, whatever they then
do with them. Source: DefaultMappedFile#init, StoreCheckpoint, DefaultMessageStore, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import grp
import pwd
import stat
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.artefact import ArtefactKind
    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

_ROOT: Final = 0
_READ_WRITE: Final = 0o6
_LIST: Final = 0o5
_EVERYTHING: Final = 0o7


class User(NamedTuple):
    """Somebody who may run a broker."""

    name: str  # or the number, where the system knows no name
    uid: int  # number of the user
    groups: frozenset[int]  # numbers of the groups


class Held(NamedTuple):
    """A file or directory and whose it is."""

    path: str  # relative to the store root
    kind: ArtefactKind  # of the artefact that it belongs to
    is_directory: bool  # whether it is one
    owner: int  # number of the user
    group: int  # number of the group
    mode: int  # permission bits

    def allows(self, user: User, wanted: int | None = None) -> bool:
        """Tell whether a user may do what brokers do with it, by owner and mode alone.

        Args:
            user: who.
            wanted: permission bits; None is reading and writing, entering of a directory, too.
        """
        if user.uid == _ROOT:
            return True
        if wanted is None:
            wanted = _EVERYTHING if self.is_directory else _READ_WRITE
        shift = 6 if self.owner == user.uid else 3 if self.group in user.groups else 0
        return self.mode >> shift & wanted == wanted

    def can_be_listed(self, user: User) -> bool:
        """Tell whether a user can see what lies in a directory."""
        return self.allows(user, _LIST)


def user_named(name: str) -> User:
    """Give a user of this machine by name or number.

    Raises:
        UsageError: there is not of that name.
    """
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        if not name.isdecimal():
            reason = f"this machine has no user {name!r}; give the number of the user"
            raise UsageError(option="--as-user", reason=reason) from None
        return _numbered(int(name))
    return _of(found)


def usual_user(held: list[Held]) -> User | None:
    """Give whoever owns most of a store; None for a store without owners."""
    counts = Counter(one.owner for one in held)
    return _numbered(counts.most_common(1)[0][0]) if counts else None


def owner_name(uid: int) -> str:
    """Give the name of a user, or the number where there is not one."""
    return _numbered(uid).name


def held(store: Store) -> list[Held]:
    """Say whose the artefacts of a store are, by path; nothing of a store that is not local."""
    found: dict[str, Held] = {}
    for branch in store.branches:
        for one in _below(branch.place, branch.path, branch.kind):
            found.setdefault(one.path, one)
    return [found[path] for path in sorted(found)]


def _below(place: Place, path: str, kind: ArtefactKind) -> Iterator[Held]:
    with suppress(UnreadablePath):  # said elsewhere
        entry = place.stat()
        waiting = [(place, path, entry)] if entry is not None else []
        while waiting:
            place, path, entry = waiting.pop()
            if (one := _held(path, kind, entry)) is None:
                continue
            yield one
            if one.is_directory:
                with suppress(UnreadablePath):
                    waiting += [
                        (place.child(below.name), f"{path}/{printable(below.name)}", below)
                        for below in place.entries()
                    ]


def _held(path: str, kind: ArtefactKind, entry: Entry) -> Held | None:
    if entry.owner is None or entry.kind not in {EntryKind.FILE, EntryKind.DIRECTORY}:
        return None
    is_directory = entry.kind is EntryKind.DIRECTORY
    return Held(path, kind, is_directory, entry.owner, entry.group, stat.S_IMODE(entry.mode))


def _numbered(uid: int) -> User:
    try:
        return _of(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        return User(str(uid), uid, frozenset())


def _of(found: pwd.struct_passwd) -> User:
    groups = {one.gr_gid for one in grp.getgrall() if found.pw_name in one.gr_mem}
    return User(found.pw_name, found.pw_uid, frozenset({found.pw_gid, *groups}))
