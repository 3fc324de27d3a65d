"""What is known of one consume queue while the log goes by, and its files."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.check.log.zeros import has_data
from rmqtool.formats.consume_queue import CQ_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import MappedFiles, Segment

UNIT: Final = CQ_UNIT.size
OPEN_FILES: Final = 512  # half of what a process may usually have
CHUNK_UNITS: Final = 1 << 15


class Break(NamedTuple):
    """Queue offsets that no record of the log has.

    Attributes:
        start: first of them.
        end: behind the last one.
        before: physical offset of the record in front of them.
        after: physical offset of the record behind them.
    """

    start: int
    end: int
    before: int
    after: int


class Outlier(NamedTuple):
    """Records whose queue offsets do not follow, although their units do.

    Attributes:
        number: queue offset at which the units lie.
        queue_offset: what the first of the records says.
        records: how many.
        physical_offset: of the first one.
    """

    number: int
    queue_offset: int
    records: int
    physical_offset: int


@dataclass(slots=True)
class QueueState:
    """One queue. Numbers count units from the begin of the queue.

    Attributes:
        topic: its name, printable.
        queue_id: its number.
        path: its directory relative to the store root.
        files: its files; None when there is no directory, or when it cannot be listed.
        first: first unit that a record of the log wants; -1 before there was one.
        expected: where the next record's unit belongs.
        delta: what the queue offsets of the records are ahead of their units.
        last_physical_offset: of the record before.
        wrong: [start, end, physical offset wanted at start] of units that are not as wanted.
        breaks: queue offsets without a record.
        outlier: records with wrong queue offsets, until the next ones decide.
        unread: [start, end) of units that cannot be read, so that nothing is said of them.
    """

    topic: str
    queue_id: int
    path: str
    files: MappedFiles | None
    first: int = -1
    expected: int = -1
    delta: int = 0
    last_physical_offset: int = -1
    wrong: list[list[int]] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    outlier: Outlier | None = None
    unread: list[tuple[int, int]] = field(default_factory=list)

    def assume(self, start: int, wanted: bytes, found: bytes) -> bytes:
        """Take units that cannot be read for what they should be."""
        patched = bytearray(found)
        for low, high in self.unread:
            begin = max(low - start, 0) * UNIT
            end = max(min((high - start) * UNIT, len(wanted)), begin)
            patched[begin:end] = wanted[begin:end]
        return bytes(patched)

    def mark_wrong(self, start: int, end: int, physical_offset: int) -> None:
        """Note units that are not as wanted; neighbours become one stretch."""
        if self.wrong and self.wrong[-1][1] == start:
            self.wrong[-1][1] = end
        else:
            self.wrong.append([start, end, physical_offset])

    def place(self, number: int) -> tuple[str, int]:
        """Give file and position of a unit; the directory where no file is."""
        start = number * UNIT
        segment = self.files.at(start) if self.files else None
        return (segment.path, start - segment.start) if segment else (self.path, 0)


class QueueReader:
    """Reads units; keeps some files open, as a store has more queues than a process may open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def file_of(self, segment: Segment) -> OpenFile:
        """Open a file, or give it when it is open.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        location = segment.place.location
        if location in self._open:
            self._open.move_to_end(location)
        else:
            if len(self._open) >= OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            self._open[location] = segment.open()
        return self._open[location]

    def read(self, files: MappedFiles | None, number: int, count: int) -> bytes:
        """Read units; zeros stand for those that no file has.

        Raises:
            UnreadablePath: a file cannot be read.
        """
        start, end = number * UNIT, (number + count) * UNIT
        segment = files.at(start) if files else None
        if segment is not None and end <= segment.end:
            raw = self.file_of(segment).read_at(start - segment.start, end - start)
            return raw if len(raw) == end - start else raw.ljust(end - start, b"\0")
        return self._read_across(files, start, end)

    def _read_across(self, files: MappedFiles | None, start: int, end: int) -> bytes:
        raw = bytearray(end - start)
        for segment in files.segments if files else ():
            low, high = max(start, segment.start), min(end, segment.end)
            if low < high:
                part = self.file_of(segment).read_at(low - segment.start, high - low)
                raw[low - start : low - start + len(part)] = part
        return bytes(raw)

    def used(
        self, files: MappedFiles | None, begin: int, end: int | None = None
    ) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield (number of the first, units) of what is not zero in [begin, end) of a queue.

        Raises:
            UnreadablePath: a file cannot be read.
        """
        for segment in files.segments if files else ():
            low = max(begin * UNIT, segment.start)
            high = segment.end if end is None else min(end * UNIT, segment.end)
            file = self.file_of(segment) if low < high else None
            position = low - segment.start
            while file is not None and position < high - segment.start:
                data = file.next_data(position)
                if data is None or data >= high - segment.start:
                    break
                # A hole ends where a page does, and the one behind the data is not read.
                position = max(position, data - (data + segment.start) % UNIT)
                units = min(CHUNK_UNITS, -((position - file.next_hole(data)) // UNIT))
                length = min(units * UNIT, high - segment.start - position)
                raw = file.read_at(position, length)
                if len(raw) < UNIT:
                    break
                if has_data(raw):
                    yield (position + segment.start) // UNIT, as_units(raw)
                position += len(raw) // UNIT * UNIT


def as_units(raw: bytes) -> npt.NDArray[np.void]:
    """Give whole units as a structured array, big-endian."""
    return np.frombuffer(raw, CQ_UNIT.dtype, len(raw) // UNIT)
