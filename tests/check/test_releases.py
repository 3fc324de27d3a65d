"""What is damage for one release only: records that the broker to be started does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.stores import broker_conf, fixture_store

FIXTURE = "rocketmq-5.3.3-traffic"  # it has a group with a name that is longer than 127 bytes
OLDER = ("4.9.3", "5.0.0")


def _found(root: Path, version: str | None) -> list[tuple[str, int | None]]:
    options = ValidateOptions(
        root,
        broker_conf=str(broker_conf(FIXTURE)),
        broker_version=version,
        level=CheckLevel.FULL,
    )
    return [
        (str(finding.code), finding.physical_offset)
        for finding in validate(options)
        if finding.severity is not Severity.NOTE
    ]


@pytest.mark.parametrize("version", [*OLDER, "5.1.0", "5.5.0", None])
def test_version_2(version: str | None, tmp_path: Path) -> None:
    """Each record of version 2 is named where the broker that is to run cuts the log there."""
    root = fixture_store(FIXTURE, tmp_path)
    places = [
        record.physical_offset
        for record in plain_store.records(root)
        if record.raw[4:8] == b"\xda\xa3\x20\xab"
    ]
    assert places
    wanted = [("CL-VERSION", place) for place in places] if version in OLDER else []
    assert wanted == _found(root, version)
    prediction = predict(open_store(root, str(broker_conf(FIXTURE))), version)
    assert prediction.is_whole == (not wanted)


def test_left(tmp_path: Path) -> None:
    """A repair cannot change that, and its plan says so."""
    root = fixture_store(FIXTURE, tmp_path)
    plan = repair.plan(root, broker_version="4.9.3", broker_conf=str(broker_conf(FIXTURE)))
    assert ([], {"CL-VERSION"}) == (plan.edits, {str(one.code) for one in plan.left})
