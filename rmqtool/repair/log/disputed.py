"""Records that two logs have at one place in different bytes, though each is sound by itself.

A checksum covers the body of a record, and not its header, topic and properties. What else is
known of them tells which record is the damaged one: the deep checks of a validation, and what the
queues and the key indexes of both stores say of the place, its tags and its keys: they were written
when the record was sound. Where nothing tells, the store keeps its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.dispatch import claimed_places, index_keys
from rmqtool.broker.release import RELEASES
from rmqtool.broker.rules import Rules
from rmqtool.check.log.part import PartOptions, inspect_part
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats import java
from rmqtool.formats.message import decode
from rmqtool.judge.message import RecordOptions
from rmqtool.scan.batch import ScanOptions
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.formats.message import Message
    from rmqtool.queues.discovery import Queues
    from rmqtool.store.key_index import KeyIndex
    from rmqtool.store.record_heads import LogReader, RecordHead
    from rmqtool.store.segment import MappedFiles, Segment

CHUNK: Final = 1 << 20
BESIDE: Final = 2  # records on each side that are judged along
MOST: Final = 256  # records: where more differ, the logs are not one
SEVERITY: Final = 10  # how much worse a severity is than the one before
GAP: Final = 1000
DEEP: Final = PartOptions(
    ScanOptions(property_crc=True, well_formed=True), None, RecordOptions(content=True), -1
)
ALL_KEYS: Final = Rules(RELEASES[-1])  # it indexes tags, too; earlier ones have no such entry


def differing(log: MappedFiles, own: LogReader, other: LogReader) -> Iterator[RecordHead]:
    """Yield the records of a log that the other log has at their place in as many other bytes."""
    heads = (head for segment in log for head in _of_file(segment, own, other))
    yield from islice(heads, MOST)


def _of_file(segment: Segment, own: LogReader, other: LogReader) -> Iterator[RecordHead]:
    done = segment.start
    for start in range(segment.start, segment.end, CHUNK):
        size = min(CHUNK, segment.end - start)
        theirs = other.read_at(start, size)
        if own.read_at(start, size) == theirs or theirs.count(0) == len(theirs):
            continue
        head = own.last_before(segment, start - segment.start + 1)
        if head is None or head.end <= done:
            head = own.first_from(segment, max(done, start) - segment.start)
        while head is not None and head.physical_offset < start + size:
            done = head.end
            if _is_other(head, own, other):
                yield head
            head = own.first_from(segment, done - segment.start)


def _is_other(head: RecordHead, own: LogReader, other: LogReader) -> bool:
    theirs = other.head_at(head.physical_offset)
    if theirs is None or theirs.size != head.size:
        return False
    pieces = range(head.physical_offset, head.end, CHUNK)
    return any(
        own.read_at(at, min(CHUNK, head.end - at)) != other.read_at(at, min(CHUNK, head.end - at))
        for at in pieces
    )


class Witness(NamedTuple):
    """What one store has derived from its log."""

    queues: Queues  # of the store
    keys: KeyIndex  # its index files
    rules: DispatchRules  # how its broker dispatches

    def agrees(self, message: Message, physical_offset: int) -> int:
        """Count what bears a record out: units in its queues, their tags codes, index entries."""
        tags_code = self.rules.tags_code(message)
        units = (
            self._unit_agrees((topic, queue_id, queue_offset), physical_offset, tags_code)
            for topic, queue_id, queue_offset, _ in claimed_places(message)
        )
        entries = (
            physical_offset in chain.offsets
            for key in index_keys(ALL_KEYS, message)
            for chain in self.keys.chains(java.key_hash(message.topic, key))
        )
        return sum(units) + sum(entries)

    def _unit_agrees(self, name: tuple[str, int, int], place: int, tags_code: int) -> int:
        topic, queue_id, queue_offset = name
        try:
            queue = self.queues.queue(topic, queue_id)
            seen = queue.find(queue_offset) if queue is not None else None
            if queue is None or seen is None or seen.unit is None:
                return 0
            if seen.unit.physical_offset != place:
                return 0
            codes = queue.read(seen.unit.number, 1)["tags_code"]
        except (UnreadablePath, ValueError):
            return 0
        return 1 + int(codes[0] == tags_code)


@dataclass(slots=True)
class DisputeJudge:
    """Tells which of two records is the damaged one."""

    own: LogReader  # the log that is repaired
    other: LogReader  # the log that lends
    witnesses: Sequence[Witness]  # both stores
    # places of records of which neither is known to be damaged
    undecided: list[int] = field(default_factory=list)

    def is_own_damaged(self, head: RecordHead) -> bool:
        """Tell whether the other log's record is to be taken; note it where nothing tells."""
        marks = [self._mark(head, log) for log in (self.own, self.other)]
        if marks[0] == marks[1]:
            marks = [-self._agreeing(head, log) for log in (self.own, self.other)]
        if marks[0] == marks[1]:
            self.undecided.append(head.physical_offset)
        return marks[0] > marks[1]

    def _mark(self, head: RecordHead, log: LogReader) -> int:
        """Say how much is wrong with a record and those beside it; 0 for nothing."""
        segment = log.segment_at(head.physical_offset)
        if segment is None:
            return GAP
        beside = [head]
        for _ in range(BESIDE):
            before = log.last_before(segment, beside[0].physical_offset - segment.start)
            after = log.head_at(beside[-1].end)
            beside = [*filter(None, (before, *beside, after))]
        begin = beside[0].physical_offset - segment.start
        part = SegmentPart(segment, begin, beside[-1].end - segment.start)
        try:
            report = inspect_part(part, DEEP, start=begin)
        except UnreadablePath:
            return GAP
        # Of those beside it, what is damaged in one log alone says nothing of this record.
        places = {
            head.physical_offset for head in beside if not _is_other(head, self.own, self.other)
        }
        places.add(head.physical_offset)
        marks = [
            1 + SEVERITY * finding.severity.rank
            for finding in report.findings
            if finding.physical_offset in places
        ]
        at = head.physical_offset - segment.start
        is_none = any(
            stretch.position <= at < stretch.position + stretch.length
            for stretch in report.stretches
        )
        return sum(marks) + GAP * is_none

    def _agreeing(self, head: RecordHead, log: LogReader) -> int:
        """Count what in both stores bears out what a log has at a place."""
        try:
            message = decode(log.read_at(head.physical_offset, head.size))
        except DecodeError:
            return 0
        return sum(witness.agrees(message, head.physical_offset) for witness in self.witnesses)
