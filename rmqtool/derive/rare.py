"""Units that are made one by one: of batch queues, and of the further queues of one record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.derive.queue_runs import QueueKind, QueueRuns
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, INVALID_POS
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.properties import items
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derive.dispatch import DispatchRules
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

    def runs(self, run_units: int = 0) -> QueueRuns:
        """Sort units by queue and cut them into runs.

        Args:
            run_units: a run ends where a file of so many units does; 0 for nowhere.
        """
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
        )


def batch_unit(batch: Batch, number: int) -> Unit:
    """Give the unit of a record that goes to a batch queue.

    A record without INNER_NUM and INNER_BASE is one message at its own queue offset.
    Source: BatchConsumeQueue#putBatchMessagePositionInfo, 5.0.0 to 5.5.0.
    """
    record = batch.matrix[:, number]
    store_timestamp = int(record[row.STORE_TIMESTAMP])
    base, batch_size = int(record[row.INNER_BASE]), int(record[row.INNER_NUM])
    if row.ABSENT in (base, batch_size):
        base, batch_size = int(record[row.QUEUE_OFFSET]), 1
    packed = BATCH_CQ_UNIT.packer.pack(
        record[row.PHYSICAL_OFFSET_FIELD],
        record[row.SIZE],
        record[row.TAGS_CODE],
        store_timestamp,
        base,
        batch_size,
        INVALID_POS,
        0,
    )
    topic = batch.topics[int(record[row.TOPIC_NUMBER])]
    return (topic, int(record[row.QUEUE_ID])), base, store_timestamp, packed


def further_units(batch: Batch, number: int, rules: DispatchRules) -> Iterator[Unit]:
    """Yield the units of the further queues that a record names (LMQ).

    They always have the plain tags code.
    Source: ConsumeQueue#multiDispatchLmqQueue, 4.9.3 to 5.5.0.
    """
    record = batch.matrix[:, number]
    start, length = int(record[row.PROPERTIES_START]), int(record[row.PROPERTIES_LENGTH])
    values = {item.name: item.value for item in items(batch.text(start, length)) if item.is_kept}
    names, offsets = values[b"INNER_MULTI_DISPATCH"], values[b"INNER_MULTI_QUEUE_OFFSET"]
    packed = CQ_UNIT.packer.pack(
        record[row.PHYSICAL_OFFSET_FIELD], record[row.SIZE], record[row.TAGS_CODE]
    )
    queues = rules.further_queues(names, offsets, int(record[row.QUEUE_ID]))
    for topic, queue_id, queue_offset in queues:
        yield (topic, queue_id), queue_offset, int(record[row.STORE_TIMESTAMP]), packed
