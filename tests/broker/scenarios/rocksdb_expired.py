"""Queues in RocksDB whose first messages have expired."""

from __future__ import annotations

import os
import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.client import wait_until
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE, Scenario, Stage, order

_TOPIC: Final = "expired-orders"
_IDLE: Final = "expired-idle"
_AGED: Final = 3
_OLD_SECONDS: Final = 3 * 3600


def begin(stage: Stage) -> None:
    """Send: a clean stop flushes the units."""
    stage.broker.create_topic(_TOPIC, 3)
    stage.broker.create_topic(_IDLE, 1)
    with Producer(stage.broker, "expired-producer") as producer:
        for number in range(900):
            if number < 20:
                stage.record(producer.send(order(_IDLE, number), 0))
            stage.record(producer.send(order(_TOPIC, number), number % 3))
    stage.broker.wait_dispatched()


def play(stage: Stage) -> None:
    """Age the first segments, wait until the broker has deleted them, ask for each minimum."""
    directory = stage.broker.jvm.home / "store" / "commitlog"
    aged = sorted(directory.iterdir())[:_AGED]
    old = time.time() - _OLD_SECONDS
    for segment in aged:
        os.utime(segment, (old, old))
    wait_until(lambda: not any(path.exists() for path in aged), "expiry")
    time.sleep(2)
    for queue_id in range(3):
        stage.broker.store.getMinOffsetInQueue(_TOPIC, queue_id)
    stage.broker.store.getMinOffsetInQueue(_IDLE, 0)


SCENARIO: Final = Scenario(
    name="rocksdb-expired",
    summary="queues in RocksDB, first segments of the log deleted by the broker",
    begin=begin,
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "mappedFileSizeCommitLog": 65536,
        "maxMessageSize": 16384,
        "storeType": "defaultRocksDB",
        "fileReservedTime": 1,
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
        "cleanResourceInterval": 1000,
    },
    versions=FIVE,
)
