"""What would become of the queues of a store, as data; by columns of those that a start leaves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.machine.arrays import distinct

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from numpy.typing import NDArray


class QueueOutcome(NamedTuple):
    """What would become of one queue."""

    topic: str  # its topic
    queue_id: int  # its number
    is_batch: bool  # whether it is a batch queue
    units_now: int  # units on disk now, those for space before the first one left out
    minimum: int  # smallest queue offset after the start
    maximum: int  # next queue offset after the start
    units_cut: int  # units that would go
    units_added: int  # units that would come
    units_shifted: int  # of these, such that would not stand at their record's queue offset
    readable: int  # messages that a consumer gets who pulls from the minimum on
    deleted_files: tuple[str, ...] = ()  # paths of files that would be deleted
    created_files: tuple[str, ...] = ()  # paths of files that would be created
    in_rocksdb: bool = False  # whether it lies in RocksDB; then no file is its own

    @property
    def changes(self) -> bool:
        """Whether the start would do anything to it."""
        return bool(self.units_cut or self.units_added or self.deleted_files)

    @property
    def keeps_all(self) -> bool:
        """Whether no unit goes or comes, and consumers get a message for each queue offset.

        Of a batch queue, whose offsets hold several messages, that is not asked.
        """
        is_whole = self.readable == self.maximum - self.minimum and not self.is_batch
        return is_whole and not (self.units_cut or self.units_added)


@dataclass(frozen=True, slots=True, eq=False)
class KeptQueues:
    """Consume queues that a start leaves as they are, by columns: consumers get all of them.

    Each has a unit at least, and one at each queue offset from the smallest to the next one.
    """

    names: tuple[str, ...]  # topics, as stored
    topics: NDArray[np.int64]  # which of them each queue is of: shape (n,)
    queue_ids: NDArray[np.int64]  # likewise, its number
    minimum: NDArray[np.int64]  # smallest queue offset
    maximum: NDArray[np.int64]  # next queue offset
    in_rocksdb: bool  # whether they lie in RocksDB

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[QueueOutcome]:
        columns = (self.topics, self.queue_ids, self.minimum, self.maximum)
        for topic, queue_id, minimum, maximum in zip(*(it.tolist() for it in columns), strict=True):
            count = maximum - minimum
            yield QueueOutcome(
                *(self.names[topic], queue_id, False, count, minimum, maximum, 0, 0, 0, count),
                in_rocksdb=self.in_rocksdb,
            )

    def all_topics(self) -> frozenset[str]:
        """Give the topics that have one of these queues."""
        return frozenset(self.names[number] for number in distinct(self.topics).tolist())

    def of(self, topics: Container[str]) -> KeptQueues:
        """Give those of some topics."""
        are_asked = np.array([name in topics for name in self.names], np.bool_)
        rows = np.flatnonzero(are_asked[self.topics]) if self.names else self.topics
        return replace(
            self,
            topics=self.topics[rows],
            queue_ids=self.queue_ids[rows],
            minimum=self.minimum[rows],
            maximum=self.maximum[rows],
        )


class QueueOutcomes(Collection[QueueOutcome]):
    """What would become of all queues: those in files by topic and number, then those in RocksDB.

    Args:
        judged: of the queues that were looked at one by one.
        kept: those that the start leaves as they are, of which there may be a million.

    Attributes:
        judged: as given, in order.
    """

    _ORDER: Final = attrgetter("in_rocksdb", "topic", "queue_id", "is_batch")

    def __init__(self, judged: Iterable[QueueOutcome] = (), *kept: KeptQueues) -> None:
        self.judged = tuple(sorted(judged, key=self._ORDER))
        self._kept = kept

    def __len__(self) -> int:
        return len(self.judged) + sum(map(len, self._kept))

    def __iter__(self) -> Iterator[QueueOutcome]:
        return iter(sorted(chain(self.judged, *self._kept), key=self._ORDER))

    def __contains__(self, outcome: object) -> bool:
        return any(other == outcome for other in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueOutcomes) and [*self] == [*other]

    def __hash__(self) -> int:
        return hash((*self,))

    @property
    def keep_all(self) -> bool:
        """Whether each of them keeps all."""
        return all(outcome.keeps_all for outcome in self.judged)

    @property
    def topics_read(self) -> frozenset[str]:
        """Topics of which a consumer gets a message."""
        judged = (outcome.topic for outcome in self.judged if outcome.readable)
        return frozenset(judged).union(*(queues.all_topics() for queues in self._kept))

    def and_more(self, judged: Iterable[QueueOutcome], kept: KeptQueues) -> QueueOutcomes:
        """Give these and others; see the class."""
        return QueueOutcomes(chain(self.judged, judged), *self._kept, kept)

    def of(self, topics: Container[str]) -> QueueOutcomes:
        """Give those of some topics."""
        judged = (outcome for outcome in self.judged if outcome.topic in topics)
        return QueueOutcomes(judged, *(queues.of(topics) for queues in self._kept))
