"""Queues in files, and those of lite topics in RocksDB, too: selective double write of 5.5.1."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PullConsumer
from tests.broker.jars import LATEST
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_LITE: Final = "selective-rooms"
_PLAIN: Final = "selective-orders"


def play(stage: Stage) -> None:
    """Send to a lite topic with its light queues, and to a plain one."""
    stage.broker.create_topic(_LITE, 2, {"message.type": "LITE"})
    stage.broker.create_topic(_PLAIN, 3)
    with Producer(stage.broker, "selective-producer") as producer:
        for number in range(150):
            if number % 3:
                stage.record(producer.send(order(_PLAIN, number), number % 3))
                continue
            reserved = {"__LITE_TOPIC": f"room-{number % 5}"}
            outgoing = Outgoing(_LITE, text(f"lite {number}", 40), "lite", reserved=reserved)
            stage.record(producer.send(outgoing, number // 3 % 2, "lmq"))
    with PullConsumer(stage.broker, "selective-reader") as reader:
        reader.commit(_PLAIN, 0, 5)
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="rocksdb-selective",
    summary="queues in files, those of lite topics in RocksDB, too; light queues in RocksDB alone",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "rocksdbCQDoubleWriteEnable": True,
        "rocksdbCQSelectiveDoubleWriteEnable": True,
        "combineCQUseRocksdbForLmq": True,
        "enableLmq": True,
        "enableMultiDispatch": True,
    },
    versions=(LATEST,),
)
