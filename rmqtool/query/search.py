"""Search the log itself, where no index and no queue can be asked or believed.

A text of some length is looked for as bytes, window by window, and each place where it stands is
traced back to its record, which decides; that needs nothing but Python. Short texts, places of
queues and many texts at once go through the kernels (scan.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.query.log import LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.query.explain import Trail
    from rmqtool.query.log import Log, LogRange
    from rmqtool.query.match import RecordNeed
    from rmqtool.store.segment import Segment

WINDOW: Final = 2 << 20  # searching for 32 bytes: 3 GB/s; with 256 KiB 1.9
SHORT: Final = 8  # bytes; shorter texts stand everywhere
LIGHT_BYTES: Final = 4 << 20  # a stretch for which importing the kernels would take longer
_BEFORE: Final = frozenset(b"\x01 ")
_BEHIND: Final = frozenset(b"\x02 \x00\xff")  # \0 and \xff begin what follows the record


def search(
    log: Log, wanted: RecordNeed, stretches: Iterable[LogRange], trail: Trail
) -> Iterator[tuple[LogRecord, str]]:
    """Yield the records of some stretches of the log that have a text, each with how.

    Args:
        log: to be read.
        wanted: what a record must have.
        stretches: which parts.
        trail: takes down what was searched, and what could not be.
    """
    for stretch in stretches:
        is_long = stretch.length > LIGHT_BYTES
        if is_long and len(wanted.text.encode("utf-8", "surrogatepass")) < SHORT:
            from rmqtool.query.scan import find_keys

            found = find_keys(log, [wanted], [stretch], trail)
        else:
            found = find_text(log, wanted, stretch, trail)
        count = 0
        for record, how in found:
            count += 1
            yield record, how
        trail.add("search of the log", f"{stretch}: {count:,} found")


def find_text(
    log: Log, wanted: RecordNeed, stretch: LogRange, trail: Trail
) -> Iterator[tuple[LogRecord, str]]:
    """Yield the records of a stretch that have a text, found by its bytes."""
    needle = wanted.text.encode("utf-8", "surrogatepass")
    if not needle:
        return
    for segment in log.segments:
        if segment.end <= stretch.start or segment.start >= stretch.end:
            continue
        try:
            yield from _in_segment(log, wanted, needle, segment, stretch)
        except UnreadablePath as error:
            trail.add("search of the log", f"cannot be read: {error.reason}", segment.path)
            trail.search(f"{segment.path} could not be read: {error.reason}")


def _in_segment(
    log: Log, wanted: RecordNeed, needle: bytes, segment: Segment, stretch: LogRange
) -> Iterator[tuple[LogRecord, str]]:
    passed = 0  # physical offset up to which records were judged
    for physical_offset in _places(log, needle, segment, stretch):
        if physical_offset < passed:
            continue
        record = log.covering(physical_offset)
        if not isinstance(record, LogRecord):
            continue
        passed = record.end
        if record.physical_offset >= stretch.start and (how := wanted.match(record.message)):
            yield record, how


def _places(log: Log, needle: bytes, segment: Segment, stretch: LogRange) -> Iterator[int]:
    """Yield where the needle stands between separators of properties."""
    file = log.reader.file_of(segment)
    position = max(stretch.start - segment.start, 0)
    end = min(stretch.end - segment.start, file.size)
    margin = len(needle) + 1
    while position < end:
        # A text may stand across the border of two windows, so they overlap.
        raw = file.read_at(position, min(WINDOW, end - position) + margin)
        if not raw:
            return
        at = raw.find(needle)
        while at >= 0:
            behind = at + len(needle)
            fits = at == 0 or raw[at - 1] in _BEFORE
            if fits and (behind >= len(raw) or raw[behind] in _BEHIND):
                yield segment.start + position + at
            at = raw.find(needle, at + 1)
        position += WINDOW
