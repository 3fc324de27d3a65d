"""Edits of queue files: the units that differ, at their places; files that are missing or short."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import LMQ_PREFIX, is_deleted, is_deleted_when_idle, topic_raw
from rmqtool.check.queues.orphans import is_past, of_made, queue_counts
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.check.queues.queue_tails import is_reached_by_name
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_consume_queue import BQ_UNIT, CQ_EMPTY, CQ_GAP, CQ_RANGE
from rmqtool.findings.registry_layout import FS_LEN, FS_ORPHAN
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT_SIZE as BATCH_UNIT
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.plural import counted
from rmqtool.repair.log.content import Content
from rmqtool.repair.patches import Patch, RepairedQueue
from rmqtool.store.names import name_problem
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.queues.discovery import UnitFamily
    from rmqtool.repair.queues.batch_queues import BatchRepair, RepairedBatchQueue
    from rmqtool.repair.queues.queues import QueueRepair
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles, Segment

NO_UNIT: Final = "no unit is left in it, and a broker would count one"
NO_BATCH_UNIT: Final = "no unit is left in it, and a broker would take the queue for empty"
TORN_REASON: Final = "the rest of a unit that was cut off at the end of the file"
IMPLAUSIBLE: Final = "so many messages before it, as its queueOffset says, were never in the log"
BATCH_REASON: Final = "units of these records, in the order of the log"


def edit_queues(
    writer: EditWriter, repair: QueueRepair, inspection: Inspection, put_back: Collection[str] = ()
) -> None:
    """Write what differs of the consume queues; topics that are put back count as configured."""
    orphans = _Orphans(writer, inspection, put_back)
    for queue in sorted(
        repair.queues.values(), key=lambda repaired: (repaired.topic, repaired.queue_id)
    ):
        if queue.is_unread:
            continue
        if not _is_wanted(queue, inspection, "queues", put_back):
            continue
        if problem := name_problem(queue.topic):
            writer.leave(CQ_GAP, queue.path, "the queue has no directory", problem)
            continue
        _drop_torn_unit(queue, repair.file_length)
        gone = _without_units(writer, queue, repair.file_length)
        _lengths(writer, queue.files, repair.file_length, gone)
        files: dict[int, list[tuple[int, Patch]]] = defaultdict(list)
        for start, position, patch in by_file(queue.patches, repair.file_length):
            if start not in gone:
                files[start].append((position, patch))
        for start, patches in sorted(files.items()):
            _file(writer, queue, start, joined(patches), repair.file_length)
        if files:
            orphans.name(queue)
            _name_left_out(writer, queue)


def _name_left_out(writer: EditWriter, queue: RepairedQueue) -> None:
    """Name records that get no unit though others of their queue get theirs."""
    if count := queue.placement.left_at_end:
        what = f"no unit for the last {counted(count, 'record')} of the queue"
        writer.leave(CQ_GAP, queue.path, what, IMPLAUSIBLE)


class _Orphans:
    """Names queues that are made although no topic is configured to have them.

    A validation names those that are there already.
    """

    def __init__(
        self, writer: EditWriter, inspection: Inspection, put_back: Collection[str]
    ) -> None:
        self._writer, self._put_back = writer, put_back
        document = inspection.document(TOPICS_JSON)
        self._counts = None if document is None else queue_counts(document)
        self._named = {*inspection.queue_topics("queues"), *inspection.queue_topics("batch_queues")}
        self._has_metadata_2 = inspection.scope.has_metadata_2

    def name(self, queue: RepairedQueue | RepairedBatchQueue) -> None:
        """Name a queue if it is one of these."""
        counts, topic = self._counts, queue.topic
        if queue.files.places or counts is None or not is_past(counts, topic, queue.queue_id):
            return
        if topic not in counts:
            if topic in self._named or topic in self._put_back:
                return
            self._named.add(topic)
        path, _, _ = queue.path.rpartition("/")
        if why := of_made(counts, topic, has_metadata_2=self._has_metadata_2):
            self._writer.leave(FS_ORPHAN, path, why, FS_ORPHAN.remedy)


def _is_wanted(
    queue: RepairedQueue | RepairedBatchQueue,
    inspection: Inspection,
    family: UnitFamily,
    put_back: Collection[str],
) -> bool:
    """Tell whether a queue is there or should be: not when its topic was deleted."""
    if queue.files.places or queue.topic in put_back:
        return True
    if queue.topic.startswith(LMQ_PREFIX):
        return not is_deleted_when_idle(queue.topic, inspection.document(TOPICS_JSON))
    if not is_deleted(queue.topic, inspection.topics, inspection.queue_topics(family)):
        return True
    return isinstance(queue, RepairedQueue) and _is_reached_by_name(queue, inspection)


def _is_reached_by_name(queue: RepairedQueue, inspection: Inspection) -> bool:
    store = inspection.store
    with LogReader(store.old_commitlog, store.commitlog) as log:
        return is_reached_by_name(log, queue.placement.newest, queue.topic)


def _drop_torn_unit(queue: RepairedQueue, length: int) -> None:
    """Zero what is left of the last unit of a file that was cut within it, unless it comes back.

    One that is wanted was compared as it will be: the rest of the file will be zeros.
    """
    for segment in queue.files:
        number = segment.end // UNIT
        is_patched = any(patch.number <= number < patch.end for patch in queue.patches)
        is_judged = is_patched or queue.placement.first <= number < queue.placement.next
        if segment.size < length and segment.size % UNIT and not is_judged:
            queue.patches.append(Patch(number, bytes(UNIT), FS_LEN, TORN_REASON))


def _without_units(writer: EditWriter, queue: RepairedQueue, length: int) -> set[int]:
    """Take out files that a cut leaves without a unit; give their starts.

    A broker takes a file of zeros for one with a unit: the next message gets the wrong offset, and
    the start after that cuts it off. Source: observed, 4.9.3, 5.3.3 and 5.5.0.
    """
    code = CQ_RANGE if queue.patches else CQ_EMPTY
    cuts = [patch.number * UNIT for patch in queue.patches if patch.is_cut]
    cuts += queue.starts_without_units()
    if not cuts:
        return set()
    later = [segment for segment in queue.files.segments if segment.start >= min(cuts)]
    gone = {segment.start for segment in later}
    is_empty = all(start in gone for start, *_ in by_file(queue.patches, length))
    if len(later) == len(queue.files.segments) and queue.files.places and is_empty:
        writer.remove(queue.files.places[0].location, code, f"{NO_UNIT}: the whole queue")
    else:
        for segment in later:
            writer.remove(segment.place.location, code if segment.size else FS_LEN, NO_UNIT)
    return gone


def _lengths(
    writer: EditWriter, files: MappedFiles, length: int, gone: Collection[int] = ()
) -> None:
    """Give each file the length that brokers load."""
    for segment in files:
        if segment.size != length and not segment.start % length and segment.start not in gone:
            writer.length(segment, length, FS_LEN, "the length that brokers load")


def edit_lengths(writer: EditWriter, repair: QueueRepair, inspection: Inspection) -> None:
    """Give queue files the length that brokers load, where there is no log to compare them with."""
    for name in inspection.units("queues"):
        _lengths(writer, inspection.queue("queues", name).files, repair.file_length)


def _file(
    writer: EditWriter,
    queue: RepairedQueue,
    start: int,
    patches: list[tuple[int, Patch]],
    length: int,
) -> None:
    segment = _segment(queue.files, start)
    if segment is not None:
        for position, patch in patches:
            reason = patch.sentence
            if patch.is_cut:
                reason = f"{reason}: queue offset {_range(patch)}"
            writer.write(segment, position, Content.of(patch.raw), patch.code, reason, patch.lost)
        return
    pieces = [(position, patch.raw) for position, patch in patches if any(patch.raw)]
    if not pieces:
        return
    is_first = not queue.files or start < queue.files.start
    if is_first and pieces[0][0]:
        position, raw = pieces[0]
        pieces.insert(0, (0, queue.placement.lead(raw[:UNIT]) * (position // UNIT)))
    lost = "; ".join(patch.lost for _, patch in patches if patch.lost)
    writer.create(
        f"{_directory(writer, queue)}/{start:0{NAME_DIGITS}}",
        Content(length, tuple(pieces)),
        patches[0][1].code,
        "the queue file of these records, missing until now",
        lost=lost,
        mtime_ms=queue.placement.times.get(start // length),
    )


def _range(patch: Patch) -> str:
    first, last = patch.number, patch.end - 1
    return f"{first}" if first == last else f"{first} to {last}"


def _directory(writer: EditWriter, queue: RepairedQueue | RepairedBatchQueue) -> str:
    if queue.files.places:
        return queue.files.places[0].location
    return f"{writer.root.location}/{queue.path}"


def _segment(files: MappedFiles, start: int) -> Segment | None:
    return next((file for file in files if file.start == start), None)


def by_file(patches: Iterable[Patch], file_length: int) -> Iterator[tuple[int, int, Patch]]:
    """Cut patches where files end: (file start, position, patch), in order."""
    for patch in sorted(patches, key=lambda patch: patch.number):
        start, raw = patch.number * UNIT, patch.raw
        while raw:
            file_start = start - start % file_length
            taken = min(len(raw), file_start + file_length - start)
            part = replace(patch, number=start // UNIT, raw=raw[:taken])
            yield file_start, start - file_start, part
            start, raw = start + taken, raw[taken:]


def joined(patches: list[tuple[int, Patch]]) -> list[tuple[int, Patch]]:
    """Join what follows each other and says the same; the later of two for one place counts."""
    merged: list[tuple[int, Patch]] = []
    for position, patch in patches:
        if merged and merged[-1][0] + len(merged[-1][1].raw) > position:
            before_at, before = merged.pop()
            kept = before.raw[: position - before_at]
            if kept:
                merged.append((before_at, replace(before, raw=kept)))
        same = merged and (merged[-1][1].code, merged[-1][1].lost) == (patch.code, "") == (
            patch.code,
            patch.lost,
        )
        if same and merged[-1][0] + len(merged[-1][1].raw) == position:
            before_at, before = merged.pop()
            merged.append((before_at, replace(before, raw=before.raw + patch.raw)))
        else:
            merged.append((position, patch))
    return merged


def edit_batch_queues(
    writer: EditWriter, repair: BatchRepair, inspection: Inspection, put_back: Collection[str] = ()
) -> None:
    """Write what differs of the batch queues likewise; of others only files are put right."""
    for topic, queue_id in inspection.units("batch_queues"):
        if (topic_raw(topic), queue_id) not in repair.queues:
            units = inspection.queue("batch_queues", (topic, queue_id))
            gone = set[int]()
            with suppress(UnreadablePath):
                end = max((number + len(used) for number, used in units.used()), default=0)
                gone = _without_batch_units(writer, units.files, end)
            _lengths(writer, units.files, repair.file_length, gone)
    orphans = _Orphans(writer, inspection, put_back)
    for queue in sorted(
        repair.queues.values(), key=lambda repaired: (repaired.topic, repaired.queue_id)
    ):
        is_wanted = _is_wanted(queue, inspection, "batch_queues", put_back)
        if name_problem(queue.topic) or not is_wanted:
            continue
        files: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        patches = [(number * BATCH_UNIT, raw) for number, raw in queue.patches]
        for start, raw in _cut(patches, repair.file_length):
            files[start - start % repair.file_length].append((start % repair.file_length, raw))
        gone = _without_batch_units(writer, queue.files, queue.end, files)
        _lengths(writer, queue.files, repair.file_length, gone)
        for start, pieces in sorted(files.items()):
            if start not in gone:
                _batch_file(writer, queue, start, pieces, repair.file_length)
        if files:
            orphans.name(queue)


def _without_batch_units(
    writer: EditWriter, files: MappedFiles, end: int, cut: Collection[int] = ()
) -> set[int]:
    """Take out files that have no unit, or keep none; give their starts.

    For one that goes on where the units end a broker takes the whole queue for empty: see
    `counts_zeros`, and BatchConsumeQueue#reviseMaxAndMinOffsetInQueue.

    Args:
        writer: takes the edits.
        files: of the queue.
        end: number after its last unit.
        cut: starts of files of which units go.
    """
    later = [segment for segment in files if segment.start >= end * BATCH_UNIT]
    is_counted = bool(later) and later[0].start in {end * BATCH_UNIT, files.start}
    gone = {it.start for it in later if is_counted or it.start in cut or not it.size}
    for segment in later:
        if segment.start in gone:
            code = BQ_UNIT if segment.start in cut else CQ_EMPTY if segment.size else FS_LEN
            writer.remove(segment.place.location, code, NO_BATCH_UNIT)
    return gone


def _batch_file(
    writer: EditWriter,
    queue: RepairedBatchQueue,
    start: int,
    pieces: list[tuple[int, bytes]],
    length: int,
) -> None:
    segment = _segment(queue.files, start)
    if segment is not None:
        for position, raw in pieces:
            writer.write(segment, position, Content.of(raw), BQ_UNIT, BATCH_REASON)
        return
    if not any(any(raw) for _, raw in pieces):
        return
    writer.create(
        f"{_directory(writer, queue)}/{start:0{NAME_DIGITS}}",
        Content(length, tuple(pieces)),
        BQ_UNIT,
        "the batch queue file of these records, missing until now",
        mtime_ms=queue.time or None,
    )


def _cut(patches: list[tuple[int, bytes]], length: int) -> Iterator[tuple[int, bytes]]:
    """Cut bytes where files end."""
    for first, data in patches:
        start, raw = first, data
        while raw:
            taken = min(len(raw), length - start % length)
            yield start, raw[:taken]
            start, raw = start + taken, raw[taken:]
