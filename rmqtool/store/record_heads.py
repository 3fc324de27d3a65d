"""Single commitlog records, found at their offset or nearby, without a scan.

A record names its own physical offset, so one that is found by its magic code alone can be told
from the bytes of a body, and from the remains of an older file. Whole segments are walked in
scan/message.py.
Source: CommitLog#checkMessageAndReturnSize, DLedgerEntryCoder, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.formats.layout import big_endian
from rmqtool.formats.message import (
    MESSAGE_MAGIC_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_MIDDLES,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
    SysFlag,
    body_start,
    middle_of,
    store_timestamp_position,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import MappedFiles, Segment

    Int64s = npt.NDArray[np.int64]


HEAD_BYTES = MESSAGE_PREFIX.size + max(middle.size for middle in MESSAGE_MIDDLES.values())
MESSAGE_MAGIC_CODES = (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)
MAGIC_POSITION = MESSAGE_PREFIX.positions["magic_code"]
MAGIC = re.compile(b"|".join(map(re.escape, MESSAGE_MAGIC_BYTES)))
OPEN_SEGMENTS = 32  # of the log
FIRST_WINDOW = 64 << 10
# The largest record is 4 MiB unless configured otherwise, and so is the largest blank.
LARGEST_WINDOW = 8 << 20

# A store time may be earlier than the one before it by so much: the clock is read under the append
# lock, but may be set back a bit.
TIME_TOLERANCE_MS = 5
WITNESSES: Final = 3  # records on each side of a gap that are asked for their times

unpack_prefix = MESSAGE_PREFIX.packer.unpack_from
STORE_TIMESTAMP = next(iter(MESSAGE_MIDDLES.values()))["store_timestamp"]
HOST_BITS = SysFlag.BORNHOST_V6_FLAG | SysFlag.STOREHOSTADDRESS_V6_FLAG
# Where the store time of a record begins, by its host bits.
TIMESTAMPS = {
    flags: store_timestamp_position(flags)
    for flags in (0, SysFlag.BORNHOST_V6_FLAG, SysFlag.STOREHOSTADDRESS_V6_FLAG, HOST_BITS)
}


class RecordHead(NamedTuple):
    """What a record says up to its store time."""

    physical_offset: int  # where it is; equal to its own field of this name
    size: int  # bytes of the whole record
    magic_code: int  # V1 or V2
    queue_id: int  # queue of the topic
    queue_offset: int  # number of its unit there
    sys_flag: int  # bits
    born_timestamp: int  # sent, ms since 1970
    store_timestamp: int  # stored, ms since 1970

    @property
    def end(self) -> int:
        """Physical offset after the record."""
        return self.physical_offset + self.size


def head_of(raw: bytes, position: int, physical_offset: int) -> RecordHead | None:
    """Read the head of a record; None where none is that says so itself.

    Args:
        raw: some bytes of a commitlog.
        position: of the record in these.
        physical_offset: where the record must say it is.
    """
    if position < 0 or position + HEAD_BYTES > len(raw):
        # The smallest record is shorter than the longest head: pad what the file's end cuts off.
        if position < 0 or position + SMALLEST_RECORD > len(raw):
            return None
        raw, position = raw[position:].ljust(HEAD_BYTES, b"\0"), 0
    size, magic, _, queue_id, _, queue_offset, own, sys_flag, born = unpack_prefix(raw, position)
    if own != physical_offset or size < SMALLEST_RECORD or magic not in MESSAGE_MAGIC_CODES:
        return None
    at = position + TIMESTAMPS[sys_flag & HOST_BITS]
    stored = big_endian(raw[at : at + STORE_TIMESTAMP.size])
    return RecordHead(own, size, magic, queue_id, queue_offset, sys_flag, born, stored)


def are_remains(before: Sequence[int], after: Sequence[int]) -> bool:
    """Tell whether the records behind a gap are older than those in front of it.

    A truncation does not erase: what was cut off stays behind the new tail. One damaged time is no
    proof of that, or sound records would be cleared: the middle of three times counts, and of two
    the one that speaks for the records.

    Args:
        before: of the last records in front, up to `WITNESSES`: store times, ms; none proves
            nothing.
        after: of the first ones behind, at least one: the later of the times when each was sent
            and stored.
    """
    if not before:
        return False
    newest, oldest = sorted(before)[(len(before) - 1) // 2], sorted(after)[len(after) // 2]
    return 0 <= oldest < newest - TIME_TOLERANCE_MS


class LogReader:
    """Reads single records of a commitlog; keeps some files open. A context manager.

    Args:
        logs: the plain log, DLedger's, or both after a conversion; offsets do not overlap.
    """

    def __init__(self, *logs: MappedFiles) -> None:
        self.logs: Sequence[MappedFiles] = [log for log in logs if log]
        self._files = OpenFiles(OPEN_SEGMENTS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._files.close()

    def segment_at(self, physical_offset: int) -> Segment | None:
        """Give the file that holds a byte of the log; None when none does."""
        for log in self.logs:
            if segment := log.at(physical_offset):
                return segment
        return None

    def file_of(self, segment: Segment) -> OpenFile:
        """Open a file of the log, or give it when it is open.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        return self._files.of(segment)

    def read_at(self, physical_offset: int, length: int) -> bytes:
        """Read from one file; fewer bytes at its end, none where no file is."""
        segment = self.segment_at(physical_offset)
        if segment is None:
            return b""
        return self.file_of(segment).read_at(physical_offset - segment.start, length)

    def head_at(self, physical_offset: int) -> RecordHead | None:
        """Read the record at an offset; None where none is that says so itself and fits."""
        segment = self.segment_at(physical_offset)
        if segment is None:
            return None
        raw = self.file_of(segment).read_at(physical_offset - segment.start, HEAD_BYTES)
        head = head_of(raw, 0, physical_offset)
        return head if head and head.end <= segment.end else None

    def topic_of(self, head: RecordHead) -> str:
        """Read the topic of a record, printable; empty when its lengths do not lead to one."""
        body = head.physical_offset + body_start(head.sys_flag)
        field = middle_of(head.sys_flag)["body_length"]  # the last one before the body
        start = body + max(big_endian(self.read_at(body - field.size, field.size)), 0)
        if start >= head.end:
            return ""
        width = TOPIC_LENGTH_BYTES[head.magic_code]
        size = big_endian(self.read_at(start, width))
        return self.read_at(start + width, max(size, 0)).decode("utf-8", "backslashreplace")

    def first_from(self, segment: Segment, position: int = 0) -> RecordHead | None:
        """Find the first record at or after a position, some MiB far at most."""
        file = self.file_of(segment)
        for begin, end in _growing(position, min(segment.size, position + LARGEST_WINDOW)):
            raw = file.read_at(begin, end - begin + HEAD_BYTES)
            for head in _heads(raw, segment.start + begin, segment.end):
                return head
        return None

    def last_before(self, segment: Segment, position: int) -> RecordHead | None:
        """Find the last record that begins in front of a position, some MiB far at most."""
        file = self.file_of(segment)
        lowest = max(0, position - LARGEST_WINDOW)
        for near, far in _growing(0, position - lowest):
            begin, length = position - far, far - near
            # A head may reach over the border of two windows, so the nearer one's is read, too.
            raw = file.read_at(begin, length + HEAD_BYTES)
            matches = [*MAGIC.finditer(raw)]
            for match in reversed(matches):
                head = _head(raw, match, segment.start + begin, segment.end)
                if head is not None and head.physical_offset < segment.start + position:
                    return head
        return None


def _heads(raw: bytes, physical_offset: int, end: int) -> Iterator[RecordHead]:
    """Yield the records that begin in some bytes, whose first is at an offset, and end by `end`."""
    for match in MAGIC.finditer(raw):
        head = _head(raw, match, physical_offset, end)
        if head is not None:
            yield head


def _head(raw: bytes, match: re.Match[bytes], physical_offset: int, end: int) -> RecordHead | None:
    position = match.start() - MAGIC_POSITION
    head = head_of(raw, position, physical_offset + position)
    return head if head and head.end <= end else None


def _growing(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch into windows, each as long as all before it: the first is mostly enough."""
    length = FIRST_WINDOW
    while begin < end:
        yield begin, min(begin + length, end)
        begin += length
        length *= 2


# Files that stay open: a store has more of them than a process may open.


MOST_OPEN: Final = 256  # a quarter of what a process may usually have open


class OpenFiles:
    """Files that stay open; a context manager. The one not used for longest is closed first.

    Args:
        limit: how many stay open, or a quarter of what this process may have open if that is less.
    """

    def __init__(self, limit: int = MOST_OPEN) -> None:
        import resource  # in here: most commands keep no files open

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = limit if soft == resource.RLIM_INFINITY else max(min(limit, soft // 4), 1)
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def of(self, segment: Segment) -> OpenFile:
        """Open a file, or give it when it is open. Raises UnreadablePath: see `Place.open`."""
        location = segment.place.location
        if location in self._open:
            self._open.move_to_end(location)
        else:
            if len(self._open) >= self._limit:
                self._open.popitem(last=False)[1].close()
            self._open[location] = segment.open()
        return self._open[location]


# Store times of records, read from the log for many records at once.


WINDOW_BYTES: Final = 1 << 20
FEW: Final = 64  # records of a window that are rather read one by one
AFTER_IPV4: Final = TIMESTAMPS[0]
AFTER_IPV6: Final = TIMESTAMPS[int(SysFlag.BORNHOST_V6_FLAG)]
UNKNOWN: Final = -1


def record_times(log: LogReader, physical_offsets: Int64s) -> Int64s:
    """Give the store timestamp of each record, ms since 1970; UNKNOWN where `head_at` has none.

    Args:
        log: where they lie.
        physical_offsets: int64, shape (n,), ascending.

    Raises:
        UnreadablePath: a segment may not be read.
    """
    import numpy as np

    times = np.full(len(physical_offsets), UNKNOWN, np.int64)
    done = 0
    while done < len(physical_offsets):
        begin = int(physical_offsets[done])
        near = done + int(np.searchsorted(physical_offsets[done:], begin + WINDOW_BYTES))
        raw = np.empty(0, np.uint8)
        if near - done > FEW:
            raw = np.frombuffer(log.read_at(begin, WINDOW_BYTES), np.uint8)
        usable = begin + len(raw) - HEAD_BYTES
        until = done + int(np.searchsorted(physical_offsets[done:], usable, "right"))
        if until == done:  # few, or the last record of a file, shorter than the longest head
            head = log.head_at(begin)
            times[done] = head.store_timestamp if head else UNKNOWN
            done += 1
            continue
        segment = log.segment_at(begin)
        end = segment.end if segment else begin
        times[done:until] = _times(raw, physical_offsets[done:until], begin, end)
        done = until
    return times


def _times(raw: npt.NDArray[np.uint8], offsets: Int64s, begin: int, end: int) -> Int64s:
    """Read the store times of records that begin in some bytes.

    Args:
        raw: uint8, bytes of a segment.
        offsets: int64, shape (n,): where the records have to say they are.
        begin: physical offset of the bytes.
        end: physical offset after the segment.
    """
    import numpy as np

    starts = offsets - begin
    heads = raw[starts[:, None] + np.arange(MESSAGE_PREFIX.size)]
    prefix = np.ascontiguousarray(heads).view(MESSAGE_PREFIX.dtype)[:, 0]
    is_long = (prefix["sys_flag"] & int(SysFlag.BORNHOST_V6_FLAG)) != 0
    places = starts + np.where(is_long, AFTER_IPV6, AFTER_IPV4)
    stamps = np.ascontiguousarray(raw[places[:, None] + np.arange(STORE_TIMESTAMP.size)])
    size = prefix["total_size"].astype(np.int64)
    is_record = (prefix["physical_offset"] == offsets) & (size >= SMALLEST_RECORD)
    magic = prefix["magic_code"]
    is_record &= (magic == MESSAGE_MAGIC_CODE) | (magic == MESSAGE_MAGIC_CODE_V2)
    is_record &= offsets + size <= end
    return np.where(is_record, stamps.view(STORE_TIMESTAMP.numpy_type)[:, 0], UNKNOWN)
