"""Queues in RocksDB are written anew, and a broker then loses nothing that is in the log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import rebuild, repair
from rmqtool.check.rocksdb.queues import RocksComparer
from rmqtool.errors import DamagedDatabase
from rmqtool.findings.catalogue import Severity
from rmqtool.formats.rocksdb_queue import MAX, offset_key
from rmqtool.rebuild.options import StoreType
from rmqtool.repair.plans import Action, read_plan
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.check.validation import run
from tests.damage_rocksdb import DAMAGES, flip_block
from tests.repair.repaired import traces
from tests.rocksdb import edit, rows_of, state_of
from tests.stores import broker_conf, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.ledger.rocks_walk import QueueSeen

QUEUES: Final = "consumequeue"
BESIDE: Final = ("timer", "trans")  # the key index, in one database with it
REPAIRED: Final = (
    *("delete units", "lower max", "raise CHECKPOINT", "cut MANIFEST", "shorten queue"),
    *("remove abort", "remove database", "remove queue files"),
)


def _assert_sound(store: Path, name: str) -> None:
    findings, _, summary = run(store, "full", broker_conf(name))
    assert [] == [
        str(finding.code) for finding in findings if finding.severity is not Severity.NOTE
    ]
    assert "sound" == summary.verdict
    assert predict(open_store(store, broker_conf(name))).is_whole


@pytest.mark.parametrize("name", REPAIRED)
def test_database(name: str, tmp_path: Path) -> None:
    """One edit is planned; in place and in a copy the store is sound then; undo takes it back."""
    damage = DAMAGES[name]
    store = fixture_store(damage.fixture, tmp_path)
    damage.inflict(store)
    before = state_of(store / QUEUES)
    plan = repair.plan(store, broker_conf=str(broker_conf(damage.fixture)))
    assert before == state_of(store / QUEUES)
    assert [(Action.REBUILD, QUEUES)] == [(edit.action, edit.path) for edit in plan.edits]
    assert [] == plan.left
    (tmp_path / "plan").write_text(plan.text())
    assert plan.edits == read_plan(str(tmp_path / "plan")).edits
    repair.apply(plan, tmp_path / "copy")
    _assert_sound(tmp_path / "copy", damage.fixture)
    repair.apply(plan, in_place=True)
    _assert_sound(store, damage.fixture)
    repair.undo(store)
    contents = {path: state.content for path, state in before.items()}
    assert contents == {path: state.content for path, state in state_of(store / QUEUES).items()}


@pytest.mark.parametrize("name", ["rocketmq-5.3.3-rocksdb", "rocketmq-5.5.0-rocksdb"])
@pytest.mark.parametrize(
    ("field", "byte", "where"),
    [("queue_offset", 7, 0.3), ("queue_offset", 6, 0.0), ("queue_id", 3, 0.5)],
)
def test_wrong_field(field: str, byte: int, where: float, name: str, tmp_path: Path) -> None:
    """A record that names another place in the queues is to blame, and not its unit."""
    store = fixture_store(name, tmp_path)
    before = [path.read_bytes() for path in plain_store.segments(store)]
    inflict.flip_field(field, byte=byte, bit=0, where=where)(store)
    findings, _, _ = run(store, "full", broker_conf(name))
    codes = {str(it.code) for it in findings if it.severity is not Severity.NOTE}
    assert codes & {"CL-QOFF-GAP", "CL-QOFF-DUP", "CL-QOFF-BACK"} == codes
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    repair.apply(plan, in_place=True)
    assert [] == plan.left
    assert before == [path.read_bytes() for path in plain_store.segments(store)]
    _assert_sound(store, name)
    assert [] == repair.plan(store, broker_conf=str(broker_conf(name))).edits


def test_wrong_field_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the units cannot be looked through, what is wrong is said all the same."""
    name = "rocketmq-5.3.3-rocksdb"
    store = fixture_store(name, tmp_path)
    inflict.flip_field("queue_offset", byte=6, bit=0, where=0.0)(store)

    def refused(comparer: RocksComparer, _: set[int]) -> dict[int, tuple[QueueSeen, int]]:
        raise DamagedDatabase(path=comparer.source.path, reason="a bad block")

    monkeypatch.setattr(RocksComparer, "_unclaimed", refused)
    findings, code, summary = run(store, "full", broker_conf(name))
    assert 3 == code
    assert {QUEUES} == {*summary.account.unread}
    assert {"RQ-RANGE", "RQ-UNIT"} <= {str(it.code) for it in findings}


def without_topic(tmp_path: Path) -> tuple[str, Path]:
    """Make a store with queues in RocksDB, whose `topics.json` lacks a topic."""
    name = "rocketmq-5.3.3-traffic"
    store = fixture_store(name, tmp_path)
    rebuild.consume_queues(store, tmp_path / "new", store_type=StoreType.ROCKSDB)
    shutil.rmtree(store / QUEUES)
    (tmp_path / "new" / QUEUES).rename(store / QUEUES)
    topics = store / "config" / "topics.json"
    document = json.loads(topics.read_text(encoding="utf-8"))
    del document["topicConfigTable"]["traffic-orders"]
    topics.write_text(json.dumps(document), encoding="utf-8")
    return name, store


def test_orphan(tmp_path: Path) -> None:
    """An orphan in RocksDB has the path of its database."""
    name, store = without_topic(tmp_path)
    findings, _, _ = run(store, "full", broker_conf(name))
    orphans = [(it.path, it.topic) for it in findings if str(it.code) == "FS-ORPHAN"]
    assert (QUEUES, "traffic-orders") in orphans


@pytest.mark.parametrize("is_copy", [False, True], ids=["in-place", "copy"])
def test_deleted_topic(tmp_path: Path, *, is_copy: bool) -> None:
    """A topic that was deleted, whose records the log still has, gets no queues by a repair."""
    name, store = without_topic(tmp_path)
    for family, rows in rows_of(store / QUEUES, QUEUES).items():
        gone = tuple(key for key, _ in rows if b"traffic-orders" in key)
        edit(store / QUEUES, family, delete=gone)
    before, _, _ = run(store, "full", broker_conf(name))
    inflict.flip_field("body_crc", where=0.5)(store)
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    assert Action.REBUILD in {made.action for made in plan.edits}
    codes = {str(it.code) for it in plan.left}
    assert "FS-ORPHAN" not in codes
    new = tmp_path / "copy" if is_copy else store
    repair.apply(plan, new if is_copy else None, in_place=not is_copy)
    after, _, _ = run(new, "full", broker_conf(name))
    assert "FS-ORPHAN" not in {str(it.code) for it in before}
    assert {str(it.code) for it in after if it.severity != "note"} <= codes
    assert not [key for key, _ in rows_of(new / QUEUES, QUEUES)["default"] if b"-orders" in key]


@pytest.mark.parametrize("is_there", [True, False], ids=["unreadable", "missing"])
def test_orphan_to_come(tmp_path: Path, *, is_there: bool) -> None:
    """A queue past the configured ones that the new database will have is named beforehand."""
    name = "rocketmq-5.3.3-rocksdb"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    inflict.flip_field("queue_id", byte=2, bit=7, where=0.5)(store)
    if is_there:
        min((store / QUEUES).glob("*.sst")).unlink()
    else:
        shutil.rmtree(store / QUEUES)
    plan = repair.plan(store, broker_conf=conf)
    assert Action.REBUILD in {edit.action for edit in plan.edits}
    left = {(str(it.code), it.path) for it in plan.left}
    assert ("FS-ORPHAN", QUEUES) in left
    repair.apply(plan, in_place=True)
    findings, _, _ = run(store, "full", broker_conf(name))
    after = {(str(it.code), it.path) for it in findings if it.severity != "note"}
    assert ("FS-ORPHAN", QUEUES) in after
    assert after <= left


def test_topic_to_come(tmp_path: Path) -> None:
    """A topic that is in no topics.json, and gets its queues by the new database, is named."""
    name, store = without_topic(tmp_path)
    min((store / QUEUES).glob("*.sst")).unlink()
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    left = [(str(it.code), it.path, it.message) for it in plan.left]
    repair.apply(plan, in_place=True)
    findings, _, _ = run(store, "full", broker_conf(name))
    damaged = [it for it in findings if it.severity != "note"]
    assert left == [(str(it.code), it.path, it.message) for it in damaged] != []


def test_other_database(tmp_path: Path) -> None:
    """What is wrong with another database stays, and is named, whatever mends the queues."""
    name = "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    for database in (QUEUES, "config/topics"):
        flip_block("rocksdb.properties", database)(store)
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    assert [(Action.REBUILD, QUEUES)] == [(edit.action, edit.path) for edit in plan.edits]
    left = {(str(it.code), it.path) for it in plan.left}
    repair.apply(plan, in_place=True)
    findings, _, _ = run(store, "full", broker_conf(name))
    after = {(str(it.code), it.path) for it in findings if it.severity != "note"}
    assert {"RD-META"} <= {code for code, _ in after}
    assert after == left


@pytest.mark.parametrize("where", ["place", "copy"])
def test_bridge(where: str, tmp_path: Path) -> None:
    """No unit points to a bridge; the lost message has a unit that consumers pass over."""
    name = "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    inflict.flip_field("body")(store)
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    bridge, rebuild = plan.edits
    assert "bridge" in bridge.reason
    assert Action.REBUILD is rebuild.action
    if where == "copy":
        repair.apply(plan, tmp_path / "copy")
        _assert_sound(tmp_path / "copy", name)
        return
    before = traces(store)
    repair.apply(plan, in_place=True)
    _assert_sound(store, name)
    repair.undo(store)  # both, the log and the database
    assert before == traces(store)


def test_killed(*, is_whole: bool) -> None:
    """Killed at any call, log and database are both old or both new; one undo takes back both."""
    # By another process: a fork of this one would wait for threads of RocksDB that it has not.
    step = "1" if is_whole else "5"
    command = [sys.executable, "-m", "tests.repair.rocksdb_kills", "--step", step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (0, "") == (done.returncode, done.stderr), done.stdout


def test_missing(tmp_path: Path) -> None:
    """A store that is told to keep queues in RocksDB gets a database, not files, if it has none."""
    name = "rocketmq-5.5.0-rocksdb"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    shutil.rmtree(store / QUEUES)
    assert rebuild.consume_queues(store, check=True, broker_conf=conf).differences
    plan = repair.plan(store, broker_conf=conf)
    assert [(Action.REBUILD, QUEUES)] == [(edit.action, edit.path) for edit in plan.edits]
    repair.apply(plan, in_place=True)
    _assert_sound(store, name)
    repair.undo(store)
    assert not (store / QUEUES).exists()
    rebuild.consume_queues(store, tmp_path / "new", broker_conf=conf)
    assert (tmp_path / "new" / QUEUES / "CURRENT").is_file()


def test_expired(tmp_path: Path) -> None:
    """A queue whose messages all expired goes on where it ended."""
    name = "rocketmq-5.5.0-rocksdb-expired"
    store = fixture_store(name, tmp_path)
    key = offset_key(b"expired-idle", 0, MAX)
    before = dict(rows_of(store / QUEUES, QUEUES)["offset"])[key]
    inflict.flip_field("body")(store)
    repair.apply(repair.plan(store, broker_conf=str(broker_conf(name))), in_place=True)
    assert before == dict(rows_of(store / QUEUES, QUEUES)["offset"])[key]


def test_crash(tmp_path: Path) -> None:
    """What the next start dispatches by itself is no matter of a repair."""
    store = fixture_store("rocketmq-5.5.0-rocksdb-crash", tmp_path)
    assert Action.REBUILD not in {edit.action for edit in repair.plan(store).edits}


@pytest.mark.parametrize("length", [1, 61, 97])
def test_short_tail(length: int, tmp_path: Path) -> None:
    """Bytes past the last record that have no room for a bridge are zeroed."""
    store = fixture_store("rocketmq-5.5.0-rocksdb-crash", tmp_path)
    last = plain_store.records(store)[-1]
    end = last.position + last.size
    inflict.write_at(last.path, end, b"\1" * length)
    plan = repair.plan(store)
    (edit,) = [edit for edit in plan.edits if edit.path.startswith("commitlog/")]
    assert (Action.WRITE, end, length) == (edit.action, edit.position, edit.length)
    repair.apply(plan, in_place=True)
    assert bytes(length) == inflict.read_at(last.path, end, length)


@pytest.mark.parametrize("where", ["place", "copy"])
def test_index(where: str, tmp_path: Path) -> None:
    """No entry of the key index points to a bridge; timers and open halves stay."""
    name = "rocketmq-5.5.0-rocksdb-store"
    store = fixture_store(name, tmp_path)
    inflict.flip_field("body")(store)
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    assert ["rocksdbstore"] == [edit.path for edit in plan.edits if edit.action is Action.REBUILD]
    kept = {family: rows_of(store / "rocksdbstore", "rocksdbstore")[family] for family in BESIDE}
    repaired, before = store, traces(store)
    if where == "copy":
        repaired = tmp_path / "copy"
        repair.apply(plan, repaired)
    else:
        repair.apply(plan, in_place=True)
    _assert_sound(repaired, name)
    found = rows_of(repaired / "rocksdbstore", "rocksdbstore")
    assert kept == {family: found[family] for family in BESIDE}
    if where == "place":
        repair.undo(store)
        assert before == traces(store)


# A damaged queue offset of a record, in the file, where the queues are lost: bit and record.
WRONG_NUMBERS: Final = ((42, 10), (1, 10), (3, 10), (63, 10), (63, 59))


@pytest.mark.parametrize(("bit", "number"), WRONG_NUMBERS)
def test_wrong_number(bit: int, number: int, tmp_path: Path) -> None:
    """Of queues that are rebuilt from the log, the log tells which record has a wrong number."""
    name = "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    before = next(
        record
        for record in plain_store.records(store)
        if record.topic == "rocksdb-orders"
        and (record.integer("queue_id"), record.integer("queue_offset")) == (0, number)
    )
    raw = bytearray(before.path.read_bytes())
    position, size = before.places()["queue_offset"]
    raw[before.position + position + size - 1 - bit // 8] ^= 1 << bit % 8
    before.path.write_bytes(raw)
    next((store / QUEUES).glob("*.sst")).unlink()
    conf = broker_conf(name)
    _, _, summary = run(store, "full", conf)
    assert 0 == summary.account.units  # none was read
    plan = repair.plan(store, broker_conf=str(conf))
    assert [] == [*plan.left]
    repair.apply(plan, in_place=True)
    assert before in plain_store.records(store)
    findings, _, _ = run(store, "full", conf)
    assert [] == [it for it in findings if it.severity != "note"]
    assert () == tuple(repair.plan(store, broker_conf=str(conf)).edits)


def test_queue_below_0(tmp_path: Path) -> None:
    """A record whose queue id is damaged to one below 0: the queue is made, and named as left."""
    name = "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    record = next(it for it in plain_store.records(store) if it.topic == "rocksdb-orders")
    raw = bytearray(record.path.read_bytes())
    raw[record.position + record.places()["queue_id"][0]] |= 0x80
    record.path.write_bytes(raw)
    next((store / QUEUES).glob("*.sst")).unlink()
    conf = broker_conf(name)
    plan = repair.plan(store, broker_conf=str(conf))
    repair.apply(plan, in_place=True)
    findings, _, _ = run(store, "full", conf)
    after = {(str(it.code), it.path) for it in findings if it.severity != "note"}
    assert "FS-ORPHAN" in {code for code, _ in after}
    assert after <= {(str(it.code), it.path) for it in plan.left}
    assert () == tuple(repair.plan(store, broker_conf=str(conf)).edits)


def test_wrong_field_of_an_empty_database(tmp_path: Path) -> None:
    """Where a cut MANIFEST leaves no queue, the order of the records tells of a wrong number."""
    name = "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    before = [path.read_bytes() for path in plain_store.segments(store)]
    inflict.flip_field("queue_offset", byte=7, bit=0, where=0.3)(store)
    (manifest,) = (store / "consumequeue").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:367])
    plan = repair.plan(store, broker_conf=str(broker_conf(name)))
    assert any("as the records beside it have it" in edit.reason for edit in plan.edits)
    repair.apply(plan, in_place=True)
    assert before == [path.read_bytes() for path in plain_store.segments(store)]
    _assert_sound(store, name)
    assert [] == repair.plan(store, broker_conf=str(broker_conf(name))).edits
