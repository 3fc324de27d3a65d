"""Put rebuilt files in place of a store's own: under the broker's lock, journalled, undoable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.derive.queue_runs import QueueKind
from rmqtool.errors import UnreadablePath
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.rebuild.harm import WatchingSink
from rmqtool.rebuild.options import StoreType
from rmqtool.rebuild.sinks import INDEX
from rmqtool.store.address import place_of
from rmqtool.store.branch import BranchKind
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.place import Place
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.tree import open_store
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.rebuild.sinks import WritingSink
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
        resumed = [one.sentence for one in resume(lock)]
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
    Workplace(lock.directory, lock.directory, lock.elsewhere).real(str(BranchKind.COMMITLOG))
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
