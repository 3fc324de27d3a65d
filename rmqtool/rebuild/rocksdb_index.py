"""The key index in `rocksdbstore`, written anew from the log; timers and open halves are kept.

One database holds all three, so the new one takes the rows of the other two from the old one. They
cannot be told from the log alone: how far the timer has delivered stands nowhere else.
Source: MessageRocksDBStorage, IndexRocksDBStore, 5.4.0 and 5.5.0; observed, 5.5.0.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from rmqtool.broker import conf
from rmqtool.check.rocksdb.entries import INDEXED, hashes, index_entries, only_in
from rmqtool.errors import DamagedDatabase, EngineMissing, Trouble, UnreadablePath
from rmqtool.formats.rocksdb_databases import DATABASES, DEFAULT, MESSAGE_STORE
from rmqtool.formats.rocksdb_store import INDEX_OFFSET, LAST_OFFSET, LAST_TIME, NUMBER
from rmqtool.plural import counted
from rmqtool.store.rocksdb_database import Database
from rmqtool.writing.rocksdb import DatabaseWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.release import Version
    from rmqtool.rebuild.comparing import ComparingSink
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.rebuild.sinks import WritingSink
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store

    Pair = tuple[bytes, bytes]

BESIDE: Final = tuple(name for name in DATABASES[MESSAGE_STORE].families if name != DEFAULT)
MARKS: Final = (LAST_OFFSET, LAST_TIME)


def is_in_rocksdb(store: Store, version: Version | None = None) -> bool:
    """Tell whether a broker writes the key index of a store into RocksDB.

    Its configuration says so; without one, that it was done before.

    Args:
        store: whose configuration and database tell.
        version: of the broker; None for one that knows the key.
    """
    if store.broker_conf is not None:
        return conf.INDEX_IN_ROCKSDB.of(store.broker_conf, version)
    holder = _database(store)
    if holder is None or holder.is_empty:
        return False
    with suppress(UnreadablePath, EngineMissing), Database(holder.place, holder.path) as database:
        return database.get(DEFAULT, LAST_OFFSET) is not None
    return False


class LogEntries:
    """The rows that the log implies, and how far they reach."""

    def __init__(self, store: Store, result: RebuildResult) -> None:
        self._store, self._result = store, result

    def __iter__(self) -> Iterator[Pair]:
        from rmqtool.tables.log_records import log_records  # few have their keys in RocksDB

        count, offset, time = 0, -1, -1
        for record in log_records(self._store, INDEXED, lambda *_: None):  # the other pass told
            entries = list(index_entries(record))
            if entries:
                offset = record["physical_offset"]
                time = max(time, record["store_timestamp"])
                count += len(entries)
            yield from entries
        self._result.rocksdb_entries = count
        if count:
            yield LAST_OFFSET, NUMBER["number"].build(offset)
            yield LAST_TIME, NUMBER["number"].build(time)


def count_index(store: Store, result: RebuildResult) -> None:
    """Count the entries that would be written."""
    for _ in LogEntries(store, result):
        pass


def write_index(store: Store, files: WritingSink, result: RebuildResult) -> None:
    """Write the database anew.

    Raises:
        UnreadablePath: timers or open halves of the old one cannot be read, and would be lost.
        WriteFailed: the system refused.
    """
    with (
        _OtherFamilies(store) as kept,
        DatabaseWriter(files.tree(MESSAGE_STORE), (DEFAULT, *kept.families)) as writer,
    ):
        for family in kept.families:
            writer.put(family, kept.rows(family))
        writer.put(DEFAULT, LogEntries(store, result))
        writer.finish()


def compare_index(store: Store, sink: ComparingSink, result: RebuildResult) -> None:
    """Compare the entries that the log implies with those that are there.

    Of each row a hash is kept; which one differs is found in a second look.

    Raises:
        UnreadablePath: the database cannot be read.
    """
    entries = LogEntries(store, result)
    wanted = hashes(entries)
    holder = _database(store)
    if holder is None:
        sink.differ(MESSAGE_STORE, counted(len(wanted), "row"), "no database")
        return
    with Database(holder.place, holder.path) as database:
        alive = _Alive(database, store.commitlog.start)
        there = hashes(alive)
        missing, strange = only_in(wanted, there), only_in(there, wanted)
        absent = {pair[0]: pair[1] for pair in entries if hash(pair) in missing} if missing else {}
        for key, value in alive if strange else ():
            if hash((key, value)) in strange:
                sink.differ(
                    f"{MESSAGE_STORE}: {key.hex()}", absent.pop(key, b"").hex(), value.hex()
                )
    for key, value in absent.items():
        sink.differ(f"{MESSAGE_STORE}: {key.hex()}", value.hex(), "")


class _Alive:
    """The rows of an index but for entries of expired records."""

    def __init__(self, database: Database, start: int) -> None:
        self._database, self._start = database, start

    def __iter__(self) -> Iterator[Pair]:
        place = INDEX_OFFSET["physical_offset"]
        for batch in self._database.rows(DEFAULT):
            for key, value in batch.items():
                if key in MARKS or place.of(key, len(key) - place.size) >= self._start:
                    yield key, value


def _database(store: Store) -> RocksDb | None:
    return next((database for database in store.rocksdb() if database.path == MESSAGE_STORE), None)


class _OtherFamilies:
    """The rows of the other families of the old database, read again as the new one is written.

    Args:
        store: whose database it is; it may have none.
    """

    def __init__(self, store: Store) -> None:
        """Open the old database. Raises UnreadablePath: it cannot be."""
        database = _database(store)
        self._database: Database | None = None
        if database is not None:
            with _rows_would_be_lost(database.path):
                self._database = Database(database.place, database.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families, with those that a broker makes."""
        there = self._database.families if self._database is not None else ()
        return tuple(dict.fromkeys((*BESIDE, *(family for family in there if family != DEFAULT))))

    def rows(self, family: str) -> Iterator[Pair]:
        """Yield the rows of a family. Raises UnreadablePath: not all of them can be read."""
        if self._database is None:
            return
        with _rows_would_be_lost(self._database.path):
            for batch in self._database.rows(family):
                for value in batch.long_values.values():
                    raise DamagedDatabase(path=self._database.path, reason=value.reason)
                yield from batch.items()


@contextmanager
def _rows_would_be_lost(path: str) -> Iterator[None]:
    try:
        yield
    except UnreadablePath as error:
        reason = f"timers and open transactions of it would be lost: {error.reason}"
        raise UnreadablePath(path=path, reason=reason, trouble=Trouble.EXPLAINED) from error
