"""Judge the compaction store: its files in pairs, each unit against its record, and its progress.

After a run the names of its files have gaps: the compacted files begin at 0 again, the others keep
their names. A compacted record is the only copy of a message that the commitlog has expired.
Source: CompactionLog#checkSanity, #load, SparseConsumeQueue, CompactionPositionMgr, 5.1.0 to 5.5.0;
observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool.broker.conf import COMPACTION, RECOVERED_FILES
from rmqtool.broker.dispatch import tags_hash
from rmqtool.check.layout import mapped_files
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, of_queue
from rmqtool.findings.registry_consume_queue import CC_BASE, CC_BEHIND, CC_PAIR, CC_UNIT
from rmqtool.findings.registry_layout import FS_GAP
from rmqtool.formats import config, config_shapes
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, INVALID_POS
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.plural import counted
from rmqtool.queues.kinds import UnitKind, kinds_of
from rmqtool.scan import columns as row_of
from rmqtool.scan.batch import Extent
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment

POSITION: Final = "compaction/position-checkpoint"
LARGEST_POSITION: Final = 64 << 20
UNITS_READ: Final = 1 << 16  # at once
WANTED: Final = frozenset({"physical_offset", "size", "queue_offset", "tags", "topic", "queue_id"})
LATE: Final = frozenset({"physical_offset", "queue_offset", "topic", "queue_id", "keys"})
Queue = tuple[str, int]


def check(inspection: Inspection, queue_facts: QueueFacts) -> Iterator[Finding]:
    """Compare the file names of logs and queues, then records with units."""
    logs = inspection.family("compaction_logs")
    queues = inspection.family("compaction_queues")
    newest: dict[Queue, int] = {}
    for name in sorted({*logs, *queues}):
        log, queue = logs.get(name), queues.get(name)
        log_files = inspection.files_of(log) if log else None
        queue_files = inspection.files_of(queue) if queue else None
        if log_files:
            odd = of_queue(mapped_files(inspection, log_files), *name)
            yield from (finding for finding in odd if finding.code != FS_GAP)
        in_log = {file.start: file for file in log_files or ()}
        in_queue = {file.start: file for file in queue_files or ()}
        for start in sorted(in_log.keys() - in_queue.keys()):
            at = At(in_log[start].path, topic=name[0], queue_id=name[1])
            yield finding(CC_PAIR, at, "the log file has no queue file")
        for start in sorted(in_queue.keys() - in_log.keys()):
            at = At(in_queue[start].path, topic=name[0], queue_id=name[1])
            yield finding(CC_PAIR, at, "the queue file has no log file")
        inspection.account.files += len(in_log) + len(in_queue)
        if inspection.options.level.reads_log:
            for start in sorted(in_log.keys() & in_queue.keys()):
                yield from _pair(inspection, name, in_log[start], in_queue[start], newest)
    yield from inspection.pending()
    if not inspection.options.level.reads_log:
        if logs:
            inspection.leave_out("records of the compaction log", "--level quick looks at names")
        return
    if logs:
        yield from _position(inspection, newest)
    yield from _not_reached(inspection, queue_facts, newest)


def _pair(
    inspection: Inspection, name: Queue, log: Segment, queue: Segment, newest: dict[Queue, int]
) -> Iterator[Finding]:
    """Compare the records of one file with the units of its queue file."""
    try:
        wanted, odd = _records(log, name)
        units = _units(queue)
    except UnreadablePath as error:
        yield inspection.unread(inspection.path_of(error.path), error)
        return
    topic, queue_id = name
    inspection.account.units += len(units)
    inspection.account.bytes += log.size + queue.size
    for position, what in odd:
        at = At(log.path, position, None, None, topic, queue_id)
        yield finding(CC_UNIT, at, what)
    if len(units):
        newest[name] = max(newest.get(name, -1), int(units["msg_base_offset"].max()))
    both = min(len(wanted), len(units))
    differs = np.flatnonzero(units[:both] != wanted[:both])
    if len(differs):
        number = int(differs[0])
        at = At(queue.path, number * BATCH_CQ_UNIT.size, BATCH_CQ_UNIT.size, None, topic, queue_id)
        message = (
            f"{counted(len(differs), 'unit is', 'units are')} not of the records in the log file"
        )
        expected, actual = (_worded(rows[number]) for rows in (wanted, units))
        yield finding(CC_UNIT, at, message, expected=expected, actual=actual)
    elif len(wanted) != len(units):
        position = both * BATCH_CQ_UNIT.size
        at = At(queue.path, position, None, None, topic, queue_id)
        amount = counted(len(wanted), "record")
        message = f"{amount} in the log file, {counted(len(units), 'unit')} in this one"
        yield finding(CC_UNIT, at, message, expected=len(wanted), actual=len(units))


def _not_reached(
    inspection: Inspection, queue_facts: QueueFacts, newest: dict[Queue, int]
) -> Iterator[Finding]:
    """Find messages of the log that no compaction log has, though their topic is read from there.

    What a running broker has not dispatched yet is not of them.
    """
    store = inspection.store
    topics = config_shapes.topics(inspection.document(TOPICS_JSON) or {})
    names = {topic.topic for topic in topics if topic.is_compaction}
    if not names:
        return
    late = {
        name: newest.get(name, -1)
        for name, end in queue_facts.ends()
        if name[0] in names and end - 1 > newest.get(name, -1)
    }
    is_taken = (
        COMPACTION.of(store.broker_conf, inspection.scope.version) and not store.moment.is_live
    )
    if not late or not is_taken or not inspection.scope.release.has_compaction:
        return
    from rmqtool.tables.log_records import log_records  # few topics are compacted

    missing: dict[Queue, list[tuple[int, int]]] = {}
    for record in log_records(
        store, LATE, lambda *_: None
    ):  # unread: the pass over the log said so
        name = (record["topic"], record["queue_id"])
        if name in late and record["queue_offset"] > late[name] and record["keys"]:
            place = (record["physical_offset"], record["store_timestamp"])
            missing.setdefault(name, []).append(place)
    for (topic, queue_id), places in sorted(missing.items()):
        first, time = places[0]
        is_damage = not _is_handed_over(inspection, first, time)
        at = At(f"compaction/compactionLog/{topic}/{queue_id}", None, None, first, topic, queue_id)
        message = f"{counted(len(places), 'message')} of the commitlog not there"
        severity = Severity.DAMAGE if is_damage else Severity.WARNING
        yield finding(CC_BEHIND, at, message, severity=severity)


def _is_handed_over(inspection: Inspection, physical_offset: int, store_timestamp: int) -> bool:
    """Tell whether the next start hands a record over: one after a crash, which comes to it."""
    if not inspection.scope.has_crashed or inspection.scope.has_rocksdb_queues:
        return False
    segments = inspection.store.commitlog.segments
    if inspection.scope.release.recovers_newest_only:
        segments = segments[-RECOVERED_FILES.of(inspection.store.broker_conf) :]
    if not segments or physical_offset < segments[0].start:
        return False
    place = inspection.child("checkpoint")
    try:
        raw = place.read(CHECKPOINT.size) if place.stat() is not None else b""
    except UnreadablePath:
        raw = b""
    fields = CHECKPOINT.parse(raw.ljust(CHECKPOINT.size, b"\0"))
    if inspection.scope.release.records_queued_offset and fields["logics_physical_offset"] > 0:
        queued = fields["logics_physical_offset"]
        first = next(
            (segment for segment in reversed(segments) if segment.start <= queued), segments[0]
        )
        return physical_offset >= first.start
    return bool(
        store_timestamp >= min(fields["physic_msg_timestamp"], fields["logics_msg_timestamp"])
    )


def _records(log: Segment, name: Queue) -> tuple[npt.NDArray[np.void], list[tuple[int, str]]]:
    """Give the units that the records of a file imply, and where something is wrong with them.

    Raises:
        UnreadablePath: the file may not be read.
    """
    from rmqtool.tables.log_records import records_of  # few topics are compacted
    from rmqtool.tables.messages import MessageOptions, batches_of

    units: list[tuple[Any, ...]] = []
    odd: list[tuple[int, str]] = []
    for batch in batches_of(SegmentPart(log, 0, log.size), MessageOptions(), start=None):
        if batch.kind is Extent.GAP:
            odd.append((batch.position, "no record of the compaction log can be read here"))
        if batch.kind is not Extent.RECORD:
            continue
        facts = batch.columns
        differs = (facts[row_of.BODY_CRC] != facts[row_of.BODY_CRC_FOUND]) & (
            facts[row_of.BODY_LENGTH] > 0
        )
        wrong = facts[row_of.POSITION][differs].tolist()
        odd += [(record, "a record's body has not the CRC that was stored") for record in wrong]
        for row in records_of(batch, MessageOptions(), WANTED):
            if (row["topic"], row["queue_id"]) != name:
                at = row["physical_offset"] - log.start
                odd.append((at, f"a record of topic {row['topic']}, queue {row['queue_id']}"))
            time = row["store_timestamp"]
            tags_code = tags_hash(row["tags"])
            place = (row["physical_offset"], row["size"], tags_code, time, row["queue_offset"])
            units.append((*place, 1, INVALID_POS, 0))
    return np.array(units, BATCH_CQ_UNIT.dtype), odd


def _units(queue: Segment) -> npt.NDArray[np.void]:
    """Give the real units of a file. Raises UnreadablePath: the file may not be read."""
    parts = [np.zeros(0, BATCH_CQ_UNIT.dtype)]
    position, chunk = 0, UNITS_READ * BATCH_CQ_UNIT.size
    with queue.open() as file:
        # A hole of zeros holds no real unit.
        while (data := file.next_data(position)) is not None and data < file.size:
            position = data // BATCH_CQ_UNIT.size * BATCH_CQ_UNIT.size
            raw = file.read_at(position, chunk)
            raw = raw[: len(raw) // BATCH_CQ_UNIT.size * BATCH_CQ_UNIT.size]
            if not raw:
                break
            units = np.frombuffer(raw, BATCH_CQ_UNIT.dtype)
            parts.append(units[kinds_of(units) == UnitKind.REAL])
            position += len(raw)
    return np.concatenate(parts)


def queue_offsets(queue: Segment) -> npt.NDArray[np.int64]:
    """Give the queue offsets of the real units of a file.

    Raises:
        UnreadablePath: the file may not be read.
    """
    return _units(queue)["msg_base_offset"].astype(np.int64)


def _worded(unit: np.void) -> str:
    names = ("physical_offset", "size", "tags_code", "msg_base_offset")
    return ", ".join(f"{name} {int(unit[name])}" for name in names)


def _position(inspection: Inspection, newest: dict[Queue, int]) -> Iterator[Finding]:
    """Judge how far each queue is said to be compacted."""
    place = inspection.child(POSITION)
    try:
        if place.stat() is None:
            return
        document = config.parse_object(place.read(LARGEST_POSITION), path=POSITION)
    except (UnreadablePath, DecodeError):
        return  # the check of the configuration says so
    table = document.get("queueOffsetMap")
    for name, offset in table.items() if isinstance(table, dict) else ():
        topic, _, number = name.rpartition("_")
        if not number.isdecimal() or not isinstance(offset, int):
            continue
        last = newest.get((topic, int(number)))
        if last is not None and offset > last:
            at = At(POSITION, topic=topic, queue_id=int(number))
            message = f"topic {topic}, queue {number} is said to be compacted past its last unit"
            yield finding(CC_BASE, at, message, expected=last, actual=offset)
