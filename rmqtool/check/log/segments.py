"""Judge what lies between records: blanks, gaps, tails, files that do not end as they must.

Source: CommitLog.DefaultAppendMessageCallback#doAppend, CommitLog#recoverNormally,
MappedFileQueue#truncateDirtyFiles, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import MAX_MESSAGE_SIZE
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Code, Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import (
    CL_BLANKDATA,
    CL_BLANKLEN,
    CL_BLANKSIZE,
    CL_CHAIN,
    CL_MAGIC,
    CL_STALE,
    CL_TAIL,
)
from rmqtool.findings.registry_layout import FS_ZERO
from rmqtool.formats.dledger import DLEDGER_BLANK
from rmqtool.formats.message import (
    BLANK,
    END_FILE_MIN_BLANK_LENGTH,
)
from rmqtool.judge.tail import fits, stale_record, tail_code
from rmqtool.scan.batch import Extent
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.derive.runs import Stretch
    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment

RECORD_OVERHEAD: Final = 65_536  # MessageExtEncoder: what a record may be longer than its body
ENDS_IN_BLANK: Final = "a blank record"


class SegmentJudge:
    """Judges one segment after the other; its end is judged when the next one begins.

    Attributes:
        end: physical offset after the last record, and after a blank that closes the log.
    """

    def __init__(self, inspection: Inspection, lost: LostRanges, last_used: int) -> None:
        self._inspection, self._lost = inspection, lost
        self._last_used = last_used
        self._segment: Segment | None = None
        self._stretches: list[Stretch] = []
        self._end = 0  # position after the last extent of the segment
        self._largest_blank = _largest_blank(inspection)
        self.end = 0

    def take(self, segment: Segment, stretches: tuple[Stretch, ...], end: int) -> Iterator[Finding]:
        """Take what is no record in a part of a segment."""
        if self._segment is not segment:
            yield from self.finish()
            self._segment, self._stretches = segment, []
        self._stretches += stretches
        self._end = end
        if segment.start <= self._last_used:  # at once: entries that point here are its consequence
            try:
                for stretch in stretches:
                    yield from self._judge(segment, stretch)
            except UnreadablePath as error:  # it expired since it was scanned, or its disk gave up
                yield self._inspection.unread(segment.path, error)

    def finish(self) -> Iterator[Finding]:
        """Judge the segment that was taken last."""
        segment, self._segment = self._segment, None
        if segment is None:
            return
        if segment.start > self._last_used:
            if any(stretch.kind is Extent.UNUSED for stretch in self._stretches):
                yield finding(FS_ZERO, At(segment.path, 0, segment.size, segment.start))
            return
        yield from self._judge_end(segment)

    def _judge(self, segment: Segment, stretch: Stretch) -> Iterator[Finding]:
        match stretch.kind:
            case Extent.FILLER:
                yield from self._filler(segment, stretch)
            case Extent.GAP:
                yield from self._gap(segment, stretch)
            case Extent.UNUSED if segment.start < self._last_used:
                self._unused(segment, stretch)
            case _:
                pass

    def _lose(self, segment: Segment, stretch: Stretch, defect: Finding) -> None:
        """Hold a finding back until it is known what points into the stretch."""
        start = segment.start + stretch.position
        if self._lost.at(start) is not None:
            return  # the whole file is lost to this broker
        self._lost.add(start, start + stretch.length, defect)

    def _filler(self, segment: Segment, stretch: Stretch) -> Iterator[Finding]:
        layout = DLEDGER_BLANK if segment.entry_header else BLANK
        with segment.open() as file:
            values = layout.parse(file.read_at(stretch.position, layout.size))
            end = stretch.position + stretch.length
            has_data = any(data_stretches(file, stretch.position + layout.size, end))
        stored = values["size" if segment.entry_header else "total_size"]
        left = segment.size - stretch.position
        at = _at(segment, stretch)
        if stretch.code == CL_CHAIN:
            message = "records follow a blank record, which a broker takes for the file's end"
            yield finding(
                CL_CHAIN, at, message, expected=f"a blank of {left:,} bytes", actual=stored
            )
        elif stored != left and not self._is_cut(segment):
            cuts = Severity.DAMAGE if stored > left or stored < 0 else None
            yield finding(CL_BLANKLEN, at, expected=left, actual=stored, severity=cuts)
        if has_data:
            yield finding(CL_BLANKDATA, at)
        if left > self._largest_blank and segment.start < self._last_used:
            defect = finding(
                CL_BLANKSIZE, at, expected=f"at most {self._largest_blank}", actual=left
            )
            self._lose(segment, stretch, defect)

    def _gap(self, segment: Segment, stretch: Stretch) -> Iterator[Finding]:
        """Say what kind of damage a gap is; scan only knows why the walk stopped there."""
        is_last = segment.start == self._last_used
        if stretch.code == CL_STALE:
            yield finding(CL_STALE, _at(segment, stretch))
            return
        if stretch.code is not None and stretch.code != CL_TAIL:
            self._lose(segment, stretch, _of_gap(stretch.code, segment, stretch))
            return
        with segment.open() as file:
            tail = file, segment, stretch.position, stretch.length
            if is_last and (stale := stale_record(*tail)) is not None:
                yield stale
                return
            code = tail_code(*tail)
            is_torn = is_last and code == CL_TAIL and fits(file, segment, stretch.position)
        is_cut = self._is_cut(segment)
        if is_torn and not is_cut:
            crashed = self._inspection.scope.has_crashed
            defect = finding(
                code, _at(segment, stretch), severity=None if crashed else Severity.WARNING
            )
        elif code == CL_TAIL and is_cut:
            # FS-LEN says so
            start = segment.start + stretch.position
            self._lost.begin_earlier(segment.end, start)
            return
        else:
            defect = _of_gap(CL_MAGIC if code == CL_TAIL else code, segment, stretch)
        self._lose(segment, stretch, defect)

    def _unused(self, segment: Segment, stretch: Stretch) -> None:
        """Judge zeros at the end of a segment that others follow."""
        at = _at(segment, stretch)
        start = segment.start + stretch.position
        is_same = self._lost.end_later(start, start + stretch.length)
        if self._is_cut(segment) or is_same:
            return
        if stretch.position == 0:
            defect = finding(CL_MAGIC, at, "the whole segment is zero, though used ones follow")
        else:
            defect = finding(CL_CHAIN, at, expected=ENDS_IN_BLANK, actual="zeros")
        self._lose(segment, stretch, defect)

    def _judge_end(self, segment: Segment) -> Iterator[Finding]:
        """Find out whether a segment that others follow ends in a blank."""
        is_lost = self._lost.at(segment.end - 1) is not None
        if segment.start >= self._last_used or self._is_cut(segment) or is_lost:
            return
        last = self._stretches[-1] if self._stretches else None
        closed = last is not None and last.position + last.length == self._end
        if not closed:
            at = At(segment.path, self._end, segment.size - self._end, segment.start + self._end)
            yield finding(CL_CHAIN, at, expected=ENDS_IN_BLANK, actual="a record up to the end")

    def _is_cut(self, segment: Segment) -> bool:
        """Tell whether the file's length is wrong, which layout has said."""
        length = self._inspection.store.commitlog.file_length
        return bool(length) and segment.size != length


def _largest_blank(inspection: Inspection) -> int:
    size = MAX_MESSAGE_SIZE.of(inspection.store.broker_conf)
    return size + RECORD_OVERHEAD + END_FILE_MIN_BLANK_LENGTH


def _at(segment: Segment, stretch: Stretch) -> At:
    start = segment.start + stretch.position
    return At(segment.path, stretch.position, stretch.length, start)


def _of_gap(code: Code, segment: Segment, stretch: Stretch) -> Finding:
    """Say that nothing can be read in a gap."""
    return finding(code, _at(segment, stretch), actual=f"{stretch.length:,} bytes are skipped")
