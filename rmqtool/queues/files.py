"""Queues in files: consume queues, light queues among them.

Each unit has its place in a file by its number. What no file has reads as zeros, and holes of
sparse files are not read. A store has more queues than a process may open files, so some are kept
open for all queues together.
Source: ConsumeQueue#getIndexBuffer, MappedFileQueue#findMappedFileByOffset, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.kinds import UnitKind, as_units, kind_of
from rmqtool.queues.span import span_of
from rmqtool.queues.units import LookedUp, QueueUnits, Unit, UnitPlace
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.segment import MappedFiles
from rmqtool.store.unread import unread_stretches
from rmqtool.store.used import has_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.queues.kinds import Units
    from rmqtool.queues.units import QueueSpan
    from rmqtool.store.place import OpenFile
    from rmqtool.store.queues import QueueFiles
    from rmqtool.store.record_heads import OpenFiles
    from rmqtool.store.segment import Oddity, Segment

CHUNK_UNITS: Final = 1 << 15
PROBLEMS: Final = {
    UnitKind.PRE_BLANK: "a filler before the first unit",
    UnitKind.EMPTY: "zeros: unused space",
}


class MappedUnits(QueueUnits):
    """A queue in mapped files, of units of either layout.

    Args:
        name: topic, printable, and number.
        path: its directory, relative to the store root.
        opened: keeps its files open.
        listing: gives its files when they are first asked for; None for a queue without any.
    """

    def __init__(
        self,
        name: tuple[str, int],
        path: str,
        opened: OpenFiles,
        listing: Callable[[], MappedFiles] | None = None,
    ) -> None:
        self.topic, self.queue_id = name
        self.path = path
        self._opened, self._listing = opened, listing
        self._files: MappedFiles | None = None

    @classmethod
    def of(cls, queue: QueueFiles, opened: OpenFiles) -> Self:
        """Give the units of a queue that was listed."""
        return cls((queue.topic, queue.queue_id), queue.path, opened, lambda: queue.files)

    @property
    def files(self) -> MappedFiles:
        """See `QueueUnits`. Files whose names are no multiple of their length hold no place."""
        if self._files is None:  # a cached property takes a lock, and there are 50,000 queues
            self._files = self._listing().well_named() if self._listing else MappedFiles(self.path)
            self._listing = None  # it would keep the listing of each queue for nothing
        return self._files

    def file(self, segment: Segment) -> OpenFile:
        """Open one of its files, or give it when it is open; nobody else closes it.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        return self._opened.of(segment)

    @property
    def is_there(self) -> bool:
        """See `QueueUnits`."""
        return bool(self.files)

    def unread(self) -> Iterator[tuple[Oddity, int, int]]:
        """See `QueueUnits`."""
        size = self.layout.size
        for oddity, start, end in unread_stretches(self.files):
            yield oddity, start // size, end // size

    def span(self, log_start: int = 0) -> QueueSpan:
        """See `QueueUnits`."""
        return span_of(self, self.file, log_start)

    def packed(self, first: int, count: int) -> bytes:
        """See `QueueUnits`."""
        size = self.layout.size
        start, end = first * size, (first + count) * size
        segment = self.files.at(start)
        if segment is not None and end <= segment.end:
            raw = self._opened.of(segment).read_at(start - segment.start, end - start)
            return raw if len(raw) == end - start else raw.ljust(end - start, b"\0")
        return self._packed_across(start, end)

    def _packed_across(self, start: int, end: int) -> bytes:
        raw = bytearray(end - start)
        for segment in self.files:
            low, high = max(start, segment.start), min(end, segment.end)
            if low < high:
                part = self._opened.of(segment).read_at(low - segment.start, high - low)
                raw[low - start : low - start + len(part)] = part
        return bytes(raw)

    def used(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Units]]:
        """See `QueueUnits`."""
        size = self.layout.size
        for segment in self.files:
            begin = segment.start
            position = max(first * size - begin, 0)
            limit = segment.size if end is None else min(end * size - begin, segment.size)
            file = self._opened.of(segment) if position < limit else None
            while file is not None and position < limit:
                data = file.next_data(position)
                if data is None or data >= limit:
                    break
                # A hole ends where a page does, and the one past the data is not read.
                position = max(position, data - (data + begin) % size)
                units = min(CHUNK_UNITS, -((position - file.next_hole(data)) // size))
                raw = file.read_at(position, min(units * size, limit - position))
                if len(raw) < size:
                    break
                if has_data(raw):
                    yield (position + begin) // size, as_units(raw, self.layout)
                position += len(raw) // size * size

    def locate(self, number: int) -> UnitPlace:
        """See `QueueUnits`."""
        start = number * self.layout.size
        segment = self.files.at(start)
        if segment is None:
            return UnitPlace(self.path, None)
        return UnitPlace(segment.path, start - segment.start)

    def holds(self, number: int) -> bool:
        """See `QueueUnits`."""
        return self.files.at((number + 1) * self.layout.size - 1) is not None

    def look_up(self, number: int) -> LookedUp | None:
        """See `QueueUnits`."""
        start = number * self.layout.size
        segment = self.files.at(start)
        if segment is None:
            return None
        place = UnitPlace(segment.path, start - segment.start)
        raw = self._opened.of(segment).read_at(place.position or 0, self.layout.size)
        if len(raw) < self.layout.size:
            return LookedUp(None, place, "the file ends in it")
        return self._looked_up(raw, number, place)

    def _looked_up(self, raw: bytes, number: int, place: UnitPlace) -> LookedUp:
        raise NotImplementedError


class PlainUnits(MappedUnits):
    """A consume queue, which may be a light queue."""

    kind = ArtefactKind.CONSUME_QUEUE
    layout = CQ_UNIT

    @property
    def blank_end(self) -> int:
        """See `QueueUnits`: pre-blanks fill the first file up to the first real unit."""
        return self.files.segments[0].end // self.layout.size if self.files else 0

    def _looked_up(self, raw: bytes, number: int, place: UnitPlace) -> LookedUp:
        physical_offset, size, tags_code = CQ_UNIT.packer.unpack(raw)
        kind = kind_of(physical_offset, size, tags_code)
        if kind == UnitKind.REAL:
            return LookedUp(Unit(number, number, 1, physical_offset, size), place)
        invalid = f"offset {physical_offset} and size {size} can be no record's"
        return LookedUp(None, place, PROBLEMS.get(UnitKind(kind), invalid))
