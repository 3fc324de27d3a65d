"""Whether the edits of a queue put sound messages out of reach: such edits are not made.

The queue offsets in records may be wrong while the units of their queue are right, and one damaged
number may be in many records. Units that consumers can read are worth more than numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import DecodeError
from rmqtool.formats.message import decode
from rmqtool.formats.properties import INNER_MULTI_DISPATCH
from rmqtool.queues.kinds import are_real, as_units

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.repair.patches import RepairedQueue
    from rmqtool.repair.queues.unit_judge import LostUnits
    from rmqtool.store.record_heads import LogReader

    Int64s = npt.NDArray[np.int64]

NAMES_SEPARATOR: Final = ","


def messages_out_of_reach(queue: RepairedQueue, judge: LostUnits, log: LogReader) -> int:
    """Count the sound messages that a queue would no longer lead to, less those that it would.

    Args:
        queue: with what is to be written.
        judge: knows what is damaged of the log.
        log: as it is.

    Returns:
        Above 0 where the edits of the queue do harm.

    Raises:
        UnreadablePath: a file of the queue cannot be read.
    """
    none = np.empty(0, np.int64)
    before, after = [none], [none]
    for patch in queue.patches:
        before.append(_offsets(queue.units.packed(patch.number, patch.end - patch.number)))
        after.append(_offsets(patch.raw))
    gone = np.setdiff1d(np.concatenate(before), np.concatenate(after))
    if not gone.size:
        return 0
    new = np.setdiff1d(np.concatenate(after), np.concatenate(before))
    kept = _kept(queue)
    lost = sum(_is_sound(queue, offset, judge, log) for offset in np.setdiff1d(gone, kept).tolist())
    if not lost:
        return 0
    won = sum(_is_sound(queue, offset, judge, log) for offset in np.setdiff1d(new, kept).tolist())
    return lost - won


def _offsets(raw: bytes) -> Int64s:
    """Give the physical offsets of the units that point to a record."""
    units = as_units(raw)
    return units["physical_offset"][are_real(units)].astype(np.int64)


def _kept(queue: RepairedQueue) -> Int64s:
    """Give the physical offsets of the units that stay."""
    found = [np.empty(0, np.int64)]
    for number, units in queue.units.used():
        stays = np.ones(len(units), np.bool_)
        for patch in queue.patches:
            stays[max(patch.number - number, 0) : max(patch.end - number, 0)] = False
        stays &= are_real(units)
        found.append(units["physical_offset"][stays].astype(np.int64))
    return np.concatenate(found)


def _is_sound(queue: RepairedQueue, offset: int, judge: LostUnits, log: LogReader) -> bool:
    """Tell whether a sound record that belongs into a queue is at a physical offset."""
    head = log.head_at(offset)
    if head is None or judge.damaged_at(offset, head.size) is not None:
        return False
    try:
        message = decode(log.read_at(offset, head.size))
    except DecodeError:
        return False
    if (message.topic, head.queue_id) == (queue.topic, queue.queue_id):
        return True
    return queue.topic in message.properties.get(INNER_MULTI_DISPATCH, "").split(NAMES_SEPARATOR)
