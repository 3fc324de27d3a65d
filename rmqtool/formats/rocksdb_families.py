"""Which family of which database holds which rows; and the state of pop consumption.

Source: ConsumeQueueRocksDBStorage, ConfigRocksDBStorage, MessageRocksDBStorage,
PopConsumerRocksdbStore, PopConsumerRecord, LocalAuthenticationMetadataProvider, 5.1.4 to 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from construct import Int8sb, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats.layout import Layout
from rmqtool.formats.rocksdb_config import json_row, v2_row
from rmqtool.formats.rocksdb_queue import offset_row, unit_row
from rmqtool.formats.rocksdb_row import RocksdbRow, RowReader, row
from rmqtool.formats.rocksdb_store import index_row, timer_row, trans_row

Families: TypeAlias = dict[str, Callable[[bytes, bytes], RocksdbRow]]
SEPARATOR: Final = b"@"

POP_TIME: Final = Layout(
    "rocksdb_pop_time",
    Struct("visible_time" / Int64sb * "popTime + invisibleTime, ms since 1970"),  # 0
    "kvStore, family popState: begins a key; group@topic@ follows",
)
POP_TAIL: Final = Layout(
    "rocksdb_pop_tail",
    Struct(
        "queue_id" / Int32sb * "queue of the topic",  # 0
        "separator" / Int8sb * "@",  # 4
        "queue_offset" / Int64sb * "of the message",  # 5
    ),  # 13
    "kvStore, family popState: ends a key",
)


def pop_key(visible_time: int, group: bytes, topic: bytes, queue_id: int, offset: int) -> bytes:
    """Give the key of a message that was popped and not acknowledged."""
    time = visible_time.to_bytes(8, "big", signed=True)
    tail = POP_TAIL.build({"queue_id": queue_id, "separator": SEPARATOR[0], "queue_offset": offset})
    return time + SEPARATOR.join((group, topic, tail))


def pop_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read the state of one popped message: its key, and JSON that says the same and more.

    Raises:
        DecodeError: the key is not of this family.
    """
    taken, text = RowReader(key, "key"), RowReader(value, "value")
    taken.take(POP_TIME)
    names = key[POP_TIME.size : len(key) - POP_TAIL.size]
    group, _, topic = names.removesuffix(SEPARATOR).partition(SEPARATOR)
    taken.text("group", len(group))
    taken.mark("separator_topic", SEPARATOR)
    taken.text("topic", len(topic))
    taken.mark("separator_queue_id", SEPARATOR)
    if taken.take(POP_TAIL)["separator"] != SEPARATOR[0]:
        raise BadLength(path="key", position=0, field="separator", reason="expected @")
    text.text("json", len(value))
    return row("pop", taken, text)


DEFAULT: Final = "default"  # the family that each database has
CONFIG_FAMILIES: Final[Families] = {
    DEFAULT: json_row,
    "forbidden": json_row,
    "kvDataVersion": json_row,
}
FAMILIES: Final[dict[str, Families]] = {
    "consumequeue": {DEFAULT: unit_row, "offset": offset_row},
    "consumequeue_rocksdb": {DEFAULT: unit_row, "offset": offset_row},
    "rocksdbstore": {DEFAULT: index_row, "timer": timer_row, "trans": trans_row},
    "kvStore": {"popState": pop_row},
    "config/topics": CONFIG_FAMILIES,
    "config/subscriptionGroups": CONFIG_FAMILIES,
    "config/consumerOffsets": CONFIG_FAMILIES,
    "config/metadata": dict.fromkeys(
        (
            *("topic", "subscriptionGroup", "consumerOffset", "forbidden"),
            *("topicVersion", "subscriptionGroupVersion", "consumerOffsetVersion"),
        ),
        json_row,
    ),
    "config/rdb": {DEFAULT: v2_row},
    "config/users": {DEFAULT: json_row},
    "config/acls": {DEFAULT: json_row},
}
"""By path below the store root, then by family. A family without rows may be missing, and the
default family is there though a database may have no rows in it."""
LONGEST: Final[dict[Callable[[bytes, bytes], RocksdbRow], int]] = {
    json_row: 1 << 20,
    v2_row: 1 << 20,
    pop_row: 1 << 16,
}
LONGEST_OF_OTHERS: Final = 1 << 12  # far above the few numbers that they hold
SECRET: Final = frozenset({"config/users", "config/acls"})  # values hold passwords


def longest_value(path: str, family: str) -> int:
    """Give the bytes that a value may have; what is longer is not read, and said to be so.

    Args:
        path: of the database, below the store root.
        family: of the row.
    """
    read = FAMILIES.get(path, {}).get(family)
    return LONGEST_OF_OTHERS if read is None else LONGEST.get(read, LONGEST_OF_OTHERS)
