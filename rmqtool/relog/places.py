"""Where records go: one after the other, or at their own physical offsets.

A record never crosses the end of a file, and 8 bytes are left for the blank record there.
Source: DefaultAppendMessageCallback#doAppend, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from rmqtool.errors import UsageError
from rmqtool.formats.message import END_FILE_MIN_BLANK_LENGTH
from rmqtool.relog import fields as at

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

BLANK_BYTES: Final = END_FILE_MIN_BLANK_LENGTH


class LogPlaces(Protocol):
    """Says where records go."""

    def place(self, fields: Int64s) -> Bools | None:
        """Set OFFSET of the next records; mark those that have a place, None for all of them.

        Raises:
            UsageError: a record does not fit into a file.
        """
        ...


class PackedPlaces:
    """One record after the other, from a new file on.

    Args:
        segment_size: bytes of a file.
        past: physical offset that all of them come after: old IDs of messages then name nothing,
            and as many bytes as before lie in front of a message with a large queue offset.
    """

    def __init__(self, segment_size: int, past: int) -> None:
        self._segment_size = segment_size
        self._end = -(-past // segment_size) * segment_size

    def place(self, fields: Int64s) -> None:
        """Set OFFSET of the next records.

        Raises:
            UsageError: a record does not fit into a file.
        """
        sizes, length = fields[at.SIZE], self._segment_size
        if sizes.size and int(sizes.max()) + BLANK_BYTES > length:
            reason = f"a record has {int(sizes.max()):,} bytes: too many for files of {length:,}"
            raise UsageError(option="--segment-size", reason=reason)
        ends = np.cumsum(sizes)
        begin = done = 0  # records, and their bytes, that have a place
        while begin < sizes.size:
            left = length - self._end % length
            last = int(np.searchsorted(ends, done + left - BLANK_BYTES, side="right"))
            if last == begin:
                self._end += left
                continue
            some = slice(begin, last)
            fields[at.OFFSET, some] = self._end + ends[some] - sizes[some] - done
            self._end += int(ends[last - 1]) - done
            begin, done = last, int(ends[last - 1])


class KeptPlaces:
    """Each record at its own physical offset; of two that overlap, the first one stays.

    Args:
        segment_size: bytes of a file.
    """

    def __init__(self, segment_size: int) -> None:
        self._segment_size = segment_size
        self._end = -1

    def place(self, fields: Int64s) -> Bools | None:
        """Mark the records that begin where no earlier one lies; None for all of them.

        Raises:
            UsageError: a record does not fit into a file.
        """
        starts, sizes, length = fields[at.OFFSET], fields[at.SIZE], self._segment_size
        if not sizes.size:
            return None
        crosses = starts % length + sizes + BLANK_BYTES > length
        if crosses.any():
            first = int(np.argmax(crosses))
            reason = (
                f"the record at physical offset {int(starts[first])} does not fit into a file of "
                f"{length:,} bytes: give the size that the files had, or --positions pack"
            )
            raise UsageError(option="--segment-size", reason=reason)
        ends = starts + sizes
        before = np.concatenate([[self._end], ends[:-1]])
        if (starts >= before).all():
            self._end = int(ends[-1])
            return None
        kept = np.zeros(sizes.size, np.bool_)
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if start >= self._end:
                kept[number], self._end = True, end
        return kept
