"""Rows of a family of a RocksDB database that are kept in memory, and asked for like others.

Each question to the process that runs the library takes longer than a queue of two units is worth,
and each of 100,000 queues is asked about some times. So the rows of a small family are read once.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

from rmqtool.store.rocksdb_frames import ROWS, RowBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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

    def __init__(self) -> None:
        self.keys, self.values = bytearray(), bytearray()
        self.key_ends, self.value_ends = array(POSITION, [0]), array(POSITION, [0])

    @classmethod
    def of(cls, batches: Iterable[RowBatch]) -> Self | None:
        """Keep the rows that come; None where they are too many, or a value is too long."""
        kept = cls()
        for batch in batches:
            kept._add(batch)
            size = len(kept.keys) + len(kept.values) + BYTES_A_ROW * len(kept)
            if size > MOST_BYTES or len(kept) > MOST_ROWS or batch.long_values:
                return None
        return kept

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

    def _add(self, batch: RowBatch) -> None:
        for ends, lengths in (
            (self.key_ends, batch.key_lengths),
            (self.value_ends, batch.value_lengths),
        ):
            at = ends[-1]
            for length in lengths:
                at += length
                ends.append(at)
        self.keys += batch.joined_keys
        self.values += batch.joined_values

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
