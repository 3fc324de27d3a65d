"""A store beside a running broker, as of a cut: what the broker wrote later reads as zeros.

Brokers dispatch in the order of the log. So the log ends at the cut, and a queue after its last
unit of a record before the cut. Files that were made later are all zeros, as new files are. The
checkpoint is what it was when the cut was made. Other files are as they are: they have no order
that a physical offset cuts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.kinds import are_real, as_units
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.place import OpenFile, Place
from rmqtool.store.segment import start_of
from rmqtool.store.used import used_bytes

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from typing_extensions import Buffer

    from rmqtool.store.entry import Entry, EntryKind
    from rmqtool.store.tree import Store

UNITS: Final = {ArtefactKind.CONSUME_QUEUE: CQ_UNIT, ArtefactKind.BATCH_QUEUE: BATCH_CQ_UNIT}
LOGS: Final = frozenset({ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER})
NOT_CUT: Final = np.iinfo(np.int64).max  # as a physical offset: no record comes later
_WINDOW: Final = 256  # units that are read at once, from the end of a queue file backwards
_LARGEST_CHECKPOINT: Final = 1 << 16  # bytes; brokers write 4,096


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a store is cut."""

    end: int  # physical offset: records from there on came later
    checkpoint: bytes | None  # as it was; None where there was no file to read
    # by location of a queue's directory: start of the last file with a unit, and bytes used of it
    _ends: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    def limit(self, place: Place, kind: ArtefactKind, size: int) -> int:
        """Give the bytes of a file that were written before the cut.

        Raises:
            UnreadablePath: the queue that it belongs to cannot be read.
        """
        start = start_of(place.name)
        if start is None:
            return size
        if kind in LOGS:
            return max(self.end - start, 0)
        directory = place.parent
        if directory.location not in self._ends:
            self._ends[directory.location] = self._end_of(directory, kind)
        last, used = self._ends[directory.location]
        return size if start < last else used if start == last else 0

    def _end_of(self, directory: Place, kind: ArtefactKind) -> tuple[int, int]:
        """Find the last file of a queue that has a unit before the cut; those before are full."""
        for name, _ in reversed(directory.names()):
            start = start_of(name)
            if start is None:
                continue
            with directory.child(name).open() as file:
                if used := self._used(file, kind):
                    return start, used
        return 0, 0

    def _used(self, file: OpenFile, kind: ArtefactKind) -> int:
        """Give the end of the last unit in a file that points to a record before the cut."""
        layout = UNITS[kind]
        position = used_bytes(file, layout.size)
        while position:
            first = max(position - _WINDOW * layout.size, 0)
            units = as_units(file.read_at(first, position - first), layout)
            is_before = units["physical_offset"].astype(np.int64) < self.end
            if (real := np.flatnonzero(are_real(units) & is_before)).size:
                return first + (int(real[-1]) + 1) * layout.size
            position = first
        return 0


def as_of(store: Store, end: int = NOT_CUT) -> Store:
    """Give a store as of a cut.

    Args:
        store: beside a running broker.
        end: physical offset past the last record that was dispatched before the store was listed;
            by default log and queues are as they are.
    """
    checkpoint = None
    for artefact in store.branches_of(ArtefactKind.CHECKPOINT):
        with suppress(UnreadablePath):  # who judges it says so
            checkpoint = artefact.place.read(_LARGEST_CHECKPOINT)
    cut = Cut(end, checkpoint)
    wanted = (ArtefactKind.CHECKPOINT, *((*LOGS, *UNITS) if end < NOT_CUT else ()))
    kinds = {artefact.place.location: artefact.kind for artefact in store.branches_of(*wanted)}
    whole = CutPlace(store.root.location, store.root, cut, kinds)
    branches = tuple(
        artefact._replace(place=whole.at(artefact.place)) if artefact.kind in wanted else artefact
        for artefact in store.branches
    )
    return replace(store, root=whole if end < NOT_CUT else store.root, branches=branches)


@dataclass(frozen=True, slots=True)
class CutPlace(Place):
    """A directory or file of a store, as of a cut."""

    own: Place = field(default=Place("/"), repr=False, compare=False)  # as it is by now
    cut: Cut = field(default=Cut(NOT_CUT, None), repr=False, compare=False)
    # by location, what is cut below the root
    kinds: Mapping[str, ArtefactKind] = field(default_factory=dict, repr=False, compare=False)
    kind: ArtefactKind | None = None  # of what is cut here; None where nothing is

    @property
    def is_local(self) -> bool:
        """Whether the operating system sees what is here: nothing is cut here, or below."""
        below = f"{self.location}/"
        is_cut = any(f"{location}/".startswith(below) for location in self.kinds)
        return self.own.is_local and self.kind is None and not is_cut

    @property
    def parent(self) -> Self:
        """The directory that holds this place."""
        return self.at(self.own.parent)

    def child(self, name: str) -> Self:
        """Give the place of a name in this directory."""
        return self.at(self.own.child(name))

    def resolved(self) -> Self:
        """Give the place that a link leads to, there or not; itself when it is not one."""
        return self.at(self.own.resolved())

    def outside(self, path: str) -> Place:
        """Give the place of an absolute path of the machine that this place is on."""
        return self.own.outside(path)

    def stat(self) -> Entry | None:
        """Say what is here, without following a link; None when nothing is."""
        return self.own.stat()

    def names(self) -> list[tuple[str, EntryKind]]:
        """List this directory, sorted by name. Raises UnreadablePath: see `Place.names`."""
        return self.own.names()

    def entries(self) -> list[Entry]:
        """List this directory, sorted by name. Raises UnreadablePath: see `Place.entries`."""
        return self.own.entries()

    def owners(self, but: Container[str] = ()) -> list[tuple[str, int, int, int]]:
        """List this directory with owners. Raises UnreadablePath: see `Place.owners`."""
        return self.own.owners(but)

    def open(self) -> OpenFile:
        """Open a regular file for reading. Raises UnreadablePath: see `Place.open`."""
        file = self.own.open()
        if self.kind is None:
            return file
        try:
            return CutFile(self, file)
        except UnreadablePath:
            file.close()
            raise

    def open_listed(self) -> OpenFile:
        """Open a file that a listing has named. Raises UnreadablePath: see `Place.open`."""
        return self.open()

    def at(self, own: Place) -> Self:
        """Give another place of the store, as of the same cut."""
        kind = self.kinds.get(own.location, self.kind)
        return replace(self, location=own.location, own=own, kind=kind)


class CutFile(OpenFile):
    """A file, open for positioned reads; from its limit on it has zeros."""

    __slots__ = ("_kept", "_limit", "_own")

    def __init__(self, place: CutPlace, own: OpenFile) -> None:
        OpenFile.__init__(self, place, -1, own.size)
        self._own, self._kept = own, b""
        kind = place.kind
        if kind is ArtefactKind.CHECKPOINT and place.cut.checkpoint is not None:
            self._kept = place.cut.checkpoint
            self.size = self._limit = len(self._kept)
        elif kind in LOGS or kind in UNITS:
            self._limit = min(place.cut.limit(place.own, kind, own.size), own.size)
        else:
            self._limit = own.size

    @property
    def stored(self) -> int:
        """Bytes that somebody really sent."""
        return self._own.stored

    def close(self) -> None:
        """Close the file; twice does no harm."""
        self._own.close()

    def fileno(self) -> int:
        """Give the descriptor, for questions about locks."""
        return self._own.fileno()

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; return the bytes read.

        Raises:
            UnreadablePath: the disk refused (a bad sector, a lost mount).
        """
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self.size - position), 0) if position >= 0 else 0
        known = min(wanted, max(self._limit - position, 0))
        if self._kept:
            view[:known] = self._kept[position : position + known]
        elif known and (done := self._own.read_into(view[:known], position)) < known:
            return done  # it was cut short meanwhile
        view[known:wanted] = bytes(wanted - known)
        return wanted

    def next_data(self, position: int) -> int | None:
        """Give the first byte at or after a position that is not in a hole; None after the last."""
        if position >= self._limit:
            return None
        data = self._own.next_data(position)
        return data if data is not None and data < self._limit else None

    def next_hole(self, position: int) -> int:
        """Give where the next hole begins: at the limit at the latest."""
        return max(min(self._own.next_hole(position), self._limit), position)

    def _pread(self, length: int, position: int) -> bytes:
        buffer = bytearray(length)
        return bytes(buffer[: self.read_into(buffer, position)])
