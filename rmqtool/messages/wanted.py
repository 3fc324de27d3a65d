"""Which messages of one store are wanted: by topic, and by what consumers and brokers have done.

A message is given once. A delayed one lies in SCHEDULE_TOPIC_XXXX, and again in its own topic
once it is delivered: the first copy counts while it waits, the second one from then on.
Source: ScheduleMessageService, ConsumerOffsetManager, MixAll#getRetryTopic, #getDLQTopic, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rmqtool.broker import names
from rmqtool.errors import UsageError
from rmqtool.formats import config_shapes
from rmqtool.tables.selection import EVERYTHING, Range

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt

    from rmqtool.derive.sql92 import Subscription
    from rmqtool.messages.options import ExtractOptions
    from rmqtool.messages.unconsumed import Unconsumed
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]

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
    # physical offsets of half messages that are open, sorted; None for no such choice
    undecided: Int64s | None = None
    known: Int64s | None = None  # hashes of messages that are not wanted, sorted; see `elsewhere`

    @property
    def is_all(self) -> bool:
        """Whether each message of a topic that is wanted is, whatever else is known of it."""
        nothing = (self.queue_id, self.unconsumed, self.where, self.undecided, self.known)
        return self.queue_offsets == EVERYTHING and all(one is None for one in nothing)

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
        from rmqtool.messages.unconsumed import unconsumed_by

        unconsumed = unconsumed_by(store, options.unconsumed_by, topics)
        topics = unconsumed.topics
    return Wanted(
        topics,
        chosen.queue_id,
        chosen.queue_offsets,
        unconsumed,
        _delivered(store),
        held=options.held or options.undecided,
        where=_expression(options.where),
    )


def _expression(text: str | None) -> Subscription | None:
    """Compile an expression.

    Raises:
        UsageError: brokers would refuse it.
    """
    if text is None:
        return None
    from rmqtool.derive.sql92 import Subscription

    found = Subscription(text)
    if not found.is_understood:
        reason = f"{text!r} is no SQL92 expression that brokers understand"
        step = "--where \"region = 'eu' AND amount BETWEEN 10 AND 20\""
        raise UsageError(option="--where", reason=reason, step=step)
    return found


def _delivered(store: Store) -> dict[int, int]:
    """Give where each queue of delayed messages goes on; one that is not there begins at 0."""
    found = config_shapes.delay_offsets(store.config("delayOffset.json").document)
    return {level - 1: offset for level, offset in found.items() if offset is not None}
