"""Consume queues in RocksDB: a row a unit, and how far each queue reaches.

Keys sort by the *length* of the topic first, so that a queue is one contiguous range of keys.
Source: RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int8sb, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats.layout import Layout
from rmqtool.formats.rocksdb_row import RocksdbRow, RowReader, row

CONTROL: Final = b"\x01"  # between the parts of a key
RANGE_BEGIN, RANGE_END = b"\x00", b"\x02"  # in its place: before and past all units of a queue
MAX, MIN = b"max", b"min"
CHECKPOINT_TOPIC: Final = b"CHECKPOINT_TOPIC"

CQ_KEY_HEAD: Final = Layout(
    "rocksdb_queue_key_head",
    Struct(
        "topic_length" / Int32sb * "bytes of the topic in UTF-8",  # 0
        "control" / Int8sb * "1",  # 4
    ),  # 5
    "consumequeue, families default and offset: begins each key; the topic follows",
)
CQ_KEY_TAIL: Final = Layout(
    "rocksdb_queue_key_tail",
    Struct(
        "control_queue_id" / Int8sb * "1",  #  0
        "queue_id" / Int32sb * "queue of the topic",  #  1
        "control_queue_offset" / Int8sb * "1",  #  5
        "queue_offset" / Int64sb * "place of the unit in its queue",  #  6
    ),  # 14
    "consumequeue, family default: ends a key",
)
ROCKSDB_CQ_UNIT: Final = Layout(
    "rocksdb_queue_unit",
    Struct(
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  #  0
        "size" / Int32sb * "total size of the record, bytes",  #  8
        "tags_code" / Int64sb * "hash of TAGS, or deliver time in ms",  # 12
        "store_timestamp" / Int64sb * "of the record, ms since 1970",  # 20
    ),  # 28; the first 20 bytes are those of a unit in a file
    "consumequeue, family default: value, one unit",
)
OFFSET_KEY_TAIL: Final = Layout(
    "rocksdb_queue_offset_key_tail",
    Struct(
        "control_queue_id" / Int8sb * "1",  # 0
        "queue_id" / Int32sb * "queue of the topic",  # 1
    ),  # 5
    "consumequeue, family offset: ends a key, past the topic, 1, and max or min",
)
QUEUE_END: Final = Layout(
    "rocksdb_queue_end",
    Struct(
        "physical_offset" / Int64sb * "of its record, bytes",  # 0
        "queue_offset" / Int64sb * "of the last unit (max), or of the first one (min)",  # 8
    ),  # 16
    "consumequeue, family offset: value of max and min; both are inclusive",
)
DISPATCHED: Final = Layout(
    "rocksdb_dispatched",
    Struct("dispatched" / Int64sb * "physical offset past the last dispatched record"),  # 8
    "consumequeue, family offset: value of the row of CHECKPOINT_TOPIC",
)


def queue_prefix(topic: bytes, queue_id: int, control: bytes = CONTROL) -> bytes:
    """Give what all keys of a queue begin with; RANGE_BEGIN and RANGE_END for bounds of it."""
    length = len(topic).to_bytes(4, "big")
    number = queue_id.to_bytes(4, "big", signed=True)
    return length + CONTROL + topic + CONTROL + number + control


def unit_key(topic: bytes, queue_id: int, queue_offset: int) -> bytes:
    """Give the key of a unit: 19 bytes and the topic."""
    return queue_prefix(topic, queue_id) + queue_offset.to_bytes(8, "big", signed=True)


def queue_offset_of(key: bytes) -> int:
    """Give the queue offset with which the key of a unit ends."""
    return CQ_KEY_TAIL["queue_offset"].of(key, len(key) - CQ_KEY_TAIL.size)


def queue_of_unit(key: bytes, value: bytes) -> tuple[bytes, int]:
    """Give topic and number of the queue that a unit is of.

    Raises:
        DecodeError: key or value is not of this family.
    """
    topic, number = key[CQ_KEY_HEAD.size : -CQ_KEY_TAIL.size], key[_UNIT_QUEUE_ID]
    queue_id = int.from_bytes(number, "big", signed=True)
    if len(value) == ROCKSDB_CQ_UNIT.size and key[:_UNIT_NUMBER] == queue_prefix(topic, queue_id):
        return topic, queue_id
    values = unit_row(key, value).values  # says what is wrong
    return values["topic"], values["queue_id"]


_UNIT_NUMBER: Final = CQ_KEY_TAIL["queue_offset"].position - CQ_KEY_TAIL.size
_UNIT_QUEUE_ID: Final = slice(
    CQ_KEY_TAIL["queue_id"].position - CQ_KEY_TAIL.size,
    CQ_KEY_TAIL["control_queue_offset"].position - CQ_KEY_TAIL.size,
)


def queue_end_of(key: bytes, value: bytes) -> tuple[bytes, int, bytes, tuple[int, int]] | None:
    """Read a row of `max` or `min`; None for that of the end of dispatch.

    Returns:
        Topic and number of the queue, which row it is, physical offset and queue offset.

    Raises:
        DecodeError: key or value is not of this family.
    """
    topic, name = key[CQ_KEY_HEAD.size : -_END_TAIL], key[1 - _END_TAIL : -OFFSET_KEY_TAIL.size]
    queue_id = int.from_bytes(key[-4:], "big", signed=True)
    is_plain = key == offset_key(topic, queue_id, name) and key != CHECKPOINT_KEY
    if is_plain and name in {MAX, MIN} and len(value) == QUEUE_END.size:
        return topic, queue_id, name, QUEUE_END.packer.unpack(value)
    end = offset_row(key, value)  # says what is wrong
    if end.kind == "checkpoint":
        return None
    topic, queue_id, *offsets = (
        end.values[field] for field in ("topic", "queue_id", "physical_offset", "queue_offset")
    )
    return topic, queue_id, end.kind.encode(), (offsets[0], offsets[1])


_END_TAIL: Final = 1 + len(MAX) + OFFSET_KEY_TAIL.size  # bytes past the topic


def offset_key(topic: bytes, queue_id: int, name: bytes) -> bytes:
    """Give the key of a `max` or `min` row: 14 bytes and the topic."""
    length = len(topic).to_bytes(4, "big")
    number = queue_id.to_bytes(4, "big", signed=True)
    return length + CONTROL + topic + CONTROL + name + CONTROL + number


CHECKPOINT_KEY: Final = offset_key(CHECKPOINT_TOPIC, 0, MAX)


def unit_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read one unit. Raises DecodeError: key or value is not of this family."""
    taken, unit = RowReader(key, "key"), RowReader(value, "value")
    _take_topic(taken)
    _take_controlled(taken, CQ_KEY_TAIL)
    unit.take(ROCKSDB_CQ_UNIT)
    return row("unit", taken, unit)


def offset_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read one row of `max`, `min` or the end of dispatch.

    Raises:
        DecodeError: key or value is not of this family.
    """
    taken, end = RowReader(key, "key"), RowReader(value, "value")
    _take_topic(taken)
    taken.mark("control_name", CONTROL)
    name = taken.text("name", len(MAX))
    if name not in {MAX, MIN}:
        raise BadLength(path="key", position=0, field="name", reason=f"{name!r}: not max or min")
    _take_controlled(taken, OFFSET_KEY_TAIL)
    if key == CHECKPOINT_KEY:
        end.take(DISPATCHED)
        return row("checkpoint", taken, end)
    end.take(QUEUE_END)
    return row(name.decode(), taken, end)


def _take_topic(key: RowReader) -> None:
    key.text("topic", _take_controlled(key, CQ_KEY_HEAD)["topic_length"])


def _take_controlled(key: RowReader, layout: Layout) -> dict[str, int]:
    """Take a fixed part whose control bytes must all be 1."""
    values = key.take(layout)
    for name, value in values.items():
        if name.startswith("control") and value != 1:
            raise BadLength(path="key", position=0, field=name, reason=f"{value}, expected 1")
    return values
