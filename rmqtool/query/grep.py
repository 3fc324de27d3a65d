"""Messages whose body or properties hold a text, or fit a regular expression.

All of the log is read; bodies are inflated. Bytes are compared: a text stands for its UTF-8. A text
is first looked for in whole windows of the log, and only records around it, and compressed ones,
are taken apart. An expression is tried on each body and on the properties of each record, which is
slow if it backtracks: that is the user's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.formats import java
from rmqtool.formats.compression import decompress
from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.query.answer import BY_SEARCH, Hit
from rmqtool.query.log import LogRange, LogRecord
from rmqtool.query.match import members
from rmqtool.query.scan import Hits, lost_bytes, parts_of
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.scan.message import scan

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.formats.message import Message
    from rmqtool.query.answer import Answer
    from rmqtool.query.log import Log
    from rmqtool.query.requests import ByText
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart

MOST: Final = 1000  # messages that are given
BODY: Final = "body"
PROPERTIES: Final = "properties"
_SEPARATORS: Final = re.compile(rb"[\x01\x02]")


@dataclass(frozen=True)
class Needle:
    """What is looked for. Picklable."""

    text: str  # or expression
    is_regex: bool = False
    topics: tuple[str, ...] = ()  # of the record; empty for any
    raw: bytes = field(init=False, default=b"")  # its bytes

    def __post_init__(self) -> None:
        """Refuse an expression that is not one."""
        object.__setattr__(self, "raw", self.text.encode("utf-8", "surrogatepass"))
        try:
            _ = self.pattern
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                option="--grep-regex",
                reason=f"{self.text[:60]!r} is not a regular expression: {error}",
                step="--grep TEXT takes every character as it is",
            ) from error

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """What bytes are searched with."""
        return re.compile(self.raw if self.is_regex else re.escape(self.raw))

    def in_properties(self, raw: bytes) -> bool:
        """Tell whether a name or a value of properties has it; none reaches over two of them."""
        return any(map(self.pattern.search, _SEPARATORS.split(raw)))

    def fits(self, body: bytes | None, properties: bytes) -> str:
        """Say where a message has it; empty when it has not."""
        if body is not None and self.pattern.search(body):
            return BODY
        return PROPERTIES if self.in_properties(properties) else ""


@dataclass(frozen=True, slots=True)
class GrepIn:
    """The per-part function: picklable, opens and closes the segment itself."""

    needle: Needle

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Hits:
        """Search one part."""
        first: int | None = None
        end, offsets, gap_bytes = part.end, list[int](), 0
        try:
            for batch in scan(part, ScanOptions(body_crc=False), start=start):
                first = batch.position if first is None else first
                end = batch.end
                if batch.kind is Extent.RECORD:
                    offsets += self._offsets(batch)
                elif batch.kind is Extent.GAP:
                    gap_bytes += batch.length
                if len(offsets) > MOST:
                    del offsets[MOST + 1 :]
        except UnreadablePath as error:
            return Hits(first, part.end, (*offsets,), error.reason, gap_bytes)
        return Hits(first, end, (*offsets,), "", gap_bytes)

    def _offsets(self, batch: Batch) -> list[int]:
        columns = batch.columns
        wanted = np.ones(batch.count, np.bool_)
        if self.needle.topics:
            numbers = [
                number
                for number in range(len(batch.topics))
                if java.text(batch.topics[number]) in self.needle.topics
            ]
            wanted = np.isin(columns[row.TOPIC_NUMBER], numbers)
        if not self.needle.is_regex:
            wanted &= self._near(batch)
        return [
            int(columns[row.PHYSICAL_OFFSET, number])
            for number in np.flatnonzero(wanted).tolist()
            if self._fits(batch, number)
        ]

    def _near(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Mark records that may have the text: around it, or with a body to be inflated."""
        columns = batch.columns
        starts = columns[row.BODY_START]
        near: npt.NDArray[np.bool_] = starts < 0
        near |= columns[row.SYS_FLAG] & SysFlag.COMPRESSED_FLAG != 0
        inside = np.flatnonzero(starts >= 0)
        if not inside.size:
            return near
        # Bodies come in the order of their records, each before the properties of its own.
        begins = starts[inside]
        last = columns[row.PROPERTIES_START, inside] + columns[row.PROPERTIES_LENGTH, inside]
        base, raw = int(begins[0]), batch.window[begins[0] : last.max()].tobytes()
        at = raw.find(self.needle.raw)
        while at >= 0:
            number = int(np.searchsorted(begins, base + at, "right")) - 1
            near[inside[number]] = True
            if number + 1 == begins.size:
                break
            at = raw.find(self.needle.raw, int(begins[number + 1]) - base)
        return near

    def _fits(self, batch: Batch, number: int) -> bool:
        columns = batch.columns
        start, length, flags = (
            int(columns[name, number]) for name in (row.BODY_START, row.BODY_LENGTH, row.SYS_FLAG)
        )
        if start >= 0:
            stored = batch.text(start, length)
        else:  # a record that is too long for a window
            with batch.segment.open() as file:
                position = int(columns[row.POSITION, number])
                position += MESSAGE_PREFIX.size + middle_of(flags).size
                stored = file.read_at(position, length)
        place = (
            int(columns[name, number]) for name in (row.PROPERTIES_START, row.PROPERTIES_LENGTH)
        )
        return bool(self.needle.fits(decompress(stored, flags).body, batch.text(*place)))


def grep(log: Log, request: ByText, answer: Answer) -> None:
    """Search the log for a text."""
    needle = Needle(request.text, request.is_regex, request.topics)
    stretch = LogRange(log.start, log.end)
    answer.trail.search(log.described(stretch))
    gap_bytes = 0
    for part, hits in run_joined(GrepIn(needle), parts_of(log, stretch), jobs=log.jobs):
        gap_bytes += hits.gap_bytes
        if hits.unread:
            answer.trail.add("search of the log", hits.unread, part.segment.path)
            answer.trail.search(f"{part.segment.path} could not be read: {hits.unread}")
        for physical_offset in hits.offsets:
            record = log.record_at(physical_offset)
            if not isinstance(record, LogRecord):
                continue
            if len(answer.hits) == MOST:
                answer.problem = f"there are more: these are the first {MOST:,}; --topic narrows it"
                return
            how, note = _where(needle, record.message)
            answer.hits.append(Hit(record, BY_SEARCH, how, note=note))
    if gap_bytes:
        answer.problem = lost_bytes(gap_bytes)


def _where(needle: Needle, message: Message) -> tuple[str, str]:
    """Say where a message has what is looked for, and which of a batch it is."""
    numbers = []
    for number, inner in enumerate(members(message)):
        if how := needle.fits(inner.body, inner.properties_bytes):
            numbers.append((number, how))
    if numbers:
        shown = ", ".join(str(number) for number, _ in numbers[:3])
        more = f" and {len(numbers) - 3:,} more" if len(numbers) > 3 else ""  # noqa: PLR2004 - shown
        return numbers[0][1], f"message {shown}{more} of the batch, counted from 0"
    return needle.fits(
        decompress(message.body, message.sys_flag).body, message.properties_bytes
    ), ""
