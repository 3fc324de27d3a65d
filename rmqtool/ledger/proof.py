"""Leave out of what a part of the log dispatches what lies on disk just so.

Units and index entries are an eighth of the log, and on a cluster all of them would go through the
one driver. So the task that derives them compares them with the queues and the index itself, and
leaves out what is the same: of a run of units its place and its ends travel, of index entries their
place and the times of their records. What differs travels as it is and is judged by the driver, so
findings are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import topic_text
from rmqtool.derive.run_pool import SHORT_RUN
from rmqtool.derive.runs import IndexRun
from rmqtool.errors import DecodeError, StoreError
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, entry_position
from rmqtool.queues.discovery import Queues
from rmqtool.store.index_files import all_in_use, number_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.derive.runs import Runs
    from rmqtool.store.index_files import IndexInUse
    from rmqtool.store.tree import Store

SIZE: Final = INDEX_ENTRY.size
NONE: Final = IndexRun(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


class Piece(NamedTuple):
    """Entries of one index file that lie one after the other."""

    path: str  # of the file
    position: int  # of the first one
    entries: int  # how many


class EntriesOnDisk(NamedTuple):
    """Index entries that a part of the log asks for, and that are there. Picklable."""

    pieces: tuple[Piece, ...]  # where they lie, in order
    # int64, shape (n,): ms from the store time of the record before; of the first, from 0
    steps: npt.NDArray[np.int64]

    def restored(self, store: Store) -> IndexRun:
        """Read them. Raises UnreadablePath: a file may not be read, or not any more."""
        files = {file.path: file for file in store.index_files()}
        raw = bytearray()
        for piece in self.pieces:
            with files[piece.path].open() as file:
                raw += file.read_at(piece.position, piece.entries * SIZE)
        values = np.frombuffer(raw, INDEX_ENTRY.dtype)
        return IndexRun(
            values["key_hash"].astype(np.int32),
            values["physical_offset"].astype(np.int64),
            np.cumsum(self.steps),
        )


@dataclass(eq=False)
class Prover:
    """Compares what a task derives with one store's files. Picklable."""

    store: Store  # the store
    queues: bool  # whether queues are compared
    index: bool  # whether the index is
    # bytes; where runs are shorter on average, a queue would be opened for a few units, and all of
    # them travel
    short_run: int = field(default=SHORT_RUN, kw_only=True)

    def __call__(self, runs: Runs) -> tuple[Runs, EntriesOnDisk | None]:
        """Give runs without what lies on disk as they say; what cannot be read is left in."""
        entries = self._on_disk(runs.index) if self.index else None
        if entries is not None:
            runs = replace(runs, index=NONE)
        if self.queues and runs.queues.units.nbytes >= self.short_run * max(len(runs.queues), 1):
            runs = replace(runs, queues=self._without_proven(runs.queues))
        return runs, entries

    def _without_proven(self, runs: QueueRuns) -> QueueRuns:
        ends = np.full((len(runs), 2), -1, np.int64)
        with Queues(self.store) as queues:
            for number, run in enumerate(runs):
                if _is_there(queues, run):
                    ends[number] = run.first_physical_offset, run.last_physical_offset
        is_here = ends[:, 0] < 0
        if is_here.all():
            return runs
        kept = np.where(is_here, runs.count, 0)
        rows = np.repeat(is_here, runs.count)
        times = runs.times[rows] if len(runs.times) else runs.times
        first = np.cumsum(kept) - kept
        return replace(runs, units=runs.units[rows], first=first, times=times, ends=ends)

    @cached_property
    def _files(self) -> list[IndexInUse]:
        """The index files, in the order of the log."""
        return sorted(all_in_use(self.store.index_files()), key=lambda held: held.begin)

    def _on_disk(self, run: IndexRun) -> EntriesOnDisk | None:
        """Give where all entries of a run lie, one after the other; None where they do not."""
        if not len(run):
            return None
        try:
            pieces = self._pieces(run)
        except (StoreError, DecodeError):
            return None
        return EntriesOnDisk(pieces, np.diff(run.store_timestamps, prepend=0)) if pieces else None

    def _pieces(self, run: IndexRun) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        begin = int(run.physical_offsets[0])
        place = bisect_right([file.begin for file in self._files], begin) - 1
        done, number = 0, -1
        while 0 <= place < len(self._files) and done < len(run):
            known = self._files[place]
            slots = known.file.slots
            with known.file.open() as file:
                if number < 0:
                    number = number_at(file, known, begin)
                count = min(len(run) - done, known.end - number)
                position = entry_position(slots, number)
                raw = file.read_at(position, max(count, 0) * SIZE)
            values = np.frombuffer(raw, INDEX_ENTRY.dtype, len(raw) // SIZE)
            wanted = slice(done, done + len(values))
            if not (
                np.array_equal(values["key_hash"], run.hashes[wanted])
                and np.array_equal(values["physical_offset"], run.physical_offsets[wanted])
            ):
                return ()
            if len(values):
                pieces.append(Piece(known.file.path, position, len(values)))
            done, place, number = done + len(values), place + 1, FIRST_ENTRY
        return tuple(pieces) if done == len(run) else ()


def _is_there(queues: Queues, run: QueueRun) -> bool:
    """Tell whether the units of a run lie in its queue, where its queue offset says."""
    try:
        units = queues.files.queue(topic_text(run.topic), run.queue_id)
        return units is not None and units.packed(run.queue_offset, run.count) == run.units
    except StoreError:
        return False
