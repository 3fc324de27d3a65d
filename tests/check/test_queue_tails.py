"""Queues that end before the log does, in the store of a broker that was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.stores import broker_conf, fixture_store

UNIT = plain_store.UNIT.size


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
@pytest.mark.parametrize(("kept", "is_lost"), [(2, True), (-2, False)])
def test_zeroed_from(version: str, kept: int, is_lost: bool, tmp_path: Path) -> None:
    """Units that no recovery writes again are damage: the next ones would take their places."""
    name = f"rocketmq-{version}-traffic"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "traffic-orders" / "1"
    count = len(plain_store.units(queue))
    for path in plain_store.numbered(queue):
        begin = max((kept % count) * UNIT - int(path.name), 0)
        inflict.write_at(path, begin, bytes(max(path.stat().st_size - begin, 0)))
    (root / "abort").touch()
    conf = str(broker_conf(name))
    found = validate(ValidateOptions(root, broker_conf=conf, level=CheckLevel.FULL))
    said = {(one.code, one.severity) for one in found if one.code.startswith("CQ")}
    fates = predict(open_store(root, conf), version).queues
    assert is_lost is any(one.units_shifted for one in fates)
    assert {("CQ-GAP", Severity.DAMAGE) if is_lost else ("CQ-LAG", Severity.NOTE)} == said


def test_wanted_past_the_end(tmp_path: Path) -> None:
    """Noise in mid-queue is no queue that is ahead of the log: its records are there."""
    name = "rocketmq-5.3.3-ipv6"
    root = fixture_store(name, tmp_path)
    path = plain_store.numbered(root / "consumequeue" / "ipv6-orders" / "0")[0]
    inflict.write_at(path, 28 * UNIT, plain_store.UNIT.pack(1 << 46, 320, 7))
    (root / "abort").touch()
    options = ValidateOptions(root, broker_conf=str(broker_conf(name)), level=CheckLevel.FULL)
    said = {(one.code, one.severity) for one in validate(options) if one.code.startswith("CQ")}
    assert {("CQ-RANGE", Severity.DAMAGE)} == said
