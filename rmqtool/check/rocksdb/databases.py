"""Judge the files of each RocksDB database, and open it: RD-*.

A MANIFEST that is cut off, a filter and a write-ahead log that ends early are nothing that the
library tells; so its files are read here, too.
Source: observed, 5.3.3 and 5.5.0; RocksDB 8.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.budget import FREE_STEPS, OverBudget, ParseBudget
from rmqtool.errors import DamagedDatabase, DecodeError, EngineMissing, Trouble, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_rocksdb import (
    RD_BLOCK,
    RD_BOTH,
    RD_KEY,
    RD_META,
    RD_OPEN,
    RD_ORPHAN,
    RD_VERSION,
    RD_WAL,
)
from rmqtool.formats.rocksdb_databases import DEFAULT, MESSAGE_STORE
from rmqtool.formats.rocksdb_families import reader_of
from rmqtool.formats.rocksdb_queue import queue_end_of
from rmqtool.formats.rocksdb_store import is_index_row
from rmqtool.plural import counted
from rmqtool.store.entry import EntryKind
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_manifest import RocksdbManifest, read_log, read_manifest, writes_in
from rmqtool.store.rocksdb_table import check_table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.rocksdb_row import RocksdbRow
    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb import RocksDb

KEPT_STEPS: Final = 40  # see `budget`; of a row with its values by name
BYTES_A_STEP: Final = 2  # of its key and its value, of which checks keep some copies
STEPS_A_BYTE: Final = 2  # of a database: what a timer message takes there


def _budget(size: int) -> ParseBudget:
    """Give what rows of so many bytes of files may take, as they are kept."""
    return ParseBudget(
        "the rows of small databases, together,", free=FREE_STEPS + STEPS_A_BYTE * size
    )


class Databases:
    """The databases of a store, judged and opened once for all checks.

    Attributes:
        opened: those that can be read, by path.
        rows: rows of known shape, by path, then by family, but for units of queues and entries
            of the key index.
    """

    def __init__(self, inspection: Inspection) -> None:
        self.opened: dict[str, Database] = {}
        self.rows: dict[str, dict[str, list[RocksdbRow]]] = {}
        self._inspection = inspection
        self._damaged: set[str] = set()
        self._budget = _budget(0)

    def check(self, databases: list[RocksDb]) -> Iterator[Finding]:
        """Judge the files of all databases; open those that can be opened, and read their rows.

        Args:
            databases: the databases.
        """
        queues = [database for database in databases if is_queue_database(database.path)]
        self._budget = _budget(
            sum(database.stored for database in databases if database not in queues)
        )
        if len(queues) > 1:
            yield finding(RD_BOTH, At(queues[-1].path))
        for database in databases:
            yield from self._files(database)
            if self._inspection.options.level.reads_log:
                yield from self._open(database)

    def _files(self, rocksdb: RocksDb) -> Iterator[Finding]:
        """Judge the files of one database."""
        entries: dict[str, Entry] = {}
        try:
            entries = {
                entry.name: entry
                for entry in rocksdb.place.entries()
                if entry.kind is EntryKind.FILE
            }
            manifest = yield from self._manifest(rocksdb)
            if manifest is not None:
                yield from self._tables(rocksdb, manifest, entries)
            for name in entries:
                if name.endswith(".log"):
                    yield from self._wal(rocksdb, name, manifest)
        except UnreadablePath as error:
            yield self._inspection.unread(self._inspection.path_of(error.path), error)
        self._inspection.account.bytes += rocksdb.size
        self._inspection.account.files += len(entries)

    def _manifest(self, rocksdb: RocksDb) -> Generator[Finding, None, RocksdbManifest | None]:
        try:
            manifest = read_manifest(rocksdb.place)
        except UnreadablePath as error:
            if error.trouble is not Trouble.NO_FILE:
                raise
            missing = self._inspection.path_of(error.path)
            yield self._damage(rocksdb, finding(RD_OPEN, At(missing), "the file is missing"))
            return None
        if manifest.problem:
            path = f"{rocksdb.path}/{manifest.name or 'CURRENT'}"
            at = At(path, manifest.end)
            yield self._damage(rocksdb, finding(RD_OPEN, at, manifest.problem))
        return manifest if manifest.name else None

    def _tables(
        self, rocksdb: RocksDb, manifest: RocksdbManifest, entries: dict[str, Entry]
    ) -> Iterator[Finding]:
        """Compare table files with the MANIFEST, and check the blocks of each."""
        for table in manifest.tables.values():
            path = f"{rocksdb.path}/{table.name}"
            entry = entries.get(table.name)
            if entry is None:
                message = "the MANIFEST names this table file, and it is missing"
                yield self._damage(rocksdb, finding(RD_OPEN, At(path), message))
            elif entry.size != table.size:
                message = "the table file has not the size that the MANIFEST gives"
                yield self._damage(
                    rocksdb,
                    finding(RD_OPEN, At(path), message, expected=table.size, actual=entry.size),
                )
            elif self._inspection.options.level.reads_log:
                yield from self._blocks(rocksdb, rocksdb.place.child(table.name), path)
        for name in entries if not manifest.problem else ():  # else that is why
            if name.endswith(".sst") and int(name[:-4]) not in manifest.named:
                yield self._orphan(rocksdb, name)

    def _orphan(self, rocksdb: RocksDb, name: str) -> Finding:
        at = At(f"{rocksdb.path}/{name}")
        if check_table(rocksdb.place.child(name)).is_finished:
            return self._damage(rocksdb, finding(RD_ORPHAN, at))
        message = "a table file without a footer, which no edit of the MANIFEST names"
        return finding(RD_ORPHAN, at, message, severity=Severity.WARNING)

    def _blocks(self, rocksdb: RocksDb, place: Place, path: str) -> Iterator[Finding]:
        for problem in check_table(place).problems:
            code = RD_BLOCK if problem.is_data else RD_META
            if problem.is_version:
                code = RD_VERSION
            defect = finding(code, At(path, problem.position, problem.length), problem.what)
            yield defect if code is RD_META else self._damage(rocksdb, defect)

    def _wal(
        self, rocksdb: RocksDb, name: str, manifest: RocksdbManifest | None
    ) -> Iterator[Finding]:
        """Judge a write-ahead log; how many writes can be read is part of the finding."""
        writes = 0

        def count(_: int, batch: bytes) -> None:
            nonlocal writes
            writes += writes_in(batch)

        content = read_log(rocksdb.place.child(name), count)
        if not content.problem:
            return
        number = int(name[:-4])
        if manifest is not None and number < manifest.oldest_log:
            use = "the database does not need this log any more"
        else:
            use = f"{writes} writes before that place can be read"
            if content.later:
                use += f", and {counted(content.later, 'record')} of later blocks"
        message = f"{content.problem}; {use}"
        at = At(f"{rocksdb.path}/{name}", content.end, content.size - content.end)
        yield finding(RD_WAL, at, message)

    def _open(self, rocksdb: RocksDb) -> Iterator[Finding]:
        """Open a database, and read all rows but the units of queues."""
        path = rocksdb.path
        try:
            database = Database(rocksdb.place, path)
        except EngineMissing as error:
            reason = UnreadablePath(path=path, reason=str(error))
            yield self._inspection.unread(path, reason)
            return
        except DamagedDatabase as error:
            yield from self._unread(rocksdb, error)
            return
        self.opened[path] = database
        self.rows[path] = {family: [] for family in database.families}
        for family in database.families:
            if is_queue_database(path) and family == DEFAULT:
                continue
            try:
                yield from self._rows(database, family)
            except DamagedDatabase as error:
                yield from self._unread(rocksdb, error)
            except OverBudget as cost:
                kept = len(self.rows[path][family])
                where = f"family {family}, after {counted(kept, 'row')}: {cost}"
                yield self._damage(rocksdb, finding(RD_OPEN, At(path), where))
                yield from self._unread(rocksdb, DamagedDatabase(path=path, reason=where))

    def _rows(self, database: Database, family: str) -> Iterator[Finding]:
        """Read the rows of a family; keep those of known shape, but for ends of queues and entries.

        Raises:
            DamagedDatabase: not all of them can be read.
            OverBudget: all rows together take too much memory.
        """
        path = database.path
        read = reader_of(path, family)
        is_index = path == MESSAGE_STORE and family == DEFAULT
        is_end = is_queue_database(path)
        for batch in database.rows(family):
            if read is None:
                message = "a column family that RocketMQ does not write has rows"
                yield finding(RD_KEY, At(path), message, actual=family)
                return
            for key, value in batch.items():
                if is_index and is_index_row(key, value):
                    continue  # there may be many, as of ends: who compares them reads them again
                try:
                    if is_end:
                        queue_end_of(key, value)
                        continue
                    row = read(key, value)
                except DecodeError as error:
                    yield self.odd_row(path, family, key, error)
                    continue
                self._keep(path, family, row, len(key) + len(value))

    def _keep(self, path: str, family: str, row: RocksdbRow, count: int) -> None:
        """Keep a row of so many bytes. Raises OverBudget: all of them take too much memory."""
        self._budget.spend(KEPT_STEPS + count // BYTES_A_STEP)
        self.rows[path][family].append(row._replace(key_spans=(), value_spans=()))

    def odd_row(self, path: str, family: str, key: bytes, error: DecodeError) -> Finding:
        """Say that a row has no known shape."""
        message = f"family {family}: {error.field}: {error.reason}"
        return finding(RD_KEY, At(path), message, actual=key.hex())

    def cannot_read(self, path: str, error: DamagedDatabase) -> Iterator[Finding]:
        """Say, unless damage has been told already, that rows cannot be read."""
        if path not in self._damaged:
            self._damaged.add(path)
            yield finding(RD_BLOCK, At(path), f"RocksDB: {error.reason}")
        if not self._inspection.is_known_unread(path):
            self._inspection.account.unread[path] = error

    def _unread(self, rocksdb: RocksDb, error: DamagedDatabase) -> Iterator[Finding]:
        """Say that RocksDB refuses a database, or rows of it."""
        if rocksdb.path not in self._damaged:
            defect = finding(RD_OPEN, At(rocksdb.path), f"RocksDB: {error.reason}")
            yield self._damage(rocksdb, defect)
        if not self._inspection.is_known_unread(rocksdb.path):
            self._inspection.account.unread[rocksdb.path] = error

    def _damage(self, rocksdb: RocksDb, defect: Finding) -> Finding:
        self._damaged.add(rocksdb.path)
        return defect
