"""Rows of a family of a RocksDB database that are kept in memory, and asked for like others.

Each question to the process that runs the library takes longer than a queue of two units is worth,
and each of 100,000 queues is asked about some times. So the rows of a small family are read once.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Final, Self

from rmqtool.store.rocksdb_frames import ROWS, RowBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_BYTES: Final = 256 << 20  # of keys, values and where they end
MOST_ROWS: Final = 1 << 23
BYTES_A_ROW: Final = 8
POSITION: Final = "I"  # 4 bytes: far more than are kept


class KeptRows:
    """All rows of one family, in the order of their keys.

    Attributes:
        keys, values: of all rows, one after another.
        key_ends, value_ends: where each key and value ends; the first one is 0.
    """

    def __init__(
        self, keys: bytes, values: bytes, key_ends: array[int], value_ends: Sequence[int]
    ) -> None:
        self.keys, self.values = keys, values
        self.key_ends, self.value_ends = key_ends, value_ends

    @classmethod
    def of(cls, batches: Iterable[RowBatch]) -> Self | None:
        """Keep the rows that come; None where they are too many, or a value is too long."""
        keys, values = bytearray(), bytearray()
        key_ends, value_ends = array(POSITION, [0]), array(POSITION, [0])
        for batch in batches:
            key_ends.extend(islice(accumulate(batch.key_lengths, initial=key_ends[-1]), 1, None))
            lengths = accumulate(batch.value_lengths, initial=value_ends[-1])
            value_ends.extend(islice(lengths, 1, None))
            keys += batch.joined_keys
            values += batch.joined_values
            size = len(keys) + len(values) + BYTES_A_ROW * len(key_ends)
            if size > MOST_BYTES or len(key_ends) > MOST_ROWS or batch.long_values:
                return None
        all_keys = bytes(keys)  # as long as they are, and no longer
        del keys
        return cls(all_keys, bytes(values), key_ends, _as_range(value_ends))

    def __len__(self) -> int:
        return len(self.key_ends) - 1

    def rows(self, begin: bytes, end: bytes, limit: int) -> Iterator[RowBatch]:
        """Yield rows of a range, as `Database.rows` does."""
        first = self._place(begin)
        past = min(self._place(end) if end else len(self), first + limit)
        for number in range(first, past, ROWS):
            yield self._batch(number, min(number + ROWS, past))

    def last(self, begin: bytes, end: bytes) -> Iterator[RowBatch]:
        """Yield the last row of a range, alone; nothing without one."""
        past = self._place(end) if end else len(self)
        if past > self._place(begin):
            yield self._batch(past - 1, past)

    def _place(self, key: bytes) -> int:
        """Give the number of the first row whose key is not before another."""
        keys, ends = self.keys, self.key_ends
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if keys[ends[middle] : ends[middle + 1]] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def _batch(self, first: int, end: int) -> RowBatch:
        of_keys, of_values = self.key_ends[first : end + 1], self.value_ends[first : end + 1]
        keys, values = (
            bytes(joined[ends[0] : ends[-1]])
            for joined, ends in ((self.keys, of_keys), (self.values, of_values))
        )
        key_lengths, value_lengths = (
            [past - at for at, past in pairwise(ends)] for ends in (of_keys, of_values)
        )
        return RowBatch((keys, values), (key_lengths, value_lengths), {})


def _as_range(ends: array[int]) -> Sequence[int]:
    """Give where values of one length end without a number for each."""
    if len(ends) > 1 and ends[1]:
        even = range(0, ends[-1] + 1, ends[1])
        if len(even) == len(ends) and array(POSITION, even) == ends:
            return even
    return ends
