"""Rebuilt queues as a RocksDB database: a row a unit, `max` rows, and the end of dispatch.

It takes the same pieces that make queue files, so the same rules place units, and fill holes with
units that consumers pass over. Its rows are those of a broker; its bytes are not.
Source: RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable, 5.2.0 to 5.5.0.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypeVar

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
from rmqtool.ledger.sound import UnitsHeld
from rmqtool.ledger.walk import HeldUnits
from rmqtool.machine.arrays import order_of
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import as_units
from rmqtool.queues.rocks import OFFSETS, end_values
from rmqtool.queues.short_rocks import short_rocks
from rmqtool.rebuild.consume_queue import PENDING_UNIT_COST
from rmqtool.store.record_heads import UNKNOWN, LogReader, record_times
from rmqtool.writing.rocksdb import DatabaseWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    import numpy.typing as npt

    from rmqtool.derive.placement import QueuePlacement
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.rebuild.comparing import ComparingSink
    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.rebuild.pieces import QueueFileBytes
    from rmqtool.rebuild.single_runs import SingleRuns
    from rmqtool.rebuild.sinks import WritingSink
    from rmqtool.store.tree import Store

FAMILIES: Final = (DEFAULT, OFFSETS)
QUEUE_NUMBER: Final = CQ_KEY_TAIL.dtype["queue_offset"]
WAITING_BYTES: Final = 16 << 20  # of units, until their records are read for their times
ROW_BYTES: Final = 4 << 20  # of rows that are made at once
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

    def put_single(self, queues: SingleRuns) -> None:
        """Take queues whole."""
        for pieces in queues.pieces():
            self.put(pieces)

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
        # Rows are made and sent while the next queues are built: the database is another process.
        self._threads = ThreadPoolExecutor(1)
        self._sent: Future[None] | None = None
        self._end = 0
        self._expired = _expired_ends(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()
        self._threads.shutdown()
        self._log.__exit__()

    def finish(self) -> None:
        """Write the `max` rows and the end of dispatch; close the database.

        Raises:
            WriteFailed: the disk refuses.
        """
        self._send()
        self._settle()
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
        if not len(piece.data):
            return
        self._waiting.append(piece)
        self._waiting_bytes += len(piece.data) + PENDING_UNIT_COST
        if self._waiting_bytes > WAITING_BYTES:
            self._send()

    def _send(self) -> None:
        """Have the pieces that wait written, once those before them are."""
        self._settle()
        if self._waiting:
            self._sent = self._threads.submit(self._write, self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def _settle(self) -> None:
        """Wait for what was sent. Raises WriteFailed: the disk refuses."""
        if self._sent is not None:
            sent, self._sent = self._sent, None
            sent.result()

    def _write(self, waiting: list[QueueFileBytes]) -> None:
        """Write pieces.

        Their records are read in the order of the log: queue by queue, each would read all of it.
        """
        pieces = [_Piece.of(piece) for piece in waiting]
        waiting.clear()
        units = np.concatenate([piece.units for piece in pieces])
        offsets = units["physical_offset"].astype(np.int64)
        order = order_of(offsets)
        times = np.empty_like(offsets)
        times[order] = record_times(self._log, offsets[order])
        ends = np.cumsum([len(piece.units) for piece in pieces])
        self._note(pieces, ends.tolist(), offsets, units["size"], times)
        for some in _alike(pieces):
            prefixes = _Prefixes.of(pieces, some, ends)
            for rows in prefixes.windows():
                values = _values(units[rows], times[rows])
                self._writer.put_alike(DEFAULT, prefixes.keys(rows), values)

    def _note(
        self,
        pieces: list[_Piece],
        ends: list[int],
        offsets: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int32],
        times: npt.NDArray[np.int64],
    ) -> None:
        """Keep how far queues and log reach; a filler has the time of the unit before it."""
        known = times != UNKNOWN
        if known.any():
            self._end = max(self._end, int((offsets[known] + sizes[known]).max()))
        begins = [0, *ends[:-1]]
        places = np.where(known, np.arange(len(times)), -1)
        newest = np.maximum.reduceat(places, begins).tolist()
        has_fillers = not known.all()
        for piece, begin, end, last in zip(pieces, begins, ends, newest, strict=True):
            fillers = np.flatnonzero(~known[begin:end]).tolist() if has_fillers else ()
            for at in (begin + filler for filler in fillers):
                before = self._last.get(piece.name, (0, 0, piece.mtime_ms))[2]
                times[at] = times[at - 1] if at > begin else before
            if last >= begin:
                number = piece.first + end - begin - 1
                self._last[piece.name] = (int(offsets[last]), number, int(times[end - 1]))


class _Piece(NamedTuple):
    """Units of one queue that follow each other."""

    name: tuple[bytes, int]  # topic and number of the queue
    prefix: bytes  # of their keys
    first: int  # queue offset of the first one
    units: npt.NDArray[np.void]  # of the dtype of CQ_UNIT
    mtime_ms: int  # store time of the last one

    @classmethod
    def of(cls, piece: QueueFileBytes) -> _Piece:
        """Take the units out of a queue file."""
        name = (piece.topic.encode("utf-8", "surrogatepass"), piece.queue_id)
        first = (piece.file_start + piece.position) // CQ_UNIT_SIZE
        units = np.frombuffer(piece.data, CQ_UNIT.dtype)
        return cls(name, queue_prefix(*name), first, units, piece.mtime_ms)


def _alike(pieces: list[_Piece]) -> Iterator[range]:
    """Yield the numbers of pieces that follow each other and whose keys have one length."""
    lengths = np.array([len(piece.prefix) for piece in pieces])
    borders = np.flatnonzero(np.diff(lengths)) + 1
    yield from map(range, [0, *borders.tolist()], [*borders.tolist(), len(pieces)])


class _Prefixes(NamedTuple):
    """What the keys of some pieces begin with, all of one length."""

    prefixes: npt.NDArray[np.uint8]  # shape (pieces, length)
    ends: npt.NDArray[np.int64]  # numbers of the units after each piece, among all that are written
    shifts: npt.NDArray[np.int64]  # how far the queue offsets of its units are from their numbers
    first: int  # number of the first unit

    @classmethod
    def of(cls, pieces: list[_Piece], some: range, ends: npt.NDArray[np.int64]) -> _Prefixes:
        """Take those of pieces that follow each other.

        Args:
            pieces: all that are written.
            some: the numbers of these.
            ends: of all pieces.
        """
        chosen, of_these = pieces[some.start : some.stop], ends[some.start : some.stop]
        joined = np.frombuffer(b"".join(piece.prefix for piece in chosen), np.uint8)
        begins = of_these - np.array([len(piece.units) for piece in chosen], np.int64)
        shifts = np.array([piece.first for piece in chosen], np.int64) - begins
        return cls(joined.reshape(len(chosen), -1), of_these, shifts, int(begins[0]))

    def windows(self) -> Iterator[slice]:
        """Yield some units at a time, fewer where keys are long."""
        step = max(ROW_BYTES // (self.prefixes.shape[1] + ROCKSDB_CQ_UNIT.size), 1)
        end = int(self.ends[-1])
        for first in range(self.first, end, step):
            yield slice(first, min(first + step, end))

    def keys(self, rows: slice) -> npt.NDArray[np.uint8]:
        """Give the keys of some units: uint8, shape (n, bytes of a key)."""
        numbers = np.arange(rows.start, rows.stop)
        owners = np.searchsorted(self.ends, numbers, side="right")
        tails = (numbers + self.shifts[owners]).astype(QUEUE_NUMBER).view(np.uint8)
        return np.hstack([self.prefixes[owners], tails.reshape(len(numbers), -1)])


def _values(units: npt.NDArray[np.void], times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Give the values of units, with their store times: uint8, shape (n, 28)."""
    values = np.empty(len(units), ROCKSDB_CQ_UNIT.dtype)
    for field in CQ_UNIT.dtype.fields or ():
        values[field] = units[field]
    values["store_timestamp"] = times
    return values.view(np.uint8).reshape(-1, ROCKSDB_CQ_UNIT.size)


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

    def put_single(self, queues: SingleRuns) -> None:
        """Take queues whole. Raises DamagedDatabase: the database cannot be read."""
        super().put_single(queues if self._has_files else self._unlike(queues))

    def _unlike(self, queues: SingleRuns) -> SingleRuns:
        """Leave out those whose units and `max` the database has: of a million nearly all."""
        held, runs, names = self._held, queues.runs, self._queues.names
        if held is None or runs.kind is not QueueKind.CONSUME_QUEUE:
            return queues
        short, end = held.short, runs.queue_offset + runs.count
        known = np.array([*map(names.topic_number, runs.queues.topics)], np.int64)
        known[[not self._placement.in_rocksdb(topic) for topic in queues.topics]] = -1
        topic, queue_id = runs.queues.topic[runs.queue], runs.queues.queue_id[runs.queue]
        rows = short.rows.rows_of(known[topic], queue_id)
        maxima = self._queues.ends.columns(names).ends[0][1][short.rows.of_names]
        alike = (rows >= 0) & (short.first[rows] == runs.queue_offset) & (short.end[rows] == end)
        numbers = np.flatnonzero(alike & (maxima[rows] + 1 == end))
        differs = np.ones(len(runs), np.bool_)
        differs[numbers] = ~held.same(runs, numbers, rows[numbers])
        return queues._replace(runs=runs.chosen(differs))

    @cached_property
    def _held(self) -> UnitsHeld | None:
        """The units of its queues, whose times are not compared; None where it is large."""
        short = short_rocks(self._queues)
        if short is None or not len(short):
            return None
        return UnitsHeld(replace(short, units=np.ascontiguousarray(short.units[:, :CQ_UNIT_SIZE])))

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
