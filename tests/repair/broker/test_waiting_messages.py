"""Messages that wait in the broker's own queues, delayed ones and halves, get over a bridge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from tests import inflict, plain_store
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.client import wait_until
from tests.broker.consumer import PushConsumer
from tests.broker.message import Outgoing
from tests.broker.producer import Producer, TransactionProducer
from tests.repair.broker.conftest import sampled

pytestmark = [pytest.mark.broker, pytest.mark.all_variants]

_COUNT: Final = 6
_LOST: Final = 2
_TOPIC: Final = "waiting"
_GROUP: Final = "waiting-producer"
_SETTINGS: Final = {
    **SMALL_GEOMETRY,
    "transactionTimeOut": 500,
    "transactionCheckInterval": 2000,
    "transactionOpBatchInterval": 500,
}
_LATE: Final = "20s " * 18


class Deciding(TransactionProducer):
    """A producer that commits whatever the broker comes back to ask about."""

    def __init__(self, broker: Broker, group: str) -> None:
        super().__init__(broker, group)
        for number in range(_COUNT):
            self._listener.later[f"{_TOPIC} K{number}"] = "committed"


def _delayed(broker: Broker) -> None:
    with Producer(broker, _GROUP) as producer:
        for number in range(_COUNT):
            producer.send(Outgoing(_TOPIC, b"%d" % number, delay_level=3), 0)


def _halves(broker: Broker) -> None:
    with TransactionProducer(broker, _GROUP) as producer:
        for number in range(_COUNT):
            producer.send(Outgoing(_TOPIC, b"%d" % number, keys=(f"K{number}",)), "undecided")


@pytest.mark.parametrize("version", sampled())
@pytest.mark.parametrize(
    ("put", "stored_topic"),
    [(_delayed, "SCHEDULE_TOPIC_XXXX"), (_halves, "RMQ_SYS_TRANS_HALF_TOPIC")],
    ids=["delayed", "halves"],
)
def test_waiting(
    version: str, put: Callable[[Broker], None], stored_topic: str, tmp_path: Path
) -> None:
    """All that wait are delivered, save the lost one; a neighbour may come twice."""
    late = {"messageDelayLevel": _LATE.strip(), "transactionCheckInterval": 600000}
    with running_broker(version, tmp_path, {**_SETTINGS, **late}) as broker:
        broker.create_topic(_TOPIC, 1)
        put(broker)
        broker.wait_dispatched()
        broker.stop()
        broker.crash()
    root = tmp_path / "store"
    waiting = [record for record in plain_store.records(root) if record.topic == stored_topic]
    body = waiting[_LOST].bytes_of("body")
    for lost in waiting:
        if lost.bytes_of("body") == body:  # 5.5.0 may have come back to it, and put it again
            position, size = lost.places()["body"]
            inflict.flip_bits(lost.path, lost.position + position + size // 2, 4)
    repair.apply(
        repair.plan(root, broker_version=version, broker_conf=str(tmp_path / "broker.conf")),
        in_place=True,
    )
    with (
        running_broker(version, tmp_path, _SETTINGS) as broker,
        Deciding(broker, _GROUP) as producer,
        PushConsumer(broker, "waiting-consumer", _TOPIC) as consumer,
    ):
        # Until it has sent something, the broker does not know whom to ask.
        producer.send(Outgoing(_TOPIC, b"first"), "committed")
        expected = {b"first"} | {b"%d" % number for number in range(_COUNT) if number != _LOST}
        wait_until(lambda: expected <= bodies(consumer), "all that waited")
        assert expected == bodies(consumer)
        broker.crash()


def bodies(consumer: PushConsumer) -> set[bytes]:
    """Give the bodies of what was consumed so far."""
    return {message.body for message in consumer.wait(0)}
