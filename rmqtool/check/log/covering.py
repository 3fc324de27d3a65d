"""Of many offsets at once: which lie in one of the stretches that are still being found?

A log is lost in as many places as a stranger likes, and each part of it adds some and asks. So an
answer must not cost as much as there are stretches, unless as many offsets are asked about.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

ONE_BY_ONE: Final = 8  # looking for one offset takes as long as making arrays of so many stretches


class Ending(Protocol):
    """A stretch of the log: its last byte is the one before `end`."""

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        ...


class Covering:
    """Tells which offsets lie in a stretch.

    Args:
        starts: of the stretches, in order; whoever owns it may go on to change it.
        stretches: the same ones; they do not overlap.
    """

    def __init__(self, starts: Sequence[int], stretches: Sequence[Ending]) -> None:
        self._starts, self._stretches = starts, stretches
        self._arrays: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def forget(self) -> None:
        """Take note that the stretches have changed."""
        self._arrays = None

    def has(self, physical_offset: int) -> bool:
        """Tell whether a byte of the log lies in a stretch."""
        number = bisect_right(self._starts, physical_offset) - 1
        return number >= 0 and physical_offset < self._stretches[number].end

    def mask(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each offset whether it lies in a stretch: bool, shape (n,)."""
        if not self._starts:
            return np.zeros(len(physical_offsets), bool)
        if self._arrays is None and len(physical_offsets) * ONE_BY_ONE < len(self._starts):
            return np.array([self.has(one) for one in physical_offsets.tolist()], bool)
        starts, ends = self._as_arrays()
        numbers = np.searchsorted(starts, physical_offsets, side="right") - 1
        inside: npt.NDArray[np.bool_] = (numbers >= 0) & (
            physical_offsets < ends[np.maximum(numbers, 0)]
        )
        return inside

    def _as_arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        if self._arrays is None:
            ends = np.array([stretch.end for stretch in self._stretches], np.int64)
            self._arrays = np.array(self._starts, np.int64), ends
        return self._arrays
