"""Light message queues: one record in several queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.message import Outgoing, Sent
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TOPIC: Final = "lmq-parent"
_TARGETS: Final = (
    "%LMQ%home-1",
    "%LMQ%home-1,%LMQ%home-2",
    "%LMQ%home-2,%LMQ%home-1,%LMQ%home-3",
    "%LMQ%温度",
)
# 4.9.x dispatches to other names, too; from 5.3.2 on one such record stops all dispatching, for
# it gets an empty queue offset (observed; LmqDispatch#wrapLmqDispatch).
_OTHER: Final = "%LMQ%home-2,lmq-other"


def play(stage: Stage) -> None:
    """Send messages for one, two and three further queues, and some for none."""
    stage.broker.create_topic(_TOPIC, 2)
    targets = _TARGETS if stage.broker.jvm.is_five else (*_TARGETS, _OTHER)
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
                reserved={"INNER_MULTI_DISPATCH": targets[number // 2 % len(targets)]},
            )
            stage.record(producer.send(outgoing, number % 2, "lmq"))
        if stage.broker.jvm.version == "5.5.0":
            stage.record(_lite(producer))
    stage.broker.wait_dispatched()
    offsets = stage.broker.controller.getConsumerOffsetManager()
    for target, queue_offset in (("%LMQ%home-1", 30), ("%LMQ%home-2", 12)):
        offsets.commitOffset("127.0.0.1", "%LMQ%reader", target, 0, queue_offset)


def _lite(producer: Producer) -> Iterator[Sent]:
    """Send lite messages: the broker makes a light queue's name of topic and child."""
    for number in range(20):
        outgoing = Outgoing(
            _TOPIC,
            text(f"lite {number}", 60),
            tags="lite",
            keys=(f"C-{number}",),
            reserved={"__LITE_TOPIC": f"room-{number % 3}"},
        )
        yield producer.send(outgoing, number % 2, "lmq")


SCENARIO: Final = Scenario(
    name="lmq",
    summary="light message queues: records that are dispatched to several queues",
    play=play,
    settings={**SMALL_GEOMETRY, "enableLmq": True, "enableMultiDispatch": True},
)
