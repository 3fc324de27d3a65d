"""Index runs to key index files, byte for byte as a broker that dispatches the log writes them.

What a broker takes from its wall clock is the name of a file: the moment at which it created it.
Here that is the store time of the record for which the file is created, or the name of the file on
disk that begins with the same record. All else follows from the log.
Source: IndexService#buildIndex, #getAndCreateLastIndexFile, IndexFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final

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
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from rmqtool.derive.index_runs import IndexRun

NAME_FORMAT: Final = "%Y%m%d%H%M%S"  # and three digits of milliseconds
LAST_MOMENT_MS: Final = 253_402_207_200_000  # the last day of 9999, in any time zone
PIECE_BYTES: Final = 1 << 22  # zeros of this length and more stay holes


@dataclass(frozen=True, slots=True)
class BuiltIndexFile:
    """One index file, complete; its bytes are gone when the sink returns.

    Attributes:
        name: of the file.
        header: the fields, by name.
        content: uint8, shape (size,); zero behind `used`.
        used: bytes from the start that may not be zero.
        is_full: whether the next entry went to another file.
        slots: hash slots.
    """

    name: str
    header: dict[str, int]
    content: npt.NDArray[np.uint8] = field(repr=False)
    used: int
    is_full: bool
    slots: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.content.size)

    @property
    def entries(self) -> int:
        """Entries in use."""
        return self.header["index_count"] - FIRST_ENTRY


class IndexBuilder:
    """Adds entries in dispatch order and hands over each file when it is full, or at the end.

    One file is in memory at a time.

    Args:
        slots: hash slots of a file (maxHashSlotNum).
        capacity: entries of a file, the unused entry 0 counted (maxIndexNum).
        sink: takes each file.
        names: names of files on disk, by the physical offset of their first entry.
        zone: of the broker's JVM, for names.
    """

    def __init__(
        self,
        slots: int,
        capacity: int,
        sink: Callable[[BuiltIndexFile], None],
        *,
        names: Mapping[int, str] | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self.entries = self.files = 0
        self.end_timestamp_of_last = 0
        self._geometry = (slots, capacity)
        self._sink, self._names, self._zone = sink, dict(names or {}), zone
        self._header = np.zeros(len(INDEX_HEADER.fields), np.int64)
        self._header[kernels.INDEX_COUNT] = FIRST_ENTRY
        self._content: npt.NDArray[np.uint8] | None = None
        self._created_at = 0
        self._last_name = ""

    def add(self, run: IndexRun) -> None:
        """Add the entries of the next part of the log."""
        entries = (run.hashes, run.physical_offsets, run.store_timestamps)
        done = 0
        while done < len(run):
            if self._content is None:
                self._begin(int(run.store_timestamps[done]))
            before = int(self._header[kernels.INDEX_COUNT])
            assert self._content is not None  # noqa: S101 - `_begin` made it
            done = kernels.put_keys(self._content, self._geometry, self._header, entries, done)
            self.entries += int(self._header[kernels.INDEX_COUNT]) - before
            if done < len(run):
                self._end(is_full=True)

    def finish(self, last_dispatched: int = -1, last_timestamp: int = 0) -> None:
        """Hand over the last file.

        A broker looks for room before it looks for keys: a record without keys creates the first
        file, and the one after a full file, too.

        Args:
            last_dispatched: physical offset of the last record that was dispatched; -1 for none.
            last_timestamp: its store time, ms.
        """
        is_full = self._header[kernels.INDEX_COUNT] >= self._geometry[1]
        if self._content is not None and is_full:
            if last_dispatched > self._header[kernels.END_OFFSET]:
                self._end(is_full=True)
                self._begin(last_timestamp)
        elif self._content is None and last_dispatched >= 0:
            self._begin(last_timestamp)
        if self._content is not None:
            self._end(is_full=False)

    def _begin(self, created_at: int) -> None:
        """Begin a file. Its header carries on where the file before ended."""
        slots, capacity = self._geometry
        if self._content is None:
            self._content = np.zeros(file_length(slots, capacity), np.uint8)
        header = self._header
        header[kernels.BEGIN_TIMESTAMP] = header[kernels.END_TIMESTAMP]
        header[kernels.BEGIN_OFFSET] = header[kernels.END_OFFSET]
        header[kernels.SLOTS_USED], header[kernels.INDEX_COUNT] = 0, FIRST_ENTRY
        self._created_at = created_at

    def _end(self, *, is_full: bool) -> None:
        """Write the header and hand the file over."""
        assert self._content is not None  # noqa: S101 - callers check
        fields = (one.name for one in INDEX_HEADER.fields)
        header = dict(zip(fields, self._header.tolist(), strict=True))
        self._content[: INDEX_HEADER.size] = np.frombuffer(INDEX_HEADER.build(header), np.uint8)
        used = entry_position(self._geometry[0], header["index_count"])
        self._sink(
            BuiltIndexFile(
                self._name(header), header, self._content, used, is_full, self._geometry[0]
            )
        )
        self.files += 1
        self.end_timestamp_of_last = header["end_timestamp"]
        self._content = None

    def _name(self, header: dict[str, int]) -> str:
        """Name a file: behind the one before, for a broker loads them in the order of names."""
        known = self._names.get(header["begin_physical_offset"], "")
        if known <= self._last_name:
            known = file_name(self._created_at, self._zone)
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


def stretches(built: BuiltIndexFile) -> list[tuple[int, memoryview]]:
    """Give the stretches of a file that are not all zero, so that the rest stays a hole."""
    content = built.content[: built.used]
    starts = range(0, built.used, PIECE_BYTES)
    found = [(start, content[start : start + PIECE_BYTES]) for start in starts]
    return [(start, stretch.data) for start, stretch in found if stretch.any()]


def unwritten(slots: int) -> tuple[int, int]:
    """Give the stretch of an index file that no entry ever uses: that of entry 0."""
    start = entry_position(slots, 0)
    return start, start + INDEX_ENTRY.size
