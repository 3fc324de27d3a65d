"""`rocksdbstore` at a start: how far it says to be, and what nobody does any more or does twice.

Records past the end of the index come into no index, unless they are handed over again. Half
messages without a row are never checked again, unless recovery hands them over once more. A timer
whose queue is read again delivers what it has delivered.
Source: IndexRocksDBStore, TransMessageRocksDBStore, TimerMessageRocksDBStore, 5.5.0; observed,
5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import TRANSACTION
from rmqtool.broker.names import CHECK_MAX_TIME_TOPIC, HALF_TOPICS, OP_TOPICS
from rmqtool.errors import DamagedDatabase
from rmqtool.formats import properties
from rmqtool.formats.message import SysFlag
from rmqtool.formats.rocksdb_families import DEFAULT
from rmqtool.formats.rocksdb_store import HALF_OFFSET, LAST_OFFSET, NUMBER, TIMER_SCANNED
from rmqtool.startup.census import whole_records
from rmqtool.startup.prediction import FurtherStep
from rmqtool.startup.records import RecordCheck
from rmqtool.startup.timers import TimerCopies
from rmqtool.store.rocksdb import is_rocksdb
from rmqtool.store.rocksdb_database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.rocksdb.model import RocksModel
    from rmqtool.store.tree import Store

PATH: Final = "rocksdbstore"
TRANS, TIMER = "trans", "timer"
OFFSETS_OF_HALVES: Final = "TRANS_OFFSET"  # of an op message


@dataclass(slots=True)
class FurtherRows:
    """What `rocksdbstore` says."""

    halves: set[int] = field(default_factory=set)  # physical offsets of open half messages
    scanned: int = 0  # next queue offset of the timer's queue; 0 without the row
    indexed: int = -1  # physical offset up to which records are in the index; -1 without the row
    problem: str = ""  # why it cannot be read; empty where it can


def read_further(store: Store, model: RocksModel) -> FurtherRows:
    """Read how far index and transactions came, into the model, and what timers and halves say."""
    found, rocksdb_settings = FurtherRows(), model.rocksdb_settings
    place = store.root.child(PATH)
    if not is_rocksdb(place):
        model.further_offsets = (0,) * (rocksdb_settings.has_index + rocksdb_settings.has_halves)
        return found
    try:
        with Database(place, PATH) as database:
            families = [
                *([DEFAULT] if rocksdb_settings.has_index else ()),
                *([TRANS] if rocksdb_settings.has_halves else ()),
            ]
            model.further_offsets = tuple(
                _number(database, family, LAST_OFFSET) for family in families
            )
            found.scanned = _number(database, TIMER, TIMER_SCANNED)
            if database.get(DEFAULT, LAST_OFFSET) is not None:
                found.indexed = _number(database, DEFAULT, LAST_OFFSET)
            for batch in database.rows(TRANS) if rocksdb_settings.has_halves else ():
                found.halves |= {
                    HALF_OFFSET["physical_offset"].of(key)
                    for key in batch.keys
                    if key != LAST_OFFSET and len(key) > HALF_OFFSET.size
                }
    except DamagedDatabase as error:
        # Observed, 5.5.0: a broker starts without it.
        found.problem = error.reason
        model.further_offsets = (0,) * (rocksdb_settings.has_index + rocksdb_settings.has_halves)
    return found


def _number(database: Database, family: str, key: bytes) -> int:
    value = database.get(family, key)
    return int(NUMBER["number"].of(value)) if value and len(value) == NUMBER.size else 0


@dataclass(slots=True)
class HalvesAndTimers:
    """What the log says of halves, timers and keys."""

    # unique key of each half message, by physical offset
    halves: dict[int, str] = field(default_factory=dict)
    # physical offsets of half messages that are decided
    ended: set[int] = field(default_factory=set)
    # unique keys of those that were checked too often
    given_up: set[str] = field(default_factory=set)
    # messages that the timer would take again
    timers: TimerCopies = field(default_factory=TimerCopies)
    handed_over: int = 0  # physical offset from which on records are handed over again
    unindexed: int = 0  # records before that, and past the end of the index, that it ought to have


def further_steps(
    model: RocksModel, rows: FurtherRows, dispatched: int, first: int
) -> Iterator[FurtherStep]:
    """Yield what is forgotten and what is repeated.

    Args:
        model: the store after recovery.
        rows: of `rocksdbstore`.
        dispatched: physical offset up to which nothing is handed over again after a clean stop.
        first: physical offset that recovery began with.

    Raises:
        UnreadablePath: a file of the log may not be read.
    """
    rocksdb_settings = model.rocksdb_settings
    if not (
        rocksdb_settings.has_halves or rocksdb_settings.has_timers or rocksdb_settings.has_index
    ):
        return
    if rows.problem:
        held = [
            name
            for name, is_there in (
                ("the key index", rocksdb_settings.has_index),
                ("timer messages", rocksdb_settings.has_timers),
                ("half messages", rocksdb_settings.has_halves),
            )
            if is_there
        ]
        message = f"the broker starts without {' and '.join(held)}: {PATH} cannot be read"
        yield FurtherStep("without", PATH, message, 0)
        return
    seen = HalvesAndTimers(handed_over=dispatched + 1 if model.stopped_cleanly else first)
    seen.timers.scanned = rows.scanned
    check = RecordCheck(model.rules, model.settings, reads_v2=True)
    for file in model.commitlog.files:
        with file.open() as reader:
            for _, record in whole_records(file, reader, check):
                _see(seen, record, rows)
    forgotten = [
        offset
        for offset, key in seen.halves.items()
        if offset not in seen.ended and key not in seen.given_up and offset not in rows.halves
        and offset < seen.handed_over
    ]  # fmt: skip
    if forgotten and rocksdb_settings.has_halves:
        message = f"{len(forgotten):,} open half messages are never checked again"
        yield FurtherStep("forget", PATH, message, len(forgotten))
    if (count := len(seen.timers.delivered)) and rocksdb_settings.has_timers:
        message = f"{count:,} timer messages are delivered for the second time"
        yield FurtherStep("repeat", PATH, message, count)
    if seen.unindexed and rocksdb_settings.has_index:
        message = f"{seen.unindexed:,} messages are missing in the key index in RocksDB"
        yield FurtherStep("unindexed", PATH, message, seen.unindexed)


def _see(seen: HalvesAndTimers, record: DispatchRequest, rows: FurtherRows) -> None:
    values = record.properties
    key = values.get(properties.UNIQ_KEY, "")
    is_rollback = record.sys_flag & TRANSACTION == SysFlag.TRANSACTION_ROLLBACK_TYPE
    if key and not is_rollback and rows.indexed < record.physical_offset < seen.handed_over:
        seen.unindexed += 1
    seen.timers.see(record)
    if record.topic in HALF_TOPICS:
        seen.halves[record.physical_offset] = key
    elif record.topic in OP_TOPICS:
        offsets = values.get(OFFSETS_OF_HALVES, "").split(",")
        seen.ended |= {int(offset) for offset in offsets if offset.isdecimal()}
    elif record.topic == CHECK_MAX_TIME_TOPIC:
        seen.given_up.add(key)
