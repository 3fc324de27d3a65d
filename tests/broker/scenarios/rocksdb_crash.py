"""A broker with everything in RocksDB that is stopped once, sends on, and is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PullConsumer
from tests.broker.message import Outgoing, Sent
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import FIVE, Scenario, Stage, order, text

_TOPIC: Final = "rocksdb-orders"
_UNICODE: Final = "rocksdb-traffic"
_FLUSH_SECONDS: Final = 7


def begin(stage: Stage) -> None:
    """Send a first part: a clean stop flushes the queues of it."""
    stage.broker.create_topic(_TOPIC, 4)
    stage.broker.create_topic(_UNICODE, 2)
    _send(stage, 0, 200)
    with PullConsumer(stage.broker, "rocksdb-reader") as reader:
        for queue_id in range(4):
            reader.commit(_TOPIC, queue_id, 10 + queue_id)
    stage.broker.wait_dispatched()


def play(stage: Stage) -> None:
    """Send on; memtables hold the units of it when the broker is killed."""
    _send(stage, 200, 320)
    with Producer(stage.broker, "rocksdb-light") as producer:
        stage.record(_light(stage, producer))
    with PullConsumer(stage.broker, "rocksdb-late") as reader:
        reader.commit(_TOPIC, 0, 20)
    time.sleep(_FLUSH_SECONDS)
    _send(stage, 320, 360)
    stage.broker.wait_dispatched()


def _send(stage: Stage, start: int, end: int) -> None:
    with Producer(stage.broker, "rocksdb-producer") as producer:
        for number in range(start, end):
            stage.record(producer.send(order(_TOPIC, number), number % 4))
            if number % 20 == 0:
                delayed = Outgoing(_UNICODE, text(f"delay {number}", 50), "delay", delay_level=17)
                stage.record(producer.send(delayed, number % 2))
    with TransactionProducer(stage.broker, "rocksdb-transactions") as producer:
        for number in range(start, start + 12):
            first = ("committed", "rolled-back", "undecided")[number % 3]
            outgoing = Outgoing(_UNICODE, text(f"half {number}", 50), first, (f"X-{number}",))
            stage.record(producer.send(outgoing, first))


def _light(stage: Stage, producer: Producer) -> Iterator[Sent]:
    names = ("%LMQ%home-1", "%LMQ%home-1,%LMQ%home-2", "%LMQ%温度")
    for number in range(24):
        reserved = {"INNER_MULTI_DISPATCH": names[number % 3]}
        if stage.broker.jvm.version == "5.5.0" and number % 4 == 3:
            reserved = {"__LITE_TOPIC": f"room-{number % 5}"}
        outgoing = Outgoing(_UNICODE, text(f"light {number}", 40), "light", reserved=reserved)
        yield producer.send(outgoing, number % 2, "lmq")


SCENARIO: Final = Scenario(
    name="rocksdb-crash",
    summary="queues and metadata in RocksDB, light queues; killed in its second life: live logs",
    begin=begin,
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "storeType": "defaultRocksDB",
        "enableLmq": True,
        "enableMultiDispatch": True,
    },
    versions=FIVE,
    crash=True,
)
