"""Waiting timers in a new log: a real broker delivers each of them once, and none again."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from rmqtool.relog.options import LogOptions, Positions, QueueOffsets
from rmqtool.relog.work import LogRun
from rmqtool.store.tree import open_store
from rmqtool.tables.pending import pending_timers
from tests.broker.broker import SMALL_GEOMETRY, running_broker
from tests.broker.client import wait_until
from tests.broker.consumer import PushConsumer
from tests.broker.jars import missing_tools
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.check.validation import run

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
TOPIC: Final = "timed"
COUNT: Final = 60
SOON: Final = 2  # seconds; every third timer is due then
LATE: Final = (15, 40, 120, 400)  # the others; later where the machine is too busy for it
SETTINGS: Final = {**SMALL_GEOMETRY, "timerWheelEnable": True, "timerRollWindowSlot": 20}


def store_with_timers(home: Path, version: str) -> set[bytes]:
    """Let a broker deliver some timers and keep others; give the bodies of those that wait."""
    for late in LATE:
        began = time.monotonic()
        waiting = _written(home, version, late)
        if time.monotonic() - began < late:
            return waiting
        shutil.rmtree(home / "store")
    pytest.fail("all timers are due before the broker has stopped")


def _written(home: Path, version: str, late: int) -> set[bytes]:
    with running_broker(version, home, SETTINGS) as broker:
        broker.create_topic(TOPIC, 2)
        with (
            Producer(broker, "timed-producer") as producer,
            PushConsumer(broker, "first", TOPIC) as consumer,
        ):
            for number in range(COUNT):
                seconds = late if number % 3 else SOON
                outgoing = Outgoing(
                    TOPIC, b"%d" % number, reserved={"TIMER_DELAY_SEC": str(seconds)}
                )
                producer.send(outgoing, number % 2, "timer")
            soon = {b"%d" % number for number in range(0, COUNT, 3)}
            wait_until(lambda: soon <= {one.body for one in consumer.wait(0)}, "timers due soon")
            early = {one.body for one in consumer.wait(0)}
        broker.wait_dispatched()
        broker.stop()
        broker.crash()
    return {b"%d" % number for number in range(COUNT)} - early


@pytest.mark.parametrize("version", ["5.3.3"])
def test_each_timer_once(version: str, tmp_path: Path) -> None:
    """Whatever the positions and queue offsets: what waited comes once, what came does not."""
    waiting = store_with_timers(tmp_path, version)
    assert len(waiting) > COUNT // 2
    source = tmp_path / "store"
    assert {finding["waits_in"] for finding in pending_timers(open_store(str(source)))}
    ways = [
        (positions, numbering)
        for positions in Positions
        for numbering in QueueOffsets
        if (positions, numbering) != (Positions.KEEP, QueueOffsets.KEEP)
    ]
    for positions, numbering in ways:
        home = tmp_path / f"{positions}-{numbering}"
        home.mkdir()
        LogRun(
            LogOptions(
                (str(source),),
                str(home / "store"),
                positions=positions,
                queue_offsets=numbering,
                broker_conf=str(tmp_path / "broker.conf"),
            )
        ).run()
        assert [] == [finding for finding in run(home / "store")[0] if finding.severity != "note"]
    for positions, numbering in ways:
        home = tmp_path / f"{positions}-{numbering}"
        with (
            running_broker(version, home, SETTINGS) as broker,
            PushConsumer(broker, "second", TOPIC) as consumer,
        ):
            wait_until(
                lambda: waiting <= {finding.body for finding in consumer.wait(0)},
                "all timers",
            )
            time.sleep(3)  # for those that would come again
            seen = Counter(finding.body for finding in consumer.wait(0))
            broker.crash()
        assert dict.fromkeys(waiting, 1) == {
            body: count for body, count in seen.items() if body in waiting
        }, (positions, numbering)
