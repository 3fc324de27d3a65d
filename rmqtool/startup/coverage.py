"""Which places of the log each queue points to, now and after the start, by commitlog file.

Twelve bytes a unit, so that a log of many files can be asked file by file; what the start changes
is kept apart, as it is little. A message is in reach where its own queue points to it: what leads
to it from another topic or queue hands it to the wrong consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqtool.machine.arrays import are_within, distinct, in_order, is_in, order_of
from rmqtool.queues.kinds import are_real
from rmqtool.startup.plain_queues import UNITS_AT_A_TIME
from rmqtool.startup.queue_numbers import NumbersOfQueues
from rmqtool.store.segment import LARGEST_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqtool.startup.plain_queues import PlainQueues
    from rmqtool.startup.queues import QueueKey

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_SORTED_AT_A_TIME: Final = 2 * UNITS_AT_A_TIME
_UNITS_OF_A_PIECE: Final = 256  # at least, on average
_POSITION_BITS: Final = 32


class Pointed(NamedTuple):
    """Units that point into one commitlog file, by position; all of shape (n,)."""

    positions: Int64s  # in the file
    sizes: NDArray[np.int32]  # of the records, bytes
    queues: NDArray[np.uint32]  # numbers of the queues, see `NumbersOfQueues`


class StoredUnits(NamedTuple):
    """The same in fewer bytes."""

    positions: NDArray[np.uint32]
    sizes: NDArray[np.int32]
    queues: NDArray[np.uint32]


@dataclass(slots=True)
class Places:
    """Positions in the files of a log that units point to."""

    file_length: int  # bytes of a commitlog file
    files: dict[int, list[StoredUnits]] = field(default_factory=dict)  # by the number of a file
    _waiting: list[tuple[Int64s, Int64s, Int64s]] = field(default_factory=list)
    _count: int = 0
    # what was asked for last, which is asked for several times: begin of a file, its units
    _last: tuple[int, Pointed] | None = None

    def add(self, offsets: Int64s, sizes: Int64s, queues: Int64s) -> None:
        """Add units by their physical offsets, sizes and queues."""
        self._waiting.append((offsets, sizes, queues))
        self._count += len(offsets)
        self._last = None
        if self._count >= _SORTED_AT_A_TIME:
            self._sort_in()

    def _sort_in(self) -> None:
        """Hand what has been added to the files, in pieces of one each."""
        if not self._count:
            return
        offsets, sizes, queues = (
            np.concatenate(parts) for parts in zip(*self._waiting, strict=True)
        )
        self._waiting, self._count = [], 0
        numbers = offsets // self.file_length
        borders = _borders(numbers)
        if len(borders) > len(offsets) // _UNITS_OF_A_PIECE:  # short queues make tiny pieces
            order = order_of(numbers)
            offsets, sizes, queues, numbers = (
                column[order] for column in (offsets, sizes, queues, numbers)
            )
            borders = _borders(numbers)
        for begin, end in pairwise([0, *borders.tolist(), len(offsets)]):
            number = int(numbers[begin])
            positions = (offsets[begin:end] - number * self.file_length).astype(np.uint32)
            units = StoredUnits(
                positions, sizes[begin:end].astype("i4"), queues[begin:end].astype("u4")
            )
            self.files.setdefault(number, []).append(units)

    def of(self, start: int) -> Pointed:
        """Give the units that point into the file at `start`, sorted by position."""
        if self._last is None or self._last[0] != start:
            self._last = None  # not two files at a time
            self._last = start, self._of(start)
        return self._last[1]

    def _of(self, start: int) -> Pointed:
        self._sort_in()
        number, rest = divmod(start, self.file_length)
        # A file with a name that is not its place lies across two of them.
        units_near = [
            (units.positions.astype(np.int64) + (beside * self.file_length - rest), *units[1:])
            for beside in ((0, 1) if rest else (0,))
            for units in self.files.get(number + beside, ())
        ]
        if not units_near:
            return Pointed(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint32))
        columns = [np.concatenate(parts) for parts in zip(*units_near, strict=True)]
        positions, order = in_order(columns[0])
        if rest:
            is_within = (positions >= 0) & (positions < self.file_length)
            positions, order = positions[is_within], order[is_within]
        return Pointed(positions, *(column[order] for column in columns[1:]))

    def outside(self, extents: Iterable[tuple[int, int]]) -> Int64s:
        """Give the physical offsets that units point to and that lie in none of these extents.

        Args:
            extents: physical offsets of begin and end, of the files of the log.
        """
        self._sort_in()
        held = sorted(extents)
        starts = np.array([begin for begin, _ in held], np.int64)
        ends = np.array([min(end, LARGEST_LONG) for _, end in held], np.int64)
        outside = [np.empty(0, np.int64)]
        for number, parts in self.files.items():
            for units in parts:
                low, high = (
                    number * self.file_length + int(position)
                    for position in (units.positions.min(), units.positions.max())
                )
                if any(begin <= low and high < end for begin, end in held):
                    continue
                offsets = units.positions.astype(np.int64) + number * self.file_length
                outside.append(offsets[~are_within(offsets, starts, ends)])
        return distinct(np.concatenate(outside))

    def tile(self, start: int) -> int | None:
        """Give the end of the records that units point to, if these lie without a hole; or None."""
        positions, sizes, _ = self.of(start)
        if not positions.size or positions[0]:
            return None
        ends = positions + sizes
        return int(ends[-1]) if (positions[1:] == ends[:-1]).all() else None


@dataclass(slots=True)
class UnitCoverage:
    """The places that queues point to."""

    now: Places  # before the start
    gone: Places  # of these, such that their queue would not point to any more
    new: Places  # such that a queue would point to afterwards, and does not now
    numbers: NumbersOfQueues = field(default_factory=NumbersOfQueues)  # of queues
    # by these numbers: in how many places a queue has units, files and RocksDB; int64, shape (at
    # most queues,)
    _sources: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, file_length: int) -> UnitCoverage:
        """Begin with no unit."""
        return cls(Places(file_length), Places(file_length), Places(file_length))

    def add(self, key: QueueKey, units: tuple[Int64s, Int64s]) -> None:
        """Note what a queue has now: physical offsets and sizes of its units."""
        number = self.numbers.of(key)
        self.sources[number] += bool(len(units[0]))
        self.now.add(*units, np.full(len(units[0]), number))

    def add_queues(self, queues: PlainQueues[Any]) -> None:
        """Note what many queues have now, each of which has a unit."""
        numbers = self.numbers.of_plain(queues)
        self.sources[numbers] += 1
        repeated = np.repeat(numbers, queues.counts)
        for first in range(0, len(repeated), UNITS_AT_A_TIME):  # not all as wider numbers
            units = queues.units[first : first + UNITS_AT_A_TIME]
            offsets, sizes = units["physical_offset"], units["size"]
            added = (offsets, sizes, repeated[first : first + UNITS_AT_A_TIME])
            self.now.add(*(column.astype(np.int64) for column in added))

    def change(
        self, key: QueueKey, before: tuple[Int64s, Int64s], after: tuple[Int64s, Int64s]
    ) -> None:
        """Note what the start does to one queue.

        Args:
            key: its topic and ID.
            before: physical offsets and sizes of its units now.
            after: the same after the start.
        """
        sorted_before, sorted_after = np.sort(before[0]), np.sort(after[0])
        gone, new = ~is_in(before[0], sorted_after), ~is_in(after[0], sorted_before)
        number = self.numbers.of(key)
        self.gone.add(before[0][gone], before[1][gone], np.full(int(gone.sum()), number))
        self.new.add(after[0][new], after[1][new], np.full(int(new.sum()), number))

    @property
    def sources(self) -> Int64s:
        """In how many places each queue has units, files and RocksDB: int64, shape (queues,)."""
        if len(self._sources) < len(self.numbers):
            more = max(len(self.numbers), 2 * len(self._sources)) - len(self._sources)
            self._sources = np.append(self._sources, np.zeros(more, np.int64))
        return self._sources[: len(self.numbers)]

    def is_unchanged(self, start: int) -> bool:
        """Tell whether the start changes nothing about one commitlog file."""
        return not self.gone.of(start).positions.size and not self.new.of(start).positions.size

    def is_exact(self, start: int, positions: Int64s, queues: NDArray[np.uint32]) -> bool:
        """Tell whether queues lead to these records of a file, each its own, before and after.

        Args:
            start: begin of the file.
            positions: of the records, in it: int64, shape (n,).
            queues: number of the queue of each.
        """
        now = self.now.of(start)
        is_same = np.array_equal(now.positions, positions) and np.array_equal(now.queues, queues)
        return is_same and self.is_unchanged(start)

    def after(self, start: int) -> Pointed:
        """Give the units that would point into a file after the start, in any order."""
        now, new = self.now.of(start), self.new.of(start)
        kept = ~is_in(keys_of(now.positions, now.queues), self._keys(self.gone, start))
        return Pointed(
            np.concatenate([now.positions[kept], new.positions]),
            np.concatenate([now.sizes[kept], new.sizes]),
            np.concatenate([now.queues[kept], new.queues]),
        )

    def had(self, start: int, keys: Int64s) -> Mask:
        """Tell which records of a file their queue points to now; see `keys_of`."""
        return is_in(keys, self._keys(self.now, start))

    def has(self, start: int, keys: Int64s, had: Mask) -> Mask:
        """Tell which records of a file their queue would point to afterwards; see `keys_of`.

        Args:
            start: begin of the file.
            keys: of the records.
            had: which of them their queue points to now.
        """
        kept = had & ~is_in(keys, self._keys(self.gone, start))
        return kept | is_in(keys, self._keys(self.new, start))

    @staticmethod
    def _keys(places: Places, start: int) -> Int64s:
        units = places.of(start)
        return np.sort(keys_of(units.positions, units.queues))


def _borders(numbers: Int64s) -> Int64s:
    """Give the rows at which another number begins."""
    return np.flatnonzero(numbers[1:] != numbers[:-1]) + 1


def keys_of(positions: Int64s, queues: Int64s | NDArray[np.uint32]) -> Int64s:
    """Join positions in a file with the numbers of queues."""
    keys: Int64s = queues.astype(np.int64) << _POSITION_BITS
    keys |= positions
    return keys


def join(parts: Iterable[NDArray[Any]]) -> tuple[Int64s, Int64s]:
    """Give physical offsets and sizes of the real ones among units."""
    offsets, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for units in parts:
        real = are_real(units)
        offsets.append(units["physical_offset"][real].astype(np.int64))
        sizes.append(units["size"][real].astype(np.int64))
    return np.concatenate(offsets), np.concatenate(sizes)
