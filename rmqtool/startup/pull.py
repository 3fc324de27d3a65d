"""What a consumer gets who pulls a queue from its minimum on.

A unit without its record makes the broker pass over all units up to the next commitlog file, so
that messages beside a gap are lost with it.
Source: DefaultMessageStore#getMessage, CommitLog#getMessage, MappedFile#selectMappedBuffer, 4.9.3
to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.queues.kinds import are_real, as_units
from rmqtool.startup.files import java_remainder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqtool.startup.files import FileQueue
    from rmqtool.startup.queues import ConsumeQueue


_MESSAGES_OF_A_PULL: Final = 32  # maxTransferCountOnMessageInMemory


class LogExtent:
    """Which bytes of the log can be handed out.

    Args:
        log: the commitlog.
    """

    def __init__(self, log: FileQueue) -> None:
        self.file_length = log.file_length
        self._starts = np.array([file.start for file in log.files], np.int64)
        self._lengths = np.array([file.wrote_position for file in log.files], np.int64)

    def holds(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell of which units the record's bytes are there."""
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        if not self._starts.size:
            return np.zeros(len(units), np.bool_)
        numbers = np.searchsorted(self._starts, offsets, side="right") - 1
        numbers[offsets == 0] = 0  # whoever asks for 0 is given the first file
        positions = np.where(offsets == 0, 0, offsets - self._starts[numbers])
        there: NDArray[np.bool_] = numbers >= 0
        there &= positions + sizes <= self._lengths[numbers]
        return there


@dataclass(slots=True)
class Pull:
    """One pass over a queue.

    Attributes:
        log: which records are there.
        delivered: messages so far.
    """

    log: LogExtent
    delivered: int = 0
    _skip_below: int | None = None

    def add(self, units: NDArray[Any], *, begins_file: bool) -> None:
        """Pull the next units; a pull never goes over the end of a queue file."""
        if begins_file:
            self._skip_below = None
        there, counts = self.log.holds(units), _messages(units)
        if self._skip_below is None and there.all():
            self.delivered += int(counts.sum())
            return
        rows = zip(units["physical_offset"].tolist(), there.tolist(), counts.tolist(), strict=True)
        for offset, is_there, count in rows:
            if self._skip_below is not None and offset < self._skip_below:
                continue
            if is_there:
                self._skip_below = None
                self.delivered += count
            else:
                length = self.log.file_length
                self._skip_below = offset + length - java_remainder(offset, length)


def pull_misnamed(queue: ConsumeQueue, log: LogExtent, *, by_place: bool) -> int | None:
    """Give what is handed out of a queue with files whose names are no multiples of their length.

    Such a file is found by its name, and read from a place that is counted from 0; a consumer that
    is sent back ends there. None for a queue without one.
    Source: ConsumeQueue#getIndexBuffer, #rollNextFile, DefaultMessageStore#getMessage, 4.9.3 to
    5.5.0.

    Args:
        queue: after recovery.
        log: which records are there.
        by_place: `Rules.pulls_by_place` of the release.
    """
    files, length = queue.files, queue.files.file_length
    if not any(file.start % length for file in files.files):
        return None
    pull, number = Pull(log), queue.minimum
    while number < queue.maximum:
        file, position = files.find(number * CQ_UNIT_SIZE), number * CQ_UNIT_SIZE % length
        if file is None or position + CQ_UNIT_SIZE > file.wrote_position:
            number += (length - position) // CQ_UNIT_SIZE
            continue
        first = (file.start + position) // CQ_UNIT_SIZE if by_place else number
        count = min((file.wrote_position - position) // CQ_UNIT_SIZE, _MESSAGES_OF_A_PULL)
        if by_place:
            count = max(min(count, queue.maximum - first), 1)
        with file.open() as reader:
            raw = reader.read_at(position, count * CQ_UNIT_SIZE)
        pull.add(as_units(raw, CQ_UNIT), begins_file=True)
        if first + count <= number:
            break
        number = first + count
    return pull.delivered


def _messages(units: NDArray[Any]) -> NDArray[np.int64]:
    """Give how many messages each unit stands for; an empty one hands out nothing."""
    real = are_real(units).astype(np.int64)
    if "batch_size" in (units.dtype.names or ()):
        return real * units["batch_size"].astype(np.int64)
    return real
