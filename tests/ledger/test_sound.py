"""What is proven by columns is judged as it is one by one: every finding, count and number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.check.inspection import Inspection
from rmqtool.queues.discovery import Queues
from rmqtool.queues.short import NO_QUEUES, ShortQueues, short_queues
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES, NotApplicable
from tests.damage_commitlog import COMMITLOG
from tests.damage_queues import QUEUES
from tests.spark import results
from tests.stores import fixture_names, fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
PART_BYTES: Final = 16_384  # of the log that are read at once: many parts, so that queues go on
SMALL: Final = Spec(
    total_bytes=1 << 20,
    segment_bytes=256 << 10,
    topics=3,
    queues=20,
    queue_file_bytes=6000,
    slots=5000,
    entries=100_000,
)
DAMAGED: Final = [
    damage.name for damage in (*COMMITLOG, *QUEUES) if damage.fixture in {"", "traffic", "crash"}
]


def none_short(_: Inspection) -> ShortQueues:
    """Find no short queue."""
    return NO_QUEUES


def same(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demand the same of a validation by columns and of one that looks at each queue."""
    same_with(store, monkeypatch, Inspection, "short_queues", none_short)


def same_with(
    store: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, other: object
) -> None:
    """Demand the same of two validations, in the second of which something is put in place."""
    first = results.validated(store, PART_BYTES)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, other)
        second = results.validated(store, PART_BYTES)
    for found in (first, second):
        found.findings.sort(key=repr)  # tags codes are judged when their run is compared
    assert first == second


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What real brokers wrote."""
    same(fixture_store(name, tmp_path), monkeypatch)


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage of log and queues."""
    store = fixture_store(TRAFFIC, tmp_path)
    try:
        DAMAGES[damage].inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    same(store, monkeypatch)


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of queue files that were changed anywhere, of a log whose begin has expired or not."""
    store = tmp_path / "store"
    Builder(store, SMALL).build()
    random = np.random.default_rng(seed)
    for path in random.permutation(sorted(store.glob("consumequeue/*/*/*")))[:12]:
        with Path(path).open("r+b") as file:
            file.seek(int(random.integers(0, 1200)))
            file.write(random.bytes(int(random.integers(1, 60))))
    if seed % 2:
        min((store / "commitlog").iterdir()).unlink()
    same(store, monkeypatch)


def test_is_used(tmp_path: Path) -> None:
    """Queues of real brokers are short, as are the many queues that this is made for."""
    store = open_store(str(fixture_store(TRAFFIC, tmp_path)))
    with Queues(store) as queues:
        found = short_queues(queues.files.family)
        units = {queue.path: queue for queue in queues.files.queues()}
    assert len(found) >= len(units) // 2
    for (topic, queue_id), row in found.rows.items():
        here = found.position[row], found.position[row] + found.end[row] - found.first[row]
        first, count = int(found.first[row]), int(found.end[row] - found.first[row])
        queue = units[f"consumequeue/{topic.decode()}/{queue_id}"]
        assert queue.packed(first, count) == found.units[slice(*here)].tobytes()
        assert found.files is not None
        assert [file.start for file in queue.files] == [found.files.start[row]]


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "second", "length", "name"])
def test_odd_ones_are_left(kind: str, tmp_path: Path) -> None:
    """What is no lone regular file of the right length and name is read by nobody here."""
    root = fixture_store(TRAFFIC, tmp_path)
    store = open_store(str(root))
    with Queues(store) as queues:
        name = min(short_queues(queues.files.family).rows)
        path = f"consumequeue/{name[0].decode()}/{name[1]}"
        (file,) = (root / path).iterdir()
        if kind == "second":
            (root / path / "else").write_bytes(b"x")
        elif kind == "length":
            os.truncate(file, file.stat().st_size - 20)
        elif kind == "name":
            file.rename(file.with_name(file.name[1:]))
        else:
            file.rename(tmp_path / "away")
            if kind == "link":
                file.symlink_to(tmp_path / "away")
            elif kind == "fifo":
                os.mkfifo(file)
            else:
                file.mkdir()
        assert name not in short_queues(queues.files.family).rows
