"""Topics, subscription groups and consumer offsets in RocksDB: versions 1 and 2; users and rules.

Version 1 keeps the managers' JSON by name, in a database for each manager or in one; version 2 has
binary keys in one family. What the JSON says is in config_shapes.py.
Source: RocksDBTopicConfigManager, RocksDBSubscriptionGroupManager, RocksDBConsumerOffsetManager,
5.1.4 to 5.5.0; ConfigHelper, ConfigStorage (broker.config.v2), 5.3.2 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int8sb, Int16sb, Int32sb, Int64sb, Struct

from rmqtool.errors import BadLength
from rmqtool.formats.config import parse_object
from rmqtool.formats.layout import Layout
from rmqtool.formats.rocksdb_row import RocksdbRow, RowReader, row

VERSION_KEY: Final = b"kvDataVersionKey"
VERSION_2_KEY: Final = b"data_version"
CONTROL: Final = b"\x01"
TABLE_PREFIX: Final = 1
IS_VERSION, IS_DATA = 1, 2  # record prefix
JSON_SERIALIZATION: Final = b"\x01"
CONSUMER_OFFSET, PULL_OFFSET, TOPIC, GROUP = 1, 2, 3, 4  # table IDs
TABLES: Final = {
    CONSUMER_OFFSET: "consumer_offset",
    PULL_OFFSET: "pull_offset",
    TOPIC: "topic",
    GROUP: "group",
}

CONFIG_KEY: Final = Layout(
    "rocksdb_config_key",
    Struct(
        "table_prefix" / Int8sb * "1",  # 0
        "table_id" / Int16sb * "1 consumer offset, 2 pull offset, 3 topic, 4 group",  # 1
        "record_prefix" / Int8sb * "1 data version, 2 data",  # 3
    ),  # 4
    "config/rdb: begins each key",
)
NAME_LENGTH: Final = Layout(
    "rocksdb_config_name_length",
    Struct("name_length" / Int16sb * "bytes of the name in UTF-8"),  # 2
    "config/rdb: before each name in a key",
)
QUEUE_NUMBER: Final = Layout(
    "rocksdb_config_queue",
    Struct("queue_id" / Int32sb * "queue of the topic"),  # 4
    "config/rdb: ends the key of an offset",
)
CONFIG_VERSION: Final = Layout(
    "rocksdb_config_version",
    Struct(
        "state_version" / Int64sb * "the controller's epoch",  # 0
        "timestamp" / Int64sb * "of the last change, ms since 1970",  # 8
        "counter" / Int64sb * "changes",  # 16
    ),  # 24
    "config/rdb: value of a data version",
)
CONFIG_OFFSET: Final = Layout(
    "rocksdb_config_offset",
    Struct("queue_offset" / Int64sb * "next unit to be consumed"),  # 8
    "config/rdb: value of an offset",
)


def json_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read a row of version 1, of users or of rules: a name, and JSON as text.

    Raises:
        DecodeError: the key is empty, or the value is no JSON object.
    """
    taken, text = RowReader(key, "key"), RowReader(value, "value")
    if not key:
        raise BadLength(path="key", position=0, field="name", reason="it is empty")
    taken.text("name", len(key))
    parse_object(value, path="value")
    text.text("json", len(value))
    return row("version" if key == VERSION_KEY else "entry", taken, text)


def v2_row(key: bytes, value: bytes) -> RocksdbRow:
    """Read a row of version 2. Raises DecodeError: key or value is not of this database."""
    taken, value_reader = RowReader(key, "key"), RowReader(value, "value")
    head = taken.take(CONFIG_KEY)
    table = TABLES.get(head["table_id"])
    if table is None or head["table_prefix"] != TABLE_PREFIX:
        reason = f"prefix {head['table_prefix']}, table {head['table_id']}"
        raise BadLength(path="key", position=0, field="table_id", reason=reason)
    if head["record_prefix"] == IS_VERSION:
        taken.mark("name", VERSION_2_KEY)
        value_reader.take(CONFIG_VERSION)
        return row(f"{table}_version", taken, value_reader)
    if head["record_prefix"] != IS_DATA:
        reason = f"{head['record_prefix']} is neither 1 nor 2"
        raise BadLength(path="key", position=3, field="record_prefix", reason=reason)
    if head["table_id"] in {TOPIC, GROUP}:
        taken.text(table, taken.take(NAME_LENGTH)["name_length"])
        value_reader.mark("serialization", JSON_SERIALIZATION)
        parse_object(value[len(JSON_SERIALIZATION) :], path="value")
        value_reader.text("json", value_reader.left)
    else:
        taken.text("group", taken.take(NAME_LENGTH)["name_length"])
        taken.mark("control", CONTROL)
        taken.text("topic", taken.take(NAME_LENGTH)["name_length"])
        taken.mark("control", CONTROL)
        taken.take(QUEUE_NUMBER)
        value_reader.take(CONFIG_OFFSET)
    return row(table, taken, value_reader)
