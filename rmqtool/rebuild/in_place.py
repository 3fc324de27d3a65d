"""Put rebuilt files in place of a store's own: under the broker's lock, journalled, undoable."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.formats.consume_queue import QueueKind
from rmqtool.memory import give_back_rest
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.queues.files import PlainUnits
from rmqtool.queues.reach import each_place, is_record_of, messages_out_of_reach, places_in
from rmqtool.rebuild.options import StoreType
from rmqtool.rebuild.sinks import INDEX, WritingSink
from rmqtool.store.address import place_of
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.names import name_problem
from rmqtool.store.place import Place
from rmqtool.store.queues import QueueFiles
from rmqtool.store.record_heads import LogReader, OpenFiles
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.tree import open_store
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.queues.reach import Int64s
    from rmqtool.queues.units import QueueUnits
    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree


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
    result = run(WritingSink(trees.tree, skipped=trees.skipped))
    give_back_rest()
    trees.finish(result)
    _refuse_harm(trees, open_store(options.store, options.broker_conf))
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

    def replaced(
        self, queues: Queues, opened: OpenFiles
    ) -> Iterator[tuple[QueueUnits, QueueUnits]]:
        """Yield queues that are there, each with what takes its place, where trees differ."""
        for parts, tree in self._trees.items():
            if parts[0] != QueueKind.CONSUME_QUEUE or self._edits.is_there("/".join(parts)):
                continue
            above = Place(tree.location)
            for queue in _queues_in(queues, parts):
                name = queue.topic, queue.queue_id
                place = above if parts[1:] else above.child(name[0]).child(str(name[1]))
                yield queue, PlainUnits.of(QueueFiles(*name, place, queue.path), opened)

    def places(
        self, queues: Queues, opened: OpenFiles, topic: str, queue_id: int
    ) -> Iterator[Int64s]:
        """Give where a queue leads to, as it is and as it will be: physical offsets."""
        queue = queues.files.queue(topic, queue_id)
        if queue is not None:
            yield from each_place(queue)
        tree = self._trees.get((QueueKind.CONSUME_QUEUE,))
        if tree is None or name_problem(topic):
            return
        place = Place(tree.location).child(topic).child(str(queue_id))
        if place.stat() is not None:
            path = f"{QueueKind.CONSUME_QUEUE}/{topic}/{queue_id}"
            yield from each_place(PlainUnits.of(QueueFiles(topic, queue_id, place, path), opened))

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


def _refuse_harm(trees: _Trees, store: Store) -> None:
    """Refuse what was staged if a queue would lead to fewer sound messages.

    Args:
        trees: all that is staged.
        store: whose queues are replaced.

    Raises:
        NotSound: one would.
    """
    logs = store.old_commitlog, store.commitlog
    with Queues(store) as queues, OpenFiles() as opened, LogReader(*logs) as log:
        for present, staged in trees.replaced(queues, opened):
            name = (present.topic, present.queue_id)
            places = partial(trees.places, queues, opened)
            is_sound = partial(is_record_of, log, *name, places)
            fewer = _out_of_reach(present, staged, is_sound)
            if fewer > 0:
                harm = f"{counted(fewer, 'message')} of topic {name[0]} queue {name[1]} "
                raise NotSound(
                    path=str(store.root), harm=f"{harm}would be out of reach", instead=INSTEAD
                )


def _queues_in(queues: Queues, parts: tuple[str, ...]) -> Iterable[QueueUnits]:
    """Give the queues below a path of their family: all, or the one of a topic and a number."""
    if len(parts) == 1:
        return queues.files.queues()
    queue = queues.files.queue(parts[1], int(parts[2]))
    return [] if queue is None else [queue]


def _out_of_reach(present: QueueUnits, staged: QueueUnits, is_sound: Callable[[int], bool]) -> int:
    """Count the messages that a queue leads to, and the one in its place would not."""
    try:
        before = places_in(present)
    except UnreadablePath:  # nobody can read it now, either
        return 0
    return messages_out_of_reach([before], [places_in(staged)], is_sound)
