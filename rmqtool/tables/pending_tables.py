"""What a broker still has to do, declared: messages that wait, that were popped, or are undecided.

Readers are in pending.py.
"""

from __future__ import annotations

from typing import Final

from rmqtool.table import Column, Table, Type
from rmqtool.tables.file_tables import DAMAGE
from rmqtool.tables.record_tables import MESSAGES

_GROUP: Final = Column("group", Type.TEXT, "consumer group")
_TOPIC: Final = MESSAGES["topic"]._replace(source=None)
_QUEUE_ID: Final = MESSAGES["queue_id"]._replace(source=None)
_UNREADABLE: Final = DAMAGE[1:]

PENDING_TIMERS: Final = Table(
    "pending_timers",
    "a delayed message that was not delivered yet",
    (
        _TOPIC._replace(meaning="topic that the message will be delivered to"),
        _QUEUE_ID._replace(meaning="queue that it will be delivered to"),
        Column("deliver_time", Type.TIME, "when it is due", aliases=("TIMER_OUT_MS",)),
        Column(
            "waits_in",
            Type.TEXT,
            "timer-log (the wheel), rocksdb, timer-queue (not taken yet), delay-level",
            has_few=True,
        ),
        Column("delay_level", Type.INT32, "level of a message in delay-level", is_optional=True),
        MESSAGES["queue_offset"]._replace(
            meaning="number of its record in the queue where it waits", source=None
        ),
        MESSAGES["physical_offset"]._replace(source=None),
        MESSAGES["size"]._replace(source=None),
        MESSAGES["unique_key"]._replace(source=None),
        MESSAGES["keys"]._replace(source=None),
        *_UNREADABLE,
    ),
    shown=("deliver_time", "topic", "queue_id", "waits_in", "physical_offset", "unique_key"),
)
POP_IN_FLIGHT: Final = Table(
    "pop_in_flight",
    "a message that a consumer popped and did not acknowledge",
    (
        _TOPIC,
        _GROUP,
        _QUEUE_ID,
        MESSAGES["queue_offset"]._replace(source=None),
        Column("pop_time", Type.TIME, "when it was popped", aliases=("popTime",)),
        Column("visible_time", Type.TIME, "when it is delivered again without acknowledgement"),
        Column("attempts", Type.INT64, "how often it came back before", aliases=("attemptTimes",)),
        Column("attempt_id", Type.TEXT, "ID of the consumer's request", aliases=("attemptId",)),
        *_UNREADABLE,
    ),
    shown=("topic", "group", "queue_id", "queue_offset", "pop_time", "visible_time", "attempts"),
)
UNDECIDED_TRANSACTIONS: Final = Table(
    "undecided_transactions",
    "a transaction without commit, rollback or end of checks",
    (
        MESSAGES["unique_key"]._replace(source=None),
        _TOPIC._replace(meaning="topic that the message will be delivered to"),
        Column("producer_group", Type.TEXT, "group that is asked how the transaction ended"),
        Column(
            "half_records",
            Type.INT64,
            "how often the half message was stored: once, and again at each check",
        ),
        Column("first_store_time", Type.TIME, "when the oldest of them was stored"),
        Column("last_store_time", Type.TIME, "when the newest of them was stored"),
        Column(
            "last_physical_offset", Type.INT64, "where the newest lies in the commitlog", "bytes"
        ),
        *_UNREADABLE,
    ),
    shown=("unique_key", "topic", "producer_group", "half_records", "first_store_time"),
)
