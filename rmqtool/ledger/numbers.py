"""Which queue offsets of one queue had a message that no record of the log holds any more.

A repair puts a bridge over a lost record and repeats a neighbour's unit for its queue offset; a
deleted queue file takes units away. Neither changes which offsets the records hold, so the answer
is the same before a repair and after it, with the queue's files and without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.formats.batch_queue import MOST_MESSAGES
from rmqtool.formats.message import SMALLEST_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Files of a commitlog in a row, each without a unit into it, past which no unit is believed: a log
# that has lost its end has units into all that is lost, and damaged bytes lead anywhere.
MOST_UNNAMED: Final = 16
_NO_NUMBER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LostNumbers:
    """Queue offsets in a row whose messages no record of the log holds."""

    topic: str  # of the queue
    queue_id: int  # its number
    queue_offset: int  # of the first of them
    messages: int  # how many


class HeldNumbers(NamedTuple):
    """Records of one queue, in the order of the log; all int64, shape (n,)."""

    numbers: Int64s  # queue offset of the first message of each, as the record states it
    counts: Int64s  # messages in each
    physical_offsets: Int64s  # strictly increasing


class UnitNumbers(NamedTuple):
    """Units of one queue that point into the log; all int64, shape (n,)."""

    numbers: Int64s  # queue offset of the first message of each
    counts: Int64s  # messages of each
    physical_offsets: Int64s


class NumberStretches(NamedTuple):
    """Queue offsets in a row, half open; both int64, shape (n,), ascending."""

    starts: Int64s
    ends: Int64s

    @property
    def messages(self) -> int:
        """How many queue offsets there are."""
        return int((self.ends - self.starts).sum())


def last_believed(numbers: Iterable[int], last: int) -> int:
    """Give the number of the last commitlog file that units past its end really speak of.

    Args:
        numbers: of files into which units lead: their physical offset divided by the length of a
            file.
        last: number of the last file that is there.
    """
    for number in sorted(numbers):
        if number - last > MOST_UNNAMED:
            break
        last = max(last, number)
    return last


def lost_numbers(
    records: HeldNumbers,
    units: UnitNumbers,
    is_lost: Mask,
    is_unread: Mask,
    *,
    is_from_0: bool = False,
) -> NumberStretches:
    """Give the queue offsets between the first and the last message that no record holds.

    A record holds the queue offset that it states, unless the queue leads to it from another one
    only: the queue was written while the record was whole. An earlier numbering of a queue that
    was deleted and began again says nothing about where the queue begins and ends.

    Args:
        records: whole records.
        units: real units.
        is_lost: which units point to places without a whole record; bool, shape of `units`.
        is_unread: which units point into files that were not read, and are believed; likewise.
        is_from_0: the log has never expired, and had the queue's message 0.
    """
    numbers, is_pointed, is_match = _numbers(records, units)
    starts = np.concatenate([numbers, units.numbers[is_unread]])
    ends = starts + np.concatenate([records.counts, units.counts[is_unread]])
    last = np.flatnonzero(numbers[1:] <= numbers[:-1])
    is_current = is_pointed | (np.arange(len(numbers)) > (last[-1] if last.size else -1))
    bounds = np.concatenate([is_current, np.ones(int(is_unread.sum()), np.bool_)])
    chosen = is_match | is_lost
    first = np.concatenate([starts[bounds], units.numbers[chosen]])
    end = np.concatenate([ends[bounds], (units.numbers + units.counts)[chosen]])
    if not first.size:
        return NumberStretches(first, end)
    return _between(starts, ends, 0 if is_from_0 else int(first.min()), int(end.max()))


def _numbers(records: HeldNumbers, units: UnitNumbers) -> tuple[Int64s, Mask, Mask]:
    """Give the queue offset of each record; which have a unit; which units lead to a record."""
    is_pointed = np.zeros(len(records.numbers), np.bool_)
    if not is_pointed.size:
        return records.numbers, is_pointed, np.zeros(len(units.numbers), np.bool_)
    rows = np.searchsorted(records.physical_offsets, units.physical_offsets)
    rows = np.minimum(rows, len(records.numbers) - 1)
    is_match = records.physical_offsets[rows] == units.physical_offsets
    is_own = is_match & (records.numbers[rows] == units.numbers)
    agrees = is_pointed.copy()
    agrees[rows[is_own]] = True
    is_pointed[rows[is_match]] = True
    others = np.full(len(records.numbers), _NO_NUMBER)
    np.minimum.at(others, rows[is_match], units.numbers[is_match])
    numbers = np.where(is_pointed & ~agrees, others, records.numbers)
    is_odd = _are_odd(numbers, records)
    numbers = np.where(is_odd, records.numbers, numbers)
    is_match &= ~(is_odd[rows] & (units.numbers == others[rows]))
    is_match &= is_own | ~agrees[rows] | _are_repeated(units)
    return _without_outliers(numbers, records, is_pointed), is_pointed, is_match


def _are_repeated(units: UnitNumbers) -> Mask:
    """Tell which units lead where the one before or after them does: so repairs pass lost messages.

    Others that lead to the record of another queue offset, as in a file under another one's name,
    tell of no message.
    """
    order = np.argsort(units.numbers, kind="stable")
    places = units.physical_offsets[order]
    is_same = places[1:] == places[:-1]
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[order[1:]] = is_same
    is_repeated[order[:-1]] |= is_same
    return is_repeated


def _are_odd(numbers: Int64s, records: HeldNumbers) -> Mask:
    """Tell which numbers do not go on between their neighbours where the stated ones do.

    A unit of a plain queue has its number by its place; that of a batch queue states it, in bytes
    that are as easily damaged as those of a record.
    """
    before = np.concatenate([[-1], numbers[:-1]])
    after = np.concatenate([numbers[1:], [_NO_NUMBER]])
    following = before + np.concatenate([[1], records.counts[:-1]])
    goes_on = (before < numbers) & (numbers < after)
    would = (before < records.numbers) & (records.numbers < after)
    is_next = (records.numbers == following) & (numbers != following)
    is_odd: Mask = would & (~goes_on | is_next)
    return is_odd


def _without_outliers(numbers: Int64s, records: HeldNumbers, is_pointed: Mask) -> Int64s:
    """Let a record that no unit confirms follow on the one before it where its neighbours do."""
    if len(numbers) < 3:  # noqa: PLR2004 - a neighbour on each side
        return numbers
    counts = records.counts
    before, own, after = numbers[:-2], numbers[1:-1], numbers[2:]
    is_odd = (before < after) & ~((before < own) & (own < after)) & ~is_pointed[1:-1]
    kept = numbers.copy()
    kept[1:-1] = np.where(is_odd, before + counts[:-2], own)
    # The last one has no neighbour after it: where no log holds so many messages, it follows, too.
    most = int(records.physical_offsets[-1]) // SMALLEST_RECORD * MOST_MESSAGES
    if not is_pointed[-1] and int(kept[-1]) > most:
        kept[-1] = kept[-2] + counts[-2]
    return kept


def _between(starts: Int64s, ends: Int64s, first: int, end: int) -> NumberStretches:
    """Give what of [first, end) is in none of these stretches."""
    order = np.argsort(starts, kind="stable")
    starts = np.clip(starts[order], first, end)
    reached = np.maximum.accumulate(np.clip(ends[order], first, end))
    begins = np.concatenate([[first], reached]).astype(np.int64)
    stops = np.concatenate([starts, [end]]).astype(np.int64)
    is_hole = begins < stops
    return NumberStretches(begins[is_hole], stops[is_hole])
