"""What a start costs for which topics, groups or offsets are not there, or cannot be read.

A broker takes its defaults, and says nothing. Of a topic that it does not know no client finds a
route; delayed messages are delivered again, as each level begins at its first one; groups of
consumers begin at the first or the last message, as their clients are set.
Source: TopicConfigManager, ScheduleMessageService#load, ConsumerManageProcessor, 4.9.3 to 5.5.0;
observed, 4.9.3, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import SCHEDULE_TOPIC, TIMER_TOPIC, is_made_by_brokers
from rmqtool.check.queues.orphans import have_messages
from rmqtool.check.state.absent import groups_of
from rmqtool.errors import UnreadablePath
from rmqtool.formats.config_shapes import topics
from rmqtool.query.delay_offsets import delay_offsets
from rmqtool.queues.discovery import Queues
from rmqtool.startup.prediction import FurtherStep, Loss, TopicLoss
from rmqtool.startup.timers import timers_delivered
from rmqtool.store.branch import TIMER_CHECK
from rmqtool.store.config_sources import (
    CONFIG,
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    TOPICS,
    ConfigPresence,
)
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.startup.model import Model
    from rmqtool.startup.prediction import QueueFate
    from rmqtool.store.tree import Store

DELAYED: Final = "delayed message"


class AbsentConfig:
    """What a start does without configuration that there ought to be.

    Args:
        store: the store.
        model: after the start.
        fates: of its queues.

    Raises:
        UnreadablePath: a directory may not be listed.
    """

    def __init__(self, store: Store, model: Model, fates: Iterable[QueueFate]) -> None:
        self._store, self._model = store, model
        self._presence = ConfigPresence(store, model.rules.version)
        self._fates = [fate for fate in fates if fate.readable]

    def unrouted(self) -> Loss:
        """Give the messages in reach of topics that no client would find a route to.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        known = {topic.topic for topic in topics(self._presence.document(TOPICS))}
        counts: dict[str, dict[int, int]] = {}
        for fate in self._fates:
            if fate.topic not in known and not is_made_by_brokers(fate.topic):
                queues = counts.setdefault(fate.topic, {})  # of two stores of queues one is read
                queues[fate.queue_id] = max(queues.get(fate.queue_id, 0), fate.readable)
        found = [
            TopicLoss(topic, sum(queues.values()))
            for topic, queues in counts.items()
            if self._has_own(topic)
        ]
        return Loss(tuple(sorted(found, key=lambda one: -one.messages)))

    def _has_own(self, topic: str) -> bool:
        """Tell whether the queues of a topic are not only further queues of other messages."""
        with Queues(self._store) as queues:
            return have_messages(self._store, queues.queues_of(topic))

    def steps(self) -> Iterator[FurtherStep]:
        """Yield what would come for the second time, and who would start over."""
        if self._presence.is_lost(DELAY_OFFSETS):
            yield from self._delivered_again()
        if self._presence.lacks_timer_check and self._has(TIMER_TOPIC):
            yield from self._timers_again()
        has_messages = any(not is_made_by_brokers(fate.topic) for fate in self._fates)
        if has_messages and self._presence.is_lost(CONSUMER_OFFSETS):
            yield from self._starting_over()

    def _has(self, topic: str) -> bool:
        return any(fate.topic == topic for fate in self._fates)

    def _delivered_again(self) -> Iterator[FurtherStep]:
        queues = {
            fate.queue_id: (fate.queue_id, fate.minimum, fate.maximum)
            for fate in self._fates
            if fate.topic == SCHEDULE_TOPIC
        }
        if not queues:
            return
        path = f"{CONFIG}/{DELAY_OFFSETS}"
        try:
            offsets = delay_offsets(self._store, queues.values())
        except UnreadablePath:
            count = sum(end - first for _, first, end in queues.values())
            yield FurtherStep("repeat", path, f"up to {_repeated(count, DELAYED)}", count)
            return
        count = sum(offsets[number + 1] - first for number, first, _ in queues.values())
        if count:
            yield FurtherStep("repeat", path, _repeated(count, DELAYED), count)

    def _timers_again(self) -> Iterator[FurtherStep]:
        if count := timers_delivered(self._model):
            path = f"{CONFIG}/{TIMER_CHECK}"
            yield FurtherStep("repeat", path, _repeated(count, "timer message"), count)

    def _starting_over(self) -> Iterator[FurtherStep]:
        groups = groups_of(self._presence, {fate.topic for fate in self._fates})
        if not groups and (self._presence.has(CONSUMER_OFFSETS) or self._store.abort is not None):
            return  # nothing tells of a consumer
        path = f"{CONFIG}/{self._presence.file_of(CONSUMER_OFFSETS)}"
        who = counted(len(groups), "consumer group") if groups else "consumer groups"
        verb = "starts" if len(groups) == 1 else "start"
        message = f"{who} {verb} over, at the first or the last message"
        yield FurtherStep("start_over", path, message, len(groups))


def _repeated(count: int, what: str) -> str:
    verb = "is" if count == 1 else "are"
    return f"{counted(count, what)} {verb} delivered for the second time"
