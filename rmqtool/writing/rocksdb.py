"""Write a RocksDB database that brokers open: table format 5, CRC-32C, no write-ahead log.

The library writes into a staged tree, which nobody else can enter. What it adds for itself goes
again: its text log, its own JSON, its options, which brokers do not need.
Source: observed, 5.3.3 and 5.5.0, whose RocksDB 8.4 refuses newer table formats.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.errors import EngineMissing, WriteFailed
from rmqtool.store.rocksdb import FILE_NAME
from rmqtool.store.rocksdb_database import INSTALL, PACKAGE
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocksdict import Rdict, WriteOptions

    from rmqtool.writing.output_tree import OutputTree

TABLE_FORMAT: Final = 5
BUFFER_BYTES: Final = 64 << 20  # units in memory before they become a table file
ROWS_A_BATCH: Final = 4096
OWN_CONFIG: Final = "rocksdict-config.json"
KEPT: Final = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|\d+\.sst")


class DatabaseWriter:
    """A new database in a tree; a context manager.

    Args:
        tree: an empty one, of the database alone or of a directory that it shares with queues.
        families: names of its column families, with `default`.
    """

    def __init__(self, tree: OutputTree, families: tuple[str, ...]) -> None:
        """Create the database.

        Raises:
            EngineMissing: the library is not installed.
            WriteFailed: it cannot write there.
        """
        self._tree = tree
        self._database = _create(tree.location, families)
        self._families = {name: self._database.get_column_family(name) for name in families}
        self._no_log = _without_log()

    def put(self, family: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Write rows; later ones of the same key win.

        Raises:
            WriteFailed: the disk is full, or refuses.
        """
        from rocksdict import WriteBatch

        handle = self._database.get_column_family_handle(family)
        coming = iter(rows)
        try:
            while some := list(islice(coming, ROWS_A_BATCH)):
                batch = WriteBatch(raw_mode=True)
                for key, value in some:
                    batch.put(key, value, handle)
                self._database.write(batch, self._no_log)
        except Exception as error:
            raise self._failed(error) from error

    def finish(self) -> None:
        """Bring all families to table files, close, and remove what brokers do not need.

        Raises:
            WriteFailed: the disk is full, or refuses.
        """
        try:
            for family in self._families.values():
                family.flush()
            self._families.clear()
            self._database.close()
        except Exception as error:
            raise self._failed(error) from error
        with write_errors(str(self._tree)):
            names = sorted(path.name for path in Path(self._tree.location).iterdir())
        for name in names:
            if KEPT.fullmatch(name):
                self._tree.take(name)
            elif FILE_NAME.fullmatch(name) or name == OWN_CONFIG:
                with suppress(FileNotFoundError):  # a log that the library removes itself
                    self._tree.drop(name)

    def _failed(self, error: Exception) -> WriteFailed:
        return WriteFailed(path=str(self._tree), reason=f"RocksDB: {error}")


def _create(directory: str, families: tuple[str, ...]) -> Rdict:
    from importlib.util import find_spec

    if find_spec(PACKAGE) is None:
        raise EngineMissing(needs=f"{PACKAGE}, which writes RocksDB databases", install=INSTALL)
    from rocksdict import (
        AccessType,
        BlockBasedOptions,
        ChecksumType,
        DBCompressionType,
        Options,
        Rdict,
    )

    tables = BlockBasedOptions()
    tables.set_format_version(TABLE_FORMAT)
    tables.set_checksum_type(ChecksumType.crc32c())
    tables.set_bloom_filter(16, block_based=False)
    tables.set_block_size(32 << 10)

    def options(*, compressed: bool) -> Options:
        made = Options(raw_mode=True)
        made.set_block_based_table_factory(tables)
        made.set_write_buffer_size(BUFFER_BYTES)
        made.set_disable_auto_compactions(disable=True)  # brokers have their own style
        lz4, none = DBCompressionType.lz4(), DBCompressionType.none()
        made.set_compression_type(lz4 if compressed else none)
        return made

    made = options(compressed=True)
    made.create_if_missing(create_if_missing=True)
    made.create_missing_column_families(create_missing_cfs=True)
    made.set_keep_log_file_num(1)
    try:
        return Rdict(
            directory,
            made,
            {name: options(compressed=name == "default") for name in families},
            AccessType.read_write(),
        )
    except Exception as error:
        raise WriteFailed(path=directory, reason=f"RocksDB: {error}") from error


def _without_log() -> WriteOptions:
    from rocksdict import WriteOptions

    made = WriteOptions()
    setattr(made, "disable_wal", True)  # noqa: B010 - its stubs call it a method
    return made
