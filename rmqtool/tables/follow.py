"""`dump --follow`: messages as a broker stores them, as `tail -F` shows lines.

The log is looked at again and again. What is shown at one look was whole at the look before, so no
message is shown while the broker still writes it: that takes long where the broker waits for a
processor in the middle of a record. A log that expires or that a broker cuts back
meanwhile is gone on with where it goes on, and that is said.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from time import sleep
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError, UsageError
from rmqtool.formats.message import decode
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tail import Walker, find_tail
from rmqtool.tables.dump import dump
from rmqtool.tables.inputs import store_of, views_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.rows import Chunk, Rows
    from rmqtool.store.record_heads import RecordHead
    from rmqtool.store.tail import Tail, WalkEnd
    from rmqtool.store.tree import Store
    from rmqtool.tables.dump import DumpOptions, DumpOutcome

OPTION: Final = "--follow"
LOOK_SECONDS: Final = 0.5  # from look to look
FIRST_SECONDS: Final = 0.05  # longer than a broker copies a record
HEADS: Final = 1000  # of looks before: a broker cuts back to one of them, or far
TORN_LOOKS: Final = 20  # at a last record that is not whole: after them it is damage


class Glance(NamedTuple):
    """What one look at a log found; all are physical offsets."""

    start: int  # first byte of the first file
    end: int  # after the last record
    # after the last record of a look before that is still there, where the one after it is not;
    # None where all of them are
    cut: int | None


class Following:
    """Goes on where the last look ended.

    Args:
        options: of a dump.
        outcome: filled while the rows are read.
        note: takes what is to be said of the log: that a part expired, or was cut off.

    Raises:
        UsageError: these are not the messages of one store, or they are chosen up to an offset.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self, options: DumpOptions, outcome: DumpOutcome, note: Callable[[str], None]
    ) -> None:
        self._options, self._outcome, self._note = options, outcome, note
        self._heads: deque[RecordHead] = deque(maxlen=HEADS)
        self._torn: RecordHead | None = None
        self._torn_looks = 0
        if options.selection.offsets[1] is not None:
            raise UsageError(option=OPTION, reason="cannot be combined with an end of --offsets")
        views = views_of(self._store(), options.word)
        is_one = len(options.paths) == len(views) == 1 and not options.is_hex
        if not is_one or views[0].branch not in {ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER}:
            raise UsageError(option=OPTION, reason="is for the messages of one store")

    def rows(self) -> Rows:
        """Give what is there, then what comes; without an end but for `limit`."""
        return replace(self._part(0, 0), chunks=self._chunks())

    def _chunks(self) -> Iterator[Chunk]:
        whole = self._look().end
        sleep(FIRST_SECONDS)
        yield from self._part(self._options.selection.offsets[0], whole)
        self._options = replace(self._options, tail=None)
        begin = whole
        while self._outcome.rows != self._options.limit:
            sleep(LOOK_SECONDS)
            start, end, cut = self._look()
            if cut is not None and cut < begin:
                self._note(f"the log was cut back from {begin} to {cut}")
                begin = whole = cut
            if begin < start:
                self._note_expired(begin, start)
                begin, whole = start, max(start, whole)
            if begin < whole:
                yield from self._shown(begin, whole)
                begin = whole
            whole = end

    def _shown(self, begin: int, end: int) -> Iterator[Chunk]:
        """Show a range; name what of it expires after the look that found it."""
        before = set(self._outcome.expired)
        yield from self._part(begin, end)
        start = self._outcome.log_start
        if begin < start:
            self._note_expired(begin, min(start, end))
        for path in sorted(self._outcome.expired - before):
            first = int(path.rpartition("/")[2])
            length = self._store().commitlog.file_length
            self._note_expired(max(first, begin), min(first + length, end))

    def _note_expired(self, begin: int, end: int) -> None:
        self._note(f"the log from {begin} to {end} expired before it was shown")

    def _part(self, begin: int | None, end: int) -> Rows:
        """Dump a range of the log."""
        selection = replace(self._options.selection, offsets=(begin, end))
        return dump(replace(self._options, selection=selection), self._outcome)[0]

    def _look(self) -> Glance:
        """Find the end of the log, from the last record that is still there."""
        store, cut = self._store(), None
        log = store.commitlog
        with LogReader(log) as reader:
            while (
                self._heads and reader.head_at(self._heads[-1].physical_offset) != (self._heads[-1])
            ):
                gone = self._heads.pop()
                if log.start <= gone.physical_offset:  # else it expired
                    cut = self._heads[-1].end if self._heads else log.start
            if self._heads:
                reached: WalkEnd | Tail = Walker(log, reader).walk(self._heads[-1])
            else:
                reached = find_tail(log, reader)
            end, last = reached.physical_offset, reached.last
            if last is not None and (not self._heads or last != self._heads[-1]):
                if self._is_torn(last, reader):
                    end = last.physical_offset - log.entry_header
                else:
                    self._heads.append(last)
        return Glance(log.start, end, cut)

    def _is_torn(self, head: RecordHead, reader: LogReader) -> bool:
        """Tell whether the last record may still be written: a broker copies it front to back."""
        try:
            message = decode(reader.read_at(head.physical_offset, head.size))
            is_torn = message.crc_matches is False or message.properties_bytes.endswith(b"\0")
        except DecodeError:
            is_torn = True
        self._torn_looks = self._torn_looks + 1 if is_torn and head == self._torn else 0
        self._torn = head if is_torn else None
        return is_torn and self._torn_looks < TORN_LOOKS

    def _store(self) -> Store:
        options = self._options
        return store_of(options.paths[0], options.broker_conf, options.word)
