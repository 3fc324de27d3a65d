"""Bytes and times of a store before and after: nothing may change what is evidence."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple


class Trace(NamedTuple):
    """What a reader must leave as it was. The access time is the file system's own affair."""

    mode: int
    size: int
    mtime_ns: int
    digest: str


def snapshot(root: Path) -> dict[str, Trace]:
    """Give a trace of a file, or of each file and directory below a directory.

    A file that may not be read is compared by mode, size and time.
    """
    paths = [root, *sorted(root.rglob("*"))] if root.is_dir() else [root]
    return {str(path.relative_to(root)): _trace(path) for path in paths}


def _trace(path: Path) -> Trace:
    status = path.lstat()
    digest = ""
    if path.is_symlink():
        digest = str(path.readlink())
    elif path.is_file():
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except PermissionError:
            digest = "unreadable"
    return Trace(status.st_mode, status.st_size, status.st_mtime_ns, digest)


class Evidence:
    """The stores that one test was given."""

    def __init__(self) -> None:
        self._before: list[tuple[Path, dict[str, Trace]]] = []

    def keep(self, root: Path) -> Path:
        """Take a store under guard, and give it back."""
        self._before.append((root, snapshot(root)))
        return root

    def changes(self) -> list[str]:
        """Give every path that is no longer what it was."""
        changed = []
        for root, before in self._before:
            after = snapshot(root)
            names = before.keys() | after.keys()
            changed += [f"{root}/{n}" for n in sorted(names) if before.get(n) != after.get(n)]
        return changed
