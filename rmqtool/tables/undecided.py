"""Undecided transactions: half messages that no op message ends, and that were not given up.

An op message of the usual topics names queue offsets of its queue in its body, one of RocksDB's
topic physical offsets in a property. A half message that the broker asked about is stored again.
Source: TransactionalMessageServiceImpl, TransactionalMessageRocksDBService, 4.9.3 to 5.5.0;
observed, 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rmqtool.broker.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPICS,
    OP_TOPICS,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
)
from rmqtool.formats import properties
from rmqtool.store.segment import SegmentPart
from rmqtool.store.used import marked_followed
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.messages import MessageOptions, batches_of, message_rows, missing_rows
from rmqtool.tables.record_tables import DEFECT
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rows import Row
    from rmqtool.store.tree import Store

Record: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[bool, int, int]  # in RocksDB's topic; queue; number that op messages name
TOPICS: Final = tuple(map(str, (*HALF_TOPICS, *OP_TOPICS, CHECK_MAX_TIME_TOPIC)))
NAMES: Final = (
    *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "unique_key"),
    *("properties", "body", "extent", "code"),
)
HALF_OFFSETS: Final = "TRANS_OFFSET"
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
            one = halves.setdefault(key, HalfMessages(record, record))
            one.last = record
            one.places.append(_place(record))
            keys[one.places[-1]] = key
            continue
        ended = [key] if topic == CHECK_MAX_TIME_TOPIC else map(keys.get, _ended(record))
        for end in ended:
            if end is not None and end in halves:
                for place in halves.pop(end).places:
                    keys.pop(place, None)
    for key, one in halves.items():
        last_properties = dict(one.last["properties"] or ())
        yield {
            "unique_key": key or None,
            "topic": last_properties.get(properties.REAL_TOPIC),
            "producer_group": last_properties.get(GROUP),
            "half_records": len(one.places),
            "first_store_time": one.first["store_time"],
            "last_store_time": one.last["store_time"],
            "last_physical_offset": one.last["physical_offset"],
        }


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
    text = dict(record["properties"] or ()).get(HALF_OFFSETS) if is_rocksdb else record["body"]
    for number in (text or "").split(","):
        if number.strip().isdecimal():
            yield is_rocksdb, 0 if is_rocksdb else record["queue_id"], int(number)


def _records(store: Store) -> Iterator[Record]:
    options = MessageOptions(
        Selection(topics=TOPICS), BodyOptions(BodyMode.TEXT), is_dledger=store.is_dledger
    )
    for log in (store.old_commitlog, store.commitlog):
        for segment in marked_followed(log.segments):
            part = SegmentPart(segment, 0, segment.size)
            if (missing := missing_rows(part, options)) is not None:
                yield from missing.select(NAMES).to_pylist()
            for batch in batches_of(part, options, start=None):
                for rows in message_rows(batch, options, frozenset(NAMES)):
                    yield from rows.select(NAMES).to_pylist()
