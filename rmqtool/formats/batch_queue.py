"""Batch consume queue: one 46-byte unit for each record, which may hold many messages.

Also the queue of the compaction store, where `msg_base_offset` may jump and END_UNIT closes a
finished file. A queue offset gives no position: search by `msg_base_offset`.
Source: BatchConsumeQueue#putBatchMessagePositionInfo, SparseConsumeQueue, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int16sb, Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout

BATCH_CQ_UNIT: Final = Layout(
    "batch_consume_queue_unit",
    Struct(
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  #  0
        "size" / Int32sb * "total size of the record, bytes",  #  8
        "tags_code" / Int64sb * "hash of TAGS",  # 12
        "store_timestamp" / Int64sb * "stored by the broker, ms since 1970",  # 20
        "msg_base_offset" / Int64sb * "queue offset of the first message",  # 28
        "batch_size" / Int16sb * "messages in the record",  # 36
        "compacted_offset" / Int32sb * "-1, constant in practice",  # 38
        "reserved" / Int32sb * "0",  # 42
    ),  # 46
    "batchconsumequeue/<topic>/<queue id>/*, compaction/compactionCq/...: one unit a record",
)
BATCH_CQ_UNIT_SIZE: Final = BATCH_CQ_UNIT.size
MOST_MESSAGES: Final = 32_767  # of one unit, and so of one record
INVALID_POS: Final = -1  # what `compacted_offset` always is
DEFAULT_FILE_LENGTH: Final = 13_800_000  # mapperFileSizeBatchConsumeQueue, not rounded

# Closes each finished file of the compaction store's queue.
END_UNIT: Final = BATCH_CQ_UNIT.build(
    dict.fromkeys(BATCH_CQ_UNIT.positions, 0)
    | {"physical_offset": -1, "compacted_offset": INVALID_POS}
)
