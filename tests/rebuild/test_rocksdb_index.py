"""The key index in RocksDB is rebuilt as a 5.5.0 broker wrote it; timers and halves stay."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import rebuild
from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.findings.catalogue import Severity
from rmqtool.formats.rocksdb_store import LAST_OFFSET
from rmqtool.rebuild.options import StoreType
from rmqtool.repair import undo
from tests import inflict, plain_store
from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.jvm import Jvm
from tests.check.validation import run
from tests.damage_rocksdb import DAMAGES, STORE, table_of
from tests.rocksdb import edit, rows_of, state_of
from tests.stores import broker_conf, fixture_store, manifest, sent

if TYPE_CHECKING:
    from pathlib import Path

INDEX: Final = "rocksdbstore"
HOUR_MS: Final = 3_600_000
STORE_TIME: Final = slice(56, 64)  # of a record with addresses of four bytes
CONF: Final = str(broker_conf(STORE))
MOST: Final = 64
ASKED: Final = 6
HURT: Final = ("delete entry", "redate entry", "shorten index")


@pytest.mark.parametrize("conf", [None, CONF], ids=["alone", "with-conf"])
def test_rows(conf: str | None, tmp_path: Path) -> None:
    """Every row of the three families is the one that the broker wrote; files come with them."""
    store = fixture_store(STORE, tmp_path)
    before = state_of(store)
    result = rebuild.index(store, tmp_path / "new", broker_conf=conf)
    assert before == state_of(store)
    assert frozenset(StoreType) == result.index_types
    own, made = (rows_of(root / INDEX, INDEX) for root in (store, tmp_path / "new"))
    assert own == made
    assert len(own["default"]) - 2 == result.rocksdb_entries
    names = [
        [path.name for path in (root / "index").iterdir()] for root in (store, tmp_path / "new")
    ]
    assert names[0] == names[1]
    assert rebuild.index(store, dry_run=True, broker_conf=conf).rocksdb_entries > MOST


def test_in_place(tmp_path: Path) -> None:
    """A damaged index is found by --check, rebuilt in place, sound then, and can be taken back."""
    store = fixture_store(STORE, tmp_path)
    sound = rows_of(store / INDEX, INDEX)
    assert [] == rebuild.index(store, check=True, broker_conf=CONF).differences
    for name in HURT:
        DAMAGES[name].inflict(store)
        assert rebuild.index(store, check=True, broker_conf=CONF).differences
    hurt = rows_of(store / INDEX, INDEX)
    rebuild.index(store, in_place=True, broker_conf=CONF)
    assert sound == rows_of(store / INDEX, INDEX)
    findings, _, summary = run(store, "full", broker_conf(STORE))
    assert "sound" == summary.verdict, [
        finding for finding in findings if finding.severity is not Severity.NOTE
    ]
    undo(store)
    assert hurt == rows_of(store / INDEX, INDEX)


def test_kept_or_refused(tmp_path: Path) -> None:
    """A database whose timers cannot be read is not replaced: they stand nowhere else."""
    store = fixture_store(STORE, tmp_path)
    inflict.flip_bits(table_of(store / INDEX), 40, 1)
    (store / INDEX / "CURRENT").unlink()
    before = state_of(store / INDEX)
    with pytest.raises(UnreadablePath, match="would be lost"):
        rebuild.index(store, in_place=True, broker_conf=CONF)
    assert before == state_of(store / INDEX)


def test_lost(tmp_path: Path) -> None:
    """A database that the configuration asks for, and that is gone, is made anew in place."""
    store = fixture_store(STORE, tmp_path)
    sound = rows_of(store / INDEX, INDEX)["default"]
    shutil.rmtree(store / INDEX)
    difference = rebuild.index(store, check=True, broker_conf=CONF).differences[-1]
    assert (INDEX, f"{len(sound)} rows") == (difference.path, difference.expected)
    rebuild.index(store, in_place=True, broker_conf=CONF)
    assert sound == rows_of(store / INDEX, INDEX)["default"]
    old = rebuild.index(store, tmp_path / "old", broker_conf=CONF, broker_version="5.3.3")
    assert {StoreType.FILES} == old.index_types  # that release does not know the key


def test_conversion(tmp_path: Path) -> None:
    """`--as` writes one kind; in place it has to be the kind that the broker writes."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    rebuild.index(store, tmp_path / "new", store_type=StoreType.ROCKSDB)
    assert [INDEX] == [path.name for path in (tmp_path / "new").iterdir()]
    rows = rows_of(tmp_path / "new" / INDEX, INDEX)
    assert LAST_OFFSET in dict(rows["default"])
    with pytest.raises(UsageError, match="indexRocksDBEnable"):
        rebuild.index(store, in_place=True, store_type=StoreType.ROCKSDB)


@pytest.mark.broker
def test_real_store(tmp_path: Path) -> None:
    """A real 5.5.0 store answers from the rebuilt index as the log does, by key and unique key."""
    root = fixture_store(STORE, tmp_path)
    entries = rows_of(root / INDEX, INDEX)["default"]
    edit(root / INDEX, delete=tuple(key for key, _ in entries))
    rebuild.index(root, in_place=True, broker_conf=CONF)
    shutil.rmtree(root / "index")  # RocksDB alone can answer
    lines = [line for line in sent(STORE) if line["kind"] == "normal"]
    files = {"indexFileReadEnable": False, "indexFileWriteEnable": False}
    settings = {**manifest(STORE)["settings"], **files, "fileReservedTime": YEARS_IN_HOURS}
    stored = [int.from_bytes(record.raw[STORE_TIME]) for record in plain_store.records(root)]
    around = min(stored) - HOUR_MS, max(stored) + HOUR_MS
    with Jvm("5.5.0", tmp_path / "home") as jvm:
        store = BareStore(jvm, root, settings)
        assert store.load()
        store.start()
        try:
            for line in lines[:: len(lines) // ASKED]:
                for key in (*line["keys"][-1:], line["unique_key"]):
                    keyed = (line for line in lines if key in (*line["keys"], line["unique_key"]))
                    expected = {line["physical_offset"] for line in keyed}
                    assert expected == answer(jvm, store, line["topic"], key, around), key
        finally:
            store.stop()


def answer(jvm: Jvm, store: BareStore, topic: str, key: str, times: tuple[int, int]) -> set[int]:
    """Give the physical offsets that a store answers with.

    Asked for all times, RocksDB looks back for `maxRocksDBIndexQueryDays` from now on: a week.
    """
    result = store.store.queryMessage(topic, key, MOST, *times)
    decoder = jvm.rocketmq("common.message.MessageDecoder")
    offsets = {
        int(decoder.decode(one).getCommitLogOffset()) for one in result.getMessageBufferList()
    }
    result.release()
    return offsets
