"""Timer messages: a wheel of slots, a log of records chained by slot, and a checkpoint.

Source: TimerWheel, Slot, TimerLog#append, TimerCheckpoint, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout
from rmqtool.formats.message import BLANK_MAGIC_CODE

TIMER_SLOT: Final = Layout(
    "timer_slot",
    Struct(
        "time" / Int64sb * "deliver time divided by the precision; not ms",  #  0
        "first_pos" / Int64sb * "oldest record of the slot in timerlog; -1 none",  #  8
        "last_pos" / Int64sb * "newest record of the slot in timerlog; -1 none",  # 16
        "num" / Int32sb * "messages in the slot",  # 24
        "magic" / Int32sb * "0, unused",  # 28
    ),  # 32
    "timerwheel: one slot a time step",
)
TIMER_LOG_RECORD: Final = Layout(
    "timer_log_record",
    Struct(
        "size" / Int32sb * "length of the record, always 52, bytes",  #  0
        "prev_pos" / Int64sb * "previous record of the slot in timerlog; -1 none",  #  4
        "magic" / Int32sb * "bits: 1 default, 2 rolled, 4 delete",  # 12
        "curr_write_time" / Int64sb * "when the record was written, ms since 1970",  # 16
        "delayed_time" / Int32sb * "deliver time minus curr_write_time, ms",  # 24
        "physical_offset" / Int64sb * "commitlog offset of the message, bytes",  # 28
        "record_size" / Int32sb * "total size of the message's record, bytes",  # 36
        "topic_hash" / Int32sb * "hash of the real topic",  # 40
        "reserved" / Int64sb * "always 0",  # 44
    ),  # 52
    "timerlog/*: one record a scheduled message",
)
TIMER_BLANK: Final = Layout(
    "timer_blank",
    Struct(
        "size" / Int32sb * "bytes from here to the end of the file",  #  0
        "prev_pos" / Int64sb * "0",  #  4
        "magic" / Int32sb * "0xCBD43194",  # 12
    ),  # 16; as long as the head of a record up to its magic
    "closes each finished timerlog file",
)
TIMER_CHECK: Final = Layout(
    "timer_check",
    Struct(
        "last_read_time_ms" / Int64sb * "time of the slot that is read next, ms since 1970",  #  0
        "last_timer_log_flush_pos" / Int64sb * "flushed bytes of timerlog",  #  8
        "last_timer_queue_offset" / Int64sb * "next unit of rmq_sys_wheel_timer",  # 16
        "master_timer_queue_offset" / Int64sb * "the same on the master",  # 24
        "state_version" / Int64sb * "part of the data version",  # 32
        "timestamp" / Int64sb * "part of the data version, ms since 1970",  # 40
        "counter" / Int64sb * "part of the data version",  # 48
    ),  # 56
    "config/timercheck: progress of the timer; 4096 bytes, zero after the fields",
)

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 1 << 1
MAGIC_DELETE: Final = 1 << 2
MAGIC_BITS: Final = 0xF  # a record with any higher bit is invalid to the broker
BLANK_MAGIC: Final = BLANK_MAGIC_CODE
NO_POSITION: Final = -1
SLOTS_TOTAL: Final = 2 * 604_800  # the wheel turns once in two weeks of one-second steps
DEFAULT_WHEEL_LENGTH: Final = SLOTS_TOTAL * TIMER_SLOT.size
DEFAULT_LOG_FILE_LENGTH: Final = 104_857_600  # mappedFileSizeTimerLog
DEFAULT_PRECISION_MS: Final = 1000  # timerPrecisionMs
CHECK_FILE_LENGTH: Final = 4096


def slot_position(deliver_ms: int, precision_ms: int, slot_count: int = SLOTS_TOTAL) -> int:
    """Give the position in `timerwheel` of the slot for a deliver time."""
    return deliver_ms // precision_ms % slot_count * TIMER_SLOT.size


def magic_names(magic: int) -> tuple[str, ...]:
    """Give a word for each bit of a timer log record's magic."""
    words = {MAGIC_DEFAULT: "default", MAGIC_ROLL: "roll", MAGIC_DELETE: "delete"}
    return tuple(word for bit, word in words.items() if magic & bit)
