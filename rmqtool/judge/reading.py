"""Read a part of a log as `scan` does, and say of each batch what is damaged.

What a read says of damage comes from here: tables, extracts and new logs tell the same of the same
bytes. Rules that need other files, or a broker.conf, are those of a validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import COMMONEST
from rmqtool.broker.rules import Rules
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_commitlog import CL_CHAIN, CL_MAGIC, CL_STALE, CL_TAIL
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.formats.properties import are_torn
from rmqtool.judge.bridge import is_bridge
from rmqtool.judge.dledger import DLedgerEntryJudge
from rmqtool.judge.message import RecordJudge, RecordOptions
from rmqtool.judge.tail import fits, stale_record, tail_code
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Batch, Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.scan.topics import TopicTable
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment

LOST: Final = frozenset({Extent.GAP, Extent.UNUSED})  # what may have taken the end of a record
# At a light queue's number that cannot be parsed, dispatch ends: whoever has such queues loses all.
RULES: Final = DispatchRules(Rules(COMMONEST), multi_dispatch=True)


def judged(
    part: SegmentPart, options: ScanOptions, *, start: int | None = None, is_copy: bool = False
) -> Iterator[Batch]:
    """Tile a part with batches that know what is damaged in them.

    After the last byte of a file, one more batch tells of each defect of its end: it has no bytes,
    or those that the file ought to have.

    Args:
        part: which bytes.
        options: what to read; what is not read is not judged.
        start: where an extent is known to begin; None to find out.
        is_copy: of a compaction log, whose records have the property CRC of another place.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises.
    """
    judge = _PartJudge(part.segment, is_copy=is_copy)
    end = 0
    for batch in scan(part, options, start=start):
        end = batch.end
        judge.take(batch)
        yield batch
    if end >= part.segment.size:  # also where an extent of this part covers the parts after it
        yield from judge.end()


def judged_records(batch: Batch) -> Batch:
    """Mark what is damaged in records that were read one by one."""
    _PartJudge(batch.segment, is_copy=False).mark(batch)
    return batch


def ends_in_zero(batch: Batch) -> bool:
    """Tell whether the last record of a batch ends in a zero, as none does that is whole.

    Properties are text. A sector that was zeroed takes the end of the record in front of it, which
    no checksum covers. A bridge ends in the length of the properties that it lacks.
    """
    last, value = batch.count - 1, batch.matrix.item
    if value(row.BODY_START, last) < 0 or is_bridge(batch, last):
        return False  # not read whole
    end = value(row.RECORD_START, last) + value(row.SIZE, last)
    return bool(batch.window.item(end - 1) == 0)


class _PartJudge:
    """Judges the batches of one scan."""

    def __init__(self, segment: Segment, *, is_copy: bool) -> None:
        self._segment = segment
        self._records = RecordJudge(RecordOptions(is_copy=is_copy, rules=RULES, damage_only=True))
        self._entries = DLedgerEntryJudge(None) if segment.entry_header else None
        self._last: Extent | None = None

    def take(self, batch: Batch) -> None:
        """Mark what is damaged."""
        before, self._last = self._last, batch.kind
        if batch.kind is Extent.RECORD:
            self.mark(batch)
            self._mark_torn(batch)
            if self._entries is not None:
                self._mark(batch, self._entries.judge(batch), of_entries=True)
        elif batch.kind is Extent.GAP and batch.code == CL_TAIL:
            batch.code = _of_tail(batch)
        elif batch.kind is Extent.UNUSED and self._segment.is_followed and before is not Extent.GAP:
            # Zeros after a gap belong to it; elsewhere a blank closes a file that others follow.
            batch.code = CL_CHAIN if batch.position else CL_MAGIC

    def mark(self, batch: Batch) -> None:
        """Mark records that are damaged by themselves."""
        self._mark(batch, self._records.judge(batch))

    def _mark(self, batch: Batch, findings: Iterator[Finding], *, of_entries: bool = False) -> None:
        for finding in findings:
            if finding.severity is Severity.DAMAGE and finding.position is not None:
                header = finding.length or 0 if of_entries else 0
                batch.damage.setdefault(finding.position + header, finding.code)

    def _mark_torn(self, batch: Batch) -> None:
        """Mark a last record whose end is lost, with what follows: no checksum covers it."""
        last, value = batch.count - 1, batch.matrix.item
        if not batch.has_texts or value(row.BODY_START, last) < 0 or is_bridge(batch, last):
            return  # not read whole, or without properties
        end = value(row.RECORD_START, last) + value(row.SIZE, last)
        start = value(row.PROPERTIES_START, last)
        is_zero = ends_in_zero(batch)
        if is_zero or (start >= 0 and are_torn(batch.window[start:end].tobytes())):
            following = _after(batch)
            # At the end of a log without damage, properties may be as odd as a client makes them.
            if following is not None and following.kind in (LOST if is_zero else {Extent.GAP}):
                code = following.code
                if code in {None, CL_TAIL}:  # a file that others follow has no tail
                    code = CL_MAGIC if batch.segment.is_followed else CL_TAIL
                batch.damage.setdefault(value(row.POSITION, last), code)

    def end(self) -> Iterator[Batch]:
        """Give the defects of the end of the file."""
        segment = self._segment
        if self._last is Extent.RECORD and segment.is_followed:
            yield missing(segment, CL_CHAIN)
        if segment.longer:
            yield missing(segment, FS_LEN)
        if segment.missing_after:
            yield missing(segment, FS_LEN, segment.missing_after)


def _of_tail(batch: Batch) -> Code:
    """Say what lies behind the last record of a file, beside the scan."""
    segment = batch.segment
    with segment.open() as file:
        tail = file, segment, batch.position, batch.length
        if not segment.is_followed and stale_record(*tail) is not None:
            return CL_STALE
        code = tail_code(*tail)
        is_torn = not segment.is_followed and fits(file, segment, batch.position)
        return CL_MAGIC if code == CL_TAIL and not is_torn else code


def _after(batch: Batch) -> Batch | None:
    """Look at what follows a batch, beside the scan, whose window is still in use."""
    segment = batch.segment
    if batch.end >= segment.size:
        return None
    part = SegmentPart(segment, batch.end, min(batch.end + 1, segment.size))
    return next(scan(part, ScanOptions(body_crc=False, texts=False), start=batch.end), None)


def missing(segment: Segment, code: Code, length: int = 0) -> Batch:
    """Give a batch for bytes that a file ought to have at its end, or for what is wrong there."""
    nothing = np.empty((row.ROWS, 0), np.int64)
    return Batch(
        kind=Extent.GAP,
        segment=segment,
        position=segment.size,
        length=length,
        code=code,
        count=0,
        matrix=nothing,
        window=np.empty(0, np.uint8),
        key_matrix=np.empty((2, 0), np.int64),
        key_count=0,
        topics=TopicTable(),
    )
