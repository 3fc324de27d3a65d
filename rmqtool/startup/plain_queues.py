"""Consume queues that a start leaves as they are, told by columns: no object for them.

A queue in files is plain here when its only file holds units of records in the order of the log,
from its begin on, and nothing else; `rocksdb.plain_keyed` says which of a database are. Of a store
with many queues nearly all are. One that a start does something to is taken out: it becomes an
object, to which all is done that was done to the others.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, Generic, NoReturn, Self, TypeVar

import numpy as np

from rmqtool.broker.names import name_in_files, topic_text
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.machine.arrays import distinct
from rmqtool.queues.discovery import Queues
from rmqtool.queues.short import NO_QUEUES, NO_ROW, short_queues
from rmqtool.startup.queue_outcomes import KeptQueues
from rmqtool.startup.queues import ConsumeQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqtool.queues.kinds import Units
    from rmqtool.queues.short import ShortQueues
    from rmqtool.startup.load import Loader
    from rmqtool.startup.pull import LogExtent
    from rmqtool.startup.queues import QueueKey
    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

Queue = TypeVar("Queue")
DIRECTORY: Final = "consumequeue"
UNITS_AT_A_TIME: Final = 1 << 17  # that columns are made of


class PlainQueues(Generic[Queue]):
    """The plain queues of a store, by rows.

    Args:
        short: what was read of the short queues, each unit in 20 bytes.
        are_plain: which of them are: bool, shape (short queues,).
        excepted: topics whose queues are none of these.
        open_queue: reads a queue as a starting broker does.

    Attributes:
        short: what was read of the short queues.
        chosen: int64, shape (n,): which of them these are.
        first: int64, shape (n,): queue offset of the first unit.
        counts: int64, shape (n,): units.
        units: shape (units,), of the dtype of CQ_UNIT: of all of them, queue by queue.
        topics: of all of them.
    """

    def __init__(
        self,
        short: ShortQueues,
        are_plain: Mask,
        excepted: frozenset[str],
        open_queue: Callable[[QueueKey], Queue],
    ) -> None:
        self._open = open_queue
        self._steps: list[Callable[[Queue], None]] = []
        names, of_names = short.rows.names, short.rows.of_names
        self._texts = tuple(map(topic_text, names.topics))
        # A backslash may stand for a byte that is no text: such a topic a broker passes over.
        are_opened = ["\\" not in text and text not in excepted for text in self._texts]
        numbers = names.topic_numbers[of_names]
        units = short.units.view(CQ_UNIT.dtype)[:, 0]
        chosen = np.flatnonzero(are_plain & np.array(are_opened, np.bool_)[numbers])
        self.chosen = chosen
        self._topics, self._queue_ids = numbers[chosen], names.queue_ids[of_names[chosen]]
        self.topics = frozenset(self._texts[number] for number in distinct(self._topics).tolist())
        self._rows = np.full(len(short) + 1, NO_ROW, np.int64)
        self._rows[chosen] = np.arange(len(chosen))
        self.first, self.counts = short.first[chosen], (short.end - short.first)[chosen]
        self._begins = np.cumsum(self.counts) - self.counts
        if self.counts.sum() < len(units):  # others have units, too
            shift = np.repeat(short.position[chosen] - self._begins, self.counts)
            units = units[np.arange(len(shift)) + shift]
        self.short, self.units = short, units
        last = self.units[self._begins + self.counts - 1]
        self._oldest = self.units["physical_offset"][self._begins].astype(np.int64)
        self._newest = last["physical_offset"].astype(np.int64)
        self._ends = self._newest + last["size"]
        self.is_out = np.zeros(len(chosen), np.bool_)

    @classmethod
    def none(cls) -> Self:
        """Give no queues."""
        return cls(NO_QUEUES, NO_QUEUES.are_plain, frozenset(), _refuse)

    @property
    def left(self) -> Iterator[QueueKey]:
        """The queues that were not taken out."""
        return self._keys(np.flatnonzero(~self.is_out))

    @property
    def keys(self) -> Iterator[QueueKey]:
        """All of them, row by row."""
        return self._keys(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.is_out)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and (row := self.row(key)) >= 0 and not self.is_out[row]

    def numbers_of(self, topic: str) -> frozenset[int]:
        """Give the numbers of the queues of one topic."""
        rows, raw = self.short.rows, name_in_files(topic)
        within = rows.names.rows_in(raw)
        plain = self._rows[rows.of_rows(within.start, within.stop)]
        kept = (plain >= 0) & ~self.is_out[plain] if len(self) else np.zeros(len(plain), np.bool_)
        return frozenset(compress(rows.names.numbers_of(raw), kept.tolist()))

    def key(self, row: int) -> QueueKey:
        """Give topic and number of a queue, taken out or not."""
        return self._texts[int(self._topics[row])], int(self._queue_ids[row])

    def rows_of(self, names: Sequence[str], topics: Int64s, queue_ids: Int64s) -> Int64s:
        """Give the rows of many queues, taken out or not: int64, shape (n,); NO_ROW for others.

        Args:
            names: topics.
            topics: which of them each queue is of: int64, shape (n,).
            queue_ids: number of each in its topic: int64, shape (n,).
        """
        numbers = {text: number for number, text in enumerate(self._texts)}
        known = np.array([numbers.get(name, NO_ROW) for name in names], np.int64)
        rows: Int64s = self._rows[self.short.rows.rows_of(known[topics], queue_ids)]
        return rows

    def row(self, key: QueueKey) -> int:
        """Give the row of a queue, taken out or not; NO_ROW for another."""
        topic, queue_id = key
        name = name_in_files(topic), queue_id
        return int(self._rows[self.short.rows.get(name, NO_ROW)])

    def kept(self, *, in_rocksdb: bool = False) -> KeptQueues:
        """Give those that were not taken out: consumers pull them from the first to the last."""
        rows = np.flatnonzero(~self.is_out)
        first, end = self.first[rows], self.first[rows] + self.counts[rows]
        columns = (self._topics[rows], self._queue_ids[rows], first, end)
        return KeptQueues(self._texts, *columns, in_rocksdb=in_rocksdb)

    @property
    def max_physical_offset(self) -> int:
        """After the newest record that one of them points to, as the broker believes."""
        ends = self._ends[~self.is_out]
        return int(ends.max(initial=-1)) if self._steps else -1

    def extent(self, key: QueueKey) -> tuple[int, int]:
        """Give the smallest and the next offset of one of them, after recovery."""
        row = self.row(key)
        return int(self.first[row]), int(self.first[row] + self.counts[row])

    def units_of(self, key: QueueKey) -> tuple[int, Units]:
        """Give the number of the first unit of one, taken out or not, and its units."""
        row = self.row(key)
        begin = int(self._begins[row])
        return int(self.first[row]), self.units[begin : begin + int(self.counts[row])]

    def has_all(self, key: QueueKey, end: int) -> bool:
        """Tell whether one of them takes records that end at `end` for records that it has."""
        return end <= int(self._ends[self.row(key)])

    def take_out(self, keys: Iterable[QueueKey]) -> list[Queue]:
        """Make queues objects, and do to them what was done to all.

        Raises:
            UnreadablePath: a file may not be read.
        """
        taken = []
        for key in keys:
            self.is_out[self.row(key)] = True
            queue = self._open(key)
            for step in self._steps:
                step(queue)
            taken.append(queue)
        return taken

    def step(self, step: Callable[[Queue], None]) -> None:
        """Do to all of them what changes none: who is taken out later goes through it."""
        self._steps.append(step)

    def not_before(self, physical_offset: int) -> list[QueueKey]:
        """Give those with a unit at or after a physical offset."""
        return self._chosen(self._newest >= physical_offset)

    def older_than(self, physical_offset: int) -> list[QueueKey]:
        """Give those with a unit before a physical offset."""
        return self._chosen(self._oldest < physical_offset)

    def out_of_reach(self, log: LogExtent) -> list[QueueKey]:
        """Give those with a unit whose record is not there, or that a pull is refused for."""
        if not len(self):
            return []
        are_reached = np.empty(len(self.units), np.bool_)
        for first in range(0, len(self.units), UNITS_AT_A_TIME):
            part = slice(first, first + UNITS_AT_A_TIME)
            is_there, is_refused = log.answers(self.units[part])
            are_reached[part] = is_there & ~is_refused
        return self._chosen(~np.logical_and.reduceat(are_reached, self._begins))

    def _chosen(self, mask: Mask) -> list[QueueKey]:
        return [*self._keys(np.flatnonzero(mask & ~self.is_out))]

    def _keys(self, rows: Int64s) -> Iterator[QueueKey]:
        topics = map(self._texts.__getitem__, self._topics[rows].tolist())
        return zip(topics, self._queue_ids[rows].tolist(), strict=True)


def plain_queues(
    store: Store, loader: Loader, file_length: int, excepted: frozenset[str]
) -> PlainQueues[ConsumeQueue]:
    """Read the plain queues of a store.

    Args:
        store: that has them.
        loader: of the release.
        file_length: bytes of a queue file, as the broker has it.
        excepted: topics that ought to have queues of another kind.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    place: Place = store.root.child(DIRECTORY)

    def open_queue(key: QueueKey) -> ConsumeQueue:
        topic, queue_id = key
        at, path = place.child(topic).child(str(queue_id)), f"{DIRECTORY}/{topic}/{queue_id}"
        return ConsumeQueue(topic, queue_id, loader.load([(at, path)], file_length))

    with Queues(store) as queues:
        family = queues.files.family
    is_fit = family is not None and family.file_length == file_length and family.path == DIRECTORY
    short = short_queues(family) if is_fit else NO_QUEUES
    return PlainQueues(short, short.are_plain, excepted, open_queue)


def _refuse(key: QueueKey) -> NoReturn:
    raise KeyError(key)
