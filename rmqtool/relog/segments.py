"""The files of the new log: records, blanks at the ends of files, bridges over what is not there.

Source: DefaultAppendMessageCallback#doAppend, 4.9.3 to 5.5.0; `repair.log.bridge` on bridges.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from rmqtool.errors import UsageError
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE, END_FILE_MIN_BLANK_LENGTH
from rmqtool.relog import fields as at
from rmqtool.repair.log.bridge import BridgeMaker
from rmqtool.store.segment import NAME_DIGITS

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    from rmqtool.writing.output_tree import OutputTree, OutputTreeFile

    Int64s: TypeAlias = npt.NDArray[np.int64]
    UInt8s: TypeAlias = npt.NDArray[np.uint8]
    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]


COMMITLOG: Final = "commitlog"


@dataclass(slots=True)
class LogTally:
    """What the new log has."""

    start: int = -1  # first byte of its first file; -1 before there is one
    end: int = -1  # past its last record
    files: int = 0  # how many
    bridges: int = 0  # stretches that bridges stand for
    bridge_bytes: int = 0  # their length


class LogFiles:
    """Writes the files of a log, from the first to the last.

    Args:
        tree: where they are staged; None writes nothing.
        segment_size: bytes of each.
    """

    def __init__(self, tree: OutputTree | None, segment_size: int) -> None:
        self.tally = LogTally()
        self._blanks: dict[int, int] = {}  # of sources: start of the file to physical offset
        self._tree, self._size = tree, segment_size
        self._open = ExitStack()
        self._file: OutputTreeFile | None = None
        self._handle = self._start = -1
        self._time = 0

    def note(self, blanks: list[int]) -> None:
        """Take note of where files of the sources end.

        Args:
            blanks: physical offsets of blank records; none counts where records are packed.
        """
        self._blanks |= {blank // self._size * self._size: blank for blank in blanks}

    def add(self, fields: Int64s, raw: UInt8s) -> None:
        """Write records at their places.

        Args:
            fields: int64, shape (ROWS, n), in the order of OFFSET.
            raw: uint8; their bytes, one after the other, as START says.

        Raises:
            UsageError: there is no room for a bridge between two records.
            WriteFailed: the system refused.
        """
        starts, sizes, places = fields[at.START], fields[at.SIZE], fields[at.OFFSET]
        if not sizes.size:
            return
        follows = (places[1:] == places[:-1] + sizes[:-1]) & (
            starts[1:] == starts[:-1] + sizes[:-1]
        )
        edges = [0, *(np.flatnonzero(~follows) + 1).tolist(), sizes.size]
        for begin, end in pairwise(edges):
            place, start = int(places[begin]), int(starts[begin])
            stop = int(starts[end - 1] + sizes[end - 1])
            first_time = int(fields[at.STORE_TIME, begin])
            self._fill(place, int(sizes[begin]), first_time, bool(fields[at.HAS_CRC, begin]))
            self._write(place, raw[start:stop].data)
            self._time = int(fields[at.STORE_TIME, end - 1])
            self.tally.end = place + stop - start

    def finish(self) -> None:
        """Close the last file; it ends in a blank if its source did."""
        end = self.tally.end
        if end >= 0 and self._blanks.get(end // self._size * self._size) == end:
            self._blank(end)
        self._close()

    def _fill(self, place: int, size: int, time_ms: int, has_crc: bool) -> None:
        """Lead from the end of the log to the place of the next record."""
        tally, length = self.tally, self._size
        if tally.start < 0:
            tally.start = tally.end = place // length * length
        maker = BridgeMaker(property_crc=has_crc)
        begin = tally.end
        while begin < place:
            file_end = (begin // length + 1) * length
            if place < file_end:
                self._bridge(maker, begin, place, self._time or time_ms)
                return
            room = file_end - begin
            blank = self._blanks.get(file_end - length, begin)
            would_not_fit = file_end == place and size + BLANK_BYTES > room
            if not (blank == begin and (file_end - length in self._blanks or would_not_fit)):
                # The file ended with records that are not here.
                if blank <= begin or 0 < blank - begin < maker.smallest:
                    blank = file_end - BLANK_BYTES
                if blank - begin >= maker.smallest:
                    self._bridge(maker, begin, blank, self._time or time_ms)
                    begin = blank
            self._blank(begin)
            begin = file_end

    def _bridge(self, maker: BridgeMaker, begin: int, end: int, time_ms: int) -> None:
        if end - begin < maker.smallest:
            reason = (
                f"{end - begin:,} bytes at physical offset {begin} hold no record that is kept, "
                f"and a bridge record needs {maker.smallest}: take --positions pack"
            )
            raise UsageError(option="--positions", reason=reason)
        self.tally.bridges += 1
        self.tally.bridge_bytes += end - begin
        for start, content in maker.over(begin, end - begin, time_ms):
            for position, raw in content.written():
                self._write(start + position, raw)

    def _blank(self, begin: int) -> None:
        size = self._size - begin % self._size
        self._write(begin, BLANK.build({"total_size": size, "magic_code": BLANK_MAGIC_CODE}))

    def _write(self, place: int, data: Buffer) -> None:
        start = place // self._size * self._size
        if start != self._start:
            self._close()
            self._start = start
            self.tally.files += 1
            if self._tree is not None:
                name = f"{start:0{NAME_DIGITS}}"
                self._file = self._tree.file(COMMITLOG, name, size=self._size)
                self._handle = self._open.enter_context(self._file.writing())
        if self._file is not None:
            self._file.put(self._handle, place - start, data)

    def _close(self) -> None:
        """Close a file; brokers let a file expire by its time of change."""
        if self._file is not None and self._time:
            self._file.mtime_ns = self._time * 1_000_000
        self._file = None
        self._open.close()


# Where records go: one after the other, or at their own physical offsets.
#
# A record never crosses the end of a file, and 8 bytes are left for the blank record there.
# See DefaultAppendMessageCallback#doAppend, 4.9.3 to 5.5.0.


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
        """Set OFFSET of the next records. Raises UsageError: a record does not fit into a file."""
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
