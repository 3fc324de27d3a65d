"""A store whose first files the broker deleted, for their time had passed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.client import wait_until
from tests.broker.consumer import PullConsumer
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import Scenario, Stage, order

_TOPIC: Final = "expired-orders"
_IDLE: Final = "expired-idle"
_AGED: Final = 3
_OLD_SECONDS: Final = 3 * 3600
_EXPIRY_SECONDS: Final = 180


def play(stage: Stage) -> None:
    """Send, age the first segments, and wait until the broker has cleaned up after itself."""
    stage.broker.create_topic(_TOPIC, 4)
    stage.broker.create_topic(_IDLE, 1)
    with Producer(stage.broker, "expired-producer") as producer:
        for number in range(1200):
            if number < 30:
                stage.record(producer.send(order(_IDLE, number), 0))
            stage.record(producer.send(order(_TOPIC, number), number % 4))
    with PullConsumer(stage.broker, "expired-reader") as reader:
        reader.commit(_TOPIC, 0, 5)  # before the first message that is left
        reader.commit(_TOPIC, 1, 200)
    stage.broker.wait_dispatched()
    root = stage.broker.jvm.home / "store"
    queues = _files(root / "consumequeue" / _TOPIC)
    index = _files(root / "index")
    aged = _files(root / "commitlog")[:_AGED]
    old = time.time() - _OLD_SECONDS
    for segment in aged:
        os.utime(segment, (old, old))
    first = (aged[0], queues[0], index[0])
    wait_until(lambda: not any(path.exists() for path in first), "expiry", _EXPIRY_SECONDS)
    time.sleep(2)  # the other queues follow the first one


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


SCENARIO: Final = Scenario(
    name="expired",
    summary="first segments, queue files and index files expired and deleted by the broker",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "mappedFileSizeCommitLog": 65536,
        "maxMessageSize": 16384,
        "mappedFileSizeConsumeQueue": 1000,
        "maxHashSlotNum": 100,
        "maxIndexNum": 400,
        "fileReservedTime": 1,
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
        "cleanResourceInterval": 1000,
    },
)
