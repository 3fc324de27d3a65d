"""What an edit in place is going to do, while it is collected: nothing of the store changes yet."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.errors import RepairError
from rmqtool.writing.directory import Spot
from rmqtool.writing.file_edit import (
    NEW,
    OLD,
    ByteRange,
    FileEdit,
    Saved,
    open_single,
    read_stretch,
)
from rmqtool.writing.output_tree import next_stretch, owner_of
from rmqtool.writing.staging import write_all, write_errors
from rmqtool.writing.swap import Swap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.output_tree import OutputTree, OutputTreeFile, Pieces
    from rmqtool.writing.staging import DiskSync
    from rmqtool.writing.workplace import Workplace


_BUFFERED_BYTES: Final = 1 << 20
_NOTHING: Final = Saved(0, 0, hashlib.sha256().hexdigest())


class SavedBytes:
    """A file of the undo directory that stretches of bytes are appended to.

    Nobody else can read it: what is saved may be of files that nobody else can.
    """

    def __init__(self, undo: Directory, name: str) -> None:
        self._path = undo.shown(name)
        self._buffer = bytearray()
        self._written = 0
        with write_errors(self._path):
            self._handle = undo.create(name, 0o600)

    def add(self, chunks: Iterable[bytes]) -> Saved:
        """Append a stretch and say where it is."""
        digest, at = hashlib.sha256(), self._written + len(self._buffer)
        for chunk in chunks:
            digest.update(chunk)
            self._buffer += chunk
            if len(self._buffer) >= _BUFFERED_BYTES:
                self._flush()
        return Saved(at, self._written + len(self._buffer) - at, digest.hexdigest())

    def finish(self, sync: DiskSync) -> None:
        """Bring all to the disk."""
        self._flush()
        with write_errors(self._path):
            sync.handle(self._handle)

    def close(self) -> None:
        """Close the file; for the second time, too."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _flush(self) -> None:
        with write_errors(self._path):
            write_all(self._handle, self._buffer, self._written)
        self._written += len(self._buffer)
        self._buffer.clear()


@dataclass
class StagedSwap:
    """A file or tree that is being written, to take a place in the store."""

    number: int  # of the operation
    path: str  # of the store
    work: Workplace  # where it lies
    aside: OutputTree  # tree of the undo directory that it is written in, under its number
    aside_path: str  # what the journal says about that place
    what: str  # replace, create or remove
    reason: str  # why, for people
    is_ancestor: bool  # whether the target was not named itself, but is needed above what was
    tree: OutputTree | None = None  # that is written
    file: OutputTreeFile | None = None  # that is written, where it is no tree

    @property
    def name(self) -> str:
        """Its name in the tree that it is written in."""
        return f"{self.number:04}"

    def open_tree(self) -> OutputTree:
        """Give the tree that is staged, made when it is first needed."""
        if self.tree is None:
            with self.work.spot(self.path) as spot:
                self.tree = self.aside.subtree(self.name, owner=owner_of(spot))
        return self.tree

    def write_file(self, size: int, pieces: Pieces, mtime_ms: int | None) -> None:
        """Stage a file, with the owner and the mode of the one that it replaces."""
        with self.work.spot(self.path) as spot:
            owner = owner_of(spot)
        self.file = self.aside.file(
            self.name, size=size, pieces=pieces, mtime_ms=mtime_ms, owner=owner
        )

    def build(self) -> Swap | None:
        """Give the change; None, with nothing left of it, when the store has just that already."""
        if self.is_there:
            self.aside.drop(self.name)
            return None
        return Swap(self.number, self.path, self.aside_path, self.what, self.reason)

    @cached_property
    def is_there(self) -> bool:
        """Whether the store has just that already. Asked once all is written."""
        if self.what != "replace" or (self.file is None and self.tree is None):
            return False
        with self.work.spot(self.path) as spot:
            if self.file is not None:
                return has_content(self.file, spot)
            return self.tree is not None and has_tree(self.tree, spot)


@dataclass
class StagedEdit:
    """Changes of one file in its place, as they are collected."""

    number: int  # of the operation
    path: str  # of the store
    work: Workplace  # where it lies
    length: list[int]  # bytes [before, after]
    mtime_ns: list[int]  # [before, after]
    pieces: list[tuple[int, Saved]] = field(default_factory=list)  # (position, new bytes)
    reason: str = ""  # why, for people

    def build(self, old_bytes: SavedBytes) -> FileEdit | None:
        """Save what will be lost and give the change; None when nothing would change.

        Raises:
            RepairError: two pieces overlap, or one is not within the file.
            WriteFailed: the system refused.
        """
        self.pieces.sort(key=lambda piece: piece[0])
        self._refuse_overlap()
        with self.work.spot(self.path) as spot:
            handle = open_single(spot)
            try:
                ranges = [*self._ranges(handle, old_bytes), *self._cut(handle, old_bytes)]
            finally:
                os.close(handle)
        is_same = self.length[OLD] == self.length[NEW] and self.mtime_ns[OLD] == self.mtime_ns[NEW]
        if is_same and not ranges:
            return None
        lengths, mtimes = (
            (self.length[OLD], self.length[NEW]),
            (self.mtime_ns[OLD], self.mtime_ns[NEW]),
        )
        return FileEdit(self.number, self.path, lengths, mtimes, tuple(ranges), self.reason)

    def _refuse_overlap(self) -> None:
        end = 0
        for position, new in self.pieces:
            if position < end:
                reason = f"bytes at {position} are written twice"
                raise RepairError(path=self.path, reason=reason)
            end = position + new.length
        if end > self.length[NEW]:
            reason = f"bytes up to {end} are not within its length {self.length[NEW]}"
            raise RepairError(path=self.path, reason=reason)

    def _ranges(self, handle: int, old_bytes: SavedBytes) -> Iterator[ByteRange]:
        """Give the ranges whose bytes differ, with what is there saved."""
        for position, new in self.pieces:
            length = max(0, min(new.length, self.length[OLD] - position))
            digest = hashlib.sha256()
            for chunk in read_stretch(handle, position, length):
                digest.update(chunk)
            if digest.hexdigest() != new.sha256:
                old = old_bytes.add(read_stretch(handle, position, length))
                yield ByteRange(position, old, new)

    def _cut(self, handle: int, old_bytes: SavedBytes) -> Iterator[ByteRange]:
        """Save what is cut off; zeros come back by themselves."""
        position = self.length[NEW]
        for chunk in read_stretch(handle, position, self.length[OLD] - position):
            if chunk.count(0) != len(chunk):
                yield ByteRange(position, old_bytes.add([chunk]), _NOTHING)
            position += len(chunk)


# Whether a store has already just what is staged, so that nothing has to change.


_COMPARED_BYTES: Final = 1 << 20


def has_tree(tree: OutputTree, spot: Spot) -> bool:
    """Whether a tree on the disk has the same names, lengths, bytes, and mtimes asked for."""
    with write_errors(spot):
        facts = spot.facts()
        if facts is None or not stat.S_ISDIR(facts.st_mode):
            return False
        files, directories = tree.contents()
        with spot.directory.enter(spot.name) as present:
            is_same = _takes_all(present, "", files, directories)
        return is_same and not files and not directories


def _takes_all(
    present: Directory, relative: str, files: dict[str, OutputTreeFile], directories: set[str]
) -> bool:
    """Take from what was staged all that a directory has just so; False where it has other things.

    Args:
        present: the directory.
        relative: its path in the tree, ending in a slash; empty for the top.
        files: that were staged, by path; those that are there go.
        directories: likewise.
    """
    for entry, facts in present.entries():
        name = f"{relative}{entry}"
        if stat.S_ISDIR(facts.st_mode) and name in directories:
            directories.remove(name)
            with present.enter(entry) as below:
                if not _takes_all(below, f"{name}/", files, directories):
                    return False
        elif (file := files.pop(name, None)) is None or not has_content(file, Spot(present, entry)):
            return False
    return True


def has_content(file: OutputTreeFile, spot: Spot) -> bool:
    """Whether a file on the disk is what was staged: length, mtime where asked for, bytes."""
    facts = spot.facts()
    if facts is None or not stat.S_ISREG(facts.st_mode) or facts.st_size != file.size:
        return False
    if file.mtime_ns not in {None, facts.st_mtime_ns}:
        return False
    handle = spot.directory.open_file(spot.name)
    try:
        with file.writing() as staged:
            return _are_same(staged, handle, file.size)
    finally:
        os.close(handle)


def _are_same(staged: int, present: int, size: int) -> bool:
    """Compare two files of a size: what is data in one of them, as holes may be long, and many."""
    position = 0
    while position < size:
        stretches = [next_stretch(handle, position, size) for handle in (staged, present)]
        position = min(begin for begin, _ in stretches)
        end = max(end for begin, end in stretches if begin == position)
        chunk = os.pread(staged, min(_COMPARED_BYTES, end - position), position)
        if chunk != os.pread(present, len(chunk), position):
            return False
        if not chunk and position < size:
            return False
        position += len(chunk)
    return True
