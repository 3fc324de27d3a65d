"""What `validate` calls damage, no read of Spark and no question calls fine.

All damaged stores are read as one table, which is one job a table: each row says of which store it
is. The same for a question is asked of some.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.cli.main import main
from rmqtool.reads.options import TableName
from tests.damaged import NAMES, SAMPLE, Seen, damage_in, damaged_store, validated
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TABLES: Final = {
    TableName.MESSAGES: "log",
    TableName.SEGMENTS: "log",
    TableName.QUEUE_UNITS: "consume-queue",
    TableName.INDEX_ENTRIES: "index",
    TableName.PENDING_TIMERS: "pending-timers",
    TableName.POP_IN_FLIGHT: "pop-in-flight",
    TableName.TRACES: "traces",
}
OF_POP: Final = "add pop"  # the one damage of messages that were popped


@pytest.fixture(scope="module")
def stores(
    tmp_path_factory: pytest.TempPathFactory, is_whole: bool
) -> dict[Path, tuple[str, list[Seen]]]:
    """Give damaged stores: the damage, and what `validate` finds."""
    found = {}
    for name in NAMES if is_whole else [*SAMPLE, OF_POP]:
        store, _ = damaged_store(name, tmp_path_factory.mktemp("damaged"))
        found[store] = name, validated(store, None)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_read(
    spark: SparkSession, stores: dict[Path, tuple[str, list[Seen]]], table: TableName
) -> None:
    """Each damage in the files of a table is a row with a code."""
    source = spark.read.format("rocketmq").options(table=table, columns="store,code")
    rows = source.load(list(map(str, stores))).where("code IS NOT NULL").distinct().collect()
    codes: dict[str, set[str]] = {}
    for row in rows:
        codes.setdefault(row["store"], set()).add(row["code"])
    silent, damaged = [], 0
    for store, (name, found) in stores.items():
        damage = damage_in(TABLES[table], found)
        told = codes.get(str(store), set())
        damaged += bool(damage)
        is_first = table is TableName.SEGMENTS  # a row has the first code of its file
        if damage and not (told if is_first else told & {*damage, "FS-READ"}):
            silent.append((name, damage, told))
    assert [] == silent
    assert damaged


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
