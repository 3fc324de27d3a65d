"""The rows of the matrix that describes the records of a chunk: `fields[ROW, record]`, int64.

And its records by queue, as most of what is done to them is done queue by queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

Queue: TypeAlias = tuple[int, int]  # topic and queue id

(
    START,  # first byte in the chunk's bytes
    SIZE,
    OFFSET,  # physical offset: where it lay; once it is placed, where it goes
    STORE_TIME,  # ms
    TOPIC,  # number of the topic
    QUEUE_ID,
    QUEUE_OFFSET,
    SYS_FLAG,
    PREPARED,  # preparedTransactionOffset
    UNITS,  # queue offsets that it takes: messages of a batch record; 0 where no queue has it
    HAS_CRC,  # 1 when its properties end with a checksum of the record
    IS_RARE,  # 1 when its properties or its body name queue offsets
    SOURCE,  # number of the source
    KEY,  # hash of topic and unique key, or of what stands for it; 0 where nobody asked
) = range(14)
ROWS: Final = 14
_MOST_RANKS: Final = 1 << 16


class ByQueue(NamedTuple):
    """Records by queue, those of one in their order."""

    order: Int64s  # int64, shape (n,); numbers of the records that are in queues
    is_first: Bools  # bool, shape (n,); the first one of its queue
    queues: Int64s  # int64, shape (2, n); topic and queue id

    def firsts(self) -> Iterator[tuple[int, Queue]]:
        """Yield the number, in `order`, of the first record of each queue."""
        yield from self._at(np.flatnonzero(self.is_first))

    def lasts(self) -> Iterator[tuple[int, Queue]]:
        """Yield the number, in `order`, of the last record of each queue."""
        yield from self._at(np.flatnonzero(np.append(self.is_first[1:], True)))

    def _at(self, numbers: Int64s) -> Iterator[tuple[int, Queue]]:
        for number in numbers.tolist():
            topic, queue_id = self.queues[:, number].tolist()
            yield number, (topic, queue_id)


def by_queue(fields: Int64s) -> ByQueue:
    """Sort records by queue."""
    dispatched = np.flatnonzero(fields[UNITS])
    queues = fields[[TOPIC, QUEUE_ID]].take(dispatched, axis=1)
    by_rank = _in_order(*queues)
    order, queues = dispatched[by_rank], queues.take(by_rank, axis=1)
    is_first = np.ones(order.size, np.bool_)
    is_first[1:] = (queues[:, 1:] != queues[:, :-1]).any(axis=0)
    return ByQueue(order, is_first, queues)


def _in_order(topics: Int64s, queue_ids: Int64s) -> Int64s:
    """Give the stable order by topic, then by queue id; a broker's numbers of both are small."""
    if topics.size:
        least = int(queue_ids.min())
        width = int(queue_ids.max()) - least + 1
        if (int(topics.max()) + 1) * width <= _MOST_RANKS:
            ranks = (topics * width + (queue_ids - least)).astype(np.uint16)
            return np.argsort(ranks, kind="stable")  # by digits: a tenth of what lexsort takes
    return np.lexsort((queue_ids, topics))


FACT_BITS: Final = 12  # of each fact
FACTS: Final = 5
_ODD: Final = np.int64(0x9E3779B97F4A7C15 - (1 << 64))  # spreads small numbers over all bits


def facts_of(fields: Int64s, body_crc: Int64s, born_time: Int64s) -> Int64s:
    """Give some bits of what copies of a record have in common: int64, shape (n,)."""
    queue = fields[QUEUE_OFFSET] * 1009 + fields[QUEUE_ID]
    facts = np.zeros(fields.shape[1], np.int64)
    for fact in (fields[STORE_TIME], born_time, body_crc, fields[KEY], queue):
        mixed = fact * _ODD
        facts = (facts << FACT_BITS) | ((mixed >> 40) & ((1 << FACT_BITS) - 1))
    return facts
