"""A real cluster gives the same bytes, with executors that know nothing of rmqtool."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark import on_cluster, results
from tests.spark.cluster import cluster, environment
from tests.spark.test_engine import SMALL, WHOLE, everything
from tests.spark.variants import Variant, name_of, variant_store, variants
from tests.stores import fixture_names

pytestmark = pytest.mark.spark
LARGE = "-large"
GEOMETRY = "-default-geometry"
ROOT = Path(__file__).parents[2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Start a cluster for a sample of stores, or two for those of each release."""
    if metafunc.config.getoption("--all-variants"):
        releases = sorted({name.split("-")[1] for name in fixture_names()})
        groups = [f"{release}{size}" for release in releases for size in ("", LARGE)]
        metafunc.parametrize("stores", groups, indirect=True, scope="module")


def chosen(group: str | None) -> list[Variant]:
    """Give the stores of a group, one of several segments first, as faults need it.

    Args:
        group: a release, or its stores of 1 GiB, which take longest; None is a sample.
    """
    if group is None:
        return variants(is_all=False)
    release, large, _ = group.partition(LARGE)
    found = [one for one in variants(is_all=True) if f"-{release}-" in one[0]]
    traffic = [one for one in found if one[0].endswith("-traffic")]
    rest = [one for one in found if one not in traffic]
    rest = [one for one in rest if one[0].endswith(GEOMETRY) == bool(large)]
    return [*(traffic[:1] if large else traffic), *rest]


@pytest.fixture(scope="module")
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Give stores by name: a sample, or all of a group."""
    above = tmp_path_factory.mktemp("stores")
    found: dict[str, Path] = {}
    for variant in chosen(getattr(request, "param", None)):
        name = name_of(variant)
        (above / name).mkdir()
        store = variant_store(variant, above / name)
        if store is not None:
            found[name] = store
    return found


@pytest.fixture(scope="module")
def found(
    has_spark: None,  # noqa: ARG001 - asked first
    stores: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    *,
    is_whole: bool,
) -> dict[str, Any]:
    """Give what a master and two workers gave, for each store with parts of a size, or of both."""
    above = tmp_path_factory.mktemp("cluster")
    out = above / "out"
    out.mkdir()
    asked = {
        (name, part_bytes): store
        for number, (name, store) in enumerate(stores.items())
        for turn, part_bytes in enumerate((SMALL, WHOLE))
        if is_whole or number % 2 == turn
    }
    (out / on_cluster.ASKED).write_bytes(pickle.dumps(asked))
    with cluster(above / "daemons") as master:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "tests.spark.on_cluster", master, str(out)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment(),
        )
    assert ("", 0) == (done.stdout, done.returncode), done.stderr
    written: dict[str, Any] = pickle.loads((out / on_cluster.HITS).read_bytes())  # noqa: S301
    return written


def test_same_bytes(
    stores: dict[str, Path],
    found: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command gives on two workers what it gives here, with parts of 64 KiB and segments."""
    assert str(ROOT) not in found["where"]  # the package that was sent, unpacked
    for part_bytes in (SMALL, WHOLE):
        for module in results.PER_PART:
            monkeypatch.setattr(f"{module}.PART_BYTES", part_bytes)
        asked = {name: f"{name}-{part_bytes}" for name in stores if f"{name}-{part_bytes}" in found}
        assert asked
        for name, output in asked.items():
            expected, there = everything(stores[name], tmp_path / output, part_bytes), found[output]
            assert expected.keys() == there.keys()
            differing = [command for command in expected if expected[command] != there[command]]
            assert [] == differing, output


def test_killed_executor(stores: dict[str, Path], found: dict[str, Any]) -> None:
    """An executor that is killed in the middle of a job costs nothing but time."""
    assert found["has killed"]
    assert results.validated(next(iter(stores.values())), SMALL) == found["killed"]


def test_speculation(stores: dict[str, Path], found: dict[str, Any]) -> None:
    """A task that does not end is run a second time, and what both give counts once."""
    assert found["has slept"]
    assert results.validated(next(iter(stores.values())), SMALL) == found["slept"]


def test_lost_on_one_executor(stores: dict[str, Path], found: dict[str, Any]) -> None:
    """A segment that one executor cannot read is named: exit 3, and all the rest is done."""
    store = next(iter(stores.values()))
    whole = results.validated(store, WHOLE)
    lost = found["lost"]
    segment = f"commitlog/{sorted((store / 'commitlog').iterdir())[1].name}"
    assert (3, [segment]) == (lost.exit_code, [path for path, _ in lost.unread])
    assert 0 < lost.records < whole.records
    stretches, is_complete, records = found["partly"]
    assert ({segment}, False) == ({stretch.path for stretch in stretches}, is_complete)
    assert lost.records == records
