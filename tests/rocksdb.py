"""RocksDB databases of fixtures, for the tests of all rooms."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.formats.rocksdb_databases import DATABASES
from rmqtool.store.place import Place
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
    return {path: store / path for path in DATABASES if (store / path / "CURRENT").is_file()}


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


def edit(
    directory: Path,
    family: str = "default",
    *,
    put: dict[bytes, bytes] | None = None,
    delete: tuple[bytes, ...] = (),
    table_format: int = 5,
    compacts: bool = False,
) -> None:
    """Change rows of a copy of a database, as another program would."""
    from rocksdict import (
        AccessType,
        BlockBasedOptions,
        ChecksumType,
        DBCompressionType,
        Options,
        Rdict,
        WriteOptions,
    )

    tables = BlockBasedOptions()
    tables.set_format_version(table_format)
    tables.set_checksum_type(ChecksumType.crc32c())
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())  # as brokers do
    options.set_disable_auto_compactions(True)
    families = dict.fromkeys(Rdict.list_cf(str(directory), options), options)
    database = Rdict(str(directory), options, families, AccessType.read_write())
    rows = database.get_column_family(family)
    no_log = WriteOptions()
    setattr(no_log, "disable_wal", True)  # noqa: B010 - its stubs call it a method
    for key, value in (put or {}).items():
        rows.put(key, value, no_log)
    for key in delete:
        rows.delete(key, no_log)
    rows.flush()
    if compacts:
        rows.compact_range(None, None)
    database.close()
    for name in ("rocksdict-config.json", "LOG"):
        (directory / name).unlink(missing_ok=True)
    for path in directory.glob("LOG.old.*"):
        path.unlink()


def add_family(directory: Path, family: str) -> None:
    """Add a family without rows to a copy of a database."""
    from rocksdict import Options, Rdict

    options = Options(raw_mode=True)
    families = dict.fromkeys(Rdict.list_cf(str(directory), options), options)
    database = Rdict(str(directory), options, families)
    database.create_column_family(family, options)
    database.close()


def fixture(name: str, into: Path) -> Path:
    """Unpack a fixture; give its store."""
    return fixture_store(name, into)


def never_flushed(directory: Path) -> None:
    """Put a database in place as brokers make it: families, and no row until the first flush."""
    from rocksdict import Options, Rdict

    shutil.rmtree(directory)
    database = Rdict(str(directory), Options(raw_mode=True))
    database.create_column_family("offset", Options(raw_mode=True))
    database.close()
    for name in ("rocksdict-config.json", "LOG"):
        (directory / name).unlink(missing_ok=True)
    for path in directory.glob("*.log"):
        path.write_bytes(b"")
