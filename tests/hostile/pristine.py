"""A store as it was, kept in memory: whatever has become of it, it is soon as it was again."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

# ruff: noqa: PTH101, PTH102, PTH108, PTH120, PTH123 - a Path takes longer than what is done to it


class Kept(NamedTuple):
    """All of a file or of a directory, but for its inode and its times of access and change.

    Attributes:
        mode: with the kind.
        owner: user and group.
        mtime_ns: of modification.
        content: bytes of a file; empty of a directory.
    """

    mode: int
    owner: tuple[int, int]
    mtime_ns: int
    content: bytes

    @classmethod
    def of(cls, path: str) -> Kept:
        """Look at a file or a directory."""
        facts = os.lstat(path)
        content = b""
        if stat.S_ISREG(facts.st_mode):
            content = _read(path)
        else:
            assert stat.S_ISDIR(facts.st_mode), path
        return cls(facts.st_mode, (facts.st_uid, facts.st_gid), facts.st_mtime_ns, content)

    def is_at(self, path: str, facts: os.stat_result) -> bool:
        """Tell whether it is there still; the names in a directory are not asked for."""
        owner = (facts.st_uid, facts.st_gid)
        if (self.mode, self.owner, self.mtime_ns) != (facts.st_mode, owner, facts.st_mtime_ns):
            return False
        if stat.S_ISDIR(self.mode):
            return True
        return facts.st_nlink == 1 and self.content == _read(path)


class Pristine:
    """What lies in a directory now, and lies there again after each `renew`: files, directories.

    What is as it was is left alone: to write all anew takes longer than many a command.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._kept = {path: Kept.of(path) for path in (self._root, *map(str, root.rglob("*")))}
        self._below: dict[str, list[str]] = {path: [] for path in self._kept}
        for path in self._kept:
            self._below.get(os.path.dirname(path), []).append(path)

    def renew(self) -> None:
        """Remove what was not there, and write what is another now."""
        top = _facts(self._root)
        if top is not None and not stat.S_ISDIR(top.st_mode):
            os.unlink(self._root)
        self._renew_directory(self._root)

    def _renew_directory(self, path: str) -> None:
        if _facts(path) is None:
            os.mkdir(path)
        with os.scandir(path) as found:
            there = {one.path: one.stat(follow_symlinks=False) for one in found}
        for name, facts in [*there.items()]:
            kept = self._kept.get(name)
            if kept is None or stat.S_IFMT(kept.mode) != stat.S_IFMT(facts.st_mode):
                shutil.rmtree(name) if stat.S_ISDIR(facts.st_mode) else os.unlink(name)
                del there[name]
        for name in self._below[path]:
            kept = self._kept[name]
            if stat.S_ISDIR(kept.mode):
                self._renew_directory(name)
            elif name not in there or not kept.is_at(name, there[name]):
                _write(name, kept)
        if not self._kept[path].is_at(path, os.lstat(path)):
            _dress(path, self._kept[path])


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _write(path: str, kept: Kept) -> None:
    """Make a file anew, in place of one that may be open somewhere, or have a second name."""
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "xb", buffering=0) as file:
        file.write(kept.content)
    _dress(path, kept)


def _dress(path: str, kept: Kept) -> None:
    os.chown(path, *kept.owner)
    os.chmod(path, stat.S_IMODE(kept.mode))
    os.utime(path, ns=(kept.mtime_ns, kept.mtime_ns))
