"""Queues in RocksDB that are proven by columns are judged as they are one by one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool import rebuild
from rmqtool.cli.main import main
from rmqtool.errors import RmqtoolError
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import MAX, offset_key, unit_key
from rmqtool.ledger.rocks_walk import RocksWalk
from rmqtool.queues import rocks
from rmqtool.queues.rocks import OFFSETS, RocksQueue, RocksQueues, end_values
from rmqtool.queues.short_rocks import short_rocks
from rmqtool.rebuild.rocksdb import RocksComparingSink
from rmqtool.store.place import Place
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_frames import RowBatch
from rmqtool.store.rocksdb_idle import databases_wait
from tests.bench.store_builder import Builder
from tests.damage import DAMAGES, NotApplicable
from tests.damage_commitlog import COMMITLOG
from tests.damage_rocksdb import CLEAN
from tests.damage_rocksdb import DAMAGES as OF_ROCKSDB
from tests.ledger.test_sound import PART_BYTES, SMALL, same_with
from tests.rocksdb import databases, edit
from tests.spark import results
from tests.stores import FIXTURES, fixture_store

STORES: Final = sorted(path.name for path in FIXTURES.glob("rocketmq-*rocksdb*"))
OF_LOG: Final = [damage.name for damage in COMMITLOG if damage.fixture in {"", "traffic"}][::5]
WITH_QUEUES: Final = [name for name in STORES if not name.endswith(("-pop", "-store"))]
QUEUES: Final = "consumequeue"


def queues_of(store: Path) -> tuple[Place, str]:
    """Give the database of queues of a store, and its path."""
    (path,) = filter(is_queue_database, databases(store))
    return Place.of(databases(store)[path]), path


class LogBuilder(Builder):
    """Builds stores without queues."""

    def write_queues(self) -> None:
        """Write none."""


def same(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demand the same of a validation that looks at each queue and of one by columns."""
    same_with(store, monkeypatch, rocks, "MANY_QUEUES", 0)


@pytest.mark.parametrize("name", STORES)
def test_fixtures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What real brokers wrote."""
    same(fixture_store(name, tmp_path), monkeypatch)


def test_columns_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By columns no unit of a sound store is looked at one by one."""
    store = fixture_store(CLEAN, tmp_path)
    monkeypatch.setattr(rocks, "MANY_QUEUES", 0)
    monkeypatch.setattr(RocksWalk, "_run", lambda *_: pytest.fail("one by one"))
    assert results.validated(store, PART_BYTES).units > 0


@pytest.mark.parametrize("damage", OF_ROCKSDB)
def test_damaged(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage of databases."""
    store = fixture_store(OF_ROCKSDB[damage].fixture, tmp_path)
    OF_ROCKSDB[damage].inflict(store)
    same(store, monkeypatch)


@pytest.mark.parametrize("damage", ["", *OF_ROCKSDB])
def test_rebuilt(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that is compared finds the same differences."""
    store = fixture_store(OF_ROCKSDB[damage].fixture if damage else CLEAN, tmp_path)
    if damage:
        OF_ROCKSDB[damage].inflict(store)
    seen: list[object] = []
    for many in (rocks.MANY_QUEUES, 0):
        monkeypatch.setattr(rocks, "MANY_QUEUES", many)
        try:
            seen.append(rebuild.consume_queues(store, check=True).differences)
        except RmqtoolError as error:
            seen.append(str(error))
    assert seen[0] == seen[1]


def test_rebuilt_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sound store no queue is compared alone; one that differs is, and its unit is told."""
    store = of_queues(tmp_path, 5)
    monkeypatch.setattr(rocks, "MANY_QUEUES", 0)
    with monkeypatch.context() as patched:
        patched.setattr(RocksComparingSink, "_take", lambda *_: pytest.fail("one by one"))
        assert [] == rebuild.consume_queues(store, check=True).differences
    place, path = queues_of(store)
    with Database(place, path) as database:
        topic, queue_id = RocksQueues(database).names[0]
    edit(store / path, DEFAULT, delete=(unit_key(topic, queue_id, 1),))
    (difference,) = rebuild.consume_queues(store, check=True).differences
    assert difference.path.endswith(f"queue {queue_id}: 1")


@pytest.mark.parametrize("end", [None, (0, 0)])
def test_offsets(
    end: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says how far a queue goes whose `max` is wrong: no offset of it is ahead."""
    store = of_queues(tmp_path, 5)
    place, path = queues_of(store)
    with Database(place, path) as database:
        (name, *_), ends = RocksQueues(database).names, RocksQueues(database).ends
        offsets = {f"{name[0].decode()}@group": {str(name[1]): ends.of(name).next_offset}}
    (store / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    key = offset_key(*name, MAX)
    rows = {"delete": (key,)} if end is None else {"put": {key: end_values(end)}}
    edit(store / path, OFFSETS, **rows)
    monkeypatch.setattr(rocks, "MANY_QUEUES", 1000)
    same(store, monkeypatch)
    assert "CO-RANGE" not in {
        str(row.code) for row in results.validated(store, PART_BYTES).findings
    }


def of_queues(room: Path, queues: int) -> Path:
    """Build a store with its queues in RocksDB."""
    store, made = room / f"of {queues}", room / f"queues of {queues}"
    LogBuilder(store, replace(SMALL, queues=queues)).build()
    words = ["--as", "rocksdb", "--output", str(made), "--quiet"]
    assert main(["rebuild-cq", str(store), *words]) == 0
    (made / QUEUES).rename(store / QUEUES)
    return store


@pytest.mark.parametrize("damage", OF_LOG)
def test_damaged_log(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage of the log."""
    store = fixture_store(CLEAN, tmp_path)
    try:
        DAMAGES[damage].inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    same(store, monkeypatch)


@pytest.mark.parametrize("name", WITH_QUEUES)
def test_is_used(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The units of all queues without a gap are there, each with its time."""
    monkeypatch.setattr(rocks, "MANY_QUEUES", 0)
    place, path = queues_of(fixture_store(name, tmp_path))
    with Database(place, path) as database:
        source = RocksQueues(database)
        whole = 0
        assert source.ends
        short = short_rocks(source)
        assert short is not None
        for queue in source.queues():
            units = [*queue.stored()]
            numbers = [number for number, _ in units]
            row = short.rows.get((queue.topic_bytes, queue.queue_id))
            if not units or numbers != [*range(numbers[0], numbers[-1] + 1)]:
                assert row is None
                continue
            assert row is not None
            whole += 1
            at, count = short.position[row], short.end[row] - short.first[row]
            assert numbers == [*range(short.first[row], short.end[row])]
            assert short.units[at : at + count].tobytes() == b"".join(unit for _, unit in units)
        assert len(short) == whole > 0


@pytest.mark.parametrize("name", WITH_QUEUES)
def test_asked_for(name: str, tmp_path: Path) -> None:
    """A queue that is asked for before all are listed is the one that is listed."""
    place, path = queues_of(fixture_store(name, tmp_path))
    with Database(place, path) as database:
        listed = [(queue.topic, queue.queue_id, queue.ends) for queue in source_of(database)]
    for topic, queue_id, ends in listed:
        with Database(place, path) as database:
            asked = RocksQueues(database).queue(topic, queue_id)
            assert asked is not None
            assert asked.ends == ends
    with Database(place, path) as database:
        for topic, queue_id in ((listed[0][0], 1 << 40), (listed[0][0], -7), ("none", 0)):
            assert RocksQueues(database).queue(topic, queue_id) is None


def source_of(database: Database) -> list[RocksQueue]:
    """List the queues of a database."""
    return [*RocksQueues(database).queues()]


COMMANDS: Final = (
    ("info",),
    ("startup",),
    ("doctor",),
    ("repair",),
    ("rebuild-cq", "--check"),
)
SOME: Final = ["lower max", "delete units", "delete max", "move unit", *WITH_QUEUES]


@pytest.mark.parametrize("name", SOME)
def test_answers(
    name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command says the same of a store whose rows are kept and of one that is asked."""
    store = fixture_store(CLEAN if name in OF_ROCKSDB else name, tmp_path)
    if name in OF_ROCKSDB:
        OF_ROCKSDB[name].inflict(store)
    for command, *options in COMMANDS:
        answers = []
        for many in (1000, 0):
            monkeypatch.setattr(rocks, "MANY_QUEUES", many)
            code = main([command, str(store), *options, "--format", "jsonl", "--quiet"])
            answers.append((code, re.sub('"free":[0-9]+', "", capfd.readouterr().out)))
        assert answers[0] == answers[1], command
        assert answers[0][1] or command in {"repair", "rebuild-cq"}  # nothing is to be done


def rows(batches: list[RowBatch]) -> list[tuple[bytes, bytes]]:
    """Give the rows of some batches."""
    return [row for batch in batches for row in batch.items()]


@pytest.mark.parametrize("family", [DEFAULT, OFFSETS])
def test_kept(family: str, tmp_path: Path) -> None:
    """Rows that are kept are those of the library, of any range, to any limit."""
    place = Place.of(fixture_store(CLEAN, tmp_path) / QUEUES)
    random = np.random.default_rng(7)
    with Database(place, QUEUES) as kept, Database(place, QUEUES) as asked:
        kept.keep(family)
        assert kept.kept(family) is not None
        assert asked.kept(family) is None
        keys = [key for key, _ in rows([*asked.rows(family)])]
        edges = [b"", b"\0", b"\xff", *keys, *(key + b"\0" for key in keys)]
        for _ in range(200):
            begin, end = (edges[number] for number in random.integers(0, len(edges), 2))
            limit = int(random.choice([1, 2, 7, sys.maxsize]))
            if end and begin > end:
                begin, end = end, begin
            wanted = rows([*asked.rows(family, begin, end, limit)])
            assert wanted == rows([*kept.rows(family, begin, end, limit)])
            assert asked.last(family, begin, end) == kept.last(family, begin, end)


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that would fill the memory are not kept, and each question has its answer."""
    place = Place.of(fixture_store(CLEAN, tmp_path) / QUEUES)
    monkeypatch.setattr("rmqtool.store.rocksdb_kept.MOST_BYTES", 1000)
    with Database(place, QUEUES) as database:
        before = rows([*database.rows(DEFAULT)])
        database.keep(DEFAULT)
        assert database.kept(DEFAULT) is None
        assert before == rows([*database.rows(DEFAULT)])


def test_kept_of_one(tmp_path: Path) -> None:
    """Of databases that wait for their next reader, one keeps its rows."""
    stores = [fixture_store(name, tmp_path / name) for name in WITH_QUEUES[:2]]
    with databases_wait():
        for store in stores:
            place, path = queues_of(store)
            with Database(place, path) as database:
                database.keep(DEFAULT)
                assert database.once("question", "answer".upper) == "ANSWER"
        kept = []
        for store in stores:
            place, path = queues_of(store)
            database = Database(place, path)
            kept.append((database.kept(DEFAULT) is not None, database.once("question", str)))
    assert kept == [(False, ""), (True, "ANSWER")]


@pytest.mark.parametrize("command", ["info", "validate", "startup", "repair", "rebuild-cq"])
def test_questions(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB's process is not asked more often where there are more queues."""
    monkeypatch.setattr(rocks, "MANY_QUEUES", 10)
    scan, asked = Database._scan, []  # noqa: SLF001 - what is counted

    def counted(self: Database, *words: object, **options: object) -> Iterator[RowBatch]:
        asked.append(words)
        return scan(self, *words, **options)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(Database, "_scan", counted)
    counts = []
    for queues in (5, 40):
        store = of_queues(tmp_path, queues)
        asked.clear()
        options = ["--check"] if command == "rebuild-cq" else []
        assert main([command, str(store), *options, "--quiet"]) == 0
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0
