"""The data source as a Spark person finds it: not registered, in tables of the catalogue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.stores import fixture_store

pytestmark = pytest.mark.spark
# A session that nobody has told of rmqtool.
PROGRAM: Final = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
store = sys.argv[1]

def asked(question):
    try:
        return [list(row) for row in spark.sql(question).collect()]
    except Exception as error:
        return str(error)

def loaded(schema):
    try:
        read = spark.read.format("rocketmq").schema(schema).load(store)
        return [read.columns, read.distinct().count()]
    except Exception as error:
        return str(error)

places = {
    "options": f"OPTIONS (path '{store}', table 'queue_units')",
    "location": f"LOCATION '{store}'",
}
print(json.dumps({
    "read": spark.read.format("rocketmq").load(store).count(),
    "made": [asked(f"CREATE TABLE {name} USING rocketmq {at}") for name, at in places.items()],
    "units": asked("SELECT count(*), min(QUEUE_ID) FROM options"),
    "messages": asked("SELECT count(*) FROM location WHERE Topic = 'traffic-orders'"),
    "columns": asked("CREATE TABLE listed (topic STRING) USING rocketmq " + places["location"]),
    "listed": asked("SELECT * FROM listed"),
    "case": loaded("TOPIC string"),
    "type": loaded("queue_offset string"),
    "none": loaded("nonsense string"),
    "metadata": [*spark.read.format("rocketmq").load(store).schema.fields[0].metadata],
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Ask a session of its own."""
    place = tmp_path_factory.mktemp("catalogue")
    store = fixture_store("rocketmq-5.3.3-traffic", place)
    store = store.rename(place / "a store")  # a URI writes the space in another way
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", PROGRAM, str(store)],
        capture_output=True, text=True, check=False, cwd=place,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_found(answers: dict[str, Any]) -> None:
    """Spark finds the source by itself, and a read leaves nothing in the columns."""
    assert 1383 == answers["read"]
    assert ["comment"] == answers["metadata"]


def test_tables(answers: dict[str, Any]) -> None:
    """A table of the catalogue, by a path as option or as location; names in any case."""
    assert [[], []] == answers["made"]
    assert [[1383, 0]] == answers["units"]
    assert [[1120]] == answers["messages"]


def test_declared_columns(answers: dict[str, Any]) -> None:
    """Spark hands over nothing of a table whose columns are listed: it is said what to do."""
    assert [] == answers["columns"]
    assert "is created without a list of its columns" in answers["listed"]


def test_schema(answers: dict[str, Any]) -> None:
    """A schema in another case is taken; one of other types or columns is refused at once."""
    assert ["TOPIC"] == answers["case"][0]
    assert answers["case"][1] > 5
    assert "queue_offset is BIGINT, and not STRING" in answers["type"]
    assert "messages has no column 'nonsense'" in answers["none"]
