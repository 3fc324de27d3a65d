"""A topic that is read from `compaction/` alone, in a new log: real brokers give its messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from rmqtool.relog.options import LogOptions
from rmqtool.relog.work import LogRun
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import running_broker
from tests.broker.client import wait_until
from tests.broker.consumer import PullConsumer
from tests.broker.jars import missing_tools
from tests.plain_store import records
from tests.stores import broker_conf, fixture_store, manifest

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
TOPIC: Final = "compaction-orders"


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_handed_over(version: str, tmp_path: Path) -> None:
    """The first start gives every message of the new log to the compaction log."""
    name = f"rocketmq-{version}-compaction"
    source = fixture_store(name, tmp_path)
    (tmp_path / "home").mkdir()
    output = tmp_path / "home" / "store"
    result = LogRun(
        LogOptions((str(source),), str(output), broker_conf=str(broker_conf(name)))
    ).run()
    assert {"CC-BEHIND"} == {str(defect.code) for defect in result.defects}
    expected = {
        (record.integer("queue_id"), record.integer("queue_offset")): record.bytes_of("body")
        for record in records(output)
        if record.topic == TOPIC
    }
    assert len(expected) == 400
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    with (
        running_broker(version, tmp_path / "home", settings) as broker,
        PullConsumer(broker, "handed-over") as consumer,
    ):

        def given() -> dict[tuple[int, int], bytes]:
            return {
                (number, one.queue_offset): one.body
                for number in (0, 1)
                for one in consumer.read(TOPIC, number)
            }

        wait_until(lambda: given() == expected, "the messages of the compaction topic", 60)
        broker.crash()
