"""Follow a growing log: rows of `messages` as a stream, by physical offset.

A stream's place is the physical offset behind the last record that it gave, which Spark keeps in
its checkpoint. Records are never moved, so a stream that is started again goes on at exactly that
byte; a place is always where a record ends, so no head has to be walked to find it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from rmqtool.errors import DecodeError, UsageError
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.formats.java import crc31
from rmqtool.formats.message import decode
from rmqtool.ranges import size
from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan
from rmqtool.spark.options import SourceOptions, TableName
from rmqtool.spark.plan import LogTask
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tail import find_tail
from rmqtool.tables.inputs import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from rmqtool.store.segment import MappedFiles
    from rmqtool.store.tail import Tail
    from rmqtool.store.tree import Store

PLACE: Final = "physical_offset"
LARGEST_CHECKED: Final = 64 << 20  # bytes of a last record whose checksum is looked at


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives what a log has got since the batch before. Picklable."""

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        """Prepare.

        Args:
            options: of the read.
            names: columns, in order.

        Raises:
            UsageError: the table is no log, or limits of time or offset were given.
        """
        if options.table is not TableName.MESSAGES:
            raise UsageError(option="table", reason="only messages can be followed as a stream")
        if options.selection.offsets != (None, None):
            raise UsageError(
                option="offsets", reason="a stream has none; start says where it begins"
            )
        self.options, self.names = options, names
        self.target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Give where a stream without a checkpoint begins."""
        store = self._store()
        word = self.options.start
        if word == "latest":
            return {PLACE: end_of(store)}
        first = store.commitlog.start
        return {PLACE: first if word == "earliest" else border(store, size("start", word))}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Give how far the next batch goes: where a record ends."""
        store = self._store()
        end = max(end_of(store), start[PLACE])
        if self.target is not None:
            end = min(end, max(self.target, start[PLACE]))
        most = self.options.max_bytes
        if most and not isinstance(limit, ReadAllAvailable) and end - start[PLACE] > most:
            end = min(end, border(store, start[PLACE] + most, start[PLACE]))
        return {PLACE: end}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Give the limit of one batch."""
        from pyspark.sql.streaming.datasource import ReadMaxBytes

        most = self.options.max_bytes
        return ReadMaxBytes(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Take note of where the log ends now."""
        self.target = end_of(self._store())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Cut a batch into tasks, one a segment."""
        store, first, last = self._store(), start[PLACE], end[PLACE]
        found = []
        for segment in store.commitlog:
            begin, stop = max(first - segment.start, 0), min(last - segment.start, segment.size)
            if begin < stop:
                part = SegmentPart(segment, begin, stop)
                found.append(InputPartition(LogTask(part, store.is_dledger, begin)))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task on an executor."""
        from rmqtool.spark.readers import batches

        if partition.value is not None:
            yield from batches(partition.value, self.options, self.names)

    def _store(self) -> Store:
        """Open the store again: segments come and go."""
        return store_of(self.options.path, self.options.broker_conf, None)


def end_of(store: Store) -> int:
    """Give the physical offset behind the last record that is complete.

    A running broker may be in the middle of writing the last one: while its checksum is wrong, or
    its end is zero, it is left for the next batch. With a record behind it, it is a row.
    """
    log = store.commitlog
    with LogReader(log) as reader:
        tail = find_tail(log, reader, is_dledger=store.is_dledger)
        if tail.last is None or is_complete(tail, reader):
            return tail.physical_offset
    return tail.last.physical_offset - (DLEDGER_BODY_OFFSET if store.is_dledger else 0)


def is_complete(tail: Tail, reader: LogReader) -> bool:
    """Whether the last record is written to its end, or something lies behind it."""
    last = tail.last
    if last is None or last.size > LARGEST_CHECKED:
        return True
    if tail.physical_offset > last.physical_offset + last.size:
        return True  # a blank: the broker has gone on to the next file
    raw = reader.read_at(last.physical_offset, last.size)
    try:
        message = decode(raw)
    except DecodeError:
        return False
    if message.properties_bytes.endswith(b"\0"):
        return False  # properties are text: what is not written yet is zero
    return not message.body or crc31(message.body) == message.body_crc


def border(store: Store, wanted: int, known: int | None = None) -> int:
    """Give the first physical offset at or behind a wanted one where a record begins.

    Args:
        store: whose log.
        wanted: physical offset.
        known: one in front of it where a record begins.
    """
    log: MappedFiles = store.commitlog
    segment = log.at(wanted)
    if segment is None:
        return log.start if wanted < log.start else max(wanted, log.end)
    begin = max((known or 0) - segment.start, 0)
    part = SegmentPart(segment, begin, wanted - segment.start)
    return segment.start + walked_end(part, store)


def walked_end(part: SegmentPart, store: Store) -> int:
    """Give the position at or behind the end of a part where an extent ends."""
    options = ScanOptions(body_crc=False, texts=False, is_dledger=store.is_dledger)
    cursor = part.begin
    for batch in scan(part, options, start=part.begin):
        cursor = batch.end
    return cursor
