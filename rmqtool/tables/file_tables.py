"""The tables of small files, declared: a row for a file, or for each thing that it holds.

A column that a file stores has the name and the meaning of the field in its layout; beside a time
in ms stands the same time as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.checkpoint import CHECKPOINT as CHECKPOINT_LAYOUT
from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.formats.dledger import DLEDGER_ENTRY as DLEDGER_ENTRY_LAYOUT
from rmqtool.formats.index import INDEX_HEADER as INDEX_HEADER_LAYOUT
from rmqtool.formats.tiered_index import TIERED_INDEX_HEADER as TIERED_INDEX_HEADER_LAYOUT
from rmqtool.formats.timer import TIMER_CHECK as TIMER_CHECK_LAYOUT
from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.unit_tables import CONSUME_QUEUE, FILE, column_of, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.layout import Layout

TIMES: Final = ("timestamp", "_time_ms")  # how the names of fields end that hold a time

POSITION: Final = Column(
    "position", Type.INT64, "where the damage begins", "bytes", is_optional=True
)
DAMAGE: Final = (
    POSITION,
    CONSUME_QUEUE["extent"]._replace(
        meaning="gap, where something cannot be read; finding, for a defect of a file"
    ),
    CONSUME_QUEUE["code"],
    Column("reason", Type.TEXT, "why it cannot be read", is_optional=True),
)
PLACE: Final = (POSITION._replace(meaning="first byte in the file"), *DAMAGE[1:])


def time_name(name: str) -> str:
    """Give the name of the column that holds a time as text."""
    return name.removesuffix("_ms").replace("timestamp", "time")


def _with_times(layout: Layout) -> Iterator[Column]:
    for field in layout.fields:
        column = column_of(field)
        yield column
        if field.name.endswith(TIMES):
            yield Column(time_name(field.name), Type.TIME, column.meaning)


def _file_table(name: str, meaning: str, *columns: Column, place: bool = False) -> Table:
    return Table(name, meaning, (FILE, *columns, *(PLACE if place else DAMAGE)))


CHECKPOINT: Final = _file_table(
    "checkpoint", "the checkpoint of a store", *_with_times(CHECKPOINT_LAYOUT)
)
TIMER_CHECK: Final = _file_table(
    "timer-check", "the progress of the timer", *_with_times(TIMER_CHECK_LAYOUT)
)
INDEX_HEADER: Final = _file_table(
    "index-header",
    "the header of a key index file",
    *_with_times(INDEX_HEADER_LAYOUT),
    Column("slots", Type.INT64, "hash slots that the file has", aliases=("maxHashSlotNum",)),
    Column("entries", Type.INT64, "entries that the file has room for", aliases=("maxIndexNum",)),
)
TIERED_INDEX_HEADER: Final = _file_table(
    "tiered-index-header",
    "the header of a tiered index file",
    *_with_times(TIERED_INDEX_HEADER_LAYOUT),
)
TEXT: Final = _file_table(
    "text",
    "a file of text",
    Column("size", Type.INT64, "length of the file", "bytes"),
    Column("text", Type.RAW, "value in the file"),
)
EPOCH: Final = _file_table(
    "epoch",
    "an epoch of a controller's master",
    Column("number", Type.INT64, "number of the row, from 0 on"),
    Column("epoch", Type.INT64, "number of the epoch"),
    Column("start_offset", Type.INT64, "physical offset where the epoch begins", "bytes"),
    Column("crc", Type.INT64, "checksum as stored, 0 where none is stored"),
    Column("crc_found", Type.INT64, "checksum as computed"),
)
IDENTITY: Final = _file_table(
    "broker-identity",
    "who the broker is to its controller",
    Column("cluster_name", Type.TEXT, "name of the cluster", aliases=("clusterName",)),
    Column("broker_name", Type.TEXT, "name of the broker", aliases=("brokerName",)),
    Column("broker_id", Type.INT64, "ID of the broker, 0 for a master", aliases=("brokerId",)),
    Column("check_code", Type.TEXT, "code that proves a registration, where there is one"),
)
CONFIG: Final = _file_table(
    "config",
    "a value in a JSON file",
    Column("path", Type.TEXT, "names that lead to the value, joined by dots"),
    Column("value", Type.ANY, "the value"),
)
EXT: Final = Table(
    "consume-queue-ext",
    "a unit of a consume queue extension",
    (
        CONSUME_QUEUE["topic"],
        CONSUME_QUEUE["queue_id"],
        Column("ext_position", Type.INT64, "where the unit begins in the extension", "bytes"),
        Column("address", Type.INT64, "the same, as a tags code of the queue has it"),
        *stored(EXT_UNIT, "size", "tags_code"),
        Column("msg_store_time", Type.TIME, "when the broker stored the message"),
        *stored(EXT_UNIT, "bit_map_size"),
        Column("bit_map", Type.TEXT, "the Bloom filter's bits, as hex digits"),
        FILE,
        *PLACE,
    ),
)
DLEDGER_ENTRY: Final = _file_table(
    "dledger-entry", "the header of a DLedger entry", *stored(DLEDGER_ENTRY_LAYOUT), place=True
)
ROCKSDB: Final = Table(
    "rocksdb",
    "a row of a RocksDB database",
    (
        FILE._replace(meaning="directory of the database, relative to the store root"),
        Column("family", Type.TEXT, "column family", has_few=True),
        Column("row", Type.TEXT, "kind of the row, such as unit, max or entry", has_few=True),
        CONSUME_QUEUE["topic"]._replace(is_optional=True),
        Column("group", Type.TEXT, "consumer group", is_optional=True),
        CONSUME_QUEUE["queue_id"]._replace(is_optional=True),
        CONSUME_QUEUE["queue_offset"]._replace(is_optional=True),
        CONSUME_QUEUE["physical_offset"]._replace(is_optional=True),
        CONSUME_QUEUE["size"]._replace(is_optional=True),
        CONSUME_QUEUE["tags_code"]._replace(is_optional=True),
        Column("store_time", Type.TIME, "when the broker stored the message", is_optional=True),
        Column("name", Type.TEXT, "key, name or ID that is part of the key", is_optional=True),
        Column("value", Type.ANY, "other fields of key and value", is_optional=True),
        *DAMAGE[1:],
    ),
    shown=("row", "topic", "queue_id", "queue_offset", "physical_offset", "name", "value"),
)
BROKER_JSON: Final = Table(
    "broker-json",
    "a configuration file that was written",
    (
        Column("file", Type.TEXT, "name of the new file"),
        Column("source", Type.TEXT, "file that it was read from, relative to the store root"),
        Column("entries", Type.INT64, "topics, groups, or pairs of topic and group", "entries"),
        Column("size", Type.INT64, "length of the new file", "bytes"),
    ),
)
LINES: Final = Table(
    "hex",
    "a field of a file, or up to eight bytes of it",
    (
        FILE,
        Column("position", Type.INT64, "first byte in the file", "bytes"),
        MESSAGES["physical_offset"]._replace(
            meaning="where the bytes lie in the commitlog", is_optional=True, source=None
        ),
        Column("length", Type.INT64, "how many bytes", "bytes"),
        Column("hex", Type.TEXT, "the bytes as hex digits; null stands for zeros"),
        Column("field", Type.TEXT, "name of the field"),
        Column("value", Type.TEXT, "meaning of the bytes"),
        MESSAGES["code"]._replace(source=None),
    ),
    shown=("position", "hex", "field", "value", "code"),
)
SEGMENTS: Final = Table(
    "segments",
    "a file of the commitlog",
    (
        MESSAGES["segment"]._replace(source=None),
        Column("start", Type.INT64, "physical offset of the first byte", "bytes"),
        Column("size", Type.INT64, "length of the file", "bytes"),
        Column("allocated", Type.INT64, "bytes that the disk really holds", "bytes"),
        Column("modified_time", Type.TIME, "when the file was last written"),
        Column("records", Type.INT64, "records in the file", "records"),
        Column("record_bytes", Type.INT64, "bytes of the records", "bytes"),
        Column("filler_bytes", Type.INT64, "bytes of the blank at the end", "bytes"),
        Column("gap_bytes", Type.INT64, "bytes that hold no record", "bytes"),
        Column("unused_bytes", Type.INT64, "zeros up to the end of the file", "bytes"),
        Column("gaps", Type.INT64, "stretches that hold no record", "gaps"),
        Column("first_physical_offset", Type.INT64, "place of the first record", "bytes"),
        Column("last_physical_offset", Type.INT64, "place of the last record", "bytes"),
        Column("first_store_time", Type.TIME, "when the oldest message was stored"),
        Column("last_store_time", Type.TIME, "when the newest message was stored"),
        Column("unread", Type.TEXT, "why the rest of the file could not be read"),
        MESSAGES["code"]._replace(
            meaning="finding code of the first damage in the file, or of the file", source=None
        ),
    ),
)
