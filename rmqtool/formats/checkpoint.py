"""`checkpoint`: how far the store's parts had come; 4096 bytes, zero after the fields.

Fields that a release does not know it leaves as they are.
Source: StoreCheckpoint, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int64sb, Struct

from rmqtool.formats.layout import Layout

CHECKPOINT: Final = Layout(
    "checkpoint",
    Struct(
        "physic_msg_timestamp" / Int64sb * "store time of the newest flushed record, ms",  #  0
        "logics_msg_timestamp" / Int64sb * "store time of the newest queued record, ms",  #  8
        "index_msg_timestamp" / Int64sb * "end of the last full index file, ms",  # 16
        "master_flushed_offset" / Int64sb * "5.0.0+: commitlog offset, for replicas, bytes",  # 24
        "confirm_phy_offset" / Int64sb * "5.1.1+: commitlog offset that is confirmed, bytes",  # 32
        "logics_physical_offset"
        / Int64sb
        * "5.5.0+: offset of the last record flushed to a queue, bytes",  # 40
    ),  # 48
    "checkpoint: progress of commitlog, queues and index",
)
FILE_LENGTH: Final = 4096
