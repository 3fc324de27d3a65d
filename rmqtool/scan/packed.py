"""Read records that were taken out of a segment one by one, without what lies between them.

A queue names each of its records, so those of one topic can be read and the rest be left alone.
They lie one after another in memory then, are walked as a segment is, and get their own places
back.
Nothing is believed: what is not a whole record, of the size that was named, which says of itself
that it lies there, is no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.scan import columns as row
from rmqtool.scan.message import SegmentScanner
from rmqtool.scan.window import Window
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch, ScanOptions
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

    Int64s = npt.NDArray[np.int64]


class RecordPlaces(NamedTuple):
    """Where records lie in a segment, in ascending order: arrays of shape (n,)."""

    positions: Int64s  # of the first byte of each, in the file
    sizes: Int64s  # bytes of each


def scan_packed(
    file: OpenFile, segment: Segment, places: RecordPlaces, options: ScanOptions
) -> Batch | None:
    """Read some records of a plain commitlog.

    Args:
        file: the segment, open.
        segment: the same.
        places: of the records: at most `options.batch_rows`, and as many bytes as memory may hold.
        options: what to read of them.

    Returns:
        The records; None when they are not all there.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    ends = np.cumsum(places.sizes)
    starts = ends - places.sizes
    length, count = int(ends[-1]), ends.size
    window = Window(file, length)
    room = window.bytes.data
    for position, start, end in zip(
        places.positions.tolist(), starts.tolist(), ends.tolist(), strict=True
    ):
        if file.read_into(room[start:end], position) != end - start:
            return None
    window.size = length
    scanner = SegmentScanner(file, SegmentPart(segment, 0, length), options)
    scanner.size = length
    walked, _, _ = scanner.walk(window, 0, length)
    columns = scanner.columns[:, :walked]
    if walked != count or not (columns[row.SIZE] == places.sizes).all():
        return None
    columns[row.POSITION] = places.positions
    columns[row.PHYSICAL_OFFSET] = segment.start + places.positions
    if not (columns[row.PHYSICAL_OFFSET] == columns[row.PHYSICAL_OFFSET_FIELD]).all():
        return None
    return scanner.records(window, 0, count, length)
