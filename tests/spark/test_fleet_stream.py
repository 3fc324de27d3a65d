"""A stream over many stores: each record once, stores that come later as well."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rmqtool.errors import NotAStore, UsageError
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.stream_place import StreamLoss
from rmqtool.spark.fleet_stream import STORES, FleetStreamReader
from tests.spark.test_readers import read
from tests.spark.test_source import grow
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("store", "broker", "physical_offset", "topic", "queue_offset", "code")
COLUMNS = ",".join(NAMES)
Rows: TypeAlias = list[dict[str, Any]]


class FleetStream:
    """A stream as Spark drives it: readers come and go, places go through JSON."""

    def __init__(self, fleet: Path, **options: str) -> None:
        self.options = SourceOptions.of({"path": f"{fleet}/*/store", **options})
        self.place = self.reader().initialOffset()

    def reader(self) -> FleetStreamReader:
        """Give a new reader."""
        return FleetStreamReader(self.options, NAMES, NAMES)

    def follow(self) -> Rows:
        """Read to where the logs end now; each batch is run twice."""
        found: Rows = []
        for _ in range(1000):
            start = self.place
            reader = self.reader()
            end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
            if start == end:
                return found
            rows = self.rows(start, end)
            assert rows == self.rows(start, end)
            found += rows
            self.place = end
        pytest.fail("the stream never comes to an end")

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> Rows:
        """Run a batch."""
        reader = self.reader()
        parts = reader.partitions(start, end)
        return [row for part in parts for one in reader.read(part) for row in one.to_pylist()]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A store of four segments."""
    return fixture_store("rocketmq-5.3.3-traffic", tmp_path)


def expected(*stores: Path) -> Rows:
    """Give the rows of stores, read one by one."""
    columns = ",".join(NAMES[2:])
    return [
        {"store": str(store), "broker": None, **row}
        for store in stores
        for row in read(store, columns=columns).to_pylist()
    ]


def in_order(rows: Rows) -> Rows:
    """Give rows by store and place."""
    return sorted(rows, key=lambda row: (row["store"], row["physical_offset"]))


@pytest.mark.parametrize("limit", ["0", "30000"])
def test_growing(whole: Path, tmp_path: Path, limit: str) -> None:
    """Stores grow, and others come: each record is there once, with its store."""
    fleet = tmp_path / "fleet"
    first, second, third = (fleet / name / "store" for name in ("a", "b", "c"))
    grow(whole, first, 1)
    grow(whole, second, 2)
    stream = FleetStream(fleet, max_bytes=limit)
    found = stream.follow()
    assert in_order(found) == expected(first, second)
    grow(whole, first, 3)
    shutil.copytree(whole, third)
    (fleet / "d" / "store" / "commitlog").mkdir(parents=True)  # its broker has not begun yet
    found += stream.follow()
    assert in_order(found) == expected(first, second, third)
    assert [] == stream.follow()
    assert (stream.reader().reportLatestOffset() or {})[STORES].keys() == stream.place[
        STORES
    ].keys()


def followed(whole: Path, fleet: Path) -> tuple[list[Path], list[FleetStream]]:
    """Give two stores, and two streams of both so far: one stops at a loss, one goes on."""
    stores = [fleet / name / "store" for name in ("a", "b")]
    for store in stores:
        grow(whole, store, 1)
    streams = [FleetStream(fleet), FleetStream(fleet, failOnDataLoss="false")]
    for stream in streams:
        stream.follow()
    return stores, streams


def test_gone(whole: Path, tmp_path: Path) -> None:
    """A store that is gone stops the stream, or keeps its place, as `failOnDataLoss` says."""
    stores, streams = followed(whole, tmp_path / "fleet")
    shutil.move(stores[1], tmp_path / "away")
    grow(whole, stores[0], 2)
    with pytest.raises(NotAStore, match="is gone"):
        streams[0].follow()
    assert {str(stores[0])} == {row["store"] for row in streams[1].follow()}
    grow(whole, tmp_path / "away", 2)
    shutil.move(tmp_path / "away", stores[1])
    assert {str(stores[1])} == {row["store"] for row in streams[1].follow()}


def test_loss(whole: Path, tmp_path: Path) -> None:
    """Files that expired before they were read stop the stream, or are rows of their store."""
    stores, streams = followed(whole, tmp_path / "fleet")
    grow(whole, stores[1], 4)
    for file in sorted((stores[1] / "commitlog").iterdir())[:2]:
        file.unlink()
    with pytest.raises(StreamLoss):
        streams[0].follow()
    lost = [row for row in streams[1].follow() if row["code"]]
    assert [("FS-GAP", str(stores[1]))] == [(row["code"], row["store"]) for row in lost]


def test_refused(tmp_path: Path) -> None:
    """What cannot be followed of one store cannot be of many."""
    for options in ({"table": "segments"}, {"offsets": "0:100"}):
        with pytest.raises(UsageError):
            FleetStream(tmp_path, **options)


def test_available_now(whole: Path, tmp_path: Path) -> None:
    """What comes after a run that takes what is there is left for the next one."""
    fleet = tmp_path / "fleet"
    grow(whole, fleet / "a" / "store", 1)
    stream = FleetStream(fleet)
    reader = stream.reader()
    reader.prepareForTriggerAvailableNow()
    grow(whole, fleet / "a" / "store", 2)
    grow(whole, fleet / "b" / "store", 1)
    end = reader.latestOffset(stream.place, ReadAllAvailable())
    assert end == reader.latestOffset(end, ReadAllAvailable())
    assert {str(fleet / "a" / "store")} == end[STORES].keys()
    last = max(row["physical_offset"] for row in stream.rows(stream.place, end))
    assert last < 131_072


@pytest.mark.spark
def test_on_spark(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """Spark runs it, and goes on where it was, with a store more."""
    fleet, out = tmp_path / "fleet", tmp_path / "out"
    stores = [fleet / name / "store" for name in ("a", "b")]
    grow(whole, stores[0], 1)
    for _ in range(2):
        source = spark.readStream.format("rocketmq").option("columns", COLUMNS)
        query = (
            source.load(f"{fleet}/*/store")
            .writeStream.format("parquet")
            .option("path", str(out / "rows"))
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        grow(whole, stores[0], 2)
        grow(whole, stores[1], 1)
    found = spark.read.parquet(str(out / "rows")).select(*NAMES).toArrow().to_pylist()
    assert in_order(found) == expected(*stores)
