"""What executors read, without Spark: any split gives the same rows, and damage is rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import rmqtool
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import UsageError
from rmqtool.reads import readers
from rmqtool.reads.batches import ROWS_TOGETHER, together
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.plan import packs, tasks
from rmqtool.reads.readers import batches
from rmqtool.reads.tables import SCHEMAS, chosen
from rmqtool.reads.tasks import LogTask
from rmqtool.scan.batch import Batch, ScanOptions
from rmqtool.scan.message import scan as scan_message
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.selection import Selection
from tests.damage import DAMAGES, NotApplicable
from tests.s3_server import s3_server
from tests.stores import fixture_names, fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
LOG_DAMAGES = (
    *("", "flip-body-early", "zero-8-sectors-middle", "garbage-late", "negative-size"),
    *("huge-size", "stale-tail", "cut-first-segment", "flip-magic-middle"),
)


def read(store: Path | str, **given: str) -> pa.Table:
    """Read a table as executors would, task by task."""
    options = SourceOptions.of({"path": str(store), **given})
    schema = SCHEMAS[options.table]
    names = options.columns or tuple(schema.names)
    found = [batch for task in tasks(options) for batch in batches(task, options, names)]
    return pa.Table.from_batches(found, chosen(schema, names))


@pytest.mark.parametrize("damage", LOG_DAMAGES)
def test_splits(damage: str, tmp_path: Path) -> None:
    """Rows do not depend on where a segment is split, however it is damaged."""
    store = fixture_store(TRAFFIC, tmp_path)
    if damage:
        try:
            DAMAGES[damage].inflict(store)
        except NotApplicable:
            pytest.skip("nothing to damage here")
    whole = read(store, split="0", fillers="true")
    assert whole.num_rows > 1000
    for split in ("5000", "64KiB", "100KiB"):
        assert whole.equals(read(store, split=split, fillers="true"))


def test_old_records_under_a_blank(tmp_path: Path) -> None:
    """Records that a blank covers are none, even for a split that begins among them.

    No unit names them: a broker that recovers cuts the queues as it does the log.
    """
    store = fixture_store(TRAFFIC, tmp_path)
    shutil.rmtree(store / "consumequeue")
    first = min((store / "commitlog").iterdir())
    rows = rmqtool.open_store(str(store)).rows(selection=Selection(offsets=(0, 40_000)))
    place = max(row["position"] for row in rows)
    with first.open("r+b") as file:
        file.seek(place)
        size = first.stat().st_size - place
        file.write(size.to_bytes(4, "big") + (-875286124).to_bytes(4, "big", signed=True))
    whole = read(store, split="0", fillers="true")
    assert whole.equals(read(store, split="5000", fillers="true"))
    positions = [
        row["position"] for row in whole.to_pylist() if row["segment"].endswith(first.name)
    ]
    assert place == max(positions)


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-dledger", TRAFFIC])
def test_same_as_dump(name: str, tmp_path: Path) -> None:
    """Tables have the rows of `dump`, in the same order."""
    store = fixture_store(name, tmp_path)
    opened = rmqtool.open_store(str(store))
    for table, kind in (
        ("messages", None),
        ("queue_units", "consume-queue"),
        ("index_entries", "index"),
    ):
        expected = pa.Table.from_batches(opened.batches(kind))
        assert expected.equals(read(store, table=table, split="64KiB"))


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        (
            {"topic": "traffic-batch,traffic-hostile"},
            Selection(("traffic-batch", "traffic-hostile")),
        ),
        ({"queue_id": "1"}, Selection(queue_id=1)),
        ({"offsets": "100000:300000"}, Selection(offsets=(100_000, 300_000))),
        ({"queue_offsets": "3:5"}, Selection(queue_offsets=(3, 5))),
        ({"tag": "undecided"}, Selection(tag="undecided")),
        ({"key": "X-early-0"}, Selection(key="X-early-0")),
    ],
    ids=str,
)
def test_limits(given: dict[str, str], selection: Selection, tmp_path: Path) -> None:
    """A limit leaves the rows that the option of `dump` leaves, and some are left."""
    store = fixture_store(TRAFFIC, tmp_path)
    expected = pa.Table.from_batches(rmqtool.open_store(str(store)).batches(None, selection))
    assert 0 < expected.num_rows < 1383
    assert expected.equals(read(store, **given, split="64KiB"))


def test_skipped_segments(tmp_path: Path) -> None:
    """Limits of offset and time leave out whole segments, and no row that is wanted."""
    store = fixture_store(TRAFFIC, tmp_path)
    everything = tasks(SourceOptions.of({"path": str(store)}))
    some = tasks(SourceOptions.of({"path": str(store), "offsets": "300000:"}))
    assert len(everything) > len(some) > 0
    long_ago = {"path": str(store), "to": "2001-01-01"}
    assert [] == tasks(SourceOptions.of(long_ago))
    times = read(store, columns="store_time")["store_time"].to_pylist()
    middle = sorted(time for time in times if time)[len(times) // 2]
    late = read(store, **{"from": middle.isoformat(), "columns": "store_time"})
    assert sum(time >= middle for time in times if time) == late.num_rows


def test_skipped_segments_are_not_read(tmp_path: Path) -> None:
    """Of a segment that a limit leaves out, no record is fetched from a bucket."""
    store = fixture_store(TRAFFIC, tmp_path)
    server = s3_server()
    uri = server.put(store, f"{tmp_path.name}/store")
    server.requests.clear()
    expected = read(store, offsets="300000:")
    found = read(uri, offsets="300000:")
    assert expected.equals(found)
    fetched = {
        path.name: server.fetched(f"{tmp_path.name}/store/commitlog/{path.name}")
        for path in (store / "commitlog").iterdir()
    }
    left_out = [name for name in fetched if int(name) + 131_072 <= 300_000]
    assert [0] * len(left_out) == [fetched[name] for name in left_out]
    assert 0 < len(left_out) < sum(size > 0 for size in fetched.values()) + len(left_out)


@pytest.mark.parametrize(
    ("columns", "texts", "body_crc"),
    [("size", False, False), ("size,code", True, True), ("size,topic", True, False)],
)
def test_columns_are_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, texts: bool, body_crc: bool
) -> None:
    """What no column asks for is not decoded."""
    asked: list[tuple[bool, bool]] = []

    def scan(part: SegmentPart, options: ScanOptions, *, start: int | None) -> Iterator[Batch]:
        asked.append((options.texts, options.body_crc))
        return scan_message(part, options, start=start)

    monkeypatch.setattr(readers, "judged", scan)
    assert read(fixture_store(TRAFFIC, tmp_path), columns=columns).num_rows > 0
    assert {(texts, body_crc)} == set(asked)


def test_clock_that_went_back(tmp_path: Path) -> None:
    """No segment is left out by time where the times of segments are not in order."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["zero-store-time-middle"].inflict(store)
    second = sorted((store / "commitlog").iterdir())[1]
    with second.open("r+b") as file:
        file.seek(56)
        file.write(bytes(8))
    some = tasks(SourceOptions.of({"path": str(store), "from": "2020-01-01"}))
    assert tasks(SourceOptions.of({"path": str(store)})) == some


def test_columns(tmp_path: Path) -> None:
    """Columns come in the order in which they were asked for, with the same values."""
    store = fixture_store(TRAFFIC, tmp_path)
    whole = read(store)
    for names in ("topic,size", "size", "code", "store_host,tags,position"):
        assert whole.select(names.split(",")).equals(read(store, columns=names))


@pytest.mark.parametrize(
    "given",
    [
        *({"table": "nothing"}, {"split": "-1"}, {"queue_id": "x"}, {"fillers": "perhaps"}),
        *({"nonsense": "1"}, {"from": "then"}, {"table": "segments", "topic": "T"}),
        *({"table": "index_entries", "key": "K"}, {"table": "findings", "offsets": "1:2"}),
    ],
    ids=str,
)
def test_wrong_options(given: dict[str, str], tmp_path: Path) -> None:
    """What cannot be meant is refused before a file is read."""
    store = fixture_store(TRAFFIC, tmp_path)
    with pytest.raises(UsageError):
        tasks(SourceOptions.of({"path": str(store), **given}))


def test_unreadable(tmp_path: Path) -> None:
    """A segment that cannot be opened is one row in each table, and the others are read."""
    store = fixture_store(TRAFFIC, tmp_path)
    for table in ("messages", "findings", "segments"):
        options = SourceOptions.of({"path": str(store), "table": table, "scope": "segment"})
        planned = tasks(options)
        lost = sorted((store / "commitlog").iterdir())[1]
        lost.rename(tmp_path / lost.name)
        names = tuple(SCHEMAS[options.table].names)
        rows = [
            row
            for task in planned
            for batch in batches(task, options, names)
            for row in batch.to_pylist()
        ]
        (tmp_path / lost.name).rename(lost)
        told = [row for row in rows if row.get("code") == "FS-READ" or row.get("unread")]
        assert 1 == len(told)
        assert len(rows) > len(told) or table == "findings"


def test_findings(tmp_path: Path) -> None:
    """Findings are those of `validate`; by segment, the log's own are found, too."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["flip-body-middle"].inflict(store)
    expected = [finding.code for finding in validate(ValidateOptions(store))]
    assert expected == read(store, table="findings")["code"].to_pylist()
    assert "CL-CRC" in expected
    assert ["CL-CRC"] == [
        row["code"]
        for row in read(store, table="findings", scope="segment").to_pylist()
        if row["severity"] == "damage"
    ]


def test_segments(tmp_path: Path) -> None:
    """A segment's bytes are accounted for, and its records are those of `messages`."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["garbage-middle"].inflict(store)
    rows = read(store, table="segments").to_pylist()
    kinds = ("record_bytes", "filler_bytes", "gap_bytes", "unused_bytes")
    assert [row["size"] for row in rows] == [sum(row[kind] for kind in kinds) for row in rows]
    messages = [row for row in read(store).to_pylist() if row["extent"] is None]
    assert len(messages) == sum(row["records"] for row in rows)
    assert 1 == sum(row["gaps"] for row in rows)
    assert messages[-1]["physical_offset"] == rows[-1]["last_physical_offset"]


def test_small_segments_share_a_task(tmp_path: Path) -> None:
    """Segments are put together in order, up to a length that a split may lower."""
    store = fixture_store(TRAFFIC, tmp_path)
    for given, counts in (
        ({}, [4]),
        ({"pack": "0"}, [1] * 4),
        ({"pack": "256KiB"}, [2, 2]),
        ({"split": "128KiB"}, [1] * 4),
        ({"table": "findings"}, [1]),
    ):
        options = SourceOptions.of({"path": str(store), **given})
        found = list(packs(tasks(options), options))
        assert counts == [len(pack) for pack in found]
        assert tasks(options) == [task for pack in found for task in pack]


def test_tasks_are_small(tmp_path: Path) -> None:
    """Tasks name their segment once, and nothing of the store around it."""
    import pickle

    store = fixture_store(fixture_names(scenario="traffic")[0], tmp_path)
    for task in tasks(SourceOptions.of({"path": str(store)})):
        assert isinstance(task, LogTask)
        assert len(pickle.dumps(task)) < 1000


@pytest.mark.parametrize("each", [1, 100, 4096, 8192, 20_000])
def test_together(each: int) -> None:
    """Small batches come in fewer, of the same rows; large ones as they are, and at once."""
    count = 40_000
    whole = pa.RecordBatch.from_pydict({"row": range(count), "text": ["x" * 9] * count})
    given = [whole.slice(start, each) for start in range(0, count, each)]
    asked: list[int] = []

    def giving() -> Iterator[pa.RecordBatch]:
        for one in given:
            asked.append(one.num_rows)
            yield one

    found = together(giving())
    first = next(found)
    assert ROWS_TOGETHER <= sum(asked) < ROWS_TOGETHER + each
    rest = [first, *found]
    assert pa.Table.from_batches(given) == pa.Table.from_batches(rest)
    assert len(rest) == -(-count // (each * -(-ROWS_TOGETHER // each)))
    assert [] == list(together([]))
