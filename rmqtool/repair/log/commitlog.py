"""Edits of the commitlog: bridges, blanks, zeroed tails, true places, lengths of files.

All edits of one segment are decided together, in the order of its bytes. Source: CommitLog
#recoverNormally, #checkMessageAndReturnSize, DefaultAppendMessageCallback#doAppend, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.findings.registry_commitlog import (
    CL_BLANKLEN,
    CL_BLANKSIZE,
    CL_CHAIN,
    CL_MAGIC,
    CL_PHYOFF,
)
from rmqtool.findings.registry_layout import FS_GAP, FS_LEN
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    END_FILE_MIN_BLANK_LENGTH,
    MESSAGE_PREFIX,
)
from rmqtool.plural import counted
from rmqtool.repair.log.content import Content
from rmqtool.repair.log.lost import lost_record, no_record
from rmqtool.repair.log.stretches import Damaged
from rmqtool.repair.survey import STALE, TAIL, LogSurvey, SegmentFacts, last_sound
from rmqtool.scan.batch import Extent
from rmqtool.store.segment import NAME_DIGITS
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derive.runs import Stretch
    from rmqtool.findings.catalogue import Code
    from rmqtool.repair.log.bridge import BridgeMaker
    from rmqtool.repair.log.stretches import Stretches
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.record_heads import LogReader
    from rmqtool.store.segment import MappedFiles, Segment


LEAST: Final = END_FILE_MIN_BLANK_LENGTH
FIELD: Final = MESSAGE_PREFIX.positions["physical_offset"]
CHUNK: Final = 1 << 22
MOST_MISSING: Final = 1000  # segments between two files; where more are missing, a name is wrong
BRIDGED: Final = "a bridge record: brokers skip it and never deliver it"


@dataclass(slots=True)
class LogRepair:
    """Decides the edits of one log."""

    survey: LogSurvey  # what was found
    writer: EditWriter  # takes the edits
    log: LogReader  # reads the log as it is
    bridge_missing: bool = False  # whether segments that are gone are to be bridged
    _done: set[int] = field(default_factory=set)
    _times: BridgeTimes = field(init=False)

    def __post_init__(self) -> None:
        self._times = BridgeTimes(self.log, self.files, self.survey.damaged)

    @property
    def maker(self) -> BridgeMaker:
        """Makes the bridges."""
        return self.survey.maker

    @property
    def files(self) -> MappedFiles:
        """The log."""
        return self.survey.inspection.store.commitlog

    @property
    def length(self) -> int:
        """Bytes of a segment."""
        return self.files.file_length

    def edit(self) -> None:
        """Decide all edits of the log, in the order of its segments."""
        used = [segment for segment in self.survey.segments.values() if segment.is_used]
        last_used = max((facts.segment.start for facts in used), default=-1)
        segments = list({segment.start: segment for segment in self.files.segments}.values())
        for before, segment in pairwise([None, *segments]):
            assert segment is not None  # noqa: S101 - only the first of all is None
            if before is not None and segment.start > before.start + self.length:
                if self.bridge_missing and segment.start > last_used:
                    self._past_gap([own for own in segments if own.start >= segment.start])
                    break
                self._missing(before, segment)
            facts = self.survey.segments.get(segment.start) or SegmentFacts(segment)
            if segment.start < last_used:
                self._finished(facts)
            else:
                self._current(facts, is_last_used=segment.start == last_used)

    # ---- segments that others follow ------------------------------------------------------------

    def _finished(self, facts: SegmentFacts) -> None:
        """Repair a segment that used ones follow: bridges, and a blank at its end."""
        segment = facts.segment
        self._set_length(segment)
        closing = self._end_of(facts)
        end = closing[0] if closing else _blank_position(facts)
        for damaged in self._inside(segment, end):
            self._bridge(segment, damaged)
        self._places(segment)
        if closing is not None:
            self._close(facts, *closing)

    def _end_of(self, facts: SegmentFacts) -> tuple[int, Code, int] | None:
        """Tell from where on a segment has to be closed anew, why, and up to where it is damaged.

        None where its blank is right, or only its size is wrong, which is put right here.
        """
        segment, length = facts.segment, self.length
        last = facts.stretches[-1] if facts.stretches else None
        if last is not None and last.kind is Extent.FILLER and last.code != CL_CHAIN:
            return self._blank_at_end(segment, last)
        if segment.size < length:
            tail = last is not None and last.position + last.length == facts.end
            begin = last.position if tail and last is not None else facts.end
            return self._first_of_tail(facts, begin), FS_LEN, length - LEAST
        if last is None or last.position + last.length < min(segment.size, length):
            return segment.size, CL_CHAIN, 0
        if last.kind is Extent.UNUSED:
            begin = self._first_of_tail(facts, last.position)
            code = CL_CHAIN if last.position else CL_MAGIC
            return begin, code, last.position if begin < last.position else 0
        if last.kind is Extent.GAP:
            return last.position, CL_MAGIC, last.position + last.length
        return None

    def _blank_at_end(self, segment: Segment, last: Stretch) -> tuple[int, Code, int] | None:
        """Judge the blank that closes a segment: its size, and whether records were there."""
        if self.survey.damaged.at(segment.start + last.position) is not None:
            return last.position, CL_BLANKSIZE, self.length - LEAST
        self._blank_size(segment, last)
        return None

    def _first_of_tail(self, facts: SegmentFacts, position: int) -> int:
        """Give where damage begins that goes on up to a position."""
        for stretch in reversed(facts.stretches):
            if stretch.kind is Extent.GAP and stretch.position + stretch.length == position:
                return stretch.position
        return position

    def _close(self, facts: SegmentFacts, position: int, code: Code, covers: int) -> None:
        """Bridge what is damaged from a position on, and write a blank after it.

        Zeros that are longer than the next segment's first record were records once.
        """
        segment, length = facts.segment, self.length
        if length - position < LEAST:
            position = self._give_up_last(segment, position)
        plausible = self._first_size(segment.start + length) + LEAST
        blank_at = max(position, covers)
        if length - blank_at > plausible:
            blank_at = length - LEAST
        blank_at = min(blank_at, length - LEAST)
        if 0 < blank_at - position < self.maker.smallest:
            fits = length - LEAST - position >= self.maker.smallest
            blank_at = position + self.maker.smallest if fits else position
        if blank_at > position:
            start = segment.start + position
            lost = no_record(blank_at - position)
            self._bridge(segment, Damaged(start, segment.start + blank_at, code, lost))
        raw = BLANK.build({"total_size": length - blank_at, "magic_code": BLANK_MAGIC_CODE})
        reason = "the blank record that closes this file"
        self.writer.write(segment, blank_at, Content.of(raw), code, reason)

    def _give_up_last(self, segment: Segment, position: int) -> int:
        """Take the last record along where no blank has room after it."""
        head = self.log.last_before(segment, min(position, segment.size))
        if head is None:
            return min(position, self.length - LEAST)
        what = lost_record(self.log, head.physical_offset, head.size)
        self.survey.damaged.add(Damaged(head.physical_offset, head.end, CL_CHAIN, what))
        return head.physical_offset - segment.start

    def _first_size(self, physical_offset: int) -> int:
        head = self.log.head_at(physical_offset)
        return head.size if head is not None else 0

    def _blank_size(self, segment: Segment, blank: Stretch) -> None:
        left = self.length - blank.position
        raw = BLANK.build({"total_size": left, "magic_code": BLANK_MAGIC_CODE})
        with segment.open() as file:
            is_same = file.read_at(blank.position, len(raw)) == raw
        if not is_same:
            reason = f"the blank record's size: {left:,} bytes are left of the file"
            self.writer.write(segment, blank.position, Content.of(raw), CL_BLANKLEN, reason)

    # ---- the segment that is written to ---------------------------------------------------------

    def _current(self, facts: SegmentFacts, *, is_last_used: bool) -> None:
        """Repair the last used segment, or one that was allocated ahead of need."""
        segment = facts.segment
        is_last = segment is self.files.segments[-1]
        if not segment.size and is_last and not is_last_used and len(self.files) > 1:
            self.writer.remove(segment.place.location, FS_LEN, "an empty file after the log")
            return
        self._set_length(segment)
        if not is_last_used:
            return
        tail = self.survey.queues.judge.tail
        last = facts.stretches[-1] if facts.stretches else None
        closing = None
        if last is not None and last.kind is Extent.FILLER and last.code != CL_CHAIN:
            closing = self._blank_at_end(segment, last)
        end = tail.start - segment.start if tail else closing[0] if closing else None
        for damaged in self._inside(segment, end):
            self._bridge(segment, damaged)
        self._places(segment)
        if closing is not None:
            self._close(facts, *closing)
        if tail is not None:
            self._tail(segment, tail)

    def _tail(self, segment: Segment, tail: Damaged) -> None:
        """Bridge what queues know of the tail, so that no queue offset is given twice; zero it."""
        position = tail.start - segment.start
        end = min(self.survey.queues.judge.tail_end - segment.start, self.length - LEAST)
        if end - position >= self.maker.smallest:
            lost = f"{end - position:,} bytes of records that queues have units of"
            self._bridge(segment, Damaged(tail.start, segment.start + end, tail.code, lost))
            position = end
        reason = "zeros: here the next record goes"
        lost = "a record that was written in part" if tail.code == TAIL else ""
        self._zero(segment, position, tail.code, reason, lost)

    def _zero(self, segment: Segment, position: int, code: Code, reason: str, lost: str) -> None:
        """Zero all that is used from a position on, up to where the file is cut."""
        with segment.open() as file:
            end = min(file.size, self.length)
            for data_at, raw in data_stretches(file, position, end, CHUNK):
                used = raw.rstrip(b"\0")
                data = used.lstrip(b"\0")
                first = data_at + len(used) - len(data)
                self.writer.write(segment, first, Content(len(data)), code, reason, lost)
                lost = ""

    # ---- what both have -------------------------------------------------------------------------

    def _inside(self, segment: Segment, end: int | None) -> Iterator[Damaged]:
        """Give the damaged stretches of a segment in front of its end, neighbours joined."""
        limit = segment.start + (self.length if end is None else end)
        joined: Damaged | None = None
        for damaged in self.survey.damaged.between(segment.start, limit):
            if joined is not None and joined.end == damaged.start and joined.code == damaged.code:
                lost = (
                    joined.lost if joined.lost == damaged.lost else f"{joined.lost}; {damaged.lost}"
                )
                joined = Damaged(joined.start, damaged.end, joined.code, lost)
                continue
            if joined is not None:
                yield joined
            joined = damaged
        if joined is not None:
            yield joined

    def _bridge(self, segment: Segment, damaged: Damaged) -> None:
        """Write a bridge, or several, over a stretch."""
        position = damaged.start - segment.start
        time_ms = self._times.around(segment, position, damaged.end)
        lost = damaged.lost
        for start, content in self.maker.over(damaged.start, damaged.length, time_ms):
            at = start - segment.start
            self.writer.write(segment, at, content, damaged.code, BRIDGED, lost)
            lost = lost and "more of the same stretch"

    def _places(self, segment: Segment) -> None:
        """Rewrite the fields of records that name another place than theirs."""
        for moved in sorted(self.survey.moved, key=lambda record: record.physical_offset):
            if segment.start <= moved.physical_offset < segment.end:
                raw = MESSAGE_PREFIX["physical_offset"].build(moved.physical_offset)
                position = moved.physical_offset - segment.start + FIELD
                reason = f"the record's own place, which was given as {moved.field}"
                self.writer.write(segment, position, Content.of(raw), CL_PHYOFF, reason)
        self._put_back(segment)

    def _put_back(self, segment: Segment) -> None:
        """Move records that lie at each other's place to their own."""
        for moved in sorted(self.survey.swapped, key=lambda record: record.field):
            if segment.start <= moved.field < segment.end:
                raw = self.log.read_at(moved.physical_offset, moved.size)
                reason = f"the record of this place, which lay at {moved.physical_offset}"
                position = moved.field - segment.start
                self.writer.write(segment, position, Content.of(raw), CL_PHYOFF, reason)

    def _set_length(self, segment: Segment) -> None:
        """Give a file its configured length; what is cut off must not be records."""
        if segment.size == self.length:
            return
        if segment.size < self.length:
            self.writer.length(segment, self.length, FS_LEN, "the length that brokers load")
            return
        reason = "the length that brokers load; bytes after it are not part of the log"
        self.writer.length(segment, self.length, FS_LEN, reason)

    def _missing(self, before: Segment, after: Segment) -> None:
        """Write files of bridges for segments that are gone."""
        gap = after.start - before.start - self.length
        count = -(-gap // self.length) if self.length else 0
        if not 0 < count <= MOST_MISSING:  # the names say it, and a name may say anything
            message = "the log before this file is missing"
            if count:
                message = f"{counted(count, 'segment is', 'segments are')} missing before this file"
            why = "compare the name of the file with the physical offsets of its records"
            self.writer.leave(FS_GAP, after.path, message, why)
            return
        for start in range(before.start + self.length, after.start, self.length):
            name = f"{start:0{NAME_DIGITS}}"
            if not self.bridge_missing:
                why = (
                    "with --bridge-missing, a file of bridge records takes its place, and brokers "
                    "skip it"
                )
                path = f"{before.path.rpartition('/')[0]}/{name}"
                self.writer.leave(FS_GAP, path, "the segment is missing", why)
            else:
                self._bridge_file(before, start, name)

    def _past_gap(self, segments: list[Segment]) -> None:
        """Take out files without a record that follow a gap: the log ends before it.

        A bridge over it would make a segment that others follow of the last one. Brokers delete
        such files, and make new ones. Source: MappedFileQueue#truncateDirtyFiles, 4.9.3 to 5.5.0.
        """
        for segment in segments:
            reason = "no record is in it, and the log ends before the gap that it follows"
            self.writer.remove(segment.place.location, FS_GAP, reason)

    def _bridge_file(self, before: Segment, start: int, name: str) -> None:
        time_ms = self._times.around(before, before.size, start + self.length)
        over = self.maker.over(start, self.length - LEAST, time_ms)
        blank = BLANK.build({"total_size": LEAST, "magic_code": BLANK_MAGIC_CODE})
        content = Content.joined([*(content for _, content in over), Content.of(blank)])
        location = before.place.parent.child(name).location
        lost = f"all {self.length:,} bytes of the segment"
        reason = f"a file of bridges for the missing segment: {BRIDGED}"
        mtime_ms = before.mtime_ms
        self.writer.create(location, content, FS_GAP, reason, lost=lost, mtime_ms=mtime_ms)


def tail_of(survey: LogSurvey) -> Damaged | None:
    """Give the stretch at the end of the last used segment that is no record; None for none."""
    used = [facts for facts in survey.segments.values() if facts.is_used]
    if not used:
        return None
    facts = max(used, key=lambda facts: facts.segment.start)
    segment, length = facts.segment, survey.inspection.store.commitlog.file_length
    gaps = [
        stretch
        for stretch in facts.stretches
        if stretch.kind is Extent.GAP and stretch.code in {TAIL, STALE}
    ]
    last = facts.stretches[-1] if facts.stretches else None
    if gaps:
        position, code = gaps[0].position, gaps[0].code or TAIL
        # Zeros after what was torn were records, too, if queues have units there.
        end = gaps[-1].position + gaps[-1].length if code == STALE else segment.size
    elif segment.size < length and (last is None or last.kind is not Extent.FILLER):
        position, end, code = facts.end, segment.size, FS_LEN
    else:
        return None
    end = length if end >= segment.size else end
    return Damaged(segment.start + position, segment.start + end, code)


def _blank_position(facts: SegmentFacts) -> int | None:
    """Give where the blank of a segment begins; None without one.

    What is cut off inside of it, nobody reads: zeros do.
    """
    last = facts.stretches[-1] if facts.stretches else None
    is_blank = last is not None and last.kind is Extent.FILLER and last.code != CL_CHAIN
    return last.position if is_blank and last is not None else None


# Store times of bridges: each is that of a record beside it, found without reading all again.


class BridgeTimes:
    """Finds the store time of a bridge; a log may be full of bridges, and of records without time.

    Args:
        log: reads the log as it is.
        files: of the log.
        damaged: the stretches of it that hold no sound record.
    """

    def __init__(self, log: LogReader, files: MappedFiles, damaged: Stretches) -> None:
        self._log, self._files, self._damaged = log, files, damaged
        self._known = (-1, 0)  # an offset, and the time of the last sound record before it

    def around(self, segment: Segment, position: int, end: int) -> int:
        """Give the time of the record before a bridge, else of the one after it, in ms.

        Args:
            segment: of the bridge.
            position: of the bridge in it; bridges are best asked for in order.
            end: physical offset of the end of the bridge.
        """
        return self._before(segment, position) or self._after(end) or segment.mtime_ms

    def _before(self, segment: Segment, position: int) -> int:
        """Give the time of the last sound record, as far as files follow each other; 0: none."""
        asked = segment.start + position
        known, known_time = self._known if self._known[0] <= asked else (-1, 0)
        time_ms, before = 0, segment
        while True:
            lowest = max(known - before.start, 0)
            head = last_sound(self._log, before, position, self._damaged, lowest)
            if head is not None:
                time_ms = head.store_timestamp
                break
            if before.start <= known:
                time_ms = known_time
                break
            file = self._files.at(before.start - 1) if before.start > self._files.start else None
            if file is None:
                break
            before, position = file, file.size
        self._known = asked, time_ms
        return time_ms

    def _after(self, end: int) -> int:
        """Give the time of the first record at or after an offset that has one; 0: none."""
        segments, length = self._files.segments, self._files.file_length
        number = bisect_right(segments, end - length, key=lambda segment: segment.start)
        if number == len(segments):
            return 0
        first = segments[number]
        head = self._log.first_from(first, max(end - first.start, 0))
        if head is not None and head.store_timestamp > 0:
            return head.store_timestamp
        return self._from_file_on[number + 1]

    @cached_property
    def _from_file_on(self) -> list[int]:
        """Give, for each file and for none, the first time that begins it or a later one; 0: none.

        Read once, from the last file on.
        """
        times = [0]
        for segment in reversed(self._files.segments):
            head = self._log.first_from(segment)
            has_time = head is not None and head.store_timestamp > 0
            times.append(head.store_timestamp if head is not None and has_time else times[-1])
        return times[::-1]
