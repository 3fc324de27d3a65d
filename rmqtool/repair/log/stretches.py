"""Stretches of the log that no broker can walk over, as they are found, in the order of the log."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.check.log.lost import Covering

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.findings.catalogue import Code


@dataclass(slots=True)
class Damaged:
    """One stretch."""

    start: int  # physical offset of its first byte
    end: int  # after its last byte
    code: Code  # of the finding
    lost: str = ""  # what it held, as far as that can be told
    given_up: bool = False  # whether part of it is a sound record that had to be given up

    @property
    def length(self) -> int:
        """Bytes."""
        return self.end - self.start


class Stretches:
    """All damaged stretches; they do not overlap, and neighbours stay apart."""

    def __init__(self) -> None:
        self._found: list[Damaged] = []
        self._starts: list[int] = []
        self._covering = Covering(self._starts, self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Damaged]:
        return iter(self._found)

    def add(self, one: Damaged) -> None:
        """Add a stretch; what it shares with those that are there is theirs no more."""
        number = bisect_right(self._starts, one.start)
        if number and self._found[number - 1].end > one.start:
            before = self._found[number - 1]
            if before.end >= one.end:
                return
            one = Damaged(before.end, one.end, one.code, one.lost, one.given_up)
        while number < len(self._found) and self._found[number].start < one.end:
            del self._found[number], self._starts[number]
        self._found.insert(number, one)
        self._starts.insert(number, one.start)
        self._covering.forget()

    def cut(self, end: int) -> None:
        """Drop the stretches that begin at an offset or after it."""
        number = bisect_right(self._starts, end - 1)
        del self._found[number:], self._starts[number:]
        self._covering.forget()

    def at(self, physical_offset: int) -> Damaged | None:
        """Give the stretch that holds a byte of the log."""
        number = bisect_right(self._starts, physical_offset) - 1
        if number < 0 or physical_offset >= self._found[number].end:
            return None
        return self._found[number]

    def between(self, start: int, end: int) -> list[Damaged]:
        """Give the stretches that begin in [start, end)."""
        low, high = bisect_right(self._starts, start - 1), bisect_right(self._starts, end - 1)
        return self._found[low:high]

    def mask(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each offset whether it lies in a stretch: bool, shape (n,)."""
        return self._covering.mask(physical_offsets)

    def reach(self, start: int) -> bool:
        """Tell whether a stretch ends after an offset."""
        return bool(self._found) and self._found[-1].end > start
