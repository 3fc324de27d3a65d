"""Bugs of single releases, where a store shows that they cost messages, or may.

Source: TimerMessageStore#TimerMessageStore, TimerMessageRocksDBStore#getMessageByCommitOffset,
MessageRocksDBStorage#writeRecordsForTimer, PopConsumerService#changeInvisibilityDuration,
ConsumeQueueRocksDBStorage#postLoad, 5.0.0 to 5.5.1.
"""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import MAX_MESSAGE_SIZE, TIMER_IN_ROCKSDB
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.errors import StoreError
from rmqtool.formats.properties import TIMER_DEL_UNIQKEY
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE, POP_STORE
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.startup.prediction import Unread
from rmqtool.startup.timers import waiting_timers
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.rules import Rules
    from rmqtool.rows import Row
    from rmqtool.store.tree import Store

UNITS_AT_ONCE: Final = 1 << 16
SLACK_BEFORE: Final = 100  # that of all releases before 5.5.1


def timer_limit(store: Store, rules: Rules) -> int:
    """Give how long a timer message may be, bytes; the broker never delivers longer ones."""
    size = MAX_MESSAGE_SIZE.of(store.broker_conf, rules.version)
    is_in_rocksdb = TIMER_IN_ROCKSDB.of(store.broker_conf, rules.version)
    return size if is_in_rocksdb else size + rules.timer_slack


def long_timers(store: Store, rules: Rules) -> list[Row]:
    """Give the waiting timers that are never delivered, as one is too long for the release.

    Timers in RocksDB stop at such a message: the broker tries to read it for ever.

    Args:
        store: as the release sees it.
        rules: of the release.

    Raises:
        UnreadablePath: a file or a database cannot be read to its end.
    """
    limit = timer_limit(store, rules)
    if not (rules.has_timer and _has_longer(store, limit)):
        return []
    rows = waiting_timers(store)
    if not TIMER_IN_ROCKSDB.of(store.broker_conf, rules.version):
        return [row for row in rows if _size(row) > limit]
    taken = [row for row in rows if row["waits_in"] != "timer-queue" and _size(row) > limit]
    left = (row for row in rows if row["waits_in"] == "timer-queue")
    return [*taken, *dropwhile(lambda row: _size(row) <= limit, left)]


def _has_longer(store: Store, limit: int) -> bool:
    """Look at sizes in the timer's queue alone: few stores have one so long."""
    with Queues(store) as queues, LogReader(store.old_commitlog, store.commitlog) as reader:
        queue = queues.queue(TIMER_TOPIC, 0)
        if queue is None:
            return False
        span = queue.span(reader.logs[0].start if reader.logs else 0)
        for first in range(span.min_offset, span.max_offset, UNITS_AT_ONCE):
            units = queue.read(first, min(UNITS_AT_ONCE, span.max_offset - first))
            if np.any(units["size"] > limit):
                return True
    return False


def too_long(store: Store, rules: Rules) -> Iterator[Unread]:
    """Say how many timers a release never delivers, as it cannot read so long a message."""
    if not (rows := long_timers(store, rules)):
        return
    count, limit = counted(len(rows), "timer message"), timer_limit(store, rules)
    message = f"{rules.version} cannot read a timer message of more than {limit:,} bytes: "
    before = f"raise {MAX_MESSAGE_SIZE.name} to the longest message"
    if TIMER_IN_ROCKSDB.of(store.broker_conf, rules.version):
        message += f"it stops there, {count} never delivered"
    else:
        message += f"{count} never delivered"
        before += "" if rules.timer_slack > SLACK_BEFORE else ", or start 5.5.1 or later"
    yield Unread("long timers", "timerlog", len(rows), message, before)


def recalled_timers(store: Store, rules: Rules) -> Iterator[Unread]:
    """Count recalled timers that have a row in RocksDB again, by a copy after the recall.

    Before 5.5.1 a broker forgot recalls when it put rolled copies of timers into RocksDB.

    Raises:
        UnreadablePath: a file or a database cannot be read to its end.
    """
    if not TIMER_IN_ROCKSDB.of(store.broker_conf, rules.version):
        return
    rows = [row for row in waiting_timers(store) if row["waits_in"] == "rocksdb"]
    numbers = _recalled(store) if rows else {}
    count = sum(_is_later(row.get("queue_offset"), numbers.get(_key(row))) for row in rows)
    if count:
        message = f"{counted(count, 'timer message')} delivered although recalled: a broker before "
        message += "5.5.1 put the rolled copy back"
        yield Unread("recalled timers", MESSAGE_STORE, count, message, "recall them again")


def _is_later(number: object, recall: int | None) -> bool:
    return isinstance(number, int) and recall is not None and number > recall


def _key(row: Row) -> str:
    return str(row.get("unique_key"))


def _size(row: Row) -> int:
    size = row.get("size")
    return size if isinstance(size, int) else 0


def _recalled(store: Store) -> dict[str, int]:
    """Give the queue offset of each recall, by the unique key of its timer."""
    from rmqtool.check.state.timer import timer_messages  # few timers are recalled

    with Queues(store) as queues, LogReader(store.old_commitlog, store.commitlog) as reader:
        return {
            key.rpartition("+")[2]: number
            for number, message in timer_messages(queues, reader)
            if (key := message.properties.get(TIMER_DEL_UNIQKEY))
        }


def cautions(store: Store, rules: Rules) -> Iterator[str]:
    """Yield bugs of a release that may cost messages of the store, and that nobody can count."""
    if rules.loses_changed_pops and any(database.path == POP_STORE for database in store.rocksdb()):
        from rmqtool.tables.pending import pop_in_flight  # few stores have it

        try:
            count = sum(1 for _ in pop_in_flight(store))
        except StoreError:  # other findings say so
            return
        if count:
            popped = counted(count, "popped message")
            yield (
                f"{rules.version} deletes the record of a popped message whose invisible time is "
                f"changed to end in the same ms: it never comes again; {popped} in flight"
            )
