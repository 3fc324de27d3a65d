"""Judge index entries against the log: each record's keys, in dispatch order, and nothing else.

Entries come in the order of the log, so both are read once, side by side. Where the two are equal,
which is nearly everywhere, arrays are compared; only around a difference are entries sought.
Source: IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.index import ENTRY, IndexHead, expired_note
from rmqtool.check.registry import At, finding
from rmqtool.findings import Severity
from rmqtool.formats.index import FIRST_ENTRY, INDEX_HEADER, entry_position
from rmqtool.scan.index import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.derive.index_runs import IndexRun
    from rmqtool.findings import Finding
    from rmqtool.store.place import OpenFile

    Int64s = npt.NDArray[np.int64]

# Rows of an entry matrix.
FILE, NUMBER, HASH, OFFSET, TIME = range(5)
ROWS: Final = 5
SECOND_MS: Final = 1000
LARGEST_DIFFERENCE: Final = 0x7FFFFFFF
NO_TIME: Final = -1  # of entry 1, and of clamped differences: they tell nothing


@dataclass(slots=True)
class Missing:
    """Keys of records without an entry, counted: one lost stretch is one finding.

    Attributes:
        keys: how many.
        first: physical offset of the first record.
        last: physical offset of the last record.
    """

    keys: int = 0
    first: int = -1
    last: int = -1

    def add(self, offsets: Int64s) -> None:
        """Take more records, in order."""
        if offsets.size:
            self.first = int(offsets[0]) if self.first < 0 else self.first
            self.last = int(offsets[-1])
            self.keys += int(offsets.size)


class IndexComparer:
    """Goes through the entries of all index files while the runs of the log go by.

    Attributes:
        entries: how many were compared.

    Args:
        heads: the files, in the order of their entries.
        log_start: physical offset of the first segment.
        tag_keys: whether the last entry of a record may be that of its tags.
    """

    def __init__(self, heads: Sequence[IndexHead], log_start: int, *, tag_keys: bool) -> None:
        self.entries = 0
        self._heads, self._log_start, self._tag_keys = heads, log_start, tag_keys
        self._waiting = np.empty((ROWS, 0), np.int64)
        self._batches = self._read()
        self._is_over = False
        self._newest = max((one.header["end_physical_offset"] for one in heads), default=-1)
        self._oldest = min((one.header["begin_physical_offset"] for one in heads), default=-1)
        self._expired: dict[int, int] = {}
        self._missing, self._missing_tags, self._behind = Missing(), Missing(), Missing()

    def compare(self, run: IndexRun, end: int) -> Iterator[Finding]:
        """Compare the entries of the next part of the log.

        Args:
            run: what the records of the part must have.
            end: physical offset behind the part.
        """
        there = self._take(end)
        offsets, hashes = run.physical_offsets, run.hashes.astype(np.int64)
        self.entries += there.shape[1]
        same = there.shape[1] == offsets.size and bool(
            (there[OFFSET] == offsets).all() and (there[HASH] == hashes).all()
        )
        if same:
            yield from self._times(there, run.store_timestamps)
            return
        wanted = np.stack([offsets, hashes])
        found = _match(wanted, there[[OFFSET, HASH]])
        known = found >= 0
        yield from self._superfluous(there[:, ~known], wanted)
        yield from self._times(there[:, known], run.store_timestamps[found[known]])
        has_entry = np.zeros(offsets.size, np.bool_)
        has_entry[found[known]] = True
        self._count_missing(offsets, has_entry)

    def finish(self) -> Iterator[Finding]:
        """Judge what is left: entries behind the log, keys without an entry."""
        nothing = np.empty((2, 0), np.int64)
        yield from self._superfluous(self._take(np.iinfo(np.int64).max), nothing)
        for file, count in sorted(self._expired.items()):
            yield expired_note(self._heads[file].file, count)
        path = self._heads[0].file.path.rpartition("/")[0] if self._heads else "index"
        for missing, what, severity in (
            (self._missing, "keys of records have no entry", Severity.WARNING),
            (self._missing_tags, "tags have no entry, as before 5.4.0", Severity.NOTE),
            (self._behind, "keys lie behind the last entry: not yet indexed", Severity.NOTE),
        ):
            if missing.keys:
                message = (
                    f"{missing.keys} {what}, of records from {missing.first} to {missing.last}"
                )
                at = At(path, physical_offset=missing.first)
                yield finding("IX-MISSING", at, message, severity=severity)

    def _count_missing(self, offsets: Int64s, has_entry: npt.NDArray[np.bool_]) -> None:
        """Sort keys without an entry: of tags, behind the index, or lost."""
        inside = (offsets >= self._oldest) & (offsets <= self._newest)
        self._behind.add(offsets[~has_entry & (offsets > self._newest)])
        lost = ~has_entry & inside
        if self._tag_keys:
            is_last = np.ones(offsets.size, np.bool_)
            is_last[:-1] = offsets[1:] != offsets[:-1]
            self._missing_tags.add(offsets[lost & is_last])
            lost &= ~is_last
        self._missing.add(offsets[lost])

    def _superfluous(self, entries: Int64s, wanted: Int64s) -> Iterator[Finding]:
        """Yield what is wrong with entries that no record accounts for, or not any more."""
        is_expired = entries[OFFSET] < self._log_start
        files, counts = np.unique(entries[FILE, is_expired], return_counts=True)
        for file, count in zip(files.tolist(), counts.tolist(), strict=True):
            self._expired[file] = self._expired.get(file, 0) + count
        twice = set(map(tuple, wanted.T.tolist())) if entries.size else set()
        for file, number, key_hash, offset, _ in entries[:, ~is_expired].T.tolist():
            at = self._at(file, number, offset)
            if (offset, key_hash) in twice:
                yield finding("IX-DUP", at, actual=key_hash)
            else:
                message = "no record with such a key is at the entry's offset"
                yield finding("IX-KEY", at, message, actual=f"hash {key_hash}, offset {offset}")

    def _times(self, entries: Int64s, store_timestamps: Int64s) -> Iterator[Finding]:
        """Yield entries whose time is not that of their record, rounded down."""
        yield from self._ends(entries, store_timestamps)
        times = entries[TIME]
        late = store_timestamps - times
        wrong = (times != NO_TIME) & ((late < 0) | (late >= SECOND_MS))
        for number in np.flatnonzero(wrong).tolist():
            file, entry, _, offset, time = entries[:, number].tolist()
            at = self._at(file, entry, offset)
            expected = int(store_timestamps[number])
            yield finding("IX-TIME", at, expected=f"{expected - 999} to {expected}", actual=time)

    def _ends(self, entries: Int64s, store_timestamps: Int64s) -> Iterator[Finding]:
        """Compare a header's times with the records of the first and the last entry, to the ms."""
        last = np.array([one.end - 1 for one in self._heads], np.int64)[entries[FILE]]
        for name, numbers in (("begin_timestamp", FIRST_ENTRY), ("end_timestamp", last)):
            for number in np.flatnonzero(entries[NUMBER] == numbers).tolist():
                head = self._heads[int(entries[FILE, number])]
                expected = int(store_timestamps[number])
                if head.header[name] != expected:
                    at = At(head.file.path, INDEX_HEADER.positions[name], 8)
                    yield finding("IX-HEAD", at, expected=expected, actual=head.header[name])

    def _at(self, file: int, number: int, offset: int) -> At:
        found = self._heads[file].file
        return At(found.path, entry_position(found.slots, number), ENTRY, offset)

    def _take(self, end: int) -> Int64s:
        """Give the entries of records in front of a physical offset; others wait.

        Reading goes on while most of what was read lies in front: one wild offset does not stop
        it.
        """
        taken = [self._waiting]
        inside = self._waiting[OFFSET] < end
        while not self._is_over and 2 * int(inside.sum()) >= inside.size:
            batch = next(self._batches, None)
            if batch is None:
                self._is_over = True
                break
            taken.append(batch)
            inside = batch[OFFSET] < end
        entries = np.concatenate(taken, axis=1)
        inside = entries[OFFSET] < end
        self._waiting = entries[:, ~inside]
        return entries[:, inside]

    def _read(self) -> Iterator[Int64s]:
        """Yield the entries of all files, in order: int64, shape (ROWS, n)."""
        for file, head in enumerate(self._heads):
            with head.file.open() as opened:
                yield from _matrices(file, head, opened)


def _matrices(file: int, head: IndexHead, opened: OpenFile) -> Iterator[Int64s]:
    begin = head.header["begin_timestamp"]
    for batch in scan(opened, head.file, end=head.end):
        entries = np.empty((ROWS, len(batch)), np.int64)
        values = batch.values
        entries[FILE] = file
        entries[NUMBER] = np.arange(batch.first, batch.first + len(batch))
        entries[HASH], entries[OFFSET] = values["key_hash"], values["physical_offset"]
        difference = values["time_difference"].astype(np.int64)
        entries[TIME] = begin + SECOND_MS * difference
        entries[TIME, difference == LARGEST_DIFFERENCE] = NO_TIME
        if batch.first == FIRST_ENTRY:  # its difference counts from the file before
            entries[TIME, 0] = NO_TIME
        yield entries


def _match(wanted: Int64s, there: Int64s) -> Int64s:
    """Find for each (offset, hash) that is there which one that is wanted it is; -1 for none.

    Each wanted one is found once: the second of two equal entries has none left.
    """
    left: dict[tuple[int, int], list[int]] = {}
    for number in range(wanted.shape[1] - 1, -1, -1):
        left.setdefault((int(wanted[0, number]), int(wanted[1, number])), []).append(number)
    found = [
        numbers.pop() if (numbers := left.get((offset, key_hash))) else -1
        for offset, key_hash in there.T.tolist()
    ]
    return np.array(found, np.int64)
