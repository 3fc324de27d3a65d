"""Key index files as arrays: header, slots, entries, and what the chains should be.

A broker chains each entry to the one that its slot pointed to before, so the entries alone say
what every slot and every link must hold. Judging is in check/index/index_set.py.
Source: IndexFile#putKey, IndexHeader, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_SLOT,
    entry_position,
    slot_position,
)
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.machine.intrinsics import load_i4

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.machine.arrays import Int64s, UInt8s
    from rmqtool.store.index_files import IndexInUse
    from rmqtool.store.place import OpenFile


BATCH_ENTRIES: Final = 1 << 16
SLOTS_READ: Final = 1 << 16  # at once; 256 KiB


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries that lie one after the other."""

    first: int  # number of the first one
    raw: npt.NDArray[np.uint8]  # uint8, shape (count, 20)

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The entries as a structured array, big-endian."""
        return self.raw.reshape(-1).view(INDEX_ENTRY.dtype)

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Give one field of all entries."""
        values: npt.NDArray[np.int64] = self.values[name].astype(np.int64)
        return values


class BadLink(NamedTuple):
    """An entry that is not chained to the one before it in its slot."""

    number: int  # of the entry
    expected: int  # number that it should hold; -1 when its hash is negative and it has no slot
    actual: int  # number that it holds


class Chains:
    """Follows the chains of an index file while its entries go by, in order."""

    def __init__(self, slots: int) -> None:
        """Begin with empty slots.

        Args:
            slots: hash slots of the file, positive.
        """
        self.newest = np.zeros(slots, np.int32)
        self._wrong = np.empty((3, BATCH_ENTRIES), np.int64)

    def follow(self, batch: EntryBatch) -> list[BadLink]:
        """Take the next entries; give those that are chained wrongly."""
        if len(batch) > self._wrong.shape[1]:
            self._wrong = np.empty((3, len(batch)), np.int64)
        raw = np.ascontiguousarray(batch.raw).reshape(-1)
        count = follow_chains(raw, (batch.first, len(batch)), self.newest, self._wrong)
        return [BadLink(*map(int, column)) for column in self._wrong[:, :count].T]


def entry_times(
    differences: npt.NDArray[np.int64], begin_timestamp: int, first: int
) -> npt.NDArray[np.int64]:
    """Give the store times of entries in a row: int64, shape (n,), ms, in whole seconds.

    The first entry of a file has the begin of the file: a broker counts its difference from the end
    of the file before.

    Args:
        differences: int64, shape (n,): their time differences, seconds.
        begin_timestamp: of the header, ms. A damaged one may be any number: Java wraps, too.
        first: number of the first of them.
    """
    times = np.int64(begin_timestamp) + 1000 * differences
    times[: max(FIRST_ENTRY + 1 - first, 0)] = begin_timestamp
    return times


def read_slots(file: OpenFile, slots: int) -> Iterator[tuple[int, npt.NDArray[np.int32]]]:
    """Read the hash table, or what there is of it where the file ends.

    Yields:
        The number of a slot, and it and some after it: int32, shape (n,), valid until the next.

    Raises:
        UnreadablePath: the disk refused.
    """
    whole = max(min(slots, (file.size - slot_position(0)) // INDEX_SLOT.size), 0)
    raw = np.empty(min(whole, SLOTS_READ), np.int32)
    for first in range(0, whole, SLOTS_READ):
        wanted = raw[: whole - first]
        read = file.read_into(wanted.data, slot_position(first)) // INDEX_SLOT.size
        there = wanted[:read]
        yield first, there.byteswap(inplace=True) if sys.byteorder == "little" else there
        if read < len(wanted):
            return


def scan(
    file: OpenFile, held: IndexInUse, *, batch_entries: int = BATCH_ENTRIES
) -> Iterator[EntryBatch]:
    """Yield the entries in use of an index file in order, from entry 1 on.

    Args:
        file: the opened file.
        held: its geometry, and how much of it is in use.
        batch_entries: entries in a batch.

    Raises:
        UnreadablePath: the disk refused. Content never raises.
    """
    number, last = FIRST_ENTRY, held.end
    while number < last:
        wanted = min(batch_entries, last - number)
        raw = np.empty(wanted * INDEX_ENTRY.size, np.uint8)
        read = file.read_into(raw.data, entry_position(held.file.slots, number))
        count = read // INDEX_ENTRY.size
        if not count:
            return
        yield EntryBatch(number, raw[: count * INDEX_ENTRY.size].reshape(count, -1))
        number += count


# Kernels: what a broker stores with an entry, and which chains are as it makes them.
#
# See IndexFile#putKey, 4.9.3 to 5.5.0.


LARGEST_DIFFERENCE: Final = 0x7FFFFFFF
SECOND_MS: Final = 1000
ENTRY: Final = INDEX_ENTRY.size
AT_HASH: Final = INDEX_ENTRY.positions["key_hash"]
AT_PREVIOUS: Final = INDEX_ENTRY.positions["previous"]


@inlined
def seconds(store_timestamp: int, begin_timestamp: int) -> int:
    """Give the time difference that a broker stores with an entry: of the past none."""
    difference = store_timestamp - begin_timestamp
    if begin_timestamp <= 0 or difference <= 0:
        return 0
    return min(difference // SECOND_MS, LARGEST_DIFFERENCE)


@kernel("int64(uint8[::1], UniTuple(int64, 2), int32[::1], int64[:, ::1])")
def follow_chains(raw: UInt8s, place: tuple[int, int], newest: Int64s, wrong: Int64s) -> int:
    """Compare the links of entries with what a broker would have written; return the wrong ones.

    Args:
        raw: uint8, shape (ENTRY * n,).
        place: number of the first entry, and entries.
        newest: int32, shape (slots,): newest entry of each chain so far; kept up to date.
        wrong: int64, shape (3, m), m >= n: number, expected, actual of each wrong link.
    """
    first, count = place
    slots, wrong_count = newest.size, 0
    for at in range(count):
        key_hash = load_i4(raw, at * ENTRY + AT_HASH)
        previous = load_i4(raw, at * ENTRY + AT_PREVIOUS)
        expected = -1
        if key_hash >= 0:
            slot = key_hash % slots
            expected = newest[slot]
            newest[slot] = first + at
        if previous != expected:
            wrong[0, wrong_count], wrong[1, wrong_count], wrong[2, wrong_count] = (
                first + at,
                expected,
                previous,
            )
            wrong_count += 1
    return wrong_count
