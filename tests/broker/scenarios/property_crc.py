"""Records with a checksum over properties and header."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.message import Outgoing
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import FIVE, Scenario, Stage, order, text

_TOPIC: Final = "crc-orders"
_DELAY_SECONDS: Final = 4


def play(stage: Stage) -> None:
    """Send one of each way in which a record comes about."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "crc-producer") as producer:
        for number in range(80):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        for number in range(3):
            batch = [
                Outgoing(_TOPIC, text(f"batch {number} {item}", 40), "batch", (f"B-{item}",))
                for item in range(6)
            ]
            stage.record(producer.send_batch(batch, number % 2))
        for level in (1, 2, 17):
            outgoing = Outgoing(_TOPIC, text(f"delay {level}", 40), "delay", delay_level=level)
            stage.record(producer.send(outgoing, 0))
    with Producer(stage.broker, "crc-compressed", "ZSTD") as producer:
        outgoing = Outgoing(_TOPIC, text("zstd", 3000), "zstd", ("Z-0",))
        stage.record(producer.send(outgoing, 0))
    with TransactionProducer(stage.broker, "crc-transactions") as transactions:
        for number, outcome in enumerate(("committed", "rolled-back", "undecided")):
            outgoing = Outgoing(_TOPIC, text(f"half {number}", 40), "half", (f"X-{number}",))
            stage.record(transactions.send(outgoing, outcome))
    time.sleep(_DELAY_SECONDS)
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="property-crc",
    summary="every record ends in a checksum of itself",
    play=play,
    settings={**SMALL_GEOMETRY, "enabledAppendPropCRC": True, "forceVerifyPropCRC": True},
    versions=FIVE,
)
