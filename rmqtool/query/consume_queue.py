"""Look up places of queues: a unit names the record, the record must agree.

Source: ConsumeQueue#getIndexBuffer, BatchConsumeQueue#getBatchMsgIndexBuffer, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, is_pre_blank
from rmqtool.formats.java import parse_long
from rmqtool.formats.properties import (
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
)
from rmqtool.query.topics import LMQ_PREFIX
from rmqtool.store.branch import BranchKind
from rmqtool.store.queue_range import LAYOUTS, QueueRange, Unit, read_range, used_bytes

if TYPE_CHECKING:
    from rmqtool.formats.message import Message
    from rmqtool.store.place import OpenFile
    from rmqtool.store.queues import QueueFiles
    from rmqtool.store.segment import Segment

NEIGHBOURS: Final = 512  # units that are looked at to find the bounds of a lost one


class UnitPlace(NamedTuple):
    """A unit and where it lies.

    Attributes:
        unit: what it says; None when it can be no unit.
        path: of its file.
        position: in its file.
        problem: why it is none; empty when it is one.
    """

    unit: Unit | None
    path: str
    position: int
    problem: str = ""


class Queue:
    """One queue, plain or batch; keeps its file open.

    Args:
        files: of the queue.
        kind: of its units.
        log_start: first byte of the commitlog that is there.
    """

    def __init__(self, files: QueueFiles, kind: BranchKind, log_start: int) -> None:
        self.files, self.kind, self.log_start = files, kind, log_start
        self._file: OpenFile | None = None
        self._segment: Segment | None = None

    def close(self) -> None:
        """Close the file that was read last."""
        if self._file is not None:
            self._file.close()
            self._file = self._segment = None

    @cached_property
    def range(self) -> QueueRange:
        """How far the queue reaches.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return read_range(self.files, self.kind, self.log_start)

    @property
    def is_batch(self) -> bool:
        """Whether a unit may stand for several messages."""
        return self.kind is BranchKind.BATCH_QUEUE

    @property
    def unit_size(self) -> int:
        """Bytes of a unit."""
        return LAYOUTS[self.kind].size

    def find(self, queue_offset: int) -> UnitPlace | None:
        """Give the unit that stands for a queue offset; None outside of the files.

        Raises:
            UnreadablePath: a file may not be read.
        """
        if self.is_batch:
            return self._find_batch(queue_offset)
        return self.at(queue_offset * CQ_UNIT.size)

    def at(self, start: int) -> UnitPlace | None:
        """Give the unit at a byte of the queue; None where no file is.

        Raises:
            UnreadablePath: a file may not be read.
        """
        segment = self._segment
        if segment is None or not segment.start <= start < segment.end:
            segment = self.files.files.at(start)
        if segment is None:
            return None
        position = start - segment.start
        raw = self._opened(segment).read_at(position, self.unit_size)
        if len(raw) < self.unit_size:
            return UnitPlace(None, segment.path, position, "the file ends in it")
        if self.is_batch:
            return _batch_unit(raw, start, segment.path, position)
        return _plain_unit(raw, start, segment.path, position)

    def raw(self, segment: Segment, position: int) -> bytes:
        """Read the bytes of one unit of one file; fewer at its end."""
        return self._opened(segment).read_at(position, self.unit_size)

    def bounds(self, queue_offset: int) -> tuple[int | None, int | None]:
        """Give offsets between which the record of a lost unit must lie, from its neighbours.

        Raises:
            UnreadablePath: a file may not be read.
        """
        if self.is_batch:
            return None, None
        low = high = None
        for step in range(1, NEIGHBOURS):
            if low is None and queue_offset >= step:
                low = self._offset_at(queue_offset - step)
            if high is None:
                high = self._offset_at(queue_offset + step)
            if low is not None and high is not None:
                break
        return low, high

    def _offset_at(self, queue_offset: int) -> int | None:
        place = self.at(queue_offset * CQ_UNIT.size)
        return place.unit.physical_offset if place and place.unit else None

    @cached_property
    def batch_units(self) -> list[tuple[Segment, int]]:
        """The files of a batch queue, each with the number of units in use.

        Raises:
            UnreadablePath: a file may not be read.
        """
        size = self.unit_size
        return [
            (segment, used_bytes(self._opened(segment), size) // size)
            for segment in self.files.files
        ]

    @property
    def batch_count(self) -> int:
        """Units of a batch queue."""
        return sum(count for _, count in self.batch_units)

    def batch_unit(self, number: int) -> UnitPlace | None:
        """Give a unit of a batch queue by its number."""
        for segment, count in self.batch_units:
            if number < count:
                return self.at(segment.start + number * self.unit_size)
            number -= count
        return None

    def _find_batch(self, queue_offset: int) -> UnitPlace | None:
        low, high = 0, self.batch_count
        while low < high:
            middle = (low + high) // 2
            place = self.batch_unit(middle)
            if place is None or place.unit is None:
                return place
            if place.unit.queue_offset + place.unit.messages <= queue_offset:
                low = middle + 1
            else:
                high = middle
        place = self.batch_unit(low)
        if place is None or place.unit is None or place.unit.queue_offset > queue_offset:
            return None
        return place

    def _opened(self, segment: Segment) -> OpenFile:
        if self._file is None or self._segment != segment:
            self.close()
            self._file, self._segment = segment.open(), segment
        return self._file


def _plain_unit(raw: bytes, start: int, path: str, position: int) -> UnitPlace:
    physical_offset, size, _ = CQ_UNIT.packer.unpack(raw)
    if is_pre_blank(physical_offset, size):
        return UnitPlace(None, path, position, "a filler in front of the first unit")
    if not any(raw):
        return UnitPlace(None, path, position, "zeros: unused space")
    if physical_offset < 0 or size <= 0:
        problem = f"offset {physical_offset} and size {size} can be no record's"
        return UnitPlace(None, path, position, problem)
    number = start // CQ_UNIT.size
    return UnitPlace(Unit(start, number, 1, physical_offset, size), path, position)


def _batch_unit(raw: bytes, start: int, path: str, position: int) -> UnitPlace:
    physical_offset, size, _, _, base, messages, _, _ = BATCH_CQ_UNIT.packer.unpack(raw)
    if physical_offset < 0 or size <= 0 or base < 0 or messages <= 0:
        return UnitPlace(None, path, position, "no valid unit")
    return UnitPlace(Unit(start, base, messages, physical_offset, size), path, position)


def places_of(message: Message) -> list[tuple[str, int, int, int]]:
    """Give the places of queues that a record claims: topic, queue id, first offset, count."""
    properties = message.properties
    base, count = message.queue_offset, 1
    if INNER_NUM in properties and INNER_BASE in properties:
        base = _number(properties[INNER_BASE], base)
        count = max(_number(properties[INNER_NUM], 1), 1)
    found = [(message.topic, message.queue_id, base, count)]
    names = properties.get(INNER_MULTI_DISPATCH, "").split(",")
    numbers = properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(names) == len(numbers) and names != [""]:
        for name, number in zip(names, numbers, strict=True):
            # Other names keep the record's queue, but 4.9.3 without LMQ puts all of them there.
            queue_ids = {message.queue_id, 0} if name.startswith(LMQ_PREFIX) else {message.queue_id}
            offset = _number(number, -1)
            found += [(name, queue_id, offset, 1) for queue_id in sorted(queue_ids)]
    return found


def claims(message: Message, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Tell whether a record says that it belongs to a place of a queue."""
    return any(
        (one, number) == (topic, queue_id) and base <= queue_offset < base + count
        for one, number, base, count in places_of(message)
    )


def _number(text: str, otherwise: int) -> int:
    value = parse_long(text)
    return otherwise if value is None else value
