"""The store in the memory of a starting broker: log, queues, key index, checkpoint.

Source: DefaultMessageStore#load, ConsumeQueueStore, CommitLogDispatcherBuildConsumeQueue,
4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from rmqtool.broker.dispatch import DispatchThrows
from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.files import FileQueue
from rmqtool.startup.plain_queues import PlainQueues
from rmqtool.startup.queues import ConsumeQueue, QueueKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.compaction import CompactedTopics
    from rmqtool.startup.extension import ExtensionRules
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.indexes import ModelIndex
    from rmqtool.startup.load import Loader
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.settings import Settings
    from rmqtool.startup.walk import Block

LIST_SEPARATOR: Final = ","  # of directories
Int64s = NDArray[np.int64]


class DispatchFails(Exception):
    """Java throws at a record that is dispatched; never leaves the package."""

    def __init__(self, physical_offset: int, reason: str) -> None:
        super().__init__()
        self.physical_offset, self.reason = physical_offset, reason


@dataclass(slots=True)
class Model:
    """What a starting broker holds of a store."""

    rules: Rules  # of its version
    settings: Settings  # what it was told
    loader: Loader  # what was found in the way
    stopped_cleanly: bool  # whether there is no `abort`
    checkpoint: dict[str, int]  # fields by name
    commitlog: FileQueue  # the log
    index: ModelIndex  # the key index
    queue_length: int  # bytes of a consume queue file
    batch_length: int  # bytes of a batch queue file
    dispatch_rules: DispatchRules  # where records go
    # consume queues by topic and number, those without a file included, but for the plain ones
    queues: dict[QueueKey, ConsumeQueue] = field(default_factory=dict)
    # those that are no objects
    plain: PlainQueues[ConsumeQueue] = field(default_factory=PlainQueues.none)
    batch_queues: dict[QueueKey, BatchQueue] = field(default_factory=dict)  # batch queues likewise
    dispatched: int = 0  # records that were handed to the queues
    # a topic that cannot be a directory name; from it on no queue is written
    failed_topic: str | None = None
    # what it has of topics that keep the newest message of each key; None without
    compacted: CompactedTopics | None = None
    # of consume queues; None where they have no extensions
    extension_rules: ExtensionRules | None = None
    # all files of a log that could not be loaded; None where it was
    refused_log: list[ModelFile] | None = None
    is_live: bool = False  # whether a broker runs on it
    # physical offset from which a running broker's log is not looked at; None without one
    judged_up_to: int | None = None

    def all_queues(self) -> Iterator[ConsumeQueue | BatchQueue]:
        """Give the queues of both kinds, but for the plain ones."""
        yield from self.queues.values()
        yield from self.batch_queues.values()

    @property
    def queue_maximum(self) -> int:
        """The largest physical offset that any queue believes in; -1 without queues."""
        largest = max((queue.max_physical_offset for queue in self.all_queues()), default=-1)
        return max(largest, self.plain.max_physical_offset)

    @property
    def topics(self) -> frozenset[str]:
        """Topics that have a queue."""
        objects = (topic for topic, _ in (*self.queues, *self.batch_queues))
        return self.plain.topics.union(objects)

    @property
    def light_rules(self) -> DispatchRules:
        """By which records are to be in light queues."""
        return self.dispatch_rules

    def extent(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Give the smallest and the next offset of a consume queue; None without it."""
        if (topic, queue_id) in self.plain:
            return self.plain.extent((topic, queue_id))
        queue = self.queues.get((topic, queue_id))
        return None if queue is None else (queue.minimum, queue.maximum)

    def take_out(self, keys: Iterable[QueueKey]) -> None:
        """Make plain queues objects. Raises UnreadablePath: a file may not be read."""
        for queue in self.plain.take_out(keys):
            self.queues[queue.topic, queue.queue_id] = queue

    def recover_queues(self) -> None:
        """Find the end of each queue."""
        for queue in self.all_queues():
            queue.recover()
        self.plain.step(ConsumeQueue.recover)

    def truncate_queues(self, physical_offset: int) -> None:
        """Cut each queue before a physical offset."""
        self.take_out(self.plain.not_before(physical_offset))
        for queue in self.all_queues():
            queue.truncate(physical_offset)
        self.plain.step(partial(ConsumeQueue.truncate, physical_offset=physical_offset))

    def destroy_queues(self) -> None:
        """Delete each queue."""
        self.take_out(self.plain.left)
        for queue in self.all_queues():
            queue.destroy()

    def correct_minimums(self) -> None:
        """Find the smallest offset of each queue. Source: #recoverTopicQueueTable.

        Raises:
            EmptyLastFile: Java throws.
        """
        log_minimum, search = self.commitlog.minimum, self.rules.minimum_search
        self.take_out(self.plain.older_than(log_minimum))
        self.plain.step(
            partial(ConsumeQueue.correct_minimum, log_minimum=log_minimum, search=search)
        )
        for queue in self.queues.values():
            queue.correct_minimum(log_minimum, search)
        for batch_queue in self.batch_queues.values():
            batch_queue.correct_minimum(log_minimum)

    def dispatch(self, record: DispatchRequest) -> None:
        """Hand a record to its queues and to the key index. Raises DispatchFails: Java throws."""
        self.dispatched += 1
        self.queue(record)
        if self.compacted is not None:
            self.compacted.put(record)
        self.index.put(record)

    def dispatch_block(self, block: Block, chosen: NDArray[np.bool_]) -> None:
        """Hand the chosen records of a block to queues and key index, many at a time.

        Queues know nothing of each other, so that each takes its own records in one go.
        """
        if not chosen.any():
            return
        if self.is_special(block):
            for record in block.records(chosen):
                self.dispatch(record)
            return
        self.dispatched += int(chosen.sum())
        self.index.put_many(block, chosen)
        numbers = np.flatnonzero(chosen & block.are_queued)
        order = numbers[np.lexsort((numbers, block.queue_ids[numbers], block.topics[numbers]))]
        topics, queue_ids = block.topics[order], block.queue_ids[order]
        borders = np.flatnonzero((np.diff(topics) != 0) | (np.diff(queue_ids) != 0)) + 1
        for run in np.split(order, borders):
            if run.size:
                key = block.names[block.topics[run[0]]], int(block.queue_ids[run[0]])
                self.put_many(
                    key, block.physical_offsets[run], block.sizes[run], block.queue_offsets[run]
                )

    def put_many(
        self, key: QueueKey, offsets: Int64s, sizes: Int64s, queue_offsets: Int64s
    ) -> None:
        """Hand records of one queue to it, in the order of the log."""
        if key not in self.plain or not self.plain.has_all(key, int((offsets + sizes).max())):
            self._consume_queue(*key).put_many(offsets, sizes, queue_offsets)

    def is_special(self, block: Block) -> bool:
        """Tell whether a block needs a look at each record: properties or names matter."""
        return (
            self.dispatch_rules.multi_dispatch
            or self.failed_topic is not None
            or bool(self.batch_topics.intersection(block.names))
            or bool(self.compacted and self.compacted.topics.intersection(block.names))
            or self.extension_rules is not None
            or any("\0" in name or LIST_SEPARATOR in name for name in block.names)
        )

    def queue(self, record: DispatchRequest) -> None:
        """Hand a record to its queues. Raises DispatchFails: Java throws."""
        if self.failed_topic is not None:
            return
        if "\0" in record.topic:
            self.failed_topic = record.topic
            return
        try:
            for place in self.dispatch_rules.places(record):
                if "\0" in place.topic:  # a further queue: half a minute later the next one follows
                    continue
                if self._has_no_directory(place.topic, place.queue_id):
                    self.failed_topic = record.topic
                    return
                if place.batch_size is None:
                    end = record.physical_offset + record.size
                    if place[:2] in self.plain and self.plain.has_all(place[:2], end):
                        continue
                    queue = self._consume_queue(*place[:2])
                    queue.put(record, place.queue_offset, self._tags_code(record, queue))
                else:
                    self._batch_queue(*place[:2]).put(record, place.queue_offset, place.batch_size)
        except DispatchThrows as failure:
            raise DispatchFails(record.physical_offset, str(failure)) from failure

    def _has_no_directory(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue is new, and no directory is made for it: all writing ends there."""
        if LIST_SEPARATOR not in topic or not self.rules.splits_directories:
            return False
        return not any(
            (topic, queue_id) in queues for queues in (self.queues, self.batch_queues, self.plain)
        )

    def _tags_code(self, record: DispatchRequest, queue: ConsumeQueue) -> int:
        """Give what tells of an extension; without one nothing here depends on it.

        The units of a record in light queues have none.
        """
        if queue.extension is None or queue.topic != record.topic:
            return 0
        tags_code = self.dispatch_rules.tags_code(record)
        address = queue.extension.put(tags_code, record.store_timestamp)
        return tags_code if address is None else address

    def _consume_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        if (topic, queue_id) in self.plain:
            self.take_out([(topic, queue_id)])
        if (topic, queue_id) not in self.queues:
            files = FileQueue(f"consumequeue/{topic}/{queue_id}", self.queue_length)
            self.queues[topic, queue_id] = queue = ConsumeQueue(topic, queue_id, files)
            if self.extension_rules is not None:
                queue.extension = self.extension_rules.new(topic, queue_id)
        return self.queues[topic, queue_id]

    def _batch_queue(self, topic: str, queue_id: int) -> BatchQueue:
        if (topic, queue_id) not in self.batch_queues:
            files = FileQueue(f"batchconsumequeue/{topic}/{queue_id}", self.batch_length)
            self.batch_queues[topic, queue_id] = BatchQueue(topic, queue_id, files)
        return self.batch_queues[topic, queue_id]

    @property
    def batch_topics(self) -> frozenset[str]:
        """Topics that are configured to have batch queues, if the broker knows such."""
        rules = self.dispatch_rules
        return (rules.release.has_batch_queues and rules.batch_topics) or frozenset()
