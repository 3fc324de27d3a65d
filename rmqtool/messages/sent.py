"""The table of messages as they were sent, and what an extract tells of itself."""

from __future__ import annotations

from typing import Final

from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import INNER_BATCH, MESSAGES

SENT: Final = Table(
    "sent",
    "a message as it was sent, and its source",
    (
        MESSAGES["topic"]._replace(meaning="topic that the message was sent to"),
        MESSAGES["topic_b64"],
        MESSAGES["queue_id"],
        MESSAGES["queue_offset"]._replace(
            meaning="number of the message in its queue; null while it waits elsewhere"
        ),
        *(
            MESSAGES[name]
            for name in (
                *("tags", "keys", "unique_key", "flag", "born_time", "born_host", "store_time"),
                *("store_host", "reconsume_times", "transaction", "properties", "properties_b64"),
                *("body", "body_b64", "body_error"),
            )
        ),
        Column("store", Type.TEXT, "store that the message came from, as given", has_few=True),
        *(MESSAGES[name] for name in ("physical_offset", "size", "segment", "position")),
        INNER_BATCH["number"]._replace(
            meaning="which message of the batch record, from 0 on; null elsewhere"
        ),
        Column("stored_topic", Type.TEXT, "topic of the record in the log", has_few=True),
        Column("stored_queue_id", Type.INT32, "queue of the record in the log", has_few=True),
        Column("stored_queue_offset", Type.INT64, "queue offset of the record in the log"),
        Column(
            "origin_topic",
            Type.TEXT,
            "topic that a retried or dead message was first sent to",
            aliases=("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC"),
            has_few=True,
        ),
        Column(
            "origin_message_id",
            Type.TEXT,
            "offsetMsgId that a retried or dead message had there",
            aliases=("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"),
        ),
        MESSAGES["message_id"],
        MESSAGES["code"],
    ),
)
EXTRACT: Final = Table(
    "extract",
    "result of an extract",
    (
        Column("messages", Type.INT64, "messages written", "messages"),
        Column("records", Type.INT64, "records of the log that hold them", "records"),
        Column("bytes", Type.INT64, "length of the file", "bytes"),
        Column("damaged", Type.INT64, "messages with a damaged body, written too", "messages"),
        Column("gaps", Type.INT64, "stretches, and odd files, of the log without a record", "gaps"),
    ),
)
