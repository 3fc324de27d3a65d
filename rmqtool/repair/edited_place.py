"""Files as the edits of a plan leave them, to be read before any edit is made.

Queues in RocksDB are rebuilt from the repaired log, in the transaction that repairs the log:
so that log is read while its edits are still staged. Offsets are set into queues as they will be.
Nothing here is written.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import UnreadablePath
from rmqtool.repair.log.content import LentBytes
from rmqtool.repair.plans import Action, place_of
from rmqtool.store.entry import Entry, EntryKind
from rmqtool.store.place import OpenFile, Place, no_file

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from rmqtool.repair.log.content import Piece
    from rmqtool.repair.plans import Edit
    from rmqtool.store.artefact import ArtefactKind
    from rmqtool.store.tree import Store

WHOLE = (Action.CREATE, Action.REPLACE)


def with_edited_parts(store: Store, edits: Iterable[Edit], kinds: Container[ArtefactKind]) -> Store:
    """Give a store of which some parts read as they will be after some edits.

    Args:
        store: the store that the edits are for.
        edits: of a plan, in order.
        kinds: of these parts.
    """
    by_location = _by_location(store.root, edits)
    branches = (
        artefact._replace(place=EditedPlace(artefact.place.location, by_location, store.root))
        if artefact.kind in kinds
        else artefact
        for artefact in store.branches
    )
    return replace(store, branches=tuple(branches))


def with_edits(root: Place, edits: Iterable[Edit]) -> Place:
    """Give the root of a store that reads as it will be after some edits.

    Args:
        root: of the store that the edits are for.
        edits: of a plan, in order.
    """
    by_location = _by_location(root, edits)
    return EditedPlace(root.location, by_location, root) if by_location.at else root


class _PlannedEdits(NamedTuple):
    """Edits of a plan by location."""

    at: dict[str, tuple[Edit, ...]]  # each in the order of the plan
    locations: list[str]  # sorted

    def below(self, directory: str) -> Iterator[str]:
        """Yield the locations below a directory, in order."""
        above = f"{directory}/"
        for number in range(bisect_left(self.locations, above), len(self.locations)):
            if not self.locations[number].startswith(above):
                return
            yield self.locations[number]

    def names(self, directory: str, *, brought: bool) -> set[str]:
        """Give the names in a directory that edits are about, or something below them.

        Args:
            directory: its location.
            brought: only where an edit brings a file; one that changes or removes what is there
                makes no directory.
        """
        return {
            location[len(directory) + 1 :].partition("/")[0]
            for location in self.below(directory)
            if not brought or any(edit.action in WHOLE for edit in self.at[location])
        }


def _by_location(root: Place, edits: Iterable[Edit]) -> _PlannedEdits:
    by_place: dict[str, tuple[Edit, ...]] = {}
    for edit in edits:
        location = place_of(root, edit.path).location
        by_place[location] = (*by_place.get(location, ()), edit)
    return _PlannedEdits(by_place, sorted(by_place))


NO_EDITS: Final = _PlannedEdits({}, [])


@dataclass(frozen=True, slots=True)
class EditedPlace(Place):
    """A directory or file of a disk or an archive, as edits leave it."""

    edits: _PlannedEdits = field(default=NO_EDITS, repr=False, compare=False)
    root: Place = field(default=Place("/"), repr=False, compare=False)  # of the store

    @property
    def is_local(self) -> bool:
        """Whether the operating system sees what is here: no edit changes it, or what is below."""
        is_edited = self.location in self.edits.at or any(self.edits.below(self.location))
        return self.root.is_local and not is_edited

    @property
    def parent(self) -> Self:
        """The directory that holds this place."""
        return self._at(self._own.parent)

    def child(self, name: str) -> Self:
        """Give the place of a name in this directory."""
        return self._at(self._own.child(name))

    def resolved(self) -> Self:
        """Give the place that a link leads to, there or not; itself when it is not one."""
        return self._at(self._own.resolved())

    def stat(self) -> Entry | None:
        """Say what will be here; None when nothing will."""
        entry = self._own.stat()
        for edit in self._edits:
            entry = _edited(entry, edit, self.name)
        if entry is None and self.edits.names(self.location, brought=True):
            return Entry(self.name, EntryKind.DIRECTORY, 0, 0, 0)
        return entry

    def names(self) -> list[tuple[str, EntryKind]]:
        """List this directory, sorted by name.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        return [(entry.name, entry.kind) for entry in self.entries()]

    def entries(self) -> list[Entry]:
        """List this directory, sorted by name.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        is_removed = any(edit.action is Action.REMOVE for edit in self._edits)
        names = self.edits.names(self.location, brought=is_removed)
        if not is_removed and (not names or self._own.stat() is not None):
            names |= {entry.name for entry in self._own.entries()}
        entries = (self.child(name).stat() for name in sorted(names))
        return [entry for entry in entries if entry is not None]

    def open(self) -> OpenFile:
        """Open a regular file for reading.

        Raises:
            UnreadablePath: there will be none, or it cannot be opened.
        """
        entry = self.stat()
        if entry is None:
            raise no_file(str(self))
        if not self._edits:
            return self._own.open()
        whole = [at for at, edit in enumerate(self._edits) if edit.action in WHOLE]
        edits = self._edits[whole[-1] :] if whole else self._edits
        return EditedFile(self, None if whole else self._own.open(), entry.size, edits)

    @property
    def _own(self) -> Place:
        return replace(self.root, location=self.location)

    @property
    def _edits(self) -> Sequence[Edit]:
        return self.edits.at.get(self.location, ())

    def _at(self, place: Place) -> Self:
        return type(self)(place.location, self.edits, self.root)


class EditedFile(OpenFile):
    """A file, open for positioned reads, with what edits bring in place of what they replace."""

    __slots__ = ("_brought", "_own")

    def __init__(
        self, place: Place, own: OpenFile | None, size: int, edits: Iterable[Edit]
    ) -> None:
        OpenFile.__init__(self, place, -1, size)
        self._own = own
        self._brought = [
            (0 if edit.action in WHOLE else edit.position, edit.content)
            for edit in edits
            if edit.content is not None
        ]

    @property
    def stored(self) -> int:
        """Bytes that somebody really sent; what is new is ours."""
        return self.size if self._own is None else self._own.stored

    def close(self) -> None:
        """Close the file; twice does no harm."""
        if self._own is not None:
            self._own.close()

    def fileno(self) -> int:
        """Refuse: no descriptor has these bytes. Raises UnreadablePath: always."""
        raise UnreadablePath(path=str(self.place), reason="is not written yet: no descriptor")

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; return the bytes read.

        Raises:
            UnreadablePath: the disk refused (a bad sector, a lost mount).
        """
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self.size - position), 0) if position >= 0 else 0
        view = view[:wanted]
        done = self._own.read_into(view, position) if self._own is not None else 0
        view[done:] = bytes(wanted - done)  # longer than it was: zeros
        for start, content in self._brought:
            _put(view, position, start, bytes(0), content.size)
            for at, raw in content.pieces:
                _put(view, position, start + at, raw, len(raw))
        return wanted

    def next_data(self, position: int) -> int | None:
        """Give a position at or past which data may be; None past the end."""
        return position if position < self.size else None

    def next_hole(self, position: int) -> int:
        """Give where the file ends: holes are read as zeros."""
        return max(position, self.size)

    def _pread(self, length: int, position: int) -> bytes:
        buffer = bytearray(length)
        return bytes(buffer[: self.read_into(buffer, position)])


def _edited(entry: Entry | None, edit: Edit, name: str) -> Entry | None:
    """Give what an edit makes of a name."""
    if edit.action is Action.REMOVE:
        return None
    if edit.action in WHOLE:
        entry = Entry(name, EntryKind.FILE, 0, (edit.mtime_ms or 0) * 1_000_000, 0)
    is_sized = edit.action in WHOLE or edit.action is Action.LENGTH
    if entry is None or not is_sized:
        return entry
    return entry._replace(size=edit.size, allocated=edit.size)


def _put(view: memoryview, position: int, start: int, raw: Piece, length: int) -> None:
    """Put the part of some bytes that lies in a window into it; without bytes, zeros.

    Args:
        view: the window.
        position: of the window in the file.
        start: of the bytes in the file.
        raw: the bytes; empty for zeros.
        length: how many they are.
    """
    begin, end = max(start, position), min(start + length, position + len(view))
    if begin < end:
        part = raw[begin - start : end - start] if raw else bytes(end - begin)
        if isinstance(part, LentBytes):
            part = b"".join(part.chunks())
        view[begin - position : end - position] = part
