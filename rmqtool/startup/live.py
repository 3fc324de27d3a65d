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

from rmqtool.queues.as_of import CutPlace, as_of
from rmqtool.queues.discovery import Queues
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.startup.walk import segment_of
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.startup.model import Model
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.segment import Segment
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


def dispatched(store: Store) -> int:
    """Give the physical offset up to which a running broker has dispatched; 0 where nothing tells.

    Args:
        store: before its directories were listed; its queues are in files.

    Raises:
        UnreadablePath: a queue, or the log, cannot be read.
    """
    with Queues(store) as queues:
        newest = queues.newest((queues.files, queues.batches), store.commitlog.start)
    if newest is not None:
        return newest.end
    return _log_end(reversed([*store.commitlog]))


def cut_log(store: Store, model: Model) -> None:
    """Cut the log where it ends by now: queues in RocksDB were copied before.

    Raises:
        UnreadablePath: the log cannot be read.
    """
    if not (end := _log_end(map(segment_of, reversed(model.commitlog.files)))):
        return
    model.judged_up_to = end
    (log, *_) = as_of(store, end).branches_of(ArtefactKind.COMMITLOG)
    for file in model.commitlog.files:
        if file.place is not None and isinstance(log.place, CutPlace):
            file.place = log.place.at(file.place)


def _log_end(files: Iterable[Segment]) -> int:
    """Give the end of the last sound record in the newest file that has one; 0 without a record.

    What is damaged before it stays in sight, and a record that is being written does not.

    Args:
        files: of the log, the newest first.
    """
    for segment in files:
        end, whole = 0, SegmentPart(segment, 0, segment.size)
        for batch in scan(whole, ScanOptions(body_crc=True)):
            if batch.kind is not Extent.RECORD:
                continue
            columns = batch.columns[:, : batch.count]
            has_body = columns[row.BODY_LENGTH] > 0
            is_sound = ~has_body | (columns[row.BODY_CRC] == columns[row.BODY_CRC_FOUND])
            ends = (columns[row.POSITION] + columns[row.SIZE])[is_sound]
            end = max(end, int(ends.max(initial=0)))
        if end:
            return segment.start + end
    return 0
