"""Compare `rocksdbstore` with the log: key index, timer messages, open half messages: RI RT RX.

One pass over the records collects what the three families must hold. Of index entries only hashes
are kept, 8 bytes each; which one differs is found in a second look at the family.
Source: MessageRocksDBStorage, IndexRocksDBStore, TimerMessageRocksDBStore,
TransMessageRocksDBStore, 5.4.0 and 5.5.0; observed, 5.5.0.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import HALVES_IN_ROCKSDB, INDEX_IN_ROCKSDB, TIMER_IN_ROCKSDB
from rmqtool.broker.names import CHECK_MAX_TIME_TOPIC, HALF_TOPICS, OP_TOPICS, TIMER_TOPIC
from rmqtool.errors import DamagedDatabase, DecodeError, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_rocksdb import RI_BEHIND, RI_ENTRY, RT_ROW, RT_SCAN, RX_HALF
from rmqtool.formats import rocksdb_store
from rmqtool.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TRANS_OFFSET
from rmqtool.formats.rocksdb_databases import DEFAULT, MESSAGE_STORE
from rmqtool.formats.rocksdb_store import INDEX_TIME, IndexKey, index_key
from rmqtool.machine.arrays import is_in
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.rocksdb.databases import Databases
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.rocksdb_row import RocksdbRow
    from rmqtool.tables.log_records import Record


# Entries of the key index in RocksDB, as the log implies them, a record at a time.
#
# See IndexRocksDBStore#buildIndex, 5.4.0 and 5.5.0; observed, 5.5.0.


INDEXED: Final = frozenset(
    {"physical_offset", "topic", "transaction", "tags", "keys", "unique_key"}
)
ROLLBACK: Final = "rollback"
NOT_INDEXED: Final = "record with keys is not indexed", "records with keys are not indexed"


def index_entries(record: Record) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of each entry of the index that a record has."""
    unique = record["unique_key"]
    if not unique or record["transaction"] == ROLLBACK:
        return
    time = record["store_timestamp"]
    pairs = {(b"U", unique), *((b"K", key) for key in record["keys"] or ())}
    if record["tags"]:
        pairs.add((b"T", record["tags"]))
    for kind, key in pairs:
        entry = IndexKey(record["topic"].encode(), kind, key.encode(), unique.encode())
        yield (
            index_key(entry, time, record["physical_offset"]),
            INDEX_TIME["store_timestamp"].build(time),
        )


def hashes(pairs: Iterable[tuple[bytes, bytes]]) -> npt.NDArray[np.int64]:
    """Give a hash of each row, int64, shape (n,): 8 bytes each, for this process alone."""
    return np.frombuffer(array("q", map(hash, pairs)), np.int64)


def only_in(some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> set[int]:
    """Give the hashes that only the first have."""
    return {*some[~is_in(some, np.sort(others))].tolist()}


WANTED: Final = INDEXED | {"size", "queue_offset", "properties"}
MOST_LISTED: Final = 100
NOTHING: Final = -1  # as far as an index reaches that is not there


@dataclass(slots=True)
class ImpliedRows:
    """What the log implies, up to where each family reaches."""

    # of each index entry, key and value together
    hashes: array[int] = field(default_factory=lambda: array("q"))
    not_reached: int = 0  # records past the reach of the index that have keys
    # physical offset and size of the timer record by its key
    timers: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # queue offset of the timer record by its key
    timer_numbers: dict[bytes, int] = field(default_factory=dict)
    timer_end: int = 0  # queue offset past the last timer record
    # unique keys of timer messages that were recalled
    taken_back: set[str] = field(default_factory=set)
    # transaction ID, real topic and size of each half message, by physical offset
    halves: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    # physical offsets of halves that have an op message
    ended: set[int] = field(default_factory=set)
    # unique keys of halves that were checked too often
    given_up: set[str] = field(default_factory=set)

    def open_halves(self) -> set[int]:
        """Give the physical offsets of half messages that are neither decided nor given up."""
        return {
            offset
            for offset, (unique_key, _, _) in self.halves.items()
            if offset not in self.ended and unique_key not in self.given_up
        }


def check(inspection: Inspection, databases: Databases, facts: LogFacts) -> Iterator[Finding]:
    """Compare the three families with the log, as far as anything was ever written to them."""
    if not facts.is_known:
        return
    if MESSAGE_STORE not in databases.opened:
        yield from _gone(inspection)
        return
    judge = FamilyJudge(inspection, databases, facts.oldest)
    try:
        yield from judge.check()
    except DamagedDatabase as error:
        yield from databases.cannot_read(MESSAGE_STORE, error)


def _gone(inspection: Inspection) -> Iterator[Finding]:
    """Say what is lost with a database that the configuration asks for, and that is not there."""
    broker_conf, version = inspection.store.broker_conf, inspection.scope.version
    has_index, has_timers, has_halves = (
        key.of(broker_conf, version)
        for key in (INDEX_IN_ROCKSDB, TIMER_IN_ROCKSDB, HALVES_IN_ROCKSDB)
    )
    if (
        not (has_index or has_timers or has_halves)
        or inspection.child(MESSAGE_STORE).stat() is not None
    ):
        return
    from rmqtool.tables.log_records import log_records  # few databases are gone

    wanted = ImpliedRows()
    for record in log_records(inspection.store, WANTED, lambda *_: None):  # the pass over it told
        _collect(wanted, record, NOTHING)
    if has_index and wanted.not_reached:
        message = f"the database is gone: {counted(wanted.not_reached, *NOT_INDEXED)}"
        yield finding(RI_ENTRY, At(MESSAGE_STORE), message, expected=wanted.not_reached, actual=0)
    if has_timers and wanted.timers:
        message = "the database is gone, and with it how far the timer's queue was read"
        yield finding(RT_SCAN, At(MESSAGE_STORE), message, expected=wanted.timer_end)
    if has_halves and (count := len(wanted.open_halves())):
        message = f"the database is gone: {count:,} open half messages have no row"
        yield finding(RX_HALF, At(MESSAGE_STORE), message, expected=count, actual=0)


class FamilyJudge:
    """Compares one database with the log."""

    def __init__(self, inspection: Inspection, databases: Databases, oldest: int) -> None:
        self._inspection, self._databases = inspection, databases
        self._database, self._oldest = databases.opened[MESSAGE_STORE], oldest

    def check(self) -> Iterator[Finding]:
        """Read the log once, then judge family by family.

        Raises:
            DamagedDatabase: rows cannot be read.
        """
        timer, trans = self._rows("timer"), self._rows("trans")
        reach = self._database.get(DEFAULT, rocksdb_store.LAST_OFFSET)
        indexed = rocksdb_store.NUMBER["number"].of(reach) if reach else None
        if indexed is None and not timer and not trans:
            return
        from rmqtool.tables.log_records import log_records  # few have keys or timers in RocksDB

        wanted = ImpliedRows()
        inspection = self._inspection
        for record in log_records(inspection.store, WANTED, self._refused):
            _collect(wanted, record, indexed)
        if indexed is not None:
            yield from self._index(wanted, indexed)
        if timer:
            yield from self._timers(wanted, timer)
        if trans:
            yield from self._halves(wanted, trans)

    def _refused(self, path: str, error: UnreadablePath) -> None:
        """Take note of a segment that cannot be read, unless the pass over the log said so."""
        if not self._inspection.is_known_unread(path):
            self._inspection.postpone(self._inspection.unread(path, error))

    def _rows(self, family: str) -> list[RocksdbRow]:
        return self._databases.rows.get(MESSAGE_STORE, {}).get(family, [])

    def _index(self, wanted: ImpliedRows, indexed: int) -> Iterator[Finding]:
        """Compare hashes; where they differ, say which entries are wrong or missing."""
        at = At(MESSAGE_STORE, physical_offset=indexed)
        if wanted.not_reached:
            message = f"{counted(wanted.not_reached, *NOT_INDEXED)} yet"
            yield finding(RI_BEHIND, at, message, actual=indexed)
        there, expected = hashes(self._entries()), np.frombuffer(wanted.hashes, np.int64)
        self._inspection.account.entries += len(there)
        if strange := only_in(there, expected):
            yield from self._strange(strange)
        if missing := only_in(expected, there):
            amount = counted(len(missing), "key of a record has", "keys of records have")
            message = f"{amount} no entry in RocksDB"
            yield finding(
                RI_ENTRY, At(MESSAGE_STORE), message, expected=len(expected), actual=len(there)
            )

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose records the log still has."""
        names = {rocksdb_store.LAST_OFFSET, rocksdb_store.LAST_TIME}
        place = rocksdb_store.INDEX_OFFSET["physical_offset"]
        for batch in self._database.rows(DEFAULT):
            for key, value in batch.items():
                offset = place.of(key, len(key) - rocksdb_store.INDEX_OFFSET.size)
                if key not in names and offset >= self._oldest:
                    yield key, value

    def _strange(self, hashes: set[int]) -> Iterator[Finding]:
        reported = 0
        for key, value in self._entries():
            if hash((key, value)) not in hashes or reported >= MOST_LISTED:
                continue
            reported += 1
            try:
                values = rocksdb_store.index_row(key, value).values
            except DecodeError as error:
                yield self._databases.odd_row(MESSAGE_STORE, DEFAULT, key, error)
                continue
            message = "an entry of the key index is not what the log implies"
            at = At(MESSAGE_STORE, physical_offset=values["physical_offset"])
            name = values.get("key", values["unique_key"]).decode("utf-8", "replace")
            yield finding(RI_ENTRY, at, message, actual=name)

    def _timers(self, wanted: ImpliedRows, rows: list[RocksdbRow]) -> Iterator[Finding]:
        """Judge the rows of timer messages, and how far their queue was read."""
        marks = {row.values["name"]: row.values["number"] for row in rows if row.kind != "timer"}
        scanned = marks.get(rocksdb_store.TIMER_SCANNED)
        delivered = marks.get(rocksdb_store.TIMER_DELIVERED, 0)
        there: set[bytes] = set()
        for row in rows:
            if row.kind != "timer":
                continue
            values = row.values
            key = rocksdb_store.timer_key(values["deliver_time"], values["unique_key"])
            there.add(key)
            place = (values["physical_offset"], values["size"])
            if values["physical_offset"] >= self._oldest and wanted.timers.get(key) != place:
                at = At(MESSAGE_STORE, physical_offset=values["physical_offset"])
                yield finding(RT_ROW, at, "a timer row has no timer message in the log")
        if scanned is None:
            message = "how far the timer's queue was read is missing"
            yield finding(RT_SCAN, At(MESSAGE_STORE), message, expected=wanted.timer_end)
        elif scanned > wanted.timer_end and wanted.timers:
            message = "more of the timer's queue was read than it has"
            yield finding(
                RT_SCAN, At(MESSAGE_STORE), message, expected=wanted.timer_end, actual=scanned
            )
        due = rocksdb_store.DELIVER_TIME["deliver_time"]
        missing = [
            place[0]
            for key, place in wanted.timers.items()
            if key not in there
            and wanted.timer_numbers[key] < (scanned or 0)
            and due.of(key) >= delivered
            and key[due.end :].decode("utf-8", "replace") not in wanted.taken_back
        ]
        if missing:
            message = f"{counted(len(missing), 'timer message')} due later without a row"
            yield finding(RT_ROW, At(MESSAGE_STORE, physical_offset=min(missing)), message)

    def _halves(self, wanted: ImpliedRows, rows: list[RocksdbRow]) -> Iterator[Finding]:
        """Judge the rows of half messages that are not decided."""
        marks = [row.values["number"] for row in rows if row.kind == "checkpoint"]
        last = max(marks, default=-1)
        there = {row.values["physical_offset"] for row in rows if row.kind == "half"}
        still_open = {offset for offset in wanted.open_halves() if offset <= last}
        for offset in sorted(still_open - there)[:MOST_LISTED]:
            message = "an open half message has no row: the broker never asks its producer again"
            yield finding(RX_HALF, At(MESSAGE_STORE, physical_offset=offset), message)
        for offset in sorted(there - still_open)[:MOST_LISTED]:
            if offset >= self._oldest:
                message = "a row has no open half message"
                yield finding(RX_HALF, At(MESSAGE_STORE, physical_offset=offset), message)


def _collect(wanted: ImpliedRows, record: Record, indexed: int | None) -> None:
    topic, offset = record["topic"], record["physical_offset"]
    values = dict(record["properties"] or ())
    if indexed is not None:
        entries = list(index_entries(record))
        if offset <= indexed:
            wanted.hashes.extend(map(hash, entries))
        elif entries:
            wanted.not_reached += 1
    if topic == TIMER_TOPIC:
        _collect_timer(wanted, record, values)
    elif topic in HALF_TOPICS:
        real = values.get(REAL_TOPIC, "")
        wanted.halves[offset] = (record["unique_key"] or "", real, record["size"])
    elif topic in OP_TOPICS and TRANS_OFFSET in values:
        wanted.ended |= {
            int(number) for number in values[TRANS_OFFSET].split(",") if number.isdecimal()
        }
    elif topic == CHECK_MAX_TIME_TOPIC:
        wanted.given_up.add(record["unique_key"] or "")


def _collect_timer(wanted: ImpliedRows, record: Record, values: dict[str, str]) -> None:
    number = record["queue_offset"]
    wanted.timer_end = max(wanted.timer_end, number + 1)
    if (taken := values.get(TIMER_DEL_UNIQKEY)) is not None:
        wanted.taken_back |= {taken, taken.rpartition("+")[2]}
    time = values.get(TIMER_OUT_MS, "")
    if time.isdecimal():
        key = rocksdb_store.timer_key(int(time), (record["unique_key"] or "").encode())
        wanted.timers[key] = (record["physical_offset"], record["size"])
        wanted.timer_numbers[key] = number
