"""A commitlog kept by DLedger, in a group of one."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.client import wait_until
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TOPIC: Final = "dledger-orders"


def play(stage: Stage) -> None:
    """Wait until the only node has elected itself, then send."""
    role = stage.broker.controller.getMessageStoreConfig
    wait_until(lambda: str(role().getBrokerRole()) == "SYNC_MASTER", "election")
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "dledger-producer") as producer:
        for number in range(500):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        batch = [Outgoing(_TOPIC, text(f"batch {item}", 40), "batch") for item in range(8)]
        stage.record(producer.send_batch(batch, 1))
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="dledger",
    summary="a commitlog of DLedger entries, several files",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "enableDLegerCommitLog": True,
        "dLegerGroup": "broker-a",
        "dLegerSelfId": "n0",
    },
    versions=("4.9.3", "5.3.3"),
)
