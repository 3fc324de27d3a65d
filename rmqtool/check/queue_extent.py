"""How far a queue reaches, from a few units of it.

Units lie gapless from the first file on; the space behind the last one is zero. So the last valid
unit is found by halving, and the first one above the log's start likewise.
Source: ConsumeQueue#recover, #correctMinOffset, BatchConsumeQueue#recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, is_pre_blank

if TYPE_CHECKING:
    from rmqtool.formats.layout import Layout
    from rmqtool.store.segment import MappedFiles, Segment


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """What a queue holds; offsets are queue offsets.

    Attributes:
        min_offset: first unit whose record may still be in the log.
        max_offset: behind the last unit.
        last_physical_offset: of the last unit; -1 for none, or a pre-blank one.
        last_end: the same with its record's size; -1 likewise.
    """

    min_offset: int
    max_offset: int
    last_physical_offset: int
    last_end: int


class _Units(Protocol):
    """A sequence of units that can be halved."""

    def __len__(self) -> int: ...

    def at(self, number: int) -> dict[str, int]:
        """Give one unit."""


class _SegmentUnits:
    """The units of one file; each is read when it is asked for."""

    def __init__(self, segment: Segment, layout: Layout) -> None:
        self._file = segment.open()
        self._layout = layout
        self._count = self._file.size // layout.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def at(self, number: int) -> dict[str, int]:
        raw = self._file.read_at(number * self._layout.size, self._layout.size)
        return self._layout.parse(raw) if len(raw) == self._layout.size else {"size": 0}


def _used(units: _Units) -> int:
    """Count the units before the unused space."""
    return bisect_left(range(len(units)), True, key=lambda number: units.at(number)["size"] <= 0)


def extent(files: MappedFiles, log_start: int) -> QueueExtent:
    """Find the extent of a consume queue.

    Raises:
        UnreadablePath: a file cannot be read.
    """
    for segment in reversed(files.segments):
        with _SegmentUnits(segment, CQ_UNIT) as units:
            count = _used(units)
            if not count and segment is not files.segments[0]:
                continue
            end = segment.start // CQ_UNIT.size + count
            last = units.at(count - 1) if count else {"size": 0, "physical_offset": -1}
        start = last["physical_offset"]
        if not count or is_pre_blank(start, last["size"]):
            return QueueExtent(end, end, -1, -1)
        minimum = end if start < log_start else _minimum(files, log_start)
        return QueueExtent(minimum, end, start, start + last["size"])
    return QueueExtent(0, 0, -1, -1)


def _minimum(files: MappedFiles, log_start: int) -> int:
    """Find the first unit that is neither pre-blank nor below the log's start."""
    for segment in files.segments:
        with _SegmentUnits(segment, CQ_UNIT) as units:
            count = _used(units)
            found = bisect_left(
                range(count), True, key=lambda number: _is_live(units.at(number), log_start)
            )
            if found < count or segment is files.segments[-1]:
                return segment.start // CQ_UNIT.size + found
    return 0


def _is_live(unit: dict[str, int], log_start: int) -> bool:
    if is_pre_blank(unit["physical_offset"], unit["size"]):
        return False
    return unit["physical_offset"] >= log_start


def batch_extent(files: MappedFiles, log_start: int) -> QueueExtent:
    """Find the extent of a batch queue, whose offsets count messages.

    Raises:
        UnreadablePath: a file cannot be read.
    """
    minimum: int | None = None
    last: dict[str, int] | None = None
    for segment in files.segments:
        with _SegmentUnits(segment, BATCH_CQ_UNIT) as units:
            count = _used(units)
            if not count:
                continue
            last = units.at(count - 1)
            if minimum is None and last["physical_offset"] >= log_start:
                first = bisect_left(
                    range(count),
                    log_start,
                    key=lambda number: units.at(number)["physical_offset"],
                )
                minimum = units.at(first)["msg_base_offset"]
    if last is None:
        return QueueExtent(0, 0, -1, -1)
    end = last["msg_base_offset"] + last["batch_size"]
    start = last["physical_offset"]
    return QueueExtent(end if minimum is None else minimum, end, start, start + last["size"])
