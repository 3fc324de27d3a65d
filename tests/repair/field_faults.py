"""Faults of a field that something else proves: the repair makes the record what it was.

A bit of a topic can make a name that brokers refuse, or one that nobody knows.
"""

from __future__ import annotations

from typing import Final

from tests import inflict
from tests.repair.fault import Fault
from tests.repair.harms import flipped, flipped_in_queue, queue_gone

ORDERS: Final = ("traffic-orders", 1)
ILLEGAL: Final = 7  # the bit that makes no letter of any
LEGAL: Final = 6

FIELD_FAULTS: Final = [
    Fault(
        "illegal topic, told by its queue",
        "rocketmq-4.9.3-traffic",
        (flipped_in_queue(ORDERS, 3, "topic", ILLEGAL),),
        is_killed=True,
        is_proven=True,
        is_undone=True,
    ),
    Fault(
        "illegal topic of the newest record of a queue",
        "rocketmq-5.5.0-traffic",
        (flipped_in_queue(ORDERS, -1, "topic", ILLEGAL),),
        is_undone=True,
    ),
    Fault(
        "illegal topics of neighbours in a queue",
        "rocketmq-5.3.3-traffic",
        tuple(flipped_in_queue(ORDERS, 3, "topic", ILLEGAL) for _ in range(2)),
        is_undone=True,
    ),
    Fault(
        "illegal topic, its queue gone, told by the index",
        "rocketmq-5.3.3-traffic",
        (
            flipped_in_queue(ORDERS, 3, "topic", ILLEGAL),
            queue_gone("consumequeue/traffic-orders/1"),
        ),
        is_killed=True,
        is_proven=True,
        is_undone=True,
    ),
    Fault(
        "unknown topic, its queue gone, told by the index",
        "rocketmq-4.9.3-traffic",
        (
            flipped_in_queue(ORDERS, 3, "topic", LEGAL),
            queue_gone("consumequeue/traffic-orders/1"),
        ),
        is_proven=True,
        is_undone=True,
    ),
    Fault(
        "illegal topic of a batch",
        "rocketmq-5.5.0-batch-queue",
        (flipped(17568, "topic", bit=ILLEGAL),),
        is_proven=True,
        is_undone=True,
    ),
    Fault(
        "illegal topic of a record with a property CRC",
        "rocketmq-5.5.0-property-crc",
        (inflict.flip_field("topic", bit=ILLEGAL, where=0.5),),
        is_undone=True,
    ),
    Fault(
        "illegal parent of a light queue's message",
        "rocketmq-5.5.0-lmq",
        (inflict.flip_field("topic", bit=ILLEGAL, where=0.3),),
        is_undone=True,
    ),
]
