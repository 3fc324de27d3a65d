"""What a start forgets, or does twice, where `rocksdbstore` says less than the log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.stores import broker_conf, fixture_store, sent

if TYPE_CHECKING:
    from pathlib import Path

NAME = "rocketmq-5.5.0-rocksdb-store"


def test_untouched(tmp_path: Path) -> None:
    """A sound store forgets nothing and repeats nothing."""
    found = predict(open_store(fixture_store(NAME, tmp_path), broker_conf(NAME)))
    assert found.is_whole
    assert () == found.further


def test_clean_stop(tmp_path: Path) -> None:
    """Without the database, halves are forgotten, and what the timer delivered comes again."""
    root = fixture_store(NAME, tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    found = predict(open_store(root, broker_conf(NAME)))
    halves = sum(line["kind"] == "half" for line in sent(NAME))
    decided = sum(q.maximum for q in found.queues if "OP_HALF" in q.topic)
    counts = {one.step: one.count for one in found.further}
    assert halves - decided == counts["forget"]
    assert 0 < counts["repeat"] < sum(line["kind"] == "timer" for line in sent(NAME))
    assert not found.is_whole


def test_crash(tmp_path: Path) -> None:
    """Recovery after a crash hands half messages over once more; timers come again all the same."""
    root = fixture_store(NAME, tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    (root / "abort").touch()
    found = predict(open_store(root, broker_conf(NAME)))
    assert ["repeat"] == [one.step for one in found.further]
