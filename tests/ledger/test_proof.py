"""What executors prove does not travel, and the driver says the same without it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lz4.block
import pytest

from rmqtool import engine
from rmqtool.check.log import commitlog
from rmqtool.check.log.part import PartReport
from rmqtool.derive.run_pool import RunPool
from rmqtool.ledger import walk
from rmqtool.ledger.proof import Prover
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES, NotApplicable
from tests.damage_commitlog import COMMITLOG
from tests.damage_index import INDEX
from tests.damage_queues import QUEUES
from tests.spark import results
from tests.stores import fixture_names, fixture_store

Part = TypeVar("Part")
Result = TypeVar("Result")
PART_BYTES = 48 << 10
SPEC = Spec(
    total_bytes=16 << 20, segment_bytes=8 << 20, topics=2, queues=4, slots=5000, entries=100_000
)
DAMAGED = [
    damage.name
    for damage in (*COMMITLOG, *QUEUES, *INDEX)
    if damage.fixture in {"", "traffic", "crash"}
]
NAMES = [*fixture_names(scenario="traffic"), *fixture_names(scenario="dledger")]


class Far:
    """Another machine: functions and results arrive as bytes."""

    def __init__(self, *, results_travel: bool = True) -> None:
        self.results_travel = results_travel
        self.bytes = 0
        self.left_out: dict[str, int] = {"runs": 0, "entries": 0}

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Work on the parts."""
        packed = pickle.dumps(function)
        for part in parts:
            there: Callable[[Part], Result] = pickle.loads(packed)  # noqa: S301 - ours
            result = pickle.dumps(there(part))
            self.bytes += len(lz4.block.compress(result))  # as tasks of Spark do
            found: Any = pickle.loads(result)  # noqa: S301 - ours
            if isinstance(found, PartReport) and found.runs is not None:
                self.left_out["runs"] += int((found.runs.queues.ends[:, 0] >= 0).sum())
                self.left_out["entries"] += 0 if found.index_on_disk is None else 1
            yield found


@pytest.fixture(autouse=True)
def short_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short runs be proven, too: fixtures have no others."""
    if "spec" not in request.fixturenames:
        monkeypatch.setattr(commitlog, "Prover", partial(Prover, short_run=0))
        monkeypatch.setattr(walk, "RunPool", partial(RunPool, short_run=0))


@pytest.fixture
def spec() -> Spec:
    """Give what a store of long runs is to hold."""
    return SPEC


def same(store: Path) -> Far:
    """Demand the same of a validation near and far."""
    far = Far()
    expected = results.validated(store, PART_BYTES)
    with engine.using(far):
        assert expected == results.validated(store, PART_BYTES)
    return far


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path) -> None:
    """Sound stores, however they are written."""
    far = same(fixture_store(name, tmp_path))
    if name in NAMES:
        assert all(far.left_out.values())


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged(damage: str, tmp_path: Path) -> None:
    """Damage of log, queues and index is found alike."""
    chosen = DAMAGES[damage]
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    try:
        chosen.inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    same(store)


def test_little_travels(spec: Spec, tmp_path: Path) -> None:
    """What comes back of a sound store is some thousandth of its log; a twentieth without proof."""
    Builder(tmp_path / "store", spec).build()
    bytes_of = {}
    for travels in (True, False):
        far = Far(results_travel=travels)
        with engine.using(far):
            found = results.validated(tmp_path / "store", 4 << 20)
        assert 0 == found.exit_code
        bytes_of[travels] = far.bytes / spec.total_bytes
    assert bytes_of[True] < 0.002
    assert bytes_of[False] > 0.05
