"""Configuration as a broker's JSON files; real brokers judge it in tests/broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.formats import config
from rmqtool.formats.rocksdb_config import CONSUMER_OFFSET
from rmqtool.tables.broker_json import write_broker_json
from tests.rocksdb import edit, state_of
from tests.rocksdb_keys import v2_offset_key
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

LIGHT = b"%LMQ%watch"


def test_version_2(tmp_path: Path) -> None:
    """Pull offsets and light queues are in the files; offsets stand in both of their files."""
    root = fixture_store("rocketmq-5.5.0-rocksdb-v2", tmp_path)
    key = v2_offset_key(CONSUMER_OFFSET, LIGHT, LIGHT, 0)
    edit(root / "config" / "rdb", put={key: (41).to_bytes(8, "big")})
    before = state_of(root)
    done = write_broker_json(str(root), None, str(tmp_path / "new"))
    assert before == state_of(root)
    assert [] == done.unread
    assert {row["file"] for row in done.rows} == {
        path.name for path in (tmp_path / "new").iterdir()
    }
    offsets, light = (
        json.loads((tmp_path / "new" / name).read_bytes())
        for name in ("consumerOffset.json", "lmqConsumerOffset.json")
    )
    assert offsets == {name: light[name] for name in offsets}
    assert {"%LMQ%watch@%LMQ%watch": 41} == light["lmqOffsetTable"]
    assert {"1": 8} == offsets["pullOffsetTable"]["metadata-orders@metadata-slow"]


def test_json_store(tmp_path: Path) -> None:
    """Of a store with JSON metadata it is what the files say."""
    root = fixture_store("rocketmq-5.5.0-crash", tmp_path)
    write_broker_json(str(root), None, str(tmp_path / "new"))
    found = {path.name: json.loads(path.read_bytes()) for path in (tmp_path / "new").iterdir()}
    assert {"topics.json", "subscriptionGroup.json", "consumerOffset.json"} <= found.keys()
    for name, document in found.items():
        assert config.parse((root / "config" / name).read_bytes()) == document


def test_damaged(tmp_path: Path) -> None:
    """A database that cannot be read whole gives no file, and that is said."""
    root = fixture_store("rocketmq-5.5.0-rocksdb-single", tmp_path)
    for table in (root / "config" / "metadata").glob("*.sst"):
        table.write_bytes(table.read_bytes()[:100])
    done = write_broker_json(str(root), None, str(tmp_path / "new"))
    assert not (tmp_path / "new" / "topics.json").exists()
    assert any("config/metadata" in reason for reason in done.unread)


def test_refused(tmp_path: Path) -> None:
    """One file is no store; and nothing is written where nothing can be read."""
    root = fixture_store("rocketmq-5.5.0-rocksdb-v2", tmp_path)
    with pytest.raises(UsageError):
        write_broker_json(str(root / "checkpoint"), None, str(tmp_path / "new"))
    for path in (root / "config").glob("*.json*"):
        path.unlink()
    (root / "config" / "rdb" / "CURRENT").write_text("MANIFEST-000099\n", encoding="utf-8")
    with pytest.raises(UnreadablePath):
        write_broker_json(str(root), None, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
