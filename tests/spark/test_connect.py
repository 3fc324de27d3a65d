"""Through a Spark Connect server, from a machine without Java, all is as in this process."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqtool.cli.main import main
from rmqtool.reads.export import PLAN, SUCCESS
from tests.spark import on_connect
from tests.spark.cluster import MODEST, daemon, environment, wait_for
from tests.spark.on_cluster import ASKED, HITS
from tests.spark.test_engine import WHOLE, everything
from tests.spark.test_export import content
from tests.spark.test_readers import read
from tests.stores import fixture_store

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
SUBMIT = "org.apache.spark.deploy.SparkSubmit"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = re.compile(r"Spark Connect server started at: (127\.0\.0\.1:\d+)")
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.defaultJavaOptions": MODEST,
}
NAMES = ("rocketmq-5.3.3-traffic", "rocketmq-4.9.3-dledger")


@pytest.fixture(scope="module")
def server(has_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ARG001 - asked first
    """Start a server on two cores; give its address."""
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    above = tmp_path_factory.mktemp("connect")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(above / "warehouse")}
    given = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    arguments = ("--class", SERVER, "--name", "server", "--master", "local[2]", *given)
    with daemon(above / "server", SUBMIT, *arguments, SPARK_DAEMON_MEMORY="1g") as log:
        yield "sc://" + wait_for(log, STARTED).rpartition(" ")[2]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give stores by name."""
    above = tmp_path_factory.mktemp("stores")
    found: dict[str, Path] = {}
    for name in NAMES:
        (above / name).mkdir()
        found[name] = fixture_store(name, above / name)
    return found


def test_same(server: str, stores: dict[str, Path], tmp_path: Path) -> None:
    """Commands, verdicts on several stores, SQL and an export give what they give here."""
    (tmp_path / ASKED).write_bytes(pickle.dumps(stores))
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.spark.on_connect", server, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert 0 == done.returncode, done.stderr[-4000:]
    found: dict[str, Any] = pickle.loads((tmp_path / HITS).read_bytes())  # noqa: S301 - ours
    assert str(ROOT) not in found["where"]  # the package that was sent, unpacked
    for name, store in stores.items():
        expected = everything(store, tmp_path / f"{name}-here", WHOLE)
        assert [] == [one for one in expected if expected[one] != found[name][one]], name
    assert on_connect.verdicts(list(stores.values())) == found["verdicts"]
    first = stores[NAMES[0]]
    topics = Counter(row["topic"] for row in read(first).to_pylist() if row["extent"] is None)
    assert [{"topic": topic, "n": topics[topic]} for topic in sorted(topics)] == found["sql"]
    assert [True, True] == found["refused"]
    assert 0 == found["export"]
    assert 0 == main(["export", str(first), "--output", str(tmp_path / "here"), "--quiet"])
    written = [content(tmp_path / one) for one in ("here", "export")]
    for one in written:
        del one[SUCCESS], one[PLAN]  # they say how it was cut, and where it lies
    assert written[0] == written[1]
