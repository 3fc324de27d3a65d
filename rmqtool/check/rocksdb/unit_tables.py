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

from rmqtool.check.rocksdb.kernels_units import DOUBT, LARGEST_KEY, confirm, extent
from rmqtool.errors import UnreadablePath
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import unit_key
from rmqtool.store.rocksdb_blocks import BrokenBlock
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import TableIndex, read_data_block, table_index

if TYPE_CHECKING:
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.machine.arrays import UInt8s
    from rmqtool.store.place import OpenFile
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.rocksdb_manifest import RocksdbManifest

MOST_TABLES: Final = 64  # whose files stay open
LARGEST_BLOCK: Final = 1 << 20  # brokers write 32 KiB
KEPT_BYTES: Final = 32 << 20  # of blocks: the next units of a queue often begin in the same one
MOST_SPANS: Final = 20_000  # of queues in tables, that are known
LARGEST_NUMBER: Final = (1 << 63) - 1
NOWHERE: Final = (LARGEST_NUMBER, -1)
DOUBTS: Final = (BrokenBlock, IndexError, UnreadablePath)


class UnitTable(NamedTuple):
    """A table file that is open, and where its rows lie."""

    file: OpenFile
    blocks: TableIndex


class UnitTables:
    """The table files that hold the units of all queues, open for reading."""

    def __init__(self, tables: list[UnitTable]) -> None:
        self._tables = tables
        self._blocks: OrderedDict[tuple[int, int], UInt8s] = OrderedDict()
        self._kept = 0
        self._spans: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
        self._known = 0  # spans of all queues
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
        try:
            tables = self._with(run.topic, run.queue_id, begin, end)
            first, past = (unit_key(run.topic, run.queue_id, number) for number in (begin, end))
            keys = self._keys(first)
            wanted = (np.frombuffer(run.units, np.uint8), run.times, np.zeros(count, np.uint8))
            matched = 0
            for number in tables:
                separators = self._tables[number].blocks.separators
                for block in range(bisect_left(separators, first), len(separators)):
                    content = self._block(number, block)
                    more = confirm(content, len(content), (begin, end), keys, wanted)
                    if more == DOUBT:
                        return False
                    matched += more
                    if separators[block] >= past:
                        break
        except DOUBTS:
            return False
        return matched == count

    def _keys(self, first: bytes) -> tuple[UInt8s, UInt8s]:
        """Give a key, and room for one, as kernels take them."""
        return np.frombuffer(bytearray(first), np.uint8), self._key

    def _with(self, topic: bytes, queue_id: int, begin: int, end: int) -> list[int]:
        """Give the tables that may have units of a queue from one number to another.

        Tables overlap: each has a stretch of every queue. Without this, each run of units would be
        looked for in a block of all of them.
        """
        spans = self._spans.get((topic, queue_id))
        if spans is None:
            if self._known >= MOST_SPANS:
                return [*range(len(self._tables))]
            numbers = range(len(self._tables))
            spans = [self._span(number, topic, queue_id) for number in numbers]
            self._spans[topic, queue_id] = spans
            self._known += len(spans)
        return [number for number, (low, high) in enumerate(spans) if low < end and begin <= high]

    def _span(self, number: int, topic: bytes, queue_id: int) -> tuple[int, int]:
        """Give numbers that no unit of a queue in a table is below, or above."""
        separators = self._tables[number].blocks.separators
        first, last = (unit_key(topic, queue_id, number) for number in (0, LARGEST_NUMBER))
        blocks = [bisect_left(separators, key) for key in (first, last)]
        if blocks[0] == len(separators):
            return NOWHERE
        extents = []
        for block in blocks:
            content = self._block(number, min(block, len(separators) - 1))
            extents.append(extent(content, len(content), self._keys(first)))
        (low, _), (_, high) = extents
        return max(low, 0), high if high >= 0 else LARGEST_NUMBER

    def _block(self, table: int, block: int) -> UInt8s:
        """Read a block, or give it when it is kept.

        Raises:
            BrokenBlock: it is damaged, or too long.
            IndexError: it is damaged.
            UnreadablePath: it cannot be read.
        """
        key = (table, block)
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        file, blocks = self._tables[table]
        content = read_data_block(file, blocks.handles[block], LARGEST_BLOCK)
        made = self._blocks[key] = np.frombuffer(bytearray(content), np.uint8)
        self._kept += len(made)
        while self._kept > KEPT_BYTES:
            self._kept -= len(self._blocks.popitem(last=False)[1])
        return made


def _is_all(manifest: RocksdbManifest, database: Database) -> bool:
    """Say whether the tables that the MANIFEST names are all there is, and what the library has."""
    if database.live != {table.name: table.size for table in manifest.tables.values()}:
        return False
    for entry in database.place.entries():
        if entry.name.endswith(".blob") or (entry.name.endswith(".log") and entry.size):
            return False
    return True
