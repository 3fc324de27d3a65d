"""All messages of the log as it lies there now, damage and what follows it included.

The broker's own scan ends at the first damage; to say what is lost after it, this one goes on at
the next record that proves its own place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.dispatch import is_queued
from rmqtool.formats import properties
from rmqtool.formats.java import text
from rmqtool.formats.message import MESSAGE_MAGIC_BYTES, MESSAGE_PREFIX, decode
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan.join import run_joined
from rmqtool.startup.load import integer
from rmqtool.startup.walk import PART_BYTES, Walk, are_queued, are_torn, in_doubt, segment_of
from rmqtool.store.parts import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.records import DispatchRequest, RecordCheck
    from rmqtool.store.segment import SegmentPart

    Int64s = NDArray[np.int64]

_MAGIC_POSITION: Final = MESSAGE_PREFIX["magic_code"].position
_SEARCH_BYTES: Final = 1 << 18
_ZERO: Final = b"\0"  # no text ends in it
_COLUMNS: Final = 7  # arrays of a `SegmentCensus`
_TOPICS: Final = 3  # which of them holds numbers of topics


@dataclass(frozen=True, slots=True)
class SegmentCensus:
    """The messages of one commitlog file that are whole and belong in a queue, in order."""

    path: str  # the file
    start: int  # physical offset of its first byte
    positions: Int64s  # int64, shape (n,); of the records, in the file, strictly increasing
    sizes: Int64s  # int64, shape (n,); of the records
    store_timestamps: Int64s  # int64, shape (n,); ms
    topics: Int64s  # int64, shape (n,); numbers into `names`
    queue_ids: Int64s  # int64, shape (n,)
    queue_offsets: Int64s  # int64, shape (n,); as the records state them
    messages: Int64s  # int64, shape (n,); how many each record holds
    names: list[str]  # topics by number

    def without_messages(self) -> SegmentCensus:
        """Give the same file with nothing in it."""
        none = np.empty(0, np.int64)
        return SegmentCensus(self.path, self.start, none, none, none, none, none, none, none, [])


def censuses(
    files: Sequence[ModelFile],
    *,
    check: RecordCheck,
    by_kernels: bool | None = None,
    jobs: int | None = None,
) -> Iterator[SegmentCensus]:
    """Count the messages of files, one after the other.

    Args:
        files: in the order of the log.
        check: says what is a message.
        by_kernels: None decides by the length of each file.
        jobs: threads; None is one for each processor.

    Raises:
        UnreadablePath: a file may not be read.
    """
    walk = Walk(check, by_kernels)
    for is_kernel, some in groupby(files, walk.uses_kernels):
        if is_kernel:
            yield from _by_kernels([*some], check, jobs)
        else:
            yield from map(partial(_plainly, check=check), some)  # threads would wait for it


def _plainly(file: ModelFile, check: RecordCheck) -> SegmentCensus:
    numbers: dict[str, int] = {}
    with file.open() as reader:
        rows = [
            (
                position,
                record.size,
                record.store_timestamp,
                numbers.setdefault(record.topic, len(numbers)),
                record.queue_id,
                record.queue_offset,
                messages_of(record),
            )
            for position, record in whole_records(file, reader, check)
            if is_queued(record.sys_flag) and not is_torn(reader, position, record.size)
        ]
    return census_of(file, np.array(rows, np.int64).reshape(-1, _COLUMNS).T, list(numbers))


class _PartCensus(NamedTuple):
    """The messages of a part of a file."""

    first: int | None  # position of what lies first; None when nothing begins in the part
    end: int  # position after what lies last
    columns: list[bytearray]  # int64 each, as those of a `SegmentCensus`
    names: list[str]  # topics by number


class _CountPart(NamedTuple):
    """Counts by kernels; what they find odd the check judges."""

    files: Mapping[str, ModelFile]  # by path
    check: RecordCheck

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> _PartCensus:
        """Count the messages that begin in a part."""
        from rmqtool.scan import columns as row
        from rmqtool.scan.batch import Extent, ScanOptions
        from rmqtool.scan.message import scan

        file, check = self.files[part.segment.path], self.check
        options = ScanOptions(body_crc=check.checks_body_crc)
        grown = [bytearray() for _ in range(_COLUMNS)]
        names: list[str] = []
        first, end = None, part.begin if start is None else start
        with file.open() as reader:
            for batch in scan(part, options, start=start):
                first = batch.position if first is None else first
                end = batch.end
                if batch.kind is not Extent.RECORD:
                    continue
                columns = batch.columns
                chosen = are_queued(columns[row.SYS_FLAG])
                for number in np.flatnonzero(chosen & in_doubt(check, columns)):
                    position = int(columns[row.POSITION, number])
                    chosen[number] = check.check(reader, position, file.length).record is not None
                chosen &= ~are_torn(batch)
                inner = (columns[row.SYS_FLAG] & SysFlag.INNER_BATCH_FLAG) != 0
                messages = np.where(inner, np.maximum(columns[row.INNER_NUM], 1), 1)
                fields = (
                    *(row.POSITION, row.SIZE, row.STORE_TIMESTAMP),
                    *(row.TOPIC_NUMBER, row.QUEUE_ID, row.QUEUE_OFFSET),
                )
                for column, values in zip(grown, (*columns[[*fields]], messages), strict=True):
                    column.extend(values[chosen].tobytes())
                names += (text(batch.topics[n]) for n in range(len(names), len(batch.topics)))
        return _PartCensus(first, end, grown, names)


def _by_kernels(
    files: Sequence[ModelFile], check: RecordCheck, jobs: int | None
) -> Iterator[SegmentCensus]:
    """Count the messages of files that are read by kernels, part by part."""
    cut = parts(map(segment_of, files), PART_BYTES)
    count = _CountPart({file.path: file for file in files}, check)
    waiting = iter(files)
    joined = run_joined(count, cut, jobs=jobs)
    for path, results in groupby(joined, lambda result: result[0].segment.path):
        for file in waiting:
            if file.path == path:
                yield _of_parts(file, (result for _, result in results))
                break
            yield _of_parts(file, ())
    yield from (_of_parts(file, ()) for file in waiting)


def _of_parts(file: ModelFile, results: Iterable[_PartCensus]) -> SegmentCensus:
    """Join what was counted in the parts of a file."""
    grown = [bytearray() for _ in range(_COLUMNS)]  # of each column: all of it lies there once
    numbers: dict[str, int] = {}
    for part in results:
        of_part = [numbers.setdefault(name, len(numbers)) for name in part.names]
        topics = np.array(of_part, np.int64)[np.frombuffer(part.columns[_TOPICS], np.int64)]
        for which, column in enumerate(grown):
            column.extend(topics.tobytes() if which == _TOPICS else part.columns[which])
    return census_of(file, (np.frombuffer(column, np.int64) for column in grown), [*numbers])


def is_torn(reader: ModelReader, position: int, size: int) -> bool:
    """Tell whether a record ends in a zero, as properties never do: see `are_torn`."""
    if reader.read_at(position + size - 1, 1) != _ZERO:
        return False
    return bool(decode(reader.read_at(position, size)).properties_bytes)


def census_of(file: ModelFile, columns: Iterable[Int64s], names: list[str]) -> SegmentCensus:
    """Give the messages of a file by the seven arrays of a `SegmentCensus`."""
    positions, sizes, store_timestamps, topics, queue_ids, queue_offsets, messages = columns
    return SegmentCensus(
        file.path,
        file.start,
        positions,
        sizes,
        store_timestamps,
        topics,
        queue_ids,
        queue_offsets,
        messages,
        names,
    )


def whole_records(
    file: ModelFile, reader: ModelReader, check: RecordCheck
) -> Iterator[tuple[int, DispatchRequest]]:
    """Yield the whole records of a file: in sequence, and after damage by their own word."""
    position, in_sequence = 0, True
    while True:
        checked = check.check(reader, position, file.length)
        record = checked.record
        if checked.passed and record is None and in_sequence:
            return
        if record is not None and (in_sequence or record.physical_offset == file.start + position):
            yield position, record
            position, in_sequence = position + record.size, True
            continue
        next_magic = _next_magic(reader, position + 1, file.length)
        if next_magic is None:
            return
        position, in_sequence = next_magic, False


def _next_magic(reader: ModelReader, position: int, end: int) -> int | None:
    """Give the next position at which a record may begin."""
    while position + _MAGIC_POSITION < end:
        window = reader.read_at(position, _SEARCH_BYTES)
        places = [
            at for magic in MESSAGE_MAGIC_BYTES if (at := window.find(magic, _MAGIC_POSITION)) >= 0
        ]
        if places:
            return position + min(places) - _MAGIC_POSITION
        if position + len(window) >= end:
            return None
        position += len(window) - _MAGIC_POSITION - len(MESSAGE_MAGIC_BYTES[0]) + 1
    return None


def messages_of(record: DispatchRequest) -> int:
    """Give how many messages a record holds."""
    if not record.sys_flag & SysFlag.INNER_BATCH_FLAG:
        return 1
    return max(integer(record.properties.get(properties.INNER_NUM, "")) or 1, 1)
