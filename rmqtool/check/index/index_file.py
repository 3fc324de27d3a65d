"""One index file while it is compared: a window of entries, its chains, its slots.

Source: IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.index import kernels_index as kernel
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_index import (
    IX_CHAIN,
    IX_HEAD,
    IX_KEY,
    IX_SLOT,
    IX_SLOTCOUNT,
    IX_STALE,
    IX_TIME,
)
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    entry_position,
    slot_position,
)
from rmqtool.machine.arrays import is_in
from rmqtool.scan.index import BadLink, Chains, EntryBatch, read_slots
from rmqtool.store.used import data_stretches
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.index_files import IndexInUse

    Pairs = npt.NDArray[np.int64]
    Run = tuple[npt.NDArray[np.int32], Pairs, Pairs]

WINDOW: Final = 1 << 15  # entries; 640 KiB
SLACK: Final = 64
MOST_BAD: Final = 10_000
SIZE: Final = INDEX_ENTRY.size
MOST_LISTED: Final = 8  # links or slots of a file that are findings of their own


class FileReader:
    """Goes through the entries of one file, in order, once.

    Attributes:
        opened: the file.
        path: of the file.
        count: number after the last entry in use.
        has_begun: whether entries were read.
    """

    def __init__(
        self, inspection: Inspection, facts: LogFacts, opened: IndexInUse, before: IndexInUse | None
    ) -> None:
        """Open the file. Raises UnreadablePath: it cannot be read."""
        self._inspection, self._facts = inspection, facts
        self.opened, self._before = opened, before
        self.path, self.count = opened.file.path, opened.end
        self._file = opened.file.open()
        self._chains = Chains(opened.file.slots)
        self._raw = np.zeros(WINDOW * SIZE + SLACK, np.uint8)
        self._first = FIRST_ENTRY  # number of the first entry in the window
        self._filled = 0  # entries in the window
        self._at = 0  # entry of the window that is next
        self._followed = FIRST_ENTRY  # number of the first entry whose chain was not followed
        self._begin = opened.header["begin_timestamp"]
        self._wrong_times = 0
        self._bad_links: list[BadLink] = []
        self._untrue: set[int] = set()  # entries whose hash is not the one they were chained by
        self._first_seen: tuple[int, int] | None = None
        self._last_seen: tuple[int, int] | None = None
        self.has_begun = False

    def begin(self, physical_offset: int) -> None:
        """Read the first entries, and go to the first one of a record at or after an offset.

        Those before it have expired. Raises UnreadablePath: the disk refused.
        """
        self.has_begun = True
        self._load(FIRST_ENTRY)
        self._skip_before(physical_offset)

    @property
    def used_bytes(self) -> int:
        """Bytes of header, slots and entries in use."""
        return entry_position(self.opened.file.slots, self.count)

    @property
    def is_at_start(self) -> bool:
        """Whether no entry was passed yet."""
        return self._number == FIRST_ENTRY

    @property
    def has_live(self) -> bool:
        """Whether an entry was passed that a record of the log asks for."""
        return self._last_seen is not None

    @property
    def passed(self) -> int:
        """Number of entries that were passed, and of the one that is looked at."""
        return self._number - FIRST_ENTRY + 1

    @property
    def _number(self) -> int:
        return self._first + self._at

    def _load(self, number: int) -> None:
        """Fill the window from an entry on, and follow the chains of what was not seen before."""
        wanted = max(min(WINDOW, self.count - number), 0)
        read = 0
        if wanted:
            position = entry_position(self.opened.file.slots, number)
            read = self._file.read_into(self._raw[: wanted * SIZE].data, position)
        self._first, self._at, self._filled = number, 0, read // SIZE
        if self._followed < number + self._filled:
            seen = max(self._followed - number, 0)
            raw = self._raw[seen * SIZE : self._filled * SIZE].reshape(-1, SIZE)
            bad = self._chains.follow(EntryBatch(number + seen, raw))
            self._bad_links += bad[: MOST_BAD - len(self._bad_links)]
            self._followed = number + self._filled

    def compare(self, run: Run, state: npt.NDArray[np.int64]) -> int:
        """Compare entries with the run until they differ, or one of them ends."""
        self._know_begin(run, int(state[kernel.RUN]))
        while True:
            state[kernel.ENTRY] = self._at
            window = (self._first, self._filled, self._begin)
            why = int(kernel.compare(self._raw, window, run, state))
            if state[kernel.ENTRY] > self._at:
                last = self._first + int(state[kernel.ENTRY]) - 1
                self._last_seen = (last, int(run[2][state[kernel.RUN] - 1]))
            self._at = int(state[kernel.ENTRY])
            if why != kernel.WINDOW_DONE or self._number >= self.count or not self._filled:
                return why
            self._load(self._number)

    def _know_begin(self, run: Run, number: int) -> None:
        """Take the begin from the first record: the header's may be what is damaged.

        The first entry that the log asks for may be one of those that old releases leave out.
        """
        if self._number != FIRST_ENTRY or not self._filled:
            return
        entry = self._values(0, 1)
        for row in range(number, min(number + 2, len(run[0]))):
            if (entry["key_hash"][0], entry["physical_offset"][0]) == (run[0][row], run[1][row]):
                self._begin = int(run[2][row])
                self._first_seen = (self._begin, self._difference(0))
                return

    def _difference(self, row: int) -> int:
        return INDEX_ENTRY["time_difference"].of(self._raw.data, row * SIZE)

    def ahead(self, count: int) -> Pairs:
        """Give hashes and physical offsets of the next entries: int64, shape (2, n)."""
        if self._at + count > self._filled and self._first + self._filled < self.count:
            self._load(self._number)
        values = self._values(self._at, min(self._at + count, self._filled))
        return np.stack(
            [values["key_hash"].astype(np.int64), values["physical_offset"].astype(np.int64)]
        )

    def _values(self, begin: int, end: int) -> npt.NDArray[np.void]:
        return self._raw[begin * SIZE : end * SIZE].view(INDEX_ENTRY.dtype)

    def at(self, row: int) -> At:
        """Say where the row-th next entry lies."""
        position = entry_position(self.opened.file.slots, self._number + row)
        return At(self.path, position, SIZE)

    def pass_over(self, count: int) -> None:
        """Go on after some entries."""
        self._at += count
        if self._at >= self._filled:
            self._load(self._number)

    def _skip_before(self, physical_offset: int) -> None:
        while self._filled:
            offsets = self._values(0, self._filled)["physical_offset"]
            live = np.flatnonzero(offsets >= physical_offset)
            if live.size:
                self._at = int(live[0])
                return
            self._load(self._first + self._filled)

    def wrong_time(self, store_timestamp: int) -> Iterator[Finding]:
        """Say that the next entry has a wrong time, and pass it."""
        if store_timestamp <= 0:  # then the record's time is to blame, and its finding says so
            self.pass_over(1)
            return
        at = self.at(0)
        self._wrong_times += 1
        expected = f"{max(store_timestamp - self._begin, 0) // 1000} s"
        if self._wrong_times == MOST_BAD:  # the file is of another log; one by one tells no more
            self._begin = kernel.NO_TIMES
        defect = finding(
            IX_TIME,
            at,
            expected=expected,
            actual=f"{self._difference(self._at)} s",
        )
        self.pass_over(1)
        yield defect

    def damaged(self, count: int, want: Pairs) -> Iterator[Finding]:
        """Say that the next entries are not what records want, and pass them."""
        for row in range(min(count, self._filled - self._at)):
            self._untrue.add(self._number + row)
            wanted = want[:, row].tolist() if row < want.shape[1] else None
            yield from self._wrong(row, wanted)
        self.pass_over(count)

    def unwanted(self, count: int, first: int = 0, *, passes: bool = True) -> Iterator[Finding]:
        """Say that entries belong to no record of the log."""
        for row in range(first, first + count):
            yield from self._wrong(row, None)
        if passes:
            self.pass_over(count)

    def _wrong(self, row: int, wanted: list[int] | None) -> Iterator[Finding]:
        """Say what is wrong with the row-th next entry."""
        at = self.at(row)
        entry = self._values(self._at + row, self._at + row + 1)
        hashed, offset = int(entry["key_hash"][0]), int(entry["physical_offset"][0])
        expected = "hash {}, record at {}".format(*wanted) if wanted else ""
        if not (hashed or offset or int(entry["previous"][0])):
            yield finding(IX_STALE, at, "an entry in use is all zero", expected=expected)
        elif not self._is_lost(offset, wanted[1] if wanted else offset):
            yield finding(
                IX_KEY,
                At(at.path, at.position, at.length, offset),
                expected=expected,
                actual=f"hash {hashed}, record at {offset}",
            )

    def _is_lost(self, *physical_offsets: int) -> bool:
        """Tell whether an entry concerns a lost stretch of the log; then it is counted there."""
        places = np.array(physical_offsets, np.int64)
        if self._facts.lost.mask(places).any():
            self._facts.lost.count_entries(places[:1])
            return True
        return False

    def finish(self) -> Iterator[Finding]:
        """Read what is left, and judge chains, slots and what lies after the entries."""
        while self._followed < self.count and self._filled:
            self._load(self._followed)
        yield from self._first_time()
        yield from self._header_times()
        yield from self._links()
        yield from self._slots()
        yield from self._after_the_log()
        self._file.close()

    def _first_time(self) -> Iterator[Finding]:
        """Judge entry 1: its time counts from the end of the file before.

        The broker computes it before it sets the begin of the new file.
        """
        if self._first_seen is None:
            return
        stored, measured = self._first_seen
        allowed = {0}
        if self._before is not None:
            before = self._before.header["end_timestamp"]
            allowed.add(max(stored - before, 0) // 1000)
        elif measured > 0 and self._facts.start > 0:
            return  # the file before it has expired
        if measured not in allowed:
            position = entry_position(self.opened.file.slots, FIRST_ENTRY)
            expected = " or ".join(f"{seconds} s" for seconds in sorted(allowed))
            at = At(self.path, position, SIZE)
            yield finding(IX_TIME, at, expected=expected, actual=f"{measured} s")

    def _header_times(self) -> Iterator[Finding]:
        """Compare the header's times with those of the first and the last record, to the ms."""
        seen = {}
        if self._first_seen is not None:
            seen["begin_timestamp"] = self._first_seen[0]
        if self._last_seen is not None and self._last_seen[0] == self.count - 1:
            seen["end_timestamp"] = self._last_seen[1]
        for name, stored in seen.items():
            if self.opened.header[name] != stored:
                yield finding(
                    IX_HEAD,
                    At(self.path, INDEX_HEADER.positions[name], 8),
                    f"the header's {name} is not the store time of its record",
                    expected=iso_time(stored),
                    actual=iso_time(self.opened.header[name]),
                )

    def _links(self) -> Iterator[Finding]:
        bad = [
            link
            for link in self._bad_links
            if self._untrue.isdisjoint((link.number, link.expected, link.actual))
        ]
        for link in bad if len(bad) <= MOST_LISTED else bad[:1]:
            message = f"entry {link.number} is not chained to the one before it in its slot"
            if len(bad) > MOST_LISTED:
                message += f"; {len(bad)} are not, this is the first"
            position = entry_position(self.opened.file.slots, link.number)
            at = At(self.path, position, SIZE)
            yield finding(IX_CHAIN, at, message, expected=link.expected, actual=link.actual)

    def _slots(self) -> Iterator[Finding]:
        """Compare the hash table with the newest entry of each chain."""
        newest, used, parts = self._chains.newest, 0, [np.empty((2, 0), np.int64)]
        for first, there in read_slots(self._file, self.opened.file.slots):
            used += int(np.count_nonzero(there))
            differing = np.flatnonzero(there != newest[first : first + len(there)])
            if differing.size:
                parts.append(np.stack([first + differing, there[differing].astype(np.int64)]))
        slots, values = np.concatenate(parts, axis=1)
        untrue = np.array(sorted(self._untrue), np.int64)
        wrong = ~(is_in(values, untrue) | is_in(newest[slots].astype(np.int64), untrue))
        wild = (values < 0) | (values >= self.count)
        for which in (wrong & wild, wrong & ~wild):
            rows, count = np.flatnonzero(which), int(np.count_nonzero(which))
            more = f"; {count} do, this is the first" if count > MOST_LISTED else ""
            for row in rows[: 1 if more else count].tolist():
                slot = int(slots[row])
                yield self._slot(slot, int(values[row]), int(newest[slot]), more)
        stated = self.opened.header["hash_slot_count"]
        if stated != used and not slots.size:
            at = At(self.path, INDEX_HEADER.positions["hash_slot_count"], 4)
            yield finding(IX_SLOTCOUNT, at, expected=used, actual=stated)

    def _slot(self, slot: int, value: int, newest: int, more: str) -> Finding:
        """Say that a slot is not as its chain wants it."""
        at = At(self.path, slot_position(slot), 4)
        if 0 <= value < self.count:
            message = f"slot {slot} names another entry than the newest of its chain{more}"
            return finding(IX_CHAIN, at, message, expected=newest, actual=value)
        severity = None
        if self._inspection.scope.has_crashed and value >= self.count:
            severity = Severity.NOTE
        message = f"slot {slot} names an entry that does not exist{more}"
        return finding(IX_SLOT, at, message, expected=newest, actual=value, severity=severity)

    def _after_the_log(self) -> Iterator[Finding]:
        """Judge entry 0 and the space after the entries, which nothing was written to."""
        slots = self.opened.file.slots
        if any(self._file.read_at(entry_position(slots, 0), SIZE)):
            message = "entry 0, which is never used, is not zero"
            yield finding(IX_STALE, At(self.path, entry_position(slots, 0), SIZE), message)
        begin = last = -1
        for start, raw in data_stretches(self._file, entry_position(slots, self.count)):
            begin = start + len(raw) - len(raw.lstrip(b"\0")) if begin < 0 else begin
            last = start + len(raw.rstrip(b"\0"))
        if begin >= 0:
            crashed = self._inspection.scope.has_crashed
            yield finding(
                IX_STALE,
                At(self.path, begin, last - begin),
                "bytes past the last entry are not zero",
                severity=Severity.NOTE if crashed else None,
            )
