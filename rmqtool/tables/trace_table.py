"""The table of traces, declared. Readers are in traces.py."""

from __future__ import annotations

from typing import Final

from rmqtool.table import Column, Table, Type
from rmqtool.tables.file_tables import DAMAGE
from rmqtool.tables.record_tables import MESSAGES


def _of_message(name: str, meaning: str = "") -> Column:
    column = MESSAGES[name]._replace(source=None)
    return column._replace(meaning=meaning) if meaning else column


TRACES: Final = Table(
    "traces",
    "an event of a message that a client with enableMsgTrace wrote to a trace topic",
    (
        Column(
            "event",
            Type.TEXT,
            "Pub: sent; SubBefore, SubAfter: consumption began, ended; EndTransaction; Recall",
            has_few=True,
        ),
        Column("event_time", Type.TIME, "when it began; of SubAfter, when it ended"),
        Column("group", Type.TEXT, "producer group or consumer group", has_few=True),
        Column("client_host", Type.TEXT, "address of the client", has_few=True),
        _of_message("unique_key"),
        _of_message("topic", "topic of the message; null for SubBefore and SubAfter"),
        Column("cost_ms", Type.INT64, "how long it took; of SubAfter, for each message", "ms"),
        Column("success", Type.BOOLEAN, "whether the client took it for a success"),
        Column(
            "return_type",
            Type.TEXT,
            "of SubAfter: SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL or FAILED",
            has_few=True,
        ),
        Column("retry_times", Type.INT64, "how often the message had come back before"),
        Column("request_id", Type.TEXT, "what SubBefore and SubAfter of one delivery share"),
        _of_message("tags"),
        _of_message("keys"),
        Column("store_host", Type.TEXT, "address of the broker that was called", has_few=True),
        Column("offset_message_id", Type.TEXT, "offset message ID that the broker answered"),
        Column("body_size", Type.INT64, "length of the body as sent, of a batch in all", "bytes"),
        Column("batch", Type.INT64, "messages that were sent at once", is_optional=True),
        Column(
            "message_type",
            Type.TEXT,
            "Normal_Msg, Trans_Msg_Half, Trans_msg_Commit, Delay_Msg or Order_Msg",
            has_few=True,
        ),
        Column("transaction_id", Type.TEXT, "ID of the transaction", is_optional=True),
        Column(
            "transaction_state",
            Type.TEXT,
            "COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW",
            is_optional=True,
        ),
        Column(
            "from_check",
            Type.BOOLEAN,
            "whether the broker had asked how the transaction ended",
            is_optional=True,
        ),
        Column("region", Type.TEXT, "region of the broker", has_few=True),
        Column("trace_topic", Type.TEXT, "topic of the trace record", has_few=True),
        Column("physical_offset", Type.INT64, "where the trace record is in the log", "bytes"),
        Column("number", Type.INT64, "number of the event in the record, from 0 on"),
        _of_message("store_time", "when the broker stored the trace record"),
        *DAMAGE[1:],
    ),
    shown=(
        *("event_time", "event", "group", "client_host", "unique_key", "topic", "cost_ms"),
        *("success", "return_type", "retry_times", "keys"),
    ),
)
