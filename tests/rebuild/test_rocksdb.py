"""Queues rebuilt into RocksDB have the rows that brokers wrote, and validate finds them sound."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import rebuild
from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.broker.release import Version
from rmqtool.derive.settings import rocksdb_rules, rules_of
from rmqtool.errors import OutputExists, UsageError
from rmqtool.findings.catalogue import Severity
from rmqtool.formats.rocksdb_queue import (
    CHECKPOINT_KEY,
    MAX,
    MIN,
    ROCKSDB_CQ_UNIT,
    offset_key,
    offset_row,
    unit_key,
)
from rmqtool.queues.rocks import RocksQueues, end_values
from rmqtool.rebuild.options import StoreType
from rmqtool.store.place import Place
from rmqtool.store.record_heads import record_times
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import check_table
from rmqtool.store.tree import open_store
from tests import inflict, rocksdb
from tests.check.validation import run
from tests.damage_rocksdb import DAMAGES
from tests.rocksdb import NAMES, rows_of, state_of
from tests.stores import broker_conf, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.record_heads import LogReader
    from tests.rocksdb import Rows

WITH_QUEUES: Final = [name for name in NAMES if not name.endswith("pop")]
QUEUES: Final = "consumequeue"


def _ends(rows: Rows) -> dict[bytes, bytes]:
    """Give the rows of `max`, and the end of dispatch; `min` is a cache."""
    return {
        key: value for key, value in rows["offset"] if offset_row(key, value).kind != MIN.decode()
    }


@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", WITH_QUEUES)
def test_rows(name: str, tmp_path: Path, *, has_conf: bool) -> None:
    """All rows that a broker wrote of records that are there, and, after a crash, those it lost."""
    store = fixture_store(name, tmp_path)
    before = state_of(store)
    conf = str(broker_conf(name)) if has_conf else None
    rebuild.consume_queues(store, tmp_path / "new", broker_conf=conf)
    assert before == state_of(store)
    own, made = (rows_of(root / QUEUES, QUEUES) for root in (store, tmp_path / "new"))
    start = min(int(path.name) for path in (store / "commitlog").iterdir())
    alive = [pair for pair in own["default"] if int.from_bytes(pair[1][:8], "big") >= start]
    found = dict(made["default"])
    assert alive == [(key, found[key]) for key, _ in alive]
    if "crash" in name:
        assert len(found) > len(alive)
        return
    assert len(found) == len(alive)
    ends = _ends(own)
    checkpoint = ends.pop(CHECKPOINT_KEY)
    built = _ends(made)
    assert checkpoint == built.pop(CHECKPOINT_KEY)
    assert ends == built  # those of queues whose messages all expired, too


def test_files(tmp_path: Path) -> None:
    """What is written are tables of format 5 with CRC-32C, and nothing that brokers do not need."""
    store = fixture_store(WITH_QUEUES[0], tmp_path)
    rebuild.consume_queues(store, tmp_path / "new", store_type=StoreType.ROCKSDB)
    directory = tmp_path / "new" / QUEUES
    manifest = read_manifest(Place.of(directory))
    names = {table.name for table in manifest.tables.values()} | {
        manifest.name,
        "CURRENT",
        "IDENTITY",
    }
    assert names == {path.name for path in directory.iterdir()}
    for table in manifest.tables.values():
        assert [] == check_table(Place.of(directory / table.name)).problems


def test_each_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of all queues are given their store times together, not queue by queue."""
    store = fixture_store(WITH_QUEUES[0], tmp_path)
    seen: list[int] = []

    def times(log: LogReader, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        seen.extend(physical_offsets.tolist())
        return record_times(log, physical_offsets)

    monkeypatch.setattr("rmqtool.rebuild.rocksdb.record_times", times)
    rebuild.consume_queues(store, tmp_path / "new", store_type=StoreType.ROCKSDB)
    units = rows_of(tmp_path / "new" / QUEUES, QUEUES)["default"]
    assert len({key[:-8] for key, _ in units}) > 1
    assert seen == sorted(ROCKSDB_CQ_UNIT["physical_offset"].of(value, 0) for _, value in units)


@pytest.mark.parametrize(
    "name", ["remove CURRENT", "remove MANIFEST", "remove table", "delete units", "lower max",
             "empty queue", "move unit", "redate unit", "misplace CHECKPOINT", "cut MANIFEST"],
)  # fmt: skip
def test_in_place(name: str, tmp_path: Path) -> None:
    """A damaged database is rebuilt in place; the store is sound then, and can be put back."""
    damage = DAMAGES[name]
    store = fixture_store(damage.fixture, tmp_path)
    damage.inflict(store)
    hurt = state_of(store / QUEUES)
    conf = str(broker_conf(damage.fixture))
    result = rebuild.consume_queues(store, in_place=True, broker_conf=conf)
    findings, _, summary = run(store, "deep", broker_conf(damage.fixture))
    assert [] == [
        str(finding.code) for finding in findings if finding.severity is not Severity.NOTE
    ]
    assert "sound" == summary.verdict
    undone = store / result.undo
    kept = [path for path in undone.rglob("*") if path.is_file() and path.suffix == ".sst"]
    assert kept or "table" in name
    assert hurt
    assert rebuild.consume_queues(store, check=True, broker_conf=conf).differences == []


def test_both(tmp_path: Path) -> None:
    """A combined store gets both, equal; light queues in RocksDB alone."""
    name = "rocketmq-5.5.0-rocksdb-combined"
    store = fixture_store(name, tmp_path)
    conf = str(broker_conf(name))
    rebuild.consume_queues(store, in_place=True, broker_conf=conf)
    findings, _, summary = run(store, "deep", broker_conf(name))
    assert "sound" == summary.verdict, findings
    topics = {path.name for path in (store / QUEUES).iterdir() if path.is_dir()}
    assert topics
    assert not [topic for topic in topics if topic.startswith("%LMQ%")]


def test_conversion(tmp_path: Path) -> None:
    """Files become a database, and a database files, with the same units."""
    name = "rocketmq-5.3.3-rocksdb-combined"
    store = fixture_store(name, tmp_path)
    conf = str(broker_conf(name))
    for kind in StoreType:
        into = tmp_path / str(kind)
        rebuild.consume_queues(store, into, broker_conf=conf, store_type=kind)
        has_database = (into / QUEUES / "CURRENT").is_file()
        assert has_database == (kind is StoreType.ROCKSDB)
    made = rows_of(tmp_path / "rocksdb" / QUEUES, QUEUES)["default"]
    assert rows_of(store / QUEUES, QUEUES)["default"] == made
    for path in (tmp_path / "files" / QUEUES).rglob("0*"):
        if path.is_file():
            assert path.read_bytes() == (store / path.relative_to(tmp_path / "files")).read_bytes()


def test_lost_records(tmp_path: Path) -> None:
    """A lost record gets a unit that consumers pass over: no hole is left."""
    name = "rocketmq-5.5.0-rocksdb-crash"
    store = fixture_store(name, tmp_path)
    inflict.flip_field("magic_code", where=0.6)(store)
    conf = str(broker_conf(name))
    result = rebuild.consume_queues(store, tmp_path / "new", broker_conf=conf)
    assert 1 == sum(queue.tally.filler for queue in result.queues)
    shutil.rmtree(store / QUEUES)
    shutil.copytree(tmp_path / "new" / QUEUES, store / QUEUES)
    findings, _, _ = run(store, "full", broker_conf(name))
    codes = {str(finding.code) for finding in findings if finding.severity is not Severity.NOTE}
    assert "RQ-RANGE" not in codes
    assert not {code for code in codes if code.startswith("RQ-M")}


@pytest.mark.parametrize("row_bytes", [1, 200, 5_000])
def test_in_windows(row_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are the same however few are made at once, and in frames of however few."""
    name = "rocketmq-5.5.0-rocksdb-crash"
    store = fixture_store(name, tmp_path)
    inflict.flip_field("magic_code", where=0.6)(store)  # and a unit that stands for the record
    conf = str(broker_conf(name))
    rebuild.consume_queues(store, tmp_path / "whole", broker_conf=conf)
    monkeypatch.setattr("rmqtool.rebuild.rocksdb.ROW_BYTES", row_bytes)
    monkeypatch.setattr("rmqtool.writing.rocksdb.ROWS_A_FRAME", 7)
    rebuild.consume_queues(store, tmp_path / "windows", broker_conf=conf)
    whole, windows = (rows_of(tmp_path / made / QUEUES, QUEUES) for made in ("whole", "windows"))
    assert whole["default"]
    assert whole == windows


@pytest.mark.parametrize("how", [{"topic": "rocksdb-orders"}, {"ext": True}, {"like_broker": True}])
def test_refused(how: dict[str, object], tmp_path: Path) -> None:
    """What a database has not, or would lose queues, is refused before anything is written."""
    store = fixture_store(WITH_QUEUES[0], tmp_path)
    with pytest.raises(UsageError):
        rebuild.consume_queues(store, tmp_path / "new", **how)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_output_exists(tmp_path: Path) -> None:
    """A directory that is there is never written into."""
    store = fixture_store(WITH_QUEUES[0], tmp_path)
    (tmp_path / "new").mkdir()
    with pytest.raises(OutputExists):
        rebuild.consume_queues(store, tmp_path / "new")


@pytest.mark.parametrize("level", [1, 18])
def test_delay_levels(level: int, tmp_path: Path) -> None:
    """Without a broker.conf the units of a delayed queue tell its level, the first one's, too."""
    store = fixture_store(WITH_QUEUES[0], tmp_path)
    key = (SCHEDULE_TOPIC.raw, level - 1)
    fields = {"physical_offset": 0, "size": 200, "store_timestamp": 5_000, "tags_code": 12_345}
    rocksdb.edit(store / QUEUES, put={unit_key(*key, 0): ROCKSDB_CQ_UNIT.build(fields)})
    rocksdb.edit(store / QUEUES, "offset", put={offset_key(*key, MAX): end_values((0, 0))})
    opened = open_store(store)
    rules = rules_of(opened, Version(5, 3, 3))
    with Database(Place.of(store / QUEUES), QUEUES) as database:
        found = rocksdb_rules(opened, rules, RocksQueues(database), has_files=False)
    expected = list(rules.delay_levels_ms)
    expected[level - 1] = 7_345
    assert tuple(expected) == found.delay_levels_ms
