"""Short queues, read at once into columns: the first thing to do with 100,000 of them.

A queue is short here when its directory holds one file of the right length and name, with a few
pages of data. What else there is, is read one by one, and judged there.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.queues.kinds import are_real
from rmqtool.store.entry import printable
from rmqtool.store.lone_files import lone_files
from rmqtool.store.one_look import once
from rmqtool.store.queues import queue_id_of
from rmqtool.store.used import without_zeros

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.store.lone_files import LoneFile
    from rmqtool.store.queues import QueueFamily

    Int64s = npt.NDArray[np.int64]
    UInt8s = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

MOST_BYTES: Final = 128 << 20  # of units; the queues after these are read one by one


Key = TypeVar("Key")


@dataclass(frozen=True)
class ShortQueues(Generic[Key]):
    """Consume queues; numbers are those of units, from the begin of a queue."""

    rows: Mapping[Key, int]  # by queue: in files, by the path of its directory
    first: Int64s  # int64, shape (n,): of the first unit that is not zeros
    end: Int64s  # int64, shape (n,): after the last unit that is not zeros; `first` without any
    position: Int64s  # int64, shape (n,): where `first` lies in `units`
    units: UInt8s  # uint8, shape (units, 20): of all queues, packed; of RocksDB with times, 28
    owners: list[tuple[int, int, int]] = field(default_factory=list)  # mode, owner, group by row
    names: dict[int, str] = field(default_factory=dict)  # row to name of a file that is not 0
    stored: Sequence[int] = ()  # bytes that the disk holds, by row
    file_length: int = 0  # bytes of each file

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def are_plain(self) -> Mask:
        """Which hold only units of records in the order of the log, from the begin of their file.

        bool, shape (n,).
        """
        units, has_units = self.units.view(CQ_UNIT.dtype)[:, 0], self.end > self.first
        offsets = units["physical_offset"].astype(np.int64)
        follows = np.ones(len(units), np.bool_)
        follows[1:] = offsets[1:] > offsets[:-1]
        follows[self.position[has_units]] = True
        starts = np.zeros(len(self), np.int64)
        for row, name in self.names.items():
            starts[row] = int(name)
        plain: Mask = has_units & (self.first * CQ_UNIT_SIZE == starts)
        are_sound = follows & are_real(units)
        plain[has_units] &= np.logical_and.reduceat(are_sound, self.position[has_units])
        return plain

    def whose(self, path: Key) -> tuple[int, int, int]:
        """Give mode, owner and group of the file of one of these queues."""
        return self.owners[self.rows[path]]

    def file_of(self, path: Key) -> str:
        """Give the path of the file of one of these queues."""
        return f"{path}/{self.names.get(self.rows[path], FIRST)}"


FIRST: Final = "0" * 20  # name of the first file of a queue


_NONE: Final = np.empty(0, np.int64)
NO_QUEUES: Final[ShortQueues[str]] = ShortQueues(
    {}, _NONE, _NONE, _NONE, np.empty((0, CQ_UNIT_SIZE), np.uint8)
)


def short_queues(family: QueueFamily | None, topic: str | None = None) -> ShortQueues[str]:
    """Read the short queues of a family; none where the length of its files is unknown.

    During `one_look` they are read once.

    Args:
        family: of consume queues; None for no directory of them.
        topic: the only one that is asked for, printable; None is all.

    Raises:
        UnreadablePath: the family's directory may not be listed.
    """
    if family is None or family.single is not None or not family.file_length:
        return NO_QUEUES
    place, kind = str(family.place), type(family.place)  # an edited store has its own answers
    asked = (short_queues, place, kind, family.path, family.file_length, family.topic, topic)
    return once(asked, lambda: _read(family, topic))


def _read(family: QueueFamily, topic: str | None) -> ShortQueues[str]:
    rows: dict[str, int] = {}
    first, counts, stored = array("q"), array("q"), array("q")
    packed = bytearray()  # not an object each: they would lie between others that stay
    owners: list[tuple[int, int, int]] = []
    known: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # one object for all alike
    names: dict[int, str] = {}
    for path, file in _files(family, topic):
        number, units = _units(file)
        row = rows[path] = len(first)
        whose = (file.mode, file.owner, file.group)
        owners.append(known.setdefault(whose, whose))
        stored.append(file.stored)
        if file.start:
            names[row] = file.name
        first.append(number)
        counts.append(len(units) // CQ_UNIT_SIZE)
        packed += units
        if len(packed) >= MOST_BYTES:
            break
    begins, lengths = (np.array(column, np.int64) for column in (first, counts))
    joined = np.frombuffer(packed, np.uint8).reshape(-1, CQ_UNIT_SIZE)
    position = np.cumsum(lengths) - lengths
    return ShortQueues(
        *(rows, begins, begins + lengths, position, joined, owners, names, stored),
        file_length=family.file_length,
    )


def _files(family: QueueFamily, topic: str | None) -> Iterator[tuple[str, LoneFile]]:
    """Yield the path of each queue, and its only file."""
    for name in family.topics():
        shown = printable(name)
        if topic in {None, shown}:
            for file in lone_files(family.place.child(name), family.file_length):
                if queue_id_of(file.directory) is not None:
                    yield f"{family.path}/{shown}/{file.directory}", file


def _units(file: LoneFile) -> tuple[int, bytes]:
    """Give the number of the first unit that is not zeros, and all up to the last one."""
    begin, data = file.start + file.begin, without_zeros(file.data)
    if not data:
        return begin // CQ_UNIT_SIZE, b""
    zeros = len(data) - len(data.lstrip(b"\0")) if not data[0] else 0
    number = (begin + zeros) // CQ_UNIT_SIZE
    before = begin - number * CQ_UNIT_SIZE  # zeros of a hole, where it ends within a unit
    data = bytes(before) + data if before > 0 else data[-before:]
    return number, data.ljust(-(-len(data) // CQ_UNIT_SIZE) * CQ_UNIT_SIZE, b"\0")
