"""Faults after which repairs once lost messages, delivered wrong ones, or did not settle.

Each was found on a real broker; the campaign's cases among them name the place where it struck.
"""

from __future__ import annotations

import itertools
from typing import Final

from tests import inflict
from tests.repair.fault import Fault
from tests.repair.field_faults import FIELD_FAULTS
from tests.repair.harms import (
    copied,
    exchanged,
    flipped,
    flipped_in_queue,
    gone,
    index_zeroed,
    queue_gone,
    resized,
    written_again,
    zeroed,
)


def _first(topic: str) -> str:
    return f"consumequeue/{topic}/0/{FIRST}"


QUEUE: Final = ("traffic-batch", 0)
LOG: Final = "commitlog/00000000000000"
ORDERS: Final = "consumequeue/expired-orders"
BATCHES: Final = "batchconsumequeue/batch-queue/1/00000000000000"
OPS: Final = "consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0"
IDLE: Final = "consumequeue/expired-idle/0/00000000000000000000"
TOPICS: Final = "config/topics.json"
FIRST: Final = "00000000000000000000"


def _faults() -> list[Fault]:
    found = [
        Fault(
            f"zeros to the end of a segment, {version}",
            f"rocketmq-{version}-crash",
            (zeroed(f"{LOG}000000", 104857),),
            is_killed=True,
        )
        for version in ("4.9.3", "5.5.0")
    ]
    found.append(
        Fault(
            "queues without a message",
            "rocketmq-4.9.3-traffic",
            (zeroed(f"{LOG}131072", 45928), zeroed(f"{LOG}262144", 0)),
            is_proven=True,
        )
    )
    found += [
        Fault(
            f"bit {bit} of {field} of the {place} record of a queue, {version}",
            f"rocketmq-{version}-traffic",
            (flipped_in_queue(QUEUE, which, field, bit),),
            is_proven=(version, field, place) == ("4.9.3", "queue_id", "first"),
        )
        for version, (field, bit, which, place) in itertools.product(
            ("4.9.3", "5.5.0"),
            (
                ("queue_id", 0, 0, "first"),
                ("topic", 0, 0, "first"),
                ("queue_offset", 6, 0, "first"),
                ("queue_offset", 1, -1, "last"),
                ("queue_offset", 3, -1, "last"),
            ),
        )
    ]
    found += [
        Fault(
            f"batch topic forgotten, {name}",
            "rocketmq-5.3.3-batch-queue",
            (gone(TOPICS, f"{TOPICS}.bak"), *more),
            back=TOPICS,
            is_proven=bool(more),
        )
        for name, more in (("alone", ()), ("and a body", (inflict.flip_field("body"),)))
    ]
    return [
        *found,
        Fault(
            "first segment of zeros",
            "rocketmq-4.9.3-crash",
            (zeroed(f"{LOG}000000", 0),),
            is_killed=True,
        ),
        Fault(
            "empty queue file whose oldest messages are gone",
            "rocketmq-4.9.3-traffic",
            (resized(_first("traffic-transaction"), 0), gone(f"{LOG}000000")),
            release="5.3.3",
            is_proven=True,
        ),
        Fault(
            "queue file cut inside of a unit",
            "rocketmq-4.9.3-expired",
            (resized(f"{ORDERS}/0/00000000000000005000", 859),),
            is_proven=True,
        ),
        Fault(
            "queue file exchanged with that of an expired queue",
            "rocketmq-4.9.3-expired",
            (exchanged(IDLE, f"{ORDERS}/2/00000000000000005000"),),
            is_proven=True,
        ),
        Fault(
            "queue files exchanged",
            "rocketmq-5.3.3-expired",
            (exchanged(f"{ORDERS}/0/{3000:020}", f"{ORDERS}/1/{4000:020}"),),
        ),
        Fault(
            "queue files of one number exchanged, offsets of consumers",
            "rocketmq-5.3.3-expired",
            (exchanged(f"{ORDERS}/0/{2000:020}", f"{ORDERS}/1/{2000:020}"),),
        ),
        Fault(
            "queue of a delay level exchanged, offsets of delay levels",
            "rocketmq-5.5.0-traffic",
            (
                exchanged(
                    _first("RMQ_SYS_TRANS_HALF_TOPIC"),
                    f"consumequeue/SCHEDULE_TOPIC_XXXX/1/{FIRST}",
                ),
                gone(f"{LOG}131072"),
            ),
        ),
        Fault(
            "queue file of zeros",
            "rocketmq-5.3.3-expired",
            (zeroed(IDLE, 0),),
            is_killed=True,
            is_proven=True,
        ),
        Fault(
            "zeros in index and log",
            "rocketmq-4.9.3-expired",
            (zeroed("index/20261121031707094", 3584), zeroed(f"{LOG}327680", 13312, 15360)),
        ),
        Fault(
            "misdirected write in the index",
            "rocketmq-5.5.0-expired",
            (
                written_again("index/20261121031945780", 5120, 5368, 8192),
                zeroed(f"{LOG}393216", 43520),
            ),
        ),
        Fault(
            "last segments gone",
            "rocketmq-4.9.3-expired",
            (zeroed(f"{LOG}262144", 34816), gone(f"{LOG}327680")),
            release="5.5.0",
        ),
        Fault(
            "gap that no record follows",
            "rocketmq-5.3.3-crash",
            (resized(f"{LOG}000000", 51183), gone(f"{LOG}131072")),
        ),
        Fault(
            "store time and misdirected write",
            "rocketmq-4.9.3-traffic",
            (
                flipped(118218, "store_timestamp", byte=5, bit=2),
                written_again(f"{LOG}000000", 86016, 86528, 35328),
            ),
            is_killed=True,
            release="5.5.0",
        ),
        Fault(
            "all messages of some queues, in the middle of the log",
            "rocketmq-4.9.3-traffic",
            (zeroed(f"{LOG}131072", 47104, 57344),),
        ),
        Fault(
            "topic flipped, entries of the index zeroed",
            "rocketmq-5.3.3-traffic",
            (flipped_in_queue(("traffic-orders", 1), 3, "topic", 0), index_zeroed),
        ),
        Fault(
            "queue offset of a message that has no unit",
            "rocketmq-4.9.3-traffic",
            (
                flipped(277651, "queue_offset", byte=4),
                zeroed(f"consumequeue/traffic-orders/3/{2000:020}", 1520),
                zeroed(f"consumequeue/traffic-orders/3/{4000:020}", 0),
            ),
            is_killed=True,
        ),
        Fault(
            "topic flipped, unit overwritten",
            "rocketmq-5.5.0-ipv6",
            (
                flipped(4828, "topic"),
                copied(_first("RMQ_SYS_TRANS_OP_HALF_TOPIC"), _first("ipv6-orders")),
            ),
        ),
        Fault(
            "batch queue file cut, and the log before it",
            "rocketmq-5.5.0-batch-queue",
            (resized(f"{BATCHES}001380", 176), resized(f"{LOG}000000", 59483)),
        ),
        Fault(
            "queue offset of a batch, zeros in another batch queue",
            "rocketmq-5.5.0-batch-queue",
            (flipped(17568, "queue_offset"), zeroed(f"{BATCHES}000460", 0)),
        ),
        Fault(
            "queue offset of a batch, for a release without batches",
            "rocketmq-5.5.0-batch-queue",
            (flipped(80818, "queue_offset", bit=5),),
            release="4.9.3",
            is_proven=True,
        ),
        Fault(
            "separator after the INNER_BASE of a batch",
            "rocketmq-5.3.3-batch-queue",
            (zeroed(f"{LOG}000000", 30638, 30639),),
            is_killed=True,
        ),
        Fault(
            "queue id of a batch",
            "rocketmq-5.3.3-batch-queue",
            (flipped(77390, "queue_id", byte=0, bit=1),),
        ),
        Fault(
            "queue id of a batch, and the end of another queue",
            "rocketmq-5.3.3-batch-queue",
            (flipped(29557, "queue_id", byte=0, bit=5), zeroed(f"{BATCHES}000460", 0)),
        ),
        Fault(
            "light queue exchanged with a file of its parent",
            "rocketmq-5.5.0-lmq",
            (
                exchanged(
                    _first("%LMQ%$lmq-parent$room-2"),
                    f"consumequeue/lmq-parent/1/{2000:020}",
                ),
            ),
        ),
        Fault(
            "queue id flipped, its own queue gone",
            "rocketmq-4.9.3-traffic",
            (flipped(209330, "queue_id"), queue_gone("consumequeue/traffic-batch/1")),
        ),
        Fault(
            "queue of timers exchanged, timer log torn at its begin",
            "rocketmq-5.3.3-timer",
            (
                exchanged(_first("timer-orders"), _first("rmq_sys_wheel_timer")),
                written_again(f"timerlog/{FIRST}", 512, 1040, 0),
            ),
        ),
        Fault(
            "light queues exchanged",
            "rocketmq-5.5.0-lmq",
            (exchanged(_first("%LMQ%home-1"), _first("%LMQ%home-2")),),
            is_proven=True,
        ),
        Fault(
            "one segment is left, and queues that were copied long before it",
            "rocketmq-4.9.3-traffic",
            (
                *(gone(f"{LOG}{start}") for start in ("000000", "131072", "393216", "524288")),
                *(
                    zeroed(f"consumequeue/traffic-orders/{queue}/{start:020}", 0)
                    for queue, start in itertools.product(range(4), (0, 2000, 4000))
                ),
            ),
            is_proven=True,
        ),
        Fault(
            "store time of the first record, entries of the index lost",
            "rocketmq-4.9.3-lmq",
            (
                flipped(0, "store_timestamp", byte=5, bit=1),
                zeroed("index/20261121030633015", 8240, 8260),
            ),
        ),
        Fault(
            "index files exchanged, no checkpoint",
            "rocketmq-5.3.3-expired",
            (
                exchanged("index/20261121031818777", "index/20261121031819045"),
                gone("checkpoint"),
            ),
            is_killed=True,
        ),
        Fault(
            "timer log cut in a record",
            "rocketmq-5.3.3-timer",
            (resized(f"timerlog/{2080:020}", 12),),
        ),
        Fault(
            "segment gone, and the one before it too long",
            "rocketmq-5.3.3-ext",
            (gone(f"{LOG}131072"), resized(f"{LOG}000000", 131072 + 4096)),
            is_proven=True,
        ),
        Fault(
            "foreign file in a queue that has no message left",
            "rocketmq-5.3.3-ipv6",
            (
                copied(_first("RMQ_SYS_TRANS_OP_HALF_TOPIC"), f"{OPS}/{7:020}"),
                zeroed(f"{LOG}000000", 15991),
            ),
        ),
        Fault(
            "topics gone, newest messages of theirs lost",
            "rocketmq-4.9.3-crash",
            (exchanged(TOPICS, "config/consumerOffset.json"), gone(f"{LOG}131072")),
        ),
        Fault(
            "topics gone, and with them the log of their last units",
            "rocketmq-5.5.0-expired",
            (
                exchanged(TOPICS, "config/consumerOffset.json"),
                zeroed(f"{LOG}327680", 48210),
                gone(f"{LOG}393216"),
            ),
            is_killed=True,
        ),
        Fault(
            "topics gone, one queue of theirs gone",
            "rocketmq-5.5.0-expired",
            (
                exchanged(TOPICS, "config/consumerFilter.json.bak"),
                queue_gone(f"{ORDERS}/0"),
            ),
            release="4.9.3",
            is_proven=True,
        ),
        Fault(
            "first file of a queue gone, and the log ends before its second one",
            "rocketmq-5.3.3-lmq",
            (gone(f"{_first('%LMQ%home-1')}"), zeroed(f"{LOG}000000", 48593)),
        ),
        Fault(
            "checkpoint empty, and the log ends before the index",
            "rocketmq-4.9.3-lmq",
            (resized("checkpoint", 0), zeroed(f"{LOG}000000", 48838)),
            is_killed=True,
        ),
        Fault(
            "topics gone, and with them the units of one",
            "rocketmq-4.9.3-crash",
            (
                exchanged(TOPICS, "config/delayOffset.json"),
                zeroed(f"consumequeue/主题-тема/0/{0:020}", 0),
            ),
        ),
        Fault(
            "record that names another place, between records that a release numbers otherwise",
            "rocketmq-5.3.3-batch-queue",
            (flipped(1604, "physical_offset"),),
            release="4.9.3",
        ),
    ]


FAULTS: Final = [*_faults(), *FIELD_FAULTS]
