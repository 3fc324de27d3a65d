"""A topic of `cleanup.policy=COMPACTION`, before and after its log was compacted."""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.client import wait_until
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.broker.scenarios.stage import FIVE, FIVE_ALSO_LATEST, Scenario, Stage, order, text

_TOPIC: Final = "compaction-orders"
_KEYS: Final = 40
_COUNT: Final = 400


def play(stage: Stage) -> None:
    """Send some messages for each of a few keys, one key of two words."""
    stage.broker.create_topic(_TOPIC, 2, {"cleanup.policy": "COMPACTION"})
    stage.broker.create_topic("compaction-not", 1)
    with Producer(stage.broker, "compaction-producer") as producer:
        for number in range(_COUNT):
            keys = ("two", "keys") if number % 37 == 0 else (f"K-{number % _KEYS}",)
            outgoing = Outgoing(_TOPIC, text(f"value {number}", 80), "latest", keys)
            stage.record(producer.send(outgoing, number % 2))
            if number % 10 == 0:
                stage.record(producer.send(order("compaction-not", number), 0))
    stage.broker.wait_dispatched()
    time.sleep(3)  # its own thread copies the records


def run(stage: Stage) -> None:
    """The same, and wait until the log of both queues was rewritten."""
    play(stage)
    root = stage.broker.jvm.home / "store" / "compaction"
    log = root / "compactionLog" / _TOPIC
    wait_until(
        lambda: (
            (root / "position-checkpoint").exists()
            and all(len(list((log / name).glob("0*"))) == 2 for name in ("0", "1"))
        ),
        "compaction",
        60,
    )
    time.sleep(2)


_SETTINGS: Final = {
    **SMALL_GEOMETRY,
    "compactionMappedFileSize": 20000,
    "compactionCqMappedFileSize": 1840,
    "compactionThreadNum": 1,
}
SCENARIOS: Final = (
    Scenario(
        name="compaction",
        summary="a topic that keeps the newest message of each key: log and queue, not compacted",
        play=play,
        settings=_SETTINGS,
        versions=FIVE_ALSO_LATEST,
    ),
    Scenario(
        name="compaction-run",
        summary="the same after a run of the compaction",
        play=run,
        settings={**_SETTINGS, "compactionScheduleInternal": 10000},
        versions=FIVE,
    ),
)
