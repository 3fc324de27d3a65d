"""An overview says, from a few reads, what reading everything says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rmqtool.info.overview import SECTIONS, overview
from rmqtool.info.overview_rows import NAMES, table
from rmqtool.store.release import written_by
from rmqtool.store.tree import open_store
from tests.evidence import Evidence
from tests.plain_store import PRE_BLANK, queue_directories, records, segments, units
from tests.store.built_store import (
    FILE_LENGTH,
    FIRST_TIME_MS,
    QUEUE_FILE_LENGTH,
    build_store,
    name_of,
)
from tests.stores import fixture_names, fixture_store, manifest

# A plain walk knows nothing of DLedger, and takes seconds over files of 1 GiB.
PLAIN = [n for n in fixture_names() if not n.endswith(("-default-geometry", "-dledger"))]


def sections(path: Path, *names: str) -> dict[str, Sequence[Any]]:
    """Give an overview's sections by name."""
    return dict(overview(open_store(path), names or None))


def version(text: str) -> tuple[int, ...]:
    """Make a release comparable."""
    return tuple(map(int, text.split(".")))


@pytest.fixture(scope="module", params=PLAIN)
def fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a real broker wrote."""
    return fixture_store(request.param, tmp_path_factory.mktemp(request.param))


def test_sections(fixture: Path, evidence: Evidence) -> None:
    """Every section is there, each row is of its class, nothing was unreadable or changed."""
    found = sections(evidence.keep(fixture))
    assert list(SECTIONS) == list(NAMES) == list(found)
    for name, rows in found.items():
        assert {len(table(name).names)} >= {len(row) for row in rows}
    assert [] == found["problems"] == found["oddities"]
    assert found["store"][0].stopped.startswith(("cleanly", "crashed"))


def test_segments(fixture: Path) -> None:
    """Ranges of time and offsets, and the real end, are those of a walk over all records."""
    found = sections(fixture, "segments", "end")
    walked = records(fixture)
    assert [path.name for path in segments(fixture)] == [
        Path(row.path).name for row in found["segments"]
    ]
    for row in found["segments"]:
        times = [
            record.integer("store_timestamp")
            for record in walked
            if record.path.name == Path(row.path).name
        ]
        expected = (times[0], times[-1]) if times else (None, None)
        assert expected == (row.first_store_timestamp, row.last_store_timestamp)
        assert (row.state == "unused") == (not times)
    end = walked[-1].physical_offset + walked[-1].size
    assert [end] == [row.physical_offset for row in found["end"]]


def test_topics(fixture: Path) -> None:
    """Counts and times of topics are those of all units; exact sizes are the records' sizes."""
    found = sections(fixture, "topics", "dispatch")
    times = {
        record.physical_offset: record.integer("store_timestamp") for record in records(fixture)
    }
    real: dict[str, list[tuple[int, int]]] = {}
    for directory in queue_directories(fixture):
        for unit in units(directory):
            if (unit.physical_offset, unit.size) != PRE_BLANK[:2] and unit.physical_offset in times:
                row = (times[unit.physical_offset], unit.size)
                real.setdefault(directory.parent.name, []).append(row)
    for topic in found["topics"]:
        if topic.queue_kind != "consume-queue":
            continue
        rows = real.get(topic.topic, [])
        assert len(rows) == topic.messages
        if rows:
            times_of_topic = min(rows)[0], max(rows)[0]
            assert times_of_topic == (topic.first_store_timestamp, topic.last_store_timestamp)
            exact = sum(size for _, size in rows)
            assert exact == topic.message_bytes or topic.is_estimate
            assert exact / 2 < topic.message_bytes < 2 * exact
    if "rocksdb" not in str(fixture):
        assert [(0, 0)] == [(row.lag_bytes, row.lag_records) for row in found["dispatch"]]


def test_groups(fixture: Path) -> None:
    """The lag of a group is, queue by queue, what is behind its offset and still there."""
    found = sections(fixture, "groups", "queues")
    queues = {(row.topic, row.queue_id): row for row in found["queues"]}
    expected = Counter[tuple[str, str]]()
    for topic, group, queue_id, offset in _committed(fixture):
        queue = queues.get((topic, queue_id))
        expected[group, topic] += 0
        if queue:
            start = max(offset, queue.min_queue_offset)
            expected[group, topic] += max(queue.max_queue_offset - start, 0)
    lags = {(row.group, row.topic): row.lag for row in found["groups"] if row.topic}
    assert dict(expected) == lags
    for row in found["groups"]:
        letters = queues.get((f"%DLQ%{row.group}", 0))
        assert (letters.messages if letters else 0) == row.dead_letters


def _committed(store: Path) -> Iterator[tuple[str, str, int, int]]:
    """Yield topic, group, queue and offset, from files without `{` or `,` inside of a string."""
    for name in ("consumerOffset.json", "lmqConsumerOffset.json"):
        path = store / "config" / name
        text = path.read_text() if path.exists() else "{}"
        document = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))
        for pair, offsets in document.get("offsetTable", {}).items():
            for queue_id, offset in offsets.items():
                yield (*pair.split("@"), int(queue_id), offset)
        for pair, offset in document.get("lmqOffsetTable", {}).items():
            yield (*pair.split("@"), 0, offset)


def test_disk(fixture: Path) -> None:
    """Disk use is that of all files, apparent and allocated."""
    *rows, total = sections(fixture, "disk")["disk"]
    files = [path.stat() for path in fixture.rglob("*") if path.is_file()]
    assert (len(files), sum(file.st_size for file in files)) == (total.files, total.size)
    assert sum(512 * file.st_blocks for file in files) == total.allocated
    assert sorted(os.listdir(fixture)) >= sorted(row.name for row in rows)  # noqa: PTH208


@pytest.mark.parametrize("name", fixture_names())
def test_release(name: str, tmp_path: Path) -> None:
    """The bounds hold the release that wrote the store, and are two minor releases wide at most."""
    (row,) = sections(fixture_store(name, tmp_path), "store")["store"]
    wrote = version(manifest(name)["version"])
    assert version(row.at_least) <= wrote
    if row.below:
        assert wrote < version(row.below)
    assert wrote[0] == version(row.at_least)[0]
    assert wrote[1] - version(row.at_least)[1] <= 2


def test_release_of_nothing(tmp_path: Path) -> None:
    """Where nothing tells the release, none is claimed."""
    build_store(tmp_path, 3)
    wrote = written_by(open_store(tmp_path))
    assert (None, None, "unknown") == (wrote.at_least, wrote.below, str(wrote))


def test_lag(tmp_path: Path) -> None:
    """Records that no queue names are counted; bytes are those between both ends."""
    built = build_store(tmp_path, 40)
    queue = tmp_path / "consumequeue/T/0"
    raw = (queue / name_of(0)).read_bytes()[: 5 * 20]
    shutil.rmtree(queue)
    queue.mkdir()
    (queue / name_of(0)).write_bytes(raw.ljust(QUEUE_FILE_LENGTH, b"\0"))
    (row,) = sections(tmp_path, "dispatch")["dispatch"]
    dispatched_to = built.offsets[4] + built.sizes[4]
    assert (dispatched_to, built.end) == (row.dispatched_to, row.end)
    assert (built.end - dispatched_to, 35) == (row.lag_bytes, row.lag_records)


def test_queues_ahead_of_the_log(tmp_path: Path) -> None:
    """Queues that name what is no longer there give a negative lag."""
    built = build_store(tmp_path, 40)
    last = built.offsets[-1] // FILE_LENGTH * FILE_LENGTH
    (tmp_path / "commitlog" / name_of(last)).unlink()
    (row,) = sections(tmp_path, "dispatch")["dispatch"]
    assert row.lag_bytes < 0
    assert row.lag_records is None


def test_expired_segments(tmp_path: Path) -> None:
    """Units of deleted segments are counted as expired, not as messages."""
    built = build_store(tmp_path, 60, queues=2)
    (tmp_path / "commitlog" / name_of(0)).unlink()
    gone = sum(offset < FILE_LENGTH for offset in built.offsets)
    (topic,) = sections(tmp_path, "topics")["topics"]
    assert (60 - gone, gone) == (topic.messages, topic.expired)
    assert FIRST_TIME_MS + gone == topic.first_store_timestamp


def test_holes(tmp_path: Path) -> None:
    """A missing segment is an oddity with its range, and the rest is summed up."""
    build_store(tmp_path, 80)
    (tmp_path / "commitlog" / name_of(FILE_LENGTH)).unlink()
    found = sections(tmp_path)
    assert [("hole", FILE_LENGTH, FILE_LENGTH)] == [
        (row.oddity, row.start, row.length) for row in found["oddities"]
    ]
    assert 0 == found["dispatch"][0].lag_bytes


def test_unreadable_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be read is a problem by name, and everything else is still there."""
    build_store(tmp_path, 20)
    for name in ("index", "config", "consumequeue/U/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "checkpoint").write_bytes(b"short")
    scandir, refused = os.scandir, {"index", "0"}

    def refuse(path: str) -> object:
        if Path(path).name in refused and "/T/" not in path:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = sections(tmp_path)
    assert ["T"] == [row.topic for row in found["topics"]]
    problems = {row.path.removeprefix(f"{tmp_path}/") for row in found["problems"]}
    assert {"index", "consumequeue/U/0", "checkpoint"} == problems


def test_empty_parts(tmp_path: Path) -> None:
    """A store of empty directories has all sections, and no rows that would be made up."""
    for name in ("commitlog", "consumequeue", "index", "config"):
        (tmp_path / name).mkdir()
    found = sections(tmp_path)
    filled = {name for name, rows in found.items() if rows}
    assert {"store", "geometry", "disk"} == filled


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "index", "config"])
def test_parts_alone(name: str, tmp_path: Path) -> None:
    """A directory of a store can be looked at alone."""
    root = fixture_store(fixture_names(scenario="traffic")[0], tmp_path)
    found = sections(root / name)
    assert [] == found["problems"]
    assert str(root / name) == found["store"][0].path
    assert bool(found["segments"]) == (name == "commitlog")
    assert bool(found["queues"]) == (name == "consumequeue")
    assert bool(found["index"]) == (name == "index")
