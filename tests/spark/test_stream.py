"""The place of a stream, without Spark: what a log no longer has is said, never passed over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import MESSAGE_PREFIX
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.stream_place import LossKind, StreamLoss
from rmqtool.spark.stream import RocketMQStreamReader
from tests.spark.test_readers import read
from tests.stores import fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
COLUMNS = ("physical_offset", "size", "topic", "queue_offset", "extent", "code")
OFFSET_AT = MESSAGE_PREFIX.positions["physical_offset"]
SEGMENT = 131_072
Rows = list[dict[str, Any]]
Given = dict[str, Any]


class Stream:
    """A stream as Spark drives it: places go through JSON, and a batch may be run again."""

    def __init__(self, store: Path, place: Given | None = None, **options: str) -> None:
        self.options = SourceOptions.of({"path": str(store), **options})
        self.place = place

    def plan(self) -> tuple[Given, Given]:
        """Give the places between which the next batch lies."""
        reader = RocketMQStreamReader(self.options, COLUMNS)
        start = self.place if self.place is not None else reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return start, json.loads(json.dumps(end))

    def rows(self, start: Given, end: Given) -> Rows:
        """Run a batch."""
        reader = RocketMQStreamReader(self.options, COLUMNS)
        parts = reader.partitions(start, end)
        return [row for part in parts for one in reader.read(part) for row in one.to_pylist()]

    def follow(self) -> Rows:
        """Read to where the log ends now."""
        found: Rows = []
        for _ in range(1000):
            start, end = self.plan()
            self.place = end
            if start == end:
                return found
            found += self.rows(start, end)
        pytest.fail("the stream never comes to an end")


def first_segments(store: Path, into: Path, count: int) -> Path:
    """Copy the first segments of a log."""
    (into / "commitlog").mkdir(parents=True)
    for path in sorted((store / "commitlog").iterdir())[:count]:
        shutil.copy(path, into / "commitlog" / path.name)
    return into


def cut_and_write_on(store: Path, at: int, *, dropped: int, until: int | None = None) -> None:
    """Do as a broker that recovers: cut the log at a record and append other records.

    Args:
        store: whose log has one segment at the cut and none after it.
        at: physical offset of the cut.
        dropped: messages that the producer does not send again: what follows them is appended.
        until: physical offset that the new records reach at most; None is the segment's end.
    """
    path = max((store / "commitlog").iterdir())
    start, raw = int(path.name), path.read_bytes()
    later = [row for row in records(store) if row["physical_offset"] >= at]
    log, end = bytearray(raw[: at - start]), until or start + len(raw)
    for row in later[dropped:]:
        begin = row["physical_offset"] - start
        record = bytearray(raw[begin : begin + row["size"]])
        place = start + len(log)
        if place + len(record) > end - 98:
            break
        record[OFFSET_AT : OFFSET_AT + 8] = place.to_bytes(8, "big")
        log += record
    path.write_bytes(log.ljust(len(raw), b"\0"))


def records(store: Path) -> Rows:
    """Give what the log has now, read from its beginning."""
    rows = read(store, columns=",".join(COLUMNS)).to_pylist()
    return [row for row in rows if row["extent"] is None]


def offsets(rows: Rows) -> list[int]:
    """Give physical offsets."""
    return [row["physical_offset"] for row in rows]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a log of three segments."""
    return first_segments(fixture_store(TRAFFIC, tmp_path), tmp_path / "cut", 3)


@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-4.9.3-dledger"])
@pytest.mark.parametrize("most", ["0", "20000"])
def test_follow(name: str, most: str, tmp_path: Path) -> None:
    """A stream gives each row of the log once, in batches of any size, and then rests."""
    store = fixture_store(name, tmp_path)
    stream = Stream(store, max_bytes=most)
    assert read(store, columns=",".join(COLUMNS)).to_pylist() == stream.follow()
    place = stream.place
    assert [] == stream.follow()
    assert place == stream.place
    assert len(json.dumps(place)) < 3000


def test_cut(store: Path) -> None:
    """A log that was cut and written on stops the stream; told to go on, it misses no record."""
    stream = Stream(store, max_bytes="30000")
    before = stream.follow()
    cut = offsets(before)[-40]
    cut_and_write_on(store, cut, dropped=7)
    with pytest.raises(StreamLoss, match=r"cut after .* start=\d+") as raised:
        stream.plan()
    loss = raised.value.loss
    assert loss is not None
    assert (LossKind.CUT, True) == (loss.kind, loss.resume <= cut)
    tolerant = Stream(store, stream.place, max_bytes="30000", failOnDataLoss="false")
    marker, *after = tolerant.follow()
    assert ("gap", "FS-CHANGED", loss.begin) == (
        *(marker["extent"], marker["code"], marker["physical_offset"]),
    )
    assert loss.end == marker["physical_offset"] + marker["size"]
    kept = [row for row in before if row["physical_offset"] < marker["physical_offset"]]
    assert records(store) == kept + [row for row in after if row["extent"] is None]
    assert [] == tolerant.follow()


def test_cut_not_yet_written_on(store: Path) -> None:
    """A log that ends before the place of the stream is a cut, too, and said once."""
    stream = Stream(store)
    before = stream.follow()
    cut = offsets(before)[-200]
    cut_and_write_on(store, cut, dropped=150, until=cut + 3000)
    with pytest.raises(StreamLoss):
        stream.plan()
    tolerant = Stream(store, stream.place, failOnDataLoss="false")
    found = tolerant.follow()
    assert 1 == sum(row["code"] == "FS-CHANGED" for row in found)
    assert [] == tolerant.follow()
    assert offsets(records(store))[-1] == offsets(found)[-1]


def test_files_taken_away(store: Path) -> None:
    """A recovery that deletes the last files is a cut; what was read of those before stays."""
    stream = Stream(store)
    before = stream.follow()
    max((store / "commitlog").iterdir()).unlink()
    with pytest.raises(StreamLoss):
        stream.plan()
    marker, *after = Stream(store, stream.place, failOnDataLoss="false").follow()
    kept = [row for row in before if row["physical_offset"] < marker["physical_offset"]]
    assert records(store) == [row for row in kept + after if row["extent"] is None]
    assert SEGMENT <= marker["physical_offset"] <= 2 * SEGMENT


def test_record_where_a_blank_was(store: Path) -> None:
    """Records that were appended where the stream saw the end of a file are not missed."""
    max((store / "commitlog").iterdir()).unlink()
    path = max((store / "commitlog").iterdir())
    raw = path.read_bytes()
    kept = raw[: offsets(records(store))[-1] - SEGMENT]
    blank = (SEGMENT - len(kept)).to_bytes(4, "big") + (-875286124).to_bytes(4, "big", signed=True)
    path.write_bytes((kept + blank).ljust(SEGMENT, b"\0"))
    stream = Stream(store)
    stream.follow()
    path.write_bytes(raw)  # the blank was lost in a crash, and a record took its place
    with pytest.raises(StreamLoss):
        stream.plan()
    _, *after = Stream(store, stream.place, failOnDataLoss="false").follow()
    assert offsets(records(store))[-1:] == [
        row["physical_offset"] for row in after if row["extent"] is None
    ]


def test_expired(store: Path) -> None:
    """Files that expired before they were read stop the stream, or are a row of their length."""
    stream = Stream(store, max_bytes="1000")
    start, stream.place = stream.plan()
    read_first = stream.rows(start, stream.place)
    min((store / "commitlog").iterdir()).unlink()
    with pytest.raises(StreamLoss, match=f"deleted before .* start={SEGMENT}"):
        stream.plan()
    tolerant = Stream(store, stream.place, failOnDataLoss="false")
    marker, *after = tolerant.follow()
    gone = read_first[-1]["physical_offset"] + read_first[-1]["size"]
    assert ("FS-GAP", gone, SEGMENT - gone) == (
        *(marker["code"], marker["physical_offset"], marker["size"]),
    )
    assert records(store) == [row for row in after if row["extent"] is None]


def test_expired_between_plan_and_run(store: Path) -> None:
    """A batch whose files are gone when it runs, or runs again after a crash, says so."""
    start, end = Stream(store).plan()
    min((store / "commitlog").iterdir()).unlink()
    with pytest.raises(StreamLoss):
        Stream(store).rows(start, end)
    marker, *after = Stream(store, failOnDataLoss="false").rows(start, end)
    assert (0, SEGMENT, "FS-GAP") == (*(marker["physical_offset"], marker["size"], marker["code"]),)
    assert records(store) == [row for row in after if row["extent"] is None]


def test_expired_while_a_batch_runs(store: Path) -> None:
    """A file that goes before its task reads it stops the stream, or is a row of its length."""
    start, end = Stream(store).plan()
    options = {"path": str(store), "split": "1000"}
    reader = RocketMQStreamReader(SourceOptions.of(options), COLUMNS)
    parts = reader.partitions(start, end)
    min((store / "commitlog").iterdir()).unlink()
    with pytest.raises(UnreadablePath, match="no such file"):
        list(reader.read(parts[0]))
    tolerant = SourceOptions.of({**options, "failOnDataLoss": "false"})
    reader = RocketMQStreamReader(tolerant, COLUMNS)
    marker, *after = [row for part in parts for one in reader.read(part) for row in one.to_pylist()]
    assert ("gap", "FS-GAP", 0, SEGMENT) == (
        *(marker["extent"], marker["code"], marker["physical_offset"], marker["size"]),
    )
    assert records(store) == [row for row in after if row["extent"] is None]


def test_batch_runs_again(store: Path) -> None:
    """A batch with a loss has the same rows when Spark runs it again, though the log has grown."""
    stream = Stream(store)
    before = stream.follow()
    whole = max((store / "commitlog").iterdir()).read_bytes()
    cut_and_write_on(store, offsets(before)[-40], dropped=7)
    tolerant = Stream(store, stream.place, failOnDataLoss="false")
    start, end = tolerant.plan()
    rows = tolerant.rows(start, end)
    (store / "commitlog" / f"{3 * SEGMENT:020}").write_bytes(bytes(len(whole)))
    assert rows == tolerant.rows(start, end)


def test_place_of_an_earlier_release(store: Path) -> None:
    """A place that is an offset alone is read; what its log shows by its length is a loss."""
    rows = records(store)
    middle = rows[len(rows) // 2]["physical_offset"]
    stream = Stream(store, {"physical_offset": middle})
    assert offsets(rows)[len(rows) // 2 :] == offsets(stream.follow())
    past = {"physical_offset": 5 * SEGMENT}
    with pytest.raises(StreamLoss):
        Stream(store, past).plan()
    marker, *rest = Stream(store, past, failOnDataLoss="false").follow()
    assert ("FS-CHANGED", []) == (marker["code"], rest)


def test_no_log(store: Path) -> None:
    """Where the log is gone, a stream that has read stops, or waits; an empty one is no loss."""
    stream = Stream(store)
    stream.follow()
    shutil.rmtree(store / "commitlog")
    (store / "commitlog").mkdir()
    (store / "abort").touch()
    with pytest.raises(StreamLoss, match="no commitlog"):
        stream.plan()
    start, end = Stream(store, stream.place, failOnDataLoss="false").plan()
    assert start == end
    assert [] == Stream(store).follow()


def test_torn_end(store: Path) -> None:
    """A last record that ends in zeros waits for its broker; one that has ended has left it so."""
    *_, last = records(store)
    start = last["physical_offset"] // SEGMENT * SEGMENT
    torn = last["physical_offset"] + last["size"] - start - 20
    with (store / "commitlog" / f"{start:020}").open("r+b") as file:
        file.seek(torn)
        file.write(bytes(SEGMENT - torn))
    (store / "lock").touch()
    (store / "abort").touch()
    stream = Stream(store)
    assert last["physical_offset"] not in offsets(stream.follow())
    assert [] == stream.follow()
    (store / "abort").unlink()
    (store / "lock").unlink()  # a log alone, perhaps a copy that is not complete
    assert [] == stream.follow()
    (store / "lock").touch()
    assert [last["physical_offset"]] == offsets(stream.follow())


def test_latest_knows_its_record(store: Path) -> None:
    """A stream that began at the end notices a cut before its first record."""
    stream = Stream(store, start="latest")
    reader = RocketMQStreamReader(stream.options, COLUMNS)
    stream.place = reader.initialOffset()
    assert reader.latestOffset(stream.place, ReadAllAvailable()) == stream.place
    cut_and_write_on(store, offsets(records(store))[-40], dropped=7)
    with pytest.raises(StreamLoss):
        stream.plan()
