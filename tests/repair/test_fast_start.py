"""A crashed store that is sound is spared its recovery, and only such a one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict
from tests.stores import fixture_store

Crash = Callable[[Path], Path]
NAMES: Final = {
    "4.9.3": "rocketmq-4.9.3-traffic",
    "5.3.3": "rocketmq-5.3.3-traffic",
    "5.5.0": "rocketmq-5.5.0-traffic",
}


def crashed(store: Path) -> Path:
    """Let a store look like one that was killed long after its last checkpoint."""
    (store / "abort").touch()
    for position in (0, 8):
        inflict.edit_integer("checkpoint", position, 8, lambda old: old - 3_600_000)(store)
    checkpoint = bytearray((store / "checkpoint").read_bytes())
    checkpoint[40:48] = bytes(8)  # logicsPhysicalOffset, by which 5.5.0 goes
    (store / "checkpoint").write_bytes(checkpoint)
    return store


def zeroed(store: Path) -> Path:
    """Let a store look like one that was killed before its first checkpoint."""
    crashed(store)
    inflict.write_at(store / "checkpoint", 0, bytes(16))
    return store


CRASHES: Final = (crashed, zeroed)


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("version", NAMES)
def test_fast(version: str, crash: Crash, tmp_path: Path) -> None:
    """What is read afterwards is what `startup` said before; nothing is lost, and undo works."""
    store = crash(fixture_store(NAMES[version], tmp_path))
    before = predict(open_store(store), version).recovered
    assert before is not None
    has_more_than_three = version != "4.9.3"  # files, which it reads in any case
    assert (before.bytes_after_stop < before.bytes_read) is has_more_than_three
    plan = repair.plan(store, fast_start=True)
    assert {"checkpoint", "abort"} == {edit.path for edit in plan.edits}
    assert [] == plan.left
    repair.apply(plan, in_place=True)
    prediction = predict(open_store(store), version)
    assert prediction.stopped_cleanly
    assert prediction.is_whole
    assert prediction.recovered is not None
    assert before.bytes_after_stop == prediction.recovered.bytes_read
    assert [] == repair.plan(store, fast_start=True).edits
    repair.undo(store)
    assert before == predict(open_store(store), version).recovered


@pytest.mark.parametrize("version", NAMES)
def test_queue_that_lags(version: str, tmp_path: Path) -> None:
    """A record without its unit needs the recovery: `abort` stays, with the reason."""
    store = crashed(fixture_store(NAMES[version], tmp_path))
    queue = max((store / "consumequeue/traffic-orders/0").iterdir())
    raw = queue.read_bytes()
    used = len(raw.rstrip(b"\0")) + 19
    last = used // 20 * 20 - 20
    queue.write_bytes(raw[:last] + bytes(len(raw) - last))
    plan = repair.plan(store, fast_start=True)
    assert "abort" not in {edit.path for edit in plan.edits}
    assert ["AB-PRESENT"] == [str(one.code) for one in plan.left]


def test_damage(tmp_path: Path) -> None:
    """Damage comes first."""
    store = crashed(fixture_store(NAMES["5.3.3"], tmp_path))
    inflict.flip_field("body", where=0.5)(store)
    plan = repair.plan(store, fast_start=True)
    assert "abort" not in {edit.path for edit in plan.edits}
    assert "AB-PRESENT" in {str(one.code) for one in plan.left}


def test_clean_stop(tmp_path: Path) -> None:
    """After a clean stop there is nothing to do."""
    plan = repair.plan(fixture_store(NAMES["5.3.3"], tmp_path), fast_start=True)
    assert ([], []) == (plan.edits, plan.left)
