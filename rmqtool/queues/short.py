"""Short queues, read at once into columns: the first thing to do with 100,000 of them.

A queue is short here when its directory holds one file of the right length and name, with a few
pages of data. What else there is, is read one by one, and judged there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import name_in_files
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.queues.kinds import are_real
from rmqtool.queues.lone_kernels import (
    COUNT,
    DIRECTORY_GROUP,
    DIRECTORY_MODE,
    FACTS,
    FIRST,
    GROUP,
    MODE,
    QUEUE_ID,
    START,
    STORED,
)
from rmqtool.queues.lone_queues import lone_queues
from rmqtool.queues.queue_names import NameList, QueueName, QueueNames
from rmqtool.store.entry import printable
from rmqtool.store.one_look import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.queues.kinds import Units
    from rmqtool.store.queues import QueueFamily

    Int32s = npt.NDArray[np.int32]
    Int64s = npt.NDArray[np.int64]
    UInt8s = npt.NDArray[np.uint8]
    UInt32s = npt.NDArray[np.uint32]
    Mask = npt.NDArray[np.bool_]

NO_ROW: Final = -1


class ShortRows(Mapping[QueueName, int]):
    """Which of the short queues a queue is, by topic and number.

    Args:
        names: of all queues, among them the short ones.
        of_names: which of the names each short queue has: integers, shape (short queues,).
    """

    def __init__(self, names: QueueNames, of_names: Int64s) -> None:
        self.names, self.of_names = names, of_names.astype(np.int32)
        self._rows = np.full(len(names) + 1, NO_ROW, np.int32)  # the last one is of no name
        self._rows[of_names] = np.arange(len(of_names))

    def __getitem__(self, name: QueueName) -> int:
        short = int(self._rows[self.names.row(*name)])
        if short < 0:
            raise KeyError(name)
        return short

    def __iter__(self) -> Iterator[QueueName]:
        return (self.name(row) for row in range(len(self)))

    def __len__(self) -> int:
        return len(self.of_names)

    def name(self, short: int) -> QueueName:
        """Give the name of a short queue."""
        return self.names[int(self.of_names[short])]

    def rows_of(self, topic_numbers: Int64s, queue_ids: Int64s) -> Int64s:
        """Give the rows of some queues: int64, shape (n,); NO_ROW for those that are not short.

        Args:
            topic_numbers: int64, shape (n,): which of the topics of `names`; -1 for none.
            queue_ids: int64, shape (n,).
        """
        rows: Int64s = self._rows[self.names.rows_of(topic_numbers, queue_ids)].astype(np.int64)
        return rows

    def of_rows(self, start: int, end: int) -> Int32s:
        """Give the rows of some names that follow each other; NO_ROW for those not short.

        int32, shape (end - start,).
        """
        return self._rows[start:end]


class ShortFiles(NamedTuple):
    """The files of short queues, one each; arrays of shape (n,)."""

    path: str  # of the directory of the family, relative to the store root
    file_length: int  # bytes of each
    start: Int64s  # int64: its first byte in the queue, by its name
    stored: Int64s  # int64: bytes that the disk holds
    whose: UInt32s  # uint32, shape (3, n): mode, owner and group of the file
    whose_directory: UInt32s  # the same of its directory


@dataclass(frozen=True)
class ShortQueues:
    """Consume queues; numbers are those of units, from the begin of a queue."""

    rows: ShortRows  # by queue: in files, by the topic as it is printed
    first: Int64s  # int64, shape (n,): of the first unit that is not zeros
    end: Int64s  # int64, shape (n,): after the last unit that is not zeros; `first` without any
    position: Int64s  # int64, shape (n,): where `first` lies in `units`
    units: UInt8s  # uint8, shape (units, 20): of all queues, packed; of RocksDB with times, 28
    files: ShortFiles | None = None  # None: in RocksDB

    def __len__(self) -> int:
        return len(self.first)

    @property
    def fields(self) -> Units:
        """The units by their fields: shape (units,)."""
        layout = CQ_UNIT if self.units.shape[1] == CQ_UNIT_SIZE else ROCKSDB_CQ_UNIT
        units: Units = self.units.view(layout.dtype)[:, 0]
        return units

    @cached_property
    def are_plain(self) -> Mask:
        """Which hold only units of records in the order of the log, from the begin of their file.

        bool, shape (n,).
        """
        units, has_units = self.fields, self.end > self.first
        offsets = units["physical_offset"].astype(np.int64)
        follows = np.ones(len(units), np.bool_)
        follows[1:] = offsets[1:] > offsets[:-1]
        follows[self.position[has_units]] = True
        start = self.files.start if self.files else 0
        plain: Mask = has_units & (self.first * CQ_UNIT_SIZE == start)
        are_sound = follows & are_real(units)
        plain[has_units] &= np.logical_and.reduceat(are_sound, self.position[has_units])
        return plain

    def names_in(self, path: str) -> frozenset[str]:
        """See `KnownFiles`."""
        above, _, topic = path.rpartition("/")
        if self.files is None or above != self.files.path:
            return frozenset()
        return frozenset(map(str, self.rows.names.numbers_of(name_in_files(topic))))

    def by_rights(self) -> Iterator[tuple[tuple[int, int, int], int, Callable[[], Iterator[str]]]]:
        """See `KnownFiles`."""
        if self.files is None:
            return
        for is_file, whose in ((True, self.files.whose), (False, self.files.whose_directory)):
            order = np.lexsort(whose)
            borders = np.flatnonzero((np.diff(whose[:, order]) != 0).any(axis=0)) + 1
            for rows in np.split(order, borders) if len(order) else ():
                mode, owner, group = whose[:, rows[0]].tolist()
                yield (mode, owner, group), len(rows), partial(self._paths, rows, is_file=is_file)

    def _paths(self, rows: Int64s, *, is_file: bool) -> Iterator[str]:
        """Give the paths of some queues in files, or of their files."""
        if self.files is None:
            return
        for row in rows.tolist():
            topic, queue_id = self.rows.name(row)
            path = f"{self.files.path}/{topic.decode()}/{queue_id}"
            yield f"{path}/{self.files.start[row]:020d}" if is_file else path


_NONE: Final = np.empty(0, np.int64)
NO_QUEUES: Final = ShortQueues(
    ShortRows(QueueNames.of(NameList())[0], _NONE),
    *(_NONE, _NONE, _NONE, np.empty((0, CQ_UNIT_SIZE), np.uint8)),
)


def short_queues(
    family: QueueFamily | None, topic: str | None = None, jobs: int | None = None
) -> ShortQueues:
    """Read the short queues of a family; none where the length of its files is unknown.

    During `one_look` they are read once.

    Args:
        family: of consume queues; None for no directory of them.
        topic: the only one that is asked for, printable; None is all.
        jobs: threads that read them; None is one for each processor.

    Raises:
        UnreadablePath: the family's directory may not be listed.
    """
    if family is None or family.single is not None or not family.file_length:
        return NO_QUEUES
    place, kind = str(family.place), type(family.place)  # an edited store has its own answers
    asked = (short_queues, place, kind, family.path, family.file_length, family.topic, topic)
    return once(asked, lambda: _read(family, topic, jobs))


def _read(family: QueueFamily, topic: str | None, jobs: int | None) -> ShortQueues:
    directories = family.topics()
    names = {printable(name): name for name in directories}
    if len(names) < len(directories):  # which of two is meant cannot be told by name
        return NO_QUEUES
    topics = [shown for shown in names if topic in {None, shown}]
    listed, packed, facts = NameList(), bytearray(), bytearray()
    places = [family.place.child(names[shown]) for shown in topics]
    for shown, queues in zip(topics, lone_queues(places, family.file_length, jobs), strict=True):
        listed.extend(name_in_files(shown), queues.facts[:, QUEUE_ID].tolist())
        facts += queues.facts.tobytes()  # not an object each: they would lie between others
        packed += queues.units
    if not len(listed):
        return NO_QUEUES
    columns = np.frombuffer(facts, np.int64).reshape(-1, FACTS).T
    first, count = columns[FIRST].copy(), columns[COUNT].copy()
    whose = (columns[MODE : GROUP + 1], columns[DIRECTORY_MODE : DIRECTORY_GROUP + 1])
    files = ShortFiles(
        *(family.path, family.file_length, columns[START].copy(), columns[STORED].copy()),
        *(rights.astype(np.uint32) for rights in whose),  # what the system has: 32 bits
    )
    units = np.frombuffer(packed, np.uint8).reshape(-1, CQ_UNIT_SIZE)
    rows, position = ShortRows(*QueueNames.of(listed)), np.cumsum(count) - count
    return ShortQueues(rows, first, first + count, position, units, files)
