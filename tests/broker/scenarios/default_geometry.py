"""What a broker makes that nobody configured: files of a gigabyte, almost all of it holes."""

from __future__ import annotations

from typing import Final

from tests.broker.consumer import PullConsumer
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order

_TOPIC: Final = "default-orders"


def play(stage: Stage) -> None:
    """Send a few messages."""
    stage.broker.create_topic(_TOPIC, 4)
    with Producer(stage.broker, "default-producer") as producer:
        for number in range(120):
            stage.record(producer.send(order(_TOPIC, number), number % 4))
    with PullConsumer(stage.broker, "default-reader") as reader:
        reader.commit(_TOPIC, 0, 10)
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="default-geometry",
    summary="lengths as nobody configured them, sparse files",
    play=play,
    settings={"timerWheelEnable": True},
)
