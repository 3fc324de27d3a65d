"""Judge the compaction store: its files, and that each log has its queue: CC-PAIR.

Source: CompactionLog#checkSanity (SparseConsumeQueue files are named like their log), 5.1.0 to
5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.layout import mapped_files
from rmqtool.findings.finding import At, finding, of_queue
from rmqtool.findings.registry_consume_queue import CC_PAIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding


def check(inspection: Inspection) -> Iterator[Finding]:
    """Compare the file names of logs and queues."""
    logs = inspection.family("compaction_logs")
    queues = inspection.family("compaction_queues")
    for name in sorted({*logs, *queues}):
        log, queue = logs.get(name), queues.get(name)
        log_files = inspection.files_of(log) if log else None
        queue_files = inspection.files_of(queue) if queue else None
        if log_files:
            yield from of_queue(mapped_files(inspection, log_files), *name)
        log_starts = {one.start: one.path for one in log_files or ()}
        queue_starts = {one.start: one.path for one in queue_files or ()}
        for start in sorted(log_starts.keys() - queue_starts.keys()):
            at = At(log_starts[start], topic=name[0], queue_id=name[1])
            yield finding(CC_PAIR, at, "the log file has no queue file")
        for start in sorted(queue_starts.keys() - log_starts.keys()):
            at = At(queue_starts[start], topic=name[0], queue_id=name[1])
            yield finding(CC_PAIR, at, "the queue file has no log file")
        inspection.account.files += len(log_starts) + len(queue_starts)
    yield from inspection.pending()
    if logs:
        inspection.leave_out("records of the compaction log", "only file names are compared")
