"""Compare batch queues with what the repaired log dispatches.

Units of a batch queue have no place of their own: they follow each other in the order of the log,
and are found by the queue offset in them. So the unit of a lost record is left out, and what stands
behind it moves up. Source: BatchConsumeQueue#recover, #searchOffsetFromFiles, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.check.inspection import Inspection
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.store.segment import MappedFiles

UNIT: Final = BATCH_CQ_UNIT.size
CHUNK: Final = UNIT << 14


@dataclass(slots=True)
class RepairedBatchQueue:
    """One batch queue while it is compared.

    Attributes:
        topic: as text.
        queue_id: of the topic.
        path: of its directory.
        files: its files; None when it has none.
        end: byte of the queue behind the last unit that the log wants.
        patches: (byte of the queue, bytes) of what differs.
        time: store time of the last unit, ms.
    """

    topic: str
    queue_id: int
    path: str
    files: MappedFiles | None
    end: int
    patches: list[tuple[int, bytes]] = field(default_factory=list)
    time: int = 0


class BatchRepair:
    """All batch queues of a store."""

    def __init__(self, inspection: Inspection) -> None:
        self.queues: dict[tuple[bytes, int], RepairedBatchQueue] = {}
        self._inspection = inspection
        length = inspection.store.geometry.batch_queue.value
        self.file_length = length // UNIT * UNIT

    def add(self, runs: Iterable[QueueRun]) -> None:
        """Take runs in the order of the log."""
        for run in runs:
            queue = self.queues.get((run.topic, run.queue_id)) or self._open(run)
            wanted = bytes(run.units)
            found = _read(queue.files, queue.end, len(wanted))
            if found != wanted:
                queue.patches.append((queue.end, wanted))
            queue.end += len(wanted)
            queue.time = run.store_timestamp

    def finish(self) -> None:
        """Cut what stands behind the last unit."""
        for queue in self.queues.values():
            for segment in queue.files.segments if queue.files else ():
                begin = max(queue.end, segment.start)
                while begin < segment.end:
                    raw = _read(queue.files, begin, min(CHUNK, segment.end - begin))
                    used = raw.rstrip(b"\0")
                    if not raw:
                        break
                    if used:
                        queue.patches.append((begin, bytes(len(used))))
                    begin += len(raw)

    def _open(self, run: QueueRun) -> RepairedBatchQueue:
        topic = run.topic.decode("utf-8", "backslashreplace")
        found = self._inspection.family("batch_queues").get((topic, run.queue_id))
        path = found.path if found else f"batchconsumequeue/{topic}/{run.queue_id}"
        files = self._inspection.files_of(found) if found else None
        start = self._first(files)
        queue = RepairedBatchQueue(topic, run.queue_id, path, files, start)
        self.queues[run.topic, run.queue_id] = queue
        return queue

    def _first(self, files: MappedFiles | None) -> int:
        """Find the first unit that has not expired."""
        log_start = self._inspection.store.commitlog.start
        if files is None or not files.segments:
            return 0
        position = files.start
        while raw := _read(files, position, CHUNK):
            units = np.frombuffer(raw, BATCH_CQ_UNIT.dtype, len(raw) // UNIT)
            is_used = (units["size"] > 0) & (units["physical_offset"] < log_start)
            count = int(np.argmin(is_used)) if not is_used.all() else len(units)
            position += count * UNIT
            if count < len(units) or not count:
                break
        return position


def _read(files: MappedFiles | None, start: int, length: int) -> bytes:
    """Read units; zeros stand for those that no file has."""
    raw = bytearray()
    while len(raw) < length:
        segment = files.at(start + len(raw)) if files else None
        if segment is None:
            break
        with segment.open() as file:
            part = file.read_at(start + len(raw) - segment.start, length - len(raw))
        if not part:
            break
        raw += part
    return bytes(raw)
