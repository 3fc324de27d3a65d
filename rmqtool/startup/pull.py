"""What a consumer gets who pulls a queue from its minimum on.

A unit without its record makes the broker pass over all units up to the next commitlog file, so
that messages beside a gap are lost with it.
Source: DefaultMessageStore#getMessage, CommitLog#getMessage, MappedFile#selectMappedBuffer, 4.9.3
to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.queues.kinds import are_real, as_units
from rmqtool.startup.files import java_remainder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqtool.startup.extension import Extension
    from rmqtool.startup.files import FileQueue
    from rmqtool.startup.queues import ConsumeQueue


MESSAGES_OF_A_PULL: Final = 32  # maxTransferCountOnMessageInMemory
BYTES_OF_A_PULL: Final = 256 << 10  # maxTransferBytesOnMessageInMemory
JAVA_INT_MAX: Final = (1 << 31) - 1


class LogExtent:
    """Which bytes of the log can be handed out.

    Args:
        log: the commitlog.
    """

    def __init__(self, log: FileQueue) -> None:
        self.file_length = log.file_length
        self._starts = np.array([file.start for file in log.files], np.int64)
        self._lengths = np.array([file.wrote_position for file in log.files], np.int64)
        is_even = self._starts.size > 0 and self._starts[0] % self.file_length == 0
        self._is_whole = is_even and bool((np.diff(self._starts) == self.file_length).all())

    def answers(self, units: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell of which units the record's bytes are there, and which make the broker throw.

        The place in a file is counted from 0, whatever its name. It throws where what is asked for
        is no part of a file: the size is below 0, or so large that Java's sum of it and the place
        in the file is.
        Source: CommitLog#getMessage, MappedFile#selectMappedBuffer,
        DefaultMappedFile#selectMappedBuffer, 4.9.3 to 5.5.0.
        """
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        numbers, has_file = self._file_of(offsets)
        ends = offsets % self.file_length + sizes
        there = has_file & (ends <= self._lengths[numbers]) if self._starts.size else has_file
        return there, has_file & ((sizes < 0) | (ends > JAVA_INT_MAX))

    def _file_of(self, offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Give the number of the file that each offset is looked for in, and whether there is one.

        A file is found by how many files it ought to lie after the first one, else it is the first
        one whose name fits; all that where the first and the last file have the offset between
        them, which they need not where names have not 20 digits and so another order.
        Source: MappedFileQueue#findMappedFileByOffset, 4.9.3 to 5.5.0.
        """
        if not self._starts.size:
            return np.zeros(len(offsets), np.int64), np.zeros(len(offsets), np.bool_)
        length = self.file_length
        counted = np.clip(offsets // length - self._starts[0] // length, 0, len(self._starts) - 1)
        if self._is_whole:  # nearly always: no file but the counted one has the place
            has_place = self._named(counted, offsets)
            counted[offsets == 0] = 0
            return counted, has_place | (offsets == 0)
        numbers = np.where(self._named(counted, offsets), counted, self._fitting(offsets))
        there: NDArray[np.bool_] = self._named(numbers, offsets)
        there &= (offsets >= self._starts[0]) & (offsets - length < self._starts[-1])
        there |= offsets == 0
        numbers[offsets == 0] = 0  # whoever asks for 0 is given the first file
        return numbers, there

    def _fitting(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the number of the first file whose name may fit each offset."""
        if (np.diff(self._starts) >= 0).all():
            fitting = np.searchsorted(self._starts, offsets - self.file_length, side="right")
            return np.minimum(fitting, len(self._starts) - 1)
        numbers = np.zeros(len(offsets), np.int64)
        for number in reversed(range(len(self._starts))):
            numbers[self._named(np.full(len(offsets), number), offsets)] = number
        return numbers

    def _named(self, numbers: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of which offsets the files of these numbers have the place by their names."""
        positions: NDArray[np.int64] = offsets - self._starts[numbers]
        return (positions >= 0) & (positions < self.file_length)


@dataclass(slots=True)
class Pull:
    """One pass over a queue.

    Attributes:
        reads: units that one pull looks at
        ends_in_hole: whether what follows the units makes each pull throw that ends before it
    """

    log: LogExtent  # which records are there
    reads: int = 16_000 // CQ_UNIT_SIZE  # maxFilterMessageSize
    ends_in_hole: bool = False
    delivered: int = 0  # messages so far
    fails: bool = False  # whether a pull has thrown: consumers ask for the same again, for ever

    def add(self, units: NDArray[Any]) -> None:
        """Pull the next units of a queue file, of which they are the last: no pull goes on."""
        there, refused = self.log.answers(units)
        counts = _messages(units)
        if self.fails:
            return
        if there.all() and not refused.any() and not self.ends_in_hole:
            self.delivered += int(counts.sum())
            return
        rows = self._rows(units, there, refused, counts)
        first, before = 0, self.delivered
        while first < len(rows) and not self.fails:
            before = self.delivered
            first += self._pull(rows[first : first + self.reads])
        if self.ends_in_hole and not self.fails:
            self.delivered, self.fails = before, True

    def once(self, units: NDArray[Any]) -> int:
        """Pull once from the first of some units on; give how many of them were looked at."""
        there, refused = self.log.answers(units)
        return self._pull(self._rows(units, there, refused, _messages(units)))

    @staticmethod
    def _rows(units: NDArray[Any], *more: NDArray[Any]) -> list[_Row]:
        columns = (units["physical_offset"], units["size"], *more)
        return [_Row(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _pull(self, rows: list[_Row]) -> int:
        """Pull once; give how many units were looked at."""
        messages, taken, count, skip_below = 0, 0, 0, None
        for number, row in enumerate(rows):
            if skip_below is not None and row.offset < skip_below:
                continue
            is_full = messages >= MESSAGES_OF_A_PULL
            is_full |= BYTES_OF_A_PULL < taken + row.size <= JAVA_INT_MAX
            if is_full and taken:
                self.delivered += count
                return number
            if row.is_refused:
                self.fails = True
                return number
            if row.is_there:
                messages, taken, skip_below = messages + 1, taken + row.size, None
                count += row.messages
            else:
                length = self.log.file_length
                skip_below = row.offset + length - java_remainder(row.offset, length)
        self.delivered += count
        return len(rows)


class _Row(NamedTuple):
    """A unit, and what a pull makes of it."""

    offset: int  # physical offset
    size: int  # of the record
    is_there: bool  # whether the bytes of the record are there
    is_refused: bool  # whether a pull that comes to it throws
    messages: int  # that it stands for


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
        whole, torn = divmod(file.wrote_position - position, CQ_UNIT_SIZE)
        count = min(whole, pull.reads + number - first)
        if by_place:
            count = max(min(count, queue.maximum - first), 1)
        with file.open() as reader:
            raw = reader.read_at(position, count * CQ_UNIT_SIZE)
        before = pull.delivered
        looked_at = pull.once(as_units(raw, CQ_UNIT))
        comes_to_torn = torn and looked_at == whole
        if comes_to_torn and (not by_place or first + looked_at < queue.maximum):
            return before  # the pull throws, each time that a consumer asks
        if pull.fails or first + looked_at <= number:
            break
        number = first + looked_at
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
    extension: Extension,
    *,
    reads_ahead: bool,
) -> int:
    """Give the queue offset at which pulls begin to fail for ever, or the queue's maximum.

    A pull whose units have an extension that Java cannot read gives nothing, from its first one on;
    consumers ask for the same again. Source: DefaultMessageStore#getMessage, 4.9.3 to 5.5.0.

    Args:
        queue: after recovery.
        parts: number of the first, and units of shape (n,); in order.
        extension: of the queue, after the start.
        reads_ahead: whether a full pull reads one unit more, as 5.0.0 and newer do.
    """
    number = queue.minimum
    for first, units in parts:
        if first * CQ_UNIT_SIZE % queue.files.file_length == 0:
            number = max(first, queue.minimum)
        rows = extension.unfit(units) + first
        rows = rows[rows >= number]
        if rows.size:
            before = int(rows[0]) - number
            if reads_ahead:
                before = max(before - 1, 0)
            return number + before // MESSAGES_OF_A_PULL * MESSAGES_OF_A_PULL
    return queue.maximum


def _messages(units: NDArray[Any]) -> NDArray[np.int64]:
    """Give how many messages each unit stands for; an empty one hands out nothing."""
    return are_real(units).astype(np.int64)
