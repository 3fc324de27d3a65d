"""Find where the records of a split begin: one answer, whatever the splits are.

A split in the middle of a segment begins where an extent of the split before ends. Its first
record that says of itself that it lies there is nearly always that place; a blank record may cover
old ones, though, and a body may hold copies. So the heads of the records before it are walked, at
several GB/s, and a worker remembers how far it has come in a segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from rmqtool.store.segment import Segment

REMEMBERED: Final = 64  # segments
_known: OrderedDict[tuple[Segment, bool], list[int]] = OrderedDict()


def true_start(part: SegmentPart, *, is_dledger: bool) -> int:
    """Give the position of the first extent that begins in a part, or lies after it.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    borders = _borders(part.segment, is_dledger=is_dledger)
    cursor = borders[bisect_right(borders, part.begin) - 1]
    if cursor >= part.begin:
        return cursor
    options = ScanOptions(body_crc=False, texts=False, is_dledger=is_dledger)
    for batch in scan(SegmentPart(part.segment, cursor, part.begin), options, start=cursor):
        cursor = batch.end
    remember(part.segment, cursor, is_dledger=is_dledger)
    return max(cursor, part.begin)


def remember(segment: Segment, cursor: int, *, is_dledger: bool) -> None:
    """Take note of a place where an extent ends, for the next split of the segment."""
    borders = _borders(segment, is_dledger=is_dledger)
    place = bisect_right(borders, cursor)
    if borders[place - 1] != cursor:
        borders.insert(place, cursor)


def _borders(segment: Segment, *, is_dledger: bool) -> list[int]:
    key = (segment, is_dledger)  # with its size and its mtime: a file that changed is another one
    if key not in _known:
        while len(_known) >= REMEMBERED:
            _known.popitem(last=False)
        _known[key] = [0]
    _known.move_to_end(key)
    return _known[key]
