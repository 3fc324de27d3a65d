"""Put rebuilt files in place of a store's own: under the broker's lock, journalled, undoable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.derive.queue_runs import QueueKind
from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import are_real
from rmqtool.rebuild.options import StoreType
from rmqtool.rebuild.sinks import INDEX, WritingSink
from rmqtool.store.address import place_of
from rmqtool.store.branch import BranchKind
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.place import Place
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.tree import open_store
from rmqtool.words import counted
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.queues.units import QueueUnits
    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.store.segment import MappedFiles
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
        resumed = [one.told for one in resume(lock)]
        with Transaction(lock, command=COMMAND) as edits:
            result = stage(lock, edits, options, run)
            _refuse_harm(options, result)
            _set_checkpoint(edits, lock.root.as_posix(), result, options)
        if edits.is_changing:
            result.undo = edits.undo_directory.name
        result.fsync_seconds = edits.fsync_seconds
    result.resumed = resumed
    return result


def _refuse_harm(options: RebuildOptions, result: RebuildResult) -> None:
    """Refuse to replace a queue by one that leads to fewer messages.

    Where records state queue offsets that are taken or impossible, units on disk may know better.

    Raises:
        NotSound: a queue would lead to fewer.
    """
    store = open_store(options.store, options.broker_conf)
    with Queues(store) as queues:
        for one in result.queues:
            if one.kind is not QueueKind.CONSUME_QUEUE or not one.tally.left_out:
                continue
            there = queues.files.queue(one.topic, one.queue_id)
            fewer = (0 if there is None else _messages(there, store.commitlog)) - one.tally.units
            if fewer > 0:
                harm = f"{counted(fewer, 'message')} of topic {one.topic} queue {one.queue_id} "
                raise NotSound(
                    path=options.store,
                    harm=f"{harm}would be out of reach",
                    instead="rmqtool repair, which keeps the units of such queues",
                )


def _messages(queue: QueueUnits, log: MappedFiles) -> int:
    """Count the places of the log that a queue points to."""
    found = [
        units["physical_offset"][are_real(units)].astype(np.int64) for _, units in queue.used()
    ]
    places = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
    return int(((places >= log.start) & (places < log.end)).sum())


def stage(
    lock: StoreLock,
    edits: Transaction,
    options: RebuildOptions,
    run: Callable[[WritingSink], RebuildResult],
) -> RebuildResult:
    """Rebuild into trees that a transaction swaps in at its end.

    Raises:
        RepairError: the commitlog is a link of the root to a place that no configuration names.
        WriteFailed: the system refused.
    """
    # Queues of somebody else's records would be for the owner of the store to read.
    Workplace(lock.directory, lock.directory, lock.elsewhere).real(str(BranchKind.COMMITLOG))
    trees = _Trees(edits, options)
    result = run(WritingSink(trees.tree, skipped=trees.skipped))
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
