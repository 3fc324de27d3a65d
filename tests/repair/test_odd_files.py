"""Files that no broker loads: a byte too long, or under a number that cannot be theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-traffic"


def _repair(store: Path) -> None:
    """Repair a store that a broker refuses; nothing stays, and a second plan is empty."""
    conf = broker_conf(NAME)
    assert not predict(open_store(store, conf), "5.3.3").starts
    plan = repair.plan(store, broker_conf=str(conf))
    assert plan.edits
    assert not plan.left
    repair.apply(plan, in_place=True)
    assert not repair.plan(store, broker_conf=str(conf)).edits
    assert predict(open_store(store, conf), "5.3.3").is_whole


def test_byte_appended(tmp_path: Path) -> None:
    """A byte more than a broker made of the last commitlog file is cut off."""
    store = fixture_store(NAME, tmp_path)
    path = plain_store.segments(store)[-1]
    before = path.read_bytes()
    path.write_bytes(before + b"\x01")
    _repair(store)
    assert before == path.read_bytes()


@pytest.mark.parametrize("number", [1, 10, 20])
def test_queue_under_a_wrong_number(number: int, tmp_path: Path) -> None:
    """A queue file whose number is no multiple of its length is made anew where it belongs."""
    store = fixture_store(NAME, tmp_path)
    path = min(plain_store.queue_directories(store)[0].iterdir())
    before = path.read_bytes()
    path.rename(path.with_name(f"{int(path.name) + number:020}"))
    conf = broker_conf(NAME)
    plan = repair.plan(store, broker_conf=str(conf))
    repair.apply(plan, in_place=True)
    assert before == path.read_bytes()
    assert not repair.plan(store, broker_conf=str(conf)).edits
    assert predict(open_store(store, conf), "5.3.3").is_whole
