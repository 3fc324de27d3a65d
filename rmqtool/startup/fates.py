"""What becomes of queues and index: the model before the start against the model after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.losses import real_units
from rmqtool.startup.prediction import IndexFate, QueueFate
from rmqtool.startup.pull import LogExtent, Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.indexes import Index
    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.startup.queues import ConsumeQueue


@dataclass(frozen=True, slots=True)
class Before:
    """The store before the start.

    Attributes:
        log: files of the commitlog.
        counts: real units by topic and queue number, of consume queues and batch queues.
        units: physical offsets that they point to, int64, sorted.
    """

    log: tuple[ModelFile, ...]
    counts: dict[tuple[QueueKey, bool], int]
    units: NDArray[np.int64]

    @classmethod
    def of(cls, model: Model) -> Before:
        """Take down what there is; files count as full then, so all their units are looked at.

        Raises:
            UnreadablePath: a file may not be read.
        """
        counts, offsets = {}, [np.empty(0, np.int64)]
        for queue in model.all_queues():
            count = 0
            for _, units in queue.units():
                real = units["physical_offset"][real_units(units)].astype(np.int64)
                count += real.size
                offsets.append(real)
            counts[_key(queue)] = count
        log = tuple(replace(file) for file in model.commitlog.files)
        return cls(log, counts, np.sort(np.concatenate(offsets)))


def queue_fates(model: Model, before: Before) -> Iterator[QueueFate]:
    """Give what becomes of each queue, by topic and number.

    Raises:
        UnreadablePath: a file may not be read.
    """
    log = LogExtent(model.commitlog)
    for queue in sorted(model.all_queues(), key=_key):
        pull, length = Pull(log), queue.files.file_length
        count = 0
        for number, units in queue.units():
            real = real_units(units)
            count += int(real.sum())
            handed_out = _queue_offsets(queue, number, units) >= queue.minimum
            pull.add(units[handed_out], begins_file=number * units.itemsize % length == 0)
        was = before.counts.get(_key(queue), 0)
        yield QueueFate(
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_batch=isinstance(queue, BatchQueue),
            units_before=was,
            minimum=queue.minimum,
            maximum=queue.maximum,
            units_cut=was + queue.appended - count,
            units_appended=queue.appended,
            units_shifted=queue.shifted,
            readable=pull.delivered,
            deleted_files=tuple(queue.files.deleted),
            created_files=tuple(queue.files.created),
        )


def index_fate(index: Index) -> IndexFate:
    """Give what becomes of the key index."""
    return IndexFate(
        kept=tuple(file.path for file in index.files if file.path),
        deleted=tuple(file.path for file in index.destroyed),
        entries_deleted=sum(file.entries for file in index.destroyed),
        entries_added=index.added,
        files_created=index.created,
    )


def _key(queue: ConsumeQueue | BatchQueue) -> tuple[QueueKey, bool]:
    return (queue.topic, queue.queue_id), isinstance(queue, BatchQueue)


def _queue_offsets(
    queue: ConsumeQueue | BatchQueue, number: int, units: NDArray[Any]
) -> NDArray[np.int64]:
    """Give the queue offset that each unit begins with."""
    if isinstance(queue, BatchQueue):
        bases: NDArray[np.int64] = units["msg_base_offset"].astype(np.int64)
        return bases
    return np.arange(number, number + len(units), dtype=np.int64)
