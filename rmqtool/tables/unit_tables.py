"""The tables of files of fixed-size units, declared: queues, index, timer, DLedger, tiered store.

A column that a unit stores has the name, the size and the meaning of the field in its layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import DLEDGER_INDEX_UNIT
from rmqtool.formats.index import INDEX_ENTRY, INDEX_SLOT
from rmqtool.formats.tiered_index import TIERED_INDEX_ITEM, TIERED_INDEX_SLOT
from rmqtool.formats.timer import TIMER_LOG_RECORD, TIMER_SLOT
from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES

if TYPE_CHECKING:
    from rmqtool.formats.layout import Field, Layout

# How the text of a field ends that has a unit.
UNITS: Final = {", bytes": "bytes", ", ms since 1970": "ms", ", ms": "ms", ", seconds": "seconds"}
LARGEST_INT32: Final = 4  # bytes


def column_of(field: Field) -> Column:
    """Give the column of a field as it is stored."""
    ending = next((ending for ending in UNITS if field.doc.endswith(ending)), "")
    kind = Type.INT32 if field.size <= LARGEST_INT32 else Type.INT64
    return Column(field.name, kind, field.doc.removesuffix(ending), UNITS.get(ending, ""))


def stored(layout: Layout, *names: str) -> tuple[Column, ...]:
    """Give columns of a layout.

    Args:
        layout: of a unit.
        names: which; none is all.
    """
    columns = {field.name: column_of(field) for field in layout.fields}
    return tuple(columns[name] for name in names or columns)


FILE: Final = Column("file", Type.TEXT, "file, relative to the store root", has_few=True)
_TOPIC: Final = MESSAGES["topic"]._replace(meaning="topic of the queue", source=None)
_QUEUE_ID: Final = MESSAGES["queue_id"]._replace(source=None)
STATE: Final = (
    Column(
        "count",
        Type.INT64,
        "units of the row, where it is not one in use",
        "units",
        is_optional=True,
    ),
    Column(
        "extent",
        Type.TEXT,
        "filler, gap, unused, or finding for a defect of a file, where the row is not a unit",
        is_optional=True,
        has_few=True,
    ),
    MESSAGES["code"]._replace(source=None),
)
PLACE: Final = (
    Column("position", Type.INT64, "first byte of the unit in the file", "bytes"),
    *STATE,
)
_SEEN: Final = ("extent", "code", "count")
_STORE_TIME: Final = MESSAGES["store_time"]._replace(source=None)
_DELIVER_TIME: Final = Column(
    "deliver_time",
    Type.TIME,
    "when the message is due",
    aliases=("deliverTimestamp", "TIMER_DELIVER_MS"),
    is_optional=True,
)

CONSUME_QUEUE: Final = Table(
    "consume-queue",
    "a unit of a consume queue, or consecutive empty units",
    (
        _TOPIC,
        _QUEUE_ID,
        Column(
            "queue_offset", Type.INT64, "number of the unit in its queue", aliases=("queueOffset",)
        ),
        *stored(CQ_UNIT),
        Column("meaning", Type.TEXT, "meaning of the tags code", has_few=True),
        _DELIVER_TIME,
        Column(
            "ext_position",
            Type.INT64,
            "where the unit of the extension begins that the tags code points to",
            "bytes",
            is_optional=True,
        ),
        FILE,
        *PLACE,
    ),
    shown=(
        *("topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code", "meaning"),
        *("deliver_time", *_SEEN, "file"),
    ),
)
BATCH_QUEUE: Final = Table(
    "batch-queue",
    "a unit of a batch queue or of the compaction store, or consecutive empty units",
    (
        _TOPIC,
        _QUEUE_ID,
        Column("number", Type.INT64, "number of the unit in the queue, from 0 on"),
        *stored(BATCH_CQ_UNIT, "msg_base_offset"),
        *stored(BATCH_CQ_UNIT, "batch_size", "physical_offset", "size", "tags_code"),
        _STORE_TIME,
        *stored(BATCH_CQ_UNIT, "compacted_offset"),
        FILE,
        *PLACE,
    ),
    shown=(
        *("topic", "queue_id", "msg_base_offset", "batch_size", "physical_offset", "size"),
        *("store_time", *_SEEN, "tags_code", "file"),
    ),
)
INDEX: Final = Table(
    "index",
    "an entry of a key index file",
    (
        FILE,
        Column("number", Type.INT64, "number of the entry in the file, from 1 on"),
        *stored(INDEX_ENTRY, "key_hash", "physical_offset"),
        _STORE_TIME._replace(meaning="when the message was stored, to the second"),
        *stored(INDEX_ENTRY, "time_difference", "previous"),
        Column("slot", Type.INT32, "hash slot to whose chain the entry belongs"),
        *PLACE,
    ),
    shown=(
        *("file", "number", "key_hash", "physical_offset", "store_time", "previous", "slot"),
        *("time_difference", *_SEEN),
    ),
)
INDEX_SLOTS: Final = Table(
    "index-slot",
    "a hash slot of a key index file",
    (
        FILE,
        Column("slot", Type.INT64, "number of the slot, from 0 on"),
        *stored(INDEX_SLOT),
        *PLACE,
    ),
)


def _plain(name: str, meaning: str, layout: Layout, *more: Column) -> Table:
    """Declare a table of units as they are stored, numbered, with some columns more."""
    number = Column("number", Type.INT64, "number of the unit in the file")
    return Table(name, meaning, (FILE, number, *stored(layout), *more, *PLACE))


TIMER_WHEEL: Final = _plain("timer-wheel", "a slot of the timer wheel", TIMER_SLOT, _DELIVER_TIME)
TIMER_LOG: Final = _plain(
    "timer-log",
    "a record of the timer log",
    TIMER_LOG_RECORD,
    Column("meaning", Type.TEXT, "meaning of the magic, bit by bit", has_few=True),
    Column("write_time", Type.TIME, "when the record was written", is_optional=True),
    _DELIVER_TIME,
)
DLEDGER_INDEX: Final = _plain("dledger-index", "a unit of a DLedger index", DLEDGER_INDEX_UNIT)
TIERED_INDEX: Final = _plain(
    "tiered-index",
    "an item of a tiered index file",
    TIERED_INDEX_ITEM,
    _STORE_TIME._replace(meaning="when the message was stored, to the second"),
)
TIERED_INDEX_SLOTS: Final = Table(
    "tiered-index-slot",
    "a hash slot of a tiered index file",
    (
        FILE,
        Column("slot", Type.INT64, "number of the slot, from 0 on"),
        *(column._replace(type=Type.INT64) for column in stored(TIERED_INDEX_SLOT)),
        *PLACE,
    ),
)
