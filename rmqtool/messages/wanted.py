"""Which messages of one store are wanted: by topic, and by what consumers and brokers have done.

A message is given once. A delayed one lies in SCHEDULE_TOPIC_XXXX, and again in its own topic
once it is delivered: the first copy counts while it waits, the second one from then on.
Source: ScheduleMessageService, ConsumerOffsetManager, MixAll#getRetryTopic, #getDLQTopic, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.broker.dispatch import light_queues
from rmqtool.errors import UsageError
from rmqtool.formats import config_shapes, java, properties
from rmqtool.formats.config_names import DELAYS_JSON, OFFSETS_JSON
from rmqtool.machine.arrays import is_in
from rmqtool.plural import meant
from rmqtool.scan import columns as row
from rmqtool.tables.record_columns import stretches
from rmqtool.tables.selection import EVERYTHING, Range, Selection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    import numpy.typing as npt

    from rmqtool.derive.sql92 import Subscription
    from rmqtool.messages.options import ExtractOptions
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch

    Bools: TypeAlias = npt.NDArray[np.bool_]


# What clients send lies under these, too, though brokers make the topics.
_OF_CLIENTS: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX)
_HELD: Final = frozenset({*names.HALF_TOPICS, names.TIMER_TOPIC, names.CHECK_MAX_TIME_TOPIC})
HOLDING: Final = (names.SCHEDULE_TOPIC, *sorted(_HELD))


class Holds(enum.Enum):
    """What the records of a topic are."""

    MESSAGES = enum.auto()
    DELAYED = enum.auto()  # copies of messages of other topics, until their time has come
    HELD = enum.auto()  # copies of which the topic alone does not tell whether they go on
    NOTES = enum.auto()  # what brokers write for themselves


@lru_cache(maxsize=1024)  # asked of each topic of each batch
def holds(topic: str) -> Holds:
    """Say what the records of a topic are."""
    if topic == names.SCHEDULE_TOPIC:
        return Holds.DELAYED
    if topic in _HELD:
        return Holds.HELD
    is_own = names.is_made_by_brokers(topic) and not topic.startswith(_OF_CLIENTS)
    return Holds.NOTES if is_own else Holds.MESSAGES


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages of one store are wanted."""

    # that they were sent to; None is all that are not brokers' own
    topics: frozenset[str] | None = None
    queue_id: int | None = None  # of the topic
    queue_offsets: Range = EVERYTHING  # of the message in that queue
    unconsumed: Unconsumed | None = None  # how far a group has come; None for no group
    # queue id of SCHEDULE_TOPIC_XXXX to the first queue offset that still waits
    delivered: Mapping[int, int] = field(default_factory=dict)
    held: bool = False  # half messages and timer copies, too
    where: Subscription | None = None  # what properties fulfil; None for all
    # physical offsets of messages that wait, for their time or their transaction, sorted; None for
    # no such choice
    waiting: Int64s | None = None
    store: Store | None = None  # that the messages are of; None does not look for copies
    # whether a retried or dead message is left out if its first record is written, too
    is_everything: bool = False
    selection: Selection = field(default_factory=Selection)  # what first records are to fulfil
    known: Int64s | None = None  # hashes of messages that are not wanted, sorted; see `elsewhere`

    @property
    def is_all(self) -> bool:
        """Whether each message of a topic that is wanted is, whatever else is known of it."""
        nothing = (self.queue_id, self.unconsumed, self.where, self.waiting, self.known)
        return self.queue_offsets == EVERYTHING and all(limit is None for limit in nothing)

    @property
    def stored_topics(self) -> tuple[str, ...]:
        """The topics of the records to look at; empty is all."""
        is_light = self.unconsumed is not None and self.unconsumed.light_queues
        if self.topics is None or is_light:  # records of light queues lie in any topic
            return ()
        return (*sorted(self.topics), *HOLDING)

    def is_topic(self, topic: str) -> bool:
        """Say whether messages that were sent to a topic are wanted."""
        if self.topics is None:
            return holds(topic) is not Holds.NOTES
        return topic in self.topics


def wanted_of(store: Store, options: ExtractOptions) -> Wanted:
    """Find out what is wanted of a store.

    Raises:
        UnreadablePath: what tells of popped messages cannot be read.
        UsageError: nothing is known of the group.
    """
    chosen = options.selection
    topics = frozenset(chosen.topics) if chosen.topics else None
    unconsumed = None
    if options.dead_letters is not None:
        topics = frozenset({names.DLQ_PREFIX + options.dead_letters})
    if options.unconsumed_by is not None:
        unconsumed = unconsumed_by(store, options.unconsumed_by, topics)
        topics = unconsumed.topics
    return Wanted(
        topics,
        chosen.queue_id,
        chosen.queue_offsets,
        unconsumed,
        _delivered(store),
        held=options.held or options.undecided or options.pending,
        where=_expression(options.where),
        store=store,
        is_everything=_is_everything(options),
        selection=chosen,
    )


def _is_everything(options: ExtractOptions) -> bool:
    """Tell whether the first record of each retried message is wanted as its copies are."""
    chosen = options.selection
    others = (options.unconsumed_by, options.dead_letters, options.lost_in, options.held)
    return (
        not (chosen.topics or options.undecided or options.pending)
        and chosen.queue_id is None
        and chosen.queue_offsets == EVERYTHING
        and not chosen.properties
        and not any(others)
    )


def _expression(text: str | None) -> Subscription | None:
    """Compile an expression. Raises UsageError: brokers would refuse it."""
    if text is None:
        return None
    from rmqtool.derive.sql92 import Subscription

    subscription = Subscription(text)
    if not subscription.is_understood:
        reason = f"{text!r} is not a SQL92 expression that brokers understand"
        step = "--where \"region = 'eu' AND amount BETWEEN 10 AND 20\""
        raise UsageError(option="--where", reason=reason, step=step)
    return subscription


def _delivered(store: Store) -> dict[int, int]:
    """Give where each queue of delayed messages goes on; one that is not there begins at 0."""
    offsets = config_shapes.delay_offsets(store.config(DELAYS_JSON).document)
    return {level - 1: offset for level, offset in offsets.items() if offset is not None}


# What a consumer group has not consumed: by committed offsets, retry topics, and pops.
#
# A committed offset tells what was handed out to a group that pops, and not what was acknowledged:
# what is in flight comes again, out of the retry topic. A group of light queues has offsets in
# these,
# while the records lie in another topic.
# See ConsumerOffsetManager, MixAll#getRetryTopic, KeyBuilder#buildPopRetryTopic,
# PopReviveService, PopConsumerService, LmqConsumerOffsetManager, 4.9.3 to 5.5.0.


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
    from rmqtool.store.config_sources import committed_offsets
    from rmqtool.tables.pending import pop_in_flight
    from rmqtool.tables.pop_acks import unacknowledged

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
        f"{names.RETRY_PREFIX}{group}{letter}{topic}"
        for letter in names.POP_SEPARATORS
        for topic in own
    }
    # Another group may be called so.
    retried -= {names.RETRY_PREFIX + name for name in groups}
    wanted = topics or frozenset({*own, *retried, names.RETRY_PREFIX + group})
    in_flight = defaultdict(set)
    for popped in unacknowledged(store, known):
        if popped.group == group:
            in_flight[popped.topic, popped.queue_id].add(popped.queue_offset)
    for held in pop_in_flight(store):
        topic, queue_id, offset = (held.get(name) for name in ("topic", "queue_id", "queue_offset"))
        if held.get("group") == group and isinstance(queue_id, int) and isinstance(offset, int):
            in_flight[str(topic), queue_id].add(offset)
    sorted_ones = {
        queue: np.array(sorted(offsets), np.int64) for queue, offsets in in_flight.items()
    }
    return Unconsumed(wanted, committed, sorted_ones)


def _unknown(store: Store, group: str, groups: set[str]) -> UsageError:
    document = store.config(OFFSETS_JSON)
    if groups or document:
        reason = f"no offset of group {group!r}; {meant(group, sorted(groups))}"
    else:
        problems = [problem.says for problem in document.problems]
        reason = (
            "; ".join(problems) or f"{store.root}: no consumerOffset.json, so no committed offsets"
        )
    return UsageError(option="--unconsumed-by", reason=reason, step=_STEP)
