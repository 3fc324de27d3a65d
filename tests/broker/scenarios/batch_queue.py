"""Topics whose batches are stored as one record each, with queue units of 46 bytes."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE_ALSO_LATEST, Scenario, Stage, order, text

_BATCHES: Final = "batch-queue"
_ORDINARY: Final = "batch-queue-ordinary"
_UNIT: Final = 46


def play(stage: Stage) -> None:
    """Send inner batches between single messages, and an ordinary topic beside."""
    stage.broker.create_topic(_BATCHES, 2, {"queue.type": "BatchCQ"})
    stage.broker.create_topic(_ORDINARY, 1)
    with Producer(stage.broker, "batch-queue-producer") as producer:
        for number in range(70):
            batch = [
                Outgoing(
                    _BATCHES,
                    text(f"inner {number} {item}", 30 + item),
                    tags=f"inner{item % 3}",
                    keys=(f"I-{number}-{item}",),
                    properties={"item": str(item)},
                )
                for item in range(1 + number % 9)
            ]
            stage.record(producer.send_inner_batch(batch, number % 2))
            if number % 7 == 0:
                stage.record(producer.send(order(_BATCHES, number), number % 2))
            stage.record(producer.send(order(_ORDINARY, number), 0))
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="batch-queue",
    summary="a topic of queue.type=BatchCQ: inner batches and 46-byte units in several files",
    play=play,
    settings={**SMALL_GEOMETRY, "mapperFileSizeBatchConsumeQueue": 10 * _UNIT},
    versions=FIVE_ALSO_LATEST,
)
