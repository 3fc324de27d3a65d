"""Records of a commitlog, one at a time, each verified by what it says of itself.

A record is only taken for one when it states its own physical offset and its lengths add up; the
CRC of its body is compared, and a difference is told, not hidden.
Source: CommitLog#checkMessageAndReturnSize, DefaultMessageStore#selectOneMessageByOffset.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import DecodeError
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    END_FILE_MIN_BLANK_LENGTH,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    Message,
    decode,
)
from rmqtool.store.record_heads import LARGEST_WINDOW, LogReader, RecordHead, head_of
from rmqtool.store.tail import find_tail

if TYPE_CHECKING:
    from rmqtool.store.segment import MappedFiles, Segment
    from rmqtool.store.tree import Store

FIRST_READ: Final = 4096  # most records are shorter, and one read is then enough
NO_LOG: Final = "there is no commitlog: mount or restore it, or correct storePathCommitLog"
NEAR: Final = 64 << 10  # how far in front of an offset its record is first looked for


class LogRange(NamedTuple):
    """A part of the log to be searched: physical offsets, half open."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Bytes."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


class LogRecord(NamedTuple):
    """One record that says of itself where it lies, and whose lengths add up."""

    message: Message  # its fields
    raw: bytes  # its bytes
    segment: Segment  # the file
    crc_matches: bool | None  # None without a body, as the broker does

    @property
    def physical_offset(self) -> int:
        """Where it lies."""
        return self.message.physical_offset

    @property
    def position(self) -> int:
        """First byte in the file."""
        return self.message.physical_offset - self.segment.start

    @property
    def end(self) -> int:
        """Physical offset after it."""
        return self.message.physical_offset + self.message.total_size

    @property
    def verified(self) -> str:
        """Say what was compared."""
        words = {True: "body CRC", False: "body CRC DIFFERS", None: "no body"}
        return f"physical offset, lengths, {words[self.crc_matches]}"


class NoRecord(NamedTuple):
    """Why there is no record at an offset."""

    physical_offset: int  # that was asked for
    reason: str  # one phrase
    segment: Segment | None = None  # the file that holds the offset; None when none does
    is_blank: bool = False  # whether the record that closes the file begins there


class Log:
    """The commitlog of a store. A context manager; keeps some files open.

    Args:
        store: with the log.
        jobs: threads for those who search it with kernels; None is one for each processor.
    """

    def __init__(self, store: Store, jobs: int | None = None) -> None:
        self.store, self.jobs = store, jobs
        self.files: tuple[MappedFiles, ...] = tuple(
            files for files in (store.old_commitlog, store.commitlog) if files
        )
        self.reader = LogReader(*self.files)
        self.known_end: int | None = None  # physical offset of a late record, to find the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.reader.__exit__(*exception)

    @property
    def start(self) -> int:
        """First physical offset that is there."""
        return min((files.start for files in self.files), default=0)

    @cached_property
    def end(self) -> int:
        """Physical offset after the last record, found with a few reads.

        Raises:
            UnreadablePath: a file may not be read.
        """
        if not self.store.commitlog:
            return max((files.end for files in self.files), default=0)
        tail = find_tail(
            self.store.commitlog,
            self.reader,
            dispatched=self.known_end,
        )
        return max(tail.physical_offset, self.start)

    @property
    def segments(self) -> list[Segment]:
        """All files, in the order of the log."""
        return [segment for files in self.files for segment in files]

    @property
    def range_text(self) -> str:
        """The offsets that are there, as people read them."""
        if not self.files:
            return "there is no commitlog"
        return f"the log has [{self.start}, {self.end})"

    def described(self, stretch: LogRange) -> str:
        """Name a stretch of the log for people, and what of it no file holds."""
        if not self.files:
            return "no commitlog"
        holes = [
            LogRange(begin, begin + length)
            for segment in self.segments
            for begin, length in segment.missing
            if stretch.start < begin + length <= stretch.end
        ]
        without = f" without {', '.join(map(str, holes))}, which no file holds" if holes else ""
        return f"the log {stretch}{without}"

    def _why_nowhere(self, physical_offset: int) -> str:
        """Say why no file holds an offset."""
        before = max(
            (segment.end for segment in self.segments if segment.end <= physical_offset),
            default=None,
        )
        after = min(
            (segment.start for segment in self.segments if segment.start > physical_offset),
            default=0,
        )
        if before is None or not after:
            return f"outside of the log: {self.range_text}"
        return f"no file of the log holds [{before}, {after}): it is missing"

    def record_at(self, physical_offset: int, states: int | None = None) -> LogRecord | NoRecord:
        """Read and verify the record that begins at an offset.

        Args:
            physical_offset: where it begins.
            states: the physical offset that it has to state; None is the one where it begins.

        Raises:
            UnreadablePath: the file may not be read.
        """
        segment = self.reader.segment_at(physical_offset)
        if segment is None:
            return NoRecord(physical_offset, self._why_nowhere(physical_offset))
        file = self.reader.file_of(segment)
        position = physical_offset - segment.start
        raw = file.read_at(position, FIRST_READ)
        head = head_of(raw, 0, physical_offset if states is None else states)
        if head is None:
            return _no_record(raw, physical_offset, segment)
        if physical_offset + head.size > segment.end:
            reason = f"a size of {head.size} reaches past the end of its file"
            return NoRecord(physical_offset, reason, segment)
        if head.size > len(raw):
            raw = file.read_at(position, head.size)
        raw = raw[: head.size]
        try:
            message = decode(raw, path=segment.path, position=position)
        except DecodeError as error:
            return NoRecord(physical_offset, f"{error.field}: {error.reason}", segment)
        return LogRecord(message, raw, segment, message.crc_matches)

    def covering(self, physical_offset: int) -> LogRecord | NoRecord:
        """Find the record that covers a byte: steps from a record in front of it, else nearby.

        A record's body may hold bytes that look like a record; steps by sizes pass them, so what
        the steps reach counts, and only where they break off what was found by its looks.

        Raises:
            UnreadablePath: the file may not be read.
        """
        record = self.record_at(physical_offset)
        if isinstance(record, LogRecord) and self._is_reached(record):
            return record
        segment = self.reader.segment_at(physical_offset)
        if segment is None:
            return record
        head = self._covering_head(segment, physical_offset)
        if head is None:
            return record
        return self.record_at(head.physical_offset)

    def next_record(self, physical_offset: int) -> RecordHead | None:
        """Find the first record at or after an offset, some MiB far in its file, or in the next.

        Raises:
            UnreadablePath: a file may not be read.
        """
        for segment in self.segments:
            if segment.end > physical_offset:
                position = max(physical_offset - segment.start, 0)
                head = self.reader.first_from(segment, position)
                if head is not None:
                    return head
                if position < segment.size - LARGEST_WINDOW:
                    return None
        return None

    def previous_record(self, physical_offset: int) -> RecordHead | None:
        """Find the last record that begins in front of an offset, some MiB far at most.

        Raises:
            UnreadablePath: a file may not be read.
        """
        for segment in reversed(self.segments):
            if segment.start < physical_offset:
                head = self.reader.last_before(
                    segment, min(physical_offset - segment.start, segment.size)
                )
                if head is not None or segment.size > LARGEST_WINDOW:
                    return head
        return None

    def _is_reached(self, record: LogRecord) -> bool:
        """Tell whether no other record covers the one that was found; mostly a single step."""
        before = self.reader.last_before(record.segment, record.position)
        if before is None or before.end <= record.physical_offset:
            return True
        head = self._covering_head(record.segment, record.physical_offset)
        return head is None or head.physical_offset == record.physical_offset

    def _covering_head(self, segment: Segment, physical_offset: int) -> RecordHead | None:
        position = physical_offset - segment.start
        nearest = self.reader.last_before(segment, position + 1)
        start = self.reader.first_from(segment, max(0, position - NEAR))
        if nearest is None or start is None or start.physical_offset > physical_offset:
            return nearest if nearest and nearest.end > physical_offset else None
        reached = self._step_to(start, physical_offset)
        if reached is not None:
            return reached
        return nearest if nearest.end > physical_offset else None

    def _step_to(self, head: RecordHead, physical_offset: int) -> RecordHead | None:
        """Step from record to record; give the one that covers the offset."""
        header = self.files[-1].entry_header
        current: RecordHead | None = head
        while current is not None and current.end <= physical_offset:
            following = self.reader.head_at(current.end + header)
            if following is None and header:
                following = self.reader.head_at(current.end)
            current = following
        if current is None or current.physical_offset > physical_offset:
            return None
        return current


def _no_record(raw: bytes, physical_offset: int, segment: Segment) -> NoRecord:
    """Say what is where no record is."""
    size, magic = BLANK.packer.unpack_from(raw.ljust(END_FILE_MIN_BLANK_LENGTH, b"\0"))
    if magic == BLANK_MAGIC_CODE:
        reason = f"the blank record that closes the file, {size:,} bytes"
        return NoRecord(physical_offset, reason, segment, is_blank=True)
    return NoRecord(physical_offset, _what_is_here(raw, physical_offset, size, magic), segment)


def _what_is_here(raw: bytes, physical_offset: int, size: int, magic: int) -> str:
    """Say what is where neither a record nor a blank is."""
    if len(raw) < SMALLEST_RECORD and not any(raw):
        return "the file ends here"
    if not any(raw[:SMALLEST_RECORD]):
        return "zeros: unused space"
    from rmqtool.store.record_heads import MESSAGE_MAGIC_CODES

    if magic in MESSAGE_MAGIC_CODES and len(raw) >= SMALLEST_RECORD:
        own = MESSAGE_PREFIX["physical_offset"].of(raw)
        if own != physical_offset:
            return f"a record that says it lies at {own}: a copy or a remnant"
        return f"a record of an impossible size, {size:,} bytes"
    return "no record begins here"
