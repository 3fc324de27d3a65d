"""Which places of the log queues point to, now and after the start, by commitlog file.

Eight bytes a unit, so that a log of many files can be asked file by file; what the start changes
is kept apart, as it is little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool.machine.arrays import distinct, is_in
from rmqtool.queues.kinds import are_real
from rmqtool.store.segment import LARGEST_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_SORTED_AT_A_TIME: Final = 1 << 21  # units


@dataclass(slots=True)
class Places:
    """Positions in the files of a log that units point to.

    Attributes:
        file_length: bytes of a commitlog file.
        files: by the number of a file, arrays of uint32 positions and int32 sizes.
    """

    file_length: int
    files: dict[int, list[tuple[NDArray[np.uint32], NDArray[np.int32]]]] = field(
        default_factory=dict
    )
    _waiting: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    _count: int = 0

    def add(self, offsets: Int64s, sizes: Int64s) -> None:
        """Add units by their physical offsets and sizes."""
        self._waiting.append((offsets, sizes))
        self._count += len(offsets)
        if self._count >= _SORTED_AT_A_TIME:
            self._sort_in()

    def _sort_in(self) -> None:
        """Hand what has been added to the files; not queue by queue, which makes tiny arrays."""
        if not self._count:
            return
        offsets = np.concatenate([one[0] for one in self._waiting])
        sizes = np.concatenate([one[1] for one in self._waiting])
        self._waiting, self._count = [], 0
        order = np.argsort(offsets, kind="stable")
        offsets, sizes = offsets[order], sizes[order]
        numbers = offsets // self.file_length
        borders = np.flatnonzero(np.diff(numbers)) + 1
        for begin, end in zip([0, *borders], [*borders, len(offsets)], strict=True):
            number = int(numbers[begin])
            positions = (offsets[begin:end] - number * self.file_length).astype(np.uint32)
            self.files.setdefault(number, []).append((positions, sizes[begin:end].astype("i4")))

    def of(self, start: int) -> tuple[Int64s, Int64s]:
        """Give positions, sorted, and sizes of the units that point into the file at `start`."""
        self._sort_in()
        number, rest = divmod(start, self.file_length)
        # A file with a name that is not its place lies across two of them.
        found = [
            (one[0].astype(np.int64) + (beside * self.file_length - rest), one[1])
            for beside in ((0, 1) if rest else (0,))
            for one in self.files.get(number + beside, ())
        ]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions = np.concatenate([one[0] for one in found])
        sizes = np.concatenate([one[1] for one in found]).astype(np.int64)
        order = np.argsort(positions, kind="stable")
        order = order[(positions[order] >= 0) & (positions[order] < self.file_length)]
        return positions[order], sizes[order]

    def outside(self, extents: Iterable[tuple[int, int]]) -> Int64s:
        """Give the physical offsets that units point to and that lie in none of these extents.

        Args:
            extents: physical offsets of begin and end, of the files of the log.
        """
        self._sort_in()
        held = sorted(extents)
        starts = np.array([begin for begin, _ in held], np.int64)
        ends = np.array([min(end, LARGEST_LONG) for _, end in held], np.int64)
        found = [np.empty(0, np.int64)]
        for number, parts in self.files.items():
            for positions, _ in parts:
                offsets = positions.astype(np.int64) + number * self.file_length
                places = np.searchsorted(starts, offsets, side="right") - 1
                is_held = np.zeros(offsets.shape, np.bool_)
                if held:
                    is_held = (places >= 0) & (offsets < ends[places])
                found.append(offsets[~is_held])
        return distinct(np.concatenate(found))

    def tile(self, start: int) -> int | None:
        """Give the end of the records that units point to, if these lie without a hole; or None."""
        positions, sizes = self.of(start)
        if not positions.size or positions[0]:
            return None
        ends = positions + sizes
        return int(ends[-1]) if (positions[1:] == ends[:-1]).all() else None


@dataclass(slots=True)
class UnitCoverage:
    """The places that queues point to.

    Attributes:
        now: before the start.
        gone: of these, such that no queue would point to any more.
        new: such that a queue would point to afterwards, and none does now.
    """

    now: Places
    gone: Places
    new: Places

    @classmethod
    def of(cls, file_length: int) -> UnitCoverage:
        """Begin with no unit."""
        return cls(Places(file_length), Places(file_length), Places(file_length))

    def change(self, before: tuple[Int64s, Int64s], after: tuple[Int64s, Int64s]) -> None:
        """Note what the start does to one queue.

        Args:
            before: physical offsets and sizes of its units now.
            after: the same after the start.
        """
        sorted_before, sorted_after = np.sort(before[0]), np.sort(after[0])
        gone, new = ~is_in(before[0], sorted_after), ~is_in(after[0], sorted_before)
        self.gone.add(before[0][gone], before[1][gone])
        self.new.add(after[0][new], after[1][new])

    def is_unchanged(self, start: int) -> bool:
        """Tell whether the start changes nothing about one commitlog file."""
        return not self.gone.of(start)[0].size and not self.new.of(start)[0].size

    def had(self, start: int, positions: Int64s) -> Mask:
        """Tell which records of a file a queue points to now."""
        return is_in(positions, self.now.of(start)[0])

    def has(self, start: int, positions: Int64s) -> Mask:
        """Tell which records of a file a queue would point to afterwards."""
        kept = self.had(start, positions) & ~is_in(positions, self.gone.of(start)[0])
        return kept | is_in(positions, self.new.of(start)[0])


def join(parts: Iterable[NDArray[Any]]) -> tuple[Int64s, Int64s]:
    """Give physical offsets and sizes of the real ones among units."""
    offsets, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for units in parts:
        real = are_real(units)
        offsets.append(units["physical_offset"][real].astype(np.int64))
        sizes.append(units["size"][real].astype(np.int64))
    return np.concatenate(offsets), np.concatenate(sizes)
