"""Topics that keep the newest message of each key, in a starting broker.

A record is handed to the topic's own log in `compaction/` with those for the queues, if it has keys
and a later number than all that are there.
Source: CompactionService#putRequest, CompactionLog#asyncPutMessage, SparseConsumeQueue, 5.1.0 to
5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import COMPACTION
from rmqtool.broker.rules import Rules
from rmqtool.formats import config_shapes, properties
from rmqtool.formats.config_names import TOPICS_JSON

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.broker.release import Version
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.store.tree import Store

Queue = tuple[str, int]
NONE: Final = -1


@dataclass(slots=True)
class CompactedTopics:
    """What a starting broker has of them."""

    topics: frozenset[str]  # their names
    # int64, shape (n,); queue offsets that each queue has in `compaction/`
    stored: dict[Queue, npt.NDArray[np.int64]]
    # queue offsets that the start hands to it
    handed: dict[Queue, list[int]] = field(default_factory=dict)

    def put(self, record: DispatchRequest) -> None:
        """Take a record that is dispatched, if it is for them."""
        if self.is_kept(record):
            key = (record.topic, record.queue_id)
            handed = self.handed.setdefault(key, [])
            if record.queue_offset > max(self.newest(key), handed[-1] if handed else NONE):
                handed.append(record.queue_offset)

    def is_kept(self, record: DispatchRequest) -> bool:
        """Tell whether a record is one of these topics, with keys."""
        is_theirs = record.topic in self.topics
        return is_theirs and bool(record.properties.get(properties.KEYS, "").strip())

    def newest(self, key: Queue) -> int:
        """Give the largest queue offset that a queue had before the start; NONE without."""
        stored = self.stored.get(key)
        return int(stored.max()) if stored is not None and stored.size else NONE


def compacted_topics(store: Store, version: Version) -> CompactedTopics | None:
    """Read what a store has of such topics; None where it has none.

    Raises:
        UnreadablePath: a file of them may not be read.
    """
    if not Rules(version).has_compaction or not COMPACTION.of(store.broker_conf, version):
        return None
    configured = config_shapes.topics(store.config(TOPICS_JSON).document)
    topics = frozenset(topic.topic for topic in configured if topic.is_compaction)
    if not topics:
        return None
    from rmqtool.check.state.compaction import queue_offsets  # few topics are compacted

    stored = {}
    for queue in store.compaction_queues():
        numbers = [queue_offsets(segment) for segment in queue.files.segments]
        stored[queue.topic, queue.queue_id] = np.concatenate([np.empty(0, np.int64), *numbers])
    return CompactedTopics(topics, stored)
