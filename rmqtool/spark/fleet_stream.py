"""Follow the logs of many stores as one stream, stores that come later among them.

The place of the stream is the place of each store, see `stream`. Patterns and files of stores are
looked at anew for each batch. A store that was not there before is read from the beginning of its
log; one that is gone stops the stream, or keeps its place, as `failOnDataLoss` says.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from rmqtool.errors import NotAStore, StoreError
from rmqtool.reads.batches import labelled
from rmqtool.reads.options import TableName
from rmqtool.reads.stream_place import PLACE
from rmqtool.reads.tables import SCHEMAS
from rmqtool.spark.stream import RocketMQStreamReader
from rmqtool.store.address import place_of
from rmqtool.store.entry import printable
from rmqtool.store.fleet import broker_of, fleet_of
from rmqtool.tables.fleet import FLEET, beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from rmqtool.reads.options import SourceOptions
    from rmqtool.store.fleet import FleetStore

STORES: Final = "stores"  # places, by the path of the store
BEGIN: Final = "begin"  # physical offset at which a store begins that was not there before
_OWN: Final = frozenset(column.name for column in FLEET)


@dataclass(frozen=True, slots=True)
class FollowedPart:
    """What one task reads of one store. Picklable."""

    path: str  # opens the store
    shown: str  # the path as rows have it
    broker: str | None  # its name; None where it is not known
    part: InputPartition  # of the stream of that store


class FleetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives what logs have got since the batch before. Picklable."""

    def __init__(
        self, options: SourceOptions, names: tuple[str, ...], labels: tuple[str, ...]
    ) -> None:
        """Prepare.

        Args:
            options: of the read.
            names: columns, in order.
            labels: how the query writes them.

        Raises:
            UsageError: the table is no log, or limits of offset were given.
        """
        self.options, self.names, self.labels = options, names, labels
        own = tuple(name for name in names if name not in _OWN)
        self.own_names = own or (SCHEMAS[TableName.MESSAGES].names[0],)
        self.targets: dict[str, RocketMQStreamReader] | None = None
        self._reader("")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Give where each store begins that is there."""
        readers = self._readers().items()
        return {STORES: {path: reader.initialOffset() for path, reader in readers}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Give how far the next batch goes in each store: where a record ends.

        Raises:
            StreamLoss: a log does not have what the stream has read, or was to read.
            StoreError: a store that the stream has read is gone, and that is to stop it.
        """
        before = start[STORES]
        readers = self.targets if self.targets is not None else self._readers()
        if self.options.fail_on_data_loss:
            for path in before.keys() - readers.keys():
                reason = "the stream has read this store, and it is gone"
                raise NotAStore(path=path, reason=reason)
        share = -(-self.options.max_bytes // max(len(readers), 1))
        places = dict(before)
        for path, reader in readers.items():
            known = before.get(path)
            begin = {PLACE: reader.store().commitlog.start} if known is None else known
            reader.options = replace(reader.options, max_bytes=share)
            end = reader.latestOffset(begin, limit)
            if known is None:
                end = {**end, BEGIN: begin[PLACE]}
            places[path] = end
        return {STORES: places}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Give the limit of one batch."""
        return self._reader("").getDefaultReadLimit()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        """Give where the logs end now, for who looks at the progress of the query."""
        ends = {path: reader.reportLatestOffset() for path, reader in self._readers().items()}
        return {STORES: {path: end for path, end in ends.items() if end is not None}}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Take note of which stores there are, and where their logs end now."""
        self.targets = self._readers()
        for reader in self.targets.values():
            reader.prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Cut a batch into tasks, store by store.

        Raises:
            StreamLoss: a log has changed since the end of the batch was planned.
        """
        parts = []
        named = {store.path: store for store in self._stores()}
        for path, last in end[STORES].items():
            first = start[STORES].get(path) or {PLACE: last.get(BEGIN, 0)}
            if first == last:
                continue
            store = named.get(path)
            shown = printable(store.name if store else path)
            broker = (store and store.broker) or broker_of(place_of(path))
            parts += [
                InputPartition(FollowedPart(path, shown, broker, part))
                for part in self._reader(path).partitions(first, last)
            ]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task on an executor.

        Raises:
            UnreadablePath: a file is gone or may not be read, and that is to stop the stream.
        """
        part = partition.value
        if part is not None:  # Spark's stand-in for nothing to read
            rows = self._reader(part.path).read(part.part)
            all_rows = (beside(part.shown, part.broker, batch, self.names) for batch in rows)
            yield from labelled(all_rows, self.labels)

    def _stores(self) -> tuple[FleetStore, ...]:
        return fleet_of(self.options.paths, self.options.stores_file).stores

    def _reader(self, path: str) -> RocketMQStreamReader:
        own = replace(self.options, path=path, paths=(), stores_file=None)
        return RocketMQStreamReader(own, self.own_names)

    def _readers(self) -> dict[str, RocketMQStreamReader]:
        """Give the streams of the stores that there are, by path; without a log there is none."""
        readers = {}
        for store in self._stores():
            reader = self._reader(store.path)
            with suppress(StoreError):
                if reader.store().commitlog:
                    readers[store.path] = reader
        return readers
