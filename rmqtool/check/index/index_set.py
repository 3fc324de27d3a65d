"""Compare index files with the entries that the log asks for, and follow their chains: IX-*.

Which entries are damaged, missing or too many, `ledger/index_entries.py` judges.
Source: IndexService#buildIndex, IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import keeps_index_files
from rmqtool.check.index import kernels_index as kernel
from rmqtool.check.index.index_file import FileReader
from rmqtool.check.index.index_header import index_files
from rmqtool.check.next_start import NextStart
from rmqtool.check.queues.grouping import grouped
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_index import IX_DUP, IX_KEY, IX_MISSING
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY
from rmqtool.ledger.index_entries import (
    LOOK_AHEAD,
    EntryVerdict,
    are_expired,
    explain,
    is_doomed,
)
from rmqtool.machine.arrays import is_in
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.derive.runs import IndexRun
    from rmqtool.findings.finding import Finding
    from rmqtool.store.index_files import IndexInUse
    from rmqtool.store.record_heads import LogReader

    Pairs = npt.NDArray[np.int64]
    Run = tuple[npt.NDArray[np.int32], Pairs, Pairs]

INDEX_NAME: Final = "index"
LEAST_FOREIGN: Final = 32  # entries; fewer may be damaged by chance
MOST_HELD: Final = 4096  # findings of one file that wait


class EntryDoubts:
    """What is found of the entries of one file, held until it is known whose index it is.

    Where most entries name no record with their key, and yet rise as a log does, the file is the
    index of another log: one finding, not one for each entry. Of many findings the first decide.
    """

    def __init__(self) -> None:
        self._held: list[Finding] = []
        self._wrong = self._falls = self._last = 0
        self._is_foreign: bool | None = None  # None until it is decided

    def take(self, finding: Finding, reader: FileReader) -> Iterator[Finding]:
        """Hold a finding; give all that is held once it is decided that the file is no other's."""
        if finding.code == IX_KEY:
            offset = finding.physical_offset or 0
            self._wrong, self._falls = self._wrong + 1, self._falls + (offset < self._last)
            self._last = offset
        if self._is_foreign is None:
            self._held.append(finding)
            if len(self._held) >= MOST_HELD:
                yield from self._decide(reader.passed)
        elif not self._is_foreign:
            yield finding

    def released(self, reader: FileReader) -> Iterator[Finding]:
        """Give what is held at the end of the file; of an index of another log one finding."""
        count = reader.count - FIRST_ENTRY
        if self._is_foreign is None:
            yield from self._decide(count)
        if self._is_foreign:
            entries = f"{self._wrong:,} of {counted(count, 'entry', 'entries')}"
            message = f"{entries} name no record with their key"
            if self._wrong * 2 > count:
                message += ", though they lie in the order of a log: "
                message += "the file is the index of another log"
            yield finding(IX_KEY, At(reader.path), message)

    def _decide(self, passed: int) -> Iterator[Finding]:
        """Decide by the entries that were passed; what is held goes, one way or the other."""
        held, self._held = self._held, []
        is_most = self._wrong >= LEAST_FOREIGN and self._wrong * 2 > passed
        self._is_foreign = is_most and self._falls * 10 <= self._wrong
        if not self._is_foreign:
            yield from held


class IndexComparer:
    """Takes the index runs of the log in order."""

    def __init__(self, inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> None:
        self._inspection, self._facts, self._queue_facts = inspection, facts, queue_facts
        self._files: list[IndexInUse] = []
        self._current: FileReader | None = None
        self._next = 0
        self._last_offset = -1  # of the last record that was found
        self._last_hashes = np.empty(0, np.int32)  # of its keys, sorted
        self._missing_after = 0  # entries that the log wants after the last file
        self._first_after = -1  # physical offset of the first record of these; -1 for none
        self._missing_between = 0  # between two files, one of which was not full
        self._skipped = 0  # last entries of records, as releases before 5.4.0 leave them out
        self._has_tag_keys = inspection.scope.release.indexes_tags
        self._duplicates = 0
        self._first_duplicate = At(INDEX_NAME)
        self._doubts = EntryDoubts()

    def open(self) -> Iterator[Finding]:
        """Judge the headers and open the first file.

        Its entries are read when some of the log was: other threads read on meanwhile.
        """
        yield from index_files(self._inspection, self._files)
        yield from self._open_next()

    def _advance(self) -> Iterator[Finding]:
        """Close the current file, open the next one and read its first entries."""
        if self._current is not None:
            self._inspection.account.entries += self._current.count - 1
            self._inspection.account.bytes += self._current.used_bytes
            self._inspection.account.files += 1
            yield from self._current.finish()
            reader, self._current = self._current, None
            doubts, self._doubts = self._doubts, EntryDoubts()
            yield from doubts.released(reader)
        yield from self._open_next()
        yield from self._begin()

    def _open_next(self) -> Iterator[Finding]:
        while self._current is None and self._next < len(self._files):
            before = self._files[self._next - 1] if self._next else None
            opened = self._files[self._next]
            self._next += 1
            try:
                self._current = FileReader(self._inspection, self._facts, opened, before)
            except UnreadablePath as error:
                yield self._inspection.unread(opened.file.path, error)

    def _begin(self) -> Iterator[Finding]:
        """Read the first entries of a file that was opened."""
        while self._current is not None and not self._current.has_begun:
            try:
                self._current.begin(self._facts.start)
            except UnreadablePath as error:
                yield self._inspection.unread(self._current.path, error)
                self._current = None
                yield from self._open_next()

    @grouped
    def take(self, run: IndexRun) -> Iterator[Finding]:
        """Compare the entries of one part of the log."""
        yield from self._holding(self._take(run))

    def _holding(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Hold what is found of entries of the current file until it is known what it is."""
        for defect in findings:
            is_of_entry = (
                defect.code in {IX_KEY, IX_MISSING} and defect.severity is not Severity.NOTE
            )
            if is_of_entry and self._current is not None and defect.path == self._current.path:
                yield from self._doubts.take(defect, self._current)
            else:
                yield defect

    def _take(self, run: IndexRun) -> Iterator[Finding]:
        yield from self._begin()
        arrays = self._without_lost((run.hashes, run.physical_offsets, run.store_timestamps))
        state = np.zeros(kernel.STATE, np.int64)
        state[kernel.MAY_SKIP] = self._has_tag_keys
        wanted = len(arrays[0])
        while state[kernel.RUN] < wanted:
            reader = self._current
            if reader is None:
                self._note_after(arrays[1][int(state[kernel.RUN]) :])
                return
            try:
                why = reader.compare(arrays, state)
            except UnreadablePath as error:
                yield self._inspection.unread(reader.path, error)
                self._current = None
                yield from self._advance()
                continue
            self._note_skipped(state)
            self._note_last(arrays, state)
            if why == kernel.WINDOW_DONE:
                yield from self._advance()
                self._skip_to_file(reader, arrays, state)
            elif why == kernel.WRONG_TIME:
                yield from reader.wrong_time(int(arrays[2][state[kernel.RUN]]))
                state[kernel.RUN] += 1
            elif why == kernel.DIFFERS:
                yield from self._explain(reader, arrays, state)
            self._note_last(arrays, state)

    def _note_after(self, offsets: Pairs) -> None:
        """Count keys after the last entry; of the last record one may be left: its tags."""
        rest = int(np.searchsorted(offsets, self._last_offset, "right"))
        if rest == 1 and self._has_tag_keys and self._files and not self._files[-1].is_full:
            self._skipped += 1
            offsets = offsets[1:]
        self._missing_after += len(offsets)
        if self._first_after < 0 and offsets.size:
            self._first_after = int(offsets[0])

    def _without_lost(self, run: Run) -> Run:
        """Leave out the entries of records that are torn, or that lie elsewhere than they say."""
        facts = self._facts
        left_out = facts.lost.mask(run[1])
        if facts.moved:
            # One by one: where all of a log lies elsewhere, arrays would be made at every part.
            left_out |= np.fromiter(map(facts.is_moved, run[1].tolist()), np.bool_)
        if not left_out.any():
            return run
        return run[0][~left_out], run[1][~left_out], run[2][~left_out]

    def _note_last(self, arrays: Run, state: npt.NDArray[np.int64]) -> None:
        """Remember the record whose keys were found last."""
        if end := int(state[kernel.RUN]):
            self._last_offset = int(arrays[1][end - 1])
            first = int(np.searchsorted(arrays[1][:end], self._last_offset))
            self._last_hashes = np.sort(arrays[0][first:end])

    def _are_again(self, entries: Pairs) -> npt.NDArray[np.bool_]:
        """Tell which entries are of that record, as it is indexed again after a crash."""
        is_last: npt.NDArray[np.bool_] = entries[1] == self._last_offset
        return is_last & is_in(entries[0], self._last_hashes)

    def _note_skipped(self, state: npt.NDArray[np.int64]) -> None:
        self._skipped += int(state[kernel.SKIPPED])
        state[kernel.SKIPPED] = 0

    def _skip_to_file(
        self,
        before: FileReader,
        arrays: Run,
        state: npt.NDArray[np.int64],
    ) -> None:
        """Pass over entries between a file that was not full and the next one."""
        if self._current is None or before.opened.is_full:
            return
        number = int(state[kernel.RUN])
        at = int(np.searchsorted(arrays[1], self._current.opened.begin))
        if at > number:
            self._missing_between += at - number
            state[kernel.RUN] = at

    def _explain(
        self,
        reader: FileReader,
        arrays: Run,
        state: npt.NDArray[np.int64],
    ) -> Iterator[Finding]:
        """Word why entries are not those of the run."""
        number = int(state[kernel.RUN])
        have = reader.ahead(LOOK_AHEAD)
        want = np.stack(
            [array[number : number + LOOK_AHEAD].astype(np.int64) for array in arrays[:2]]
        )
        lost = self._facts.lost.mask(have[1])
        if lost[0]:
            count = int(np.argmin(lost)) if not lost.all() else len(lost)
            self._facts.lost.count_entries(have[1][:count])
            reader.pass_over(count)
            return
        if self._facts.is_moved(int(have[1, 0])):
            reader.pass_over(1)
            return
        log_start = None if reader.has_live else self._facts.start
        kind, entries, wanted = explain(
            want, have, log_start, has_tags=self._has_tag_keys, limit=self._limit()
        )
        if kind is EntryVerdict.EXPIRED:
            reader.pass_over(entries)
        elif kind is EntryVerdict.DAMAGED:
            yield from reader.damaged(entries, want)
        elif kind is EntryVerdict.UNASKED:
            yield from self._extra(reader, have[:, :entries])
        elif kind is EntryVerdict.UNTAGGED:
            self._skipped += wanted
        elif kind is EntryVerdict.LATER and reader.is_at_start:
            self._missing_between += wanted  # keys from before the index began
        else:
            yield from self._missing(reader, want[:, :wanted])
        state[kernel.RUN] += wanted

    def _limit(self) -> int:
        """Give the physical offset up to which entries of the current file may lie."""
        if self._next < len(self._files):
            return self._files[self._next].begin
        return self._inspection.store.commitlog.end

    def _extra(self, reader: FileReader, entries: Pairs) -> Iterator[Finding]:
        """Judge entries that the log does not ask for."""
        if self._are_again(entries).all():
            if not self._duplicates:
                self._first_duplicate = reader.at(0)
            self._duplicates += entries.shape[1]
            reader.pass_over(entries.shape[1])
            return
        yield from reader.unwanted(entries.shape[1])

    def _missing(self, reader: FileReader, entries: Pairs) -> Iterator[Finding]:
        """Say that records have keys without an entry."""
        count = entries.shape[1]
        at = At(reader.path, reader.at(0).position, None, int(entries[1, 0]))
        plural = f"{count:,} keys of records have" if count > 1 else "a key of a record has"
        yield finding(IX_MISSING, at, f"{plural} no entry before this one")

    @grouped
    def finish(self, log: LogReader) -> Iterator[Finding]:
        """Judge what is left in the files, and say what was only counted.

        Args:
            log: as it is; all queues have been compared with it.
        """
        yield from self._holding(self._finish())
        if self._missing_after:
            yield self._after(NextStart(self._inspection, self._queue_facts, log))

    def _after(self, start: NextStart) -> Finding:
        """Say that keys have no entry at the end of the index: dispatch was late, or they are lost.

        A start indexes what it dispatches, and nothing else: see `IndexService#buildIndex`.
        """
        inspection, first = self._inspection, self._first_after
        is_late = inspection.store.moment.is_live or start.dispatches_from(first)
        is_known = bool(self._files) or inspection.store.broker_conf is not None
        is_asked = keeps_index_files(inspection.store.broker_conf, inspection.scope.version)
        is_lost = is_asked and is_known and not is_late
        is_lost &= not inspection.is_above_unread(INDEX_NAME)
        amount = counted(self._missing_after, "key of a record has", "keys of records have")
        where = "past the last entry of the index" if self._files else "there is no index file"
        where += "; a start does not index all of them" if is_lost else ""
        return finding(
            IX_MISSING,
            At(INDEX_NAME, None, None, first),
            f"{amount} no entry: {where}",
            severity=None if is_lost else Severity.NOTE,
        )

    def _finish(self) -> Iterator[Finding]:
        yield from self._begin()
        while self._current is not None:
            reader = self._current
            try:
                yield from self._judge_rest(reader)
            except UnreadablePath as error:
                yield self._inspection.unread(reader.path, error)
            yield from self._advance()
        if self._duplicates:
            message = f"{counted(self._duplicates, 'entry is', 'entries are')} there twice"
            yield finding(IX_DUP, self._first_duplicate, message)
        left_out = {
            "before or between index files that are not full": self._missing_between,
            "for tags; releases before 5.4.0 do not index tags": self._skipped,
        }
        for words, count in left_out.items():
            if count and self._files:
                amount = counted(count, "key of a record has", "keys of records have")
                message = f"{amount} no entry: {words}"
                yield finding(IX_MISSING, At(INDEX_NAME), message, severity=Severity.NOTE)

    def _judge_rest(self, reader: FileReader) -> Iterator[Finding]:
        """Judge the entries that no record of the log has asked for."""
        while (have := reader.ahead(1 << 14)).size:
            lost = self._facts.lost.mask(have[1])
            self._facts.lost.count_entries(have[1][lost])
            later = have[1] >= self._facts.end
            beyond = ~lost & later
            if beyond.any():
                later &= have[1] < self._end_now
                beyond &= ~later
            again = ~lost & self._are_again(have)
            if beyond.any():
                yield self._beyond(reader, np.flatnonzero(beyond), have)
            known = lost | later | beyond | again
            if not reader.has_live:
                known |= are_expired(have[1], self._facts.start)
            other = np.flatnonzero(~known)
            self._duplicates += int(again.sum())
            for row in other.tolist():
                yield from reader.unwanted(1, row, passes=False)
            reader.pass_over(have.shape[1])

    @cached_property
    def _end_now(self) -> int:
        """Where the files of the log end by now: a running broker has made some since."""
        store = self._inspection.store
        return replace(store).commitlog.end if store.moment.is_live else 0

    def _beyond(self, reader: FileReader, rows: npt.NDArray[np.int64], have: Pairs) -> Finding:
        first = int(rows[0])
        at, store = reader.at(first), self._inspection.store
        goes = self._inspection.scope.has_crashed and is_doomed(store, reader.opened.header)
        return finding(
            IX_KEY,
            At(at.path, at.position, len(rows) * INDEX_ENTRY.size, int(have[1, first])),
            f"{counted(len(rows), 'entry points', 'entries point')} past the end of the commitlog",
            actual=int(have[1, first]),
            severity=Severity.NOTE if goes else None,
        )
