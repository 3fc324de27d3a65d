"""Rows of RocksDB databases: all of them, their bytes, and what damage makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqtool.rows import rows_of as rows_of_chunk
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.selection import Selection
from tests.damage_rocksdb import DAMAGES
from tests.rocksdb import NAMES, databases, never_flushed, rows_of, state_of
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING: Final = Selection()
CRASH: Final = "rocketmq-5.5.0-rocksdb-crash"


def dumped(
    path: Path, word: str = "rocksdb", selection: Selection = EVERYTHING, *, is_hex: bool = False
) -> tuple[list[Any], DumpOutcome]:
    """Give all rows of a dump, and how it went."""
    outcome = DumpOutcome()
    asked = DumpOptions((str(path),), word, selection=selection, is_hex=is_hex)
    chunks = [chunk for rows in dump(asked, outcome) for chunk in rows]
    return [row for chunk in chunks for row in rows_of_chunk(chunk)], outcome


@pytest.mark.parametrize("name", NAMES)
def test_all_rows(name: str, tmp_path: Path) -> None:
    """Each row of each database is a row, none is damage, and no file changes."""
    store = fixture_store(name, tmp_path)
    stored = {
        (path, family): len(rows)
        for path, directory in databases(store).items()
        for family, rows in rows_of(directory, path).items()
        if rows
    }
    before = state_of(store)
    found, outcome = dumped(store)
    counts: dict[tuple[str, str], int] = {}
    for row in found:
        place = (row["file"], row["family"])
        counts[place] = counts.get(place, 0) + 1
        assert row.get("code") is None
        assert row["row"]
    assert stored == counts
    assert [] == outcome.unread
    assert before == state_of(store)


def test_bytes(tmp_path: Path) -> None:
    """The hex view has every byte of every key and value, once."""
    store = fixture_store(CRASH, tmp_path)
    stored = rows_of(store / "consumequeue", "consumequeue")
    wanted = sum(len(key) + len(value) for rows in stored.values() for key, value in rows)
    found, _ = dumped(store / "consumequeue", is_hex=True)
    assert wanted == sum(row["length"] for row in found)
    assert all(row["hex"] is None or len(row["hex"].split()) == row["length"] for row in found)


def test_selection(tmp_path: Path) -> None:
    """Topics, queues and queue offsets choose units, in both views of them."""
    store = fixture_store(CRASH, tmp_path)
    wanted = Selection(topics=("rocksdb-orders",), queue_id=2, queue_offsets=(5, 9))
    rows, _ = dumped(store, selection=wanted)
    units, _ = dumped(store, "consume-queue", selection=wanted)
    columns = ("topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code")
    both = [[tuple(row[name] for name in columns) for row in one] for one in (rows, units)]
    assert both[0] == both[1]
    assert [5, 6, 7, 8] == [row["queue_offset"] for row in rows]
    assert {None} == {row["position"] for row in units}


@pytest.mark.parametrize("name", ["rocketmq-5.5.0-rocksdb", CRASH, "never"])
def test_not_flushed(name: str, tmp_path: Path) -> None:
    """What the log has after the last flush is told: from the end of the last unit on."""
    store = fixture_store(CRASH if name == "never" else name, tmp_path)
    if name == "never":
        never_flushed(store / "consumequeue")
    units, outcome = dumped(store, "consume-queue")
    records, _ = dumped(store, "commitlog")
    log_end = max(row["physical_offset"] + row["size"] for row in records)
    end = max((row["physical_offset"] + row["size"] for row in units), default=0)
    wanted = [] if end == log_end else [(end, log_end)]
    assert wanted == outcome.not_flushed
    assert (name == "rocketmq-5.5.0-rocksdb") is (not wanted)


def test_secrets(tmp_path: Path) -> None:
    """Values of users are shown to who asks for that database, and to nobody else."""
    store = fixture_store(CRASH, tmp_path)
    (store / "config" / "topics").rename(store / "config" / "users")
    found, _ = dumped(store)
    hidden = [row for row in found if row["file"] == "config/users" and row.get("row")]
    shown, _ = dumped(store / "config" / "users")
    assert hidden
    assert all("not shown" in row["value"] for row in hidden)
    assert all(isinstance(row["value"], dict) for row in shown if row["family"] == "default")
    lines, _ = dumped(store / "config" / "users", is_hex=True)
    assert all(row["hex"] is None for row in lines if row["field"].startswith("value"))


@pytest.mark.parametrize("name", ["remove table", "flip rows", "remove CURRENT"])
@pytest.mark.parametrize("word", ["rocksdb", "consume-queue"])
def test_damage(name: str, word: str, tmp_path: Path) -> None:
    """Damage is a row and an unread file, never fewer rows in silence."""
    damage = DAMAGES[name]
    store = fixture_store(damage.fixture, tmp_path)
    damage.inflict(store)
    found, outcome = dumped(store, word)
    gaps = [row for row in found if row.get("extent") == "gap"]
    assert ["consumequeue"] == [row["file"] for row in gaps]
    assert ["consumequeue"] == [error.path for error in outcome.unread]


def test_odd_row(tmp_path: Path) -> None:
    """A row of no known shape is shown, with the code of the finding."""
    damage = DAMAGES["add row"]
    store = fixture_store(damage.fixture, tmp_path)
    damage.inflict(store)
    found, _ = dumped(store)
    assert [("RD-KEY", "strange")] == [
        (str(row["code"]), row["name"]) for row in found if row.get("code")
    ]
