"""Timer messages that wait for their time, and those that a start would never deliver.

A release before 5.0.0 knows no timer: what waits for it stays in a topic that nobody reads.
Source: TimerMessageStore#recover, MessageStoreConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.broker.conf import TIMER_PRECISION_MS
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.errors import DecodeError
from rmqtool.formats.properties import UNIQ_KEY
from rmqtool.startup.census import whole_records
from rmqtool.startup.records import RecordCheck

if TYPE_CHECKING:
    from rmqtool.rows import Row
    from rmqtool.startup.model import Model
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.store.tree import Store


@dataclass(frozen=True, slots=True)
class Timers:
    """What becomes of timer messages."""

    waiting: int = 0  # those that have not been delivered
    lost: int = 0  # of them, those that the broker would never deliver
    gone: int = 0  # others, whose record the log does not have any more


@dataclass(slots=True)
class TimerCopies:
    """Timer messages that the timer would take again, and that it has delivered."""

    scanned: int = 0  # queue offset in the timer's topic with which it would go on
    taken: set[str] = field(default_factory=set)  # unique keys of those that it would take
    # of these, such that the log has a copy of in their own topic
    delivered: set[str] = field(default_factory=set)

    def see(self, record: DispatchRequest) -> None:
        """Look at the next record of the log."""
        key = record.properties.get(UNIQ_KEY, "")
        if record.topic == TIMER_TOPIC:
            if record.queue_offset >= self.scanned:
                self.taken.add(key)
        elif key in self.taken:
            self.delivered.add(key)


def timers_delivered(model: Model, scanned: int = 0) -> int:
    """Count the timer messages that would be delivered again if the timer began anew.

    Args:
        model: the store.
        scanned: queue offset of the timer's topic that it begins with.

    Raises:
        UnreadablePath: a file of the log may not be read.
    """
    copies = TimerCopies(scanned)
    check = RecordCheck(model.rules, model.settings, reads_v2=True)
    for file in model.commitlog.files:
        with file.open() as reader:
            for _, record in whole_records(file, reader, check):
                copies.see(record)
    return len(copies.delivered)


def waiting_timers(store: Store) -> list[Row]:
    """Give the timer messages that wait, in files, in RocksDB, or for the timer to read them.

    Raises:
        UnreadablePath: a file or a database cannot be read to its end.
    """
    from rmqtool.tables.pending import pending_timers  # few starts ask for rows

    rows = pending_timers(store)
    return [row for row in rows if row["waits_in"] != "delay-level" and not row.get("extent")]


def timers(store: Store, model: Model, now_ms: int) -> Timers:
    """Count the timer messages that wait; none where no checkpoint of the timer says so.

    Args:
        store: as the release sees it.
        model: of the start.
        now_ms: when it is, ms since 1970.

    Raises:
        UnreadablePath: a file of the timer cannot be read.
    """
    if not model.rules.has_timer:
        count = len(waiting_timers(store))
        return Timers(count, count)
    try:
        values = store.timer_check()
    except DecodeError:
        return Timers()
    if values is None:
        return Timers()
    from rmqtool.check.state.timer import first_slot, out_of_reach, waiting
    from rmqtool.check.state.timer_log import timer_log_of  # few stores have a timer's checkpoint

    precision = TIMER_PRECISION_MS.of(store.broker_conf)
    log = timer_log_of(store.timer_log.segments)
    slots = list(waiting(store, log, values, precision))
    queue = model.extent(TIMER_TOPIC, 0)
    unread = max(queue[1] - values["last_timer_queue_offset"], 0) if queue else 0
    passed = None if log.starts.size else out_of_reach(store, values)
    lost = passed.timers if passed else 0
    total = sum(slot.timers for slot in slots) + unread + lost
    first = first_slot(now_ms, precision)
    late = (slot.timers for slot in slots if slot.is_lost or slot.time < first)
    return Timers(total, lost + sum(late), sum(slot.gone for slot in slots))
