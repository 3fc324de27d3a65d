"""Topics that no directory can be made for: from their first record on no queue is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.queues.orphans import REFUSE
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from tests import inflict, plain_store
from tests.plain_store import Record
from tests.startup.test_against_stores import ALWAYS, predicted
from tests.stores import broker_conf, fixture_store, manifest

DASH = len("traffic")


def _with_comma(name: str, place: Path) -> Path:
    """Flip the dash in the topic of the newest such record: one bit makes it a comma."""
    root = fixture_store(name, place)
    newest = [
        record for record in plain_store.records(root) if record.topic.startswith("traffic-")
    ][-1]

    def is_newest(record: Record) -> bool:
        return record.physical_offset == newest.physical_offset

    inflict.flip_field("topic", byte=DASH, where=0, wanted=is_newest)(root)
    (root / "abort").touch()
    return root


def test_batch_topic_gone(tmp_path: Path) -> None:
    """A valid topics.json that has lost a batch topic: the plan says what the broker then does."""
    name = "rocketmq-5.5.0-batch-queue"
    root = fixture_store(name, tmp_path)
    for path in root.glob("config/topics.json*"):
        path.write_text("{}")
    plan = repair.plan(root, broker_conf=str(broker_conf(name)))
    said = {one.path: one.message for one in plan.left}
    assert said["batchconsumequeue/batch-queue"].endswith(REFUSE)
    assert predicted(root, "5.5.0", {**manifest(name)["settings"], **ALWAYS}).refusals


@pytest.mark.parametrize(("version", "is_split"), [("4.9.3", False), ("5.3.3", True)])
def test_comma(version: str, is_split: bool, tmp_path: Path) -> None:
    """Brokers from 4.9.4 on take such a name for two directories, and the file for its parent."""
    name = f"rocketmq-{version}-traffic"
    root = _with_comma(name, tmp_path)
    prediction = predicted(root, version, {**manifest(name)["settings"], **ALWAYS})
    assert is_split is (prediction.failed_topic is not None and "," in prediction.failed_topic)


def test_comma_is_damage(tmp_path: Path) -> None:
    """A validation says so, and after a repair queues are written again."""
    name = "rocketmq-5.3.3-traffic"
    root, conf = _with_comma(name, tmp_path), str(broker_conf(name))
    options = ValidateOptions(root, broker_conf=conf, level=CheckLevel.FULL)
    codes = {finding.code for finding in validate(options) if finding.severity is Severity.DAMAGE}
    assert "CL-TOPIC" in codes
    repair.apply(repair.plan(root, broker_conf=conf), in_place=True)
    prediction = predicted(root, "5.3.3", {**manifest(name)["settings"], **ALWAYS})
    assert prediction.failed_topic is None


@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_light_queue_that_cannot_be(version: str, tmp_path: Path) -> None:
    """Zeros in the name of a light queue: Java opens no such file; all other units are written."""
    name = f"rocketmq-{version}-lmq"
    root = fixture_store(name, tmp_path)
    (root / "abort").touch()
    shutil.rmtree(root / "consumequeue")
    settings = {**manifest(name)["settings"], **ALWAYS}
    before = {queue.topic for queue in predicted(root, version, settings).queues}
    lights = {topic for topic in before if topic.startswith("%LMQ%")}

    def zeroed(properties: bytes) -> bytes:
        place = properties.index(b"%LMQ%") + len(b"%LMQ%")
        return properties[:place] + b"\0\0" + properties[place + 2 :]

    def is_light(record: Record) -> bool:
        return "INNER_MULTI_DISPATCH" in record.properties

    inflict.replace_bytes("properties", zeroed, where=0, wanted=is_light)(root)
    prediction = predicted(root, version, settings)
    assert lights
    assert prediction.failed_topic is None
    assert before == {queue.topic for queue in prediction.queues if queue.readable}
