"""Collects the edits of a plan, each with the digests of what it replaces and what it brings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.repair.log.content import Content
from rmqtool.repair.plans import Action, Edit, Left, digest_of, place_of
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.store.place import Place
    from rmqtool.store.segment import Segment

CHUNK: Final = 4 << 20
MOST_LEFT: Final = 100  # of one code that are named; the others are counted
# What is replaced is read, and a cut is kept. Brokers' files have at most 2 GiB; a length above
# that is a damaged one, and mostly a hole, which a stranger has for nothing.
MOST_REPLACED: Final = 4 << 30
AWAY: Final = "move the file out of the store, then repair again"


@dataclass(slots=True)
class EditWriter:
    """Takes edits in the order in which they are to be made."""

    root: Place  # of the store
    edits: list[Edit] = field(default_factory=list)  # so far
    left: list[Left] = field(default_factory=list)  # what is wrong and stays
    _left: Counter[str] = field(default_factory=Counter)

    def write(
        self,
        segment: Segment,
        position: int,
        content: Content,
        code: Code,
        reason: str,
        lost: str = "",
    ) -> None:
        """Overwrite bytes of a file; nothing is done where it has them already."""
        place = (segment.place.location, segment.size, position)
        self.write_at(place, content, code, reason, lost)

    def write_at(
        self,
        place: tuple[str, int, int],
        content: Content,
        code: Code,
        reason: str,
        lost: str = "",
    ) -> None:
        """Overwrite bytes at a place: location of the file, its bytes now, position."""
        location, file_size, position = place
        path = self.path(location)
        length = max(0, min(content.size, file_size - position))
        old = digest_of(place_of(self.root, path), position, length) if length else ""
        new = content.sha256
        if old != new:
            self.edits.append(
                Edit(
                    Action.WRITE, path, position, length, content.size, old, new, code, reason,
                    lost, content,
                )
            )  # fmt: skip

    def zero(self, segment: Segment, position: int, code: Code, reason: str) -> None:
        """Zero all that is used of a file from a position on."""
        with segment.open() as file:
            for data_at, raw in data_stretches(file, position, chunk=CHUNK):
                content = Content(len(raw.rstrip(b"\0")))
                self.write(segment, data_at, content, code, reason)

    def length(self, segment: Segment, size: int, code: Code, reason: str) -> None:
        """Cut a file, or extend it by zeros."""
        path = self.path(segment.place.location)
        position, cut = min(segment.size, size), max(segment.size - size, 0)
        if self._is_left(path, cut, code, f"keep a copy, then: truncate -s {size} {path}"):
            return
        old = digest_of(place_of(self.root, path), position, cut) if cut else ""
        self.edits.append(Edit(Action.LENGTH, path, position, cut, size, old, "", code, reason))

    def create(
        self,
        location: str,
        content: Content,
        code: Code,
        reason: str,
        *,
        lost: str = "",
        mtime_ms: int | None = None,
    ) -> None:
        """Write a new file."""
        self.edits.append(
            Edit(
                Action.CREATE, self.path(location), 0, 0, content.size, "", content.sha256, code,
                reason, lost, content, mtime_ms,
            )
        )  # fmt: skip

    def replace(
        self, location: str, content: Content, code: Code, reason: str, *, lost: str = ""
    ) -> None:
        """Put a new file in the place of another."""
        path, size = self.path(location), self._size(location)
        if self._is_left(path, size, code, AWAY):
            return
        old = digest_of(place_of(self.root, path), 0, size)
        self.edits.append(
            Edit(
                Action.REPLACE, path, 0, size, content.size, old,
                content.sha256, code, reason, lost, content,
            )
        )  # fmt: skip

    def forget(self, location: str) -> Edit | None:
        """Drop the edit that replaces a file, for another one; give it."""
        path = self.path(location)
        for edit in self.edits:
            if edit.action is Action.REPLACE and edit.path == path:
                self.edits.remove(edit)
                return edit
        return None

    def remove(self, location: str, code: Code, reason: str, *, lost: str = "") -> None:
        """Take a file, or a directory with all in it, out; it is kept in the undo directory."""
        path, size = self.path(location), self._size(location)
        if self._is_left(path, size, code, AWAY):
            return
        old = digest_of(place_of(self.root, path), 0, size) if size else ""
        self.edits.append(Edit(Action.REMOVE, path, 0, size, 0, old, "", code, reason, lost))

    def take_along(self) -> dict[str, int]:
        """Drop edits of what is taken out later, or lies in a directory that is.

        Returns:
            What is taken out, and the number of its edit as it was.
        """
        away = {
            edit.path: number
            for number, edit in enumerate(self.edits)
            if edit.action is Action.REMOVE
        }
        self.edits[:] = [
            edit
            for number, edit in enumerate(self.edits)
            if all(
                away.get(path, -1) <= number for path in (edit.path, *directories_above(edit.path))
            )
        ]
        return away

    def leave(self, code: Code, path: str, message: str, why: str) -> None:
        """Take note of something that stays as it is."""
        self._left[code] += 1
        if self._left[code] <= MOST_LEFT:
            self.left.append(Left(code, path, message, why))

    def _is_left(self, path: str, replaced: int, code: Code, helps: str) -> bool:
        """Leave an edit that would replace more than any file of a broker has."""
        if replaced <= MOST_REPLACED:
            return False
        reason = f"{replaced:,} bytes would be replaced; repair replaces at most {MOST_REPLACED:,}"
        self.leave(code, path, reason, helps)
        return True

    def path(self, location: str) -> str:
        """Give a path as edits have it: relative to the root where it is below that."""
        return location.removeprefix(f"{self.root.location}/")

    def _size(self, location: str) -> int:
        entry = place_of(self.root, self.path(location)).stat()
        return entry.size if entry is not None and entry.kind == "file" else 0


def directories_above(path: str) -> Iterator[str]:
    """Give the directories of a store that a path lies in, the outermost first."""
    return (path[:at] for at, letter in enumerate(path) if letter == "/")
