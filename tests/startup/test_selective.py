"""A real 5.5.1 with selective double write keeps light queues where it is predicted to."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.broker.broker import conf_text
from tests.startup.rocks_oracle import observe
from tests.startup.small_store import SETTINGS, Outline, write_small_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.startup.oracle import Oracle

pytestmark = pytest.mark.broker

RELEASE: Final = "5.5.1"
SELECTIVE: Final[dict[str, object]] = {
    **SETTINGS,
    "enableLmq": True,
    "enableMultiDispatch": True,
    "rocksdbCQDoubleWriteEnable": True,
    "combineCQUseRocksdbForLmq": True,
    "rocksdbCQSelectiveDoubleWriteEnable": True,
}
LITE, PLAIN, COUNT = "parent", "plain", 40
CHILD, OTHER = "%LMQ%$parent$child", "%LMQ%other"


def messages() -> list[Outline]:
    """Give messages of a lite topic and of another one, each with a light queue."""
    found = []
    for number in range(COUNT):
        topic, light = ((LITE, CHILD), (PLAIN, OTHER))[number % 2]
        properties = {"UNIQ_KEY": f"7F000001{number:024X}", "INNER_MULTI_DISPATCH": light}
        found.append(Outline(topic, 0, b"selective", properties))
    return found


def test_light_queues(oracle: Oracle, tmp_path: Path) -> None:
    """Light queues of a lite topic are delivered; those of another topic are in neither store."""
    if oracle.jvm.version != RELEASE:
        pytest.skip(f"{RELEASE} brought rocksdbCQSelectiveDoubleWriteEnable")
    config = tmp_path / "clean" / "config"
    config.mkdir(parents=True)
    attributes = {LITE: {"message.type": "LITE"}, PLAIN: {}}
    table = {name: {"topicName": name, "attributes": one} for name, one in attributes.items()}
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    root = write_small_store(oracle.jvm, tmp_path, messages(), SELECTIVE)["clean"]
    conf = tmp_path / "broker.conf"
    conf.write_text(conf_text(SELECTIVE))
    options = ValidateOptions(root, broker_conf=str(conf), jobs=1)
    found = {finding.code.name: finding.expected for finding in validate(options)}
    half = COUNT // 2
    assert {name: value for name, value in found.items() if name.startswith("RQ-")} == {
        "RQ-LIGHT": str(half)
    }
    prediction = predict(open_store(root, conf), RELEASE)
    assert [(topic.topic, topic.messages) for topic in prediction.light.topics] == [(OTHER, half)]
    opened = tmp_path / "opened"
    shutil.copytree(root, opened)
    keys = [(LITE, 0), (PLAIN, 0), (CHILD, 0), (OTHER, 0)]
    seen = observe(oracle.jvm, opened, SELECTIVE, keys)
    assert {key: delivered for key, (*_, delivered) in seen.queues.items()} == {
        (LITE, 0): half, (PLAIN, 0): half, (CHILD, 0): half, (OTHER, 0): 0
    }  # fmt: skip
