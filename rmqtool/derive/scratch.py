"""Arrays in which the runs of one part grow, kept for the next part.

Fresh memory costs a page fault for each 4 KiB, which took as long as all the kernels together.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.derive import kernels
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST: Final = 1 << 16
KEPT_BYTES: Final = 1 << 26  # what grew beyond this is not kept

_SPARE: deque[Scratch] = deque(maxlen=16)  # append and pop are atomic


class Scratch:
    """Units and index entries in log order, with room to grow. Belongs to one thread at a time.

    Attributes:
        packed: uint8, shape (20 * units,): packed units.
        facts: int64, shape (FACTS, units): what units are sorted by.
        sorted_facts: the same, sorted by queue.
        hashes: int32, shape (entries,): key hashes.
        places: int64, shape (2, entries): physical offsets and store timestamps.
    """

    __slots__ = ("facts", "hashes", "packed", "places", "sorted_facts")

    def __init__(self) -> None:
        self.packed: npt.NDArray[np.uint8] = np.empty(FIRST * CQ_UNIT_SIZE, np.uint8)
        self.facts: npt.NDArray[np.int64] = np.empty((kernels.FACTS, FIRST), np.int64)
        self.sorted_facts: npt.NDArray[np.int64] = np.empty_like(self.facts)
        self.hashes: npt.NDArray[np.int32] = np.empty(FIRST, np.int32)
        self.places: npt.NDArray[np.int64] = np.empty((2, FIRST), np.int64)

    @classmethod
    def take(cls) -> Scratch:
        """Give one that nobody uses."""
        try:
            return _SPARE.pop()
        except IndexError:
            return cls()

    def give_back(self) -> None:
        """Let somebody else use it; whoever gives it back must forget it."""
        if sum(getattr(self, name).nbytes for name in self.__slots__) <= KEPT_BYTES:
            _SPARE.append(self)

    def make_room_for_units(self, used: int, more: int) -> None:
        """Have room for more units after those in use."""
        while self.facts.shape[1] < used + more:
            self.packed = np.concatenate([self.packed, np.empty_like(self.packed)])
            self.facts = np.concatenate([self.facts, np.empty_like(self.facts)], axis=1)
            self.sorted_facts = np.empty_like(self.facts)

    def make_room_for_entries(self, used: int, more: int) -> None:
        """Have room for more index entries after those in use."""
        while self.hashes.size < used + more:
            self.hashes = np.concatenate([self.hashes, np.empty_like(self.hashes)])
            self.places = np.concatenate([self.places, np.empty_like(self.places)], axis=1)

    def hand_over_entries(
        self, used: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Give hashes, physical offsets and store timestamps away, and take new arrays.

        Few entries are copied: what is given must not hold much more memory than it needs.
        """
        hashes, (offsets, times) = self.hashes[:used], self.places[:, :used]
        if 2 * used < self.hashes.size:
            return hashes.copy(), offsets.copy(), times.copy()
        self.hashes, self.places = np.empty_like(self.hashes), np.empty_like(self.places)
        return hashes, offsets, times
