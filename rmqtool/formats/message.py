"""Commitlog records: a 48-byte prefix, one of four middles, then body, topic, properties.

The middle depends on the two IPv6 bits of `sys_flag`, which lies in the prefix; the topic's length
field has one byte in V1 records and two in V2. Walking many records is in scan/message.py.
Source: CommitLog#checkMessageAndReturnSize, MessageExtEncoder#encode, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Any, Final

from construct import Bytes, Construct, Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout
from rmqtool.formats.sys_flag import SysFlag

__all__ = [
    "BLANK",
    "BLANK_MAGIC_CODE",
    "MESSAGE_MAGIC_CODE",
    "MESSAGE_MAGIC_CODE_V2",
    "MESSAGE_MIDDLES",
    "MESSAGE_PREFIX",
    "SMALLEST_RECORD",
    "SysFlag",
]

MESSAGE_MAGIC_CODE: Final = -626843481  # 0xDAA320A7
MESSAGE_MAGIC_CODE_V2: Final = -626843477  # 0xDAA320AB, 5.1.0+
BLANK_MAGIC_CODE: Final = -875286124  # 0xCBD43194
SMALLEST_RECORD: Final = 91  # bytes: V1, IPv4 hosts, no body, empty topic, no properties
END_FILE_MIN_BLANK_LENGTH: Final = 8  # bytes that a finished file keeps for its blank record

MESSAGE_PREFIX: Final = Layout(
    "message_prefix",
    Struct(
        "total_size" / Int32sb * "length of the whole record, bytes",  #  0
        "magic_code" / Int32sb * "V1 0xDAA320A7, V2 0xDAA320AB",  #  4
        "body_crc" / Int32sb * "CRC-32 of the stored body, top bit cleared",  #  8
        "queue_id" / Int32sb * "queue of the topic",  # 12
        "flag" / Int32sb * "the application's own flag",  # 16
        "queue_offset" / Int64sb * "number of the unit in the consume queue",  # 20
        "physical_offset" / Int64sb * "commitlog offset of this record, bytes",  # 28
        "sys_flag" / Int32sb * "bits: compression, transaction, IPv6, batch",  # 36
        "born_timestamp" / Int64sb * "sent by the client, ms since 1970",  # 40
    ),  # 48
    "first 48 bytes of a commitlog record, the same in all variants",
)


def _middle(*, born_v6: bool, store_v6: bool) -> Layout:
    """Declare the middle of a record with these kinds of host addresses."""
    fields: list[Construct[Any, Any]] = [
        "born_address" / Bytes(16 if born_v6 else 4) * "client address",  #  0
        "born_port" / Int32sb * "client port",  #  4 | 16
        "store_timestamp" / Int64sb * "stored by the broker, ms since 1970",  #  8 | 20
        "store_address" / Bytes(16 if store_v6 else 4) * "broker address",  # 16 | 28
        "store_port" / Int32sb * "broker port",  # 20 | 32 | 44
        "reconsume_times" / Int32sb * "how often consuming it has failed",  # 24 | 36 | 48
        "prepared_transaction_offset" / Int64sb * "physical offset of the half message",  # 28…
        "body_length" / Int32sb * "bytes of the body; negative counts as 0",  # 36 | 48 | 60
    ]  # 40 | 52 | 64
    name = f"message_middle_v{6 if born_v6 else 4}_v{6 if store_v6 else 4}"
    return Layout(name, Struct(*fields), "host addresses to body length of a commitlog record")


MESSAGE_MIDDLES: Final = {
    (born_v6, store_v6): _middle(born_v6=born_v6, store_v6=store_v6)
    for born_v6 in (False, True)
    for store_v6 in (False, True)
}

BLANK: Final = Layout(
    "blank",
    Struct(
        "total_size" / Int32sb * "bytes from here to the end of the file",  # 0
        "magic_code" / Int32sb * "0xCBD43194",  # 4
    ),  # 8; what follows is unspecified and may hold old messages
    "closes each finished commitlog file",
)
