"""RocksDB databases of fixtures, for the tests of all rooms."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.store.place import Place
from rmqtool.store.rocksdb import PURPOSES
from rmqtool.store.rocksdb_database import Database
from tests.stores import FIXTURES, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = sorted(
    path.name
    for path in FIXTURES.glob("rocketmq-*-rocksdb*")
    if not path.name.endswith("rocksdb-store")  # packed
)
Rows = dict[str, list[tuple[bytes, bytes]]]


class FileState(NamedTuple):
    """All that must not change of a file that is evidence."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    content: bytes


def databases(store: Path) -> dict[str, Path]:
    """Give the directories of a store's databases by their path below it."""
    return {path: store / path for path in PURPOSES if (store / path / "CURRENT").is_file()}


def rows_of(directory: Path, path: str) -> Rows:
    """Read all rows of a database, by family."""
    with Database(Place.of(directory), path) as database:
        return {
            family: [pair for batch in database.rows(family) for pair in batch.items()]
            for family in database.families
        }


def state_of(directory: Path) -> dict[str, FileState]:
    """Give the state of each file below a directory, and of the directories."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        facts = os.lstat(path)
        content = path.read_bytes() if path.is_file() else b""
        state = FileState(
            facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, content
        )
        found[path.relative_to(directory).as_posix()] = state
    return found


def fixture(name: str, into: Path) -> Path:
    """Unpack a fixture; give its store."""
    return fixture_store(name, into)
