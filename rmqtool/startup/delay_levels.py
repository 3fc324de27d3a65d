"""Delayed messages of levels that the broker's configuration no longer has: they wait for ever.

A broker delivers the levels of messageDelayLevel and looks at no other queue of that topic.
Source: ScheduleMessageService#start, #parseDelayLevel, 4.9.3 to 5.5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.plural import counted
from rmqtool.startup.prediction import LaterStep

UNDELIVERED: Final = "undelivered"

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.startup.model import Model
    from rmqtool.startup.queue_outcomes import QueueOutcomes
    from rmqtool.store.tree import Store


def undelivered(store: Store, model: Model, outcomes: QueueOutcomes) -> Iterator[LaterStep]:
    """Yield how many messages wait in levels that are not configured.

    Without a broker.conf nothing tells how many levels there are.

    Args:
        store: as the release sees it.
        model: after the start.
        outcomes: of its queues.

    Raises:
        UnreadablePath: what tells which messages were delivered cannot be read.
    """
    levels = len(model.dispatch_rules.delay_levels_ms)
    queues = [
        outcome
        for outcome in outcomes.of({SCHEDULE_TOPIC})
        if outcome.queue_id >= levels and outcome.readable
    ]
    if store.broker_conf is None or not queues:
        return
    from rmqtool.query.delay_offsets import delivered_levels  # it looks up messages

    offsets = delivered_levels(store)
    waiting: dict[int, int] = {}
    for queue in queues:
        level = queue.queue_id + 1
        first = max(offsets.get(level, queue.minimum), queue.minimum)
        if queue.maximum > first:
            waiting[level] = queue.maximum - first
    if not waiting:
        return
    count = sum(waiting.values())
    verb = "is" if count == 1 else "are"
    names = ", ".join(map(str, sorted(waiting)))
    message = (
        f"{counted(count, 'delayed message')} of level {names} {verb} never delivered: "
        f"messageDelayLevel has {counted(levels, 'level')}"
    )
    yield LaterStep(UNDELIVERED, f"consumequeue/{SCHEDULE_TOPIC}", message, count)
