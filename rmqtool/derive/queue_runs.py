"""Queue runs: units of one queue that lie one after the other, packed as a broker packs them.

A run is addressed by its queue offset: its bytes belong at `queue_offset * 20` of the queue. Units
of batch queues have no such place; their runs are in log order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Final, Self, overload

import numpy as np

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import PHYSICAL_OFFSET, QueueKind, first_offset
from rmqtool.machine.arrays import stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt


BASE_OFFSET: Final = BATCH_CQ_UNIT["msg_base_offset"]
_ROWS: Final = 1 << 14  # that become objects at a time
_HERE: Final = (-1, -1)  # in the place of the ends of a run whose units are not left out


def _no_times() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


def _no_ends() -> npt.NDArray[np.int64]:
    return np.empty((0, 2), np.int64)


class RunQueues(Sequence[tuple[bytes, int]]):
    """Topic and number of each queue that occurs, in columns: few topics have many queues.

    Args:
        topics: as stored.
        topic: int64, shape (n,): which of `topics` each queue has.
        queue_id: int64, shape (n,).
    """

    __slots__ = ("queue_id", "topic", "topics")

    def __init__(
        self,
        topics: Sequence[bytes],
        topic: npt.NDArray[np.int64],
        queue_id: npt.NDArray[np.int64],
    ) -> None:
        self.topics, self.topic, self.queue_id = topics, topic, queue_id

    @classmethod
    def of(cls, names: Iterable[tuple[bytes, int]]) -> Self:
        """Take them from names."""
        listed = [*names]
        numbers: dict[bytes, int] = {}
        topic = [numbers.setdefault(name, len(numbers)) for name, _ in listed]
        queue_ids = np.array([queue_id for _, queue_id in listed], np.int64)
        return cls((*numbers,), np.array(topic, np.int64), queue_ids)

    def __len__(self) -> int:
        return len(self.topic)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        topics = self.topics
        names = zip(self.topic.tolist(), self.queue_id.tolist(), strict=True)
        return ((topics[topic], queue_id) for topic, queue_id in names)

    @overload
    def __getitem__(self, number: int) -> tuple[bytes, int]: ...

    @overload
    def __getitem__(self, number: slice | npt.NDArray[np.int64]) -> RunQueues: ...

    def __getitem__(
        self, number: int | slice | npt.NDArray[np.int64]
    ) -> tuple[bytes, int] | RunQueues:
        if not isinstance(number, int):
            return RunQueues(self.topics, self.topic[number], self.queue_id[number])
        return self.topics[int(self.topic[number])], int(self.queue_id[number])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunQueues) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # columns can change

    def chosen(self, numbers: npt.NDArray[np.int64]) -> RunQueues:
        """Give some of them, and no topic more than these have."""
        used, topic = np.unique(self.topic[numbers], return_inverse=True)
        topics = [self.topics[number] for number in used.tolist()]
        return RunQueues(topics, topic.astype(np.int64), self.queue_id[numbers])

    def followed_by(self, other: RunQueues) -> RunQueues:
        """Give these and then others; a queue may be in both."""
        topic = np.concatenate([self.topic, other.topic + len(self.topics)])
        queue_id = np.concatenate([self.queue_id, other.queue_id])
        return RunQueues((*self.topics, *other.topics), topic, queue_id)


@dataclass(frozen=True, slots=True)
class QueueRun:
    """Units that follow each other in one queue."""

    topic: bytes  # as stored
    queue_id: int  # of the topic
    queue_offset: int  # of the first unit; with batch queues its `msg_base_offset`
    units: memoryview  # packed, big-endian
    count: int  # units
    store_timestamp: int  # of the record of the last unit, ms; 4.9 and 5.0 search files by it
    kind: QueueKind  # which kind of file
    # int64, shape (count,): of the record of each unit, ms; empty unless asked for
    times: npt.NDArray[np.int64] = field(default_factory=_no_times)
    # physical offsets of the first and the last unit, where `units` are left out: they lie in the
    # queue, byte for byte, at `queue_offset`. None where they are here.
    ends: tuple[int, int] | None = None

    @property
    def first_physical_offset(self) -> int:
        """Where the record of the first unit lies."""
        return self.ends[0] if self.ends else first_offset(self.units)

    @property
    def last_physical_offset(self) -> int:
        """Where the record of the last unit lies."""
        last = len(self.units) - len(self.units) // max(self.count, 1)
        return self.ends[1] if self.ends else PHYSICAL_OFFSET.of(self.units, last)

    def parts(self, is_kept: npt.NDArray[np.bool_]) -> Iterator[QueueRun]:
        """Yield what is left of it without some units, all of which are here.

        Args:
            is_kept: bool, shape (count,).
        """
        size = len(self.units) // max(self.count, 1)
        for first, end in stretches(is_kept):
            units = self.units[first * size : end * size]
            is_batch = self.kind is QueueKind.BATCH_QUEUE  # whose units have numbers of their own
            yield replace(
                self,
                queue_offset=BASE_OFFSET.of(units) if is_batch else self.queue_offset + first,
                units=units,
                count=end - first,
                times=self.times[first:end],
            )


@dataclass(frozen=True, slots=True)
class QueueRuns:
    """The runs of one part of a commitlog. Picklable.

    Runs of the same queue are in log order, queues in the order of their first unit.
    """

    kind: QueueKind  # which kind of files they belong to
    queues: RunQueues  # each queue that occurs
    units: npt.NDArray[np.uint8]  # uint8, shape (n, 20 or 46): packed, run after run
    queue: npt.NDArray[np.int64]  # int64, shape (runs,): number in `queues`
    queue_offset: npt.NDArray[np.int64]  # int64, shape (runs,): of the first unit
    first: npt.NDArray[np.int64]  # int64, shape (runs,): number of the first unit in `units`
    count: npt.NDArray[np.int64]  # int64, shape (runs,): units
    # int64, shape (runs,): of the record of the last unit, ms
    store_timestamp: npt.NDArray[np.int64]
    # int64, shape (n,): of the record of each unit, ms; empty unless asked for. RocksDB keeps it
    # beside the unit, files do not.
    times: npt.NDArray[np.int64] = field(default_factory=_no_times)
    # int64, shape (runs, 2): physical offsets of the first and the last unit of each run whose
    # units are left out, see `QueueRun`; -1 for the others. Empty where none are.
    ends: npt.NDArray[np.int64] = field(default_factory=_no_ends)

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[QueueRun]:
        flat, size = self.units.reshape(-1).data, self.units.shape[1]
        for topic, queue_id, offset, first, count, store_timestamp, ends in self._rows():
            is_here = ends == _HERE
            packed = flat[first * size : (first + count) * size] if is_here else flat[:0]
            times = self.times[first : first + count]
            yield QueueRun(
                topic,
                queue_id,
                offset,
                packed,
                count,
                store_timestamp,
                self.kind,
                times,
                None if is_here else ends,
            )

    def _rows(self) -> Iterator[tuple[bytes, int, int, int, int, int, tuple[int, int]]]:
        """Give the columns by rows, not all at once: there may be a million."""
        for begin in range(0, len(self), _ROWS):
            part = slice(begin, begin + _ROWS)
            queues = self.queues[self.queue[part]]
            ends = map(tuple, self.ends[part].tolist()) if len(self.ends) else repeat(_HERE)
            yield from zip(
                map(queues.topics.__getitem__, queues.topic.tolist()),
                queues.queue_id.tolist(),
                self.queue_offset[part].tolist(),
                self.first[part].tolist(),
                self.count[part].tolist(),
                self.store_timestamp[part].tolist(),
                ends,
                strict=False,  # a repeated one has no end
            )

    def chosen(self, is_chosen: npt.NDArray[np.bool_]) -> QueueRuns:
        """Give some of these runs, none of whose units are left out, in the same order.

        Args:
            is_chosen: bool, shape (runs,).
        """
        count = np.where(is_chosen, self.count, 0)
        rows = np.repeat(is_chosen, self.count)
        return replace(
            self,
            units=self.units[rows],
            queue=self.queue[is_chosen],
            queue_offset=self.queue_offset[is_chosen],
            first=(np.cumsum(count) - count)[is_chosen],
            count=self.count[is_chosen],
            store_timestamp=self.store_timestamp[is_chosen],
            times=self.times[rows] if len(self.times) else self.times,
        )

    def followed_by(self, other: QueueRuns) -> QueueRuns:
        """Give these runs and then others of the same kind; a queue may be in both."""
        if not len(other):
            return self
        return QueueRuns(
            self.kind,
            self.queues.followed_by(other.queues),
            np.concatenate([self.units, other.units]),
            np.concatenate([self.queue, other.queue + len(self.queues)]),
            np.concatenate([self.queue_offset, other.queue_offset]),
            np.concatenate([self.first, other.first + len(self.units)]),
            np.concatenate([self.count, other.count]),
            np.concatenate([self.store_timestamp, other.store_timestamp]),
            np.concatenate([self.times, other.times]),
        )
