"""Where the used part of a file ends that was made ahead of need, found with a few reads.

Files of queues and of the timer log are made with their full length: the first zeros that nothing
follows end them. A sparse file tells where its data ends; a copy that lost its holes is bisected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import BLANK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

BLOCK: Final = 4096  # 204 queue units; also the page in which a sparse file keeps its data
_EXTENTS: Final = 64  # of a sparse file that are followed; a queue file has one
CHUNK: Final = 1 << 20
_ZERO_CHUNK: Final = bytes(CHUNK)
_ZEROS: Final = tuple(bytes(BLOCK >> shift) for shift in range(1, 8))


def used_bytes(file: OpenFile, unit_size: int) -> int:
    """Give where the zeros at the end of a file begin, rounded up to whole units.

    A run of zeros before data is bisected wrongly where it is longer than what follows it; a sparse
    file tells where its data ends, so this concerns copies that lost their holes.
    """
    end, _, _ = last_used(file, unit_size)
    return end


def last_used(file: OpenFile, unit_size: int) -> tuple[int, int, bytes]:
    """Give the same, the last block with data, and what it holds before the zeros."""
    bound = _end_of_data(file)
    block = max(bound - BLOCK, 0)
    raw = without_zeros(file.read_at(block, BLOCK))
    if not raw and block:
        block = _last_used_block(file, block)
        raw = without_zeros(file.read_at(block, BLOCK))
    used = -(-(block + len(raw)) // unit_size) * unit_size if raw else 0
    return min(used, file.size // unit_size * unit_size), block, raw


def without_zeros(raw: bytes) -> bytes:
    """Cut zeros off, many at a time."""
    for zeros in _ZEROS:
        raw = raw.removesuffix(zeros)
    return raw.rstrip(b"\0")


def lone_extent(file: OpenFile) -> tuple[int, int] | None:
    """Give where the only data of a sparse file begin and end; None where there are more."""
    begin = file.next_data(0)
    if begin is None:
        return 0, 0
    end = file.next_hole(begin)
    return None if end < file.size and file.next_data(end) is not None else (begin, end)


def _end_of_data(file: OpenFile) -> int:
    """Give where the last hole of a sparse file begins; its size where it has none."""
    hole = file.next_hole(0)
    for _ in range(_EXTENTS):
        data = file.next_data(hole) if hole < file.size else None
        if data is None:
            return hole
        hole = file.next_hole(data)
    return file.size


def _last_used_block(file: OpenFile, end: int) -> int:
    """Bisect for the last block that is not zeros; 0 where none is."""
    low, high = 0, -(-end // BLOCK)
    while high - low > 1:
        middle = (low + high) // 2
        if any(file.read_at(middle * BLOCK, BLOCK)):
            low = middle
        else:
            high = middle
    return low * BLOCK


def has_data(raw: bytes) -> bool:
    """Tell whether any byte is not zero; `any` looks at each byte as a Python object."""
    if len(raw) <= CHUNK:
        return raw != _ZERO_CHUNK[: len(raw)]
    return any(
        raw[start : start + CHUNK] != _ZERO_CHUNK for start in range(0, len(raw) - CHUNK, CHUNK)
    ) or (raw[-CHUNK:] != _ZERO_CHUNK)


def data_stretches(
    file: OpenFile, position: int, end: int | None = None, chunk: int = CHUNK
) -> Iterator[tuple[int, bytes]]:
    """Yield what a file holds from a position on, each with where it begins; holes are not read.

    What is zeros alone is left out.

    Args:
        file: to be read.
        position: of the first byte that is looked at.
        end: after the last one; None is the end of the file.
        chunk: bytes that are read at once.

    Raises:
        UnreadablePath: the file may not be read.
    """
    end = file.size if end is None else end
    while (start := file.next_data(position)) is not None and start < end:
        raw = file.read_at(start, min(chunk, end - start, file.next_hole(start) - start))
        if not raw:
            return
        if has_data(raw):
            yield start, raw
        position = start + len(raw)


def last_used_start(segments: Sequence[Segment]) -> int:
    """Give the start of the last segment that begins with anything but zeros."""
    for segment in reversed(segments):
        try:
            if any(segment.place.read(BLANK.size)):
                return segment.start
        except UnreadablePath:
            return segment.start
    return segments[0].start if segments else 0


def marked_followed(segments: Sequence[Segment]) -> list[Segment]:
    """Tell each file of a log whether one after it holds anything: then it ends in a blank."""
    last = last_used_start(segments)
    return [segment._replace(is_followed=segment.start < last) for segment in segments]
