"""Follow a growing log: rows of `messages` as a stream, by physical offset.

A stream's place is the physical offset past the last record that it gave, which Spark keeps in its
checkpoint with what that record was, see `stream_place`. Records are never moved, so a stream that
is started again goes on at exactly that byte; a place is always where a record ends, so no head has
to be walked to find it again.

Where the log no longer has what was read, or begins past it, the stream stops; or it goes on with a
row that says what is missing, as `failOnDataLoss` says. What was found is part of the place at the
end of the batch: a batch that Spark runs again has the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from rmqtool.errors import StoreError, UnreadablePath, UsageError
from rmqtool.findings.registry_layout import FS_GAP
from rmqtool.ranges import size
from rmqtool.reads.batches import labelled
from rmqtool.reads.log_end import End, border, end_of
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.plan import packs
from rmqtool.reads.stream_place import LogLoss, LossKind, StreamLoss, StreamPlace, loss_of, place_at
from rmqtool.reads.tasks import LogTask
from rmqtool.store.moment import GONE
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.inputs import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from rmqtool.store.tree import Store


@dataclass(frozen=True, slots=True)
class LossTask:
    """Nothing to read, but a row that says what is missing. Picklable."""

    loss: LogLoss  # what is


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives what a log has got since the batch before. Picklable."""

    def __init__(
        self, options: SourceOptions, names: tuple[str, ...], labels: tuple[str, ...] = ()
    ) -> None:
        """Prepare.

        Args:
            options: of the read.
            names: columns, in order.
            labels: how the query writes them; nothing where it writes them so.

        Raises:
            UsageError: the table is no log, or limits of time or offset were given.
        """
        if options.table is not TableName.MESSAGES:
            raise UsageError(option="table", reason="only messages can be followed as a stream")
        if options.selection.offsets != (None, None):
            raise UsageError(
                option="offsets", reason="a stream has none; start says where it begins"
            )
        self.options, self.names, self.labels = options, names, labels or names
        self.target: End | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Give where a stream without a checkpoint begins."""
        store = self.store()
        word = self.options.start
        if word == "earliest":
            return StreamPlace(store.commitlog.start).given()
        end = end_of(store) if word == "latest" else border(store, size("start", word))
        with LogReader(store.commitlog) as reader:
            start = StreamPlace(store.commitlog.start)
            return place_at(store.commitlog, reader, *end, start, end.physical_offset).given()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Give how far the next batch goes: where a record ends.

        Raises:
            StreamLoss: the log does not have what the stream has read, or was to read.
        """
        store, place = self.store(), StreamPlace.of(start)
        log = store.commitlog
        if not log:
            if place.physical_offset and self.options.fail_on_data_loss:
                raise StreamLoss(path=self.options.path, place=place.physical_offset, loss=None)
            return start
        end = end_of(store)
        with LogReader(log) as reader:
            loss = self._loss(store, place, reader, end)
            begin = place.physical_offset if loss is None else loss.resume
            if self.target is not None and self.target.physical_offset < end.physical_offset:
                end = self.target
            most = self.options.max_bytes
            is_all = not most or isinstance(limit, ReadAllAvailable)
            if not is_all and end.physical_offset - begin > most:
                near = border(store, begin + most, begin)
                end = near if near.physical_offset < end.physical_offset else end
            if end.physical_offset < begin:
                end = End(begin, None)
            if loss is None and end.physical_offset == begin:
                return start
            return replace(place_at(log, reader, *end, place, begin), loss=loss).given()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Give the limit of one batch."""
        from pyspark.sql.streaming.datasource import ReadMaxBytes

        most = self.options.max_bytes
        return ReadMaxBytes(most) if most else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        """Give where the log ends now, for who looks at the progress of the query."""
        try:
            return StreamPlace(end_of(self.store()).physical_offset).given()
        except StoreError:
            return None  # the next batch says why

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Take note of where the log ends now."""
        self.target = end_of(self.store())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Cut a batch into tasks, one a segment, and one a loss.

        Raises:
            StreamLoss: the log has changed since the end of the batch was planned.
        """
        if start == end:
            return []
        store, place, last = self.store(), StreamPlace.of(start), StreamPlace.of(end)
        log, losses = store.commitlog, [last.loss] if last.loss else []
        begin = last.loss.resume if last.loss else place.physical_offset
        with LogReader(log) as reader:
            if not last.loss:
                self._loss(store, place, reader, None)
            self._loss(store, last, reader, None)
        if log and begin < log.start:  # expired since the batch was planned
            gone = min(log.start, last.physical_offset)
            losses.append(LogLoss(LossKind.EXPIRED, begin, gone, gone))
            begin = gone
        tasks = []
        for segment in log:
            left = max(begin - segment.start, 0)
            right = min(last.physical_offset - segment.start, segment.size)
            if left < right:
                part = SegmentPart(segment, left, right)
                tasks.append(LogTask(part, left))
        lost = [InputPartition(LossTask(loss)) for loss in losses]
        return [*lost, *(InputPartition(pack) for pack in packs(tasks, self.options))]

    def _loss(
        self, store: Store, place: StreamPlace, reader: LogReader, end: End | None
    ) -> LogLoss | None:
        """Look for what a log no longer has.

        Raises:
            StreamLoss: there is something, and the stream was not told to go on.
        """
        log = store.commitlog
        if not log:
            loss = None
        else:
            log_end = (end or end_of(store)).physical_offset
            loss = loss_of(place, log, reader, log_end=log_end)
        if (loss or not log) and self.options.fail_on_data_loss:
            raise StreamLoss(path=self.options.path, place=place.physical_offset, loss=loss)
        return loss

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task on an executor.

        Raises:
            UnreadablePath: a file is gone or may not be read, and the stream was not told to go on.
        """
        return labelled(self._read(partition), self.labels)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from rmqtool.reads.readers import batches, stretch_row

        task = partition.value
        if isinstance(task, LossTask):
            loss = task.loss
            yield stretch_row(loss.begin, loss.end - loss.begin, str(loss.code), self.names)
            return
        for log_task in task or ():  # None is Spark's stand-in for nothing to read
            part = log_task.part
            try:
                part.segment.open().close()
            except UnreadablePath as error:
                if self.options.fail_on_data_loss:
                    raise
                if error.trouble in GONE:  # since the batch was planned
                    begin = part.segment.start + part.begin
                    yield stretch_row(begin, part.length, str(FS_GAP), self.names)
                    continue
            yield from batches(log_task, self.options, self.names)

    def store(self) -> Store:
        """Open the store again: segments come and go."""
        return store_of(self.options.path, self.options.broker_conf, None)
