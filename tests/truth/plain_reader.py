"""A slow, plain reader: construct only, one record after the other, the rules written out.

It shares the declarations with rmqtool and nothing else: no kernel, no scan, no derive. What it
derives from a commitlog is compared with what the broker wrote, so it may be used to judge both.
It reads sound stores; damage ends it with an exception.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Bytes,
    GreedyBytes,
    IfThenElse,
    Int8sb,
    Int16sb,
    Prefixed,
    Struct,
    Switch,
    this,
)
from construct import Tell as End

from rmqtool.formats import java, properties
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, INVALID_POS
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import BLANK_MAGIC, DLEDGER_BLANK, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_MIDDLES,
    MESSAGE_PREFIX,
    SysFlag,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RECORD: Final = Struct(
    "prefix" / MESSAGE_PREFIX.struct,
    "middle"
    / Switch(
        this.prefix.sys_flag & (SysFlag.BORNHOST_V6_FLAG | SysFlag.STOREHOSTADDRESS_V6_FLAG),
        {
            born_v6 * SysFlag.BORNHOST_V6_FLAG | store_v6 * SysFlag.STOREHOSTADDRESS_V6_FLAG: (
                middle.struct
            )
            for (born_v6, store_v6), middle in MESSAGE_MIDDLES.items()
        },
    ),
    "body" / Bytes(this.middle.body_length),
    "topic"
    / IfThenElse(
        this.prefix.magic_code == MESSAGE_MAGIC_CODE,
        Prefixed(Int8sb, GreedyBytes),
        Prefixed(Int16sb, GreedyBytes),
    ),
    "properties" / Prefixed(Int16sb, GreedyBytes),
    "end" / End,
)
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
LMQ_PREFIX: Final = "%LMQ%"
Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as construct sees it.

    Attributes:
        physical_offset: where it lies; the field of the same name has been found equal.
        raw: all its bytes.
        fields: prefix and middle.
        body: as stored.
        topic: as stored.
        items: names and values of the properties, as stored.
    """

    physical_offset: int
    raw: bytes
    fields: dict[str, Any]
    body: bytes
    topic: str
    items: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return len(self.raw)

    @property
    def properties(self) -> dict[str, str]:
        """Names and values as the broker reads them: the last of equal names wins."""
        return dict(self.items)

    @property
    def own_properties(self) -> dict[str, str]:
        """The same, but the first of equal names wins.

        Brokers from 4.8.0 to 5.3.3 append the properties of a whole batch to those of each of its
        messages; clients of 5.x give the batch a UNIQ_KEY, which then hides the message's own.
        """
        return dict(reversed(self.items))

    @property
    def store_timestamp(self) -> int:
        """When it was stored, ms since 1970."""
        return int(self.fields["store_timestamp"])

    @property
    def transaction(self) -> int:
        """The two bits of the transaction type."""
        return int(self.fields["sys_flag"]) & SysFlag.TRANSACTION_ROLLBACK_TYPE


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides where a record goes besides the record.

    Attributes:
        version: of the broker, as (5, 3, 3).
        delay_seconds: of each delay level, the first being level 1.
        multi_dispatch: whether records also go to the queues that they name.
        batch_topics: topics whose queues have units of 46 bytes.
    """

    version: tuple[int, ...]
    delay_seconds: tuple[int, ...]
    multi_dispatch: bool
    batch_topics: frozenset[str]


def read_log(directory: Path) -> list[Record]:
    """Read all records of a commitlog directory, or of a DLedger data directory, in order."""
    return read_segments(sorted(path for path in directory.iterdir() if path.is_file()))


def read_segments(paths: list[Path]) -> list[Record]:
    """Read all records of these segments, in order."""
    records: list[Record] = []
    for path in paths:
        # Mapped, as a segment of the default geometry is one gigabyte with a few records.
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            records += _segment(raw, int(path.name))
    return records


def _segment(raw: mmap.mmap, start: int) -> Iterator[Record]:
    """Walk one file: records, then a blank to its end, or zeros if nothing follows."""
    position = 0
    while position < len(raw):
        size, magic = BLANK.parse(raw[position : position + BLANK.size]).values()
        if (size, magic) == (0, 0):
            return
        if magic == BLANK_MAGIC_CODE:
            assert size == len(raw) - position, "a blank reaches the end of its file"
            return
        if size in {ENTRY_MAGIC, BLANK_MAGIC} and magic not in _MESSAGE_MAGICS:
            entry_size = _dledger_entry(raw, position, start)
            if not entry_size:
                return
            position += DLEDGER_ENTRY.size
            size = entry_size - DLEDGER_ENTRY.size
        yield _record(raw[position : position + size], start + position)
        position += size


_MESSAGE_MAGICS: Final = {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2}


def _dledger_entry(raw: mmap.mmap, position: int, start: int) -> int:
    """Give the size of a DLedger entry, 0 for a blank."""
    if DLEDGER_BLANK.parse(raw[position : position + DLEDGER_BLANK.size])["magic"] == BLANK_MAGIC:
        return 0
    entry = DLEDGER_ENTRY.parse(raw[position : position + DLEDGER_ENTRY.size])
    assert start + position == entry["pos"]
    assert entry["size"] == DLEDGER_ENTRY.size + entry["body_length"]
    return int(entry["size"])


def _record(raw: bytes, physical_offset: int) -> Record:
    found = RECORD.parse(raw)
    fields = {
        name: value
        for part in (found.prefix, found.middle)
        for name, value in part.items()
        if not name.startswith("_")
    }
    assert len(raw) == found.end == fields["total_size"]
    assert physical_offset == fields["physical_offset"]
    assert java.crc31(found.body) == fields["body_crc"]
    return Record(
        physical_offset,
        raw,
        fields,
        found.body,
        java.text(found.topic),
        tuple(
            (java.text(item.name), java.text(item.value))
            for item in properties.items(found.properties)
            if item.is_kept
        ),
    )


def tags_code(record: Record, rules: Rules) -> int:
    """Give the hash of TAGS, or the deliver time of a delayed record."""
    level = min(int(record.properties.get("DELAY", "0")), len(rules.delay_seconds))
    if record.topic == SCHEDULE_TOPIC and level > 0:
        return record.store_timestamp + 1000 * rules.delay_seconds[level - 1]
    return plain_tags_code(record)


def plain_tags_code(record: Record) -> int:
    """Give the hash of TAGS."""
    return java.string_hash(record.properties.get("TAGS", ""))


def queue_units(records: list[Record], rules: Rules) -> dict[Queue, dict[int, bytes]]:
    """Derive the units of all consume queues: queue offset to 20 bytes."""
    queues: dict[Queue, dict[int, bytes]] = {}
    for record in records:
        if record.transaction in _NOT_DISPATCHED:
            continue
        if record.topic not in rules.batch_topics:
            queue = (record.topic, record.fields["queue_id"])
            offset, code = record.fields["queue_offset"], tags_code(record, rules)
            queues.setdefault(queue, {})[offset] = _unit(record, code)
        for queue, offset in multi_dispatch(record, rules):
            queues.setdefault(queue, {})[offset] = _unit(record, plain_tags_code(record))
    return queues


_NOT_DISPATCHED: Final = {SysFlag.TRANSACTION_PREPARED_TYPE, SysFlag.TRANSACTION_ROLLBACK_TYPE}


def _unit(record: Record, code: int) -> bytes:
    return CQ_UNIT.build(
        {
            "physical_offset": record.physical_offset,
            "size": record.size,
            "tags_code": code,
        }
    )


def multi_dispatch(record: Record, rules: Rules) -> Iterator[tuple[Queue, int]]:
    """Give the light queues that a record names, with its queue offset in each."""
    if not rules.multi_dispatch or record.topic.startswith(_no_multi_dispatch(rules)):
        return
    names = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if "" in names or len(names) != len(offsets):
        return
    for name, offset in zip(names, offsets, strict=True):
        queue_id = 0 if name.startswith(LMQ_PREFIX) else record.fields["queue_id"]
        if "/" not in name:
            yield (name, queue_id), int(offset)


def _no_multi_dispatch(rules: Rules) -> tuple[str, ...]:
    if rules.version < (5,):
        return ("%RETRY%",)
    if rules.version < (5, 5):
        return ("%RETRY%", "rmq_sys_", SCHEDULE_TOPIC)
    return ("%RETRY%", "rmq_sys_", SCHEDULE_TOPIC, "%DLQ%")


def batch_units(records: list[Record], rules: Rules) -> dict[Queue, list[bytes]]:
    """Derive the units of all batch consume queues, in order."""
    queues: dict[Queue, list[bytes]] = {}
    for record in records:
        if record.topic in rules.batch_topics and record.transaction not in _NOT_DISPATCHED:
            unit = _batch_unit(record)
            queues.setdefault((record.topic, record.fields["queue_id"]), []).append(unit)
    return queues


def _batch_unit(record: Record) -> bytes:
    base = record.properties.get("INNER_BASE", record.fields["queue_offset"])
    return BATCH_CQ_UNIT.build(
        {
            "physical_offset": record.physical_offset,
            "size": record.size,
            "tags_code": plain_tags_code(record),
            "store_timestamp": record.store_timestamp,
            "msg_base_offset": int(base),
            "batch_size": int(record.properties.get("INNER_NUM", "1")),
            "compacted_offset": INVALID_POS,
            "reserved": 0,
        }
    )


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the key index before it has a place.

    Attributes:
        key_hash: of topic, `#`, key.
        physical_offset: of the record.
        store_timestamp: of the record, ms since 1970.
    """

    key_hash: int
    physical_offset: int
    store_timestamp: int


def index_keys(records: list[Record], rules: Rules) -> Iterator[Key]:
    """Derive the entries of the key index, in dispatch order."""
    for record in records:
        if record.transaction != SysFlag.TRANSACTION_ROLLBACK_TYPE:
            for key in _record_keys(record.properties, rules):
                hashed = java.key_hash(record.topic, key)
                yield Key(hashed, record.physical_offset, record.store_timestamp)


def _record_keys(values: Mapping[str, str], rules: Rules) -> Iterator[str]:
    if unique_key := values.get("UNIQ_KEY"):
        yield unique_key
    yield from (key for key in values.get("KEYS", "").split(" ") if key)
    if rules.version >= (5, 4) and "TAGS" in values:
        yield f"T#{values['TAGS']}"
