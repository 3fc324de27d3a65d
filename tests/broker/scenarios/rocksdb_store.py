"""`rocksdbstore` of 5.4 and newer: key index, timer and transactions in RocksDB."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.message import Outgoing
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TOPIC: Final = "store-orders"
_PLAY_SECONDS: Final = 12


def play(stage: Stage) -> None:
    """Send messages with keys, for later, and in transactions that stay open."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "store-producer") as producer:
        for number in range(120):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        for number, seconds in enumerate((2, 3, 4, 5, 6, 3600, 7200, 7200, 10800)):
            outgoing = Outgoing(
                _TOPIC,
                text(f"timer {number}", 60),
                "timer",
                (f"W-{number}", "dup", "dup"),
                reserved={"TIMER_DELAY_SEC": str(seconds)},
            )
            stage.record(producer.send(outgoing, number % 2, "timer"))
    with TransactionProducer(stage.broker, "store-transactions") as producer:
        for number in range(18):
            first = ("committed", "rolled-back", "undecided")[number % 3]
            outgoing = Outgoing(_TOPIC, text(f"half {number}", 50), first, (f"X-{number}",))
            stage.record(producer.send(outgoing, first))
    time.sleep(_PLAY_SECONDS)
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="rocksdb-store",
    summary="rocksdbstore: key index, timers and open halves in RocksDB, queues in files",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "indexRocksDBEnable": True,
        "timerRocksDBEnable": True,
        "transRocksDBEnable": True,
        "transWriteOriginTransHalfEnable": False,
        "timerWheelEnable": True,
        "transactionTimeOut": 60000,
    },
    versions=("5.5.0",),
)
