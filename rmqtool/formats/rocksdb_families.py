"""What reads the rows of which family of which database; and the state of pop consumption.

Source: PopConsumerRocksdbStore, PopConsumerRecord, 5.3.2 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from construct import Int8sb, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats.layout import Layout
from rmqtool.formats.rocksdb_config import json_row, v2_row
from rmqtool.formats.rocksdb_databases import DATABASES
from rmqtool.formats.rocksdb_queue import offset_row, unit_row
from rmqtool.formats.rocksdb_row import RocksdbRow, RowReader, row
from rmqtool.formats.rocksdb_store import index_row, timer_row, trans_row

if TYPE_CHECKING:
    from collections.abc import Callable

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


READERS: Final[dict[str, Callable[[bytes, bytes], RocksdbRow]]] = {
    "unit": unit_row,
    "offset": offset_row,
    "index": index_row,
    "timer": timer_row,
    "trans": trans_row,
    "pop": pop_row,
    "json": json_row,
    "v2": v2_row,
}
"""By the name that `rocksdb_databases` gives them."""
LONGEST: Final = {"json": 1 << 20, "v2": 1 << 20, "pop": 1 << 16}
LONGEST_OF_OTHERS: Final = 1 << 12  # far above the few numbers that they hold


def reader_of(path: str, family: str) -> Callable[[bytes, bytes], RocksdbRow] | None:
    """Give what reads the rows of a family; None where RocketMQ writes none.

    Args:
        path: of the database, below the store root.
        family: of the row.
    """
    return READERS.get(_kind(path, family))


def longest_value(path: str, family: str) -> int:
    """Give the bytes that a value may have; what is longer is not read, and said to be so."""
    return LONGEST.get(_kind(path, family), LONGEST_OF_OTHERS)


def _kind(path: str, family: str) -> str:
    return DATABASES[path].families.get(family, "") if path in DATABASES else ""
