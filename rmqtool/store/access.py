"""Whose the files of a store are, and which of them a user cannot use.

Brokers open mapped files, the checkpoint and the lock for reading and writing, whatever they then
do with them. Source: DefaultMappedFile#init, StoreCheckpoint, DefaultMessageStore, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import grp
import pwd
import stat
from collections import Counter, defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import printable
from rmqtool.store.one_look import once

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

    _Whose: TypeAlias = tuple[ArtefactKind, int, int, int]  # kind, mode, owner, group

_ROOT: Final = 0
_READ_WRITE: Final = 0o6
_LIST: Final = 0o5
_EVERYTHING: Final = 0o7


class KnownFiles(Protocol):
    """Directories of queues of which it is known whose they are, each with a file and no more."""

    def names_in(self, path: str) -> Container[str]:
        """Give the names of those in a directory, by its path relative to the store root."""

    def by_rights(self) -> Iterator[tuple[tuple[int, int, int], int, Callable[[], Iterator[str]]]]:
        """Yield mode, owner, group, count of some directories or files, and what gives paths."""


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
        account = pwd.getpwnam(name)
    except (KeyError, ValueError):
        if not name.isdecimal():
            reason = f"this machine has no user {name!r}; give the number of the user"
            raise UsageError(option="--as-user", reason=reason) from None
        return _numbered(int(name))
    return _of(account)


def owner_name(uid: int) -> str:
    """Give the name of a user, or the number where there is not one."""
    return _numbered(uid).name


class Holdings:
    """Whose the artefacts of a store are; nothing is held of a store that is not local.

    Of 100,000 queues few files differ in owner and mode, so the paths of those that do not are
    kept together, and each owner and mode is judged once.

    Args:
        store: that has them; all its directories are listed.
        known: consume queues of which it is known already.
    """

    def __init__(self, store: Store, known: KnownFiles | None = None) -> None:
        self._known = known
        self._paths: dict[_Whose, list[str]] = defaultdict(list)
        self._others: list[tuple[_Whose, int, Callable[[], Iterator[str]]]] = []  # of the known
        for artefact in store.branches:
            self._add(artefact.place, artefact.path, artefact.kind)
        for whose, count, paths in known.by_rights() if known else ():
            self._others.append(((ArtefactKind.CONSUME_QUEUE, *whose), count, paths))

    @classmethod
    def of(cls, store: Store, known: KnownFiles) -> Holdings:
        """Give them; during `one_look` they are listed once."""
        asked = tuple((artefact.place, artefact.path) for artefact in store.branches)
        return once((cls, asked), lambda: cls(store, known))

    def usual_user(self) -> User | None:
        """Give whoever owns most of the store; None for a store without owners."""
        counts: Counter[int] = Counter()
        for (_, _, owner, _), paths in self._paths.items():
            counts[owner] += len(paths)
        for (_, _, owner, _), count, _ in self._others:
            counts[owner] += count
        return _numbered(max(counts, key=lambda uid: (counts[uid], -uid))) if counts else None

    def chosen(self, is_chosen: Callable[[Held], bool]) -> list[Held]:
        """Give the files and directories that are chosen by owner, group, mode and kind, by path.

        Args:
            is_chosen: asked about one of each kind, owner, group and mode.
        """
        held: dict[str, Held] = {}
        alike: list[tuple[_Whose, Callable[[], Iterator[str]]]] = [
            *((whose, partial(iter, paths)) for whose, paths in self._paths.items()),
            *((whose, paths) for whose, _, paths in self._others),
        ]
        for (kind, mode, owner, group), paths in alike:
            whose = (kind, stat.S_ISDIR(mode), owner, group, stat.S_IMODE(mode))
            if is_chosen(Held(next(paths()), *whose)):
                for path in paths():
                    held.setdefault(path, Held(path, *whose))
        return [held[path] for path in sorted(held)]

    def _add(self, place: Place, path: str, kind: ArtefactKind) -> None:
        with suppress(UnreadablePath):  # said elsewhere
            entry = place.stat()
            if entry is None or entry.owner is None:
                return
            self._note(kind, entry.mode, entry.owner, entry.group, path)
            waiting = [(place, path)] if stat.S_ISDIR(entry.mode) else []
            while waiting:
                place, path = waiting.pop()
                with suppress(UnreadablePath):
                    but = self._known.names_in(path) if self._known else ()
                    for name, mode, owner, group in place.owners(but):
                        below = f"{path}/{printable(name)}"
                        self._note(kind, mode, owner, group, below)
                        if stat.S_ISDIR(mode):
                            waiting.append((place.child(name), below))

    def _note(self, kind: ArtefactKind, mode: int, owner: int, group: int, path: str) -> None:
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            self._paths[kind, mode, owner, group].append(path)


def _numbered(uid: int) -> User:
    try:
        return _of(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        return User(str(uid), uid, frozenset())


def _of(account: pwd.struct_passwd) -> User:
    groups = {group.gr_gid for group in grp.getgrall() if account.pw_name in group.gr_mem}
    return User(account.pw_name, account.pw_uid, frozenset({account.pw_gid, *groups}))
