"""Numbers for the queues of a store, so that a million of them are told apart by columns.

Queues that are plain have theirs in the order of their rows, and no object; others one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.machine.arrays import numbered
from rmqtool.startup.plain_queues import UNITS_AT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqtool.startup.plain_queues import PlainQueues
    from rmqtool.startup.queues import QueueKey

    Int64s = NDArray[np.int64]
    Numbers = NDArray[np.uint32]


class _Plain(NamedTuple):
    """Plain queues of one kind."""

    queues: PlainQueues[Any]
    first: int  # number of the first row, but for those that had one before
    numbers: Numbers  # of each row: uint32, shape (n,)


class NumbersOfQueues:
    """The numbers, which are given in the order in which queues are asked for."""

    def __init__(self) -> None:
        self._numbers: dict[QueueKey, int] = {}  # of those that are not plain
        self._keys: dict[int, QueueKey] = {}  # the same
        self._plain: list[_Plain] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, key: QueueKey) -> int | None:
        """Give the number of a queue; None where it has none."""
        if (number := self._numbers.get(key)) is not None:
            return number
        for plain in self._plain:
            if (row := plain.queues.row(key)) >= 0:
                return int(plain.numbers[row])
        return None

    def of(self, key: QueueKey) -> int:
        """Give the number of a queue; a new one where it has none."""
        if (number := self.get(key)) is None:
            self._numbers[key] = number = self._count
            self._keys[number] = key
            self._count += 1
        return number

    def of_plain(self, queues: PlainQueues[Any]) -> Numbers:
        """Give the numbers of plain queues, by rows: uint32, shape (n,)."""
        numbers = np.arange(self._count, self._count + len(queues), dtype=np.uint32)
        known = [*self._numbers, *(key for plain in self._plain for key in plain.queues.keys)]
        for key in known if len(queues) else ():
            if (row := queues.row(key)) >= 0:
                numbers[row] = self.of(key)
        self._plain.append(_Plain(queues, self._count, numbers))
        self._count += len(queues)
        return numbers

    def of_names(self, names: Sequence[str], topics: Int64s, queue_ids: Int64s) -> Numbers:
        """Give the numbers of many queues, new ones where they have none.

        Args:
            names: topics.
            topics: which of them each queue is of: int64, shape (n,).
            queue_ids: number of each in its topic: int64, shape (n,).

        Returns:
            uint32, shape (n,).
        """
        numbers = np.empty(len(topics), np.uint32)
        for first in range(0, len(topics), UNITS_AT_A_TIME):  # what it takes is a dozen columns
            part = slice(first, first + UNITS_AT_A_TIME)
            numbers[part] = self._of_names(names, topics[part], queue_ids[part])
        return numbers

    def _of_names(self, names: Sequence[str], topics: Int64s, queue_ids: Int64s) -> Numbers:
        numbers, left = np.empty(len(topics), np.uint32), np.arange(len(topics))
        for plain in self._plain:
            rows = plain.queues.rows_of(names, topics[left], queue_ids[left])
            is_here = rows >= 0
            numbers[left[is_here]] = plain.numbers[rows[is_here]]
            left = left[~is_here]
        if left.size:
            lowest = int(queue_ids[left].min())
            width = int(queue_ids[left].max()) - lowest + 1
            asked, which = numbered(topics[left] * width + (queue_ids[left] - lowest))
            pairs = (divmod(pair, width) for pair in asked.tolist())
            new = [self.of((names[topic], lowest + number)) for topic, number in pairs]
            numbers[left] = np.array(new, np.uint32)[which]
        return numbers

    def key(self, number: int) -> QueueKey:
        """Give the topic and the number in it of a queue that has a number.

        Raises:
            KeyError: none has it.
        """
        for plain in self._plain:
            if 0 <= (row := number - plain.first) < len(plain.queues):
                return plain.queues.key(row)
        return self._keys[number]
