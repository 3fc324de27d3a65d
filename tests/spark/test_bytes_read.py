"""A read takes no more bytes from a store than its question needs, and gives the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from typing_extensions import Buffer

from rmqtool.reads import plan
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.tasks import LogTask
from rmqtool.spark.source import COUNT, LOGGER, counting
from rmqtool.store.place import OpenFile, Place
from tests.bench.store_builder import FIRST_TIME, Builder, Spec
from tests.spark.test_readers import read

DAY_MS: Final = 86_400_000
DIRECTORIES: Final = frozenset({"commitlog", "consumequeue", "index"})
SPEC: Final = Spec(
    total_bytes=32 << 20,
    topics=20,
    queues=2,
    segment_bytes=16 << 20,
    slots=5000,
    entries=200_000,
    span_ms=DAY_MS,
)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store whose records were stored over a day, of 20 topics in turn."""
    root = tmp_path_factory.mktemp("day") / "store"
    Builder(root, SPEC).build()
    return root


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the bytes that are read, by directory of the store."""
    found: Counter[str] = Counter()
    read_at, read_into = OpenFile.read_at, OpenFile.read_into

    def count(file: OpenFile, length: int) -> None:
        parts = Path(file.place.location).parts
        found[next((part for part in parts if part in DIRECTORIES), "else")] += length

    def counting_read_at(file: OpenFile, position: int, length: int) -> bytes:
        raw = read_at(file, position, length)
        count(file, len(raw))
        return raw

    def counting_read_into(file: OpenFile, buffer: Buffer, position: int) -> int:
        length = read_into(file, buffer, position)
        count(file, length)
        return length

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenFile, "read_at", counting_read_at)
        patch.setattr(OpenFile, "read_into", counting_read_into)
        yield found


def log_bytes(store: Path) -> int:
    """Give the length of a log."""
    return sum(path.stat().st_size for path in (store / "commitlog").iterdir())


def moment(ms: int) -> str:
    """Give a time of the day as an option takes it."""
    return datetime.fromtimestamp((FIRST_TIME + ms) / 1000, UTC).isoformat()


def test_seconds_of_a_day(day: Path) -> None:
    """Five seconds of a day take some megabytes a segment for the search, and 1 % of the log."""
    whole = read(day, columns="physical_offset,store_time").to_pylist()
    for begin in (0, DAY_MS // 3, DAY_MS // 2 - 2500, DAY_MS - 5000):
        limits = {"from": moment(begin), "to": moment(begin + 5000)}
        low, high = (datetime.fromisoformat(limits[name]) for name in ("from", "to"))
        planned = plan.tasks(SourceOptions.of({"path": str(day), **limits}))
        length = sum(task.part.length for task in planned if isinstance(task, LogTask))
        # 605 seconds of a day are 0.7 %; a place is found as near as a 64th of a segment.
        assert length <= 0.01 * log_bytes(day) + SPEC.segment_bytes // 32
        found = read(day, columns="physical_offset,store_time", **limits).to_pylist()
        assert [row for row in whole if low <= row["store_time"] < high] == found
        assert found


def test_offsets(day: Path) -> None:
    """A range of offsets inside a segment begins at the record before it, and reads no other."""
    whole = read(day, columns="physical_offset,size")
    start, end = 5_000_001, 5_400_000
    with counted() as taken:
        found = read(day, columns="physical_offset,size", offsets=f"{start}:{end}")
    offsets = whole["physical_offset"].to_pylist()
    assert [at for at in offsets if start <= at < end] == found["physical_offset"].to_pylist()
    assert taken["commitlog"] <= (end - start) + (1 << 20)


def test_splits(day: Path) -> None:
    """Splits begin at records that queue units name, and read 1.1 times the log at most."""
    columns = "physical_offset,topic,queue_offset,code"
    expected = read(day, columns=columns, split="0")
    with counted() as taken:
        found = read(day, columns=columns, split="4MiB")
    assert expected.equals(found)
    assert taken["commitlog"] <= 1.1 * log_bytes(day)
    planned = plan.tasks(SourceOptions.of({"path": str(day), "split": "4MiB"}))
    assert 6 == sum(isinstance(one, LogTask) and one.start is not None for one in planned)


def test_split_without_queues(day: Path, tmp_path: Path) -> None:
    """Without queues, splits begin where the records before them end, as far as that takes."""
    (tmp_path / "commitlog").symlink_to(day / "commitlog")
    planned = plan.tasks(SourceOptions.of({"path": str(tmp_path / "commitlog"), "split": "4MiB"}))
    assert [None] * 8 == [task.start for task in planned if isinstance(task, LogTask)]
    found = read(tmp_path / "commitlog", columns="position", split="4MiB")
    assert pa.Table.equals(read(day, columns="position", split="0"), found)


def test_told(day: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a worker tells of its reads, bit by bit, is in the end all that it has read."""
    pieces = [2 << 20, 3, 2 << 20, *[(1 << 20) - 9] * 2, *[2 << 20] * 20, 5]
    (file, *_) = sorted((day / "commitlog").iterdir())

    def reading() -> Iterator[pa.RecordBatch]:
        with Place.of(file).open() as opened:
            for length in pieces:
                assert length == len(opened.read_at(0, length))
                yield pa.RecordBatch.from_pydict({})

    assert len(pieces) == len(list(counting(reading(), "messages")))
    counts = [
        int(vars(record)["context"][COUNT]) for record in caplog.records if record.name == LOGGER
    ]
    assert [2 << 20, 3 + (2 << 20)] == counts[:2]
    assert sum(pieces) == sum(counts)
    # Few lines: each is one mebibyte at least, and an eighth of what was told before, but the last.
    for place, record in enumerate(counts[:-1]):
        assert record >= max(1 << 20, sum(counts[:place]) // 8)


def test_segments_of_the_directory(day: Path) -> None:
    """What the directory says of segments takes no byte of the log."""
    expected = read(day, table="segments").select(["start", "size"])
    with counted() as taken:
        found = read(day, table="segments", columns="start,size")
    assert expected.equals(found)
    assert 0 == taken["commitlog"]
