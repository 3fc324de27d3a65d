"""Tiered storage's own key index: a 28-byte header, 8-byte slots, items of 32 or 28 bytes.

While a file is open its items are chained like those of index.py; compacted for upload, each
slot's items lie together, newest first, and lose the last field.
Source: IndexStoreFile, IndexItem, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from typing import Any, Final

from construct import Construct, Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout

BEGIN_MAGIC_CODE: Final = -1127939447  # 0xBCC50289: open
END_MAGIC_CODE: Final = -1127939451  # 0xBCC50285: full or compacted

TIERED_INDEX_HEADER: Final = Layout(
    "tiered_index_header",
    Struct(
        "magic_code" / Int32sb * "0xBCC50289 open, 0xBCC50285 full or compacted",  #  0
        "begin_timestamp" / Int64sb * "store time of the first item, ms",  #  4
        "end_timestamp" / Int64sb * "store time of the newest item, ms",  # 12
        "hash_slot_count" / Int32sb * "slots that are not empty",  # 20
        "index_item_count" / Int32sb * "items in use; they are numbered from 1",  # 24
    ),  # 28
    "tiered_index_file/*: first bytes of the file",
)
TIERED_INDEX_SLOT: Final = Layout(
    "tiered_index_slot",
    Struct(
        "number" / Int32sb * "newest item; compacted: position of the slot's items",  # 0
        "length" / Int32sb * "0; compacted: length of the slot's items, bytes",  # 4
    ),  # 8
    "tiered_index_file/*: hash table, from byte 28 on",
)


def _item_fields() -> list[Construct[Any, Any]]:
    return [
        "key_hash" / Int32sb * "hash of topic#key",  #  0
        "topic_id" / Int32sb * "number of the topic in tieredStoreMetadata.json",  #  4
        "queue_id" / Int32sb * "queue of the topic",  #  8
        "physical_offset" / Int64sb * "offset in the queue's own tiered commitlog, bytes",  # 12
        "size" / Int32sb * "total size of the record, bytes",  # 20
        "time_difference" / Int32sb * "store time minus the file's begin, seconds",  # 24
    ]


TIERED_INDEX_ITEM: Final = Layout(
    "tiered_index_item",
    Struct(*_item_fields(), "previous" / Int32sb * "next older item of the chain"),  # 28
    "tiered_index_file/*: items of an open or full file",
)  # 32
TIERED_INDEX_COMPACTED_ITEM: Final = Layout(
    "tiered_index_compacted_item",
    Struct(*_item_fields()),
    "tiered_index_file/compacting/*: items, grouped by slot",
)  # 28
