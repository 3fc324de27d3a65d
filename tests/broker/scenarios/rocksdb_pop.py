"""Pop consumption whose state lies in RocksDB."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE_ALSO_LATEST, Scenario, Stage, order

_TOPIC: Final = "pop-orders"
_INVISIBLE_MS: Final = 3_600_000


def play(stage: Stage) -> None:
    """Send, pop some messages, acknowledge a few of them."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "pop-producer") as producer:
        for number in range(60):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
    stage.broker.wait_dispatched()
    controller = stage.broker.controller
    controller.getSubscriptionGroupManager().findSubscriptionGroupConfig("pop_group")
    service = controller.getPopConsumerService()
    for queue_id in range(2):
        pop_time = int(time.time() * 1000)
        where = ("127.0.0.1", pop_time, _INVISIBLE_MS, "pop_group", _TOPIC, queue_id)
        service.popAsync(*where, 12, False, None, 0, None).join()
        for offset in range(4):
            service.ackAsync(pop_time, _INVISIBLE_MS, "pop_group", _TOPIC, queue_id, offset).join()


SCENARIO: Final = Scenario(
    name="rocksdb-pop",
    summary="pop consumption with its state in RocksDB: popped, acknowledged, in flight",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "popConsumerKVServiceInit": True,
        "popConsumerKVServiceEnable": True,
    },
    versions=FIVE_ALSO_LATEST,
)
