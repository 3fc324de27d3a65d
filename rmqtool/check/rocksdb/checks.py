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
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueFacts
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
        yield from self._databases.check(self._found)
        for path, database in self._databases.opened.items():
            if is_queue_database(path):
                self._inspection.queues.database.adopt(database)

    def close(self) -> None:
        """Close what was opened."""
        for database in self._databases.opened.values():
            database.close()

    @property
    def can_read_queues(self) -> bool:
        """Whether a database of queues is open."""
        return any(map(is_queue_database, self._databases.opened))

    @property
    def has_metadata_2(self) -> bool:
        """Whether one with topics, groups and offsets of version 2 is."""
        return metadata.VERSION_2 in self._databases.opened

    def comparer(self, inspection: Inspection, queue_facts: QueueFacts) -> RocksComparer | None:
        """Give what compares runs with the queues; None where none can be read."""
        return rocks_comparer(inspection, self._databases, queue_facts)

    def finish_queues(
        self, inspection: Inspection, facts: LogFacts, comparer: RocksComparer
    ) -> Iterator[Finding]:
        """Judge the queues when the log was read to its end."""
        return finish_rocks(inspection, facts, comparer)

    def after_log(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        """Judge what the records imply beside queues: index, timers, open halves, metadata."""
        wants = inspection.options.wants
        if wants("consumequeue"):
            yield from _second_store(inspection, facts)
        if wants("rocksdb", "index", "timer"):
            yield from entries.check(inspection, self._databases, facts)
        if wants("rocksdb", "config"):
            yield from metadata.check(inspection, self._databases)


def _second_store(inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
    """Find queues in RocksDB gone from a store that is to keep them in files and there.

    A start dispatches no more than it recovers, and sets the others empty. What 5.3 has there
    nobody reads.
    """
    broker_conf, scope = inspection.store.broker_conf, inspection.scope
    is_combined = DOUBLE_WRITE.of(broker_conf) and STORE_TYPE.of(broker_conf) != ROCKSDB_STORE
    if scope.has_rocksdb_queues or not is_combined or facts.last_record < 0:
        return
    is_read = READ_FROM.of(broker_conf) == ROCKSDB_STORE or LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf)
    severity = None if is_read and scope.release.combines_queue_stores else Severity.WARNING
    message = "rocksdbCQDoubleWriteEnable is set, and there is no database of queues"
    yield finding(RQ_PAIR, At("consumequeue"), message, severity=severity)
