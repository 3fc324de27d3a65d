"""What a broker still has to do: exactly what was sent and not delivered, acknowledged, decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.reads.options import SourceOptions
from rmqtool.reads.plan import tasks
from rmqtool.reads.readers import batches
from rmqtool.reads.tables import SCHEMAS
from rmqtool.rows import rows_of
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.rocksdb import state_of
from tests.stores import broker_conf, fixture_store, sent

if TYPE_CHECKING:
    from pathlib import Path

STORE = "rocketmq-5.5.0-rocksdb-store"
Row = dict[str, Any]


def dumped(root: Path, word: str, outcome: DumpOutcome | None = None) -> list[Row]:
    """Give the rows of a view."""
    (rows,) = dump(DumpOptions((str(root),), word), outcome or DumpOutcome())
    return [dict(row) for chunk in rows for row in rows_of(chunk)]


def executed(root: Path, table: str) -> list[Row]:
    """Give the rows of a table as an executor reads it."""
    options = SourceOptions.of({"path": str(root), "table": table})
    names = SCHEMAS[options.table].names
    found = (batch for task in tasks(options) for batch in batches(task, options, names))
    return [row for batch in found for row in batch.to_pylist()]


def test_timers_in_rocksdb(tmp_path: Path) -> None:
    """The timers that are due in hours wait; those of some seconds were delivered."""
    root = fixture_store(STORE, tmp_path)
    before = state_of(root)
    found = dumped(root, "pending-timers")
    expected = [row for row in sent(STORE) if row["kind"] == "timer"][-4:]
    assert [row["unique_key"] for row in expected] == [row["unique_key"] for row in found]
    assert {"rocksdb"} == {row["waits_in"] for row in found}
    assert [row["queue_id"] for row in expected] == [row["queue_id"] for row in found]
    assert [row["unique_key"] for row in found] == [
        row["unique_key"] for row in executed(root, "pending_timers")
    ]
    assert before == state_of(root)


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_timers_of_the_wheel(version: str, tmp_path: Path) -> None:
    """As many wait as a start counts; each is due later than what was delivered."""
    name = f"rocketmq-{version}-timer"
    root = fixture_store(name, tmp_path)
    found = dumped(root, "pending-timers")
    assert predict(open_store(root, broker_conf(name))).timers == len(found) > 0
    keys = {row["unique_key"] for row in sent(name)}
    assert {row["unique_key"] for row in found} <= keys
    (read,) = executed(root, "pending_timers")[:1]
    assert found[0]["deliver_time"][:19] == read["deliver_time"].isoformat()[:19]


def test_delay_levels(tmp_path: Path) -> None:
    """Messages of the levels of hours wait, in queues of RocksDB, too, as far as it was flushed."""
    name = "rocketmq-5.3.3-rocksdb-crash"
    root = fixture_store(name, tmp_path)
    found = dumped(root, "pending-timers")
    assert {("delay-level", 17)} == {(row["waits_in"], row["delay_level"]) for row in found}
    delayed = [row for row in sent(name) if row["kind"] == "delay"]
    assert len(found) < len(delayed)  # of a broker that was killed
    expected = [row["unique_key"] for row in delayed[: len(found)]]
    assert expected == [row["unique_key"] for row in found]


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_pop(version: str, tmp_path: Path) -> None:
    """Of 24 popped messages 8 were acknowledged."""
    root = fixture_store(f"rocketmq-{version}-rocksdb-pop", tmp_path)
    found = dumped(root, "pop-in-flight")
    assert 16 == len({(row["topic"], row["queue_id"], row["queue_offset"]) for row in found})
    assert all(row["visible_time"] > row["pop_time"] for row in found)
    assert 16 == len(executed(root, "pop_in_flight"))
    largest = max((root / "kvStore").glob("*.log"), key=lambda path: path.stat().st_size)
    tables = sorted((root / "kvStore").glob("*.sst"))
    (tables[0] if tables else largest).unlink()
    outcome = DumpOutcome()
    rows = dumped(root, "pop-in-flight", outcome)
    assert outcome.unread or len(rows) < len(found)


@pytest.mark.parametrize("name", [STORE, "rocketmq-5.3.3-traffic", "rocketmq-4.9.3-traffic"])
def test_undecided(name: str, tmp_path: Path) -> None:
    """Exactly the transactions are undecided for which nobody has decided."""
    found = dumped(fixture_store(name, tmp_path), "undecided-transactions")
    expected = {row["unique_key"] for row in sent(name) if row.get("outcome") == "undecided"}
    assert expected == {row["unique_key"] for row in found} != set()
