"""A packed environment goes with a job: machines of the cluster need no package, and compile none.

To pack one takes the network and some minutes; RMQTOOL_PACKED names one that is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.spark.cluster import MODEST, cluster, environment
from tests.spark.on_cluster import QUICK
from tests.spark.test_readers import read
from tests.stores import fixture_store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("has_spark"), pytest.mark.all_variants]
ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = "./environment/bin/python"  # as the recipe in rmqtool-spark(7) has it
# What the recipe says a job is: nobody registers anything, and nothing is sent but the archive.
JOB: Final = """
import json, sys
from pyspark.sql import SparkSession

def where(batches):
    import pyarrow, rmqtool, numba
    yield pyarrow.RecordBatch.from_pydict({"path": [rmqtool.__file__], "numba": [numba.__file__]})

spark = SparkSession.builder.getOrCreate()
rows = spark.read.format("rocketmq").option("columns", "topic,extent").load(sys.argv[1])
topics = rows.where("extent IS NULL").groupBy("topic").count().collect()
(place,) = spark.range(0, 1, 1, 1).mapInArrow(where, "path string, numba string").collect()
print(json.dumps({"topics": topics, "where": list(place)}))
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the archive of an environment with rmqtool, packed as the recipe says."""
    if there := os.environ.get("RMQTOOL_PACKED"):
        return Path(there)
    place = tmp_path_factory.mktemp("packed")
    for words in (
        [sys.executable, "-m", "venv", "env"],
        ["env/bin/pip", "install", "--quiet", str(ROOT), "pandas", "venv-pack", "setuptools"],
        ["env/bin/venv-pack", "--quiet", "-p", "env", "-o", "environment.tar.gz"],
    ):
        subprocess.run(words, cwd=place, check=True)  # noqa: S603 - the recipe
    return place / "environment.tar.gz"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Give a cluster of two workers."""
    with cluster(tmp_path / "daemons") as address:
        yield address


def test_submitted(packed: Path, master: str, tmp_path: Path) -> None:
    """The job reads the store with the Python and the rmqtool of the archive."""
    import pyspark

    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "environment").mkdir()  # reads are planned on the machine of the driver
    unpack = ["tar", "-xzf", str(packed), "-C", "environment"]
    subprocess.run(unpack, cwd=tmp_path, check=True)  # noqa: S603 - as in the recipe
    given = {**environment(tmp_path), "PYSPARK_PYTHON": PYTHON, "SPARK_SUBMIT_OPTS": MODEST}
    given |= {"PYSPARK_DRIVER_PYTHON": PYTHON}
    confs = {**QUICK, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    done = subprocess.run(  # noqa: S603 - pyspark's own program
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", master, "--archives", f"{packed}#environment"),
            *(f"--conf={name}={value}" for name, value in confs.items()),
            *("job.py", str(store)),
        ],
        capture_output=True, text=True, check=False, env=given, cwd=tmp_path,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    rows = read(store, columns="topic,extent").to_pylist()
    assert Counter(row["topic"] for row in rows if row["extent"] is None) == dict(found["topics"])
    assert all("/environment/lib" in path and "daemons" in path for path in found["where"])
