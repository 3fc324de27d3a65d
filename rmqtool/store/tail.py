"""The real end of a commitlog, found without walking all of it.

Files are made ahead of need and filled with zeros, so their length says nothing. The consume
queues name the last record that was dispatched: from there a few steps lead to the end. Without
queues, or where they lag or lie, or where the steps come to something that is no record, the last
block that is not zero is found by bisection, then the last record in front of it, and the steps go
from there.
Source: AllocateMappedFileService, CommitLog#recoverNormally, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats.dledger import BLANK_MAGIC as DLEDGER_BLANK_MAGIC
from rmqtool.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE
from rmqtool.store.record_heads import (
    HEAD_BYTES,
    WITNESSES,
    LogReader,
    RecordHead,
    are_remains,
    head_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import MappedFiles, Segment

WINDOW = 256 << 10
BLOCK = 64 << 10  # longer runs of zeros hardly occur inside of data
PROBES = 64  # of a file that begins with zeros, for data after a lost first page
PROBE_BYTES = 4096  # a page: what a crash loses or keeps as a whole
WALKED_RECORDS = 100_000  # a tenth of a second; more than a broker dispatches late by


class FoundBy(enum.StrEnum):
    """How the end was found."""

    QUEUES = "queues"  # steps from the last record that a queue names
    BISECTION = "bisection"  # steps from the last record in front of the zeros
    NOTHING = "nothing"  # no record was found at all


class Stop(enum.StrEnum):
    """What lies at the end."""

    ZEROS = "zeros"  # unused space: a sound end
    END_OF_FILES = "end of files"  # a blank or a full last file, and no file after it
    NOT_A_RECORD = "not a record"  # remains of a truncation, or damage


class WalkEnd(NamedTuple):
    """Where a walk stopped."""

    physical_offset: int  # first byte that belongs to no record and no blank
    passed: Sequence[RecordHead]  # the last records, up to `WITNESSES`
    records: int  # number of records that were passed
    stop: Stop | None  # what lies there; None when the walk was broken off

    @property
    def last(self) -> RecordHead:
        """The last record."""
        return self.passed[-1]


class Tail(NamedTuple):
    """The end of a commitlog."""

    physical_offset: int  # first byte after the last record and a blank that closes its file
    last: RecordHead | None  # last record; None without one
    found_by: FoundBy  # how it was found
    stop: Stop  # what lies there
    # records from the last dispatched one to the end; None when no queue told
    records: int | None = None
    # offset of something past the end that is not zero, by samples; None where the samples are
    # zero
    data_beyond: int | None = None


def find_tail(log: MappedFiles, reader: LogReader, *, dispatched: int | None = None) -> Tail:
    """Find the end of a commitlog.

    Args:
        log: its files.
        reader: of these files.
        dispatched: physical offset of the last record that a queue names, where there are queues.

    Raises:
        UnreadablePath: a file may not be read.
    """
    walker = Walker(log, reader)
    head = None if dispatched is None else reader.head_at(dispatched)
    if head is not None and log.at(head.physical_offset):
        step = walker.walk(head, WALKED_RECORDS)
        if step.stop is not None:
            tail = _tail(walker, step, FoundBy.QUEUES, step.records - 1)
            beyond = None if tail.data_beyond is None else _beyond(walker, step)
            return tail if beyond is None else _tail(walker, beyond, FoundBy.BISECTION, None)
    segment = _last_used(log, reader)
    start = _last_record(log, reader, segment)
    if segment is None or start is None:
        return Tail(log.start, None, FoundBy.NOTHING, Stop.ZEROS)
    return _tail(walker, walker.walk(start), FoundBy.BISECTION, None)


class Walker:
    """Steps from record to record.

    Args:
        log: the files to walk over.
        reader: of these files.
    """

    def __init__(self, log: MappedFiles, reader: LogReader) -> None:
        self.log, self.reader = log, reader
        self.header = log.entry_header
        self._window, self._window_start = b"", 0

    def walk(self, head: RecordHead, limit: int | None = None) -> WalkEnd:
        """Walk from a record to the end of data.

        Args:
            head: a record of the log.
            limit: records after which the walk is broken off.
        """
        passed, at, records = deque([head], WITNESSES), head.end, 1
        while limit is None or records < limit:
            segment = self.log.at(at)
            if segment is None:
                return WalkEnd(at, passed, records, Stop.END_OF_FILES)
            if segment.end - at < BLANK.size or self._is_blank(at):
                at = segment.end
                continue
            record = self._record(at, segment)
            if isinstance(record, Stop):
                return WalkEnd(at, passed, records, record)
            passed.append(record)
            at, records = record.end, records + 1
        return WalkEnd(at, passed, records, None)

    def _record(self, at: int, segment: Segment) -> RecordHead | Stop:
        """Give the record at an offset, or say what is there instead."""
        raw, position = self._bytes(at, self.header + HEAD_BYTES)
        is_entry = not self.header or _is_entry(raw, position, at)
        head = head_of(raw, position + self.header, at + self.header) if is_entry else None
        if head is not None and head.end <= segment.end:
            return head
        return Stop.NOT_A_RECORD if any(raw[position : position + HEAD_BYTES]) else Stop.ZEROS

    def _is_blank(self, at: int) -> bool:
        raw, position = self._bytes(at, BLANK.size)
        if self.header:
            magic, _ = DLEDGER_BLANK.packer.unpack_from(raw, position)
            return bool(magic == DLEDGER_BLANK_MAGIC)
        size, magic = BLANK.packer.unpack_from(raw, position)
        return bool(magic == BLANK_MAGIC_CODE and size > 0)

    def _bytes(self, at: int, length: int) -> tuple[bytes, int]:
        """Give bytes that begin at an offset, and where in them it is; zeros where a file ends."""
        position = at - self._window_start
        if position < 0 or position + length > len(self._window):
            self._window = self.reader.read_at(at, WINDOW).ljust(length, b"\0")
            self._window_start, position = at, 0
        return self._window, position


def _beyond(walker: Walker, step: WalkEnd) -> WalkEnd | None:
    """Walk on after damage: where a broker's dispatch stops is not where the log ends."""
    head = _last_record(walker.log, walker.reader, _last_used(walker.log, walker.reader))
    if head is None or head.physical_offset < step.physical_offset:
        return None
    before = [record.store_timestamp for record in step.passed]
    if are_remains(before, [max(head.born_timestamp, head.store_timestamp)]):
        return None
    return walker.walk(head)


def _tail(walker: Walker, step: WalkEnd, found_by: FoundBy, records: int | None) -> Tail:
    """Word a walk, and look for what lies past its end."""
    beyond = _data_beyond(walker.log, walker.reader, step.physical_offset)
    stop = step.stop or Stop.NOT_A_RECORD
    return Tail(step.physical_offset, step.last, found_by, stop, records, beyond)


def _is_entry(raw: bytes, position: int, at: int) -> bool:
    """Tell whether an entry of DLedger is at an offset, and says so itself."""
    magic, size, _, _, own, _, _, _, body_length = DLEDGER_ENTRY.packer.unpack_from(raw, position)
    return (magic, own, size) == (ENTRY_MAGIC, at, DLEDGER_ENTRY.size + body_length)


def _last_used(log: MappedFiles, reader: LogReader) -> Segment | None:
    """Give the last file that holds anything but zeros."""
    for segment in reversed(log.segments):
        if _first_data(reader.file_of(segment), 0) is not None:
            return segment
    return None


def _last_record(log: MappedFiles, reader: LogReader, used: Segment | None) -> RecordHead | None:
    """Find the last record in front of the zeros of the last used file, or in a file before."""
    if used is None:
        return None
    border = _zeros_from(reader.file_of(used))
    for segment in reversed([segment for segment in log if segment.start <= used.start]):
        position = border if segment is used else segment.size
        if head := reader.last_before(segment, position):
            return head
    return None


def _zeros_from(file: OpenFile) -> int:
    """Bisect for the position from which a file is zeros; its size where it never is."""
    low, high = 0, -(-file.size // BLOCK)  # block `low` is taken to hold data, `high` not
    while high - low > 1:
        middle = (low + high) // 2
        if _has_data(file.read_at(middle * BLOCK, BLOCK)):
            low = middle
        else:
            high = middle
    return min((low + 1) * BLOCK, file.size)


def _data_beyond(log: MappedFiles, reader: LogReader, end: int) -> int | None:
    """Look past the end for something that is not zero; give its place by the first sample."""
    for segment in log:
        if segment.end > end:
            position = _first_data(reader.file_of(segment), max(end - segment.start, 0))
            if position is not None:
                return segment.start + position
    return None


def _first_data(file: OpenFile, begin: int) -> int | None:
    """Give the first of some samples of a file that is not zeros; None when all are."""
    start = file.next_data(begin)  # a file that was made ahead and never touched is one hole
    if start is None:
        return None
    step = max((file.size - start) // PROBES, PROBE_BYTES)
    for position in range(start, file.size, step):
        raw = file.read_at(position, PROBE_BYTES)
        if _has_data(raw):
            return position + len(raw) - len(raw.lstrip(b"\0"))
    return None


def _has_data(raw: bytes) -> bool:
    return raw != bytes(len(raw))  # a hundredth of the time that a look at each byte takes
