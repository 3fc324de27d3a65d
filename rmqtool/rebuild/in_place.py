"""Put rebuilt files in place of a store's own: under the broker's lock, journalled, undoable."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, QueueKind
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.queues.reach import is_record_of, messages_out_of_reach, places_in, places_of
from rmqtool.rebuild.options import StoreType
from rmqtool.rebuild.sinks import INDEX, WritingSink
from rmqtool.store.address import place_of
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.place import Place
from rmqtool.store.record_heads import LogReader
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.tree import open_store
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from rmqtool.queues.units import QueueUnits
    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.rebuild.pieces import QueueFileBytes
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree

    Int64s = npt.NDArray[np.int64]
    Stretch = tuple[int, int]


COMMAND: Final = "rebuild"


def rebuild_in_place(
    options: RebuildOptions, run: Callable[[WritingSink], RebuildResult]
) -> RebuildResult:
    """Rebuild into staged trees and swap them in.

    Whole families are swapped, or, with a topic, its queues one by one.

    Args:
        options: what is asked.
        run: rebuilds into a sink.

    Raises:
        StoreLocked: a broker uses the store.
        RepairError: the commitlog is a link of the root to a place that no configuration names.
        WriteFailed: the system refused; the store is as it was.
        EditUnfinished: the same half way; the store is not.
    """
    elsewhere = places_elsewhere(place_of(options.store), options.broker_conf)
    with StoreLock(options.store, elsewhere) as lock:
        resumed = [resumed.sentence for resumed in resume(lock)]
        with Transaction(lock, command=COMMAND) as edits:
            result = stage(lock, edits, options, run)
            _set_checkpoint(edits, lock.root.as_posix(), result, options)
        if edits.is_changing:
            result.undo = edits.undo_directory.name
        result.fsync_seconds = edits.fsync_seconds
    result.resumed = resumed
    return result


def stage(
    lock: StoreLock,
    edits: Transaction,
    options: RebuildOptions,
    run: Callable[[WritingSink], RebuildResult],
) -> RebuildResult:
    """Rebuild into trees that a transaction swaps in at its end.

    Raises:
        RepairError: the commitlog is a link of the root to a place that no configuration names.
        NotSound: a queue would lead to fewer messages.
        WriteFailed: the system refused.
    """
    # Queues of somebody else's records would be for the owner of the store to read.
    Workplace(lock.directory, lock.directory, lock.elsewhere).real(str(ArtefactKind.COMMITLOG))
    trees = _Trees(edits, options)
    store = open_store(options.store, options.broker_conf)
    sink = WatchingSink(trees.tree, store, skipped=trees.skipped)
    result = run(sink)
    if options.target.has_queues:
        sink.refuse_harm(options.topic)
    trees.finish(result)
    return result


class _Trees:
    """The staged trees of one transaction, made when they are first needed."""

    def __init__(self, edits: Transaction, options: RebuildOptions) -> None:
        self.skipped = 0 if options.topic is None else 2
        self._edits, self._options = edits, options
        self._trees: dict[tuple[str, ...], OutputTree] = {}

    def tree(self, *parts: str) -> OutputTree:
        """Give the tree that takes the place of a directory."""
        if parts not in self._trees:
            self._trees[parts] = self._edits.replace_tree("/".join(parts), reason=COMMAND)
        return self._trees[parts]

    def finish(self, result: RebuildResult) -> None:
        """Replace families without a unit, too: what they have on disk belongs to no record."""
        target, root = self._options.target, place_of(self._options.store)
        if self._options.topic is None and target.has_queues:
            if not self._is_elsewhere():
                self.tree(QueueKind.CONSUME_QUEUE)
            if self._options.ext:
                self.tree(QueueKind.CONSUME_QUEUE_EXT)
            if root.child(QueueKind.BATCH_QUEUE).stat() is not None:
                self.tree(QueueKind.BATCH_QUEUE)
        if StoreType.FILES in result.index_types:
            self.tree(INDEX)

    def _is_elsewhere(self) -> bool:
        """Tell whether queues were written to another directory alone: RocksDB may have its own."""
        return any(is_queue_database(parts[0]) for parts in self._trees) and (
            (QueueKind.CONSUME_QUEUE,) not in self._trees
        )


def _set_checkpoint(
    edits: Transaction, root: str, result: RebuildResult, options: RebuildOptions
) -> None:
    """Let the checkpoint say what is true of the rebuilt files.

    It must never be later than the data: recovery would begin too late. With all of the index
    rebuilt, `index_msg_timestamp` is the end of its last file, which a broker that finds `abort`
    would destroy otherwise (IndexService#load).
    """
    if options.topic is not None or result.last_physical_offset < 0:
        return
    place = Place(root).child("checkpoint")
    try:
        raw = place.read(FILE_LENGTH)
    except UnreadablePath:
        return  # without one a broker begins with the first segment
    raw = raw.ljust(FILE_LENGTH, b"\0")
    fields = CHECKPOINT.parse(raw)
    newest = result.last_store_timestamp
    fields["physic_msg_timestamp"] = min(fields["physic_msg_timestamp"], newest)
    if options.target.has_queues:
        fields["logics_msg_timestamp"] = newest
        if fields["logics_physical_offset"] or result.rules.release.records_queued_offset:
            fields["logics_physical_offset"] = result.last_physical_offset
    if StoreType.FILES in result.index_types:
        fields["index_msg_timestamp"] = result.index_end
    edits.write("checkpoint", 0, CHECKPOINT.build(fields), reason=COMMAND)


# Queues that a rebuild would replace by ones that lead to fewer messages: they are refused.


INSTEAD = "rmqtool repair, which keeps the units of such queues"


@dataclass(slots=True)
class _Changed:
    """What is written over in one queue."""

    before: list[Int64s] = field(default_factory=list)
    after: list[Int64s] = field(default_factory=list)
    written: list[Stretch] = field(default_factory=list)  # numbers of units
    same: list[Stretch] = field(default_factory=list)  # of them, those that are so already


class WatchingSink(WritingSink):
    """Writes, and compares with the queue files that are there.

    Args:
        tree: gives the tree that takes the place of a directory.
        store: whose queues are replaced.
        skipped: see `WritingSink`.
    """

    def __init__(self, tree: Callable[..., OutputTree], store: Store, *, skipped: int = 0) -> None:
        super().__init__(tree, skipped=skipped)
        self._store, self._queues = store, Queues(store)
        # Queues of which all that is written, without a hole, is there already: most of them.
        self._same: dict[tuple[str, int], Stretch] = {}
        self._changed: dict[tuple[str, int], _Changed] = {}  # all others

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Take pieces of one file, in order of their place."""
        super().put(pieces)
        for piece in pieces:
            if piece.kind is QueueKind.CONSUME_QUEUE and not piece.is_filler:
                self._compare(piece)

    def _compare(self, piece: QueueFileBytes) -> None:
        first = (piece.file_start + piece.position) // CQ_UNIT_SIZE
        end = first + len(piece.data) // CQ_UNIT_SIZE
        name = (piece.topic, piece.queue_id)
        queue = self._queues.files.queue(*name)
        try:
            old = queue.packed(first, end - first) if queue is not None else b""
        except UnreadablePath:  # nobody can read it now, either
            _extend(self._changes(name).written, first, end)
            return
        is_same, (begin, until) = old == piece.data, self._same.get(name, (first, first))
        if is_same and name not in self._changed and until == first:
            self._same[name] = begin, end
            return
        changed = self._changes(name)
        _extend(changed.written, first, end)
        if is_same:
            _extend(changed.same, first, end)
        else:
            changed.before.append(places_of(old))
            changed.after.append(places_of(piece.data))

    def _changes(self, name: tuple[str, int]) -> _Changed:
        """Give what is written over in a queue, to add to it."""
        if name not in self._changed:
            self._changed[name] = self._as_before(name)
            self._same.pop(name, None)
        return self._changed[name]

    def _as_before(self, name: tuple[str, int]) -> _Changed:
        same = [self._same[name]] if name in self._same else []
        return _Changed(written=[*same], same=same)

    def refuse_harm(self, topic: str | None) -> None:
        """Refuse what was staged if a queue would lead to fewer sound messages.

        Args:
            topic: the one whose queues are replaced; None is all.

        Raises:
            NotSound: one would.
        """
        store = self._store
        with self._queues as queues, LogReader(store.old_commitlog, store.commitlog) as log:
            for queue in queues.files.queues():  # none is kept: there may be 100,000
                name = (queue.topic, queue.queue_id)
                is_written = name in self._changed or name in self._same
                if topic is not None and (topic != queue.topic or not is_written):
                    continue
                changed = self._changed.get(name) or self._as_before(name)
                fewer = self._out_of_reach(queue, changed, queues, log)
                if fewer > 0:
                    harm = f"{counted(fewer, 'message')} of topic {name[0]} queue {name[1]} "
                    raise NotSound(
                        path=str(store.root), harm=f"{harm}would be out of reach", instead=INSTEAD
                    )

    def _out_of_reach(
        self, queue: QueueUnits, changed: _Changed, queues: Queues, log: LogReader
    ) -> int:
        """Count messages that go: units that are written over, and all beside what is written."""
        try:
            rest = places_in(queue, changed.written, inside=False)
            return messages_out_of_reach(
                [*changed.before, rest],
                changed.after,
                partial(places_in, queue, changed.same),
                partial(is_record_of, log, queue.topic, queue.queue_id, queues.files.queue),
            )
        except UnreadablePath:
            return 0


def _extend(stretches: list[Stretch], first: int, end: int) -> None:
    """Add a stretch, as part of the last one where it follows that."""
    if stretches and stretches[-1][1] == first:
        stretches[-1] = (stretches[-1][0], end)
    else:
        stretches.append((first, end))
