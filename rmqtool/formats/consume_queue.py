"""Consume queue: one 20-byte unit for each dispatched record of a (topic, queue id).

Reading is in queues/, judging in check/queues/consume_queue.py.
Source: ConsumeQueue#putMessagePositionInfo, #fillPreBlank, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeVar

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.layout import Layout, Raw

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Number = TypeVar("Number", int, "npt.NDArray[np.int64]")

CQ_UNIT: Final = Layout(
    "consume_queue_unit",
    Struct(
        "physical_offset" / Int64sb * "commitlog offset of the record, bytes",  #  0
        "size" / Int32sb * "total size of the record, bytes",  #  8
        "tags_code" / Int64sb * "hash of TAGS, deliver time in ms, or ext address",  # 12
    ),  # 20
    "consumequeue/<topic>/<queue id>/*: one unit for each record; unit n has queue offset n",
)
CQ_UNIT_SIZE: Final = CQ_UNIT.size
PHYSICAL_OFFSET: Final = CQ_UNIT["physical_offset"]
DEFAULT_FILE_LENGTH: Final = 6_000_000  # mappedFileSizeConsumeQueue

# Fills the first file of a queue that does not begin at 0; Java counts it as a valid unit.
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK: Final = CQ_UNIT.build({"physical_offset": 0, "size": PRE_BLANK_SIZE, "tags_code": 0})


class QueueKind(enum.StrEnum):
    """Which kind of queue file; the directory's name."""

    CONSUME_QUEUE = "consumequeue"
    BATCH_QUEUE = "batchconsumequeue"
    CONSUME_QUEUE_EXT = "consumequeue_ext"  # beside a consume queue


def first_offset(units: Raw) -> int:
    """Give the physical offset in the first of some packed units."""
    return PHYSICAL_OFFSET.of(units)


def last_offset(units: Raw) -> int:
    """Give the physical offset in the last of some packed units."""
    return PHYSICAL_OFFSET.of(units, len(units) - CQ_UNIT_SIZE)


def is_pre_blank(physical_offset: Number, size: Number) -> Number:
    """Tell whether a unit stands for no record but fills the space before the first one.

    Of numbers or of arrays, shape (n,), which give an array of bools. `queues` asks, and nobody
    else but who recognises a file by its content: what a unit is, is said there.
    """
    is_blank: Number = (size == PRE_BLANK_SIZE) & (physical_offset == 0)
    return is_blank


def file_length(configured_bytes: int) -> int:
    """Round `mappedFileSizeConsumeQueue` up to whole units.

    Source: MessageStoreConfig#getMappedFileSizeConsumeQueue, 4.9.3 to 5.5.0.
    """
    return -(-configured_bytes // CQ_UNIT_SIZE) * CQ_UNIT_SIZE
