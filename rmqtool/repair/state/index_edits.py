"""Takes rebuilt index files, and keeps as edits what differs from the files on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_index import IX_HEAD
from rmqtool.formats.index import FIRST_ENTRY, INDEX_HEADER, entry_position
from rmqtool.rebuild.index_file import stretches, unwritten
from rmqtool.repair.log.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.findings.catalogue import Code
    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.tree import Store

    Bytes = npt.NDArray[np.uint8]

FIRST_BYTES: Final = 12  # of an entry: hash and physical offset
COMPARED: Final = 1 << 22
NEAR: Final = 4096  # bytes between two ranges that are written as one
MOST_BYTES: Final = 256 << 20  # of a plan; more is a rebuild
REBUILD: Final = "so much of the index differs that rmqtool rebuild-index --in-place is the tool"
REASON: Final = "what the log gives here"
BACKWARDS: Final = "the header's end lies before its begin"
STORE_TIME: Final = "none: the store time of a record is damaged, and the header follows it"
NO_TIME: Final = 1 << 62
MISSING: Final = "the index file of these records, missing until now"


@dataclass(slots=True)
class IndexEdits:
    """Compares built files with those on disk, piece by piece."""

    writer: EditWriter  # takes the edits
    store: Store  # whose files they are compared with
    directory: str  # of the index
    harmed: set[str]  # paths that findings name
    code: Code  # of the finding
    amount: int = 0  # bytes that the edits bring so far
    _first: int = -1
    _name: str = ""
    _last: str = ""
    _size: int = 0
    _found: IndexFile | None = None
    _seen: set[str] = field(default_factory=set)
    _pieces: list[tuple[int, bytes]] = field(default_factory=list)

    def put_entries(self, built: BuiltEntries) -> None:
        """Take the next entries of a file; the unused entry 0 is taken as zero."""
        data = built.data
        start, end = unwritten(built.slots)
        first = data[end - start :][:FIRST_BYTES].tobytes() if built.position == start else b""
        self._open(built.name, built.size, first)
        if built.position == start:
            data = data.copy()
            data[: end - start] = 0
        self._take(built.position, data)

    def put_index(self, built: BuiltIndexFile) -> None:
        """Take header and slots, and write down what differs of the file."""
        self._open(built.name, built.size)
        if built.header["end_timestamp"] < built.header["begin_timestamp"] < NO_TIME:
            location = self._found.path if self._found is not None else f"index/{built.name}"
            self.writer.leave(IX_HEAD, location, BACKWARDS, STORE_TIME)
        if self._found is not None and self._found.size == built.size:
            self._take(0, built.head)
            self._zero_behind(self._found, max(built.used, unwritten(built.slots)[1]))
            self._write(self._found)
        else:
            self._pieces += [(start, bytes(part)) for start, part in stretches(built.head)]
            self.amount += len(built.head)
            self._whole(built)
        self._name = ""

    def finish(self) -> bool:
        """Take out files that the log gives no entry for; give up where too much differs.

        Returns:
            Whether the edits stand.
        """
        for file in self.store.index_files():
            if file.place.name not in self._seen:
                reason = "the log gives no such index file"
                self.writer.remove(file.place.location, self.code, reason)
        if self.amount > MOST_BYTES:
            del self.writer.edits[self._first :]
            self.writer.leave(self.code, "index", "the index is damaged", REBUILD)
            return False
        return True

    def _open(self, name: str, size: int, first: bytes = b"") -> None:
        """Find the file on disk that a built one stands for: of its name, else of its first entry.

        Args:
            name: of the built file.
            size: of the built file.
            first: hash and physical offset of its first entry.
        """
        if name == self._name:
            return
        if self._first < 0:
            self._first = len(self.writer.edits)
        self._name, self._size, self._pieces = name, size, []
        files = [file for file in self.store.index_files() if file.place.name not in self._seen]
        found = next((file for file in files if file.place.name == name), None)
        if found is None and first:  # its header is what is damaged
            later = [file for file in files if file.place.name > self._last]  # as brokers load them
            found = next((file for file in later if _first_entry(file, len(first)) == first), None)
        self._found = found
        self._last = found.place.name if found is not None else name
        if found is not None:
            self._seen.add(found.place.name)

    def _take(self, position: int, wanted: Bytes) -> None:
        """Keep what differs; all of it where there is no file to compare with."""
        found = self._found
        if found is None or found.size != self._size:
            self._keep(position, wanted)
            return
        with found.place.open() as file:
            for begin in range(0, wanted.size, COMPARED):
                part = wanted[begin : begin + COMPARED]
                there = np.frombuffer(file.read_at(position + begin, part.size), np.uint8)
                for low, high in _ranges(np.flatnonzero(there != part[: there.size])):
                    self._keep(position + begin + low, part[low:high])

    def _keep(self, position: int, wanted: Bytes) -> None:
        self.amount += wanted.size
        if self.amount <= MOST_BYTES:
            self._pieces.append((position, wanted.tobytes()))

    def _zero_behind(self, found: IndexFile, position: int) -> None:
        """Zero what stands after the last entry."""
        with found.place.open() as file:
            while (start := file.next_data(position)) is not None and start < file.size:
                raw = file.read_at(start, COMPARED)
                used = len(raw.rstrip(b"\0"))
                if used:
                    self._keep(start, np.zeros(used, np.uint8))
                position = start + max(len(raw), 1)

    def _write(self, found: IndexFile) -> None:
        """Write down the ranges of a file that differ."""
        in_header = all(at + len(raw) <= INDEX_HEADER.size for at, raw in self._pieces)
        if in_header and found.path not in self.harmed:
            return  # times of expired entries are known to the second only
        for position, raw in sorted(self._pieces):
            place = (found.place.location, found.size, position)
            self.writer.write_at(place, Content.of(raw), self.code, REASON)

    def _whole(self, built: BuiltIndexFile) -> None:
        """Write a file down that is missing, or has another length."""
        content = Content(built.size, tuple(sorted(self._pieces)))
        if self._found is not None:
            self.writer.replace(self._found.place.location, content, self.code, REASON)
            return
        location = f"{self.directory}/{built.name}"
        mtime_ms = built.header["end_timestamp"] or None
        self.writer.create(location, content, self.code, MISSING, mtime_ms=mtime_ms)


def _first_entry(file: IndexFile, length: int) -> bytes:
    try:
        with file.place.open() as opened:
            return opened.read_at(entry_position(file.slots, FIRST_ENTRY), length)
    except UnreadablePath:
        return b""


def _ranges(places: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the ranges that hold all places; those near each other as one."""
    if places.size:
        for group in np.split(places, np.flatnonzero(np.diff(places) > NEAR) + 1):
            yield int(group[0]), int(group[-1]) + 1
