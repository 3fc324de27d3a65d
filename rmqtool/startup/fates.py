"""What becomes of queues and index: the model before the start against the model after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.queues.kinds import are_real
from rmqtool.startup.batch_pulls import pull_batches
from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.coverage import UnitCoverage, join
from rmqtool.startup.prediction import IndexFate, QueueFate
from rmqtool.startup.pull import LogExtent, Pull, pull_misnamed, reach
from rmqtool.startup.units import numbered_units, stored_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.indexes import ModelIndex
    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.startup.queues import ConsumeQueue

    Int64s = NDArray[np.int64]
    Pointers = tuple[str, Callable[[], tuple[Int64s, Int64s]]]
    FateKey = tuple[QueueKey, bool]


@dataclass(frozen=True, slots=True)
class Before:
    """The store before the start."""

    log: tuple[ModelFile, ...]  # files of the commitlog
    queues: dict[FateKey, tuple[ModelFile, ...]]  # files of each queue, by topic, number and kind
    counts: dict[FateKey, int]  # real units, likewise
    coverage: UnitCoverage  # what these units point to

    @classmethod
    def of(cls, model: Model) -> Before:
        """Take down what there is; files count as full then, so all their units are looked at.

        Raises:
            UnreadablePath: a file may not be read.
        """
        counts, queues = {}, {}
        coverage = UnitCoverage.of(model.commitlog.file_length)
        for queue in model.all_queues():
            offsets, sizes = join(stored_units(queue.files, queue.layout))
            coverage.add((queue.topic, queue.queue_id), (offsets, sizes))
            counts[_key(queue)] = len(offsets)
            queues[_key(queue)] = _copies(queue.files.files)
        return cls(_copies(model.commitlog.files), queues, counts, coverage)

    def units(self, queue: ConsumeQueue | BatchQueue) -> tuple[Int64s, Int64s]:
        """Give physical offsets and sizes of the real units that a queue had.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return join(self._stored(queue))

    def messages(self, queue: ConsumeQueue | BatchQueue) -> tuple[Int64s, Int64s]:
        """Give physical offsets of the real units that a queue had, and messages of each.

        Raises:
            UnreadablePath: a file may not be read.
        """
        parts = [units[are_real(units)] for units in self._stored(queue)]
        offsets = [units["physical_offset"].astype(np.int64) for units in parts]
        counts = [
            np.maximum(units["batch_size"].astype(np.int64), 1)
            if isinstance(queue, BatchQueue)
            else np.ones(len(units), np.int64)
            for units in parts
        ]
        none = np.empty(0, np.int64)
        return np.concatenate([none, *offsets]), np.concatenate([none, *counts])

    def pointers(self, model: Model) -> Iterator[Pointers]:
        """Yield the topic of each queue, by its number, and what asks for its `messages`."""
        for queue in sorted(model.all_queues(), key=lambda one: (one.topic, one.queue_id)):
            yield queue.topic, partial(self.messages, queue)

    def _stored(self, queue: ConsumeQueue | BatchQueue) -> Iterator[NDArray[Any]]:
        then, queue.files.files = queue.files.files, list(self.queues.get(_key(queue), ()))
        try:
            yield from stored_units(queue.files, queue.layout)
        finally:
            queue.files.files = then


def queue_fates(model: Model, before: Before) -> Iterator[QueueFate]:
    """Give what becomes of each queue, by topic and number, and tell the coverage what changes.

    Args:
        model: after the start.
        before: the store before it.

    Raises:
        UnreadablePath: a file may not be read.
    """
    log = LogExtent(model.commitlog)
    for queue in sorted(model.all_queues(), key=_key):
        parts = [*numbered_units(queue.files, queue.layout)]
        then = join(units for _, units in parts)
        was = before.counts.get(_key(queue), 0)
        if queue.appended or len(then[0]) != was:
            key = queue.topic, queue.queue_id
            before.coverage.change(key, before.units(queue), then)
        yield QueueFate(
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_batch=isinstance(queue, BatchQueue),
            units_before=was,
            minimum=queue.minimum,
            maximum=queue.maximum,
            units_cut=was + queue.appended - len(then[0]),
            units_appended=queue.appended,
            units_shifted=queue.shifted,
            readable=_readable(
                queue,
                parts,
                log,
                by_place=model.rules.pulls_by_place,
            ),
            deleted_files=tuple(queue.files.deleted),
            created_files=tuple(queue.files.created),
        )


def index_fate(index: ModelIndex) -> IndexFate:
    """Give what becomes of the key index."""
    return IndexFate(
        kept=tuple(file.path for file in index.files if file.path),
        deleted=tuple(file.path for file in index.destroyed),
        entries_kept=sum(file.entries for file in index.files) - index.added,
        entries_deleted=sum(file.entries for file in index.destroyed),
        entries_added=index.added,
        files_created=index.created,
    )


def _copies(files: list[ModelFile]) -> tuple[ModelFile, ...]:
    """Give the files as they are now: the broker's positions go down, and it writes."""
    return tuple(replace(file, written=[]) for file in files)


def _key(queue: ConsumeQueue | BatchQueue) -> FateKey:
    return (queue.topic, queue.queue_id), isinstance(queue, BatchQueue)


def _readable(
    queue: ConsumeQueue | BatchQueue,
    parts: list[tuple[int, NDArray[Any]]],
    log: LogExtent,
    *,
    by_place: bool,
) -> int:
    """Give how many messages a consumer gets who pulls a queue from its minimum on."""
    if isinstance(queue, BatchQueue):
        return pull_batches(queue, log)
    misnamed = pull_misnamed(queue, log, by_place=by_place)
    if misnamed is not None:
        return misnamed
    end = queue.maximum
    if queue.extension is not None and queue.extension.files.files:
        end = reach(queue, parts, queue.extension, reads_ahead=by_place)
    pull = Pull(log)
    files: dict[int, list[NDArray[Any]]] = {}
    for number, units in parts:
        handed_out = units[max(queue.minimum - number, 0) : max(end - number, 0)]
        files.setdefault(number * units.itemsize // queue.files.file_length, []).append(handed_out)
    for of_file in files.values():
        pull.add(np.concatenate(of_file) if len(of_file) > 1 else of_file[0])
    return pull.delivered
