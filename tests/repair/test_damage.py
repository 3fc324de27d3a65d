"""Whatever was done to a store, repair leaves nothing worse than a note, and can be taken back."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from rmqtool import repair
from rmqtool.check.options import CheckLevel
from rmqtool.errors import UnsupportedStore
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.damage import DAMAGES
from tests.inflict import Damage
from tests.repair.repaired import (
    STAYS,
    Broken,
    Lost,
    broken,
    cost_in,
    lost_in,
    predicted,
    traces,
)
from tests.stores import fixture_names

FIXTURES: Final = [
    name for name in fixture_names() if "rocksdb" not in name and "default-geometry" not in name
]
COMMON: Final = ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-traffic", "rocketmq-5.5.0-traffic"]


def sample() -> list[tuple[str, str]]:
    """Give each damage with one fixture that has what it needs."""
    pairs = []
    for name, damage in DAMAGES.items():
        fitting = (
            [fixture for fixture in FIXTURES if damage.fixture in fixture]
            if damage.fixture
            else COMMON
        )
        pairs.append((name, fitting[zlib.crc32(name.encode()) % len(fitting)]))
    return pairs


def prove(store: Broken, damage: Damage) -> None:
    """Prove all that a repair promises of one store."""
    before, start = traces(store.root), predicted(store.root, store.conf, store.version)
    cost_before, lost_before = cost_in(start), lost_in(start)
    plan = store.plan()
    if cost_before is not None:
        verb = "message is already lost" if len(lost_before) == 1 else "messages are already lost"
        said = f"{len(lost_before):,} {verb}: see `lost_messages`"
        assert bool(lost_before) == (said in plan.notes), plan.notes
    assert before == traces(store.root), "a plan writes nothing"
    undo = repair.apply(plan, in_place=True)
    assert bool(undo) == bool(plan.edits)
    allowed = STAYS.union(damage.stays)
    findings = store.findings()
    assert [] == [finding for finding in findings if finding.code not in allowed]
    left = {finding.code for finding in plan.left}
    assert {finding.code for finding in findings} <= left | {edit.code for edit in plan.edits}
    assert [] == store.plan().edits, "repaired twice"
    start = predicted(store.root, store.conf, store.version)
    cost_after = cost_in(start)
    if cost_before is not None:
        assert cost_after is not None
        assert cost_after <= cost_before, "never worse"
    doubtful = {(row["topic"], row["queue_id"], row["queue_offset"]) for row in plan.lost_messages}
    prove_account(store, lost_before, lost_in(start), doubtful)
    if undo:
        repair.undo(store.root)
    assert before == traces(store.root), "taken back, times included"


def prove_account(store: Broken, before: set[Lost], after: set[Lost], doubtful: set[Lost]) -> None:
    """Prove that a repair makes no loss forgotten, as far as queues go on past it.

    It may put a record right that a broker would not take, or bridge one that is named as doubtful.
    """
    assert set() == after - before - doubtful, "lost by the repair"
    if not before - after:
        return
    held: dict[tuple[str, int], list[int]] = {}
    for record in plain_store.records(store.root):
        held.setdefault((record.topic, record.integer("queue_id")), []).append(
            record.integer("queue_offset")
        )
    for topic, queue_id, number in before - after:
        numbers = held.get((topic, queue_id), [])
        is_between = bool(numbers) and min(numbers) < number < max(numbers)
        assert number in numbers or not is_between, (topic, queue_id, number)


@pytest.mark.every_case
@pytest.mark.parametrize(("name", "fixture"), sample(), ids=[name for name, _ in sample()])
def test_sample(name: str, fixture: str, quick_path: Path) -> None:
    """Each damage, on one fixture: repaired, validated, repaired again, taken back."""
    store = broken(fixture, DAMAGES[name], quick_path)
    if store is None:
        pytest.skip(f"{fixture} has nothing to damage so")
    prove(store, DAMAGES[name])


@pytest.mark.parametrize("fixture", FIXTURES)
def test_all(fixture: str, quick_path: Path, request: pytest.FixtureRequest) -> None:
    """Each damage, on each fixture (`--all-variants`); an undamaged one needs no edit."""
    sound = broken(fixture, None, quick_path)
    assert sound is not None
    # With --clamp-offsets those of a consumer that expiry has overtaken would be moved.
    assert [] == repair.plan(sound.root, broker_conf=sound.conf, bridge_missing=True).edits
    if not request.config.getoption("--all-variants"):
        return
    for number, damage in enumerate(DAMAGES.values()):
        place = quick_path / str(number)
        place.mkdir()
        store = broken(fixture, damage, place)
        if store is not None:
            prove(store, damage)


VERSIONS: Final = ("4.9.3", "5.3.3", "5.5.0")
LOG_DAMAGES: Final = [
    "flip-body-middle", "flip-magic-late", "flip-size-early", "zero-8-sectors-middle",
    "garbage-late", "wrong-physical-offset-middle", "no-blank", "cut-first-segment",
    "remove-middle-segment", "cut-last-segment",
]  # fmt: skip


def next_starts() -> Iterator[ParameterSet]:
    """Give each damage with one line in turn, and with the others when all is asked for."""
    for number, name in enumerate(LOG_DAMAGES):
        for line, version in enumerate(VERSIONS):
            is_sampled = number % len(VERSIONS) == line
            yield pytest.param(name, version, marks=() if is_sampled else pytest.mark.all_variants)


@pytest.mark.parametrize(("name", "version"), [*next_starts()])
def test_next_start(name: str, version: str, quick_path: Path) -> None:
    """After a repair the deepest look finds nothing, and no line's next start loses anything."""
    store = broken(f"rocketmq-{version}-traffic", DAMAGES[name], quick_path)
    assert store is not None
    repair.apply(store.plan(), in_place=True)
    assert [] == store.findings(CheckLevel.DEEP)
    try:
        prediction = predict(open_store(store.root, store.conf), version)
    except UnsupportedStore as error:
        pytest.skip(str(error))
    assert (True, False, ()) == (
        prediction.starts,
        prediction.loses,
        prediction.segments_deleted,
    ), prediction
