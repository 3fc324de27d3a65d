"""Compare what the log gives with what a store has, without writing anything.

Four things differ by nature and are compared by what they mean: units of messages that have
expired since, where a rebuild has pre-blank; ext addresses, after which the plain tags code lies;
deliver times of levels that were configured otherwise; and, where segments have expired, index
files, which then begin and end elsewhere. How units differ is judged by the ledger.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import QueueKind
from rmqtool.formats.index import INDEX_ENTRY, entry_position
from rmqtool.ledger.extensions import ExtUnits
from rmqtool.ledger.index_entries import are_expired, entries
from rmqtool.ledger.walk import HeldUnits
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import as_units
from rmqtool.rebuild.sinks import INDEX, file_name
from rmqtool.store.index_files import in_use
from rmqtool.store.moment import GONE
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.queues.discovery import FileSource
    from rmqtool.queues.files import MappedUnits
    from rmqtool.queues.kinds import Units
    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.rebuild.pieces import QueueFileBytes, QueueKey
    from rmqtool.rebuild.single_runs import SingleRuns
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store

    Bytes = npt.NDArray[np.uint8]

COMPARED_BYTES: Final = 1 << 22
SHOWN_BYTES: Final = 20


class Difference(NamedTuple):
    """Where a file on disk is not what the log gives."""

    path: str  # relative to the store root
    position: int | None  # first byte that differs; None when it is about the whole file
    # bytes from there to the last one that differs, as far as they were compared at once
    length: int | None
    expected: str  # what the log gives, hex or words
    actual: str  # what is there


class ComparingSink:
    """Compares with the files of a store; nothing is written.

    Attributes:
        differences: where they are not equal.
        unread: why a file could not be read, by its path; it is compared no further.
        cut: physical offset as of which the store is; index and RocksDB have entries and units of
            later records, which are passed over. None when no broker runs.
    """

    def __init__(self, store: Store, log_start: int, cut: int | None = None) -> None:
        self.differences: list[Difference] = []
        self.unread: dict[str, str] = {}
        self.cut = cut
        self._store, self._log_start = store, log_start
        self._queues = Queues(store)
        self._index = {file.place.name: file for file in store.index_files()}
        self._covered: dict[QueueKey, dict[int, int]] = defaultdict(dict)
        # what else differs of queues all of whose pieces may have come
        self._looked_at: dict[QueueKey, Sequence[Difference]] = {}
        self._differing_entries: dict[str, Difference] = {}
        # hashes and physical offsets, of expired stores, to compare by what they mean
        self._entries: list[npt.NDArray[np.int64]] = []
        self._unnamed: list[Difference] = []
        self._latest: tuple[QueueKey, MappedUnits] | None = None
        self._extensions: dict[tuple[str, int], ExtUnits | None] = {}  # of the latest queue

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Compare pieces of a queue file."""
        first, last = pieces[0], pieces[-1]
        start = first.file_start
        key = first.kind, first.topic, first.queue_id
        ends = self._covered[key]
        ends[start] = max(ends.get(start, 0), last.position + len(last.data))
        queue = self._queue(key)
        segment = queue.files.at(start) if queue else None
        if queue is None or segment is None or segment.start != start:
            path = f"{first.kind}/{first.topic}/{first.queue_id}/{file_name(start)}"
            self._differ(path, None, None, f"a file of {first.file_length:,} bytes", "none")
            return
        if segment.size != first.file_length:
            self._differ(segment.path, None, None, str(first.file_length), str(segment.size))
        with self._reading(segment.path) as is_read:
            if is_read:
                self._compare(queue, segment, pieces)

    def put_single(self, queues: SingleRuns) -> None:
        """Compare queues whole."""
        for pieces in queues.pieces():
            self.put(pieces)

    @contextmanager
    def _reading(self, path: str) -> Iterator[bool]:
        """Go on past a file that cannot be read; tell whether it could be so far.

        Raises:
            UnreadablePath: it is gone: a running broker deletes files that have expired.
        """
        try:
            yield path not in self.unread
        except UnreadablePath as error:
            if error.trouble in GONE:
                raise
            self.unread[path] = error.reason

    def _queue(self, key: QueueKey) -> MappedUnits | None:
        """Give a queue of the store, listed once for all its files, which come together."""
        if self._latest is None or self._latest[0] != key:
            if self._latest is not None:  # it is listed now; only of few do more pieces come
                done, before = self._latest
                self._looked_at[done] = [*self._beside(before, self._covered[done])] or ()
            self._looked_at.pop(key, None)
            queue = self._source(key[0]).queue(*key[1:])
            self._latest = None if queue is None else (key, queue)
        return None if self._latest is None else self._latest[1]

    def differ(self, path: str, expected: str, actual: str) -> None:
        """Take note of a difference that has no place in a file."""
        self._differ(path, None, None, expected, actual)

    def put_entries(self, built: BuiltEntries) -> None:
        """Compare entries of an index file, the unused entry 0, which stays zero, among them."""
        data, position = built.data, built.position
        if self._log_start:
            is_first = position == entry_position(built.slots, 0)
            self._entries.append(_pairs(data.view(INDEX_ENTRY.dtype)[is_first:]))
            return
        index_file = self._index.get(built.name)
        if index_file is None or index_file.path in self._differing_entries:
            return
        actual = np.empty(0, np.uint8)
        with self._reading(index_file.path) as is_read:
            if is_read:
                with index_file.place.open() as file:
                    actual = np.frombuffer(file.read_at(position, len(data)), np.uint8)
        if len(actual) and not np.array_equal(actual, data[: len(actual)]):
            self._differing_entries[index_file.path] = _difference(
                index_file.path, position, data, actual
            )

    def put_index(self, built: BuiltIndexFile) -> None:
        """Compare the rest of an index file, and say what differs first."""
        if self._log_start:
            return
        index_file = self._index.pop(built.name, None)
        if index_file is None:
            self._differ(
                f"{INDEX}/{built.name}",
                None,
                None,
                counted(built.entries, "entry", "entries"),
                "no file",
            )
            return
        if index_file.size != built.size:
            self._differ(index_file.path, None, None, str(built.size), str(index_file.size))
        if self.cut is not None and built.entries < index_file.entries:
            self._entries_only(index_file)
            return
        with self._reading(index_file.path) as is_read:
            if is_read:
                self._rest(built, index_file)

    def _rest(self, built: BuiltIndexFile, index_file: IndexFile) -> None:
        """Compare all of an index file but its entries, and say what differs first."""
        with index_file.place.open() as file:
            actual = np.frombuffer(file.read_at(0, len(built.head)), np.uint8)
            expected = built.head[: len(actual)]
            if not np.array_equal(actual, expected):
                self.differences.append(_difference(index_file.path, 0, expected, actual))
            elif index_file.path in self._differing_entries:
                self.differences.append(self._differing_entries[index_file.path])
            else:
                self.differences += _not_zero(index_file.path, file, built.used, index_file.size)

    def _entries_only(self, index_file: IndexFile) -> None:
        """Say what differs of a file that a running broker goes on with: its head is newer."""
        if index_file.path in self._differing_entries:
            self.differences.append(self._differing_entries[index_file.path])

    def finish(self, *, queues: bool, index: bool, whole: bool) -> None:
        """Look at what was not built.

        Args:
            queues: whether queues were rebuilt.
            index: whether the index was.
            whole: whether all queues were, so that others are superfluous.
        """
        if queues:
            self._finish_queues(whole=whole)
        if index:
            self._finish_index()
        self._queues.close()

    def _finish_queues(self, *, whole: bool) -> None:
        for queue in self._known(whole=whole):
            key = QueueKind(queue.path.partition("/")[0]), queue.topic, queue.queue_id
            looked_at = self._looked_at.get(key)
            if looked_at is None:
                looked_at = [*self._beside(queue, self._covered.get(key, {}))]
            self.differences += looked_at

    def _beside(self, queue: MappedUnits, covered: Mapping[int, int]) -> Iterator[Difference]:
        """Yield what differs where nothing was built: files, and what is after the last unit.

        Args:
            queue: of the store.
            covered: by the start of a file, the place after the last unit that was built in it.
        """
        for segment in queue.files.segments:
            end = covered.get(segment.start)
            with self._reading(segment.path) as is_read:
                if end is None:
                    yield from self._superfluous(queue, segment)
                elif is_read:
                    yield from _not_zero(segment.path, queue.file(segment), end, segment.size)

    def _finish_index(self) -> None:
        """Look at index files that were not built; with expired segments, at all entries."""
        if not self._log_start:
            for file in self._index.values():
                with self._reading(file.path):
                    held = self._entries_of(file)  # which tells whether it can be read, too
                    if self.cut is None or len(held):
                        self._differ(file.path, None, None, "no file", "a file")
            return
        there = []
        for file in self._index.values():
            with self._reading(file.path):
                there.append(_pairs(self._entries_of(file)))
        if len(there) < len(self._index):  # what one of them holds is unknown
            return
        nothing = np.empty((0, 2), np.int64)
        expected, actual = (
            np.concatenate([nothing, *self._entries]),
            np.concatenate([nothing, *there]),
        )
        actual = actual[~are_expired(actual[:, 1], self._log_start)]
        if not np.array_equal(expected, actual):
            packed = (
                pairs.astype(">i8").view(np.uint8).reshape(-1) for pairs in (expected, actual)
            )
            self.differences.append(_difference(INDEX, 0, *packed))

    def _entries_of(self, file: IndexFile) -> npt.NDArray[np.void]:
        """Read the entries in use of an index file, shape (n,), but for those past the cut."""
        with file.open() as opened:
            held = in_use(file, opened)
        if held is not None and held.is_miscounted and self._log_start:
            stated = held.header["index_count"]
            self._differ(file.path, None, None, f"indexCount {held.end}", f"indexCount {stated}")
        rows = np.empty(0, INDEX_ENTRY.dtype) if held is None else entries(held)
        return rows if self.cut is None else rows[rows["physical_offset"] < self.cut]

    def _known(self, *, whole: bool) -> Iterator[MappedUnits]:
        if whole:
            yield from self._queues.files.queues()
            yield from self._queues.batches.queues()
            return
        for kind, topic, queue_id in self._covered:
            queue = self._source(kind).queue(topic, queue_id)
            if queue is not None:
                yield queue

    def _source(self, kind: QueueKind) -> FileSource:
        is_plain = kind is QueueKind.CONSUME_QUEUE
        return self._queues.files if is_plain else self._queues.batches

    def _compare(self, queue: MappedUnits, segment: Segment, files: list[QueueFileBytes]) -> None:
        file = queue.file(segment)
        for piece in files:
            actual = file.read_at(piece.position, len(piece.data))
            if actual == piece.data:
                continue
            if piece.is_filler and self._is_expired(as_units(actual)):
                continue  # units of messages that have expired since
            expected, there = np.frombuffer(piece.data, np.uint8), np.frombuffer(actual, np.uint8)
            if len(there) == len(expected):
                want, have = (as_units(raw, queue.layout) for raw in (piece.data, actual))
                extension = partial(self._extension, piece)
                wrong = HeldUnits.of(piece.topic, 0, want, have, extension).wrong
                if not wrong.any():
                    continue
                shown = want.copy()
                shown[wrong] = have[wrong]
                there = shown.view(np.uint8)
            self.differences.append(_difference(segment.path, piece.position, expected, there))
            return

    def _extension(self, piece: QueueFileBytes) -> ExtUnits | None:
        """Read the extension of a queue; None without one."""
        name = piece.topic, piece.queue_id
        if name not in self._extensions:
            queue = self._store.ext_queue(*name)
            self._extensions = {name: ExtUnits.of(queue.files) if queue is not None else None}
        return self._extensions[name]

    def _is_expired(self, units: Units) -> bool:
        """Whether all units are of messages before the first segment, or pre-blank."""
        return bool((units["physical_offset"] < self._log_start).all() | (self._log_start == 0))

    def _superfluous(self, queue: MappedUnits, segment: Segment) -> Iterator[Difference]:
        raw = queue.file(segment).read_at(0, segment.size)
        used = raw.rstrip(b"\0")
        size = queue.layout.size
        units = raw[: -(-len(used) // size) * size]
        if self._log_start and self._is_expired(as_units(units, queue.layout)):
            return
        if used or self.cut is None:  # beside a broker: it was made after the cut
            actual = f"{len(used):,} bytes of units"
            yield Difference(segment.path, None, None, "no file", actual)

    def _differ(
        self, path: str, position: int | None, length: int | None, expected: str, actual: str
    ) -> None:
        self.differences.append(Difference(path, position, length, expected, actual))


def _not_zero(path: str, file: OpenFile, end: int, size: int) -> Iterator[Difference]:
    """Yield the first bytes after the last unit or entry; holes are not read."""
    for start, raw in data_stretches(file, end, size, COMPARED_BYTES):
        actual = np.frombuffer(raw, np.uint8)
        yield _difference(path, start, np.zeros_like(actual), actual)
        return


def _difference(path: str, start: int, expected: Bytes, actual: Bytes) -> Difference:
    """Say where two stretches of a file differ, at the latest after the shorter one."""
    shared = min(len(expected), len(actual))
    places = np.flatnonzero(expected[:shared] != actual[:shared])
    first = int(places[0]) if len(places) else shared
    last = int(places[-1]) if len(places) else len(expected) - 1
    shown = slice(first, first + SHOWN_BYTES)
    return Difference(
        path,
        start + first,
        max(last, first) - first + 1,
        expected[shown].tobytes().hex(),
        actual[shown].tobytes().hex(),
    )


def _pairs(entries: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Give hash and physical offset of entries: int64, shape (n, 2)."""
    return np.stack([entries["key_hash"], entries["physical_offset"]], axis=1, dtype=np.int64)
