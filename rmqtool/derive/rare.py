"""Units that are made one by one: of batch queues, of light queues, and of records in doubt."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import DispatchThrows
from rmqtool.derive.queue_runs import QueueKind, QueueRuns
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, INVALID_POS
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.java import text
from rmqtool.formats.properties import decode
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.dispatch import DispatchRules, QueuePlace
    from rmqtool.scan.batch import Batch

    Unit = tuple[tuple[bytes, int], int, int, bytes]  # queue, offset, store timestamp, packed

SIZES: Final = {
    QueueKind.CONSUME_QUEUE: CQ_UNIT.size,
    QueueKind.BATCH_QUEUE: BATCH_CQ_UNIT.size,
}


class RareUnits:
    """Units of one kind of queue, in log order."""

    def __init__(self, kind: QueueKind) -> None:
        self._kind = kind
        self._queues: dict[tuple[bytes, int], int] = {}
        self._facts: list[tuple[int, int, int]] = []  # queue, offset, store timestamp
        self._packed = bytearray()

    def add(
        self, queue: tuple[bytes, int], queue_offset: int, store_timestamp: int, packed: bytes
    ) -> None:
        """Take one more unit.

        Args:
            queue: topic and queue id.
            queue_offset: of the unit; with batch queues its `msg_base_offset`.
            store_timestamp: of the record, ms.
            packed: the unit.
        """
        number = self._queues.setdefault(queue, len(self._queues))
        self._facts.append((number, queue_offset, store_timestamp))
        self._packed += packed

    def runs(self, run_units: int = 0, *, times: bool = False) -> QueueRuns:
        """Sort units by queue and cut them into runs.

        Args:
            run_units: a run ends where a file of so many units does; 0 for nowhere.
            times: give the store time of each unit.
        """
        if not self._facts:
            return _no_runs(self._kind)
        facts = np.array(self._facts, np.int64).reshape(-1, 3)
        order = np.argsort(facts[:, 0], kind="stable")
        queue, offset, store_timestamp = facts[order].T
        begins = np.ones(len(order), bool)
        begins[1:] = queue[1:] != queue[:-1]
        if self._kind is QueueKind.CONSUME_QUEUE:
            begins[1:] |= offset[1:] != offset[:-1] + 1
            begins |= (offset % run_units == 0) if run_units else False
        first = np.flatnonzero(begins)
        count = np.diff(first, append=len(order))
        packed = np.frombuffer(self._packed, np.uint8).reshape(-1, SIZES[self._kind])
        return QueueRuns(
            self._kind,
            tuple(self._queues),
            packed[order],
            queue[first],
            offset[first],
            first,
            count,
            store_timestamp[first + count - 1],
            store_timestamp if times else store_timestamp[:0],
        )


def _no_runs(kind: QueueKind) -> QueueRuns:
    units = np.empty((0, SIZES[kind]), np.uint8)
    return QueueRuns(kind, (), units, *(np.empty(0, np.int64) for _ in range(6)))


class RowRecord:
    """One record of a batch, as `broker.dispatch` takes it.

    Attributes:
        topic: decoded as Java does.
        queue_id: the field.
        queue_offset: the field.
        sys_flag: the field.
        store_timestamp: ms.
        properties: names and values.
        physical_offset: the field, not the place.
        size: bytes of the record.
    """

    def __init__(self, batch: Batch, number: int) -> None:
        """Read it anew.

        Args:
            batch: with texts.
            number: of the record in it.
        """
        record = batch.matrix[:, number].tolist()
        start, length = record[row.PROPERTIES_START], record[row.PROPERTIES_LENGTH]
        self.topic = text(batch.topics[record[row.TOPIC_NUMBER]])
        self.queue_id: int = record[row.QUEUE_ID]
        self.queue_offset: int = record[row.QUEUE_OFFSET]
        self.sys_flag: int = record[row.SYS_FLAG]
        self.store_timestamp: int = record[row.STORE_TIMESTAMP]
        self.properties = decode(batch.text(start, length))
        self.physical_offset: int = record[row.PHYSICAL_OFFSET_FIELD]
        self.size: int = record[row.SIZE]


def units(record: RowRecord, rules: DispatchRules) -> Iterator[tuple[QueueKind, Unit]]:
    """Yield the units of a record, as far as dispatch gets with it."""
    with suppress(DispatchThrows):
        for place in rules.places(record):
            if place.batch_size is None:
                yield QueueKind.CONSUME_QUEUE, _unit(record, place, rules)
            else:
                yield QueueKind.BATCH_QUEUE, _batch_unit(record, place, rules)


def light_units(record: RowRecord, rules: DispatchRules) -> Iterator[Unit]:
    """Yield the units of the light queues that a record names; its own queue has one already."""
    return (unit for _, unit in islice(units(record, rules), 1, None))


def _unit(record: RowRecord, place: QueuePlace, rules: DispatchRules) -> Unit:
    code = rules.tags_code(record)
    packed = CQ_UNIT.packer.pack(record.physical_offset, record.size, code)
    queue = place.topic.encode(), place.queue_id
    return queue, place.queue_offset, record.store_timestamp, packed


def _batch_unit(record: RowRecord, place: QueuePlace, rules: DispatchRules) -> Unit:
    packed = BATCH_CQ_UNIT.packer.pack(
        record.physical_offset,
        record.size,
        rules.tags_code(record),
        record.store_timestamp,
        place.queue_offset,
        place.batch_size,
        INVALID_POS,
        0,
    )
    queue = place.topic.encode(), place.queue_id
    return queue, place.queue_offset, record.store_timestamp, packed
