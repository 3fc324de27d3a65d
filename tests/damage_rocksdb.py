"""Named damage to RocksDB databases; rows are changed by the library, as another program would."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.formats.rocksdb_config import CONSUMER_OFFSET
from rmqtool.formats.rocksdb_config import TOPIC as CONFIG_TOPIC
from rmqtool.formats.rocksdb_queue import (
    CHECKPOINT_KEY,
    MAX,
    MIN,
    QUEUE_END,
    ROCKSDB_CQ_UNIT,
    offset_key,
    unit_key,
    unit_row,
)
from rmqtool.formats.rocksdb_store import LAST_OFFSET, TIMER_SCANNED
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import FOOTER, check_table
from tests import inflict, rocksdb
from tests.rocksdb_keys import half_key, v2_name_key, v2_offset_key
from tests.stores import fixture_store

if TYPE_CHECKING:
    from collections.abc import Callable

CRASH: Final = "rocketmq-5.5.0-rocksdb-crash"
CLEAN: Final = "rocketmq-5.5.0-rocksdb"
STORE: Final = "rocketmq-5.5.0-rocksdb-store"
OLD_V2: Final = "rocketmq-5.3.3-rocksdb-v2"
V2: Final = "rocketmq-5.5.0-rocksdb-v2"
COMBINED: Final = "rocketmq-5.5.0-rocksdb-combined"
OLD_COMBINED: Final = "rocketmq-5.3.3-rocksdb-combined"
EXPIRED: Final = "rocketmq-5.5.0-rocksdb-expired"
SINGLE: Final = "rocketmq-5.5.0-rocksdb-single"
POP: Final = "rocketmq-5.3.3-rocksdb-pop"
TOPIC: Final = b"rocksdb-orders"
PAIRED: Final = b"combined-orders"
MIDDLE: Final = 20
QUEUES: Final = "consumequeue"
REFUSED: Final = ("RD-META", "RD-OPEN")  # no row is lost, and the library does not open it
ODD_ROW: Final = ("default", b"\xff strange", b"row")


@dataclass(frozen=True, slots=True)
class RocksDamage:
    """One named damage.

    Attributes:
        name: unique in the table; begins with what it does.
        fixture: the store that it is done to.
        inflict: does it.
        codes: of warnings and damage that a validation finds because of it, and no others.
        notes: codes of notes that it finds, too.
        other: of `codes`, those that are found with the severity that is not their usual one.
    """

    name: str
    fixture: str
    inflict: Callable[[Path], None]
    codes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _file(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def inflict_it(store: Path) -> None:
        change(store / QUEUES)

    return inflict_it


def table_of(directory: Path) -> Path:
    """Give the largest table file."""
    return max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)


def manifest_of(directory: Path) -> Path:
    """Give the MANIFEST."""
    return directory / read_manifest(Place.of(directory)).name


def _no_current(directory: Path) -> None:
    (directory / "CURRENT").unlink()


def _no_manifest(directory: Path) -> None:
    manifest_of(directory).unlink()


def _flip_rows(directory: Path) -> None:
    inflict.flip_bits(table_of(directory), 60, 1)


def _add_row(directory: Path) -> None:
    rocksdb.edit(directory, put={b"strange": b"row"})


def _cut_manifest(directory: Path) -> None:
    """Cut the MANIFEST between two edits, before those that add the tables."""
    path = manifest_of(directory)
    raw = path.read_bytes()
    for size in range(len(raw) - 1, 0, -1):
        os.truncate(path, size)
        manifest = read_manifest(Place.of(directory))
        if not manifest.problem and not manifest.tables:
            return
    raise inflict.NotApplicable


def flip_block(name: str, database: str = QUEUES) -> Callable[[Path], None]:
    """Flip a bit of a block that lies somewhere in the largest table."""

    def inflict_it(store: Path) -> None:
        path = table_of(store / database)
        for position in range(0, path.stat().st_size, 20):
            inflict.flip_bits(path, position, 4)
            if any(name in problem.what for problem in check_table(Place.of(path)).problems):
                return
            inflict.flip_bits(path, position, 4)
        raise inflict.NotApplicable

    return inflict_it


def _another_checksum(directory: Path) -> None:
    """Write a type of checksum into the footer that RocksDB does not know."""
    path = table_of(directory)
    inflict.write_at(path, path.stat().st_size - FOOTER.size, b"\x09")


def _pad_footer(directory: Path) -> None:
    path = table_of(directory)
    inflict.write_at(path, path.stat().st_size - FOOTER.size + 40, b"\x01")


def _add_rows(path: str, *rows: tuple[str, bytes, bytes]) -> Callable[[Path], None]:
    """Write rows of no known shape into a database."""

    def inflict_it(store: Path) -> None:
        for family, key, value in rows:
            rocksdb.edit(store / path, family, put={key: value})

    return inflict_it


def _wal_of(store: Path) -> Path:
    logs = (store / "config" / "consumerOffsets").glob("*.log")
    return max(logs, key=lambda path: path.stat().st_size)


def _units(store: Path) -> dict[bytes, bytes]:
    return dict(rocksdb.rows_of(store / QUEUES, QUEUES)["default"])


def _ends(store: Path) -> dict[bytes, bytes]:
    return dict(rocksdb.rows_of(store / QUEUES, QUEUES)["offset"])


def delete_units(*numbers: int, topic: bytes = TOPIC) -> Callable[[Path], None]:
    """Delete some units of queue 0."""
    keys = tuple(unit_key(topic, 0, number) for number in numbers)
    return lambda store: rocksdb.edit(store / QUEUES, delete=keys)


def change_unit(name: str, change: int) -> Callable[[Path], None]:
    """Change a field of a unit in the middle of queue 0."""

    def inflict_it(store: Path) -> None:
        key = unit_key(TOPIC, 0, MIDDLE)
        unit = ROCKSDB_CQ_UNIT.parse(_units(store)[key])
        unit[name] += change
        rocksdb.edit(store / QUEUES, put={key: ROCKSDB_CQ_UNIT.build(unit)})

    return inflict_it


def set_end(
    name: bytes, physical_offset: int, number: int, topic: bytes = TOPIC
) -> Callable[[Path], None]:
    """Write a max or min row of queue 0; negative numbers are added to those of the max row."""

    def inflict_it(store: Path) -> None:
        old = QUEUE_END.parse(_ends(store)[offset_key(topic, 0, MAX)])
        last = number if number >= 0 else old["queue_offset"] + number
        unit = _units(store).get(unit_key(topic, 0, last))
        offset = physical_offset if unit is None else int.from_bytes(unit[:8], "big")
        value = QUEUE_END.build({"physical_offset": offset, "queue_offset": last})
        rocksdb.edit(store / QUEUES, "offset", put={offset_key(topic, 0, name): value})

    return inflict_it


def _empty_queue(store: Path) -> None:
    """Set a queue empty, as a combined store does whose two parts differ."""
    value = QUEUE_END.build({"physical_offset": 0, "queue_offset": 59})
    after = QUEUE_END.build({"physical_offset": 0, "queue_offset": 60})
    rows = {offset_key(TOPIC, 0, MAX): value, offset_key(TOPIC, 0, MIN): after}
    rocksdb.edit(store / QUEUES, "offset", put=rows)


def set_checkpoint(change: int) -> Callable[[Path], None]:
    """Change the end of dispatch."""

    def inflict_it(store: Path) -> None:
        old = int.from_bytes(_ends(store)[CHECKPOINT_KEY], "big")
        value = (old + change).to_bytes(8, "big")
        rocksdb.edit(store / QUEUES, "offset", put={CHECKPOINT_KEY: value})

    return inflict_it


def _truncate(store: Path) -> None:
    """Do what a truncation does: lower CHECKPOINT and one max row by the last record."""
    last = max(_units(store).items(), key=lambda row: row[1][:8])
    place = unit_row(*last).values
    number, queue_id = place["queue_offset"] - 1, place["queue_id"]
    before = _units(store)[unit_key(TOPIC, queue_id, number)]
    value = before[:8] + number.to_bytes(8, "big")
    rocksdb.edit(
        store / QUEUES,
        "offset",
        put={offset_key(TOPIC, queue_id, MAX): value, CHECKPOINT_KEY: last[1][:8]},
    )


def _no_max(store: Path) -> None:
    rocksdb.edit(store / QUEUES, "offset", delete=(offset_key(TOPIC, 0, MAX),))


def _delete_topic_with_queues(store: Path) -> None:
    """Delete a topic as a broker does when it is asked to: rows of its queues, and its own."""
    ends = tuple(key for key in _ends(store) if TOPIC in key)
    rocksdb.edit(store / QUEUES, delete=tuple(key for key in _units(store) if TOPIC in key))
    rocksdb.edit(store / QUEUES, "offset", delete=ends)
    rocksdb.edit(store / "config" / "topics", delete=(TOPIC,))


def _shorten(store: Path) -> None:
    """Take the last unit of a queue away, and lower its max row: the file beside has it."""
    last = QUEUE_END.parse(_ends(store)[offset_key(PAIRED, 0, MAX)])["queue_offset"]
    set_end(MAX, 0, -1, PAIRED)(store)
    delete_units(last, topic=PAIRED)(store)


def _no_database(store: Path) -> None:
    """Delete the database that lies beside queues in files."""
    for path in (store / QUEUES).iterdir():
        if path.is_file():
            path.unlink()


def _no_files(store: Path) -> None:
    """Delete queues in files that a database lies beside."""
    for path in (store / QUEUES).iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _no_first_segment(store: Path) -> None:
    min((store / "commitlog").iterdir()).unlink()


def _edit_store(
    family: str, choose: Callable[[list[tuple[bytes, bytes]]], bytes], value: bytes | None
) -> Callable[[Path], None]:
    """Change or delete one row of rocksdbstore."""

    def inflict_it(store: Path) -> None:
        directory = store / "rocksdbstore"
        key = choose(rocksdb.rows_of(directory, "rocksdbstore")[family])
        if value is None:
            rocksdb.edit(directory, family, delete=(key,))
        else:
            rocksdb.edit(directory, family, put={key: value})

    return inflict_it


def _first_entry(rows: list[tuple[bytes, bytes]]) -> bytes:
    return next(key for key, _ in rows if b"@K@" in key)


def _edit_index(value: bytes | None) -> Callable[[Path], None]:
    return _edit_store("default", _first_entry, value)


def _first_key(rows: list[tuple[bytes, bytes]]) -> bytes:
    return next(key for key, _ in rows if key[:1] == b"\0")


def _last_key(rows: list[tuple[bytes, bytes]]) -> bytes:
    return [key for key, _ in rows if key[:1] == b"\0"][-1]


def _scan_key(_rows: list[tuple[bytes, bytes]]) -> bytes:
    return TIMER_SCANNED


def _lower_index(store: Path) -> None:
    """Lower the reach of the index by a bit: entries past it are strange."""
    rows = rocksdb.rows_of(store / "rocksdbstore", "rocksdbstore")["default"]
    last = int.from_bytes(dict(rows)[LAST_OFFSET], "big") - 1
    value = last.to_bytes(8, "big")
    rocksdb.edit(store / "rocksdbstore", "default", put={LAST_OFFSET: value})


def _add_half(store: Path) -> None:
    rocksdb.edit(store / "rocksdbstore", "trans", put={half_key(0, b"T", b"none"): bytes(8)})


def _delete_topic(store: Path) -> None:
    key = v2_name_key(CONFIG_TOPIC, b"metadata-orders")
    rocksdb.edit(store / "config" / "rdb", delete=(key,))


def _swap_offset(store: Path) -> None:
    """Write an offset as a reset of 5.5.0 does: topic and group swapped."""
    key = v2_offset_key(CONSUMER_OFFSET, b"metadata-orders", b"metadata-slow", 0)
    rocksdb.edit(store / "config" / "rdb", put={key: bytes(8)})


def _lower_min(store: Path) -> None:
    """Write a min row that is not old, and below the first unit of its queue."""
    units = [unit_row(*row).values for row in _units(store).items()]
    start = int(min((store / "commitlog").iterdir()).name)
    alive = [unit for unit in units if unit["physical_offset"] >= start]
    first = min(alive, key=lambda unit: unit["queue_offset"])
    key = offset_key(first["topic"], first["queue_id"], MIN)
    end = {"physical_offset": first["physical_offset"], "queue_offset": first["queue_offset"] - 1}
    rocksdb.edit(store / QUEUES, "offset", put={key: QUEUE_END.build(end)})


def _put_database(store: Path) -> None:
    """Put a database of topics beside the one of all metadata, with a higher counter."""
    with tempfile.TemporaryDirectory() as other:
        from_crash = fixture_store(CRASH, Path(other))
        shutil.copytree(from_crash / "config" / "topics", store / "config" / "topics")
    version = {b"kvDataVersionKey": b'{"counter":999,"stateVersion":0,"timestamp":1}'}
    rocksdb.edit(store / "config" / "topics", "kvDataVersion", put=version)


def _put_json(store: Path) -> None:
    table = {TOPIC.decode(): {"topicName": TOPIC.decode(), "readQueueNums": 2}}
    document = {"dataVersion": {"counter": 99, "timestamp": 1}, "topicConfigTable": table}
    (store / "config" / "topics.json").write_text(json.dumps(document), encoding="utf-8")


DAMAGES: Final = {
    one.name: one
    for one in (
        RocksDamage("remove CURRENT", CLEAN, _file(_no_current), ("RD-OPEN",)),
        RocksDamage(
            "name another MANIFEST",
            CLEAN,
            _file(lambda d: (d / "CURRENT").write_bytes(b"MANIFEST-000099\n")),
            ("RD-OPEN",),
        ),
        RocksDamage("remove MANIFEST", CLEAN, _file(_no_manifest), ("RD-OPEN",)),
        RocksDamage(
            "flip MANIFEST",
            CLEAN,
            _file(lambda d: inflict.flip_bits(manifest_of(d), 40, 1)),
            ("RD-OPEN",),
        ),
        RocksDamage("remove table", CLEAN, _file(lambda d: table_of(d).unlink()), ("RD-OPEN",)),
        RocksDamage(
            "cut table", CLEAN, _file(lambda d: os.truncate(table_of(d), 900)), ("RD-OPEN",)
        ),
        RocksDamage(
            "cut MANIFEST",
            CLEAN,
            _file(_cut_manifest),
            ("RD-ORPHAN", "RQ-BEHIND"),
            other=("RQ-BEHIND",),
        ),
        RocksDamage(
            "tear a flush",
            CLEAN,
            _file(lambda d: (d / "000999.sst").write_bytes(b"half of a table")),
            ("RD-ORPHAN",),
            other=("RD-ORPHAN",),
        ),
        RocksDamage(
            "flip rows",
            CLEAN,
            _file(_flip_rows),
            ("RD-BLOCK",),
        ),
        RocksDamage("flip index", CLEAN, flip_block("of the index"), ("RD-BLOCK",)),
        RocksDamage("flip metaindex", CLEAN, flip_block("of the metaindex"), REFUSED),
        RocksDamage("flip filter", CLEAN, flip_block("filter"), ("RD-META",)),
        RocksDamage("flip properties", CLEAN, flip_block("rocksdb.properties"), REFUSED),
        RocksDamage("pad footer", CLEAN, _file(_pad_footer), ("RD-META",)),
        RocksDamage("flip log", CRASH, lambda s: inflict.flip_bits(_wal_of(s), 20, 1), ("RD-WAL",)),
        RocksDamage("cut log", CRASH, lambda s: os.truncate(_wal_of(s), 100), ("RD-WAL",)),
        RocksDamage(
            "write format 6",
            CLEAN,
            _file(lambda d: rocksdb.edit(d, "offset", put={b"k": b"v"}, table_format=6)),
            ("RD-VERSION", "RD-KEY"),
        ),
        RocksDamage("another checksum", CLEAN, _file(_another_checksum), ("RD-VERSION",)),
        RocksDamage(
            "copy queues",
            CLEAN,
            _file(lambda d: shutil.copytree(d, d.with_name("consumequeue_rocksdb"))),
            ("RD-BOTH",),
        ),
        RocksDamage(
            "add row",
            CLEAN,
            _file(_add_row),
            ("RD-KEY",),
        ),
        RocksDamage(
            "shorten unit",
            CLEAN,
            lambda s: rocksdb.edit(s / QUEUES, put={unit_key(TOPIC, 0, MIDDLE): bytes(20)}),
            ("RD-KEY", "RQ-RANGE"),
        ),
        RocksDamage(
            "add end",
            CLEAN,
            _file(lambda d: rocksdb.edit(d, "offset", put={b"strange": b"row"})),
            ("RD-KEY",),
        ),
        RocksDamage(
            "add unit",
            CLEAN,
            _add_rows(QUEUES, ("default", unit_key(TOPIC, 0, 5)[:-9] + bytes(9), bytes(28))),
            ("RD-KEY",),
        ),
        RocksDamage("add metadata", CRASH, _add_rows("config/topics", ODD_ROW), ("RD-KEY",)),
        RocksDamage("add metadata 2", OLD_V2, _add_rows("config/rdb", ODD_ROW), ("RD-KEY",)),
        RocksDamage("add pop", POP, _add_rows("kvStore", ("popState", *ODD_ROW[1:])), ("RD-KEY",)),
        RocksDamage("lose pop", POP, lambda s: shutil.rmtree(s / "kvStore"), ("RD-GONE",)),
        RocksDamage(
            "add timer, half",
            STORE,
            _add_rows("rocksdbstore", ("timer", *ODD_ROW[1:]), ("trans", *ODD_ROW[1:]), ODD_ROW),
            ("RD-KEY",),
        ),
        RocksDamage("delete unit", CLEAN, delete_units(MIDDLE), ("RQ-RANGE",)),
        RocksDamage("delete units", CLEAN, delete_units(3, 4, 5, 9), ("RQ-RANGE",)),
        RocksDamage("lower max", CLEAN, set_end(MAX, 0, -3), ("RQ-MAX",)),
        RocksDamage("raise max", CLEAN, set_end(MAX, 40000, 70), ("RQ-MAX",)),
        RocksDamage("delete max", CLEAN, _no_max, ("RQ-MAX",)),
        RocksDamage("raise min", CLEAN, set_end(MIN, 0, 5), ("RQ-MIN",), other=("RQ-MIN",)),
        RocksDamage("lower min", EXPIRED, _lower_min, ("RQ-MIN",)),
        RocksDamage("empty queue", CLEAN, _empty_queue, ("RQ-EMPTIED",)),
        RocksDamage("raise CHECKPOINT", CLEAN, set_checkpoint(10_000), ("RQ-CKPT",)),
        RocksDamage(
            "misplace CHECKPOINT",
            CRASH,
            set_checkpoint(-1),
            ("RQ-CKPT", "RQ-BEHIND"),
        ),
        RocksDamage(
            "remove abort",
            CRASH,
            lambda s: (s / "abort").unlink(),
            ("RQ-BEHIND",),
            other=("RQ-BEHIND",),
        ),
        RocksDamage("move unit", CLEAN, change_unit("physical_offset", 8), ("RQ-UNIT",)),
        RocksDamage("retag unit", CLEAN, change_unit("tags_code", 1), ("RQ-UNIT",)),
        RocksDamage("redate unit", CLEAN, change_unit("store_timestamp", 1), ("RQ-UNIT",)),
        RocksDamage(
            "truncate", CLEAN, _truncate, ("RQ-BEHIND",), ("RQ-ABOVE",), other=("RQ-BEHIND",)
        ),
        RocksDamage("shorten queue", COMBINED, _shorten, ("RQ-PAIR", "RQ-RANGE", "RQ-MAX")),
        RocksDamage("remove database", COMBINED, _no_database, ("RQ-PAIR",)),
        RocksDamage(
            "remove database of 5.3", OLD_COMBINED, _no_database, ("RQ-PAIR",), other=("RQ-PAIR",)
        ),
        RocksDamage("remove queue files", COMBINED, _no_files, ("CQ-GAP",)),
        RocksDamage(
            "remove rocksdbstore",
            STORE,
            lambda s: shutil.rmtree(s / "rocksdbstore"),
            ("RI-ENTRY", "RT-SCAN", "RX-HALF"),
        ),
        RocksDamage("delete entry", STORE, _edit_index(None), ("RI-ENTRY",)),
        RocksDamage("redate entry", STORE, _edit_index(bytes(8)), ("RI-ENTRY",)),
        RocksDamage("shorten index", STORE, _lower_index, ("RI-ENTRY",), ("RI-BEHIND",)),
        RocksDamage("delete timer", STORE, _edit_store("timer", _last_key, None), ("RT-ROW",)),
        RocksDamage(
            "misplace timer", STORE, _edit_store("timer", _last_key, b"\0" * 12), ("RT-ROW",)
        ),
        RocksDamage("forget scan", STORE, _edit_store("timer", _scan_key, None), ("RT-SCAN",)),
        RocksDamage(
            "raise scan", STORE, _edit_store("timer", _scan_key, b"\0" * 7 + b"\x7f"), ("RT-SCAN",)
        ),
        RocksDamage("delete half", STORE, _edit_store("trans", _first_key, None), ("RX-HALF",)),
        RocksDamage("add half", STORE, _add_half, ("RX-HALF",)),
        RocksDamage("delete topic", V2, _delete_topic, ("MV-TOPIC",)),
        RocksDamage("swap offset", OLD_V2, _swap_offset, ("MV-SWAP",)),
        RocksDamage("put JSON", CLEAN, _put_json, ("MV-STALE",)),
        RocksDamage("put databases", SINGLE, _put_database, ("MV-STALE",)),
    )
}
EXPIRE: Final = RocksDamage("expire segment", CRASH, _no_first_segment, (), ("RQ-EXPIRED",))
DELETE_TOPIC: Final = RocksDamage(
    "delete topic and its queues", CLEAN, _delete_topic_with_queues, (), ("RQ-RANGE",)
)
