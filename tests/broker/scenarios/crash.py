"""A broker that is killed: `abort` and the files made in advance stay."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.consumer import PullConsumer
from tests.broker.direct import put_direct
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import ALSO_LATEST, Scenario, Stage, order

_TOPIC: Final = "crash-orders"
_UNICODE: Final = "主题-тема"
_FLUSH_SECONDS: Final = 7


def play(stage: Stage) -> None:
    """Send, let the broker flush its JSON files once, send more."""
    stage.broker.create_topic(_TOPIC, 4)
    stage.broker.create_topic(_UNICODE, 1)
    _send(stage, 0, 300)
    with PullConsumer(stage.broker, "crash-reader") as reader:
        for queue_id in range(4):
            reader.commit(_TOPIC, queue_id, 50)
    # No client may name such topics, nor send nothing; the store takes both.
    for number in range(5):
        outgoing = Outgoing(_UNICODE, b"", f"标签{number}", (f"ключ-{number}",))
        stage.record(put_direct(stage.broker, outgoing))
    time.sleep(_FLUSH_SECONDS)
    _send(stage, 300, 500)


def _send(stage: Stage, start: int, end: int) -> None:
    with Producer(stage.broker, "crash-producer") as producer:
        for number in range(start, end):
            stage.record(producer.send(order(_TOPIC, number), number % 4))


SCENARIO: Final = Scenario(
    name="crash",
    summary="a killed broker: abort stays, and so do files made in advance",
    play=play,
    versions=ALSO_LATEST,
    crash=True,
)
