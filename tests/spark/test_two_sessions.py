"""Two commands at once on one cluster: each gives what it gives alone."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.spark.cluster import cluster, environment
from tests.spark.on_cluster import QUICK
from tests.stores import fixture_store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("has_spark")]
ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = {**QUICK, "spark.cores.max": "1"}  # so both have an executor at once


def run(directory: Path, *arguments: str) -> tuple[int, bytes]:
    """Run a command; give its exit code and rows."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "rmqtool", *arguments],
        capture_output=True,
        check=False,
        env={
            **environment(directory),
            "PYTHONPATH": str(ROOT),
            "SPARK_CONF_DIR": str(directory),
        },
    )
    return done.returncode, done.stdout


def test_same_bytes(tmp_path: Path) -> None:
    """A validation and an export, of one store, side by side."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    lines = [f"{name} {value}" for name, value in SETTINGS.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    validation = ("validate", str(store), "--format", "jsonl")
    export = ("export", str(store), "--output", str(tmp_path / "there"), "--split", "64KiB")
    with cluster(tmp_path / "daemons") as master, ThreadPoolExecutor(2) as pool:
        there = ("--master", master)
        both = [pool.submit(run, tmp_path, *words, *there) for words in (validation, export)]
        validated, exported = (one.result() for one in both)
    here = ("export", str(store), "--output", str(tmp_path / "here"), "--split", "64KiB")
    local = ("--engine", "local")
    assert run(tmp_path, *validation, *local) == validated
    assert run(tmp_path, *here, *local)[0] == exported[0] == 0
    names = sorted(file.name for file in (tmp_path / "here").glob("*.parquet"))
    assert len(names) > 1
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
