"""All that is judged about the RocksDB databases of one store, in the order of a validation.

Loaded only where a store has databases: what it needs takes a tenth of a second to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.conf import (
    DOUBLE_WRITE,
    LIGHT_QUEUES_IN_ROCKSDB,
    READ_FROM,
    ROCKSDB_STORE,
    STORE_TYPE,
)
from rmqtool.check.rocksdb import entries, metadata
from rmqtool.check.rocksdb.databases import Databases
from rmqtool.check.rocksdb.queue_ends import finish_rocks, rocks_comparer
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_rocksdb import RQ_PAIR
from rmqtool.store.rocksdb import is_queue_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.rocksdb.queues import RocksComparer
    from rmqtool.findings.finding import Finding
    from rmqtool.store.rocksdb import RocksDb


class RocksChecks:
    """Judges the databases of a store: their files first, then what is in them."""

    def __init__(self, inspection: Inspection, found: list[RocksDb]) -> None:
        self._inspection, self._found = inspection, found
        self._databases = Databases(inspection)

    def open(self) -> Iterator[Finding]:
        """Judge the files of the databases, and open them for the checks that follow."""
        inspection = self._inspection
        yield from self._databases.check(self._found)
        for path, database in inspection.opened.items():
            if is_queue_database(path):
                inspection.queues.database.adopt(database)
        inspection.compares_rocksdb &= any(map(is_queue_database, inspection.opened))

    def comparer(self) -> RocksComparer | None:
        """Give what compares runs with the queues; None where none can be read."""
        return rocks_comparer(self._inspection, self._databases)

    def finish_queues(self, comparer: RocksComparer) -> Iterator[Finding]:
        """Judge the queues when the log was read to its end."""
        return finish_rocks(self._inspection, comparer)

    def after_log(self) -> Iterator[Finding]:
        """Judge what the records imply beside queues: index, timers, open halves, metadata."""
        wants = self._inspection.options.wants
        if wants("consumequeue"):
            yield from self._second_store()
        if wants("rocksdb", "index", "timer"):
            yield from entries.check(self._inspection, self._databases)
        if wants("rocksdb", "config"):
            yield from metadata.check(self._inspection, self._databases)

    def _second_store(self) -> Iterator[Finding]:
        """Find queues in RocksDB gone from a store that is to keep them in files and there.

        A start dispatches no more than it recovers, and sets the others empty. What 5.3 has there
        nobody reads.
        """
        inspection = self._inspection
        told, log = inspection.store.broker_conf, inspection.log
        is_combined = DOUBLE_WRITE.of(told) and STORE_TYPE.of(told) != ROCKSDB_STORE
        if inspection.has_rocksdb_queues or not is_combined or log is None or log.last_record < 0:
            return
        is_read = READ_FROM.of(told) == ROCKSDB_STORE or LIGHT_QUEUES_IN_ROCKSDB.of(told)
        severity = (
            None if is_read and inspection.release.combines_queue_stores else Severity.WARNING
        )
        message = "rocksdbCQDoubleWriteEnable is set, and there is no database of queues"
        yield finding(RQ_PAIR, At("consumequeue"), message, severity=severity)
