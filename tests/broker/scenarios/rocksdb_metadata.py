"""Topics, groups and consumer offsets in RocksDB, all in one database: 5.4's, and version 2."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE, Scenario, Stage, order

_TOPIC: Final = "metadata-orders"
_FLUSH_SECONDS: Final = 7


def play(stage: Stage) -> None:
    """Send, consume, commit, reset; one topic is made by the broker itself."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "metadata-producer") as producer:
        for number in range(80):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        stage.record(producer.send(order("metadata-auto", 0)))
    with PushConsumer(stage.broker, "metadata-reader", _TOPIC) as reader:
        reader.wait(80)
    with PullConsumer(stage.broker, "metadata-slow") as slow:
        slow.commit(_TOPIC, 0, 7)
        slow.commit(_TOPIC, 1, 9)
    groups = stage.broker.controller.getSubscriptionGroupManager()
    config = stage.broker.jvm.rocketmq("remoting.protocol.subscription.SubscriptionGroupConfig")()
    config.setGroupName("metadata-by-admin")
    groups.updateSubscriptionGroupConfig(config)
    offsets = stage.broker.controller.getConsumerOffsetManager()
    offsets.assignResetOffset(_TOPIC, "metadata-slow", 0, 3)
    offsets.commitPullOffset("127.0.0.1", "metadata-slow", _TOPIC, 1, 8)
    time.sleep(_FLUSH_SECONDS)
    stage.broker.wait_dispatched()


_SETTINGS: Final = {**SMALL_GEOMETRY, "storeType": "defaultRocksDB"}
SCENARIOS: Final = (
    Scenario(
        name="rocksdb-single",
        summary="topics, groups and offsets in one RocksDB database",
        play=play,
        settings={**_SETTINGS, "useSingleRocksDBForAllConfigs": True},
        versions=("5.5.0",),
    ),
    Scenario(
        name="rocksdb-v2",
        summary="topics, groups and offsets in RocksDB of version 2",
        play=play,
        settings={**_SETTINGS, "configManagerVersion": "v2"},
        versions=FIVE,
    ),
)
