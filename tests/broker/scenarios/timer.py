"""Messages for an arbitrary time: timer wheel and timer log."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE_ALSO_LATEST, Scenario, Stage, order, text

_TOPIC: Final = "timer-orders"
_HOUR: Final = 3600
_ROLL_SECONDS: Final = 8
_PLAY_SECONDS: Final = 20


def play(stage: Stage) -> None:
    """Send messages for soon, for after several rolls, for much later; recall some."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "timer-producer") as producer:
        for number in range(20):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        for number, seconds in enumerate((2, 2, 3, 3, 3, 5, 6, 12, 15, 2 * _HOUR, 30 * _HOUR)):
            outgoing = _timer(number, {"TIMER_DELAY_SEC": str(seconds)})
            stage.record(producer.send(outgoing, number % 2, "timer"))
        for number in range(11, 20):
            instant = int(time.time() * 1000) + number * 500
            outgoing = _timer(number, {"TIMER_DELIVER_MS": str(instant)})
            stage.record(producer.send(outgoing, number % 2, "timer"))
        for number in range(20, 24):
            outgoing = _timer(number, {"TIMER_DELAY_MS": "7000"})
            sent = producer.send(outgoing, 0, "timer")
            producer.recall(_TOPIC)
            stage.record(replace(sent, outcome="recalled"))
    time.sleep(_PLAY_SECONDS)
    stage.broker.wait_dispatched()


def _timer(number: int, when: dict[str, str]) -> Outgoing:
    return Outgoing(
        _TOPIC,
        text(f"timer {number}", 60),
        tags="timer",
        keys=(f"W-{number}",),
        reserved=when,
    )


SCENARIO: Final = Scenario(
    name="timer",
    summary="timer wheel and timer log: delivered, rolled, recalled and pending messages",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "timerWheelEnable": True,
        "mappedFileSizeTimerLog": 1040,
        "timerRollWindowSlot": _ROLL_SECONDS,
        "recallMessageEnable": True,
    },
    versions=FIVE_ALSO_LATEST,
)
