"""Topics that keep the newest message of each key: what consumers get of them after a start.

Consumers read such a topic from its own log alone, in `compaction/`. A record is handed to that
with those for the queues, if it has keys and a later number than all that are there. So what was
lost of it comes back only where recovery dispatches the records again: not after a clean stop.
Source: DefaultMessageStore#getMessage, CompactionService#putRequest, CompactionLog#asyncPutMessage,
SparseConsumeQueue, 5.1.0 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import COMPACTION
from rmqtool.broker.release import Version
from rmqtool.check.state.compaction import queue_offsets
from rmqtool.formats import config_shapes, properties
from rmqtool.startup.census import whole_records
from rmqtool.startup.prediction import Loss, TopicLoss
from rmqtool.startup.records import RecordCheck

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.startup.prediction import QueueFate
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.store.tree import Store

FIRST_RELEASE: Final = Version(5, 1, 0)
NONE: Final = -1


@dataclass(slots=True)
class CompactedTopics:
    """What a starting broker has of them.

    Attributes:
        topics: their names.
        stored: int64, shape (n,); queue offsets that each queue has in `compaction/`.
        handed: queue offsets that the start hands to it.
    """

    topics: frozenset[str]
    stored: dict[QueueKey, npt.NDArray[np.int64]]
    handed: dict[QueueKey, list[int]] = field(default_factory=dict)

    def put(self, record: DispatchRequest) -> None:
        """Take a record that is dispatched, if it is for them."""
        if self._is_kept(record):
            key = (record.topic, record.queue_id)
            handed = self.handed.setdefault(key, [])
            if record.queue_offset > max(self._newest(key), handed[-1] if handed else NONE):
                handed.append(record.queue_offset)

    def fate(self, queue: QueueFate) -> QueueFate:
        """Say what consumers get of a queue: what lies in `compaction/`, if it is of them."""
        if queue.topic not in self.topics:
            return queue
        key = (queue.topic, queue.queue_id)
        stored = self.stored.get(key, np.empty(0, np.int64))
        found = int((stored >= queue.minimum).sum()) + len(self.handed.get(key, ()))
        return replace(queue, readable=found)

    def missing(self, model: Model) -> Loss:
        """Give the messages of the log after the start that their topic has not, by topic.

        Raises:
            UnreadablePath: a file of the log may not be read.
        """
        handed = {key: {*numbers} for key, numbers in self.handed.items()}
        check = RecordCheck(model.rules, model.settings, reads_v2=True)
        found: dict[str, list[int]] = {}
        for file in model.commitlog.files:
            with file.open() as reader:
                for position, record in whole_records(file, reader, check):
                    if position + record.size > file.wrote_position:
                        break
                    key, number = (record.topic, record.queue_id), record.queue_offset
                    is_there = number <= self._newest(key) or number in handed.get(key, ())
                    if self._is_kept(record) and not is_there:
                        found.setdefault(record.topic, []).append(record.store_timestamp)
        losses = [TopicLoss(name, len(at), min(at), max(at)) for name, at in found.items()]
        return Loss(tuple(sorted(losses, key=lambda one: -one.messages)))

    def _is_kept(self, record: DispatchRequest) -> bool:
        is_theirs = record.topic in self.topics
        return is_theirs and bool(record.properties.get(properties.KEYS, "").strip())

    def _newest(self, key: QueueKey) -> int:
        stored = self.stored.get(key)
        return int(stored.max()) if stored is not None and stored.size else NONE


def compacted_topics(store: Store, version: Version) -> CompactedTopics | None:
    """Read what a store has of such topics; None where it has none.

    Raises:
        UnreadablePath: a file of them may not be read.
    """
    if version < FIRST_RELEASE or not COMPACTION.of(store.broker_conf, version):
        return None
    configured = config_shapes.topics(store.config("topics.json").document)
    topics = frozenset(one.topic for one in configured if one.is_compaction)
    if not topics:
        return None
    stored = {}
    for queue in store.compaction_queues():
        numbers = [queue_offsets(segment) for segment in queue.files.segments]
        stored[queue.topic, queue.queue_id] = np.concatenate([np.empty(0, np.int64), *numbers])
    return CompactedTopics(topics, stored)
