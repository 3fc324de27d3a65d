"""Keys of RocksDB families that only tests write: of pops, open half messages, configuration."""

from __future__ import annotations

from rmqtool.formats.rocksdb_config import CONFIG_KEY, CONTROL, IS_DATA, TABLE_PREFIX
from rmqtool.formats.rocksdb_families import POP_TAIL
from rmqtool.formats.rocksdb_store import SEPARATOR


def pop_key(visible_time: int, group: bytes, topic: bytes, queue_id: int, offset: int) -> bytes:
    """Give the key of a message that was popped and not acknowledged."""
    time = visible_time.to_bytes(8, "big", signed=True)
    tail = POP_TAIL.build({"queue_id": queue_id, "separator": SEPARATOR[0], "queue_offset": offset})
    return time + SEPARATOR.join((group, topic, tail))


def half_key(physical_offset: int, topic: bytes, transaction_id: bytes) -> bytes:
    """Give the key of an open half message."""
    offset = physical_offset.to_bytes(8, "big", signed=True)
    return SEPARATOR.join((offset, topic, transaction_id))


def v2_offset_key(table_id: int, group: bytes, topic: bytes, queue_id: int) -> bytes:
    """Give the key of a consumer offset or pull offset of version 2."""
    head = CONFIG_KEY.build(
        {"table_prefix": TABLE_PREFIX, "table_id": table_id, "record_prefix": IS_DATA}
    )
    number = queue_id.to_bytes(4, "big", signed=True)
    return head + _named(group) + CONTROL + _named(topic) + CONTROL + number


def v2_name_key(table_id: int, name: bytes) -> bytes:
    """Give the key of a topic or group of version 2."""
    head = CONFIG_KEY.build(
        {"table_prefix": TABLE_PREFIX, "table_id": table_id, "record_prefix": IS_DATA}
    )
    return head + _named(name)


def _named(name: bytes) -> bytes:
    return len(name).to_bytes(2, "big") + name
