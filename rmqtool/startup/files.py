"""The broker's mapped files as it sees them: positions that go down, files that go away.

Nothing is written: what a broker would write lies over the bytes of the file, in memory.
Source: MappedFileQueue, MappedFile, DefaultMappedFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

from rmqtool.store.used import lone_extent, without_zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import OpenFile, Place


_FIRST_WINDOW: Final = 1 << 12  # bytes; it grows while it is read on
_LARGEST_WINDOW: Final = 1 << 18
_MOST_HELD: Final = 1 << 14  # bytes of data of one file


def java_remainder(number: int, divisor: int) -> int:
    """Give `number % divisor` as Java does, with the sign of the dividend."""
    return int(math.copysign(1, number)) * (abs(number) % divisor)


class HeldFile:
    """A sparse file with little in it, read once: a start looks into each queue seven times.

    Attributes:
        size: bytes of the file.

    Args:
        begin: position of the data.
        data: what lies there; all else is zeros.
        size: bytes of the file.
    """

    __slots__ = ("_begin", "_data", "size")

    def __init__(self, begin: int, data: bytes, size: int) -> None:
        self._begin, self._data, self.size = begin, data, size

    @classmethod
    def of(cls, file: OpenFile) -> Self | None:
        """Read a file; None where it has more than a few pages of data.

        Raises:
            UnreadablePath: the disk refused.
        """
        extent = lone_extent(file)
        if extent is None or extent[1] - extent[0] > _MOST_HELD:
            return None
        begin, end = extent
        return cls(begin, without_zeros(file.read_at(begin, end - begin)), file.size)

    def __len__(self) -> int:
        return len(self._data)

    def read_at(self, position: int, length: int) -> bytes:
        """Read as `OpenFile.read_at` does."""
        length = max(min(length, self.size - position), 0)
        begin = position - self._begin
        if begin < 0:
            raw = bytes(min(-begin, length)) + self._data[: max(length + begin, 0)]
        else:
            raw = self._data[begin : begin + length]
        return raw.ljust(length, b"\0")

    def next_data(self, position: int) -> int | None:
        """Give the first byte that is not in a hole; None after the last one."""
        position = max(position, self._begin)
        return position if position < self._begin + len(self._data) else None

    def next_hole(self, position: int) -> int:
        """Give where the next hole begins."""
        return max(position, self._begin + len(self._data)) if position >= self._begin else position


@dataclass(slots=True)
class Shelf:
    """How many bytes of short files may be held."""

    left: int = 256 << 20


@dataclass(slots=True)
class ModelFile:
    """One mapped file."""

    path: str  # relative to the store root; of a file that the broker would create, too
    start: int  # first byte of the byte space, from the name
    length: int  # configured length of the file
    place: Place | None = None  # where it lies; None for one that the broker would create
    wrote_position: int = 0  # after the last byte that the broker takes for written
    is_first_created: bool = False  # created in an empty queue, by this start
    # (position, bytes) of what the broker would write, in order
    written: list[tuple[int, bytearray]] = field(default_factory=list)
    shelf: Shelf | None = None  # where its bytes may be held, if they are few; None for nowhere
    _held: HeldFile | None = None

    @property
    def end(self) -> int:
        """Byte of the byte space after this file."""
        return self.start + self.length

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be written."""
        return self.wrote_position == self.length

    @contextmanager
    def open(self) -> Iterator[ModelReader]:
        """Open for reading, whatever was written over it included.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        if self.place is None:
            yield ModelReader(self, None)
        elif self._held is not None:
            yield ModelReader(self, self._held)
        else:
            with self.place.open() as file:
                if self.shelf is not None and self.shelf.left > 0:
                    self._held = HeldFile.of(file)
                    if self._held is None:
                        self.shelf = None  # nor the next time
                    else:
                        self.shelf.left -= len(self._held)
                yield ModelReader(self, file if self._held is None else self._held)

    def append(self, data: bytes) -> None:
        """Write at the end; the caller has seen to the room."""
        position = self.wrote_position
        if self.written and _end_of(self.written[-1]) == position:
            self.written[-1][1].extend(data)
        else:
            self.written.append((position, bytearray(data)))
        self.wrote_position = position + len(data)


class ModelReader:
    """Positioned reads of a `ModelFile`; what lies past the end of the file is zero."""

    __slots__ = ("_file", "_model", "_window", "_window_begin", "_window_bytes")

    def __init__(self, model: ModelFile, file: OpenFile | HeldFile | None) -> None:
        self._model, self._file = model, file
        self._window, self._window_begin, self._window_bytes = b"", 0, _FIRST_WINDOW

    def read_at(self, position: int, length: int) -> bytes:
        """Read; fewer bytes only at the configured end of the file.

        Raises:
            UnreadablePath: the disk refused.
        """
        begin, model = position - self._window_begin, self._model
        is_here = begin >= 0 < length <= min(len(self._window) - begin, model.length - position)
        if is_here and not model.written:
            return self._window[begin : begin + length]  # of a record there are a dozen reads
        length = max(min(length, self._model.length - position), 0)
        data = self._stored(position, length).ljust(length, b"\0")
        if not self._model.written:
            return data
        merged = bytearray(data)
        for begin, bytes_there in self._model.written:
            first, last = max(begin, position), min(begin + len(bytes_there), position + length)
            if first < last:
                merged[first - position : last - position] = bytes_there[
                    first - begin : last - begin
                ]
        return bytes(merged)

    def stretches(self, end: int, unit: int, begin: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the stretches before `end` that are not holes of a sparse file, in whole units.

        A queue file is 6 MB long, and of most queues only the first page is there.

        Args:
            end: position.
            unit: bytes of one.
            begin: position; that of the unit that it lies in counts.
        """
        position = begin // unit * unit
        if self._file is None or self._model.written:
            yield position, end
            return
        while position < end:
            data = self._file.next_data(position)
            if data is None or data >= end:
                return
            begin = max(data // unit * unit, position)
            # Asked of the data: the unit that it lies in may begin in the hole before.
            position = min(-(-self._file.next_hole(data) // unit) * unit, end)
            yield begin, position

    def _stored(self, position: int, length: int) -> bytes:
        """Read from the file, by windows: a record is asked for in a dozen small pieces."""
        if self._file is None:
            return b""
        begin = position - self._window_begin
        if begin < 0 or begin + length > len(self._window):
            if length > self._window_bytes:
                return self._file.read_at(position, length)
            self._window = self._file.read_at(position, self._window_bytes)
            self._window_begin, begin = position, 0
            self._window_bytes = min(2 * self._window_bytes, _LARGEST_WINDOW)
        return self._window[begin : begin + length]


@dataclass(slots=True)
class FileQueue:
    """A mapped file queue."""

    path: str  # its directory, relative to the store root
    file_length: int  # configured length of its files
    # in the broker's order, which is that of their names
    files: list[ModelFile] = field(default_factory=list)
    # such as it refuses for their length: it does not start, and what they hold is there
    refused: list[ModelFile] = field(default_factory=list)
    # paths of files that the broker would delete, in order
    deleted: list[str] = field(default_factory=list)
    # paths of files that the broker would create, in order
    created: list[str] = field(default_factory=list)

    @property
    def first(self) -> ModelFile | None:
        """The oldest file."""
        return self.files[0] if self.files else None

    @property
    def last(self) -> ModelFile | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    @property
    def minimum(self) -> int:
        """Start of the byte space; -1 without files. Source: MappedFileQueue#getMinOffset."""
        return self.files[0].start if self.files else -1

    @property
    def maximum(self) -> int:
        """End of what is written; 0 without files. Source: MappedFileQueue#getMaxOffset."""
        return self.files[-1].start + self.files[-1].wrote_position if self.files else 0

    def find(self, offset: int, *, or_first: bool = False) -> ModelFile | None:
        """Give the file that holds a byte.

        That is the one which so many files ought to lie before, if its name fits, else the first
        one whose name does. Source: MappedFileQueue#findMappedFileByOffset, 4.9.3 to 5.5.0.
        """
        if not self.files:
            return None
        file = None
        if self.files[0].start <= offset < self.files[-1].end:
            counted = offset // self.file_length - self.files[0].start // self.file_length
            likely = chain(self.files[counted : counted + 1], self.files)
            file = next((file for file in likely if file.start <= offset < file.end), None)
        return self.files[0] if file is None and or_first else file

    def cut(self, offset: int) -> None:
        """Lower the position of the file that holds `offset`, delete the files after it.

        Source: MappedFileQueue#truncateDirtyFiles.
        """
        kept = []
        for file in self.files:
            if file.end > offset:
                if offset < file.start:
                    self._delete(file)
                    continue
                file.wrote_position = java_remainder(offset, self.file_length)
            kept.append(file)
        self.files = kept

    def delete_before(self, offset: int) -> None:
        """Delete the files that end before a byte."""
        for file in [file for file in self.files if file.end < offset]:
            self.files.remove(file)
            self._delete(file)

    def delete_last(self) -> None:
        """Delete the newest file. Source: MappedFileQueue#deleteLastMappedFile."""
        self._delete(self.files.pop())

    def destroy(self) -> None:
        """Delete all files. Source: MappedFileQueue#destroy."""
        while self.files:
            self.delete_last()

    def last_for_append(self, start_offset: int) -> ModelFile:
        """Give the file to append to; a new one when there is not one or the last one is full.

        Source: MappedFileQueue#getLastMappedFile(long), #tryCreateMappedFile.
        """
        last = self.last
        if last is not None and not last.is_full:
            return last
        start = (
            last.end
            if last is not None
            else start_offset - java_remainder(start_offset, self.file_length)
        )
        path = f"{self.path}/{start:020}"
        self.created.append(path)
        self.files.append(ModelFile(path, start, self.file_length, is_first_created=last is None))
        return self.files[-1]

    def _delete(self, file: ModelFile) -> None:
        if file.place is None:
            self.created.remove(file.path)
        else:
            self.deleted.append(file.path)


def _end_of(stretch: tuple[int, bytearray]) -> int:
    return stretch[0] + len(stretch[1])
