"""All queues of a store are found, each once, in whatever it is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT, unit_key
from rmqtool.queues.discovery import Queues
from rmqtool.queues.rocks import RocksQueues
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.tree import open_store
from tests.plain_store import queue_directories
from tests.store.built_store import build_store
from tests.stores import fixture_names, fixture_store


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path) -> None:
    """Each directory of units is a queue, found by its name, by its topic and among all."""
    root = fixture_store(name, tmp_path)
    with Queues(open_store(root)) as queues:
        listed = {
            (queue.kind, queue.topic, queue.queue_id): queue.path
            for source in queues.sources
            for queue in source.queues()
            if queue.files
        }
        for directory in queue_directories(root):
            topic, queue_id = directory.parent.name, int(directory.name)
            path = listed[ArtefactKind.CONSUME_QUEUE, topic, queue_id]
            assert f"consumequeue/{topic}/{queue_id}" == path
            assert topic in queues.topics()
            units = queues.queue(topic, queue_id)
            assert units is not None
            assert path == units.path
            assert path in [units.path for units in queues.queues_of(topic)]
        assert not [topic for topic in queues.topics() if not [*queues.queues_of(topic)]]


def test_pairs(tmp_path: Path) -> None:
    """A queue that lies in two places is a pair, and the first place counts."""
    build_store(tmp_path, 6, queues=3)
    (tmp_path / "batchconsumequeue/T/1").mkdir(parents=True)
    (tmp_path / "batchconsumequeue/U/0").mkdir(parents=True)
    with Queues(open_store(tmp_path)) as queues:
        ((first, second),) = queues.pairs()
        assert ("consumequeue/T/1", "batchconsumequeue/T/1") == (first.path, second.path)
        assert ["T", "U"] == queues.topics()
        kinds = [queue.kind for queue in queues.queues_of("T")]
        assert 3 * [ArtefactKind.CONSUME_QUEUE] == kinds
        missing = queues.missing(ArtefactKind.BATCH_QUEUE, ("V", 4))
        assert ("batchconsumequeue/V/4", False) == (missing.path, missing.is_there)


def test_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of each of many queues is opened once, whatever is asked of it and how often."""
    build_store(tmp_path, 200, queues=100)
    opened: list[object] = []
    plain = os.open

    def counting(path: str, *rest: Any, **more: Any) -> int:  # noqa: ANN401
        opened.append(path)
        return plain(path, *rest, **more)

    with Queues(open_store(tmp_path)) as queues:
        mapped = [queue for queue in queues.files.queues() if queue.files]
        monkeypatch.setattr(os, "open", counting)
        for _ in range(2):
            assert all(queue.packed(0, 1) for queue in mapped)
            assert {2} == {queue.span().max_offset for queue in mapped}
            assert all(any(queue.used()) for queue in mapped)
    assert 100 == len(mapped) == len(opened)


def test_ends_in_rocksdb(tmp_path: Path) -> None:
    """The `max` row of a queue in RocksDB names its last unit."""
    with Queues(open_store(fixture_store("rocketmq-5.3.3-rocksdb", tmp_path))) as queues:
        source = queues.database.source
        assert source is not None
        reached = {}
        for topic, queue_id in source.ends:
            queue = queues.queue(topic.decode(), queue_id)
            last = queue.span().last if queue is not None else None
            reached[topic, queue_id] = (last.physical_offset, last.number) if last else None
        assert reached == {name: ends.maximum for name, ends in source.ends.items()}
        assert any(reached.values())


@pytest.mark.parametrize("units", [[1] * 300, [500, 1, 1, 1, 90, *[1] * 40, 2000, 1]])
def test_names_in_rocksdb(tmp_path: Path, units: list[int]) -> None:
    """Each queue is named once, however many units it has, and rows of no queue are kept apart."""
    rows = [
        (unit_key(b"topic%04d" % queue, queue % 3, number), bytes(ROCKSDB_CQ_UNIT.size))
        for queue, count in enumerate(units)
        for number in range(count)
    ]
    odd = [(b"\0\0\0\x01x", b""), (b"\xff", b"1")]
    database = Rdict(str(tmp_path / "consumequeue"), Options(raw_mode=True))
    for key, value in [*rows, *odd]:
        database[key] = value
    database.close()
    with Database(Place.of(tmp_path / "consumequeue"), "consumequeue") as opened:
        queues = RocksQueues(opened)
        assert [*queues.names] == [(b"topic%04d" % one, one % 3) for one in range(len(units))]
        assert sorted(queues.odd_rows) == odd
