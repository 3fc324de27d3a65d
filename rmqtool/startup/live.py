"""A store whose broker runs: the start is foretold as if the broker died now.

A process that dies loses nothing that it has written; only all files must be seen at one moment.
That is when, before its directories were listed, the newest record that a queue file points to was
dispatched: brokers dispatch in the order of the log, so the records before it were whole by then,
and had their units. Queues in RocksDB were copied before, and may lag as far after as the last
flush: without queue files the log goes up to the end of its newest sound record. What comes later
counts as zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import are_real
from rmqtool.startup.units import chunks
from rmqtool.startup.walk import segment_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.formats.layout import Layout
    from rmqtool.startup.files import FileQueue, ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.tree import Store


def settled(store: Store, predict: Callable[[], Prediction]) -> Prediction:
    """Look again where something is wrong, and believe what stays; files roll, and expire.

    Args:
        store: beside its broker.
        predict: looks at the store.

    Raises:
        UnreadablePath: a file may not be read.
    """
    return store.moment.settled(
        predict, lambda seen: () if seen.is_whole else _harm(seen), lambda seen, _: seen
    )


def _harm(prediction: Prediction) -> tuple[object, ...]:
    counts = (
        *(prediction.lost, prediction.cut, prediction.unlisted, prediction.misdelivered),
        *(prediction.compacted, prediction.missing, prediction.light),
    )
    return (
        *(count.messages for count in counts),
        prediction.refusals,
        prediction.later_steps,
        prediction.timers_lost,
    )


def reached(store: Store) -> int:
    """Give the end of the newest record that a queue file points to; 0 without one.

    Raises:
        UnreadablePath: a queue cannot be read.
    """
    with Queues(store) as queues:
        newest = queues.newest((queues.files, queues.batches), store.commitlog.start)
    return newest.end if newest else 0


def freeze(model: Model) -> None:
    """Have everything that the broker writes from a moment on read as zeros.

    Args:
        model: before anything was read of its files; judged up to what `reached` gave before they
            were listed.

    Raises:
        UnreadablePath: a file may not be read.
    """
    queues = [*model.all_queues()]
    end = (model.judged_up_to if queues else 0) or _log_end(model)
    for queue in queues:
        _freeze_queue(queue.files, queue.layout, end)
    if not end:
        return
    model.judged_up_to = end
    for file in model.commitlog.files:
        if file.end > end:
            file.limit = max(end - file.start, 0)


def _log_end(model: Model) -> int:
    """Give the end of the last sound record in the newest file of the log; 0 without a log.

    What is damaged before it stays in sight, and a record that is being written does not.
    """
    from rmqtool.scan import columns as row
    from rmqtool.scan.batch import Extent, ScanOptions
    from rmqtool.scan.message import scan

    last = model.commitlog.last
    if last is None:
        return 0
    end = 0
    for batch in scan(segment_of(last), ScanOptions(body_crc=True)):
        if batch.kind is not Extent.RECORD:
            continue
        columns = batch.columns[:, : batch.count]
        has_body = columns[row.BODY_LENGTH] > 0
        is_sound = ~has_body | (columns[row.BODY_CRC] == columns[row.BODY_CRC_FOUND])
        ends = (columns[row.POSITION] + columns[row.SIZE])[is_sound]
        end = max(end, int(ends.max(initial=0)))
    return last.start + end


def _freeze_queue(files: FileQueue, layout: Layout, end: int) -> None:
    """Freeze one queue at the end of the log.

    The files before the last one that has a unit are full, and no broker writes to them.
    """
    for file in reversed(files.files):
        file.limit = _limit(file, layout, end)
        if file.limit:
            return


def _limit(file: ModelFile, layout: Layout, end: int) -> int:
    """Give the end of the last unit in a file that points to a record before the end of the log."""
    last = 0
    with file.open() as reader:
        for begin, stop in reader.stretches(file.length, layout.size):
            position = begin
            for units in chunks(reader, layout, begin, stop):
                real = np.flatnonzero(
                    are_real(units) & (units["physical_offset"].astype(np.int64) < end)
                )
                if real.size:
                    last = position + (int(real[-1]) + 1) * layout.size
                position += units.nbytes
    return last
