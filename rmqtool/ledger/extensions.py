"""The units of a consume queue extension, by the addresses that consume queues keep of them.

Source: ConsumeQueueExt#get, #put, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rmqtool.derive.delays import tags_fit
from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.ledger.kernels_extension import walk

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.store.segment import MappedFiles, Segment

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

WINDOW: Final = 1 << 20
SLACK: Final = 64
ROWS: Final = 4


class ExtUnits(NamedTuple):
    """All units of one queue's extension: int64, shape (n,) each."""

    starts: Numbers  # where each begins in the ext space; increasing
    tags_codes: Numbers
    store_times: Numbers  # store time of the record of each, ms

    @classmethod
    def of(cls, files: MappedFiles) -> Self:
        """Read all units of a queue's extension. Raises UnreadablePath: a file cannot be read."""
        parts = [read_ext_units(segment) for segment in files.segments]
        joined = np.concatenate(parts, axis=1) if parts else np.empty((ROWS, 0), np.int64)
        return cls(joined[0], joined[1], joined[2])

    def match(self, topic: str, addresses: Numbers, tags_codes: Numbers) -> Mask:
        """Tell which addresses lead to a unit with a right tags code: bool, shape (n,).

        Args:
            topic: of the queue.
            addresses: int64, shape (n,).
            tags_codes: int64, shape (n,); the wanted ones.
        """
        if not self.starts.size:
            return np.zeros(len(addresses), np.bool_)
        places, numbers = self._numbers(addresses)
        is_there: Mask = self.starts[numbers] == places
        return is_there & tags_fit(topic, tags_codes, self.tags_codes[numbers])

    def times_at(self, addresses: Numbers) -> Numbers:
        """Give the store times of the units that addresses lead to: int64, shape (n,), ms."""
        return self.store_times[self._numbers(addresses)[1]]

    def _numbers(self, addresses: Numbers) -> tuple[Numbers, Numbers]:
        """Give the places that addresses name, and the numbers of the units at or after them."""
        places = addresses - np.iinfo(np.int64).min
        numbers = np.searchsorted(self.starts, places)
        return places, np.minimum(numbers, self.starts.size - 1)


def read_ext_units(segment: Segment) -> Numbers:
    """Read one file: int64, shape (4, n): start, tags code, store time, bytes of the bit map.

    Ends where the file says it ends, and at the first size that cannot be.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    window = np.zeros(WINDOW + SLACK, np.uint8)
    columns = np.empty((ROWS, WINDOW // EXT_UNIT.size + 1), np.int64)
    parts = []
    position = 0
    with segment.open() as file:
        while position < file.size:
            size = file.read_into(window[:WINDOW].data, position)
            count, used = walk(window, size, segment.start + position, columns)
            parts.append(columns[:, :count].copy())
            if not used:
                break
            position += used
    return np.concatenate(parts, axis=1) if parts else np.empty((ROWS, 0), np.int64)
