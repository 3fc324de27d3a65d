"""Queues that a replica lends: those that no log has a record of any more.

All other queues, and the index, follow from the log, in the same bytes. But where all records of a
queue have expired, its last unit alone says which queue offset comes next: without it the broker
begins at 0 again, and groups that have consumed more pass over what comes.
Source: ConsumeQueue#deleteExpiredFile (the last file stays), QueueOffsetOperator, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import is_deleted
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_consume_queue import CQ_GAP
from rmqtool.formats.config_shapes import topics
from rmqtool.repair.log.content import Content, LentBytes
from rmqtool.repair.plans import place_of

if TYPE_CHECKING:
    from rmqtool.queues.discovery import Queues
    from rmqtool.queues.units import QueueUnits
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store

DIRECTORY: Final = "consumequeue"
TOPICS: Final = "topics.json"


def lend_queues(
    writer: EditWriter, store: Store, other: Store, queues: tuple[Queues, Queues]
) -> None:
    """Bring the files of queues of which both logs have no record, and only the replica the end.

    Args:
        writer: takes the edits.
        store: that is repaired.
        other: that lends.
        queues: of both, in this order.
    """
    own, theirs = queues
    logs = [one.commitlog for one in (store, other) if one.commitlog]
    start, end = (
        min((log.start for log in logs), default=0),
        max((log.end for log in logs), default=0),
    )
    known = {topic.topic for topic in topics(store.config(TOPICS).document)}
    try:
        for queue in theirs.files.queues():
            if is_deleted(queue.topic, known, ()):
                continue
            if _is_lent(own.files.queue(queue.topic, queue.queue_id), queue, (start, end)):
                for segment in queue.files:
                    _bring(writer, store, other, segment)
    except UnreadablePath:
        return  # what cannot be read lends nothing


def _is_lent(own: QueueUnits | None, theirs: QueueUnits, log: tuple[int, int]) -> bool:
    """Tell whether a queue is sound, wholly expired, and goes further than the own one.

    Args:
        own: the queue of the store that is repaired, whose units may be noise; None without.
        theirs: the one that is lent.
        log: where both logs begin and end.
    """
    start, end = log
    span = theirs.span(start)
    if span.last is None or span.messages or not _is_sound(theirs, start):
        return False
    own_end = 0
    for number, units in own.used() if own is not None else ():
        places = np.where(units["size"] > 0, units["physical_offset"], -1).astype(np.int64)
        if ((places >= start) & (places < end)).any():
            return False
        expired = np.flatnonzero((places >= 0) & (places < start))
        own_end = number + int(expired[-1]) + 1 if expired.size else own_end
    return own_end < span.max_offset


def _is_sound(queue: QueueUnits, start: int) -> bool:
    """Tell whether each unit of a queue lies past the one before, and before the log."""
    files = queue.files
    if any(file.size != files.file_length for file in files):
        return False
    last = -1
    for _, units in queue.used():
        places = units["physical_offset"][units["size"] > 0].astype(np.int64)
        if len(places) and (places[0] <= last or (np.diff(places) <= 0).any()):
            return False
        last = int(places[-1]) if len(places) else last
    return last < start


def _bring(writer: EditWriter, store: Store, other: Store, segment: Segment) -> None:
    """Bring one file of a queue."""
    place = segment.place
    path = f"{DIRECTORY}/{place.parent.parent.name}/{place.parent.name}/{place.name}"
    target = place_of(store.root, path)
    content = Content(segment.size, ((0, LentBytes(other.root, path, 0, segment.size)),))
    reason = f"from {other.root}: {segment.path}, bytes 0 to {segment.size}"
    if target.stat() is None:
        writer.create(target.location, content, CQ_GAP, reason, mtime_ms=segment.mtime_ms)
    else:
        writer.replace(target.location, content, CQ_GAP, reason)
