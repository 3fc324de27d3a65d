"""Stage 2 for batch queues: units of 46 bytes, found by the queue offset that they begin with.

The offset that a batch queue calls its maximum is the start of its newest record, not the end.
Source: BatchConsumeQueue, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE, INVALID_POS
from rmqtool.startup.units import chunks, good_units

if TYPE_CHECKING:
    from rmqtool.startup.files import FileQueue, ModelFile
    from rmqtool.startup.records import DispatchRequest

_FILES_RECOVERED: Final = 3
_POSITIONS: Final = BATCH_CQ_UNIT.positions


@dataclass(slots=True)
class BatchQueue:
    """One batch queue."""

    layout: ClassVar = BATCH_CQ_UNIT

    topic: str  # its topic
    queue_id: int  # its number
    files: FileQueue  # its files
    max_physical_offset: int = -1  # start of the newest record that it points to
    minimum: int = -1  # smallest queue offset; -1 when it has none
    maximum: int = 0  # next queue offset
    appended: int = 0  # units that this start would append
    shifted: int = 0  # a unit's place says nothing here, so none is ever out of place

    def destroy(self) -> None:
        """Delete everything. Source: BatchConsumeQueue#destroy."""
        self.files.destroy()
        self.max_physical_offset, self.minimum, self.maximum = -1, -1, 0

    def recover(self) -> None:
        """Find the end: the first unit that is not one, in the three newest files.

        Source: BatchConsumeQueue#recover.
        """
        if not self.files.files:
            return
        end = 0
        for file in self.files.files[-_FILES_RECOVERED:]:
            good = good_units(file, BATCH_CQ_UNIT)
            end = file.start + good.end
            if good.last is not None:
                self.max_physical_offset = int(good.last["physical_offset"])
            if good.end != file.length:
                break
        self.files.cut(end)
        self._revise()

    def truncate(self, physical_offset: int) -> None:
        """Cut the units of records that begin at or after `physical_offset`.

        Source: BatchConsumeQueue#truncateDirtyLogicFiles.
        """
        self.max_physical_offset = physical_offset - 1
        while (file := self.files.last) is not None:
            first = _unit(file, 0)["physical_offset"]
            if first >= physical_offset:
                self.files.delete_last()
                continue
            good = good_units(file, BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE, physical_offset)
            file.wrote_position = good.end
            last = good.last
            self.max_physical_offset = first if last is None else int(last["physical_offset"])
            break
        self._revise()

    def put(self, record: DispatchRequest, base: int, count: int) -> None:
        """Append the unit of a record. Source: BatchConsumeQueue#putBatchMessagePositionInfo.

        Args:
            record: the record.
            base: queue offset of its first message.
            count: messages in it.
        """
        if record.physical_offset <= self.max_physical_offset:
            return
        file = self.files.last_for_append(self.files.maximum)
        values = (
            record.physical_offset,
            record.size,
            0,
            record.store_timestamp,
            base,
            count,
            INVALID_POS,
            0,
        )
        file.append(BATCH_CQ_UNIT.packer.pack(*values))
        self.max_physical_offset, self.maximum = record.physical_offset, base + count
        self.appended += 1
        if file.is_first_created and self.minimum == -1:
            self._revise_minimum()

    def correct_minimum(self, log_minimum: int) -> None:
        """Move the minimum over units of the first file whose records are gone.

        Source: BatchConsumeQueue#correctMinOffset.
        """
        self._revise_minimum()
        file = self.files.first
        if file is None:
            return
        with file.open() as reader:
            for units in chunks(reader, BATCH_CQ_UNIT, 0, file.wrote_position):
                gone = units["physical_offset"] < log_minimum
                count = len(units) if gone.all() else int((~gone).argmax())
                if count:
                    last = units[count - 1]
                    self.minimum = int(last["msg_base_offset"]) + int(last["batch_size"])
                if count < len(units):
                    return

    def _revise(self) -> None:
        """Source: BatchConsumeQueue#reviseMaxAndMinOffsetInQueue."""
        self._revise_minimum()
        self.maximum = 0
        for file in self.files.files[-2:][::-1]:
            if file.wrote_position >= BATCH_CQ_UNIT_SIZE:
                newest = _unit(file, file.wrote_position - BATCH_CQ_UNIT_SIZE)
                self.maximum = newest["msg_base_offset"] + newest["batch_size"]
                return

    def _revise_minimum(self) -> None:
        """Source: BatchConsumeQueue#reviseMinOffsetInQueue."""
        first = self.files.first
        if first is None:
            self.maximum, self.minimum = 0, -1
        elif first.wrote_position < BATCH_CQ_UNIT_SIZE:
            self.minimum = -1
        else:
            self.minimum = _unit(first, 0)["msg_base_offset"]


def _unit(file: ModelFile, position: int) -> dict[str, int]:
    with file.open() as reader:
        raw = reader.read_at(position, BATCH_CQ_UNIT_SIZE).ljust(BATCH_CQ_UNIT_SIZE, b"\0")
    return dict(zip(_POSITIONS, BATCH_CQ_UNIT.packer.unpack(raw), strict=True))
