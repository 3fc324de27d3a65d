"""Consume queue extension: bitmaps of SQL92 filters."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PushConsumer
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order

_TOPIC: Final = "ext-orders"
_UNFILTERED: Final = "ext-unfiltered"
_FILTERS: Final = {
    "ext-rich": "amount IS NOT NULL AND amount > 700",
    "ext-region": "region = 'r1' OR region = 'r3'",
    "ext-tags": "TAGS IN ('TagA', 'TagB')",
}
_HEARTBEAT_SECONDS: Final = 3


def play(stage: Stage) -> None:
    """Send before any filter is known, with three filters, and with one of them gone."""
    stage.broker.create_topic(_TOPIC, 2)
    stage.broker.create_topic(_UNFILTERED, 1)
    _send(stage, 0, 40)
    with ExitStack() as filtered:
        for group, expression in _FILTERS.items():
            filtered.enter_context(
                PushConsumer(stage.broker, group, _TOPIC, expression=expression, sql=True)
            )
        time.sleep(_HEARTBEAT_SECONDS)  # a filter is registered by a heartbeat
        _send(stage, 40, 320)
        stage.broker.wait_dispatched()
    time.sleep(_HEARTBEAT_SECONDS)
    _send(stage, 320, 360)
    stage.broker.wait_dispatched()


def _send(stage: Stage, start: int, end: int) -> None:
    with Producer(stage.broker, "ext-producer") as producer:
        for number in range(start, end):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
            if number % 8 == 0:
                stage.record(producer.send(order(_UNFILTERED, number), 0))


SCENARIO: Final = Scenario(
    name="ext",
    summary="consume queue extension with bitmaps of SQL92 filters, several files",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "enableConsumeQueueExt": True,
        "enableCalcFilterBitMap": True,
        "enablePropertyFilter": True,
        "mappedFileSizeConsumeQueueExt": 3000,
    },
)
