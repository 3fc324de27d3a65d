"""Index runs to key index files, byte for byte as a broker that dispatches the log writes them.

What a broker takes from its wall clock is the name of a file: the moment at which it created it.
Here that is the store time of the record for which the file is created, or the name of the file on
disk that begins with the same record. All else follows from the log.
Source: IndexService#buildIndex, #getAndCreateLastIndexFile, IndexFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    entry_position,
    file_length,
)
from rmqtool.rebuild import index_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.derive.runs import IndexRun

NAME_FORMAT: Final = "%Y%m%d%H%M%S"  # and three digits of milliseconds
LAST_MOMENT_MS: Final = 253_402_207_200_000  # the last day of 9999, in any time zone
PIECE_BYTES: Final = 1 << 16  # zeros of this length and more stay holes
WINDOW_ENTRIES: Final = 1 << 17  # 2.6 MB, which stay in the cache until they are written


class BuiltEntries(NamedTuple):
    """Entries of an index file that is being built; the bytes are gone when the sink returns."""

    name: str  # of the file
    size: int  # bytes of the file
    slots: int  # hash slots
    position: int  # of the first of them in the file
    data: npt.NDArray[np.uint8]  # uint8, shape (bytes,)


class BuiltIndexFile(NamedTuple):
    """An index file whose entries were given already; its bytes are gone when the sink returns."""

    name: str  # of the file
    size: int  # bytes of the file
    slots: int  # hash slots
    header: dict[str, int]  # the fields, by name
    head: npt.NDArray[np.uint8]  # uint8, shape (header and slots,)
    used: int  # bytes of the file from its start; after them are zeros
    is_full: bool  # whether the next entry went to another file

    @property
    def entries(self) -> int:
        """Entries in use."""
        return self.header["index_count"] - FIRST_ENTRY


class IndexSink(Protocol):
    """Takes index files, one after the other."""

    def put_entries(self, built: BuiltEntries) -> None:
        """Take the next entries of a file."""

    def put_index(self, built: BuiltIndexFile) -> None:
        """Take all but the entries of the file, which is complete now."""


class IndexBuilder:
    """Adds entries in dispatch order and hands them over as they come, then header and slots.

    Args:
        slots: hash slots of a file (maxHashSlotNum).
        capacity: entries of a file, the unused entry 0 counted (maxIndexNum).
        sink: takes the files.
        names: names of files on disk, in order, by the physical offset of their first entry.
        zone: of the broker's JVM, for names.
    """

    def __init__(
        self,
        slots: int,
        capacity: int,
        sink: IndexSink,
        *,
        names: Mapping[int, Sequence[str]] | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self.entries = self.files = 0
        self.end_timestamp_of_last = 0
        self._geometry = (slots, capacity)
        self._sink, self._names, self._zone = sink, dict(names or {}), zone
        self._header = np.zeros(len(INDEX_HEADER.fields), np.int64)
        self._header[kernels.INDEX_COUNT] = FIRST_ENTRY
        self._head = np.empty(0, np.uint8)
        self._window = np.empty(0, np.uint8)
        self._base = 0  # number of the window's first entry
        self._is_open = False
        self._created_at = 0
        self._name = self._last_name = ""

    def add(self, run: IndexRun) -> None:
        """Add the entries of the next part of the log."""
        entries = (run.hashes, run.physical_offsets, run.store_timestamps)
        slots, capacity = self._geometry
        done = 0
        while done < len(run):
            if not self._is_open:
                self._begin(int(run.store_timestamps[done]))
            before = int(self._header[kernels.INDEX_COUNT])
            limit = min(capacity, self._base + WINDOW_ENTRIES)
            done = kernels.put_keys(
                (self._head, self._window), (slots, limit, self._base), self._header, entries, done
            )
            self.entries += int(self._header[kernels.INDEX_COUNT]) - before
            if done < len(run):
                self._hand_over()
                if limit == capacity:
                    self._end(is_full=True)

    def continue_from(self, end_timestamp: int) -> None:
        """Let the next file count its first time from the end of a file that stays as it is, ms."""
        self._header[kernels.END_TIMESTAMP] = end_timestamp

    def finish(self, last_dispatched: int = -1, last_timestamp: int = 0) -> None:
        """Hand over the last file.

        A broker looks for room before it looks for keys: a record without keys creates the first
        file, and the one after a full file, too.

        Args:
            last_dispatched: physical offset of the last record that was dispatched; -1 for none.
            last_timestamp: its store time, ms.
        """
        is_full = self._header[kernels.INDEX_COUNT] >= self._geometry[1]
        if self._is_open and is_full:
            if last_dispatched > self._header[kernels.END_OFFSET]:
                self._end(is_full=True)
                self._begin(last_timestamp)
        elif not self._is_open and last_dispatched >= 0:
            self._begin(last_timestamp)
        if self._is_open:
            self._end(is_full=False)

    def _begin(self, created_at: int) -> None:
        """Begin a file. Its header carries on where the file before ended."""
        slots, _ = self._geometry
        if not self._head.size:
            self._head = np.zeros(entry_position(slots, 0), np.uint8)
            self._window = np.zeros(WINDOW_ENTRIES * INDEX_ENTRY.size, np.uint8)
        self._head[:] = 0
        self._window[: INDEX_ENTRY.size] = 0  # entry 0 is not one
        header = self._header
        header[kernels.BEGIN_TIMESTAMP] = header[kernels.END_TIMESTAMP]
        header[kernels.BEGIN_OFFSET] = header[kernels.END_OFFSET]
        header[kernels.SLOTS_USED], header[kernels.INDEX_COUNT] = 0, FIRST_ENTRY
        self._is_open, self._base, self._name, self._created_at = True, 0, "", created_at

    def _hand_over(self) -> None:
        """Give the entries of the window to the sink."""
        slots, capacity = self._geometry
        count = int(self._header[kernels.INDEX_COUNT])
        self._name = self._name or self._choose_name()
        if count > max(self._base, FIRST_ENTRY):
            data = self._window[: (count - self._base) * INDEX_ENTRY.size]
            position = entry_position(slots, self._base)
            size = file_length(slots, capacity)
            self._sink.put_entries(BuiltEntries(self._name, size, slots, position, data))
        self._base = count

    def _end(self, *, is_full: bool) -> None:
        """Write the header and hand the rest of the file over."""
        self._hand_over()
        slots, capacity = self._geometry
        fields = (field_.name for field_ in INDEX_HEADER.fields)
        header = dict(zip(fields, self._header.tolist(), strict=True))
        count = header["index_count"]
        self._head[: INDEX_HEADER.size] = np.frombuffer(INDEX_HEADER.build(header), np.uint8)
        self._sink.put_index(
            BuiltIndexFile(
                self._name,
                file_length(slots, capacity),
                slots,
                header,
                self._head,
                entry_position(slots, count if count > FIRST_ENTRY else 0),
                is_full,
            )
        )
        self.files += 1
        self.end_timestamp_of_last = header["end_timestamp"]
        self._is_open = False

    def _choose_name(self) -> str:
        """Name a file: after the one before, for a broker loads them in the order of names."""
        names = self._names.get(int(self._header[kernels.BEGIN_OFFSET]), ())
        later = (name for name in names if name > self._last_name)
        known = next(later, "") or file_name(self._created_at, self._zone)
        if known <= self._last_name:
            known = f"{int(self._last_name) + 1:0{len(self._last_name)}}"
        self._last_name = known
        return known


def file_name(moment_ms: int, zone: tzinfo = UTC) -> str:
    """Give the name of a file that a broker created at a moment, of the years 1970 to 9999.

    Source: UtilAll#timeMillisToHumanString, 4.9.3 to 5.5.0.
    """
    known_ms = min(max(moment_ms, 0), LAST_MOMENT_MS)
    moment = datetime.fromtimestamp(known_ms // 1000, zone)
    return f"{moment:{NAME_FORMAT}}{known_ms % 1000:03}"


def stretches(head: npt.NDArray[np.uint8]) -> list[tuple[int, memoryview]]:
    """Give the stretches of header and slots that are not all zero, so that the rest is a hole."""
    starts = range(0, head.size, PIECE_BYTES)
    pieces = [(start, head[start : start + PIECE_BYTES]) for start in starts]
    return [(start, stretch.data) for start, stretch in pieces if stretch.any()]
