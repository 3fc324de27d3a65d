"""DLedger commitlog: each record wrapped in a 48-byte entry header; an index beside the data.

The blank has the magic first and the size second, the opposite of a plain commitlog's blank.
Source: DLedgerEntryCoder, DLedgerMmapFileStore, library 0.2.3 to 0.3.2.
"""

from __future__ import annotations

from typing import Final

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout

ENTRY_MAGIC: Final = 1
BLANK_MAGIC: Final = -1
INDEX_FILE_LENGTH: Final = 167_772_160

DLEDGER_ENTRY: Final = Layout(
    "dledger_entry",
    Struct(
        "magic" / Int32sb * "1: an entry",  #  0
        "size" / Int32sb * "length of header and body, bytes",  #  4
        "index" / Int64sb * "number of the entry",  #  8
        "term" / Int64sb * "raft term when it was appended",  # 16
        "pos" / Int64sb * "position of this entry in the logical data, bytes",  # 24
        "channel" / Int32sb * "always 0",  # 32
        "chain_crc" / Int32sb * "0, never computed",  # 36
        "body_crc" / Int32sb * "0, never computed",  # 40
        "body_length" / Int32sb * "length of the commitlog record that follows, bytes",  # 44
    ),  # 48
    "dledger-<id>/data/*: header of one commitlog record",
)
DLEDGER_BODY_OFFSET: Final = DLEDGER_ENTRY.size  # queues and index point after the header

DLEDGER_BLANK: Final = Layout(
    "dledger_blank",
    Struct(
        "magic" / Int32sb * "-1: a blank",  # 0
        "size" / Int32sb * "bytes from here to the end of the file",  # 4
    ),  # 8
    "closes each finished file of dledger-<id>/data and index",
)
DLEDGER_INDEX_UNIT: Final = Layout(
    "dledger_index_unit",
    Struct(
        "magic" / Int32sb * "1: an entry",  #  0
        "pos" / Int64sb * "position of the entry in the logical data, bytes",  #  4
        "size" / Int32sb * "length of header and body, bytes",  # 12
        "index" / Int64sb * "number of the entry",  # 16
        "term" / Int64sb * "raft term when it was appended",  # 24
    ),  # 32
    "dledger-<id>/index/*: one unit an entry, at 32 times its number",
)
