"""Units that lead consumers of one queue to messages of another.

A directory under the name of another topic, or a unit that a damaged disk has put elsewhere: a
broker looks at a unit's place in the log and hands out what is there, whatever topic, queue and
offset it names. Records that are dispatched to several queues are in their right place in each.
Source: DefaultMessageStore#getMessage, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import light_queue_texts
from rmqtool.machine.arrays import distinct
from rmqtool.startup.prediction import TopicLoss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.census import SegmentCensus
    from rmqtool.startup.coverage import UnitCoverage
    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.model import QueueKey
    from rmqtool.startup.records import RecordCheck

    Int64s = NDArray[np.int64]

_NO_QUEUE: Final = -1
_SAMPLE: Final = 32  # messages of one queue that another queue leads to
_QUEUES_SAMPLED: Final = 256  # of those with units into one file of the log
_ID_BITS: Final = 32


def own_queues(coverage: UnitCoverage, segment: SegmentCensus) -> Int64s:
    """Give the number of each message's own queue: int64, shape (n,); -1 where it has no unit."""
    pairs = (segment.topics << _ID_BITS) | (segment.queue_ids & ((1 << _ID_BITS) - 1))
    known = distinct(pairs)
    numbers = np.full(known.shape, _NO_QUEUE)
    first = np.searchsorted(known, pairs)
    for row in range(len(known)):
        topic, queue_id = divmod(int(known[row]), 1 << _ID_BITS)
        signed = queue_id - (1 << _ID_BITS) if queue_id >> (_ID_BITS - 1) else queue_id
        numbers[row] = coverage.numbers.get((segment.names[topic], signed), _NO_QUEUE)
    found: Int64s = numbers[first]
    return found


@dataclass(slots=True)
class Strays:
    """Finds units that lead to messages of other queues."""

    coverage: UnitCoverage
    check: RecordCheck
    _names: dict[int, QueueKey] = field(default_factory=dict)

    def of(self, file: ModelFile, segment: SegmentCensus) -> Iterator[TopicLoss]:
        """Give the messages that consumers of other queues would get, by the topic of those."""
        units = self.coverage.after(segment.start)
        if not (units.positions.size and segment.positions.size):
            return
        rows = np.searchsorted(segment.positions, units.positions)
        rows = np.minimum(rows, len(segment.positions) - 1)
        own = own_queues(self.coverage, segment)
        is_stray = segment.positions[rows] == units.positions
        is_stray &= own[rows] != units.queues
        rows, queues = rows[is_stray], units.queues[is_stray]
        if not rows.size:
            return
        with file.open() as reader:
            for queue in distinct(queues):
                of_queue = rows[queues == queue]
                topic = self._name(int(queue))[0]
                for number in distinct(own[of_queue]):
                    found = of_queue[own[of_queue] == number]
                    strays = self._unnamed(reader, segment, found, topic)
                    if strays.size:
                        times = segment.store_timestamps[strays]
                        count = int(segment.messages[strays].sum())
                        yield TopicLoss(topic, count, int(times.min()), int(times.max()))

    def are_in(self, file: ModelFile) -> bool:
        """Tell whether one unit of each queue into a file, at most, leads to another's message."""
        units = self.coverage.now.of(file.start)
        numbers, rows = np.unique(units.queues, return_index=True)
        chosen = np.linspace(0, len(rows) - 1, min(len(rows), _QUEUES_SAMPLED)).astype(np.int64)
        with file.open() as reader:
            for queue, row in zip(numbers[chosen].tolist(), rows[chosen].tolist(), strict=True):
                position = int(units.positions[row])
                record = self.check.check(reader, position, file.length, reads_body=False).record
                if record is None:
                    continue
                key = self._name(queue)
                is_own = key == (record.topic, record.queue_id)
                if not is_own and key[0] not in light_queue_texts(record.properties)[0]:
                    return True
        return False

    def _name(self, number: int) -> QueueKey:
        if len(self._names) != len(self.coverage.numbers):
            self._names = {number: key for key, number in self.coverage.numbers.items()}
        return self._names[number]

    def _unnamed(
        self, reader: ModelReader, segment: SegmentCensus, rows: Int64s, topic: str
    ) -> Int64s:
        """Leave out the messages that name a topic as one that they are dispatched to, too.

        Where all of a sample do, or none does, the others are like them.
        """
        places = np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64)
        sample = [self._is_named(reader, segment, row, topic) for row in rows[places].tolist()]
        if all(sample):
            return rows[:0]
        if not any(sample):
            return rows
        named = [self._is_named(reader, segment, row, topic) for row in rows.tolist()]
        return rows[~np.array(named, np.bool_)]

    def _is_named(self, reader: ModelReader, segment: SegmentCensus, row: int, topic: str) -> bool:
        position = int(segment.positions[row])
        end = position + int(segment.sizes[row])
        record = self.check.check(reader, position, end, reads_body=False).record
        return record is not None and topic in light_queue_texts(record.properties)[0]
