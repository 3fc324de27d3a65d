"""The data source `rocketmq` inside of Spark: the same rows as without, also as a stream."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import rmqtool
from rmqtool.reads.options import TableName
from rmqtool.reads.stream_place import PLACE
from rmqtool.reads.tables import SCHEMAS
from rmqtool.spark import read_by
from rmqtool.table import comment
from rmqtool.tables.record_tables import MESSAGES
from tests.bench.store_builder import Builder
from tests.damage import DAMAGES
from tests.spark.test_readers import read
from tests.spark.test_stream import cut_and_write_on
from tests.stores import fixture_store
from tests.tables.test_assisted import SPEC, TOPIC, reading_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TRAFFIC = "rocketmq-5.3.3-traffic"
STARTS = 20  # five in a row failed on a machine with a load of 34
COLUMNS = "physical_offset,size,topic,queue_id,queue_offset,tags,code"


def table(spark: SparkSession, store: Path, **given: str) -> DataFrame:
    """Give a table of a store."""
    return spark.read.format("rocketmq").options(path=str(store), **given).load()


@pytest.mark.parametrize("name", list(TableName))
def test_tables(name: TableName, spark: SparkSession, tmp_path: Path) -> None:
    """Each table has its promised columns and the rows that its reader gives, in order."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["flip-body-middle"].inflict(store)
    found = table(spark, store, table=name, split="64KiB").toArrow()
    assert SCHEMAS[name].names == found.schema.names
    assert read(store, table=name).to_pylist() == found.to_pylist()
    # The clients of this store wrote no traces, and nothing was popped.
    assert (found.num_rows > 0) == (name not in {TableName.POP_IN_FLIGHT, TableName.TRACES})


def test_binary_bodies(spark: SparkSession, tmp_path: Path) -> None:
    """Bodies are bytes where that is asked for: those of the text, or of its exact form."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["flip-body-middle"].inflict(store)
    wanted = {"columns": "physical_offset,body,code"}
    found = table(spark, store, body="binary", **wanted)
    assert ["bigint", "binary", "string"] == [name for _, name in found.dtypes]
    texts = read(store, body="text", columns="physical_offset,body,body_b64,code").to_pylist()
    exact = [
        b64decode(row["body_b64"]) if row["body_b64"] else row["body"] and row["body"].encode()
        for row in texts
    ]
    rows = found.toArrow().to_pylist()
    assert exact == [row["body"] for row in rows]
    assert sum(map(len, filter(None, exact))) > 10_000
    assert [row["code"] for row in texts] == [row["code"] for row in rows]
    # Of a fleet as well, without the column, and in the file of another store that is not one.
    fleet = table(spark, tmp_path / "st*", body="binary", columns="store,body").toArrow()
    assert exact == fleet["body"].to_pylist()
    assert len(exact) == table(spark, store, body="binary", columns="topic").count()


def test_counters(spark: SparkSession, tmp_path: Path) -> None:
    """A session knows what its queries have read, and how much of it was damaged."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["flip-body-middle"].inflict(store)
    before = read_by(spark)
    assert before is not None
    rows = table(spark, store, columns="topic,code").toArrow().to_pylist()
    after = read_by(spark)
    assert after is not None
    log = sum(file.stat().st_size for file in (store / "commitlog").iterdir())
    assert after.damaged - before.damaged == sum(row["code"] is not None for row in rows) > 0
    assert log // 2 < after.bytes - before.bytes < 4 * log
    assert after.unread == before.unread


def test_key(spark: SparkSession, tmp_path: Path) -> None:
    """The option key gives the rows of a read of all, by the key index."""
    store = tmp_path / "store"
    Builder(store, SPEC).build()
    (row,) = read(store, columns="unique_key", topic=TOPIC, limit="1").to_pylist()[:1]
    found = table(spark, store, key=row["unique_key"]).toArrow()
    with reading_all():
        expected = read(store, key=row["unique_key"])
    assert expected.to_pylist() == found.to_pylist()
    assert 1 == found.num_rows


def test_progress(spark: SparkSession, tmp_path: Path) -> None:
    """The progress of a stream says where the log ends, beside how far the stream is."""
    store = fixture_store(TRAFFIC, tmp_path)
    rows = read(store, columns="physical_offset,size").to_pylist()
    end = max(row["physical_offset"] + row["size"] for row in rows)
    source = spark.readStream.format("rocketmq").options(path=str(store), max_bytes="30000")
    query = source.load().writeStream.format("noop").start()
    try:
        while not (seen := [row for row in query.recentProgress if row["numInputRows"]]):
            assert query.isActive
            query.processAllAvailable()
    finally:
        query.stop()
    (first, *_) = seen[0]["sources"]
    done, latest = (json.loads(first[name])[PLACE] for name in ("endOffset", "latestOffset"))
    assert (0 < done < latest, latest) == (True, end)


def test_describe(spark: SparkSession, tmp_path: Path) -> None:
    """`DESCRIBE` says of each column what it means, in its unit."""
    store = fixture_store(TRAFFIC, tmp_path)
    messages = spark.read.format("rocketmq").option("path", str(store)).load()
    messages.createOrReplaceTempView("described")
    said = {row["col_name"]: row["comment"] for row in spark.sql("DESCRIBE described").collect()}
    assert {column.name: comment(column) for column in MESSAGES.columns} == said


def test_schema_chooses_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A schema that is given chooses columns as the option does."""
    store = fixture_store(TRAFFIC, tmp_path)
    source = spark.read.format("rocketmq").option("path", str(store))
    found = source.schema("topic string, size bigint").load().toArrow()
    assert read(store, columns="topic,size").to_pylist() == found.to_pylist()


def test_wrong_option(spark: SparkSession, tmp_path: Path) -> None:
    """A wrong option names itself and what there is."""
    store = fixture_store(TRAFFIC, tmp_path)
    with pytest.raises(Exception, match="messages has no column 'colour'"):
        table(spark, store, columns="colour").toArrow()


def grow(source: Path, store: Path, segments: int, keep: int | None = None) -> int:
    """Let a store have the first segments of another, the last of them cut by zeros.

    Args:
        source: the whole store.
        store: the one that grows.
        segments: how many it has afterwards.
        keep: bytes of the last one that are written; None is all.

    Returns:
        The physical offset up to which it is written.
    """
    (store / "commitlog").mkdir(parents=True, exist_ok=True)
    paths = sorted((source / "commitlog").iterdir())[:segments]
    for path in paths:
        shutil.copy(path, store / "commitlog" / path.name)
    last = store / "commitlog" / paths[-1].name
    length = last.stat().st_size
    if keep is not None:
        with last.open("r+b") as file:
            file.truncate(keep)
            file.truncate(length)
    return int(last.name) + (length if keep is None else keep)


def follow(spark: SparkSession, store: Path, into: Path, **given: str) -> pa.Table:
    """Run a stream to where the log ends now; give all rows that it ever wrote.

    Spark gives its Python process 10 s to start, which no option changes. On a busy machine that
    may be too few: then the stream is stopped, and goes on as it does after any other stop.
    """
    source = spark.readStream.format("rocketmq").options(path=str(store), columns=COLUMNS, **given)
    for patience in reversed(range(STARTS)):
        query = (
            source.load()
            .writeStream.format("parquet")
            .option("path", str(into / "rows"))
            .option("checkpointLocation", str(into / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            if not patience or "Python worker failed to connect back" not in str(error):
                raise
    return spark.read.parquet(str(into / "rows")).orderBy("physical_offset").toArrow()


def test_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that is stopped and started while its log grows gives each record once."""
    whole = fixture_store(TRAFFIC, tmp_path)
    store, into = tmp_path / "growing", tmp_path / "out"
    into.mkdir()
    rows = read(whole, columns=COLUMNS).to_pylist()
    torn = next(row for row in rows if row["physical_offset"] > 50_000)
    # The broker is in the middle of a record: its head is there, its body is not.
    grow(whole, store, 1, keep=torn["physical_offset"] + torn["size"] - 20)
    found = follow(spark, store, into)
    assert [row for row in rows if row["physical_offset"] < torn["physical_offset"]] == (
        found.to_pylist()
    )
    end = grow(whole, store, 2, keep=70_000)
    found = follow(spark, store, into, max_bytes="30000")
    assert [row for row in rows if row["physical_offset"] + row["size"] <= end] == (
        found.to_pylist()
    )
    grow(whole, store, 4)
    assert rows == follow(spark, store, into).to_pylist()
    assert rows == follow(spark, store, into).to_pylist()


def test_stream_start(spark: SparkSession, tmp_path: Path) -> None:
    """A stream begins where it is told: at a record at or behind the offset."""
    store = fixture_store(TRAFFIC, tmp_path)
    (tmp_path / "out").mkdir()
    found = follow(spark, store, tmp_path / "out", start="100001")
    rows = read(store, columns=COLUMNS).to_pylist()
    assert [row for row in rows if row["physical_offset"] > 100_000] == found.to_pylist()


def test_stream_loss(spark: SparkSession, tmp_path: Path) -> None:
    """A query ends where the log was cut after it was read; told so, it goes on with a row."""
    store, into = tmp_path / "cut", tmp_path / "out"
    into.mkdir()
    grow(fixture_store(TRAFFIC, tmp_path), store, 2)
    before = follow(spark, store, into).to_pylist()
    cut_and_write_on(store, before[-40]["physical_offset"], dropped=7)
    with pytest.raises(StreamingQueryException, match="the commitlog was cut after the stream"):
        follow(spark, store, into)
    found = follow(spark, store, into, failOnDataLoss="false").to_pylist()
    assert ["FS-CHANGED"] == [row["code"] for row in found if row["code"]]
    rows = read(store, columns=COLUMNS).to_pylist()
    assert {str(row) for row in rows} <= {str(row) for row in found}


def test_sound_store_has_no_code(spark: SparkSession, tmp_path: Path) -> None:
    """Counting in Spark counts what the library counts."""
    store = fixture_store(TRAFFIC, tmp_path)
    counted = table(spark, store, columns="topic").groupBy("topic").count().collect()
    topics = [row["topic"] for row in rmqtool.open_store(str(store)).rows()]
    assert {topic: topics.count(topic) for topic in topics} == {
        row["topic"]: row["count"] for row in counted
    }
