"""Queues in files and in RocksDB at once: double write of 5.3, combined stores of 5.4 on."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PullConsumer
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE, Scenario, Stage, order, text

_TOPIC: Final = "combined-orders"


def play(stage: Stage) -> None:
    """Send ordinary, light and lite messages."""
    stage.broker.create_topic(_TOPIC, 3)
    with Producer(stage.broker, "combined-producer") as producer:
        for number in range(180):
            if number % 3:
                stage.record(producer.send(order(_TOPIC, number), number % 3))
                continue
            reserved = {"INNER_MULTI_DISPATCH": ("%LMQ%a", "%LMQ%a,%LMQ%b")[number % 2]}
            if stage.broker.jvm.version == "5.5.0" and number % 4 == 0:
                reserved = {"__LITE_TOPIC": f"room-{number % 5}"}
            outgoing = Outgoing(_TOPIC, text(f"light {number}", 40), "light", reserved=reserved)
            stage.record(producer.send(outgoing, number // 3 % 3, "lmq"))
    with PullConsumer(stage.broker, "combined-reader") as reader:
        reader.commit(_TOPIC, 0, 5)
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="rocksdb-combined",
    summary="queues in files and in RocksDB (5.3: double write; 5.5: combined, light queues too)",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "rocksdbCQDoubleWriteEnable": True,
        "combineCQUseRocksdbForLmq": True,  # 5.5.0 with light queues does not start without
        "enableLmq": True,
        "enableMultiDispatch": True,
    },
    versions=FIVE,
)
