"""Key index file: a 40-byte header, a table of hash slots, and chained entries.

Neither the number of slots nor that of entries is in the file: they come from the configuration
or from the file's length. Hashing of keys is in java.py.
Source: IndexHeader, IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout

INDEX_HEADER: Final = Layout(
    "index_header",
    Struct(
        "begin_timestamp" / Int64sb * "store time of the first entry, ms",  #  0
        "end_timestamp" / Int64sb * "store time of the newest entry, ms",  #  8
        "begin_physical_offset" / Int64sb * "commitlog offset of the first entry, bytes",  # 16
        "end_physical_offset" / Int64sb * "commitlog offset of the newest entry, bytes",  # 24
        "hash_slot_count" / Int32sb * "slots that are not empty",  # 32
        "index_count" / Int32sb * "number of the next entry; starts at 1",  # 36
    ),  # 40
    "index/*: first bytes of the file",
)
INDEX_SLOT: Final = Layout(
    "index_slot",
    Struct("number" / Int32sb * "newest entry of the chain; 0 is empty"),  # 0
    "index/*: hash table, from byte 40 on",
)  # 4
INDEX_ENTRY: Final = Layout(
    "index_entry",
    Struct(
        "key_hash" / Int32sb * "hash of topic#key, never negative",  #  0
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  #  4
        "time_difference" / Int32sb * "store time minus the file's begin, seconds",  # 12
        "previous" / Int32sb * "next older entry of the chain; 0 ends it",  # 16
    ),  # 20
    "index/*: entries, after the slots; entry 0 is never used",
)

DEFAULT_HASH_SLOT_NUM: Final = 5_000_000  # maxHashSlotNum
DEFAULT_INDEX_NUM: Final = 20_000_000  # maxIndexNum
FIRST_ENTRY: Final = 1  # entry 0 would look like the end of a chain


def slot_position(slot: int) -> int:
    """Give the position of a slot in its file."""
    return INDEX_HEADER.size + INDEX_SLOT.size * slot


def entry_position(slot_count: int, number: int) -> int:
    """Give the position of an entry in a file with `slot_count` slots."""
    return slot_position(slot_count) + INDEX_ENTRY.size * number


def file_length(slot_count: int, entry_count: int) -> int:
    """Give the bytes of a file with this geometry (entry 0 counted)."""
    return entry_position(slot_count, entry_count)
