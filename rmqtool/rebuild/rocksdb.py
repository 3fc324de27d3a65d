"""Rebuilt queues as a RocksDB database: a row a unit, `max` rows, and the end of dispatch.

It takes the same pieces that make queue files, so the same rules place units, and fill holes with
units that consumers pass over. Its rows are those of a broker; its bytes are not.
Source: RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import (
    CHECKPOINT_KEY,
    CQ_KEY_TAIL,
    DISPATCHED,
    MAX,
    ROCKSDB_CQ_UNIT,
    offset_key,
    queue_prefix,
)
from rmqtool.ledger.walk import HeldUnits
from rmqtool.machine.arrays import order_of
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import as_units
from rmqtool.queues.rocks import OFFSETS, end_values
from rmqtool.rebuild.consume_queue import PENDING_UNIT_COST
from rmqtool.store.record_heads import UNKNOWN, LogReader, record_times
from rmqtool.writing.rocksdb import DatabaseWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.derive.placement import QueuePlacement
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.rebuild.comparing import ComparingSink
    from rmqtool.rebuild.consume_queue import QueueFileBytes
    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.rebuild.sinks import WritingSink
    from rmqtool.store.tree import Store

FAMILIES: Final = (DEFAULT, OFFSETS)
QUEUE_NUMBER: Final = CQ_KEY_TAIL.dtype["queue_offset"]
WAITING_BYTES: Final = 32 << 20  # of units, until their records are read for their times
Files = TypeVar("Files", "WritingSink", "ComparingSink")


class _Beside(Generic[Files]):
    """Takes queues for a database, and beside it for files where the store has both.

    Args:
        files: takes the index, and queues in files.
        placement: which queues are in files, and which are in RocksDB.
        has_files: queues lie in files, too.
    """

    def __init__(self, files: Files, placement: QueuePlacement, *, has_files: bool) -> None:
        self._files: Files = files
        self._has_files, self._placement = has_files, placement

    def _take(self, piece: QueueFileBytes) -> None:
        raise NotImplementedError

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Take pieces of a queue; what fills a file up to its first unit is no unit here.

        Raises:
            DamagedDatabase: a database that is compared cannot be read.
        """
        topic = pieces[0].topic
        for piece in pieces if self._placement.in_rocksdb(topic) else ():
            if piece.kind is QueueKind.CONSUME_QUEUE and not piece.is_filler:
                self._take(piece)
        if self._has_files and self._placement.in_files(topic):
            self._files.put(pieces)

    def put_entries(self, built: BuiltEntries) -> None:
        """Take entries of an index file."""
        self._files.put_entries(built)

    def put_index(self, built: BuiltIndexFile) -> None:
        """Take the rest of an index file."""
        self._files.put_index(built)


class RocksSink(_Beside["WritingSink"]):
    """Writes queues into a database, and beside it into files where the store has both.

    A context manager: what is not finished goes.

    Args:
        store: whose log tells the store times of records.
        path: of the database.
        files: takes the index, and queues in files.
        placement: which queues are in files, and which are in RocksDB.
        has_files: queues are written in files, too.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        files: WritingSink,
        placement: QueuePlacement,
        *,
        has_files: bool,
    ) -> None:
        super().__init__(files, placement, has_files=has_files)
        self._writer = DatabaseWriter(files.tree(path), FAMILIES)
        self._log = LogReader(store.old_commitlog, store.commitlog)
        self._last: dict[tuple[bytes, int], tuple[int, int, int]] = {}
        self._waiting: list[QueueFileBytes] = []
        self._waiting_bytes = 0
        self._end = 0
        self._expired = _expired_ends(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()
        self._log.__exit__()

    def finish(self) -> None:
        """Write the `max` rows and the end of dispatch; close the database.

        Raises:
            WriteFailed: the disk refuses.
        """
        self._write()
        last = {name: end[:2] for name, end in self._last.items()}
        rows = [
            (offset_key(topic, queue_id, MAX), end_values(end))
            for (topic, queue_id), end in {**self._expired, **last}.items()
        ]
        if self._end:
            rows.append((CHECKPOINT_KEY, DISPATCHED["dispatched"].build(self._end)))
        self._writer.put(OFFSETS, rows)
        self._writer.finish()

    def _take(self, piece: QueueFileBytes) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += len(piece.data) + PENDING_UNIT_COST
        if self._waiting_bytes > WAITING_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the pieces that wait.

        Their records are read in the order of the log: queue by queue, each would read all of it.
        """
        units = [np.frombuffer(piece.data, CQ_UNIT.dtype) for piece in self._waiting]
        if not units:
            return
        offsets = np.concatenate([unit["physical_offset"] for unit in units]).astype(np.int64)
        order = order_of(offsets)
        times = np.empty_like(offsets)
        times[order] = record_times(self._log, offsets[order])
        ends = np.cumsum([len(unit) for unit in units])[:-1]
        for piece, taken, stored in zip(self._waiting, units, np.split(times, ends), strict=True):
            self._writer.put(DEFAULT, self._rows(piece, taken, stored))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _rows(
        self, piece: QueueFileBytes, units: npt.NDArray[np.void], times: npt.NDArray[np.int64]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Give key and value of each unit of a piece."""
        offsets = units["physical_offset"].astype(np.int64)
        name = (piece.topic.encode("utf-8", "surrogatepass"), piece.queue_id)
        first = (piece.file_start + piece.position) // CQ_UNIT_SIZE
        known = times != UNKNOWN
        before = self._last.get(name, (0, 0, piece.mtime_ms))[2]
        for at in np.flatnonzero(~known).tolist():  # a filler: as the unit before it
            times[at] = times[at - 1] if at else before
        if known.any():
            self._end = max(self._end, int((offsets[known] + units["size"][known]).max()))
            last = int(np.flatnonzero(known)[-1])
            self._last[name] = (int(offsets[last]), first + len(units) - 1, int(times[-1]))
        prefix = queue_prefix(*name)
        keys = np.empty(len(units), [("prefix", f"V{len(prefix)}"), ("number", QUEUE_NUMBER)])
        keys["prefix"], keys["number"] = np.void(prefix), np.arange(first, first + len(units))
        values = np.empty(len(units), ROCKSDB_CQ_UNIT.dtype)
        for field in CQ_UNIT.dtype.fields or ():
            values[field] = units[field]
        values["store_timestamp"] = times
        return zip(_each(keys), _each(values), strict=True)


def _each(rows: npt.NDArray[np.void]) -> list[bytes]:
    """Give the bytes of each row of a packed structure."""
    raw: list[bytes] = rows.view(f"V{rows.dtype.itemsize}").tolist()
    return raw


def _expired_ends(store: Store) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Give the ends of queues whose messages all expired: new ones go on from there.

    The log knows nothing of them; of a database that cannot be read they are lost.
    """
    with Queues(store) as queues:
        try:
            source = queues.database.source
            ends = source.ends if source else {}
        except UnreadablePath:
            return {}
    start = store.commitlog.start
    return {
        name: end.maximum for name, end in ends.items() if end.maximum and end.maximum[0] < start
    }


class RocksComparingSink(_Beside["ComparingSink"]):
    """Compares rebuilt queues with those in a database; nothing is written.

    Args:
        queues: in the database.
        files: compares the index, and queues in files.
        has_files: queues lie in files, too.
        placement: which queues are in files, and which are in RocksDB.
    """

    def __init__(
        self,
        queues: RocksQueues,
        files: ComparingSink,
        placement: QueuePlacement,
        *,
        has_files: bool,
    ) -> None:
        super().__init__(files, placement, has_files=has_files)
        self._queues = queues
        self._next: dict[tuple[str, int], int] = {}

    def finish(self) -> None:
        """Compare where queues end. Raises DamagedDatabase: the database cannot be read."""
        for (topic, queue_id), ends in sorted(self._queues.ends.items()):
            name = (topic_text(topic), queue_id)
            rebuilt = self._next.get(name)
            is_later = self._files.cut is not None and (rebuilt or 0) < ends.next_offset
            if rebuilt is not None and rebuilt != ends.next_offset and not is_later:
                path = f"{self._queues.path}: topic {name[0]}, queue {queue_id}: max"
                self._files.differ(path, str(rebuilt - 1), str(ends.next_offset - 1))

    def _take(self, piece: QueueFileBytes) -> None:
        name = (piece.topic, piece.queue_id)
        first = (piece.file_start + piece.position) // CQ_UNIT_SIZE
        count = len(piece.data) // CQ_UNIT_SIZE
        self._next[name] = first + count
        queue = self._queues.queue(*name)
        on_disk = queue.packed(first, count) if queue else bytes(len(piece.data))
        wanted = bytes(piece.data)
        if on_disk == wanted:
            return
        held = HeldUnits.of(piece.topic, first, as_units(wanted), as_units(on_disk))
        for row in np.flatnonzero(held.wrong)[:1].tolist():
            path = f"{self._queues.path}: topic {name[0]}, queue {name[1]}: {first + row}"
            self._files.differ(
                path, held.wanted[row].tobytes().hex(), held.there[row].tobytes().hex()
            )
