"""The tables of messages, declared: what a row has, and where in a record each value comes from.

A source reads one value of a `SingleRecord`, or a whole column of `RecordColumns`: both know a
record's parts by the same names. A further property is one more `Column` with `property_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rmqtool.formats import properties, sys_flag
from rmqtool.scan import columns as row
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Callable


class Records(Protocol):
    """One record, or the records of a batch: values, or columns of them."""

    def stored(self, field: str, number: int) -> Any:  # noqa: ANN401 - a value or a column
        """Give a field of `Message`, which is also a row of the scan's columns."""

    def time(self, field: str, number: int) -> Any:  # noqa: ANN401
        """Give a field as a time."""

    def flag_word(self, word: Callable[[int], str]) -> Any:  # noqa: ANN401
        """Give what the flags say."""

    def property_value(self, name: str) -> Any:  # noqa: ANN401
        """Give the value of a property, null where there is not one."""

    # What is read in a way of its own has the name of its column.
    segment: Any
    position: Any
    number: Any
    version: Any
    topic: Any
    topic_b64: Any
    born_host: Any
    store_host: Any
    message_id: Any
    body_size: Any
    keys: Any
    properties: Any
    properties_b64: Any
    body: Any
    body_b64: Any
    body_error: Any
    code: Any


class ColumnSource(NamedTuple):
    """Where the values of a column come from."""

    read: Callable[[Records], Any]  # takes the records
    needs_texts: bool = False  # the scan has to read topic and properties for it
    of_property: str = ""  # name of the property that it is the value of; empty for all else
    is_encoded: bool = False  # a column of them comes as numbers of a dictionary


def stored(field: str, number: int) -> ColumnSource:
    """Take a field of the record as it is.

    Args:
        field: of `formats.message.Message`.
        number: row of the scan's columns.
    """
    return ColumnSource(lambda records: records.stored(field, number))


def time(field: str, number: int) -> ColumnSource:
    """Take a field of the record as a time; arguments as for `stored`."""
    return ColumnSource(lambda records: records.time(field, number))


def flag_word(word: Callable[[int], str]) -> ColumnSource:
    """Take a word for some bits of `sys_flag`."""
    return ColumnSource(lambda records: records.flag_word(word), is_encoded=True)


def property_of(name: str) -> ColumnSource:
    """Take the value of a property; the last one of equal names, as the broker's reader does."""
    return ColumnSource(
        lambda records: records.property_value(name), needs_texts=True, of_property=name
    )


NO_TEXT: Final = "as base64, where they are not UTF-8"
DEFECT: Final = "finding"  # extent of a row that names a defect, and is no record and no unit
BODY: Final = ("body", "body_b64", "body_error")
MESSAGES: Final = Table(
    "messages",
    "a commitlog record, or a stretch of the log that holds none",
    (
        Column(
            "physical_offset",
            Type.INT64,
            "place of the record in the commitlog",
            "bytes",
            ("phyOffset", "commitLogOffset"),
            source=stored("physical_offset", row.PHYSICAL_OFFSET),
        ),
        Column(
            "size",
            Type.INT64,
            "length of the whole record",
            "bytes",
            ("storeSize", "totalSize"),
            has_few=True,
            source=stored("total_size", row.SIZE),
        ),
        Column(
            "segment",
            Type.TEXT,
            "commitlog file, relative to the store root",
            has_few=True,
            source=ColumnSource(lambda records: records.segment, is_encoded=True),
        ),
        Column(
            "position",
            Type.INT64,
            "first byte of the record in that file",
            "bytes",
            source=ColumnSource(lambda records: records.position),
        ),
        Column(
            "version",
            Type.INT32,
            "record format: 1, or 2 where the topic length has two bytes",
            has_few=True,
            source=ColumnSource(lambda records: records.version),
        ),
        Column(
            "topic",
            Type.TEXT,
            "topic as stored; system topics hold copies of messages of other topics",
            has_few=True,
            source=ColumnSource(lambda records: records.topic, needs_texts=True, is_encoded=True),
        ),
        Column(
            "topic_b64",
            Type.TEXT,
            f"bytes of the topic {NO_TEXT}",
            is_optional=True,
            has_few=True,
            source=ColumnSource(lambda records: records.topic_b64, needs_texts=True),
        ),
        Column(
            "queue_id",
            Type.INT32,
            "number of the queue of the topic",
            aliases=("queueId",),
            has_few=True,
            source=stored("queue_id", row.QUEUE_ID),
        ),
        Column(
            "queue_offset",
            Type.INT64,
            "number of the message in its queue",
            aliases=("queueOffset", "logicOffset", "cqOffset"),
            source=stored("queue_offset", row.QUEUE_OFFSET),
        ),
        Column(
            "flag",
            Type.INT32,
            "the application's own flag",
            has_few=True,
            source=stored("flag", row.FLAG),
        ),
        Column(
            "sys_flag",
            Type.INT32,
            "bits: compression, transaction, IPv6 hosts, batch",
            aliases=("sysFlag",),
            has_few=True,
            source=stored("sys_flag", row.SYS_FLAG),
        ),
        Column(
            "transaction",
            Type.TEXT,
            "none, prepared, commit or rollback, as sys_flag says",
            has_few=True,
            source=flag_word(sys_flag.transaction),
        ),
        Column(
            "compression",
            Type.TEXT,
            "none, zlib, lz4, zstd or unknown, as sys_flag says",
            has_few=True,
            source=flag_word(sys_flag.compression),
        ),
        Column(
            "born_time",
            Type.TIME,
            "when the client sent the message",
            aliases=("bornTimestamp",),
            source=time("born_timestamp", row.BORN_TIMESTAMP),
        ),
        Column(
            "born_host",
            Type.TEXT,
            "address and port of the client",
            aliases=("bornHost",),
            has_few=True,
            source=ColumnSource(lambda records: records.born_host, is_encoded=True),
        ),
        Column(
            "store_time",
            Type.TIME,
            "when the broker stored the message",
            aliases=("storeTimestamp",),
            source=time("store_timestamp", row.STORE_TIMESTAMP),
        ),
        Column(
            "store_host",
            Type.TEXT,
            "address and port of the broker",
            aliases=("storeHost", "storeHostAddress"),
            has_few=True,
            source=ColumnSource(lambda records: records.store_host, is_encoded=True),
        ),
        Column(
            "reconsume_times",
            Type.INT32,
            "how often consumers failed before this copy was stored",
            aliases=("reconsumeTimes",),
            has_few=True,
            source=stored("reconsume_times", row.RECONSUME_TIMES),
        ),
        Column(
            "prepared_transaction_offset",
            Type.INT64,
            "physical offset of the half message that this record ends",
            "bytes",
            ("preparedTransactionOffset",),
            source=stored("prepared_transaction_offset", row.PREPARED_TRANSACTION_OFFSET),
        ),
        Column(
            "body_crc",
            Type.INT32,
            "CRC-32 of the body as stored, top bit cleared",
            aliases=("bodyCRC",),
            source=stored("body_crc", row.BODY_CRC),
        ),
        Column(
            "body_size",
            Type.INT32,
            "length of the body as stored",
            "bytes",
            ("bodyLength",),
            has_few=True,
            source=ColumnSource(lambda records: records.body_size),
        ),
        Column(
            "tags",
            Type.TEXT,
            "tag of the message",
            aliases=(properties.TAGS,),
            has_few=True,
            source=property_of(properties.TAGS),
        ),
        Column(
            "keys",
            Type.TEXTS,
            "keys that the producer gave, split at spaces",
            aliases=(properties.KEYS,),
            source=ColumnSource(lambda records: records.keys, needs_texts=True),
        ),
        Column(
            "unique_key",
            Type.TEXT,
            "ID that the client gave the message: the msgId of clients and consoles",
            aliases=("msgId", properties.UNIQ_KEY, "uniqKey", "uniqueMsgId"),
            source=property_of(properties.UNIQ_KEY),
        ),
        Column(
            "message_id",
            Type.TEXT,
            "ID made of the broker's address and the physical offset",
            aliases=("offsetMsgId", "offsetMessageId"),
            source=ColumnSource(lambda records: records.message_id),
        ),
        Column(
            "properties",
            Type.MAP,
            "all properties that the broker's reader keeps, by name",
            aliases=("propertiesString",),
            source=ColumnSource(lambda records: records.properties, needs_texts=True),
        ),
        Column(
            "properties_b64",
            Type.TEXT,
            "bytes of the properties as base64, where the map does not hold all of them",
            is_optional=True,
            source=ColumnSource(lambda records: records.properties_b64, needs_texts=True),
        ),
        Column(
            "body",
            Type.TEXT,
            "body in the requested form: text, hex digits or a digest",
            is_optional=True,
            source=ColumnSource(lambda records: records.body),
        ),
        Column(
            "body_b64",
            Type.TEXT,
            f"bytes of the body {NO_TEXT}",
            is_optional=True,
            source=ColumnSource(lambda records: records.body_b64),
        ),
        Column(
            "body_error",
            Type.TEXT,
            "why the body is not shown",
            is_optional=True,
            source=ColumnSource(lambda records: records.body_error),
        ),
        Column(
            "extent",
            Type.TEXT,
            "filler, gap, unused, or finding for a defect of a file, where the row is not a record",
            is_optional=True,
            has_few=True,
        ),
        Column(
            "code",
            Type.TEXT,
            "finding code of the damage, where there is any",
            is_optional=True,
            has_few=True,
            source=ColumnSource(lambda records: records.code),
        ),
    ),
    shown=(
        *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "extent", "code"),
        *("body", "body_error", "tags", "keys", "size", "unique_key", "transaction", "born_host"),
    ),
)

# Of a message inside of a batch record: most of it is said once, by the record around it.
INNER_BATCH: Final = Table(
    "inner-batch",
    "a message that a client sent inside of a batch",
    (
        MESSAGES["physical_offset"]._replace(meaning="place of the batch record in the log"),
        Column(
            "number",
            Type.INT64,
            "which message of the batch, from 0 on",
            source=ColumnSource(lambda records: records.number),
        ),
        MESSAGES["position"]._replace(meaning="first byte of the message in the batch body"),
        MESSAGES["size"]._replace(meaning="length of the message"),
        *(
            MESSAGES[name]
            for name in (
                *("topic", "queue_id", "queue_offset", "flag", "born_time", "store_time", "tags"),
                *("keys", "unique_key", "message_id", "properties", *BODY, "segment", "extent"),
                "code",
            )
        ),
        Column("reason", Type.TEXT, "why the batch cannot be taken apart", is_optional=True),
    ),
    shown=(
        *("physical_offset", "number", "topic", "queue_id", "queue_offset", "code", "tags"),
        *("keys", "size", "unique_key", "store_time"),
    ),
)
