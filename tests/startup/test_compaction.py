"""What becomes of topics that keep the newest message of each key: as real stores then do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.startup import harm
from tests.startup.test_against_stores import ALWAYS, compare
from tests.startup.variants import Variant
from tests.stores import broker_conf, fixture_names, fixture_store, manifest, sent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.evidence import Evidence
    from tests.startup.oracle import Oracle

TOPIC: Final = "compaction-orders"
GONE: Final = harm.remove("compaction")
CRASHED: Final = (harm.touch("abort"), harm.remove("checkpoint"))


def _repair(store: Path) -> None:
    repair.apply(repair.plan(store), in_place=True)


VARIANTS: Final = (
    Variant("untouched"),
    Variant("gone", (GONE,), in_sample=True),
    Variant("gone, abort", (GONE, *CRASHED)),
    Variant("repaired", (GONE, _repair), in_sample=True),
)


def delivered(store: Path, name: str) -> tuple[int, int]:
    """Give the messages of the topic that consumers would get, and those that they would miss."""
    prediction = predict(open_store(store, broker_conf(name)))
    missing = prediction.compacted.messages
    assert prediction.loses == (missing > 0)
    return sum(queue.readable for queue in prediction.queues if queue.topic == TOPIC), missing


@pytest.mark.parametrize("store_of", fixture_names(scenario="compaction"))
def test_gone(store_of: str, tmp_path: Path) -> None:
    """Without its log a topic is empty after a clean stop; after a crash it is written anew."""
    name = store_of
    store = fixture_store(name, tmp_path)
    count = sum(line["topic"] == TOPIC for line in sent(name))
    assert (count, 0) == delivered(store, name)
    GONE(store)
    assert (0, count) == delivered(store, name)
    for step in CRASHED:
        step(store)
    assert (count, 0) == delivered(store, name)


@pytest.mark.parametrize("scenario", ["compaction", "compaction-run"])
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_repaired(version: str, scenario: str, tmp_path: Path) -> None:
    """After a repair the next start hands all messages over; then nothing is left to repair."""
    name = f"rocketmq-{version}-{scenario}"
    store = fixture_store(name, tmp_path)
    GONE(store)
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    assert [("remove", "checkpoint"), ("create", "abort")] == [
        (e.action, e.path) for e in plan.edits
    ]
    assert [] == plan.left
    repair.apply(plan, in_place=True)
    count, missing = delivered(store, name)
    assert (sum(line["topic"] == TOPIC for line in sent(name)), 0) == (count, missing)
    assert [] == repair.plan(store, broker_conf=str(broker_conf(name))).edits
    repair.undo(store)
    assert (0, count) == delivered(store, name)


@pytest.mark.broker
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("scenario", ["compaction", "compaction-run"])
def test_real_store(
    oracle: Oracle, scenario: str, variant: Variant, tmp_path: Path, evidence: Evidence
) -> None:
    """The real message store delivers as many messages as foretold, after a repair, too."""
    name = f"rocketmq-{oracle.jvm.version}-{scenario}"
    if name not in fixture_names(scenario=scenario):
        pytest.skip("no such store of this release")
    kept = fixture_store(name, tmp_path)
    for step in variant.steps:
        step(kept)
    opened = kept.with_name("opened")
    shutil.copytree(kept, opened)
    settings = {**manifest(name)["settings"], **ALWAYS}
    compare(oracle, evidence.keep(kept), opened, settings)
