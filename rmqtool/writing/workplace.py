"""Where an edit in place happens, and what tells one thing that lies there from another.

A path of the store is looked up from the root, which is open, one component after the other. No
link is followed. Where a broker's configuration places part of the store elsewhere, that place is
opened by the name that the configuration gives it, not by a link in the store.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import PlanMismatch, RepairError, Trouble
from rmqtool.store.names import relative_path
from rmqtool.writing.directory import Directory, Spot
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

ASIDE: Final = "aside"
_DIGESTED_BYTES: Final = 1 << 20


class Workplace(NamedTuple):
    """Where an edit happens."""

    root: Directory  # the store root, open
    undo: Directory  # the undo directory, open
    # absolute paths, without links, of what the broker's configuration places outside of the root;
    # nothing else outside of it is ever touched
    elsewhere: tuple[str, ...] = ()
    # whether not even that is: the journal is a copy of the one that was written
    is_confined: bool = False

    @contextmanager
    def spot(self, path: str) -> Iterator[Spot]:
        """Open the directory that holds what a path of the store names.

        Args:
            path: relative to the root; absolute in a place that the configuration names.

        Raises:
            PlanMismatch: it leads out of the store.
            RepairError: it cannot be meant, or leads through a link.
            WriteFailed: a directory on the way cannot be opened.
        """
        shown = path if path.startswith("/") else self.root.shown(path)
        with write_errors(shown), self._top(path) as (top, names):
            *above, name = names
            with top.enter(*above) as directory:
                yield Spot(directory, name)

    @contextmanager
    def aside(self, name: str) -> Iterator[Spot]:
        """Open the place in the undo directory of what a swap brings or keeps.

        Args:
            name: in the undo directory; absolute for another one, beside what lies elsewhere.
        """
        with write_errors(name):
            if not name.startswith("/"):
                relative_path((name,))
                with self.undo.enter(ASIDE) as directory:
                    yield Spot(directory, name)
                return
            above, _, last = name.rpartition("/")
            relative_path((last,))
            with self.outside(above) as spot, spot.directory.enter(spot.name) as directory:
                yield Spot(directory, last)

    @contextmanager
    def outside(self, path: str) -> Iterator[Spot]:
        """Give the spot of another undo directory, beside what the configuration names."""
        beside, _, name = path.rpartition("/")
        known = {place.rpartition("/")[0] for place in self.elsewhere}
        if self.is_confined or beside not in known or name != self.undo.name:
            raise self._leads_out(path)
        with write_errors(path), Directory.at(beside or "/") as above:
            yield Spot(above, name)

    def real(self, path: str) -> str:
        """Give a path where it is, whatever link of the root leads there.

        Raises:
            RepairError: it leads through a link that is not followed.
            WriteFailed: the system refused.
        """
        if path.startswith("/"):
            return path
        first, _, rest = path.partition("/")
        with write_errors(self.root.path):
            facts = self.root.facts(first)
            if facts is None or not stat.S_ISLNK(facts.st_mode):
                return f"{self.root.path}/{path}"
            return f"{self.linked(first)}/{rest}".rstrip("/")

    def beside(self, path: str) -> str:
        """Give the directory above what the configuration places elsewhere; empty for nothing."""
        real = self.real(path)
        inside = (place for place in self.elsewhere if f"{real}/".startswith(f"{place}/"))
        return next(inside, "").rpartition("/")[0]

    @contextmanager
    def _top(self, path: str) -> Iterator[tuple[Directory, tuple[str, ...]]]:
        """Open what a path begins in; give the components below that."""
        if path.startswith("/"):
            place = next(
                (above for above in self.elsewhere if f"{path}/".startswith(f"{above}/")), None
            )
            if place is None or self.is_confined:
                raise self._leads_out(path)
            rest = tuple(path.removeprefix(place).split("/"))[1:]
        else:
            first, *others = names = tuple(path.split("/"))
            relative_path(names)
            facts = self.root.facts(first)
            if facts is None or not stat.S_ISLNK(facts.st_mode):
                yield self.root, names
                return
            place, rest = self.linked(first), tuple(others)
        if rest:
            relative_path(rest)
        above, _, last = place.rpartition("/")
        with Directory.at(above or "/") as top:
            yield top, (last, *rest)

    def linked(self, name: str) -> str:
        """Give what the configuration names where a link of the root leads."""
        place = os.path.realpath(name_of_link(self.root, name))
        if self.is_confined or place not in self.elsewhere:
            reason = f"is a link to {place}: not followed, as no --broker-conf names that place"
            raise RepairError(path=self.root.shown(name), reason=reason, trouble=Trouble.EXPLAINED)
        return place

    def _leads_out(self, path: str) -> PlanMismatch:
        reason = f"{path} is outside of the store, and no --broker-conf names that place"
        if self.is_confined:
            reason = f"{path} is outside of the store, and the journal was not written here"
        return PlanMismatch(path=self.root.path, reason=reason, trouble=Trouble.EXPLAINED)


def name_of_link(directory: Directory, name: str) -> str:
    """Give the path that a link stands for, from its directory on."""
    target = os.readlink(name, dir_fd=directory.handle)
    return os.path.join(directory.path, target)  # noqa: PTH118 - realpath takes a str


def fingerprint(spot: Spot) -> str | None:
    """Digest the names, kinds, lengths and mtimes of a tree, or of a file and its first MiB.

    None when there is nothing. Contents of trees are left out: they may be many GB. Of a link it
    says that it is one, and nothing of what it leads to.
    """
    with write_errors(spot):
        facts = spot.facts()
        if facts is None:
            return None
        digest = hashlib.sha256()
        if stat.S_ISREG(facts.st_mode):
            handle = spot.directory.open_file(spot.name)
            try:
                digest.update(os.pread(handle, _DIGESTED_BYTES, 0))
            finally:
                os.close(handle)
        if not stat.S_ISDIR(facts.st_mode):
            digest.update(b"%d %d" % (facts.st_size, facts.st_mtime_ns))
        else:
            with spot.directory.enter(spot.name) as tree:
                for line in _walk(tree, ""):
                    digest.update(os.fsencode(line))
        return digest.hexdigest()


def _walk(directory: Directory, relative: str) -> Iterator[str]:
    """Give a line for everything below a directory, in order of names."""
    for entry, facts in directory.entries():
        name = f"{relative}/{entry}"
        if stat.S_ISDIR(facts.st_mode):
            yield f"{name}\0directory\n"
            with directory.enter(entry) as below:
                yield from _walk(below, name)
        else:
            yield f"{name}\0{stat.S_IFMT(facts.st_mode)} {facts.st_size} {facts.st_mtime_ns}\n"
