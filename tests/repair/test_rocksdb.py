"""Repair of stores with queues in RocksDB says what it does not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import repair
from tests import inflict
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path


def test_bridge(tmp_path: Path) -> None:
    """A bridge is not said to be delivered to nobody while a unit in RocksDB points there."""
    store = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    inflict.flip_field("body")(store)
    (edit,) = repair.plan(store).edits
    assert "bridge" in edit.reason
    assert "nobody" not in edit.reason
    assert "RocksDB" in edit.reason
