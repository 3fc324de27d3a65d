"""Light message queues: one record in several queues."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.client import Producer
from tests.broker.message import Outgoing
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TOPIC: Final = "lmq-parent"
_TARGETS: Final = (
    "%LMQ%home-1",
    "%LMQ%home-1,%LMQ%home-2",
    "%LMQ%home-2,lmq-other,%LMQ%home-3",
    "%LMQ%温度",
)


def play(stage: Stage) -> None:
    """Send messages for one, two and three further queues, and some for none."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "lmq-producer") as producer:
        for number in range(240):
            if number % 5 == 4:
                stage.record(producer.send(order(_TOPIC, number), number % 2))
                continue
            outgoing = Outgoing(
                _TOPIC,
                text(f"lmq {number}", 60),
                tags=f"lmq{number % 3}",
                keys=(f"L-{number}",),
                reserved={"INNER_MULTI_DISPATCH": _TARGETS[number % len(_TARGETS)]},
            )
            stage.record(producer.send(outgoing, number % 2, "lmq"))
    stage.broker.wait_dispatched()
    offsets = stage.broker.controller.getConsumerOffsetManager()
    for target, queue_offset in (("%LMQ%home-1", 30), ("%LMQ%home-2", 12)):
        offsets.commitOffset("127.0.0.1", "%LMQ%reader", target, 0, queue_offset)


SCENARIO: Final = Scenario(
    name="lmq",
    summary="light message queues: records that are dispatched to several queues",
    play=play,
    settings={**SMALL_GEOMETRY, "enableLmq": True, "enableMultiDispatch": True},
)
