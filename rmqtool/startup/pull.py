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

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.queues.kinds import are_real, as_units
from rmqtool.startup.files import java_remainder
from rmqtool.startup.units import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqtool.startup.batch_queues import BatchQueue
    from rmqtool.startup.extensions import Unfit
    from rmqtool.startup.files import FileQueue, ModelFile
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
        if file is None:
            following = _rolls_over(queue, number)
            if following is None:
                break
            number = following
            continue
        if position + CQ_UNIT_SIZE > file.wrote_position:
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


def _rolls_over(queue: ConsumeQueue, number: int) -> int | None:
    """Give where a pull that finds no file ends up: it goes on file by file until there is one.

    Between two names may lie more files than anybody can count.
    """
    length = queue.files.file_length
    starts = [file.start for file in queue.files.files if file.start > number * CQ_UNIT_SIZE]
    return -(-min(starts) // length) * length // CQ_UNIT_SIZE if starts else None


def reach(
    queue: ConsumeQueue,
    parts: Iterable[tuple[int, NDArray[Any]]],
    unfit: Unfit,
    *,
    reads_ahead: bool,
) -> int:
    """Give the queue offset at which pulls begin to fail for ever, or the queue's maximum.

    A pull whose units have an extension that Java cannot read gives nothing, from its first one on;
    consumers ask for the same again. Source: DefaultMessageStore#getMessage, 4.9.3 to 5.5.0.

    Args:
        queue: after recovery.
        parts: number of the first, and units of shape (n,); in order.
        unfit: tells of units whose extension cannot be read.
        reads_ahead: whether a full pull reads one unit more, as 5.0.0 and newer do.
    """
    number = queue.minimum
    for first, units in parts:
        if first * CQ_UNIT_SIZE % queue.files.file_length == 0:
            number = max(first, queue.minimum)
        rows = unfit.rows(units) + first
        rows = rows[rows >= number]
        if rows.size:
            before = int(rows[0]) - number
            if reads_ahead:
                before = max(before - 1, 0)
            return number + before // _MESSAGES_OF_A_PULL * _MESSAGES_OF_A_PULL
    return queue.maximum


def pull_batches(queue: BatchQueue, log: LogExtent) -> int:
    """Give what is handed out of a batch queue, which finds its units by the offset asked for.

    A file that holds none of them hands out its last one again, and a hole, whose units say 0,
    sends the consumer back to 0: in both cases he never gets any further.
    Source: BatchConsumeQueue#getBatchMsgIndexBuffer, #rollNextFile, 5.0.0 to 5.5.0.

    Args:
        queue: after recovery.
        log: which records are there.
    """
    firsts = {_first_base(file): file for file in queue.files.files if _has_units(file)}
    bases_of_files = np.array(sorted(firsts), np.int64)
    last = queue.files.last
    newest = _first_base(last) if last is not None and _has_units(last) else None
    pull, wanted = Pull(log), queue.minimum
    while wanted < queue.maximum:
        older = int(np.searchsorted(bases_of_files, wanted, side="right"))
        if not older:
            break
        base = newest if newest is not None and newest <= wanted else int(bases_of_files[older - 1])
        units = _units_of(firsts[base])
        bases = units["msg_base_offset"].astype(np.int64)
        found = _batch_search(bases, wanted)
        if found is None:
            break
        pull.add(units[found:], begins_file=True)
        following = int(bases[-1]) + int(units["batch_size"][-1])
        if following <= wanted:
            break
        wanted = following
    return pull.delivered


def _has_units(file: ModelFile) -> bool:
    return file.wrote_position >= BATCH_CQ_UNIT_SIZE


def _first_base(file: ModelFile) -> int:
    with file.open() as reader:
        (first,) = as_units(reader.read_at(0, BATCH_CQ_UNIT_SIZE), BATCH_CQ_UNIT)
    return int(first["msg_base_offset"])


def _units_of(file: ModelFile) -> NDArray[Any]:
    with file.open() as reader:
        return np.concatenate([*chunks(reader, BATCH_CQ_UNIT, 0, file.wrote_position)])


def _batch_search(bases: NDArray[np.int64], wanted: int) -> int | None:
    """Search as Java does, which gives a neighbour of what is not there.

    Source: BatchConsumeQueue#binarySearch, 5.0.0 to 5.5.0.
    """
    left, right = 0, len(bases) - 1
    while left <= right:
        middle = (left + right) // 2
        if bases[middle] == wanted:
            return middle
        if bases[middle] > wanted:
            right = middle - 1
        elif middle > left:
            left = middle
        else:
            has_next = middle + 1 < len(bases) and bases[middle + 1] <= wanted
            return middle + has_next
    return None


def _messages(units: NDArray[Any]) -> NDArray[np.int64]:
    """Give how many messages each unit stands for; an empty one hands out nothing."""
    real = are_real(units).astype(np.int64)
    if "batch_size" in (units.dtype.names or ()):
        return real * units["batch_size"].astype(np.int64)
    return real
