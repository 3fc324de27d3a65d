"""Tile a part of a commitlog segment with batches of records, fillers, gaps and unused tails.

What the kernels say becomes batches here; after damage the scan goes on at the next record that
says of itself where it lies. Judging is in judge/message.py, joining of parts in join.py.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.findings.registry_commitlog import (
    CL_BLANKLEN,
    CL_CHAIN,
    CL_MAGIC,
    CL_SIZE,
    CL_TAIL,
    CL_TOPIC,
    DL_ENTRY,
)
from rmqtool.formats.dledger import DLEDGER_BLANK
from rmqtool.formats.message import (
    BLANK,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
)
from rmqtool.scan import columns as row
from rmqtool.scan import crc, kernels_properties, kernels_text, kernels_walk
from rmqtool.scan.batch import Batch, Extent, ScanOptions
from rmqtool.scan.kernels_text import RESERVED_FOR_CRC
from rmqtool.scan.kernels_walk import SHORT
from rmqtool.scan.long_record import body_of, crc_of, without_body
from rmqtool.scan.topics import TopicTable
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.scan.window import Readable
    from rmqtool.store.segment import SegmentPart

FIRST_KEYS: Final = 1 << 15  # at most; there is room for more where records have more
KEYS_A_RECORD: Final = 4
SMALLEST_WINDOW: Final = 1 << 10  # bytes; holds all of a record but its body
FEW: Final = 4  # records in a window: with fewer, much of it is read twice
WIDER: Final = 4  # times its first size that a window becomes at most
LARGEST_WINDOW: Final = 1 << 24  # bytes; the bodies of longer records are read piece by piece
PAUSES: Final = (0.0, 0.05, 0.1, 0.2)  # seconds, before what a broker may be writing is read again

CODES: Final = {
    kernels_walk.ZERO: CL_MAGIC,
    kernels_walk.BAD_MAGIC: CL_MAGIC,
    kernels_walk.BAD_SIZE: CL_SIZE,
    kernels_walk.BAD_TOPIC: CL_TOPIC,
    kernels_walk.BAD_ENTRY: DL_ENTRY,
}
MAGIC: Final = MESSAGE_PREFIX["magic_code"]
LEADING_ZEROS: Final = 3  # bytes of a record's size that may be zero, and so lie in a hole
TAIL: Final = CL_TAIL  # nothing but zeros, or nothing, follows
CHAIN: Final = CL_CHAIN  # records follow a blank
BLANK_LENGTH: Final = CL_BLANKLEN


def scan(
    part: SegmentPart, options: ScanOptions | None = None, *, start: int | None = None
) -> Iterator[Batch]:
    """Tile a part of a commitlog segment with batches, in file order.

    A record belongs to the part in which it begins, so the last batch may end after the part. A
    part that does not begin where the file does begins at the first record that says it lies
    there; whether that is where the part before ends, `join` finds out.

    Args:
        part: which bytes.
        options: what to read; None is all that a check of CRCs and topics needs.
        start: where an extent is known to begin; None to find out.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises; damage is a batch.
    """
    with part.segment.open() as file:
        scanner = SegmentScanner(file, part, options or ScanOptions())
        yield from scanner.batches(start)


class SegmentScanner:
    """The state of one scan: window, columns, topics, keys."""

    def __init__(self, file: Readable, part: SegmentPart, options: ScanOptions) -> None:
        self.file, self.part, self.options = file, part, options
        self.size = min(file.size, part.segment.size)
        # No more memory than the file needs: a store may have 100,000 of them of a page each, and
        # for each the kernel would clear a huge page of the window.
        self.window = Window(file, max(min(options.window_bytes, self.size), SMALLEST_WINDOW))
        self.widest = WIDER * self.window.capacity
        rows = min(options.batch_rows, self.window.capacity // SMALLEST_RECORD + 1)
        self.columns = np.empty((row.ROWS, rows), np.int64)
        self.keys = np.empty((2, min(FIRST_KEYS, KEYS_A_RECORD * rows)), np.int64)
        self.scratch = np.zeros(kernels_properties.SCRATCH, np.int64)
        self.checksum = crc.checksum(by_tables=options.crc_by_tables)
        self.topics = TopicTable()
        self.entry_header = part.segment.entry_header
        self.pauses = [*PAUSES] if part.segment.grows else []
        self.body_bytes = self.size  # bytes of bodies of damaged records that may still be summed

    def batches(self, start: int | None) -> Iterator[Batch]:
        """Yield batches from `start` on, or from the first record in the part."""
        end = min(self.part.end, self.size)
        position = start
        if position is None:
            position = 0 if self.part.is_first else self._next_record(self.part.begin, end)
        while position is not None and position < end:
            for batch in self._step(position, end):
                yield batch
                position = batch.end

    def _step(self, position: int, end: int) -> Iterator[Batch]:
        """Yield what lies at `position`: at least one batch, and every batch has bytes."""
        window = self.window
        if not window.position <= position < window.end:
            window.load(position, end)
        count, stop, why = self.walk(window, position, end)
        if why == SHORT and not count and position > window.position and window.end < self.size:
            window.load(position, end)  # as much of it as one window holds
            count, stop, why = self.walk(window, position, end)
        if count:
            batch = self.records(window, position, count, window.position + stop)
            if self.pauses and self._is_torn(batch):
                yield from self._again(position)
                return
            yield batch
            is_short = why == SHORT and window.end < self.size
            if is_short and count < FEW and window.capacity < self.widest:
                # Long records: a wider window reads fewer bytes twice.
                self.window = Window(self.file, 2 * window.capacity)
        elif why == kernels_walk.BLANK_AHEAD:
            yield from self._filler(position)
        elif why == SHORT and window.end < self.size:
            yield from self._long(position, end)
        else:
            yield from self._damage(position, why)

    def walk(self, window: Window, position: int, end: int) -> tuple[int, int, int]:
        """Walk records of a window from `position` on; see `kernels_walk.walk`."""
        place = (
            position - window.position,
            window.size,
            end - window.position,
            self.size - window.position,
            window.position,
            self.part.segment.start,
            self.entry_header,
        )
        return kernels_walk.walk(window.bytes, place, self.columns)

    def records(self, window: Window, position: int, count: int, end: int) -> Batch:
        """Give a batch of the records that a walk has left in the columns."""
        if self.options.body_crc:
            kernels_walk.body_crcs(window.bytes, self.columns, count, self.checksum)
        keys = self._texts(window, count) if self.options.texts else 0
        return self._batch(Extent.RECORD, position, end, window=window, count=count, keys=keys)

    def _texts(self, window: Window, count: int) -> int:
        """Read topics and properties of the records in the columns; return the keys found."""
        done = keys = 0
        while True:
            done, why, keys = kernels_text.texts(
                window.bytes,
                self.columns,
                (done, count, keys, self.options.wanted),
                self.topics.state,
                (self.keys, self.scratch),
                self.checksum,
            )
            if why == kernels_text.TOPICS_FULL:
                self.topics.grow()
            elif why == kernels_text.KEYS_FULL:
                self.keys = np.concatenate([self.keys, np.empty_like(self.keys)], axis=1)
            else:
                return keys

    def _batch(  # noqa: PLR0913 - one place makes batches
        self,
        kind: Extent,
        position: int,
        end: int,
        *,
        code: Code | None = None,
        window: Window | None = None,
        count: int = 0,
        keys: int = 0,
    ) -> Batch:
        return Batch(
            kind=kind,
            segment=self.part.segment,
            position=position,
            length=end - position,
            code=code,
            count=count,
            matrix=self.columns,
            window=(window or self.window).bytes,
            key_matrix=self.keys,
            key_count=keys,
            topics=self.topics,
            has_texts=self.options.texts,
        )

    def _long(self, position: int, end: int) -> Iterator[Batch]:
        """Yield one record that does not fit the window, or what is there instead of it."""
        at = position - self.window.position + self.entry_header
        size = kernels_walk.total_size(self.window.bytes, at)
        whole = self.entry_header + size <= LARGEST_WINDOW
        if whole:
            wide = Window(self.file, self.entry_header + size)
            wide.load(position)
        elif raw := without_body(self.file, position, self.entry_header):
            wide = Window.holding(raw, position)
        else:
            yield from self._damage(position, kernels_walk.BAD_SIZE)
            return
        count, _, why = self.walk(wide, position, min(end, position + 1))
        if not count:
            yield from self._damage(position, why)
            return
        batch = self.records(wide, position, count, position + self.entry_header + size)
        if not whole:
            self._complete(size)
        yield batch

    def _complete(self, size: int) -> None:
        """Put right what the first column says of a record that was read without its body."""
        first, options = self.columns[:, 0], self.options
        missing = size - int(first[row.SIZE])
        position = int(first[row.POSITION])
        body = position + int(first[row.BODY_START] - first[row.RECORD_START])
        first[row.SIZE], first[row.BODY_LENGTH], first[row.BODY_START] = size, missing, -1
        if options.body_crc:
            first[row.BODY_CRC_FOUND] = crc_of(self.file, body, missing)
        if options.texts and first[row.PROPERTY_CRC_FOUND] >= 0:
            first[row.PROPERTY_CRC_FOUND] = crc_of(self.file, position, size - RESERVED_FOR_CRC)

    def _filler(self, position: int) -> Iterator[Batch]:
        """Yield a blank record: to the end of the file, or up to records that follow it."""
        layout = DLEDGER_BLANK if self.entry_header else BLANK
        at = position - self.window.position
        raw = self.window.bytes[at : at + layout.size].tobytes()
        stored = layout["size" if self.entry_header else "total_size"].of(raw)
        end, code = self.size, None
        if stored != end - position:  # the broker goes to the next file all the same
            code = BLANK_LENGTH
            if (next_record := self._next_record(position + layout.size, self.size)) is not None:
                end, code = next_record, CHAIN
        yield self._batch(Extent.FILLER, position, end, code=code)

    def _is_torn(self, batch: Batch) -> bool:
        """Tell whether records look as if one were still written: no text has zeros in it."""
        columns = batch.columns
        is_other = columns[row.BODY_CRC] != columns[row.BODY_CRC_FOUND]
        if self.options.body_crc and (is_other & (columns[row.BODY_LENGTH] > 0)).any():
            return True
        starts, lengths = columns[[row.PROPERTIES_START, row.PROPERTIES_LENGTH]]
        lasts = (starts + lengths - 1)[lengths > 0]
        return 0 in batch.window[lasts] or 0 in batch.text(int(starts[-1]), int(lengths[-1]))

    def _again(self, position: int) -> Iterator[Batch]:
        """Read again what is damaged, or still written: damage is there each time.

        A window is no snapshot. While it is copied the broker goes on, and then the begin of a
        record can be missing though its end, or the next one, is there.
        """
        sleep(self.pauses.pop(0))
        end = min(self.part.end, self.size)
        self.window.load(position, end)
        yield from self._step(position, end)

    def _damage(self, position: int, why: int) -> Iterator[Batch]:
        """Yield a gap up to the next record, or the unused tail of the file."""
        if self.entry_header and why != SHORT and not self.pauses:
            bare = yield from self._bare(position, why)
            if bare:
                return
        first = self._zeros_until(position) if why in {kernels_walk.ZERO, SHORT} else position
        if first == self.size:
            yield self._batch(Extent.UNUSED, position, self.size)
            return
        if self.pauses:
            yield from self._again(position)
            return
        end = None if why == SHORT else self._after_damage(position, first)
        if end is not None:
            yield self._batch(Extent.GAP, position, end, code=CODES.get(why, TAIL))
            return
        used = self._last_used(position)
        yield self._batch(Extent.GAP, position, used, code=TAIL)
        if used < self.size:
            yield self._batch(Extent.UNUSED, used, self.size)

    def _bare(self, position: int, why: int) -> Generator[Batch, None, bool]:
        """Yield a DLedger entry whose header is damaged while its record is not.

        Returns:
            Whether there was one.
        """
        at = position + self.entry_header
        entry_header, self.entry_header = self.entry_header, 0
        try:
            is_record = at < self.size and self._is_record(at)
            if is_record:
                yield self._batch(Extent.GAP, position, at, code=CODES[why])
                yield from self._step(at, at + 1)
        finally:
            self.entry_header = entry_header
        return is_record

    def _after_damage(self, position: int, first: int) -> int | None:
        """Find where records go on after damage at `position`; None when they do not.

        Args:
            position: where a record should have been.
            first: first byte there that is not zero.
        """
        begin = max(position + 1, first - LEADING_ZEROS)
        at = position - self.window.position + self.entry_header
        if first != position or at + BLANK.size > self.window.size:
            return self._next_record(begin, self.size)
        claimed = position + self.entry_header + kernels_walk.total_size(self.window.bytes, at)
        # Many a wrong length ends where a record begins. So the length alone proves nothing, and
        # what lies before that place is searched, too.
        if not (position < claimed < self.size and self._is_record(claimed)):
            return self._record_after(position, begin, self.size)
        if self._lengths_agree(position):
            return claimed  # only the magic is wrong: nothing in its body misleads us
        inside = self._record_after(position, begin, claimed)
        return claimed if inside is None else inside

    def _record_after(self, position: int, begin: int, end: int) -> int | None:
        """Find the first record in [begin, end) that is no part of the body of a damaged one.

        Args:
            position: where the damaged record begins.
            begin: the first candidate.
            end: past the last one.
        """
        candidate = self._next_record(begin, end)
        if candidate is None:
            return None
        body = position + self.entry_header
        stated_crc, start, length = body_of(self.file, body)
        if not start <= candidate < start + length or length > self.body_bytes:
            return candidate
        self.body_bytes -= length
        if crc_of(self.file, start, length) != stated_crc:
            return candidate
        return self._next_record(start + length, end)

    def _lengths_agree(self, position: int) -> bool:
        """Tell whether the lengths of what lies here are those of a record with another magic."""
        raw = without_body(self.file, position, self.entry_header)
        if raw is None:
            return False
        at = self.entry_header + kernels_walk.MAGIC_CODE
        for magic in TOPIC_LENGTH_BYTES:
            whole = raw[:at] + MAGIC.build(magic) + raw[at + MAGIC.size :]
            held = Window.holding(whole, position)
            if self.walk(held, position, position + 1)[0]:
                return True
        return False

    def _next_record(self, begin: int, end: int) -> int | None:
        """Find the first record in [begin, end) that says of itself that it lies there."""
        window, position = self.window, begin
        while position < end:
            if position < window.position or position + MESSAGE_PREFIX.size > window.end:
                position = max(position, self._data_from(position) - LEADING_ZEROS)
                window.load(position)
            at = kernels_walk.find_record(
                window.bytes,
                position - window.position,
                window.size,
                self.part.segment.start + window.position,
            )
            if at < 0:
                if window.end >= self.size or not window.size:
                    return None
                position = window.end - MESSAGE_PREFIX.size + 1
                continue
            candidate = window.position + at - self.entry_header
            if candidate >= end:
                return None
            if candidate >= begin and self._is_record(candidate):
                return candidate
            position = candidate + self.entry_header + 1
        return None

    def _is_record(self, position: int) -> bool:
        """Tell whether a record with lengths that agree, and with its own offset, lies here."""
        window = self.window
        count, why = 0, SHORT
        if window.position <= position < window.end:
            count, _, why = self.walk(window, position, position + 1)
        if not count and why == SHORT:
            raw = without_body(self.file, position, self.entry_header)
            if raw is None:
                return False
            count, _, _ = self.walk(Window.holding(raw, position), position, position + 1)
        offsets = self.columns[[row.PHYSICAL_OFFSET, row.PHYSICAL_OFFSET_FIELD], 0]
        return bool(count) and int(offsets[0]) == int(offsets[1])

    def _zeros_until(self, position: int) -> int:
        """Give the position of the first byte from `position` on that is not zero."""
        window = self.window
        while position < self.size:
            if not window.position <= position < window.end:
                position = self._data_from(position)
                window.load(position)
            at = kernels_walk.zero_run(window.bytes, position - window.position, window.size)
            position = window.position + at
            if at < window.size or not window.size:
                break
        return position if self.window.size else self.size

    def _data_from(self, position: int) -> int:
        """Skip the hole that begins here, if one does: files are made ahead of need."""
        data_at = self.file.next_data(position)
        return self.size if data_at is None else min(data_at, self.size)

    def _last_used(self, position: int) -> int:
        """Give the position after the last byte of the file that is not zero.

        It is after `position`, where something lies that is not.
        """
        window, end = self.window, self.size
        while end > position:
            begin = max(position, end - window.capacity)
            window.load(begin)
            used = np.flatnonzero(window.bytes[: min(window.size, end - begin)])
            if used.size:
                return begin + int(used[-1]) + 1
            end = begin
        return min(position + 1, self.size)
