"""Confirm units of queues in RocksDB from its table files, without a row that passes the library.

Millions of units are nearly always as the log implies. To see that takes the library ten times as
long: a Python object a row, in another process. So the tables are read here, and nothing but "all
are there, as they should be" is taken from them. Wherever that cannot be said, the library reads
the units, and they are judged by what it gives.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rmqtool.check.rocksdb.kernels_units import DOUBT, LARGEST_KEY, confirm
from rmqtool.errors import UnreadablePath
from rmqtool.formats.rocksdb_families import DEFAULT
from rmqtool.formats.rocksdb_queue import unit_key
from rmqtool.store.rocksdb_blocks import SEQUENCE_BYTES, BrokenBlock, pairs_of
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import TableIndex, read_data_block, table_index

if TYPE_CHECKING:
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.store.place import OpenFile
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.rocksdb_manifest import RocksdbManifest

MOST_TABLES: Final = 64  # whose files stay open
LARGEST_BLOCK: Final = 1 << 20  # brokers write 32 KiB
KEPT_BYTES: Final = 32 << 20  # of blocks: the next units of a queue often begin in the same one
DOUBTS: Final = (BrokenBlock, IndexError, UnreadablePath)


class UnitTable(NamedTuple):
    """A table file that is open, and where its rows lie."""

    file: OpenFile
    blocks: TableIndex


class UnitTables:
    """The table files that hold the units of all queues, open for reading."""

    def __init__(self, tables: list[UnitTable]) -> None:
        self._tables = tables
        self._blocks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._kept = 0
        self._begins: dict[tuple[int, int], bytes] = {}  # first key of each block, once it is read
        self._room = np.empty(0, np.uint8)
        self._key = np.empty(LARGEST_KEY, np.uint8)

    @classmethod
    def of(cls, database: Database) -> Self | None:
        """Open the tables of a database; None where its units are not in plain tables alone.

        The library has opened the same tables: so they are of one moment.
        """
        place = database.place
        made = cls([])
        try:
            manifest = read_manifest(place)
            if not place.is_local or manifest.problem or not _is_all(manifest, database):
                return None
            for table in manifest.tables.values():
                if manifest.families.get(table.family) == DEFAULT:
                    file = place.child(table.name).open()
                    index = table_index(file)
                    made._tables.append(UnitTable(file, index or TableIndex([], [])))
                    if index is None or len(made._tables) > MOST_TABLES:
                        made.close()
                        return None
        except UnreadablePath:
            made.close()
            return None
        return made

    def close(self) -> None:
        """Close the files."""
        for table in self._tables:
            table.file.close()
        self._tables = []

    def confirm(self, run: QueueRun, count: int) -> bool:
        """Say whether the first units of a run are all there, with the times of their records.

        False where one is not, and where it cannot be said.

        Args:
            run: with times.
            count: units.
        """
        if len(run.times) < count:
            return False
        begin, end = run.queue_offset, run.queue_offset + count
        first, past = (unit_key(run.topic, run.queue_id, one) for one in (begin, end))
        keys = (np.frombuffer(bytearray(first), np.uint8), self._key)
        seen = np.zeros(count, np.uint8)
        wanted = (np.frombuffer(run.units, np.uint8), run.times, seen)
        found = 0
        try:
            for number, table in enumerate(self._tables):
                separators = table.blocks.separators
                for block in range(bisect_left(separators, first), len(separators)):
                    if self._begins.get((number, block), b"") >= past:
                        break
                    size = self._load(number, block)
                    more = confirm(self._room, size, (begin, end), keys, wanted)
                    if more == DOUBT:
                        return False
                    found += more
                    if separators[block] >= past:
                        break
        except DOUBTS:
            return False
        return found == count

    def _load(self, table: int, block: int) -> int:
        """Bring a block into the room for one; give its length.

        Raises:
            BrokenBlock: it is damaged, or too long.
            IndexError: it is damaged.
            UnreadablePath: it cannot be read.
        """
        content = self._blocks.get((table, block))
        if content is None:
            file, blocks = self._tables[table]
            content = read_data_block(file, blocks.handles[block])
            if len(content) > LARGEST_BLOCK:
                reason = f"{len(content)} bytes"
                raise BrokenBlock(reason)
            key, _ = next(pairs_of(content), (b"", b""))
            self._begins[table, block] = key[:-SEQUENCE_BYTES]
            self._keep((table, block), content)
        else:
            self._blocks.move_to_end((table, block))
        if len(content) > len(self._room):
            self._room = np.empty(2 * len(content), np.uint8)
        self._room[: len(content)] = np.frombuffer(content, np.uint8)
        return len(content)

    def _keep(self, key: tuple[int, int], content: bytes) -> None:
        self._blocks[key] = content
        self._kept += len(content)
        while self._kept > KEPT_BYTES:
            self._kept -= len(self._blocks.popitem(last=False)[1])


def _is_all(manifest: RocksdbManifest, database: Database) -> bool:
    """Say whether the tables that the MANIFEST names are all there is, and what the library has."""
    if database.live != {one.name: one.size for one in manifest.tables.values()}:
        return False
    for entry in database.place.entries():
        if entry.name.endswith(".blob") or (entry.name.endswith(".log") and entry.size):
            return False
    return True
