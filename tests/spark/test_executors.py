"""A user's own job on a cluster whose executors have no rmqtool, by Spark's own program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool.spark.engine import NEEDED
from tests.spark.cluster import MODEST, cluster, environment
from tests.spark.on_cluster import QUICK
from tests.spark.test_readers import read
from tests.stores import fixture_store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("has_spark")]
TRAFFIC = "rocketmq-5.3.3-traffic"
ROOT = Path(__file__).parents[2]
# What the Python of the executors has not: rmqtool, and what only a command line needs.
NEVER_THERE = ("rmqtool", "typer", "rich", "jinja2", "drawsvg", "rocksdict")
JOB = """
import json, sys
from pyspark.sql import SparkSession
from rmqtool.spark import register

def where(batches):
    import pyarrow, rmqtool
    yield pyarrow.RecordBatch.from_pydict({"path": [rmqtool.__file__]})

spark = register(SparkSession.builder.getOrCreate())
rows = spark.read.format("rocketmq").option("path", sys.argv[1]).load()
topics = rows.where("extent IS NULL").groupBy("topic").count().collect()
findings = spark.read.format("rocketmq").option("table", "findings").load(sys.argv[1]).count()
(place,) = spark.range(0, 1, 1, 1).mapInArrow(where, "path string").collect()
print(json.dumps({"topics": topics, "findings": findings, "where": place[0]}))
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a cluster of one worker."""
    with cluster(tmp_path_factory.mktemp("cluster") / "daemons", workers=1) as address:
        yield address


def python_without(names: tuple[str, ...], place: Path) -> Path:
    """Give a Python with all packages of this one, but for some, and none of its own."""
    import numpy as np

    packages = place / "packages"
    packages.mkdir(parents=True)
    for path in Path(np.__file__).parents[1].iterdir():
        if path.name.partition(".")[0] not in names and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    program = place / "python"
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {base} -S "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return program


def submitted(master: str, store: Path, python: Path) -> subprocess.CompletedProcess[str]:
    """Submit the job as users do; its driver has rmqtool."""
    import pyspark

    job = python.parent / "job.py"
    job.write_text(JOB, encoding="utf-8")
    given = {
        **environment(python.parent),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_SUBMIT_OPTS": MODEST,
    }
    confs = {**QUICK, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    return subprocess.run(  # noqa: S603 - pyspark's own program
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", master),
            *(f"--conf={name}={value}" for name, value in confs.items()),
            *(str(job), str(store)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=given,
        cwd=python.parent,
    )


def test_without_rmqtool(master: str, tmp_path: Path) -> None:
    """Executors get rmqtool with the job, and need no more packages than those that are checked."""
    store = fixture_store(TRAFFIC, tmp_path)
    done = submitted(master, store, python_without(NEVER_THERE, tmp_path / "there"))
    assert 0 == done.returncode, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    rows = read(store).to_pylist()
    expected = Counter(row["topic"] for row in rows if row["extent"] is None)
    assert expected == dict(found["topics"])
    assert str(ROOT) not in found["where"]


@pytest.mark.parametrize("where", ["cluster", "local[1]"])
def test_without_numba(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What executors, or workers of a local session, lack is said at first, in one line."""
    master = request.getfixturevalue("master") if where == "cluster" else where
    store = fixture_store(TRAFFIC, tmp_path)
    lacking = ("numba", "orjson")
    assert set(lacking) < set(NEEDED)
    done = submitted(master, store, python_without((*NEVER_THERE, *lacking), tmp_path / "there"))
    assert 1 == done.returncode
    said = f"{done.stdout}{done.stderr}"  # spark-submit brings them together
    (line,) = (line for line in said.splitlines() if "rmqtool.errors" in line)
    assert line == (
        "rmqtool.errors.EngineMissing: the packages that the executors' Python needs (numba, "
        "orjson) is missing; install it with: pip install . in a clone of rmqtool, by that Python "
        "(see PYSPARK_PYTHON)"
    )
    assert "PythonException" not in said
