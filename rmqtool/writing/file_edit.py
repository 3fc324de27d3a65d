"""Change bytes, length and mtime of one file in its place, and change them back.

What is overwritten or cut off is saved in `bytes.old` of the undo directory, what replaces it in
`bytes.new`, so that either side can be reached from any state in which a kill may have left it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.writing.directory import Directory, Spot
    from rmqtool.writing.staging import DiskSync
    from rmqtool.writing.workplace import Workplace

OLD: Final = 0
NEW: Final = 1
SAVED_NAMES: Final = ("bytes.old", "bytes.new")
_CHUNK_BYTES: Final = 1 << 20


class Saved(NamedTuple):
    """A stretch of `bytes.old` or `bytes.new`."""

    at: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file before and after; a side is shorter where the file ends, or is cut."""

    position: int
    old: Saved
    new: Saved

    def __getitem__(self, side: int) -> Saved:
        return self.new if side else self.old


class FileEdit(NamedTuple):
    """Bytes, length and mtime of one file that change in their place."""

    number: int  # of the operation
    path: str  # of the store
    length: tuple[int, int]  # bytes before and after
    # before and after; the same unless another one was asked for, as brokers expire segments by it
    mtime_ns: tuple[int, int]
    ranges: tuple[ByteRange, ...]  # what is written, not overlapping
    reason: str  # why, for people

    def lines(self) -> list[dict[str, Any]]:
        """Give its lines for the journal."""
        facts = {"path": self.path, "length": self.length, "mtime_ns": self.mtime_ns}
        head = {"number": self.number, "operation": "edit", **facts, "reason": self.reason}
        return [
            head,
            *(
                {
                    "number": self.number,
                    "operation": "bytes",
                    "position": part.position,
                    "old": {name: getattr(part.old, name) for name in Saved._fields},
                    "new": {name: getattr(part.new, name) for name in Saved._fields},
                }
                for part in self.ranges
            ),
        ]

    def settle(self, work: Workplace, side: int, sync: DiskSync, *, trusted: bool) -> None:
        """Give the file the bytes, length and mtime of one side.

        Args:
            work: where.
            side: `OLD` or `NEW`.
            sync: counts the time that the disk takes.
            trusted: whether the file cannot have been changed by others meanwhile.

        Raises:
            PlanMismatch: it holds bytes of neither side.
            WriteFailed: the system refused.
        """
        with _Saved(work.undo) as saved, work.spot(self.path) as spot:
            handle = open_single(spot, os.O_RDWR)
            try:
                if not trusted:
                    self._refuse_foreign(saved, handle, spot)
                if self._is_at(saved, side, handle):
                    sync.handle(handle)  # whoever wrote it may have been killed before that
                    return
                if os.fstat(handle).st_size != self.length[side]:
                    os.ftruncate(handle, self.length[side])
                for part in self.ranges:
                    position = part.position
                    for chunk in saved.read(side, part):
                        write_all(handle, chunk, position)
                        position += len(chunk)
                os.utime(handle, ns=(os.fstat(handle).st_atime_ns, self.mtime_ns[side]))
                sync.handle(handle)
            finally:
                os.close(handle)

    def sides(self, work: Workplace) -> set[int]:
        """Say of which sides the file has something that the other side has not."""
        sides: set[int] = set()
        with work.spot(self.path) as spot:
            handle = spot.directory.open_file(spot.name)
            try:
                facts = os.fstat(handle)
                sides |= _only(facts.st_size, self.length) | _only(facts.st_mtime_ns, self.mtime_ns)
                for part in self.ranges:
                    if part.old.length == part.new.length:  # else the length of the file tells
                        here = _digest(read_stretch(handle, part.position, part.new.length))
                        sides |= _only(here, (part.old.sha256, part.new.sha256))
            finally:
                os.close(handle)
        return sides

    def problem(self, work: Workplace) -> str | None:
        """Say what differs from how the edit left things; None when nothing does."""
        with _Saved(work.undo) as saved, work.spot(self.path) as spot:
            handle = spot.directory.open_file(spot.name)
            try:
                if os.fstat(handle).st_size != self.length[NEW]:
                    return "its length changed since"
                for part in self.ranges:
                    here = read_stretch(handle, part.position, part.new.length)
                    if _digest(here) != part.new.sha256:
                        return f"the bytes at {part.position} changed since"
                    if _digest(saved.read(OLD, part)) != part.old.sha256:
                        return f"the saved bytes of {part.position} are damaged"
            finally:
                os.close(handle)
        return None

    def _is_at(self, saved: _Saved, side: int, handle: int) -> bool:
        """Whether the file is on that side already, so that it need not be written."""
        facts = os.fstat(handle)
        if (facts.st_size, facts.st_mtime_ns) != (self.length[side], self.mtime_ns[side]):
            return False
        return all(
            here == there
            for part in self.ranges
            for here, there in zip(
                read_stretch(handle, part.position, part[side].length),
                saved.read(side, part),
                strict=True,
            )
        )

    def _refuse_foreign(self, saved: _Saved, handle: int, spot: Spot) -> None:
        """Refuse a file whose bytes are of neither side; a torn write has some of each."""
        if os.fstat(handle).st_size not in self.length:
            raise PlanMismatch(path=str(spot), reason="its length changed since")
        for part in self.ranges:
            longest = max(part.old.length, part.new.length)
            sides = zip(
                _padded(saved.read(OLD, part), longest),
                _padded(saved.read(NEW, part), longest),
                strict=True,
            )
            position = part.position
            for old, new in sides:
                here = os.pread(handle, len(old), position)
                if not _is_mixture(here, old, new):
                    reason = f"the bytes at {position} changed since"
                    raise PlanMismatch(path=str(spot), reason=reason)
                position += len(old)


class _Saved:
    """Reads what is saved of both sides; open once for all ranges of a file."""

    def __init__(self, undo: Directory) -> None:
        self._undo = undo
        self._handles: list[int] = []

    def __enter__(self) -> Self:
        try:
            for name in SAVED_NAMES:
                with write_errors(self._undo.shown(name)):
                    self._handles.append(self._undo.open_file(name))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            os.close(handle)

    def read(self, side: int, part: ByteRange) -> Iterator[bytes]:
        """Read one side of a range, some at a time."""
        wanted, length = part[side], 0
        for chunk in read_stretch(self._handles[side], wanted.at, wanted.length):
            length += len(chunk)
            yield chunk
        if length != wanted.length:
            path = self._undo.shown(SAVED_NAMES[side])
            raise PlanMismatch(path=path, reason="was cut off")


def open_single(spot: Spot, flags: int = os.O_RDONLY) -> int:
    """Give a descriptor of a file that has no second name: that may be somebody's backup.

    Raises:
        RepairError: it has one, or is not a regular file.
        OSError: it cannot be opened.
    """
    handle = spot.directory.open_file(spot.name, flags)
    if os.fstat(handle).st_nlink > 1:  # `cp -al` made it
        os.close(handle)
        reason = "has another hard link, which would be changed, too; copy it first"
        raise RepairError(path=str(spot), reason=reason)
    return handle


def _only(value: object, sides: tuple[object, object]) -> set[int]:
    return {side for side in (OLD, NEW) if sides[side] == value != sides[1 - side]}


def _digest(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def read_stretch(handle: int, position: int, length: int) -> Iterator[bytes]:
    """Read a stretch of an open file, some at a time; it may end early."""
    end = position + length
    while position < end:
        data = os.pread(handle, min(_CHUNK_BYTES, end - position), position)
        if not data:
            return
        yield data
        position += len(data)


def _padded(chunks: Iterator[bytes], length: int) -> Iterator[bytes]:
    """Give chunks of a fixed size, zeros where a side has ended: what a longer file reads as."""
    left = length
    while left:
        size = min(left, _CHUNK_BYTES)
        yield next(chunks, b"").ljust(size, b"\0")
        left -= size


def _is_mixture(here: bytes, old: bytes, new: bytes) -> bool:
    """Whether each byte that is here is that of one side."""
    if here in (old[: len(here)], new[: len(here)]):
        return True
    return all(byte in pair for byte, *pair in zip(here, old, new, strict=False))
