"""Judge consume queue extensions as such: CX-*; their addresses are judged with the queues.

Source: ConsumeQueueExt#recover, #put, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.log.filters import configured_filter
from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import At, finding, of_queue
from rmqtool.findings.registry_consume_queue import CX_BITMAP, CX_SIZE
from rmqtool.formats.consume_queue_ext import END_BLANK, EXT_UNIT
from rmqtool.ledger.extensions import read_ext_units
from rmqtool.store.used import CHUNK, has_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment


BITS: Final = 8


def check(inspection: Inspection) -> Iterator[Finding]:
    """Follow the units of each extension file."""
    bit_map_bytes = configured_filter(inspection).bit_count // BITS
    for queue in inspection.family("ext_queues").values():
        files = inspection.files_of(queue)
        for segment in files.segments if files else ():
            try:
                units = _segment(inspection, segment, bit_map_bytes)
                yield from of_queue(units, queue.topic, queue.queue_id)
            except UnreadablePath as error:
                yield inspection.unread(segment.path, error, (queue.topic, queue.queue_id))
    yield from inspection.pending()


def _segment(inspection: Inspection, segment: Segment, bit_map_bytes: int) -> Iterator[Finding]:
    units = read_ext_units(segment)
    count = units.shape[1]
    inspection.account.units += count
    inspection.account.files += 1
    inspection.account.bytes += segment.size
    other = np.flatnonzero((units[3] != 0) & (units[3] != bit_map_bytes))
    if other.size:
        first = units[:, other[0]]
        yield finding(
            CX_BITMAP,
            At(segment.path, int(first[0]) - segment.start, EXT_UNIT.size + int(first[3])),
            f"{other.size:,} bit maps have another length than the configured filter",
            expected=f"{bit_map_bytes:,} bytes",
            actual=f"{int(first[3]):,} bytes",
        )
    yield from _judge_end(segment, _end_of(segment, units))


def is_whole(segment: Segment) -> bool:
    """Tell whether the units of a file lead to its end mark, or to unused space.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    return not any(_judge_end(segment, _end_of(segment, read_ext_units(segment))))


def _end_of(segment: Segment, units: npt.NDArray[np.int64]) -> int:
    if not units.shape[1]:
        return 0
    return int(units[0, -1] + EXT_UNIT.size + units[3, -1]) - segment.start


def _judge_end(segment: Segment, position: int) -> Iterator[Finding]:
    """Judge what lies after the last unit: the end mark, or unused space."""
    with segment.open() as file:
        raw = file.read_at(position, EXT_UNIT.size)
        size = EXT_UNIT["size"].of(raw)
        if len(raw) < EXT_UNIT.size and not any(raw):
            return
        if size in {END_BLANK, 0}:
            start = position + EXT_UNIT["size"].end
            while (data_at := file.next_data(start)) is not None and data_at < file.size:
                rest = file.read_at(data_at, CHUNK)
                if not rest or has_data(rest):
                    break
                start = data_at + len(rest)
            else:
                return
            if size == END_BLANK or data_at is None:
                return  # what lies past the end mark is never read
    bit_map = EXT_UNIT["bit_map_size"].of(raw)
    yield finding(
        CX_SIZE,
        At(segment.path, position, EXT_UNIT.size),
        expected=f"20 + {bit_map:,} bytes, or the end mark",
        actual=f"{size:,} bytes",
    )
