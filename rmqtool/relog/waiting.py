"""Which copies that brokers hold back still wait: the others would be delivered a second time.

Where a new store lacks what says how far a broker had come, copies that are done with must not be
in it. How far delayed messages were delivered goes with the queue offsets. How far timers were
delivered is in files that name physical offsets; a broker without them begins with the first timer.
Half messages are named by op messages, by queue offset or, with RocksDB, by physical offset.
Source: ScheduleMessageService#load, TimerMessageStore#recover, TransactionalMessageServiceImpl,
TransactionalMessageRocksDBService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.errors import DecodeError
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE
from rmqtool.machine.arrays import is_in
from rmqtool.query.delay_offsets import delivered_levels
from rmqtool.scan import columns as row
from rmqtool.tables.pending import open_transactions, pending_timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from rmqtool.rows import Row
    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

    Bools: TypeAlias = npt.NDArray[np.bool_]

REVIVE_PREFIX = b"rmq_sys_REVIVE_LOG_"  # pop checkpoints: bodies name queue offsets
_TIMERS = ("timer-log", "timer-queue")


@dataclass(frozen=True, slots=True)
class Waiting:
    """What of the copies of one source is taken. Picklable."""

    timers: frozenset[int] | None = None  # physical offsets of timers that wait; None takes all
    # physical offsets of half messages without an end, the newest record of each; None takes all
    halves: frozenset[int] | None = None
    half_topics: frozenset[bytes] = frozenset()  # topics that `halves` is about
    # queue id of SCHEDULE_TOPIC_XXXX to the first queue offset that waits
    delivered: Mapping[int, int] = field(default_factory=dict)
    left_out: frozenset[bytes] = frozenset()  # topics of which nothing is taken
    revives: bool = True  # whether pop checkpoints are taken

    @property
    def thinned(self) -> frozenset[bytes]:
        """Topics of the broker of which only what waits is taken; nobody else reads them.

        Where their messages kept their queue offsets, the units that fill the holes would be read
        as messages: one timer would be delivered once for each timer that was left out before it.
        Source: TimerMessageStore#enqueue, 5.3.3.
        """
        topics = set() if self.timers is None else {names.TIMER_TOPIC.raw}
        return frozenset(topics if self.halves is None else topics | self.half_topics)

    def is_done(self, batch: Batch) -> Bools:
        """Mark the records that are done with: bool, shape (count,)."""
        columns = batch.columns
        done: Bools = np.zeros(batch.count, np.bool_)
        for number in range(len(batch.topics)):
            topic = batch.topics[number]
            is_revive = topic.startswith(REVIVE_PREFIX) and not self.revives
            if topic in self.left_out or is_revive:
                done |= columns[row.TOPIC_NUMBER] == number
                continue
            waits = self.halves if topic in self.half_topics else None
            waits = self.timers if topic == names.TIMER_TOPIC.raw else waits
            if waits is not None:
                own = columns[row.TOPIC_NUMBER] == number
                places = np.array(sorted(waits), np.int64)
                done |= own & ~is_in(columns[row.PHYSICAL_OFFSET], places)
            elif topic == names.SCHEDULE_TOPIC.raw and self.delivered:
                own = columns[row.TOPIC_NUMBER] == number
                for queue_id, first in self.delivered.items():
                    is_queue = own & (columns[row.QUEUE_ID] == queue_id)
                    done |= is_queue & (columns[row.QUEUE_OFFSET] < first)
        return done


EVERYTHING = Waiting()


def waiting_of(store: Store, *, moves: bool, renumbers: bool) -> Waiting:
    """Find out what waits in a store whose timer files are not carried along.

    Args:
        store: that is read.
        moves: records get other physical offsets.
        renumbers: they get other queue offsets.

    Raises:
        UnreadablePath: what is needed cannot be read.
    """
    rocksdb = any(
        database.path == MESSAGE_STORE and not database.is_empty for database in store.rocksdb()
    )
    half_topics: frozenset[bytes] = frozenset()
    left_out: frozenset[bytes] = frozenset()
    if moves and rocksdb:
        half_topics = frozenset({names.ROCKSDB_HALF_TOPIC.raw})
        left_out = frozenset({names.ROCKSDB_OP_TOPIC.raw})
    if renumbers:
        half_topics = frozenset(topic.raw for topic in names.HALF_TOPICS)
        left_out = frozenset(topic.raw for topic in names.OP_TOPICS)
    halves = None
    if half_topics:
        halves = _numbers(open_transactions(store), "last_physical_offset")
    delivered = {}
    if renumbers:
        levels = delivered_levels(store)
        delivered = {level - 1: offset for level, offset in levels.items() if offset}
    return Waiting(_timers(store), halves, half_topics, delivered, left_out, not renumbers)


def _timers(store: Store) -> frozenset[int] | None:
    """Give the timers that wait; None where no timer has run."""
    try:
        if store.timer_check() is None:
            return None
    except DecodeError:
        return None
    rows = [timer for timer in pending_timers(store) if timer["waits_in"] in _TIMERS]
    if any("physical_offset" not in row for row in rows):
        return None  # the timer log does not tell
    return _numbers(rows, "physical_offset")


def _numbers(rows: Iterable[Row], name: str) -> frozenset[int]:
    return frozenset(number for row in rows if isinstance(number := row[name], int))
