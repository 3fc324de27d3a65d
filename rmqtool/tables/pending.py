"""Delayed messages that wait, and popped messages in flight: as rows.

Timers wait in the timer log (found through the wheel), in `rocksdbstore`, or still in the timer's
own queue; messages of a delay level wait in a queue of SCHEDULE_TOPIC_XXXX. What a killed broker
has not dispatched yet is in no queue, and is no row. Pop state of releases without `kvStore` lies
in revive topics, and is not read here.
Source: TimerMessageStore, TimerMessageRocksDBStore, ScheduleMessageService, PopConsumerRecord,
4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from rmqtool.broker.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPICS,
    OP_TOPICS,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_consume_queue import CQ_NOREC
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.findings.registry_rocksdb import RD_KEY, RT_ROW
from rmqtool.findings.registry_state import TL_REF
from rmqtool.formats import config, java, properties
from rmqtool.formats.config_names import DELAYS_JSON
from rmqtool.formats.config_shapes import delay_offsets
from rmqtool.formats.message import decode
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE, POP_STORE
from rmqtool.formats.rocksdb_families import pop_row
from rmqtool.formats.rocksdb_store import NUMBER, TIMER_DELIVERED, TIMER_SCANNED, timer_row
from rmqtool.formats.timer import MAGIC_BITS, MAGIC_DELETE, TIMER_LOG_RECORD
from rmqtool.queues.discovery import Queues
from rmqtool.rows import gap_row, in_chunks
from rmqtool.store.record_heads import LogReader
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.segment import SegmentPart
from rmqtool.store.used import marked_followed, used_bytes
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.messages import MessageOptions, batches_of, message_rows, missing_rows
from rmqtool.tables.record_tables import DEFECT
from rmqtool.tables.selection import Selection
from rmqtool.tables.traces import traces
from rmqtool.tables.views import PENDING_TIMERS, POP_IN_FLIGHT, TRACES, UNDECIDED
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.errors import StoreError
    from rmqtool.rows import Chunk, Row
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store


# Undecided transactions: half messages that no op message ends, and that were not given up.
#
# An op message of the usual topics names queue offsets of its queue in its body, one of RocksDB's
# topic physical offsets in a property. A half message that the broker asked about is stored again.
# See TransactionalMessageServiceImpl, TransactionalMessageRocksDBService, 4.9.3 to 5.5.0;
# observed, 5.5.0.


Record: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[bool, int, int]  # in RocksDB's topic; queue; number that op messages name
TOPICS: Final = tuple(map(str, (*HALF_TOPICS, *OP_TOPICS, CHECK_MAX_TIME_TOPIC)))
NAMES: Final = (
    *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "unique_key"),
    *("properties", "body", "extent", "code"),
)
GROUP: Final = "PGROUP"


@dataclass(slots=True)
class HalfMessages:
    """The records of half messages with one unique key."""

    first: Record  # the oldest record
    last: Record  # the newest record
    places: list[Place] = field(default_factory=list)  # of all of them


def undecided_transactions(store: Store) -> Iterator[Row]:
    """Yield transactions without commit, rollback or end of checks, by their first record.

    Memory holds those that are open while the log is read.

    Raises:
        UnreadablePath: a file of the log cannot be read to its end.
    """
    halves: dict[str, HalfMessages] = {}
    keys: dict[Place, str] = {}
    for record in _records(store):
        if record["extent"] is not None or record["code"] is not None:
            yield _damage(record)
        if record["extent"] is not None:
            continue
        topic, key = record["topic"], record["unique_key"] or ""
        if topic in HALF_TOPICS:
            half = halves.setdefault(key, HalfMessages(record, record))
            half.last = record
            half.places.append(_place(record))
            keys[half.places[-1]] = key
            continue
        ended = [key] if topic == CHECK_MAX_TIME_TOPIC else map(keys.get, _ended(record))
        for end in ended:
            if end is not None and end in halves:
                for place in halves.pop(end).places:
                    keys.pop(place, None)
    for key, half in halves.items():
        last_properties = dict(half.last["properties"] or ())
        yield {
            "unique_key": key or None,
            "topic": last_properties.get(properties.REAL_TOPIC),
            "producer_group": last_properties.get(GROUP),
            "half_records": len(half.places),
            "first_store_time": half.first["store_time"],
            "last_store_time": half.last["store_time"],
            "last_physical_offset": half.last["physical_offset"],
        }


def open_transactions(store: Store) -> Iterator[Row]:
    """Yield the transactions of `undecided_transactions` alone, without the rows of damage."""
    return (
        transaction for transaction in undecided_transactions(store) if "code" not in transaction
    )


def _damage(record: Record) -> Row:
    """Give the row of damage: a transaction that began or ended there is not known."""
    return {
        "topic": record["topic"],
        "last_physical_offset": record["physical_offset"],
        "extent": record["extent"] or DEFECT,
        "code": record["code"],
    }


def _place(record: Record) -> Place:
    if record["topic"] == ROCKSDB_HALF_TOPIC:
        return True, 0, record["physical_offset"]
    return False, record["queue_id"], record["queue_offset"]


def _ended(record: Record) -> Iterator[Place]:
    """Yield the half messages that an op message ends."""
    is_rocksdb = record["topic"] == ROCKSDB_OP_TOPIC
    text = (
        dict(record["properties"] or ()).get(properties.TRANS_OFFSET)
        if is_rocksdb
        else record["body"]
    )
    for number in (text or "").split(","):
        if number.strip().isdecimal():
            yield is_rocksdb, 0 if is_rocksdb else record["queue_id"], int(number)


def _records(store: Store) -> Iterator[Record]:
    options = MessageOptions(Selection(topics=TOPICS), BodyOptions(BodyMode.TEXT))
    for log in (store.old_commitlog, store.commitlog):
        for segment in marked_followed(log.segments):
            part = SegmentPart(segment, 0, segment.size)
            if (missing := missing_rows(part, options)) is not None:
                yield from missing.select(NAMES).to_pylist()
            for batch in batches_of(part, options, start=None):
                for rows in message_rows(batch, options, frozenset(NAMES)):
                    yield from rows.select(NAMES).to_pylist()


Fields: TypeAlias = dict[str, Any]
UNITS_AT_ONCE: Final = 4096


def pending_timers(store: Store) -> Iterator[Row]:
    """Yield delayed messages that were not delivered yet, by where they wait.

    Raises:
        UnreadablePath: a file or a database cannot be read to its end.
    """
    with Queues(store) as queues, LogReader(store.old_commitlog, store.commitlog) as reader:
        waiting = WaitingMessages(store, queues, reader)
        yield from waiting.in_wheel()
        yield from waiting.in_rocksdb()
        yield from waiting.in_timer_queue()
        yield from waiting.in_delay_levels()


class WaitingMessages:
    """Finds delayed messages of one store.

    Args:
        store: whose they are.
        queues: of the store, open.
        reader: of its log, open.
    """

    def __init__(self, store: Store, queues: Queues, reader: LogReader) -> None:
        self._store, self._queues, self._reader = store, queues, reader
        self._taken: list[int] = []  # next unit of the timer's queue, by wheel and RocksDB

    def in_wheel(self) -> Iterator[Row]:
        """Yield timers of the timer log that are due later."""
        try:
            values = self._store.timer_check()
        except DecodeError as error:
            reason = f"config/timercheck: {error.reason}"
            yield gap_row(FS_READ, reason, waits_in="timer-log")
            return
        if values is None:
            return
        until = values["last_read_time_ms"]
        taken_back = {
            self._row("timer-log", offset, size, due, str(TL_REF))["del"]
            for due, offset, size in self._timer_log(until, deletes=True)
        }
        for due, offset, size in self._timer_log(until, deletes=False):
            row = self._row("timer-log", offset, size, due, str(TL_REF))
            if row.get("unique_key") not in taken_back - {None}:
                yield _shown(row)
        self._taken.append(values["last_timer_queue_offset"])

    def _timer_log(self, read_until: int, *, deletes: bool) -> Iterator[tuple[int, int, int]]:
        """Yield time, place and size of timers that are due later, or of what takes them back.

        As a broker reads it: up to the first bad record of each file.
        """
        for segment in self._store.timer_log.segments:
            with segment.open() as file:
                raw = file.read_at(0, used_bytes(file, TIMER_LOG_RECORD.size))
            size = TIMER_LOG_RECORD.size
            records = np.frombuffer(raw, TIMER_LOG_RECORD.dtype, len(raw) // size)
            good = (records["size"] == size) & (records["magic"] & ~MAGIC_BITS == 0)
            records = records[: len(good) if good.all() else int(np.argmin(good))]
            due = records["curr_write_time"].astype(np.int64) + records["delayed_time"]
            is_delete = records["magic"] & MAGIC_DELETE != 0
            for number in np.flatnonzero((due >= read_until) & (is_delete == deletes)).tolist():
                fields = records[number]
                yield int(due[number]), int(fields["physical_offset"]), int(fields["record_size"])

    def in_rocksdb(self) -> Iterator[Row]:
        """Yield timers of `rocksdbstore` that are due later."""
        pop_store = _database(self._store, MESSAGE_STORE)
        if pop_store is None:
            return
        with Database(pop_store.place, pop_store.path) as database:
            marks = (database.get("timer", name) for name in (TIMER_SCANNED, TIMER_DELIVERED))
            scanned, delivered = (NUMBER["number"].of(raw) if raw else None for raw in marks)
            for batch in database.rows("timer") if scanned is not None else ():
                for key, value in batch.items():
                    try:
                        row = timer_row(key, value)
                    except DecodeError as error:
                        yield _odd("rocksdb", error)
                        continue
                    values = row.values
                    if row.kind == "timer" and values["deliver_time"] >= (delivered or 0):
                        place = values["physical_offset"], values["size"]
                        yield _shown(
                            self._row("rocksdb", *place, values["deliver_time"], str(RT_ROW))
                        )
        if scanned is not None:
            self._taken.append(scanned)

    def in_timer_queue(self) -> Iterator[Row]:
        """Yield timers that neither has taken; a broker uses one of both, and it came further."""
        first = max(self._taken, default=None)
        if first is None:
            return  # no timer has run here
        for number, offset, size, _ in self._units(TIMER_TOPIC, 0, first):
            row = self._row("timer-queue", offset, size, None, str(CQ_NOREC))
            yield {**_shown(row), "queue_offset": number}

    def in_delay_levels(self) -> Iterator[Row]:
        """Yield messages of delay levels past what was delivered."""
        delivered = delay_offsets(self._store.config(DELAYS_JSON).document)
        for queue in self._queues.queues_of(SCHEDULE_TOPIC):
            level = queue.queue_id + 1
            first = delivered.get(level) or 0
            for number, offset, size, due in self._units(SCHEDULE_TOPIC, queue.queue_id, first):
                row = self._row("delay-level", offset, size, due, str(CQ_NOREC))
                yield {**_shown(row), "delay_level": level, "queue_offset": number}

    def _units(self, topic: str, queue_id: int, first: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, physical offset, size and tags code of the units of a queue."""
        queue = self._queues.queue(topic, queue_id)
        if queue is None:
            return
        oldest = self._reader.logs[0].start if self._reader.logs else 0
        span = queue.span(oldest)
        for start in range(max(first, span.min_offset), span.max_offset, UNITS_AT_ONCE):
            units = queue.read(start, min(UNITS_AT_ONCE, span.max_offset - start))
            for number, unit in enumerate(units.tolist(), start):
                if unit[1] > 0:
                    yield number, *unit

    def _row(self, waits: str, offset: int, size: int, due: int | None, code: str) -> Fields:
        """Give the row of the message at an offset; without one it says so."""
        row: Fields = {"waits_in": waits, "physical_offset": offset, "size": size}
        row |= {"deliver_time": due, "del": None}
        try:
            message = decode(self._reader.read_at(offset, max(size, 0)))
        except DecodeError as error:
            return gap_row(code, error.reason, **row)
        if message.physical_offset != offset:
            return gap_row(code, "another record is there", **row)
        values = message.properties
        taken_back = values.get(properties.TIMER_DEL_UNIQKEY, "")
        time = values.get(properties.TIMER_OUT_MS, "")
        row["deliver_time"] = int(time) if time.isdecimal() else due
        queue = values.get(properties.REAL_QID, "")
        return row | {
            "topic": values.get(properties.REAL_TOPIC, message.topic),
            "queue_id": int(queue) if queue.isdecimal() else message.queue_id,
            "queue_offset": message.queue_offset,
            "unique_key": values.get(properties.UNIQ_KEY),
            "keys": list(properties.keys(values)),
            "del": taken_back.rpartition("+")[2] or None,
        }


def _shown(row: Fields) -> Fields:
    due = row["deliver_time"]
    shown = {name: value for name, value in row.items() if name != "del"}
    return {**shown, "deliver_time": None if due is None else iso_time(due)}


def pop_in_flight(store: Store) -> Iterator[Row]:
    """Yield messages that were popped and not acknowledged, by when they are visible again.

    Raises:
        DamagedDatabase: after the rows that could be read: there are more.
        EngineMissing: the library that reads it is not installed.
    """
    pop_store = _database(store, POP_STORE)
    if pop_store is None:
        return
    with Database(pop_store.place, pop_store.path) as database:
        for batch in database.rows("popState"):
            for key, value in batch.items():
                try:
                    values = pop_row(key, value).values
                    record_properties = config.parse_object(values["json"], path=pop_store.path)
                except DecodeError as error:
                    yield _odd(None, error)
                    continue
                time = record_properties.get("popTime")
                yield {
                    "topic": java.text(values["topic"]),
                    "group": java.text(values["group"]),
                    "queue_id": values["queue_id"],
                    "queue_offset": values["queue_offset"],
                    "pop_time": iso_time(time) if isinstance(time, int) else None,
                    "visible_time": iso_time(values["visible_time"]),
                    "attempts": record_properties.get("attemptTimes"),
                    "attempt_id": record_properties.get("attemptId"),
                }


def _odd(waits: str | None, error: DecodeError) -> Row:
    return gap_row(str(RD_KEY), error.reason, **({} if waits is None else {"waits_in": waits}))


def _database(store: Store, path: str) -> RocksDb | None:
    databases = (
        database for database in store.rocksdb() if database.path == path and not database.is_empty
    )
    return next(databases, None)


READERS: Final = {
    PENDING_TIMERS: pending_timers,
    POP_IN_FLIGHT: pop_in_flight,
    UNDECIDED: undecided_transactions,
}
"""By the word of `dump --as`. What cannot be read raises, after the rows that could be."""


def pending_chunks(
    word: str,
    stores: Iterable[Store],
    unread: list[StoreError],
    trace_topics: tuple[str, ...] = (),
) -> Iterator[Chunk]:
    """Yield the rows of one kind; what cannot be read to its end is a row more.

    Args:
        word: of `READERS`, or traces.
        stores: whose rows.
        unread: takes what could not be read.
        trace_topics: of traces, besides the usual ones.
    """
    read = partial(traces, topics=trace_topics) if word == TRACES else READERS[word]
    for store in stores:
        try:
            yield from in_chunks(read(store))
        except UnreadablePath as error:
            unread.append(error)
            yield [gap_row(FS_READ, str(error))]
