"""Selective double write: RocksDB has the queues of lite topics, and their light queues, alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rmqtool import rebuild, repair
from rmqtool.broker.names import LMQ_PREFIX, lite_parent
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.derive.placement import QueuePlacement
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import rocksdb
from tests.stores import broker_conf, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "rocketmq-5.5.0-rocksdb-combined"
SELECTIVE: Final = "\nrocksdbCQSelectiveDoubleWriteEnable=true\n"
QUEUES: Final = "consumequeue"


def selective(tmp_path: Path, lite: frozenset[str] = frozenset()) -> tuple[Path, Path]:
    """Give a store that switched selective double write on, and its broker.conf."""
    root = fixture_store(NAME, tmp_path)
    conf = tmp_path / "broker.conf"
    conf.write_text(broker_conf(NAME).read_text() + SELECTIVE)
    path = root / "config" / "topics.json"
    document = json.loads(path.read_text())
    for topic in lite:
        document["topicConfigTable"][topic]["attributes"] = {"message.type": "LITE"}
    path.write_text(json.dumps(document))
    return root, conf


def without(root: Path, light: bool) -> dict[str, int]:
    """Delete light queues of RocksDB, or those of other topics; give units by topic."""
    directory, lost = root / QUEUES, dict[str, int]()
    rows = rocksdb.rows_of(directory, QUEUES)
    for family, pairs in rows.items():
        keys = [
            key for key, _ in pairs if (LMQ_PREFIX.raw in key) is light and b"CHECKPOINT" not in key
        ]
        rocksdb.edit(directory, family, delete=tuple(keys))
        if family == "default":
            lost["units"] = len(keys)
    return lost


def found(root: Path, conf: Path) -> dict[str, list[str]]:
    """Give what validation finds of queues in RocksDB, by code."""
    codes: dict[str, list[str]] = {}
    for finding in validate(ValidateOptions(root, broker_conf=str(conf), jobs=1)):
        if finding.code.name.startswith("RQ-"):
            codes.setdefault(finding.code.name, []).append(finding.message)
    return codes


def test_placement() -> None:
    """A lite topic and its light queues are in RocksDB; other light queues may be nowhere."""
    where = QueuePlacement(True, frozenset({"parent"}))
    assert where.in_rocksdb("parent")
    assert where.in_rocksdb("%LMQ%$parent$child")
    assert not where.in_rocksdb("plain")
    assert where.in_files("plain")
    assert where.nowhere("%LMQ%other")
    assert not where.nowhere("%LMQ%$parent$child")
    assert not QueuePlacement(True).nowhere("%LMQ%other")


def test_others_need_no_queue(tmp_path: Path) -> None:
    """Queues of topics that are not lite need not be in RocksDB: no finding, edit or rebuild."""
    root, conf = selective(tmp_path)
    without(root, light=False)
    assert found(root, conf) == {}
    plan = repair.plan(root, broker_conf=str(conf))
    assert not [edit for edit in plan.edits if edit.path == QUEUES]
    assert rebuild.consume_queues(root, check=True, broker_conf=str(conf), jobs=1).differences == []


def test_light_queues_in_neither_store(tmp_path: Path) -> None:
    """Light queues of topics that are not lite are in neither store, and both commands say so."""
    root, conf = selective(tmp_path)
    units = without(root, light=True)["units"]
    codes = found(root, conf)
    assert list(codes) == ["RQ-LIGHT"]
    assert len(codes["RQ-LIGHT"]) > 1
    light = predict(open_store(root, conf), "5.5.1").light
    assert (light.messages, len(light.topics)) == (units, len(codes["RQ-LIGHT"]))


def test_lite_topics_are_compared(tmp_path: Path) -> None:
    """What is missing of a lite topic's light queues is missing."""
    root, conf = selective(tmp_path)
    names = [path.name for path in (root / QUEUES).iterdir() if path.is_dir()]
    rows = rocksdb.rows_of(root / QUEUES, QUEUES)["default"]
    parents = {lite_parent(name) for name in names} | {
        key.split(b"%LMQ%$")[1].split(b"$")[0].decode() for key, _ in rows if b"%LMQ%$" in key
    }
    (tmp_path / "again").mkdir()
    root, conf = selective(tmp_path / "again", frozenset(parents - {""}))
    without(root, light=True)
    assert "RQ-RANGE" in found(root, conf)
