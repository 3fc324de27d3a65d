"""Stretches of the log that no broker can walk over, as they are found, in the order of the log."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.check.log.lost import StretchSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code


@dataclass(slots=True)
class Damaged:
    """One stretch."""

    start: int  # physical offset of its first byte
    end: int  # after its last byte
    code: Code  # of the finding
    lost: str = ""  # what it held, as far as that can be told
    given_up: int = 0  # sound records in it that had to be given up

    @property
    def length(self) -> int:
        """Bytes."""
        return self.end - self.start


class Stretches(StretchSet[Damaged]):
    """All damaged stretches; neighbours stay apart."""

    def __iter__(self) -> Iterator[Damaged]:
        return iter(self._stretches)

    def add(self, damaged: Damaged) -> None:
        """Add a stretch; what it shares with those that are there is theirs no more."""
        number = bisect_right(self._starts, damaged.start)
        if number and self._stretches[number - 1].end > damaged.start:
            before = self._stretches[number - 1]
            if before.end >= damaged.end:
                return
            damaged = Damaged(before.end, damaged.end, damaged.code, damaged.lost, damaged.given_up)
        while number < len(self._stretches) and self._stretches[number].start < damaged.end:
            del self._stretches[number], self._starts[number]
        self.insert(damaged.start, damaged)

    def cut(self, end: int) -> None:
        """Drop the stretches that begin at an offset or after it."""
        number = bisect_right(self._starts, end - 1)
        del self._stretches[number:], self._starts[number:]
        self._arrays = None

    def between(self, start: int, end: int) -> list[Damaged]:
        """Give the stretches that begin in [start, end)."""
        low, high = bisect_right(self._starts, start - 1), bisect_right(self._starts, end - 1)
        return self._stretches[low:high]

    def reach(self, start: int) -> bool:
        """Tell whether a stretch ends after an offset."""
        return bool(self._stretches) and self._stretches[-1].end > start
