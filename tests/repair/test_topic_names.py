"""A damaged topic is put back where queue or index prove it, and never by its likeness."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rmqtool import repair
from rmqtool.repair.log.commitlog import BRIDGED
from tests import inflict, plain_store
from tests.repair.harms import flipped_in_queue, index_zeroed, queue_gone
from tests.repair.repaired import Broken
from tests.stores import broker_conf, fixture_store

ORDERS: Final = ("traffic-orders", 1)
QUEUE: Final = "consumequeue/traffic-orders/1"
FIXTURE: Final = "rocketmq-4.9.3-traffic"
WHICH: Final = 3


def test_nothing_tells(tmp_path: Path) -> None:
    """Without queue and index a bridge takes the record's place, however like a name it is."""
    root = fixture_store(FIXTURE, tmp_path)
    flipped_in_queue(ORDERS, WHICH, "topic", 7)(root)
    queue_gone(QUEUE)(root)
    for file in plain_store.index_files(root):
        file.path.unlink()
    plan = Broken(root, str(broker_conf(FIXTURE))).plan()
    edits = [edit.reason for edit in plan.edits if edit.path.startswith("commitlog/")]
    assert [BRIDGED] == edits


def test_own_name(tmp_path: Path) -> None:
    """A name that brokers refuse stays where a queue of it has the record: a plugin stored it."""
    root = fixture_store(FIXTURE, tmp_path)
    records = [record for record in plain_store.records(root) if record.topic == ORDERS[0]]
    record = [record for record in records if record.integer("queue_id") == ORDERS[1]][WHICH]
    place = record.position + record.places()["topic"][0]
    inflict.write_at(record.path, place, b"traffic-order#")
    unit = inflict.read_at(root / QUEUE / f"{0:020}", WHICH * 20, 20)
    own = root / "consumequeue" / "traffic-order#" / "1"
    own.mkdir(parents=True)
    (own / f"{0:020}").write_bytes((bytes(WHICH * 20) + unit).ljust(2000, b"\0"))
    plan = Broken(root, str(broker_conf(FIXTURE))).plan()
    assert [] == [edit for edit in plan.edits if edit.path.startswith("commitlog/")]


def test_index_in_part(tmp_path: Path) -> None:
    """An index that lacks the record tells nothing of it; the queue does."""
    root = fixture_store(FIXTURE, tmp_path)
    sound = [path.read_bytes() for path in plain_store.segments(root)]
    flipped_in_queue(ORDERS, WHICH, "topic", 7)(root)
    index_zeroed(root)
    repair.apply(Broken(root, str(broker_conf(FIXTURE))).plan(), in_place=True)
    assert sound == [path.read_bytes() for path in plain_store.segments(root)]
