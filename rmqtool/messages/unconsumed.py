"""What a consumer group has not consumed: by committed offsets, retry topics, and pops.

A committed offset tells what was handed out to a group that pops, and not what was acknowledged:
what is in flight comes again, out of the retry topic. A group of light queues has offsets in these,
while the records lie in another topic.
Source: ConsumerOffsetManager, MixAll#getRetryTopic, KeyBuilder#buildPopRetryTopic,
PopReviveService, PopConsumerService, LmqConsumerOffsetManager, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.broker.dispatch import light_queues
from rmqtool.errors import UsageError
from rmqtool.formats import java, properties
from rmqtool.machine.arrays import is_in
from rmqtool.query.groups import POP_SEPARATORS, committed_offsets
from rmqtool.scan import columns as row
from rmqtool.tables.pending import pop_in_flight
from rmqtool.tables.record_columns import stretches
from rmqtool.tables.revive import unacknowledged
from rmqtool.words import meant

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

Queue: TypeAlias = tuple[str, int]
_STEP: Final = "--topic TOPIC: all messages of a topic that the group has no offset for"


@dataclass(frozen=True, slots=True)
class Unconsumed:
    """How far a group has come."""

    topics: frozenset[str]  # that it consumes, its retry topics among them
    committed: Mapping[Queue, int]  # next queue offset that it consumes, by topic and queue
    # queue offsets before that which it popped and did not acknowledge, sorted
    in_flight: Mapping[Queue, Int64s]

    @property
    def light_queues(self) -> frozenset[str]:
        """Those that records of other topics are dispatched to."""
        return frozenset(topic for topic in self.topics if topic.startswith(names.LMQ_PREFIX))

    def is_wanted(self, queue: Queue, queue_offset: int) -> bool:
        """Say whether the group will get a message."""
        committed = self.committed.get(queue)
        if committed is None or queue_offset >= committed:
            return True
        return queue in self.in_flight and bool((self.in_flight[queue] == queue_offset).any())

    def consumed(self, queue: Queue, queue_offsets: Int64s) -> Bools:
        """Mark what the group will not get: bool, of the shape of the offsets."""
        committed = self.committed.get(queue)
        if committed is None:
            return np.zeros(queue_offsets.shape, np.bool_)
        done: Bools = queue_offsets < committed
        if queue in self.in_flight:
            done &= ~is_in(queue_offsets, self.in_flight[queue])
        return done

    def in_light_queues(self, batch: Batch, columns: Int64s) -> Bools:
        """Mark records that the group will get from one of its light queues: bool, shape (n,)."""
        mask: Bools = np.zeros(columns.shape[1], np.bool_)
        if not (lights := self.light_queues):
            return mask
        marked = columns[row.MARKS] & row.MARK_MULTI_DISPATCH != 0
        stored = stretches(batch, columns, row.PROPERTIES_START)
        for number in np.flatnonzero(marked).tolist():
            queues = light_queues(properties.decode(stored.raw(number)))
            mask[number] = any(
                (offset := java.parse_long(text)) is not None
                and self.is_wanted((name, names.LMQ_QUEUE_ID), offset)
                for name, text in zip(*queues, strict=True)
                if name in lights
            )
        return mask


def unconsumed_by(store: Store, group: str, topics: frozenset[str] | None) -> Unconsumed:
    """Find out how far a group has come.

    Args:
        store: whose offsets count.
        group: its name.
        topics: only these; None is all that the group has offsets for, with its retry topics.

    Raises:
        UnreadablePath: what tells of popped messages cannot be read.
        UsageError: nothing is known of the group, and no topics are given.
    """
    known = {
        (offset.topic, offset.group, offset.queue_id): offset.queue_offset
        for offset in committed_offsets(store)
    }
    groups = {name for _, name, _ in known}
    if group not in groups and topics is None:
        raise _unknown(store, group, groups)
    committed = {
        (topic, queue_id): offset
        for (topic, name, queue_id), offset in known.items()
        if name == group and offset is not None
    }
    own = {topic for topic, _ in committed}
    retried = {
        f"{names.RETRY_PREFIX}{group}{one}{topic}" for one in POP_SEPARATORS for topic in own
    }
    # Another group may be called so.
    retried -= {names.RETRY_PREFIX + name for name in groups}
    wanted = topics or frozenset({*own, *retried, names.RETRY_PREFIX + group})
    in_flight = defaultdict(set)
    for one in unacknowledged(store, known):
        if one.group == group:
            in_flight[one.topic, one.queue_id].add(one.queue_offset)
    for held in pop_in_flight(store):
        topic, queue_id, offset = (held.get(name) for name in ("topic", "queue_id", "queue_offset"))
        if held.get("group") == group and isinstance(queue_id, int) and isinstance(offset, int):
            in_flight[str(topic), queue_id].add(offset)
    sorted_ones = {
        queue: np.array(sorted(offsets), np.int64) for queue, offsets in in_flight.items()
    }
    return Unconsumed(wanted, committed, sorted_ones)


def _unknown(store: Store, group: str, groups: set[str]) -> UsageError:
    document = store.config("consumerOffset.json")
    if groups or document:
        reason = f"no offset of group {group!r}; {meant(group, sorted(groups))}"
    else:
        problems = [problem.says for problem in document.problems]
        reason = (
            "; ".join(problems) or f"{store.root}: no consumerOffset.json, so no committed offsets"
        )
    return UsageError(option="--unconsumed-by", reason=reason, step=_STEP)
