"""What `validate` calls damage, no read of Spark and no question calls fine.

All stores with damage in the files of a table are read as one table, which is one job: each row
says of which store it is. The same for a question is asked of some.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.cli.main import main
from rmqtool.reads.options import TableName
from tests.damaged import damaged_store
from tests.damaged_reads import TABLES, Damaged, damaged_in, damaged_stores, judge
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ALWAYS: Final = {TableName.MESSAGES, TableName.QUEUE_UNITS}  # others are read alike, by no engine


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, is_whole: bool) -> Damaged:
    """Give damaged stores."""
    return damaged_stores(tmp_path_factory, is_whole=is_whole)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, marks=() if table in ALWAYS else pytest.mark.all_variants)
        for table in TABLES
    ],
)
def test_read(spark: SparkSession, stores: Damaged, table: TableName) -> None:
    """Each damage in the files of a table is a row with a code."""
    source = spark.read.format("rocketmq").options(table=table, columns="store,code")
    wanted = damaged_in(stores, table)
    rows = source.load(list(map(str, wanted))).where("code IS NOT NULL").distinct().collect()
    codes: dict[str, set[str]] = {}
    for row in rows:
        codes.setdefault(row["store"], set()).add(row["code"])
    judge(stores, table, lambda store: codes.get(str(store), set()))


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("flip-body-middle", "SELECT count(*) AS n FROM messages"),
        ("remove-middle-segment", "SELECT topic FROM messages WHERE queue_id = 1"),
        ("cut-first-segment", "SELECT * FROM segments"),
        ("flip-unit-offset", "SELECT count(*) AS n FROM queue_units"),
        ("flip-entry-hash", "SELECT count(*) AS n FROM index_entries"),
        ("slot-first", "SELECT count(*) AS n FROM pending_timers"),
        ("flip-body-middle", "SELECT path FROM findings WHERE code = 'CL-CRC'"),
    ],
)
def test_sql(
    spark: object,  # noqa: ARG001 - the session that `sql` takes
    name: str,
    question: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A question about damaged files is answered, and the exit code says so."""
    store, _ = damaged_store(name, tmp_path)
    assert 1 == main(["sql", str(store), question, "--format", "jsonl"])
    told = capfd.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()]
    assert "damage in " in told.err


@pytest.mark.parametrize(
    ("name", "question"),
    [
        (None, "SELECT count(*) AS n FROM messages"),
        (None, "SELECT count(*) AS n FROM queue_units"),
        ("flip-body-late", "SELECT topic FROM messages LIMIT 3"),
        ("flip-entry-hash", "SELECT count(*) AS n FROM messages"),
        ("flip-body-middle", "SELECT sum(size) AS n FROM segments"),
    ],
)
def test_sql_of_other_files(
    spark: object,  # noqa: ARG001 - the session that `sql` takes
    name: str | None,
    question: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of a sound store, and of files that a question does not read, nothing is said."""
    traffic = "rocketmq-5.3.3-traffic"
    store = fixture_store(traffic, tmp_path) if name is None else damaged_store(name, tmp_path)[0]
    assert 0 == main(["sql", str(store), question, "--format", "jsonl"])
    assert "damage" not in capfd.readouterr().err
