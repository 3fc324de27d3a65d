"""The key index in `rocksdbstore`, written anew from the log; timers and open halves are kept.

One database holds all three, so the new one takes the rows of the other two from the old one. They
cannot be told from the log alone: how far the timer has delivered stands nowhere else.
Source: MessageRocksDBStorage, IndexRocksDBStore, 5.4.0 and 5.5.0; observed, 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.broker import conf
from rmqtool.check.rocksdb.index_entries import INDEXED, index_entries, log_records
from rmqtool.errors import EngineMissing, Trouble, UnreadablePath
from rmqtool.formats.rocksdb_families import DEFAULT, FAMILIES
from rmqtool.formats.rocksdb_store import INDEX_OFFSET, LAST_OFFSET, LAST_TIME, NUMBER
from rmqtool.store.rocksdb_database import Database
from rmqtool.writing.rocksdb import DatabaseWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rebuild.comparing import ComparingSink
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.rebuild.sinks import WritingSink
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store

    Pair = tuple[bytes, bytes]

PATH: Final = "rocksdbstore"
BESIDE: Final = tuple(name for name in FAMILIES[PATH] if name != DEFAULT)
MARKS: Final = (LAST_OFFSET, LAST_TIME)


def is_in_rocksdb(store: Store) -> bool:
    """Tell whether a broker writes the key index of a store into RocksDB.

    Its configuration says so; without one, that it was done before.
    """
    if store.broker_conf is not None:
        return conf.INDEX_IN_ROCKSDB.of(store.broker_conf)
    found = _database(store)
    if found is None or found.is_empty:
        return False
    with suppress(UnreadablePath, EngineMissing), Database(found.place, found.path) as database:
        return database.get(DEFAULT, LAST_OFFSET) is not None
    return False


class LogEntries:
    """The entries that the log implies, and how far they reach."""

    def __init__(self, store: Store, result: RebuildResult) -> None:
        self._store, self._result = store, result
        self._offset = self._time = -1

    def __iter__(self) -> Iterator[Pair]:
        for record in log_records(self._store, INDEXED, lambda *_: None):  # the other pass told
            entries = list(index_entries(record))
            if entries:
                self._offset = record["physical_offset"]
                self._time = max(self._time, record["store_timestamp"])
                self._result.rocksdb_entries += len(entries)
            yield from entries

    def marks(self) -> list[Pair]:
        """Give how far the index reaches, once all entries were taken; nothing without any."""
        if self._offset < 0:
            return []
        number = NUMBER["number"]
        return [(LAST_OFFSET, number.build(self._offset)), (LAST_TIME, number.build(self._time))]


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
    kept = _beside(store)
    writer = DatabaseWriter(files.tree(PATH), (DEFAULT, *kept))
    entries = LogEntries(store, result)
    writer.put(DEFAULT, entries)
    writer.put(DEFAULT, entries.marks())
    for family, rows in kept.items():
        writer.put(family, rows)
    writer.finish()


def compare_index(store: Store, sink: ComparingSink, result: RebuildResult) -> None:
    """Compare the entries that the log implies with those that are there.

    Raises:
        UnreadablePath: the database cannot be read.
    """
    entries = LogEntries(store, result)
    wanted = dict(entries) | dict(entries.marks())
    found = _database(store)
    if found is None:
        sink.differ(PATH, f"{len(wanted)} rows", "no database")
        return
    place, start = INDEX_OFFSET["physical_offset"], store.commitlog.start
    with Database(found.place, found.path) as database:
        for batch in database.rows(DEFAULT):
            for key, value in batch.items():
                expected = wanted.pop(key, None)
                is_expired = key not in MARKS and place.of(key, len(key) - place.size) < start
                if expected != value and not is_expired:
                    sink.differ(
                        f"{PATH}: {key.hex()}", expected.hex() if expected else "", value.hex()
                    )
    for key, value in wanted.items():
        sink.differ(f"{PATH}: {key.hex()}", value.hex(), "")


def _database(store: Store) -> RocksDb | None:
    return next((one for one in store.rocksdb() if one.path == PATH), None)


def _beside(store: Store) -> dict[str, list[Pair]]:
    """Give the rows of the other families."""
    kept: dict[str, list[Pair]] = {family: [] for family in BESIDE}
    found = _database(store)
    if found is None:
        return kept
    try:
        with Database(found.place, found.path) as database:
            for family in database.families:
                if family != DEFAULT:
                    kept[family] = [
                        pair for batch in database.rows(family) for pair in batch.items()
                    ]
    except UnreadablePath as error:
        reason = f"timers and open transactions of it would be lost: {error.reason}"
        raise UnreadablePath(path=error.path, reason=reason, trouble=Trouble.TOLD) from error
    return kept
