"""Consume queues in RocksDB."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE_ALSO_LATEST, Scenario, Stage, order

_TOPIC: Final = "rocksdb-orders"


def play(stage: Stage) -> None:
    """Send a few messages."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "rocksdb-producer") as producer:
        for number in range(120):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="rocksdb",
    summary="consume queues in RocksDB",
    play=play,
    settings={**SMALL_GEOMETRY, "storeType": "defaultRocksDB"},
    versions=FIVE_ALSO_LATEST,
)
