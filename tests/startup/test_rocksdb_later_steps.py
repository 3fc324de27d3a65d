"""What a start forgets, or does twice, where `rocksdbstore` says less than the log."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

import rmqtool
from rmqtool import repair
from rmqtool.formats.rocksdb_queue import unit_key
from rmqtool.formats.rocksdb_store import HALF_OFFSET, INDEX_OFFSET, LAST_OFFSET, LAST_TIME
from rmqtool.startup import predict
from rmqtool.startup.pull import MESSAGES_OF_A_PULL
from rmqtool.startup.report import steps
from rmqtool.store.tree import open_store
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import running_broker
from tests.rocksdb import edit, rows_of
from tests.stores import broker_conf, fixture_store, manifest, sent

if TYPE_CHECKING:
    from pathlib import Path

NAME = "rocketmq-5.5.0-rocksdb-store"
MOST_SECONDS: Final = 600  # on a busy machine
MARKS: Final = frozenset({LAST_OFFSET, LAST_TIME})


class Without(NamedTuple):
    """A store without the database, after a clean stop.

    Attributes:
        is_repaired: whether it was repaired before the start.
        in_sample: whether a broker is started on it in each run.
    """

    is_repaired: bool
    in_sample: bool

    def __str__(self) -> str:
        return "repaired" if self.is_repaired else "clean"


def test_untouched(tmp_path: Path) -> None:
    """A sound store forgets nothing and repeats nothing."""
    prediction = predict(open_store(fixture_store(NAME, tmp_path), broker_conf(NAME)))
    assert prediction.is_whole
    assert () == prediction.later_steps


@pytest.mark.parametrize(("version", "before_hole"), [("5.3.3", 40), ("5.5.0", MESSAGES_OF_A_PULL)])
def test_read_in_pulls(version: str, before_hole: int, tmp_path: Path) -> None:
    """A consumer gets all of a queue, or what lies before its hole; 5.5.0 in whole pulls alone."""
    name = f"rocketmq-{version}-rocksdb"
    root = fixture_store(name, tmp_path)

    def readable() -> list[int]:
        queues = predict(open_store(root, broker_conf(name))).queues
        return [queue.readable for queue in queues if queue.topic == "rocksdb-orders"]

    assert [60, 60] == readable()
    edit(root / "consumequeue", delete=(unit_key(b"rocksdb-orders", 0, 40),))
    assert [before_hole, 60] == readable()


def test_clean_stop(tmp_path: Path) -> None:
    """Without the database, halves are forgotten, and what the timer delivered comes again."""
    root = fixture_store(NAME, tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    prediction = predict(open_store(root, broker_conf(NAME)))
    halves = sum(line["kind"] == "half" for line in sent(NAME))
    decided = sum(q.maximum for q in prediction.queues if "OP_HALF" in q.topic)
    counts = {step.step: step.count for step in prediction.later_steps}
    assert halves - decided == counts["forget"]
    assert 0 < counts["repeat"] < sum(line["kind"] == "timer" for line in sent(NAME))
    assert counts["unindexed"] > sum(line["kind"] == "normal" for line in sent(NAME))
    assert not prediction.is_whole


def test_crash(tmp_path: Path) -> None:
    """Recovery after a crash hands half messages over once more; timers come again all the same."""
    root = fixture_store(NAME, tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    (root / "abort").touch()
    prediction = predict(open_store(root, broker_conf(NAME)))
    assert ["repeat"] == [step.step for step in prediction.later_steps]
    said = [(row["step"], row["path"], row["count"], row["message"]) for row in steps(prediction)]
    (step,) = prediction.later_steps
    assert (step.step, step.path, step.count, step.message) in said


def test_repaired(tmp_path: Path) -> None:
    """After a repair the next start hands all over: no half is forgotten, no key left out."""
    root, conf = fixture_store(NAME, tmp_path), broker_conf(NAME)
    shutil.rmtree(root / "rocksdbstore")
    plan = repair.plan(root, broker_conf=str(conf))
    assert [("remove", "checkpoint"), ("create", "abort")] == [
        (e.action, e.path) for e in plan.edits
    ]
    assert ["RT-SCAN"] == [step.code for step in plan.left]
    repair.apply(plan, in_place=True)
    prediction = predict(open_store(root, conf))
    assert (["repeat"], False) == ([step.step for step in prediction.later_steps], prediction.loses)


@pytest.mark.broker
@pytest.mark.parametrize("variant", [Without(False, True), Without(True, False)], ids=str)
def test_real_broker(variant: Without, tmp_path: Path) -> None:
    """A real broker repeats as many timers, forgets as many halves and indexes as predicted."""
    root = fixture_store(NAME, tmp_path)
    indexed = index_offsets(root)
    shutil.rmtree(root / "rocksdbstore")
    if variant.is_repaired:
        repair.apply(repair.plan(root, broker_conf=str(broker_conf(NAME))), in_place=True)
    predicted = {
        step.step: step.count for step in predict(open_store(root, broker_conf(NAME))).later_steps
    }
    timers = {row["unique_key"] for row in sent(NAME) if row["kind"] == "timer"}
    halves = {row["physical_offset"] for row in sent(NAME) if row.get("outcome") == "undecided"}
    before = copies(root, timers)
    settings = {**manifest(NAME)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    with running_broker("5.5.0", tmp_path, settings) as broker:
        end = time.monotonic() + MOST_SECONDS
        while (copies(root, timers) - before).total() < len(timers) and time.monotonic() < end:
            time.sleep(1)  # all were due before today
        broker.wait_dispatched()
    again = copies(root, timers) - before
    assert predicted["repeat"] == sum(before[key] > 0 for key in again)
    rows = dict(rows_of(root / "rocksdbstore", "rocksdbstore").get("trans", []))
    rows.pop(LAST_OFFSET, None)
    known = {HALF_OFFSET["physical_offset"].of(key) for key in rows}
    assert predicted.get("forget", 0) == len(halves - known)
    assert predicted.get("unindexed", 0) == len(indexed - index_offsets(root))


def index_offsets(root: Path) -> set[int]:
    """Give the physical offsets of records that have entries in the index."""
    rows = rows_of(root / "rocksdbstore", "rocksdbstore").get("default", [])
    place = INDEX_OFFSET["physical_offset"]
    return {place.of(key, len(key) - place.size) for key, _ in rows if key not in MARKS}


def copies(root: Path, keys: set[str]) -> Counter[str]:
    """Count the delivered copies of timers in the log."""
    found = rmqtool.open_store(str(root)).rows(columns=("topic", "unique_key"))
    return Counter(
        row["unique_key"]
        for row in found
        if row["unique_key"] in keys and row["topic"] == "store-orders"
    )
