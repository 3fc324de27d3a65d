"""What a rebuild of queues is asked, what it gives, and who takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqtool.formats.consume_queue import QueueKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rebuild.ext import ExtRules
    from rmqtool.rebuild.placement import UnitTally

PENDING_BYTES: Final = 96 << 20  # of units, at most, before they are written


class QueueFileBytes(NamedTuple):
    """Bytes at their place in one queue file."""

    kind: QueueKind  # family of the queue, which is the name of its directory
    topic: str  # as a directory name
    queue_id: int  # of the topic
    file_start: int  # which file
    file_length: int  # its bytes
    position: int  # of the first byte in that file
    data: memoryview | bytes  # the bytes
    mtime_ms: int  # store time of the last unit of the file so far: 4.9 and 5.0 search by it
    is_filler: bool = False  # whether they fill the file up to the first unit


QueueKey: TypeAlias = tuple[QueueKind, str, int]  # topic as text


class QueueResult(NamedTuple):
    """What became of one queue."""

    kind: QueueKind  # family of the queue
    topic: str  # as text
    queue_id: int  # of the topic
    first_queue_offset: int  # of the first unit; -1 without units
    next_queue_offset: int  # after the last unit: what the next message gets
    files: int  # how many
    tally: UnitTally  # what became of its units
    left_out: str = ""  # why nothing was written; empty when it was


class QueueOptions(NamedTuple):
    """How queues are rebuilt."""

    file_length: int  # bytes of a consume queue file
    batch_file_length: int  # bytes of a batch queue file
    log_start: int  # commitlog offset of the first segment
    segment_length: int  # bytes of a commitlog segment
    like_broker: bool = False  # append as a broker does instead of placing by queue offset
    topic: str | None = None  # the only topic; None is all
    queue_id: int | None = None  # the only queue of it; None is all
    is_deleted: Callable[[str], bool] | None = None  # of a topic, whose queues are left out then
    pending_bytes: int = PENDING_BYTES  # of units, before they are written
    ext: ExtRules | None = None  # how ext units are made; None leaves plain tags codes
    proven: bool = False  # no queue offset is impossible
