"""Stage 2: a consume queue's life in a starting broker: recovered, cut, appended to, corrected.

Source: ConsumeQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from rmqtool.broker.rules import MinimumSearch
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, PRE_BLANK
from rmqtool.formats.java import to_int64
from rmqtool.startup.extension import newest_address
from rmqtool.startup.files import java_remainder
from rmqtool.startup.units import chunks, good_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqtool.startup.extension import Extension
    from rmqtool.startup.files import FileQueue, ModelFile, ModelReader
    from rmqtool.startup.records import DispatchRequest

    Int64s = NDArray[np.int64]

QueueKey = tuple[str, int]  # topic and number
_FILES_RECOVERED: Final = 3  # the newest ones; older files are not looked at


class EmptyLastFile(Exception):
    """Java throws here: the position before the first byte of a file. Never leaves the package."""


@dataclass(slots=True)
class ConsumeQueue:
    """One consume queue."""

    layout: ClassVar = CQ_UNIT

    topic: str  # its topic
    queue_id: int  # its number
    files: FileQueue  # its files
    # after the newest record that it points to, as the broker believes
    max_physical_offset: int = -1
    min_position: int = 0  # byte of the queue's first unit that still has a record
    appended: int = 0  # units that this start would append
    shifted: int = 0  # of these, units that would not stand at their record's queue offset
    extension: Extension | None = None  # of its units; None where the broker has none

    @property
    def minimum(self) -> int:
        """Smallest queue offset that is handed out."""
        return self.min_position // CQ_UNIT_SIZE

    @property
    def maximum(self) -> int:
        """Next queue offset."""
        return self.files.maximum // CQ_UNIT_SIZE

    def destroy(self) -> None:
        """Delete everything. Source: ConsumeQueue#destroy."""
        self.files.destroy()
        if self.extension is not None:
            self.extension.files.destroy()
        self.max_physical_offset, self.min_position = -1, 0

    def recover(self) -> None:
        """Find the end: the first unit that is not one, in the three newest files.

        Source: ConsumeQueue#recover.

        Raises:
            StartFails: Java throws at the extension.
        """
        if not self.files.files:
            return
        end, newest = 0, None
        for file in self.files.files[-_FILES_RECOVERED:]:
            good = good_units(file, CQ_UNIT)
            end = file.start + good.end
            if good.last is not None:
                self.max_physical_offset = _end(good.last)
            if self.extension is not None:
                addressed = newest_address(file, good.end)
                newest = newest if addressed is None else addressed
            if good.end != file.length:
                break
        self.files.cut(end)
        if self.extension is not None:
            self.extension.recover(newest)

    def truncate(self, physical_offset: int) -> None:
        """Cut the units of records that begin at or after `physical_offset`.

        The first unit of a file is kept without a look at its size: in an empty last file a unit
        of zeros appears. A queue whose every file goes, or that had none, believes in
        `physical_offset` itself, and later skips records before it.
        Source: ConsumeQueue#truncateDirtyLogicFiles.
        """
        self.max_physical_offset = physical_offset
        while (file := self.files.last) is not None:
            with file.open() as reader:
                raw = reader.read_at(0, CQ_UNIT_SIZE).ljust(CQ_UNIT_SIZE, b"\0")
                first, size, _ = CQ_UNIT.packer.unpack(raw)
            if first >= physical_offset:
                self.files.delete_last()
                continue
            good = good_units(file, CQ_UNIT, CQ_UNIT_SIZE, physical_offset)
            file.wrote_position = good.end
            self.max_physical_offset = first + size if good.last is None else _end(good.last)
            return

    def put(self, record: DispatchRequest, queue_offset: int, tags_code: int = 0) -> None:
        """Append the unit of a record, or skip it as one that is there already."""
        self.put_unit(record.physical_offset, record.size, queue_offset, tags_code)

    def put_unit(
        self, physical_offset: int, size: int, queue_offset: int, tags_code: int = 0
    ) -> None:
        """Do the same by the fields. Source: ConsumeQueue#putMessagePositionInfo."""
        if physical_offset + size <= self.max_physical_offset:
            return
        expected = to_int64(queue_offset * CQ_UNIT_SIZE)
        file = self.files.last_for_append(expected)
        if file.is_first_created and queue_offset and not file.wrote_position:
            self.min_position = expected
            blank = java_remainder(expected, self.files.file_length)
            file.append(PRE_BLANK * max(blank // CQ_UNIT_SIZE, 0))
        current = file.start + file.wrote_position
        if queue_offset and expected < current:
            return
        self.shifted += expected != current
        self.max_physical_offset = physical_offset + size
        file.append(CQ_UNIT.packer.pack(physical_offset, size, tags_code))
        self.appended += 1

    def put_many(self, offsets: Int64s, sizes: Int64s, queue_offsets: Int64s) -> None:
        """Append the units of several records, as `put` would one after the other.

        Args:
            offsets: int64, shape (n,); physical offsets, as the records say.
            sizes: int64, shape (n,).
            queue_offsets: int64, shape (n,).
        """
        ends = offsets + sizes
        number = 0
        while number < len(offsets):
            new = np.flatnonzero(ends[number:] > self.max_physical_offset)
            if not new.size:
                return
            number += int(new[0])
            number += self._put_run(offsets[number:], sizes[number:], queue_offsets[number:])

    def _put_run(self, offsets: Int64s, sizes: Int64s, queue_offsets: Int64s) -> int:
        """Append as many units as follow each other and fit into the file; at least one record."""
        last = self.files.last
        expected = int(queue_offsets[0]) * CQ_UNIT_SIZE
        if last is None or last.is_full or expected != self.files.maximum:
            self.put_unit(int(offsets[0]), int(sizes[0]), int(queue_offsets[0]))
            return 1
        follows = (np.diff(queue_offsets) == 1) & (np.diff(offsets + sizes) > 0)
        count = len(offsets) if follows.all() else int(follows.argmin()) + 1
        count = min(count, (last.length - last.wrote_position) // CQ_UNIT_SIZE)
        units = np.zeros(count, CQ_UNIT.dtype)
        units["physical_offset"], units["size"] = offsets[:count], sizes[:count]
        last.append(units.tobytes())
        self.max_physical_offset = int(offsets[count - 1] + sizes[count - 1])
        self.appended += count
        return count

    def correct_minimum(self, log_minimum: int, search: MinimumSearch) -> None:
        """Find the first unit of the first file whose record is still in the log.

        Raises:
            EmptyLastFile: Java throws, and the broker does not start.
        """
        if search is MinimumSearch.LINEAR:
            self._correct_linear(log_minimum)
        else:
            self._correct_binary(log_minimum, search)

    def _correct_linear(self, log_minimum: int) -> None:
        """Source: ConsumeQueue#correctMinOffset, 4.9.x."""
        file = self.files.first
        if file is None or not file.wrote_position:
            return
        with file.open() as reader:
            position = 0
            for units in chunks(reader, CQ_UNIT, 0, file.wrote_position):
                rows = np.flatnonzero(units["physical_offset"] >= log_minimum)
                if rows.size:
                    self._begin_at(file, position + int(rows[0]) * CQ_UNIT_SIZE)
                    return
                position += units.nbytes

    def _correct_binary(self, log_minimum: int, search: MinimumSearch) -> None:
        """Source: ConsumeQueue#correctMinOffset, 5.0.0 to 5.5.1."""
        first, last = self.files.first, self.files.last
        if last is None and search is MinimumSearch.RESETTING:
            self.min_position, self.max_physical_offset = 0, -1
        if first is None or last is None or self.min_position >= self.files.maximum:
            return
        if last.wrote_position < CQ_UNIT_SIZE and search is MinimumSearch.BINARY:
            raise EmptyLastFile(last.path)
        if last.wrote_position >= CQ_UNIT_SIZE:
            with last.open() as reader:
                newest = _physical_offset(reader, last.wrote_position - CQ_UNIT_SIZE)
            if newest < log_minimum:
                self.min_position = last.start + last.wrote_position
                return
        begin = max(self.min_position - first.start, 0)
        if begin >= first.wrote_position:
            return
        with first.open() as reader:
            is_intact = self.min_position >= first.start
            if is_intact and _physical_offset(reader, begin) >= log_minimum:
                return
            position = _bisect(reader, begin, first.wrote_position, log_minimum)
        if position is not None:
            self._begin_at(first, position)

    def _begin_at(self, file: ModelFile, position: int) -> None:
        """Take a unit of the first file as the first that is handed out."""
        self.min_position = file.start + position
        if self.extension is not None:
            with file.open() as reader:
                _, _, tags_code = CQ_UNIT.packer.unpack(reader.read_at(position, CQ_UNIT_SIZE))
            self.extension.delete_before(tags_code)


def _end(unit: np.void) -> int:
    """Give the physical offset past the record of a unit."""
    return int(unit["physical_offset"]) + int(unit["size"])


def _physical_offset(reader: ModelReader, position: int) -> int:
    """Read the offset of a unit; what Java maps past the end of a file that is cut is zeros."""
    offset: int
    raw = reader.read_at(position, CQ_UNIT_SIZE).ljust(CQ_UNIT_SIZE, b"\0")
    offset, _, _ = CQ_UNIT.packer.unpack(raw)
    return offset


def _bisect(reader: ModelReader, begin: int, end: int, log_minimum: int) -> int | None:
    """Search as Java does, which on units out of order gives what it gives."""
    low, high = 0, end - begin - CQ_UNIT_SIZE
    while high - low > CQ_UNIT_SIZE:
        middle = (low + high) // 2 // CQ_UNIT_SIZE * CQ_UNIT_SIZE
        offset = _physical_offset(reader, begin + middle)
        if offset > log_minimum:
            high = middle
        elif offset == log_minimum:
            low = high = middle
        else:
            low = middle
    for position in range(low, high + 1, CQ_UNIT_SIZE):
        if _physical_offset(reader, begin + position) >= log_minimum:
            return begin + position
    return None
