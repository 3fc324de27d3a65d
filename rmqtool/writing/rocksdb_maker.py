"""What writes one new RocksDB database, in a process that can do nothing else.

`rocksdb_keeper` starts it for `rocksdb`, in an empty directory that this process alone may write
in. It reads the name of a family, then its rows, and so on, and answers once all of it is in table
files. Table format 5, CRC-32C and no write-ahead log are what brokers open.
Source: observed, 5.3.3 and 5.5.0, whose RocksDB 8.4 refuses newer table formats.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

from rmqtool.store import rocksdb_frames
from rmqtool.store.rocksdb_server import HERE

if TYPE_CHECKING:
    from typing import BinaryIO

    from rocksdict import Rdict, WriteOptions

    from rmqtool.store.rocksdb_frames import Read

TABLE_FORMAT: Final = 5
BUFFER_BYTES: Final = 64 << 20  # units in memory before they become a table file


def make(order: dict[str, Any], read: Read, out: BinaryIO) -> None:
    """Make a database in this directory, out of what comes.

    Args:
        order: `families`, the names of its column families, with `default`.
        read: gives bytes of messages and rows; raises EOFError where nobody writes any more.
        out: takes an answer when the database is open, and one when it is finished; the last one
            may come earlier, with an error.
    """
    gc.disable()
    try:
        database = _create(order["families"])
        rocksdb_frames.send(out, {"lacking": order["lacking"]})
        _take(database, read)
    except EOFError:  # the one who writes is gone: nobody wants it
        return
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        rocksdb_frames.send(out, {"error": str(error)})
        return
    rocksdb_frames.send(out, {})


def _take(database: Rdict, read: Read) -> None:
    """Take rows until it is finished; all families are then in table files."""
    from rocksdict import WriteBatch

    options, family = _without_log(), None
    while True:
        frame = rocksdb_frames.read_frame(read)
        if not isinstance(frame, dict):
            batch = WriteBatch(raw_mode=True)
            for key, value in frame.items():
                batch.put(key, value, family)
            database.write(batch, options)
        elif "family" in frame:
            family = database.get_column_family_handle(frame["family"])
        else:
            break
    for name in frame["families"]:
        database.get_column_family(name).flush()
    database.close()


def _create(families: list[str]) -> Rdict:
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
    # Keys of a stranger make an index long: those of all tables share the cache, which is small.
    tables.set_cache_index_and_filter_blocks(True)

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
    described = {name: options(compressed=name == "default") for name in families}
    return Rdict(HERE, made, described, AccessType.read_write())


def _without_log() -> WriteOptions:
    from rocksdict import WriteOptions

    made = WriteOptions()
    setattr(made, "disable_wal", True)  # noqa: B010 - its stubs call it a method
    return made


def _answer(out: BinaryIO, answer: dict[str, Any]) -> None:
    out.write(rocksdb_frames.message(answer))
    out.flush()
