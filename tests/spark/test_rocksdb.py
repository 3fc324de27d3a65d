"""Queues in RocksDB on Spark: one task a range of keys, and the same rows as `dump`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.plan import UNITS_A_TASK, tasks
from rmqtool.reads.tasks import RocksTask, UnreadTask
from rmqtool.rows import rows_of
from rmqtool.spark.sql import SparkQuestions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.rocksdb import state_of
from tests.spark.test_readers import read
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "rocketmq-5.5.0-rocksdb-combined"


def dumped(store: Path) -> list[dict[str, Any]]:
    """Give the queue units as `dump` shows them."""
    (rows,) = dump(DumpOptions((str(store),), "consume-queue"), DumpOutcome())
    return [dict(row) for chunk in rows for row in rows_of(chunk)]


@pytest.mark.parametrize("units", [64, UNITS_A_TASK])
@pytest.mark.parametrize("name", [NAME, "rocketmq-5.3.3-rocksdb-expired"])
def test_ranges(name: str, units: int, tmp_path: Path) -> None:
    """However queues are cut, rows are those of `dump`, and nothing changes."""
    store = fixture_store(name, tmp_path)
    before = state_of(store)
    split = units * ROCKSDB_CQ_UNIT.size
    found = [task for task in tasks(options(store, split)) if isinstance(task, RocksTask)]
    counts = [sum(task.end - task.first for task in task.ranges) for task in found]
    assert all(count <= units for count in counts)
    assert (units > sum(counts)) == (len(found) == 1)
    assert dumped(store) == read(store, table="queue_units", split=str(split)).to_pylist()
    assert before == state_of(store)


def options(store: Path, split: int = 0) -> SourceOptions:
    """Give a read of queue units."""
    return SourceOptions.of({"path": str(store), "table": "queue_units", "split": str(split)})


def test_damaged(tmp_path: Path) -> None:
    """A database that does not open, or loses a block while it is read, is a row that says so."""
    store = fixture_store(NAME, tmp_path)
    tables = sorted((store / "consumequeue").glob("*.sst"))
    largest = max(tables, key=lambda path: path.stat().st_size)
    raw = bytearray(largest.read_bytes())
    raw[100] ^= 1
    largest.write_bytes(raw)
    rows = read(store, table="queue_units").to_pylist()
    assert "FS-READ" in {row["code"] for row in rows}
    largest.unlink()
    (one,) = (task for task in tasks(options(store)) if isinstance(task, UnreadTask))
    assert one.path.endswith("consumequeue")


@pytest.mark.spark
def test_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads each range in a task of its own, and gives the rows in order."""
    store = fixture_store(NAME, tmp_path)
    before = state_of(store)
    split = 64 * ROCKSDB_CQ_UNIT.size
    asked = {"path": str(store), "table": "queue_units", "split": str(split)}
    table = spark.read.format("rocketmq").options(**asked).load()
    assert dumped(store) == table.toArrow().to_pylist()
    found = tasks(options(store, split))
    assert 2 < sum(isinstance(one, RocksTask) for one in found)
    assert len(found) == table.rdd.getNumPartitions()
    assert before == state_of(store)


@pytest.mark.spark
def test_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """Undecided transactions in RocksDB are those that `dump` gives; pending timers, too."""
    store = fixture_store("rocketmq-5.5.0-rocksdb-store", tmp_path)
    before = state_of(store)
    questions = SparkQuestions(spark, SourceOptions(str(store)))
    for table in ("undecided_transactions", "pending_timers"):
        (rows,) = dump(DumpOptions((str(store),), table.replace("_", "-")), DumpOutcome())
        expected = {row["unique_key"] for chunk in rows for row in rows_of(chunk)}
        found = (row for chunk in questions.ask(f"TABLE {table}").chunks for row in chunk)
        assert expected == {row["unique_key"] for row in found} != set()
    assert before == state_of(store)
