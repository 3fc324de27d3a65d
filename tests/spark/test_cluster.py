"""A real cluster gives the same bytes, with executors that know nothing of rmqtool."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark import results
from tests.spark.cluster import cluster, environment
from tests.spark.test_engine import SMALL, everything
from tests.stores import fixture_store

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


def test_cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commands give the same on two workers, also when an executor is killed meanwhile."""
    if not request.config.getoption("--all-variants"):
        pytest.skip("four JVMs that compile all kernels twice: with --all-variants")
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    for module in results.PER_PART:
        monkeypatch.setattr(f"{module}.PART_BYTES", SMALL)
    expected = everything(store, tmp_path / "local", SMALL)
    out = tmp_path / "cluster"
    out.mkdir()
    with cluster(tmp_path / "daemons") as master:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "tests.spark.on_cluster", master, str(store), str(out)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment(),
        )
    assert ("", 0) == (done.stdout, done.returncode), done.stderr
    found = pickle.loads((out / "found").read_bytes())  # noqa: S301 - our own
    assert str(ROOT) not in found["where"]  # the package that was sent, unpacked
    assert expected == found["everything"]
    assert found["has killed"]
    assert expected["validate"] == found["killed"]
