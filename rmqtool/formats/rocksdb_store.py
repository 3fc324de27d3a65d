"""`rocksdbstore`: key index, timer messages and open transactions, 5.4.0 on.

Source: MessageRocksDBStorage, IndexRocksDBRecord, TimerRocksDBRecord, TransRocksDBRecord, 5.4.0 and
5.5.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from construct import Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats.layout import Layout
from rmqtool.formats.rocksdb_row import RocksdbRow, RowReader, row

SEPARATOR: Final = b"@"  # not escaped: names may hold it
LAST_OFFSET: Final = b"lastOffsetPy"
LAST_TIME: Final = b"lastStoreTimeStamp"
TIMER_SCANNED: Final = b"sys_topic_scan_offset_checkpoint"
TIMER_DELIVERED: Final = b"timeline_checkpoint"
HOUR_MS: Final = 3_600_000
KEY_KINDS: Final = {b"K": "key", b"T": "tags", b"U": "unique_key"}

HOUR: Final = Layout(
    "rocksdb_index_hour",
    Struct("hour" / Int64sb * "store time of the record, floored to the hour, ms since 1970"),
    "rocksdbstore, family default: begins a key; @topic@kind@key@... follows",
)
INDEX_OFFSET: Final = Layout(
    "rocksdb_index_offset",
    Struct("physical_offset" / Int64sb * "commitlog offset of the record, bytes"),
    "rocksdbstore, family default: ends a key",
)
INDEX_TIME: Final = Layout(
    "rocksdb_index_time",
    Struct("store_timestamp" / Int64sb * "of the record, ms since 1970"),
    "rocksdbstore, family default: value of an entry",
)
NUMBER: Final = Layout(
    "rocksdb_number",
    Struct("number" / Int64sb * "type of the key"),
    "rocksdbstore: value of lastOffsetPy, lastStoreTimeStamp and the timer's two checkpoints",
)
DELIVER_TIME: Final = Layout(
    "rocksdb_timer_time",
    Struct("deliver_time" / Int64sb * "TIMER_OUT_MS, ms since 1970"),
    "rocksdbstore, family timer: begins a key; the unique key of the message follows",
)
TIMER_VALUE: Final = Layout(
    "rocksdb_timer",
    Struct(
        "size" / Int32sb * "total size of the timer record, bytes",  # 0
        "physical_offset" / Int64sb * "commitlog offset of the timer record, bytes",  # 4
    ),  # 12
    "rocksdbstore, family timer: value",
)
HALF_OFFSET: Final = Layout(
    "rocksdb_half_offset",
    Struct("physical_offset" / Int64sb * "commitlog offset of the half record, bytes"),
    "rocksdbstore, family trans: begins a key; @topic@transaction ID follows",
)
HALF_VALUE: Final = Layout(
    "rocksdb_half",
    Struct(
        "check_times" / Int32sb * "how often the broker asked the producer",  # 0
        "size" / Int32sb * "total size of the half record, bytes",  # 4
    ),  # 8
    "rocksdbstore, family trans: value of an open half message",
)


class IndexKey(NamedTuple):
    """One key of one record."""

    topic: bytes  # of the record
    kind: bytes  # `K` a key, `T` the tags, `U` the unique key alone
    key: bytes  # the key or the tags; of `U` the unique key
    unique_key: bytes  # of the message; of `U` the same as `key`


def index_key(entry: IndexKey, store_timestamp: int, physical_offset: int) -> bytes:
    """Give the key under which RocksDB indexes a record."""
    parts = [b"", entry.topic, entry.kind, entry.key, b""]
    if entry.kind != b"U":
        parts.insert(4, entry.unique_key)
    hour = store_timestamp // HOUR_MS * HOUR_MS
    numbers = (hour, physical_offset)
    first, last = (number.to_bytes(8, "big", signed=True) for number in numbers)
    return first + SEPARATOR.join(parts) + last


def timer_key(deliver_time: int, unique_key: bytes) -> bytes:
    """Give the key of a timer message."""
    return deliver_time.to_bytes(8, "big", signed=True) + unique_key


def index_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read an entry of the key index, or how far it reaches.

    A topic or key that holds the separator and the letter of a kind cannot be told apart: the
    first separator that fits ends the topic, as no topic of a client may hold one.

    Raises:
        DecodeError: key or value is not of this family.
    """
    if key in {LAST_OFFSET, LAST_TIME}:
        return _number_row(key, value)
    taken, time = RowReader(key, "key"), RowReader(value, "value")
    taken.take(HOUR)
    taken.mark("separator", SEPARATOR)
    text = key[HOUR.size + 1 : len(key) - INDEX_OFFSET.size]
    entry = _split(text)
    taken.text("topic", len(entry.topic))
    taken.mark("separator", SEPARATOR)
    taken.text("kind", 1)
    taken.mark("separator", SEPARATOR)
    if entry.kind != b"U":
        taken.text("key", len(entry.key))
        taken.mark("separator", SEPARATOR)
    taken.text("unique_key", len(entry.unique_key))
    taken.mark("separator", SEPARATOR)
    taken.take(INDEX_OFFSET)
    time.take(INDEX_TIME)
    return row(KEY_KINDS[entry.kind], taken, time)


def is_index_row(key: bytes, value: bytes) -> bool:
    """Say whether a row is an entry of the index, or how far it reaches; see `index_row`."""
    if len(value) != NUMBER.size:
        return False
    if key in {LAST_OFFSET, LAST_TIME}:
        return True
    text = key[HOUR.size : -INDEX_OFFSET.size]
    parts = text.split(SEPARATOR, 3)
    return (
        len(parts) == 4  # noqa: PLR2004 - nothing, topic, kind, and the rest
        and not parts[0]
        and parts[2] in KEY_KINDS
        and text.endswith(SEPARATOR)
        and (parts[3].count(SEPARATOR) > 1 or parts[2] == b"U")
    )


def timer_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read a timer message, or one of the timer's checkpoints.

    Raises:
        DecodeError: key or value is not of this family.
    """
    if key in {TIMER_SCANNED, TIMER_DELIVERED}:
        return _number_row(key, value)
    taken, timer = RowReader(key, "key"), RowReader(value, "value")
    taken.take(DELIVER_TIME)
    taken.text("unique_key", taken.left)
    timer.take(TIMER_VALUE)
    return row("timer", taken, timer)


def trans_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read an open half message, or how far half messages were taken.

    Raises:
        DecodeError: key or value is not of this family.
    """
    if key == LAST_OFFSET:
        return _number_row(key, value)
    taken, half = RowReader(key, "key"), RowReader(value, "value")
    taken.take(HALF_OFFSET)
    taken.mark("separator", SEPARATOR)
    topic, separator, _ = key[HALF_OFFSET.size + 1 :].partition(SEPARATOR)
    taken.text("topic", len(topic))
    taken.mark("separator", separator or SEPARATOR)
    taken.text("transaction_id", taken.left)
    half.take(HALF_VALUE)
    return row("half", taken, half)


def _number_row(key: bytes, value: bytes) -> RocksdbRow:
    taken, number = RowReader(key, "key"), RowReader(value, "value")
    taken.text("name", len(key))
    number.take(NUMBER)
    return row("checkpoint", taken, number)


def _split(text: bytes) -> IndexKey:
    """Take `topic@kind@...@` apart. Raises BadLength: it is not of that form."""
    if text.endswith(SEPARATOR):
        topic, _, rest = text[:-1].partition(SEPARATOR)
        kind, _, rest = rest.partition(SEPARATOR)
        key, separator, unique_key = rest.rpartition(SEPARATOR)
        if kind == b"U" and rest:
            return IndexKey(topic, kind, rest, rest)
        if kind in KEY_KINDS and separator:
            return IndexKey(topic, kind, key, unique_key)
    reason = "neither @topic@K@key@uniqueID@, @topic@T@tags@uniqueID@ nor @topic@U@uniqueID@"
    raise BadLength(path="key", position=HOUR.size, field="text", reason=reason)
