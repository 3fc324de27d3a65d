"""Names of a million queues in a few bytes each, and where the queues end.

A name is a topic, as it is stored, and a number. As Python objects, names take more memory than all
that is known of queues of two units.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

NUMBER_BITS: Final = 32  # of a queue
LOWEST: Final = -(1 << 31)  # number of a queue
NONE: Final = -(1 << 63)  # no offset
LONG: Final = "q"  # items of 8 bytes

QueueName = tuple[bytes, int]


class NameList:
    """Names in the order in which they come, some of them more than once."""

    def __init__(self) -> None:
        self.topics: dict[bytes, int] = {}  # number of each
        self.numbers, self.queue_ids = array(LONG), array(LONG)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, topic: bytes, queue_id: int) -> None:
        """Add a name."""
        self.extend(topic, (queue_id,))

    def extend(self, topic: bytes, queue_ids: Sequence[int]) -> None:
        """Add names of one topic."""
        number = self.topics.setdefault(topic, len(self.topics))
        self.numbers.extend([number] * len(queue_ids))
        self.queue_ids.extend(queue_ids)


class QueueNames(Sequence[QueueName]):
    """Names of queues, each once, by topic and number."""

    def __init__(self, topics: list[bytes], starts: array[int], queue_ids: array[int]) -> None:
        """Take them.

        Args:
            topics: sorted.
            starts: where the names of each topic begin, and the last ones end.
            queue_ids: by topic, sorted.
        """
        self.topics = topics
        self._starts, self._queue_ids = starts, queue_ids
        self._numbers = {topic: number for number, topic in enumerate(topics)}

    @classmethod
    def of(cls, names: NameList) -> tuple[Self, Int64s]:
        """Sort names.

        Returns:
            The names, and which of them each one of the list is: int64, shape (n,).
        """
        topics = sorted(names.topics)
        place = np.empty(len(topics), np.int64)
        place[[names.topics[topic] for topic in topics]] = np.arange(len(topics))
        keys = _keys(place[np.array(names.numbers, np.int64)], np.array(names.queue_ids, np.int64))
        unique, rows = np.unique(keys, return_inverse=True)
        starts = np.searchsorted(unique >> NUMBER_BITS, np.arange(len(topics) + 1))
        queue_ids = (unique & ((1 << NUMBER_BITS) - 1)) + LOWEST
        made = cls(topics, _packed(starts.astype(np.int64)), _packed(queue_ids))
        return made, rows.astype(np.int64)

    def __len__(self) -> int:
        return len(self._queue_ids)

    @overload
    def __getitem__(self, row: int) -> QueueName: ...

    @overload
    def __getitem__(self, row: slice) -> list[QueueName]: ...

    def __getitem__(self, row: int | slice) -> QueueName | list[QueueName]:
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        queue_id = self._queue_ids[row]
        number = bisect_right(self._starts, row % len(self)) - 1
        return self.topics[number], queue_id

    def __iter__(self) -> Iterator[QueueName]:
        for topic, (start, end) in zip(self.topics, pairwise(self._starts), strict=True):
            for queue_id in self._queue_ids[start:end]:
                yield topic, queue_id

    def __contains__(self, name: object) -> bool:
        return isinstance(name, tuple) and self.row(*name) >= 0

    def row(self, topic: bytes, queue_id: int) -> int:
        """Give which name it is; -1 for none."""
        if (number := self._numbers.get(topic)) is None:
            return -1
        end = self._starts[number + 1]
        row = bisect_left(self._queue_ids, queue_id, self._starts[number], end)
        return row if row < end and self._queue_ids[row] == queue_id else -1

    def numbers_of(self, topic: bytes) -> Sequence[int]:
        """Give the numbers of the queues of one topic, sorted."""
        rows = self.rows_in(topic)
        return self._queue_ids[rows.start : rows.stop]

    def rows_in(self, topic: bytes) -> range:
        """Give which names are those of the queues of one topic."""
        if (number := self._numbers.get(topic)) is None:
            return range(0)
        return range(self._starts[number], self._starts[number + 1])

    def of_topic(self, topic: bytes) -> Iterator[QueueName]:
        """Give the names of one topic, by number."""
        return ((topic, queue_id) for queue_id in self.numbers_of(topic))

    def topic_number(self, topic: bytes) -> int:
        """Give which of `topics` one is; -1 for none."""
        return self._numbers.get(topic, -1)

    def rows_of(self, topic_numbers: Int64s, queue_ids: Int64s) -> Int64s:
        """Give which names some are.

        Args:
            topic_numbers: int64, shape (n,): which of `topics`; -1 for none.
            queue_ids: int64, shape (n,).

        Returns:
            int64, shape (n,); -1 for none.
        """
        starts, known = np.frombuffer(self._starts, np.int64), self.queue_ids
        if not len(known):
            return np.full(topic_numbers.shape, -1, np.int64)
        low, ends = starts[topic_numbers], np.append(starts[1:], 0)[topic_numbers]
        # Nearly all topics have the queues from 0 on.
        rows = np.clip(low + queue_ids, 0, len(known) - 1)
        is_there = (rows >= low) & (rows < ends) & (known[rows] == queue_ids)
        left = np.flatnonzero((ends > low) & ~is_there)
        if left.size:
            rows[left] = _bisected(known, queue_ids[left], low[left], ends[left])
            is_there[left] = known[rows[left]] == queue_ids[left]
        return np.where(is_there & (topic_numbers >= 0), rows, -1)

    @property
    def queue_ids(self) -> Int64s:
        """The numbers of the queues: int64, shape (n,)."""
        return _unpacked(self._queue_ids)

    @property
    def topic_numbers(self) -> Int64s:
        """Which of `topics` each name has: int64, shape (n,)."""
        starts = np.array(self._starts, np.int64)
        return np.repeat(np.arange(len(self.topics)), starts[1:] - starts[:-1])


class QueueEnds(NamedTuple):
    """What the rows of a queue in the family `offset` say."""

    # physical offset and number of the last unit; None without a row
    maximum: tuple[int, int] | None = None
    minimum: tuple[int, int] | None = None  # the same of the first one: a cache that may be old

    @property
    def next_offset(self) -> int:
        """Queue offset of the next message."""
        return self.maximum[1] + 1 if self.maximum else 0


NO_ENDS: Final = QueueEnds()


class EndList(NamedTuple):
    """Rows of one kind, `max` or `min`, in the order in which they come."""

    names: NameList
    physical_offsets: array[int]
    queue_offsets: array[int]

    @classmethod
    def new(cls) -> Self:
        """Begin with none."""
        return cls(NameList(), array(LONG), array(LONG))

    def add(self, name: QueueName, end: tuple[int, int]) -> None:
        """Add a row."""
        self.names.add(*name)
        self.physical_offsets.append(end[0])
        self.queue_offsets.append(end[1])


class _SortedEnds(NamedTuple):
    """The same by name."""

    names: QueueNames
    physical_offsets: array[int]
    queue_offsets: array[int]

    @classmethod
    def of(cls, ends: EndList) -> Self:
        names, rows = QueueNames.of(ends.names)
        columns = []
        for offsets in (ends.physical_offsets, ends.queue_offsets):
            column = np.empty(len(names), np.int64)
            column[rows] = np.array(offsets, np.int64)  # of two rows the later one counts
            columns.append(_packed(column))
        return cls(names, *columns)

    def columns(self, names: QueueNames) -> tuple[Int64s, Int64s]:
        """Give physical offsets and queue offsets by the rows of some names."""
        place, number = _unpacked(self.physical_offsets), _unpacked(self.queue_offsets)
        if self.names is names:
            return place, number
        known = np.array([*map(names.topic_number, self.names.topics)], np.int64)
        rows = names.rows_of(known[self.names.topic_numbers], self.names.queue_ids)
        is_there = rows >= 0
        of_names = np.full((2, len(names)), NONE, np.int64)
        of_names[:, rows[is_there]] = place[is_there], number[is_there]
        return of_names[0], of_names[1]

    def end(self, name: QueueName) -> tuple[int, int] | None:
        row = self.names.row(*name)
        return (self.physical_offsets[row], self.queue_offsets[row]) if row >= 0 else None


class EndColumns(NamedTuple):
    """Where queues end; NONE without a row."""

    # physical offset and queue offset of `max`, and of `min`: int64, shape (n,)
    ends: tuple[tuple[Int64s, Int64s], tuple[Int64s, Int64s]]

    def whole(self, first: Int64s, last: Int64s, last_place: Int64s, oldest: int) -> Mask:
        """Tell of which queues nothing is to be said: bool, shape (n,).

        The row of `max` is that of the last unit. That of `min`, a cache, is of the first one, old,
        or missing.

        Args:
            first: number of the first unit that the log wants.
            last: of the last one.
            last_place: where its record lies.
            oldest: first physical offset that the log has.
        """
        (max_place, max_number), (min_place, min_number) = self.ends
        is_first = (min_place == NONE) | (min_place < oldest) | (min_number == first)
        whole: Mask = is_first & (max_place == last_place) & (max_number == last)
        return whole


class EndsOfQueues(Mapping[QueueName, QueueEnds]):
    """Where queues end, by name; those without a row are not there."""

    def __init__(self, maxima: EndList, minima: EndList) -> None:
        self._maxima, self._minima = _SortedEnds.of(maxima), _SortedEnds.of(minima)
        self._others = [name for name in self._minima.names if name not in self._maxima.names]

    @property
    def with_maximum(self) -> QueueNames:
        """The queues that have a row of `max`."""
        return self._maxima.names

    def of(self, name: QueueName) -> QueueEnds:
        """Give what the rows of a queue say; of one without rows, nothing."""
        return QueueEnds(self._maxima.end(name), self._minima.end(name))

    def columns(self, names: QueueNames) -> EndColumns:
        """Give the same by the rows of some names."""
        return EndColumns((self._maxima.columns(names), self._minima.columns(names)))

    def __getitem__(self, name: QueueName) -> QueueEnds:
        if (ends := self.of(name)) == NO_ENDS:
            raise KeyError(name)
        return ends

    def __iter__(self) -> Iterator[QueueName]:
        yield from self._maxima.names
        yield from self._others

    def __len__(self) -> int:
        return len(self._maxima.names) + len(self._others)


def _keys(topic_numbers: Int64s, queue_ids: Int64s) -> Int64s:
    keys: Int64s = (topic_numbers << NUMBER_BITS) + (queue_ids - LOWEST)
    return keys


def _bisected(known: Int64s, wanted: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """Bisect for many numbers at once, each in a stretch of its own, which is not empty.

    Args:
        known: int64: sorted in each stretch.
        wanted: int64, shape (n,).
        low: where the stretches begin: int64, shape (n,).
        high: where they end.

    Returns:
        Where each number is, if it is in its stretch: int64, shape (n,), within the stretches.
    """
    last = high - 1
    for _ in range(int((high - low).max()).bit_length()):
        middle = np.minimum((low + high) // 2, last)
        is_before = (low < high) & (known[middle] < wanted)
        low, high = np.where(is_before, middle + 1, low), np.where(is_before, high, middle)
    return np.minimum(low, last)


def _unpacked(column: array[int]) -> Int64s:
    return np.frombuffer(column, np.int64) if column else np.empty(0, np.int64)


def _packed(column: Int64s) -> array[int]:
    packed = array(LONG)
    packed.frombytes(column.tobytes())
    return packed
