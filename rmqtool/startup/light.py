"""Messages that a light queue (LMQ) would not have, though they name it and the log holds them.

A message has its own queue, too, so that no other count sees the loss; but whoever subscribes to a
light queue reads nothing else. The log is read only where records are dispatched to such queues.
Source: ConsumeQueue#multiDispatchLmqQueue, LmqConsumeQueueStore, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import light_queues
from rmqtool.broker.names import LMQ_PREFIX, LMQ_QUEUE_ID, is_deleted_when_idle
from rmqtool.formats import java
from rmqtool.formats.properties import INNER_MULTI_DISPATCH
from rmqtool.startup.census import whole_records
from rmqtool.startup.coverage import keys_of
from rmqtool.startup.prediction import Loss, TopicLoss
from rmqtool.startup.records import RecordCheck

WINDOW_BYTES: Final = 1 << 18  # that are searched at a time
PROPERTY: Final = INNER_MULTI_DISPATCH.encode()

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqtool.formats.config_shapes import Document
    from rmqtool.startup.coverage import UnitCoverage
    from rmqtool.startup.files import ModelReader
    from rmqtool.startup.model import Model
    from rmqtool.startup.outcomes import Before
    from rmqtool.startup.queues import QueueKey
    from rmqtool.startup.records import DispatchRequest


def missing(model: Model, before: Before, configuration: Document | None) -> Loss:
    """Give the messages of the log after the start that a light queue lacks, by light queue.

    Those of lite topics that brokers may have deleted themselves are left out.

    Args:
        model: the store as the broker would hold it.
        before: what queues pointed to; it is asked only where brokers have light queues.
        configuration: what `topics.json` holds.

    Raises:
        UnreadablePath: a file of the log may not be read.
    """
    if not model.light_rules.multi_dispatch:
        return Loss()
    coverage = before.coverage
    times_of: dict[str, list[int]] = {}
    check = RecordCheck(model.rules, model.settings, reads_v2=True)
    for file in model.commitlog.files:
        units = coverage.after(file.start)
        keys = np.sort(keys_of(units.positions, units.queues))
        with file.open() as reader:
            if not _names_any(reader, file.length):
                continue
            for position, record in whole_records(file, reader, check):
                if position + record.size > file.wrote_position:
                    break
                leads = partial(_leads, coverage, keys, position)
                for topic in _lacking(model, record, leads):
                    times_of.setdefault(topic, []).append(record.store_timestamp)
    for topic in [name for name in times_of if model.extent(name, LMQ_QUEUE_ID) is None]:
        if is_deleted_when_idle(topic, configuration):
            del times_of[topic]
    losses = [
        TopicLoss(name, len(times), min(times), max(times)) for name, times in times_of.items()
    ]
    return Loss(tuple(sorted(losses, key=lambda loss: -loss.messages)))


def _names_any(reader: ModelReader, length: int) -> bool:
    """Tell whether a file has the name of the property that lists light queues, anywhere."""
    for position in range(0, length, WINDOW_BYTES):
        if PROPERTY in reader.read_at(position, WINDOW_BYTES + len(PROPERTY) - 1):
            return True
    return False


def _lacking(model: Model, record: DispatchRequest, leads: Callable[[QueueKey], bool]) -> list[str]:
    """Give the light queues that a record names and that do not lead to it."""
    if not model.light_rules.multi_dispatches(record.topic):
        return []
    lacking = []
    for topic, text in zip(*light_queues(record.properties), strict=True):
        if java.parse_long(text) is None or topic == record.topic:
            continue
        if model.rules.skips_separators and "/" in topic:
            continue
        key = topic, record.queue_id
        if topic.startswith(LMQ_PREFIX) and model.extent(topic, LMQ_QUEUE_ID):
            key = topic, LMQ_QUEUE_ID
        if not leads(key):
            lacking.append(topic)
    return lacking


def _leads(coverage: UnitCoverage, keys: NDArray[np.int64], position: int, queue: QueueKey) -> bool:
    """Tell whether a unit of a queue leads to a position of a file whose units are given."""
    number = coverage.numbers.get(queue)
    if number is None:
        return False
    wanted = keys_of(np.array([position]), np.array([number]))
    at = int(np.searchsorted(keys, wanted[0]))
    return at < len(keys) and bool(keys[at] == wanted[0])
