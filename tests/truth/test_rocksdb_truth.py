"""Every row of every database that a real broker wrote is what its commitlog implies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqtool.broker.names import HALF_TOPICS
from rmqtool.formats import rocksdb_queue, rocksdb_store
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.formats.message import SysFlag
from rmqtool.formats.rocksdb_config import v2_row
from rmqtool.formats.rocksdb_store import IndexKey
from rmqtool.queues.rocks import RocksQueues
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
from tests.rocksdb import NAMES, databases, rows_of
from tests.rocksdb_keys import half_key, pop_key
from tests.stores import FIXTURES, fixture_store
from tests.truth import broker_files, plain_reader
from tests.truth.fixture import Fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.rocksdb import Rows
    from tests.truth.plain_reader import Record

SELECTIVE: Final = "rocksdbCQSelectiveDoubleWriteEnable"  # queues of lite topics alone
LITE_TOPIC: Final = "selective-rooms"  # of the fixture that has it
STORE_NAMES: Final = sorted(path.name for path in FIXTURES.glob("*-rocksdb-store"))
_Places = dict[tuple[bytes, int, int], bytes]


def _opened(name: str, into: Path) -> Fixture:
    return Fixture(name, fixture_store(name, into))


@pytest.fixture(scope="module", params=[name for name in NAMES if "pop" not in name])
def queues(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    """Unpack a store with queues in RocksDB."""
    return _opened(request.param, tmp_path_factory.mktemp("rocksdb"))


def _derived(fixture: Fixture, end: int) -> _Places:
    """Give the rows of family default that the log implies, up to the end of dispatch."""
    rules = plain_reader.Rules(
        version=fixture.version,
        delay_seconds=fixture.rules.delay_seconds,
        multi_dispatch=fixture.is_on("enableLmq"),
        batch_topics=frozenset(),
    )
    times = {record.physical_offset: record.store_timestamp for record in fixture.records}
    records = [record for record in fixture.records if record.physical_offset + record.size <= end]
    if fixture.is_on(SELECTIVE):
        records = [record for record in records if record.topic == LITE_TOPIC]
    return {
        (topic.encode(), queue_id, number): unit
        + times[int.from_bytes(unit[:8], "big")].to_bytes(8, "big")
        for (topic, queue_id), units in plain_reader.queue_units(records, rules).items()
        for number, unit in units.items()
    }


def _units(rows: Rows) -> _Places:
    found = {}
    for key, value in rows["default"]:
        row = rocksdb_queue.unit_row(key, value)
        values = row.values
        found[values["topic"], values["queue_id"], values["queue_offset"]] = value
    return found


def test_units(queues: Fixture) -> None:
    """Units below CHECKPOINT are those derived, times and all; nothing else but expired ones."""
    rows = rows_of(queues.store / "consumequeue", "consumequeue")
    checkpoint = dict(rows["offset"])[rocksdb_queue.CHECKPOINT_KEY]
    end = int.from_bytes(checkpoint, "big")
    found = _units(rows)
    expired = {
        place for place, unit in found.items() if int.from_bytes(unit[:8], "big") < queues.log_start
    }
    assert _derived(queues, end) == {k: v for k, v in found.items() if k not in expired}
    assert end in {record.physical_offset + record.size for record in queues.records}


def test_ends(queues: Fixture) -> None:
    """`max` is the last unit of each queue; `min` fits the rule of a cache that may be old."""
    rows = rows_of(queues.store / "consumequeue", "consumequeue")
    last: dict[tuple[bytes, int], tuple[int, int]] = {}
    first: dict[tuple[bytes, int], int] = {}
    for (topic, queue_id, number), unit in sorted(_units(rows).items()):
        offset = int.from_bytes(unit[:8], "big")
        last[topic, queue_id] = (offset, number)
        if offset >= queues.log_start:
            first.setdefault((topic, queue_id), number)
    ends = [rocksdb_queue.offset_row(*pair) for pair in rows["offset"]]
    by_kind: dict[str, dict[tuple[bytes, int], tuple[int, int]]] = {}
    for end in ends:
        if end.kind != "checkpoint":
            name = (end.values["topic"], end.values["queue_id"])
            place = (end.values["physical_offset"], end.values["queue_offset"])
            by_kind.setdefault(end.kind, {})[name] = place
    assert last == {
        n: p for n, p in by_kind["max"].items() if p[0] >= queues.log_start or n in last
    }
    for name, (offset, number) in by_kind.get("min", {}).items():
        if offset >= queues.log_start:
            after = by_kind["max"][name][1] + 1 if name in by_kind["max"] else 0
            assert number == first.get(name, after), name


def test_source(queues: Fixture) -> None:
    """The queue source gives the same units, spans and single units."""
    rows = rows_of(queues.store / "consumequeue", "consumequeue")
    found = _units(rows)
    with Database(Place.of(queues.store / "consumequeue"), "consumequeue") as database:
        source = RocksQueues(database)
        assert {place[:2] for place in found} <= {*source.names}
        for queue in source.queues():
            name = (queue.topic_bytes, queue.queue_id)
            mine = {n: unit[:CQ_UNIT_SIZE] for (*q, n), unit in found.items() if (*q,) == name}
            span = queue.span(queues.log_start)
            alive = [
                number
                for number, unit in mine.items()
                if int.from_bytes(unit[:8], "big") >= queues.log_start
            ]
            assert len(mine) - len(alive) == span.expired
            assert source.ends[name].next_offset == span.max_offset
            if alive:
                assert (min(alive), max(alive) + 1) == (span.min_offset, span.max_offset)
            assert b"".join(mine[n] for n in sorted(mine)) == b"".join(
                units.tobytes() for _, units in queue.used()
            )
            for number in alive[::17]:
                looked = queue.look_up(number)
                assert looked is not None
                assert looked.unit is not None
                assert int.from_bytes(mine[number][:8], "big") == looked.unit.physical_offset
                assert mine[number] == queue.packed(number, 1)
            assert queue.look_up(span.max_offset) is None


def test_files_beside(queues: Fixture) -> None:
    """Queues in files beside the database, of combined stores, hold the same units."""
    rows = rows_of(queues.store / "consumequeue", "consumequeue")
    mine = {place: unit[:CQ_UNIT_SIZE] for place, unit in _units(rows).items()}
    for (topic, queue_id), directory in broker_files.queues(queues.store / "consumequeue"):
        is_in_both = topic == LITE_TOPIC or not queues.is_on(SELECTIVE)
        for number, unit in broker_files.queue_units(directory).items():
            assert mine.get((topic.encode(), queue_id, number)) == (unit if is_in_both else None)


@pytest.mark.parametrize("name", [name for name in NAMES if "pop" in name])
def test_pop(name: str, tmp_path: Path) -> None:
    """The key of each popped message is what its JSON says, and its message is in the log."""
    fixture = _opened(name, tmp_path)
    rows = rows_of(fixture.store / "kvStore", "kvStore")["popState"]
    assert 16 == len(rows)  # 24 popped, 8 acknowledged
    stored = {
        (record.topic, record.fields["queue_id"], record.fields["queue_offset"])
        for record in fixture.records
    }
    for key, value in rows:
        said = json.loads(value)
        time = said["popTime"] + said["invisibleTime"]
        place = (said["topicId"], said["queueId"], said["offset"])
        group, topic = said["groupId"].encode(), said["topicId"].encode()
        assert key == pop_key(time, group, topic, *place[1:])
        assert place in stored


@pytest.fixture(scope="module", params=STORE_NAMES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    """Unpack a store with index, timer and transactions in RocksDB."""
    return _opened(request.param, tmp_path_factory.mktemp("store"))


def _entries(record: Record) -> Iterator[bytes]:
    """Give the keys under which RocksDB indexes a record."""
    values = record.properties
    unique = values.get("UNIQ_KEY")
    if unique is None or record.transaction == SysFlag.TRANSACTION_ROLLBACK_TYPE:
        return
    keys = {key for key in values.get("KEYS", "").split(" ") if key}
    pairs = [(b"U", unique), *((b"K", key) for key in keys)]
    if values.get("TAGS"):
        pairs.append((b"T", values["TAGS"]))
    for kind, key in pairs:
        entry = IndexKey(record.topic.encode(), kind, key.encode(), unique.encode())
        yield rocksdb_store.index_key(entry, record.store_timestamp, record.physical_offset)


def test_index_entries(store: Fixture) -> None:
    """Entries up to lastOffsetPy are those that the records' properties imply."""
    rows = dict(rows_of(store.store / "rocksdbstore", "rocksdbstore")["default"])
    last = int.from_bytes(rows.pop(rocksdb_store.LAST_OFFSET), "big")
    rows.pop(rocksdb_store.LAST_TIME)
    wanted = {
        key: record.store_timestamp.to_bytes(8, "big")
        for record in store.records
        if record.physical_offset <= last
        for key in _entries(record)
    }
    assert len(wanted) > 300
    assert wanted == rows


def test_timers(store: Fixture) -> None:
    """Each timer row is a timer record; each pending timer of the log has its row."""
    rows = dict(rows_of(store.store / "rocksdbstore", "rocksdbstore")["timer"])
    scanned = int.from_bytes(rows.pop(rocksdb_store.TIMER_SCANNED), "big")
    timers = [record for record in store.records if record.topic == "rmq_sys_wheel_timer"]
    assert scanned == len(timers)
    wanted = {}
    delivered = int.from_bytes(rows.pop(rocksdb_store.TIMER_DELIVERED), "big")
    for record in timers:
        time = int(record.properties["TIMER_OUT_MS"])
        key = rocksdb_store.timer_key(time, record.properties["UNIQ_KEY"].encode())
        wanted[key] = record.size.to_bytes(4, "big") + record.physical_offset.to_bytes(8, "big")
    assert rows.items() <= wanted.items()
    pending = {key for key in wanted if int.from_bytes(key[:8], "big") >= delivered}
    assert pending
    assert pending <= {*rows}


def test_halves(store: Fixture) -> None:
    """The rows of `trans` are the half messages without an op message."""
    rows = dict(rows_of(store.store / "rocksdbstore", "rocksdbstore")["trans"])
    last = int.from_bytes(rows.pop(rocksdb_store.LAST_OFFSET), "big")
    halves = [record for record in store.records if record.topic in HALF_TOPICS]
    assert last == max(half.physical_offset for half in halves)
    open_halves = {one["physical_offset"] for one in store.sent if one["outcome"] == "undecided"}
    wanted = {
        half_key(
            half.physical_offset,
            half.properties["REAL_TOPIC"].encode(),
            half.properties["UNIQ_KEY"].encode(),
        ): half
        for half in halves
        if half.physical_offset in open_halves
    }
    assert wanted.keys() == rows.keys()
    for key, value in rows.items():
        row = rocksdb_store.trans_row(key, value)
        assert wanted[key].size == row.values["size"]


CONFIG: Final[dict[str, dict[str, str]]] = {
    "config/topics": {"default": "readQueueNums"},
    "config/subscriptionGroups": {"default": "consumeEnable"},
    "config/consumerOffsets": {"default": "offsetTable"},
    "config/metadata": {
        "topic": "readQueueNums",
        "subscriptionGroup": "consumeEnable",
        "consumerOffset": "offsetTable",
    },
}


def test_config(queues: Fixture) -> None:
    """Rows of topics, groups and offsets name what was made, with the JSON of their kind."""
    found: dict[str, Any] = {}
    for path, directory in databases(queues.store).items():
        for family, expected in CONFIG.get(path, {}).items():
            for key, value in rows_of(directory, path).get(family, []):
                assert expected in json.loads(value)
                found[expected] = {*found.get(expected, ()), key.decode()}
        if path == "config/rdb":
            for key, value in rows_of(directory, path)["default"]:
                row = v2_row(key, value)
                name = row.values.get(row.kind) or row.values.get("group", b"")
                found.setdefault(row.kind, set()).add(name.decode())
    sent = {one["topic"] for one in queues.sent if one["kind"] == "normal"} - {"metadata-auto"}
    if "config/topics" in databases(queues.store) or "config/metadata" in databases(queues.store):
        assert sent <= found["readQueueNums"]
    if "v2" in queues.name:
        assert sent == found["topic"]
        assert {"metadata-by-admin"} == found["group"]
        assert {"metadata-reader", "metadata-slow"} <= found["consumer_offset"]
        # A reset of 5.5.0 swaps group and topic.
        assert (queues.version >= (5, 5)) == ("metadata-orders" in found["consumer_offset"])
