"""Put back a field by which a record claims a place in a queue that is not its own.

No checksum covers topic, queue id and queue offset of a record, and a flipped bit in one of them
takes a message out of its queue. The unit in that queue is evidence of what the field was: it names
this record and no other claims its number, while no unit stands where the record says. Exactly one
of the three fields must differ. Then the field is written anew as the queue has it: the message is
delivered as ever, and recovery dispatches it to where it was. A record that is in further queues is
there under its queue id, too, but for light ones, so those units move along. Everything else of the
record stays, and so does its checksum. Source:
DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue, 4.9.3 to 5.5.0;
LmqConsumeQueue#multiDispatchLmqQueue.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.dispatch import light_queues
from rmqtool.broker.names import LMQ_PREFIX, topic_raw, topic_text
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.derive.settings import rules_of
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_commitlog import CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import CQ_MISMATCH, CQ_SHIFT
from rmqtool.findings.registry_index import IX_KEY
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import MESSAGE_PREFIX, decode
from rmqtool.formats.properties import LENGTH_BYTES
from rmqtool.ledger.numbering import find_unit
from rmqtool.queues.discovery import DatabaseSource
from rmqtool.repair.log.content import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.message import Message
    from rmqtool.queues.units import QueueUnits
    from rmqtool.repair.queues.queue_place import Hole
    from rmqtool.repair.queues.queues import QueueRepair
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.record_heads import LogReader, RecordHead
    from rmqtool.store.segment import Segment

    Place = tuple[bytes, int, int]  # topic, queue id, queue offset
    Breaks = AbstractSet[tuple[str | None, int | None, int, int]]

OF_UNITS: Final = frozenset({CQ_MISMATCH, CQ_SHIFT})
OF_RECORDS: Final = frozenset({CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP})
DOUBLED: Final = frozenset({CL_QOFF_BACK, CL_QOFF_DUP})
MOST_MOVED: Final = 100  # records whose units are looked for, each through its queue
FIELDS: Final = ("topic", "queue_id", "queue_offset")


@dataclass(frozen=True, slots=True)
class WrongQueue:
    """One such record."""

    physical_offset: int  # where it lies
    claimed: Place  # topic, queue id and queue offset as the record has them
    own: Place  # the same as its queue has them
    unit: bytes  # of that queue
    position: int  # of the field, in the record
    raw: bytes  # the field's bytes as they were
    # topics of other queues whose queue id is that of the record
    multi_dispatch: frozenset[bytes] = frozenset()
    has_unit: bool = True  # whether its queue has it; else the order of the records says so

    @property
    def field(self) -> str:
        """Name of the field that differs."""
        return FIELDS[
            [claim != own for claim, own in zip(self.claimed, self.own, strict=True)].index(True)
        ]

    @property
    def queues(self) -> set[tuple[bytes, int]]:
        """Topics and queue ids whose queue offsets do not follow because of it."""
        multi_dispatch = {
            (topic, place[1]) for topic in self.multi_dispatch for place in (self.claimed, self.own)
        }
        return {self.claimed[:2], self.own[:2], *multi_dispatch}

    def is_answered(self, defect: Finding) -> bool:
        """Tell whether a finding is only a consequence: of the record, or of those beside it."""
        if defect.physical_offset == self.physical_offset:
            return defect.code in {*OF_UNITS, *OF_RECORDS, IX_KEY}
        if defect.code not in OF_RECORDS or defect.topic is None:
            return False
        queue = (topic_raw(defect.topic), defect.queue_id)
        places = [place for place in (self.claimed, self.own) if place[:2] == queue]
        if not places:  # queue offsets in further queues are others
            return queue in self.queues
        beside = {str(number) for place in places for number in (place[2], place[2] + 1)}
        return bool(beside & {defect.expected, defect.actual})


def find(
    inspection: Inspection,
    repair: QueueRepair,
    findings: Collection[Finding],
    moved: Iterable[tuple[int, int]],
    log: LogReader,
) -> list[WrongQueue]:
    """Find the misplaced records that findings are about.

    Args:
        inspection: of the store.
        repair: what the queues should hold, all runs taken and finished.
        findings: all findings.
        moved: physical offsets and sizes of records that say that they lie elsewhere: no finding
            says what else is wrong with them.
        log: as it is.
    """
    wrong_queues: dict[int, WrongQueue] = {}
    breaks = _breaks(findings)
    try:
        with closing(DatabaseSource(inspection.store)) as database:  # validation has closed its own
            for claimed in findings:
                for record in _at(inspection, database, repair, claimed, breaks, log):
                    wrong_queues[record.physical_offset] = record
            for own, unit in _in_holes(repair, findings, log):
                for record in _judged_at(inspection, database, repair, own, (unit, False), log):
                    wrong_queues[record.physical_offset] = record
            for place in islice(moved, MOST_MOVED):
                for record in _of_moved(inspection, database, repair, place, log):
                    wrong_queues[record.physical_offset] = record
    except UnreadablePath:
        return []  # said elsewhere
    return [wrong_queues[place] for place in sorted(wrong_queues)]


def _at(
    inspection: Inspection,
    database: DatabaseSource,
    repair: QueueRepair,
    defect: Finding,
    breaks: Breaks,
    log: LogReader,
) -> Iterator[WrongQueue]:
    """Give the record after a unit that is not the one its record asks for."""
    topic, queue_id, number = defect.topic, defect.queue_id, _number(defect)
    if topic is None or queue_id is None or number is None:
        return  # said of more than a unit
    units = _queue(inspection, database, (topic, queue_id))
    own = (topic_raw(topic), queue_id, number)
    unit, is_there = units.packed(number, 1), True
    if not any(unit) or _is_of_another(unit, defect):
        unit, is_there = _missing_unit(repair, own), False
    if not any(unit) and inspection.scope.numbers_unread:
        unit = _lone_unit(defect, breaks, log)
    yield from _judged_at(inspection, database, repair, own, (unit, is_there), log)


def _judged_at(
    inspection: Inspection,
    database: DatabaseSource,
    repair: QueueRepair,
    own: Place,
    found_unit: tuple[bytes, bool],
    log: LogReader,
) -> Iterator[WrongQueue]:
    """Give the record of a unit, where one field of it is not as its own place wants it."""
    unit, is_there = found_unit
    units = _queue(inspection, database, (topic_text(own[0]), own[1]))
    pointed = _pointed(unit, log)
    if pointed is None or repair.judge.damaged_at(pointed.offset, pointed.message.size):
        return
    record = _judged(pointed, own, unit)
    if record is not None and record.field == "queue_id":
        rules = rules_of(inspection.store, inspection.scope.version)
        record = replace(record, multi_dispatch=_multi_dispatch(pointed.message, has_lmq=rules.lmq))
    if record is None:
        return
    record = replace(record, has_unit=is_there)

    def beside(at: Place) -> bytes:
        repaired = bytes(UNIT) if is_there else _missing_unit(repair, at)
        return repaired if any(repaired) else units.packed(at[2], 1)

    if not _is_alone(beside, own, log):
        return
    if not _is_claimed(repair, record) and not _has_unit(inspection, database, record):
        yield record


def _in_holes(
    repair: QueueRepair, findings: Iterable[Finding], log: LogReader
) -> Iterator[tuple[Place, bytes]]:
    """Yield places and units of records that one queue has too many, and another one lacks.

    Such a record has the queue offset of an earlier one, while exactly one other queue of the topic
    lacks a record of that queue offset, just where this one lies in the log.
    """
    doubled = [
        (topic_raw(defect.topic), defect.physical_offset)
        for defect in findings
        if defect.code in DOUBLED and defect.topic and defect.physical_offset is not None
    ]
    holes: dict[bytes, list[tuple[int, Hole]]] = {topic: [] for topic, _ in doubled}
    for (topic, queue_id), queue in repair.queues.items() if doubled else ():
        if topic in holes:
            holes[topic] += [(queue_id, hole) for hole in queue.placement.holes]
    for topic, place in islice(doubled, MOST_MOVED):
        head = log.head_at(place)
        lacking = [
            queue_id
            for queue_id, hole in holes[topic]
            if head and hole.holds(head.queue_offset) and hole.before < place < hole.after
        ]
        if head is not None and len(lacking) == 1:
            yield (topic, lacking[0], head.queue_offset), _unit_of(head)


def _of_moved(
    inspection: Inspection,
    database: DatabaseSource,
    repair: QueueRepair,
    moved: tuple[int, int],
    log: LogReader,
) -> Iterator[WrongQueue]:
    """Give a record that names a wrong place in the log, and in its queue, too."""
    try:
        pointed = _Pointed(moved[0], decode(log.read_at(*moved)))
    except DecodeError:
        return
    topic, queue_id, stated = pointed.claim
    units = _queue(inspection, database, (topic_text(topic), queue_id))
    number = find_unit(units, 0, pointed.offset)
    if number is None or number == stated:
        return
    own = (topic, queue_id, number)
    record = _judged(pointed, own, units.packed(number, 1))
    if record is None or not _is_alone(lambda at: units.packed(at[2], 1), own, log):
        return
    if not _is_claimed(repair, record) and not _has_unit(inspection, database, record):
        yield record


def _queue(inspection: Inspection, database: DatabaseSource, name: tuple[str, int]) -> QueueUnits:
    """Give a queue in files, or the one in RocksDB where only that is there and can be read."""
    scope = inspection.scope
    in_database = scope.has_rocksdb_queues and not scope.numbers_unread
    in_files = name in inspection.units("queues") or not in_database
    queue = None if in_files else database.queue(*name)
    return queue or inspection.queue("queues", name)


def _is_of_another(unit: bytes, defect: Finding) -> bool:
    """Tell whether a unit says nothing of the record that a finding is about: its file is wrong."""
    offset, _, _ = CQ_UNIT.packer.unpack(unit)
    return defect.code in OF_RECORDS and offset != defect.physical_offset


def _missing_unit(repair: QueueRepair, own: Place) -> bytes:
    """Give the unit that a repair would put in a place; zeros for none."""
    queue = repair.queues.get(own[:2])
    for patch in queue.patches if queue else ():
        if patch.number <= own[2] < patch.end and not patch.lost:
            return patch.raw[(own[2] - patch.number) * UNIT :][:UNIT]
    return bytes(UNIT)


def _lone_unit(defect: Finding, breaks: Breaks, log: LogReader) -> bytes:
    """Give the unit of a record whose queue offset alone does not follow; zeros for none.

    The next record goes on where it would if this one had the right one.

    Args:
        defect: that names the record.
        breaks: queue offsets that no record has: topic and number of the queue, the first of them,
            and that of the next record.
        log: as it is.
    """
    head = None if defect.physical_offset is None else log.head_at(defect.physical_offset)
    stated, number = defect.actual, _number(defect)
    if head is None or number is None or stated != str(defect.queue_offset):
        return bytes(UNIT)
    after = (defect.topic, defect.queue_id, int(stated) + 1, number + 1)
    is_lone = defect.code == CL_QOFF_GAP or after in breaks  # it goes forward, or back
    is_lone |= int(stated) < 0  # what no broker writes
    return _unit_of(head) if is_lone else bytes(UNIT)


def _unit_of(head: RecordHead) -> bytes:
    """Give the unit of a record, without its tags code: the run that dispatch makes has that."""
    unit: bytes = CQ_UNIT.packer.pack(head.physical_offset, head.size, 0)
    return unit


def _breaks(findings: Iterable[Finding]) -> Breaks:
    return {
        (defect.topic, defect.queue_id, int(defect.expected), int(defect.actual))
        for defect in findings
        if defect.code == CL_QOFF_GAP
    }


def _number(defect: Finding) -> int | None:
    """Give the queue offset whose unit a finding makes doubtful."""
    if defect.code in OF_UNITS:
        return defect.queue_offset
    if defect.code in OF_RECORDS and defect.expected.isdecimal():
        return int(defect.expected)  # what the record's queue offset should be
    return None


class _Pointed(NamedTuple):
    """What a unit points to."""

    offset: int  # physical offset of the record
    message: Message  # the record

    @property
    def claim(self) -> Place:
        """The place in a queue that the record states."""
        return self.message.topic_bytes, self.message.queue_id, self.message.queue_offset


def _pointed(unit: bytes, log: LogReader) -> _Pointed | None:
    """Read the record that a unit points to; None where there is no whole one."""
    offset, size, _ = CQ_UNIT.packer.unpack(unit)
    head = log.head_at(offset) if size > 0 else None
    if head is None or head.size != size:
        return None
    try:
        return _Pointed(offset, decode(log.read_at(offset, size)))
    except DecodeError:
        return None


def _is_alone(beside: Callable[[Place], bytes], own: Place, log: LogReader) -> bool:
    """Tell whether the units beside it are right: else the file is wrong, and not the record."""
    for number in (own[2] - 1, own[2] + 1):
        place = (own[0], own[1], number)
        pointed = _pointed(beside(place), log) if number >= 0 else None
        if pointed is not None and pointed.claim != place:
            return False
    return True


def _judged(pointed: _Pointed, own: Place, unit: bytes) -> WrongQueue | None:
    """Give what is to be put back, if exactly one field differs, in as many bytes."""
    offset, message, claimed = pointed.offset, pointed.message, pointed.claim
    differs = [claim != own for claim, own in zip(claimed, own, strict=True)]
    if sum(differs) != 1 or len(claimed[0]) != len(own[0]):
        return None
    name = FIELDS[differs.index(True)]
    if name == "topic":
        tail = len(message.topic_bytes) + LENGTH_BYTES + len(message.properties_bytes)
        return WrongQueue(offset, claimed, own, unit, message.size - tail, own[0])
    field = MESSAGE_PREFIX[name]
    raw = field.build(own[1] if name == "queue_id" else own[2])
    return WrongQueue(offset, claimed, own, unit, field.position, raw)


def _multi_dispatch(message: Message, *, has_lmq: bool) -> frozenset[bytes]:
    """Give the topics of further queues that are not light: these have one queue each."""
    topics, _ = light_queues(message.properties)
    return frozenset(
        topic.encode() for topic in topics if not (has_lmq and topic.startswith(LMQ_PREFIX))
    )


def _is_claimed(repair: QueueRepair, record: WrongQueue) -> bool:
    """Tell whether another record of the log wants the unit's place."""
    number = record.own[2]
    queue = repair.queues.get(record.own[:2])
    if queue is None or not queue.placement.wants(number):
        return False  # what is wanted and there is the unit of this record itself
    if _missing_unit(repair, record.own) == record.unit:
        return False
    return any(patch.number <= number < patch.end for patch in queue.patches)


def _has_unit(inspection: Inspection, database: DatabaseSource, record: WrongQueue) -> bool:
    """Tell whether a unit of the record stands where the record says, too."""
    topic = topic_text(record.claimed[0])
    if record.claimed[2] < 0:
        return False
    units = _queue(inspection, database, (topic, record.claimed[1]))
    offset, size, _ = CQ_UNIT.packer.unpack(units.packed(record.claimed[2], 1))
    return bool(size > 0 and offset == record.physical_offset)


def edit(
    writer: EditWriter,
    wrong_queues: Iterable[WrongQueue],
    segment_at: Callable[[int], Segment | None],
) -> None:
    """Write the fields.

    Args:
        writer: takes the edits.
        wrong_queues: records.
        segment_at: gives the file of a physical offset.
    """
    for record in wrong_queues:
        segment = segment_at(record.physical_offset)
        if segment is not None:
            name = record.field.replace("_", " ")
            topic = topic_text(record.own[0])
            witness = "its queue has" if record.has_unit else "the records beside it have"
            reason = (
                f"the record's {name}, as {witness} it: {topic} queue {record.own[1]}, "
                f"queue offset {record.own[2]}"
            )
            position = record.physical_offset - segment.start + record.position
            writer.write(segment, position, Content.of(record.raw), CQ_MISMATCH, reason)
