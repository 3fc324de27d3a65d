"""Metadata in RocksDB has the shape of the JSON files, whatever version it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats import config_shapes
from rmqtool.store.tree import open_store
from tests.damage_rocksdb import CLEAN
from tests.rocksdb import state_of
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = "metadata-orders"
OFFSETS = {("metadata-slow", 0): 3, ("metadata-slow", 1): 9, ("metadata-reader", 0): 40}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("rocketmq-5.5.0-rocksdb-single", "config/metadata"),
        ("rocketmq-5.3.3-rocksdb-v2", "config/rdb"),
        ("rocketmq-5.5.0-rocksdb-v2", "config/rdb"),
    ],
)
def test_documents(name: str, path: str, tmp_path: Path) -> None:
    """Topics, groups and offsets are those that were made, and nothing changes."""
    root = fixture_store(name, tmp_path)
    before = state_of(root)
    store = open_store(root)
    topics, groups, offsets = (
        store.config(f"{topic}.json") for topic in ("topics", "subscriptionGroup", "consumerOffset")
    )
    assert {path} == {topics.path, groups.path, offsets.path}
    found = {topic.topic: topic for topic in config_shapes.topics(topics.document)}
    assert 2 == found[ORDERS].read_queue_nums
    assert "metadata-by-admin" in {
        topic.group for topic in config_shapes.subscription_groups(groups.document)
    }
    committed = {
        (topic.group, topic.queue_id): topic.queue_offset
        for topic in config_shapes.consumer_offsets(offsets.document)
        if topic.topic == ORDERS
    }
    expected = {place: committed[place] for place in OFFSETS}
    assert OFFSETS["metadata-slow", 1] == expected["metadata-slow", 1]
    assert OFFSETS["metadata-reader", 0] == expected["metadata-reader", 0]
    assert (config_shapes.data_version(topics.document).counter or 0) > 0
    assert before == state_of(root)


def test_separate_databases(tmp_path: Path) -> None:
    """Databases of their own: those that have rows."""
    store = open_store(fixture_store("rocketmq-5.3.3-rocksdb-crash", tmp_path))
    topics = store.config("topics.json")
    assert "config/topics" == topics.path
    assert "rocksdb-orders" in {topic.topic for topic in config_shapes.topics(topics.document)}
    offsets = config_shapes.consumer_offsets(store.config("consumerOffset.json").document)
    assert {("rocksdb-reader", number, 10 + number) for number in range(4)} <= {
        (offset.group, offset.queue_id, offset.queue_offset) for offset in offsets
    }


def test_merge(tmp_path: Path) -> None:
    """A JSON file with a higher counter is merged, one with a lower is not."""
    root = fixture_store(CLEAN, tmp_path)
    for counter, queues in ((0, 2), (99, 7)):
        table = {"rocksdb-orders": {"readQueueNums": 7}, "new": {"readQueueNums": 1}}
        document = {"dataVersion": {"counter": counter}, "topicConfigTable": table}
        (root / "config" / "topics.json").write_text(json.dumps(document), encoding="utf-8")
        topics = {
            topic.topic: topic.read_queue_nums
            for topic in config_shapes.topics(open_store(root).config("topics.json").document)
        }
        assert queues == topics["rocksdb-orders"]
        assert ("new" in topics) == (counter == 99)
        assert len(topics) > 10


def test_damage(tmp_path: Path) -> None:
    """What cannot be read whole is no document, and says why."""
    root = fixture_store(CLEAN, tmp_path)
    (root / "config" / "topics" / "CURRENT").write_bytes(b"MANIFEST-000099\n")
    document = open_store(root).config("topics.json")
    assert not document
    assert "config/topics" in document.problems[0]
