"""Rows of the table `segments`: what one file of a log holds, and what is damaged in it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_layout import FS_GAP
from rmqtool.judge.reading import judged
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.spark.tables import CODE, OF_FILES
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.scan.batch import Batch
    from rmqtool.spark.gone import Gone
    from rmqtool.spark.plan import LogTask


def segment_rows(task: LogTask, names: Sequence[str], gone: Gone) -> list[dict[str, Any]]:
    """Give the row of a segment, none of an expired one; what was read before an error counts.

    Args:
        task: of the whole segment.
        names: columns: what the directory says takes no look into the file.
        gone: tells which ones have expired.
    """
    segment = task.part.segment
    summary = _Summary()
    unread = None
    is_judged = CODE in names  # to find out what is damaged takes all of a record
    wanted = ScanOptions(
        body_crc=is_judged,
        texts=is_judged,
        property_crc=is_judged,
        is_dledger=task.is_dledger,
    )
    if segment.missing_before:
        summary.code = str(FS_GAP)
    try:
        if not OF_FILES.issuperset(names):
            for batch in judged(SegmentPart(segment, 0, segment.size), wanted, start=0):
                summary.take(batch)
    except UnreadablePath as error:
        if gone.has(segment.path, error):
            return []
        unread = error.reason
    found = {
        "segment": segment.path,
        "start": segment.start,
        "size": segment.size,
        "allocated": segment.allocated,
        "modified_time": segment.mtime_ms * 1000,
        "records": summary.records,
        **{f"{kind}_bytes": summary.lengths[kind] for kind in summary.lengths},
        "gaps": summary.gaps,
        **summary.edges,
        "unread": unread,
        "code": summary.code,
    }
    return [found]


class _Summary:
    """Adds up the extents of a segment."""

    def __init__(self) -> None:
        self.records = self.gaps = 0
        self.lengths = {str(kind): 0 for kind in Extent}
        self.edges: dict[str, int] = {}
        self.code: str | None = None

    def take(self, batch: Batch) -> None:
        """Count a batch; what the file ought to have past its end is no byte of it."""
        code = batch.code or next(iter(batch.damage.values()), None)
        if code is not None:
            self.code = self.code or str(code)
        if batch.position >= batch.segment.size:
            return
        self.lengths[str(batch.kind)] += batch.length
        self.gaps += batch.kind is Extent.GAP
        if batch.kind is not Extent.RECORD:
            return
        self.records += batch.count
        offsets, times = batch.columns[row.PHYSICAL_OFFSET], batch.columns[row.STORE_TIMESTAMP]
        edges = self.edges
        edges.setdefault("first_physical_offset", int(offsets[0]))
        edges["last_physical_offset"] = int(offsets[-1])
        low, high = int(times.min()) * 1000, int(times.max()) * 1000
        edges["first_store_time"] = min(edges.get("first_store_time", low), low)
        edges["last_store_time"] = max(edges.get("last_store_time", high), high)
