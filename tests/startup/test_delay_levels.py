"""Delayed messages of levels that broker.conf no longer has: no broker delivers them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from rmqtool.startup.report import verdict
from tests import plain_store
from tests.broker.jars import VERSIONS
from tests.startup.oracle import Oracle
from tests.startup.test_absent import SCENARIO, SCHEDULE, predicted
from tests.startup.test_metadata import broker_settings
from tests.startup.test_whole_broker import controller
from tests.stores import fixture_store

LEVEL: Final = re.compile(r'"?(\d+)"?:(\d+)')  # fastjson writes numbers as keys
FIVE: Final = "1s 5s 10s 30s 1m"
ALL: Final = f"{FIVE} 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def waiting(root: Path) -> dict[int, int]:
    """Count the delayed messages of each level that were not delivered, by the files."""
    text = (root / "config" / "delayOffset.json").read_text().partition("offsetTable")[2]
    offsets = {int(level): int(end) for level, end in LEVEL.findall(text)}
    ends: dict[int, int] = {}
    for record in plain_store.records(root):
        if record.topic == SCHEDULE:
            level = record.integer("queue_id") + 1
            ends[level] = max(ends.get(level, 0), record.integer("queue_offset") + 1)
    found = {level: end - offsets.get(level, 0) for level, end in ends.items()}
    return {level: count for level, count in found.items() if count > 0}


@pytest.mark.broker
@pytest.mark.parametrize("levels", [FIVE, ALL], ids=["five levels", "all levels"])
def test_levels(oracle: Oracle, levels: str, tmp_path: Path) -> None:
    """What waits in a level that a real broker does not have is counted, and nothing else."""
    if oracle.jvm.version not in VERSIONS:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{oracle.jvm.version}-{SCENARIO}"
    root = fixture_store(name, tmp_path)
    settings = {**broker_settings(name, root), "messageDelayLevel": levels}
    with root.with_name("broker.conf").open("a", encoding="utf-8") as file:
        file.write(f"\nmessageDelayLevel={levels}\n")
    expected = waiting(root)
    assert max(expected) > len(FIVE.split())
    prediction = predicted(root, oracle.jvm.version)
    broker = controller(oracle, settings)
    assert broker is not None
    owner = broker if oracle.jvm.is_five else broker.getMessageStore()
    delays = owner.getScheduleMessageService()
    field = delays.getClass().getDeclaredField("delayLevelTable")
    field.setAccessible(True)
    known = {int(level) for level in field.get(delays).keySet()}
    count = sum(number for level, number in expected.items() if level not in known)
    steps = {step.step: step.count for step in prediction.later_steps}
    assert (count or None) == steps.get("undelivered")
    assert ("never delivered" in verdict(prediction)) is bool(count)
    assert prediction.is_whole is not bool(count)
