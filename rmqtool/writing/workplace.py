"""Where an edit in place happens, and what tells one thing that lies there from another."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.store.names import relative_path
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIGESTED_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where an edit happens.

    Attributes:
        root: the store root.
        undo: the undo directory.
        is_confined: whether nothing outside of the root may be touched: a store that came from
            elsewhere may hold a journal made to lead us astray.
    """

    root: Path
    undo: Path
    is_confined: bool = False

    def target(self, path: str) -> Path:
        """Give the real place of a path of the store.

        A broker may be led elsewhere by a link in its root, and no further.

        Raises:
            RepairError: the path leads out of the store, or through a link below the root.
        """
        with write_errors(path):
            if path.startswith("/"):
                self._refuse_outside(path)
                given = Path(path)
                return given.parent.resolve() / given.name
            parts = tuple(path.split("/"))
            relative_path(parts)
            place = self.root / parts[0]
            if place.is_symlink():
                self._refuse_outside(path)
                place = place.resolve()
            for part in parts[1:]:
                place /= part
                if place.is_symlink():
                    raise RepairError(path=str(place), reason="is a link: not followed")
            return place

    def aside(self, name: str) -> Path:
        """Give the place in the undo directory of what a swap brings or keeps."""
        if name.startswith("/"):
            self._refuse_outside(name)
            return Path(name)
        relative_path((name,))
        return self.undo / "aside" / name

    def _refuse_outside(self, path: str) -> None:
        if self.is_confined:
            reason = f"{path} is outside of the store, and the journal was not written here"
            raise PlanMismatch(path=str(self.undo), reason=reason)


def inode(path: Path) -> int | None:
    """Give the inode that a name stands for; None when there is none."""
    with write_errors(path):
        try:
            return path.lstat().st_ino
        except FileNotFoundError:
            return None


def like_of(target: Path) -> os.stat_result:
    """Give whose owner and mode a new thing gets: of what it replaces, else of what holds it."""
    with write_errors(target):
        return target.parent.stat() if inode(target) is None else target.lstat()


def fingerprint(path: Path) -> str | None:
    """Digest the names, kinds, lengths and mtimes of a tree, or of a file and its first MiB.

    None when there is nothing. Contents of trees are left out: they may be many GB.
    """
    with write_errors(path):
        if inode(path) is None:
            return None
        digest = hashlib.sha256()
        facts = path.lstat()
        if stat.S_ISREG(facts.st_mode):
            handle = os.open(path, READ_FLAGS)
            try:
                digest.update(os.pread(handle, _DIGESTED_BYTES, 0))
            finally:
                os.close(handle)
        if not stat.S_ISDIR(facts.st_mode):
            digest.update(b"%d %d" % (facts.st_size, facts.st_mtime_ns))
        else:
            for line in _walk(str(path), ""):
                digest.update(os.fsencode(line))
        return digest.hexdigest()


def _walk(path: str, relative: str) -> Iterator[str]:
    """Give a line for everything below a directory, in order of names."""
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = f"{relative}/{entry.name}"
        facts = entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield f"{name}\0directory\n"
            yield from _walk(entry.path, name)
        else:
            yield f"{name}\0{stat.S_IFMT(facts.st_mode)} {facts.st_size} {facts.st_mtime_ns}\n"
