"""RocksDB databases of a store: recognised and named; their tables are not read.

A broker opens some of them at every start, so their being there says little: `rocksdbstore` and
`kvStore` are normally empty.
Source: ConsumeQueueRocksDBStorage, ConfigStorage, MessageRocksDBStorage, 5.1.4 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import UnreadablePath
from rmqtool.formats.rocksdb_databases import DATABASES, QUEUES, SEPARATE_QUEUES
from rmqtool.store.entry import EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import Place

CURRENT = "CURRENT"  # every RocksDB database has this file, and it names the manifest
OWN_NAME = re.compile(r"MANIFEST-\d+|\d{6,}\.sst")
FILE_NAME = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log|blob)"
)


class RocksDb(NamedTuple):
    """One RocksDB database."""

    place: Place  # its directory
    path: str  # the same relative to the store root
    holds: str  # what RocketMQ keeps in it, a phrase
    since: str  # the first release that writes it
    table_files: int  # number of `.sst` files
    log_bytes: int  # bytes in its write-ahead logs
    size: int  # bytes of all its files
    allocated: int  # bytes that the disk really holds

    @property
    def stored(self) -> int:
        """Bytes of all its files, without holes."""
        return min(self.size, self.allocated)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever flushed or logged: what an unused feature leaves."""
        return not self.table_files and not self.log_bytes


def rocksdb_stores(root: Place) -> Iterator[RocksDb]:
    """Give the databases below a store root.

    Raises:
        UnreadablePath: one of the directories may not be listed.
    """
    for path in DATABASES:
        place = root.child(path)
        if is_rocksdb(place):
            yield rocksdb(place, path)


def is_queue_database(path: str) -> bool:
    """Tell whether a database, by its path, holds consume queues."""
    return path in {QUEUES, SEPARATE_QUEUES}


def is_rocksdb(place: Place) -> bool:
    """Tell whether a directory holds a RocksDB database; one that cannot be reached does not.

    One that has lost CURRENT is told by its MANIFEST and its tables.
    """
    try:
        entry = place.child(CURRENT).stat()
        if entry is not None:
            return entry.kind is EntryKind.FILE
        return place.stat() is not None and any(
            kind is EntryKind.FILE and OWN_NAME.fullmatch(name) for name, kind in place.names()
        )
    except UnreadablePath:  # forbidden, or a loop of links: who lists it says so
        return False


def rocksdb(place: Place, path: str) -> RocksDb:
    """Describe one database from its file names.

    Raises:
        UnreadablePath: the directory may not be listed.
    """
    files = [
        entry
        for entry in place.entries()
        if entry.kind is EntryKind.FILE and FILE_NAME.fullmatch(entry.name)
    ]
    kind = DATABASES.get(path)
    return RocksDb(
        place=place,
        path=path,
        holds=kind.holds if kind else "an unknown part of a store",
        since=kind.since if kind else "?",
        table_files=sum(entry.name.endswith(".sst") for entry in files),
        log_bytes=sum(entry.size for entry in files if entry.name.endswith(".log")),
        size=sum(entry.size for entry in files),
        allocated=sum(entry.allocated for entry in files),
    )


def unsupported(path: str) -> str:
    """Say, for an UnsupportedStore, what a directory holds and that it cannot be read."""
    kind = DATABASES.get(path)
    holds = f"{kind.holds} (RocketMQ {kind.since} or newer)" if kind else "a part of a store"
    return f"a RocksDB database with {holds}: recognised, but reading it is not supported yet"
