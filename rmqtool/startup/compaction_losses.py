"""What consumers get of topics that keep the newest message of each key, after a start.

They read such a topic from its own log alone, in `compaction/`. What was lost of that comes back
only where recovery dispatches the records again: not after a clean stop.
Source: DefaultMessageStore#getMessage, CompactionStore#getMessage, 5.1.0 to 5.5.0; observed, 5.3.3
and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.startup.census import whole_records
from rmqtool.startup.prediction import Loss, TopicLoss
from rmqtool.startup.records import RecordCheck

if TYPE_CHECKING:
    from rmqtool.startup.compaction import CompactedTopics
    from rmqtool.startup.model import Model
    from rmqtool.startup.queue_outcomes import QueueOutcome


def outcome(queue: QueueOutcome, compacted: CompactedTopics) -> QueueOutcome:
    """Say what consumers get of a queue: what lies in `compaction/`, if it is of such a topic."""
    if queue.topic not in compacted.topics:
        return queue
    key = (queue.topic, queue.queue_id)
    stored = compacted.stored.get(key, np.empty(0, np.int64))
    readable = int((stored >= queue.minimum).sum()) + len(compacted.handed.get(key, ()))
    return queue._replace(readable=readable)


def missing(model: Model) -> Loss:
    """Give the messages of the log after the start that their topic has not, by topic.

    Raises:
        UnreadablePath: a file of the log may not be read.
    """
    compacted = model.compacted
    if compacted is None:
        return Loss()
    handed = {key: {*numbers} for key, numbers in compacted.handed.items()}
    check = RecordCheck(model.rules, model.settings, reads_v2=True)
    times: dict[str, list[int]] = {}
    for file in model.commitlog.files:
        with file.open() as reader:
            for position, record in whole_records(file, reader, check):
                if position + record.size > file.wrote_position:
                    break
                key, number = (record.topic, record.queue_id), record.queue_offset
                is_there = number <= compacted.newest(key) or number in handed.get(key, ())
                if compacted.is_kept(record) and not is_there:
                    times.setdefault(record.topic, []).append(record.store_timestamp)
    losses = [TopicLoss(name, len(at), min(at), max(at)) for name, at in times.items()]
    return Loss(tuple(sorted(losses, key=lambda loss: -loss.messages)))
