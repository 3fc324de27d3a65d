"""Timer messages that wait for their time, and those that a start would never deliver.

A release before 5.0.0 knows no timer: what waits for it stays in a topic that nobody reads.
Source: TimerMessageStore#recover, MessageStoreConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.broker.conf import TIMER_PRECISION_MS
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.check.state.timer_log import timer_log_of
from rmqtool.check.state.timer_waiting import out_of_reach, waiting
from rmqtool.errors import DecodeError

if TYPE_CHECKING:
    from rmqtool.startup.model import Model
    from rmqtool.store.tree import Store


@dataclass(frozen=True, slots=True)
class Timers:
    """What becomes of timer messages.

    Attributes:
        waiting: those that have not been delivered.
        lost: of them, those that the broker would never deliver.
    """

    waiting: int = 0
    lost: int = 0


def timers(store: Store, model: Model) -> Timers:
    """Count the timer messages that wait; none where no checkpoint of the timer says so.

    Raises:
        UnreadablePath: a file of the timer cannot be read.
    """
    try:
        values = store.timer_check()
    except DecodeError:
        return Timers()
    if values is None:
        return Timers()
    precision = TIMER_PRECISION_MS.of(store.broker_conf)
    log = timer_log_of(store.timer_log.segments)
    slots = list(waiting(store, log, values, precision))
    queue = model.queues.get((TIMER_TOPIC, 0))
    unread = max(queue.maximum - values["last_timer_queue_offset"], 0) if queue else 0
    passed = None if log.starts.size else out_of_reach(store, values)
    lost = passed.timers if passed else 0
    total = sum(slot.timers for slot in slots) + unread + lost
    if not model.rules.has_timer:
        return Timers(total, total)
    return Timers(total, lost + sum(slot.timers for slot in slots if slot.is_lost))
