"""Timer messages that wait: in the timer log, and in the wheel through which a broker finds them.

At a start a broker puts records of the timer log back into the wheel, but only from one file
before the place up to which the log was flushed. What waits in older files it knows by the wheel
alone. Source: TimerMessageStore#recover, #recoverAndRevise, TimerWheel#getSlot, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.errors import DecodeError
from rmqtool.formats import properties
from rmqtool.formats.message import decode
from rmqtool.formats.timer import SLOTS_TOTAL, TIMER_SLOT
from rmqtool.judge.message_content import LONGEST_TIME, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from rmqtool.queues.discovery import Queues
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.state.timer_log import TimerLog
    from rmqtool.formats.message import Message
    from rmqtool.store.tree import Store

WHEEL: Final = "timerwheel"
IN_ROCKSDB: Final = "rocksdbstore"
UNITS_AT_ONCE: Final = 4096


class Slot(NamedTuple):
    """Timers of one time that have not been delivered."""

    time: int  # when they are due, divided by the precision
    timers: int  # how many; those that were recalled do not count
    is_read_again: bool  # a start reads the newest of them in the timer log, and follows its links
    is_in_wheel: bool  # a wheel has a slot for them, right or not

    @property
    def is_lost(self) -> bool:
        """Whether a broker that starts does not find them."""
        return not (self.is_read_again or self.is_in_wheel)


def waiting(store: Store, log: TimerLog, values: dict[str, int], precision: int) -> Iterator[Slot]:
    """Yield the slots that are still to come, in the order of their times.

    Args:
        store: whose timers these are.
        log: its timer log.
        values: of `timercheck`.
        precision: of a slot, ms.

    Raises:
        UnreadablePath: a wheel cannot be read.
    """
    read_until = max(values.get("last_read_time_ms", 0) // precision, 1)
    revised = _revised_from(log, values.get("last_timer_log_flush_pos", 0))
    slots = log.times // precision
    times, groups = np.unique(slots[slots >= read_until], return_inverse=True)
    counts = np.zeros(len(times), np.int64)
    np.add.at(counts, groups, log.counts[slots >= read_until])
    last = np.full(len(times), -1, np.int64)
    np.maximum.at(last, groups, log.starts[slots >= read_until])
    held = _held(store, times)
    for number in np.flatnonzero(counts > 0).tolist():
        is_read_again = bool(last[number] >= revised)
        yield Slot(int(times[number]), int(counts[number]), is_read_again, held[number])


class OutOfReach(NamedTuple):
    """Timers that wait, but that neither the timer log nor the rest of their topic gives."""

    queue_offset: int  # of the first one, in the timer's topic
    timers: int  # how many


def out_of_reach(store: Store, values: dict[str, int]) -> OutOfReach | None:
    """Find what an empty timer log should hold; None for nothing.

    With a record in its log, a broker goes on in the topic after that one. Without one it goes on
    where `timercheck` says, and what waits before that is never read again. Where timers are kept
    in RocksDB, nothing follows from an empty log.
    Source: TimerMessageStore#recover, #reviseQueueOffset, 5.0.0 to 5.5.0.

    Args:
        store: whose timer log is empty, or gone.
        values: of `timercheck`.

    Raises:
        UnreadablePath: a queue or the log cannot be read.
    """
    end = values.get("last_timer_queue_offset", 0)
    if end <= 0 or any(one.path == IN_ROCKSDB and not one.is_empty for one in store.rocksdb()):
        return None
    newest: dict[str | int, int] = {}  # a timer that waits long is stored again and again
    with Queues(store) as queues, LogReader(store.old_commitlog, store.commitlog) as reader:
        for number, message in _messages(queues, reader):
            record_properties = message.properties
            due = record_properties.get(TIMER_OUT_MS, "")
            is_time = due.isdecimal() and len(due) <= LONGEST_TIME
            if TIMER_DEL_UNIQKEY in record_properties:
                newest.pop(record_properties[TIMER_DEL_UNIQKEY].rpartition("+")[2], None)
            elif is_time and int(due) >= values.get("last_read_time_ms", 0):
                newest[record_properties.get(properties.UNIQ_KEY, number)] = number
    passed = [number for number in newest.values() if number < end]
    return OutOfReach(min(passed), len(passed)) if passed else None


def _messages(queues: Queues, reader: LogReader) -> Iterator[tuple[int, Message]]:
    """Yield the messages of the timer's topic, by their queue offsets."""
    queue = queues.queue(TIMER_TOPIC, 0)
    if queue is None:
        return
    span = queue.span(reader.logs[0].start if reader.logs else 0)
    for first in range(span.min_offset, span.max_offset, UNITS_AT_ONCE):
        units = queue.read(first, min(UNITS_AT_ONCE, span.max_offset - first))
        for number, (offset, size, _) in enumerate(units.tolist(), first):
            try:
                message = decode(reader.read_at(offset, max(size, 0)))
            except DecodeError:
                continue
            if message.physical_offset == offset:
                yield number, message


def _revised_from(log: TimerLog, flushed: int) -> int:
    """Give the first byte of the timer log that a start puts into the wheel again."""
    if not log.segments:
        return 0
    wanted = flushed - log.segments[-1].size
    starts = [segment.start for segment in log.segments if segment.start <= wanted]
    return starts[-1] if starts else log.segments[0].start


def _held(store: Store, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[bool]:
    """Tell for each time whether the wheel, or a snapshot of it, has its slot."""
    found = [False] * len(times)
    for branch in store.timer_wheels():
        with branch.place.open() as file:
            for number, time in enumerate(times.tolist()):
                raw = file.read_at(time % SLOTS_TOTAL * TIMER_SLOT.size, TIMER_SLOT.size)
                if len(raw) == TIMER_SLOT.size:
                    found[number] |= TIMER_SLOT["time"].of(raw) == time
    return found
