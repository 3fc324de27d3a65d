"""Compare consume queues with what the repaired log dispatches; keep the ranges that differ.

Runs come in the order of the log, while it is validated; what a unit is judged by is whether the
log wants it, never what the unit says. Units of expired messages stay as they are, and so does the
address of a sound unit of the extension. Source: ConsumeQueue#putMessagePositionInfo, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import topic_raw, topic_text
from rmqtool.check.queues.consume_queue import sound_queues
from rmqtool.check.queues.consume_queue_ext import is_whole as ext_file_is_whole
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.derive.run_pool import RunPool
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_consume_queue import CQ_TAG
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.formats.message import SMALLEST_RECORD, decode
from rmqtool.formats.properties import are_torn
from rmqtool.ledger.differences import point_alike, wrong_units
from rmqtool.ledger.extensions import ExtUnits
from rmqtool.ledger.sound import pass_over
from rmqtool.queues.kinds import as_units
from rmqtool.queues.reach import is_record_of, messages_out_of_reach, places_in, places_of
from rmqtool.repair.patches import Patch, RepairedQueue
from rmqtool.repair.queues.batch_queues import BatchRepair
from rmqtool.repair.queues.multi_dispatch import LightNumbers
from rmqtool.repair.queues.queue_place import BridgedPlacement
from rmqtool.repair.queues.unit_judge import LostUnits
from rmqtool.repair.queues.unwanted_units import UnwantedUnits
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.observer import Proven
    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.kinds import Units
    from rmqtool.rebuild.placement import PlacedUnits
    from rmqtool.repair.log.stretches import Stretches
    from rmqtool.repair.queues.multi_dispatch import WrongLightNumber
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles


class QueueRepair:
    """All queues of a store.

    Attributes:
        queues: what each should hold, once `finish` was called.
        batches: likewise for batch queues.
        judge: tells what stands after a unit.
        last_start: start of the last segment in use.
        bad_ext: extensions that no broker can follow; no unit names a place in them any more.
        dropped: queues that begin anew, as nothing can stand for their lost messages.
        unread: paths of files and directories that cannot be read; their queues stay as they are.
        light_numbers: records that say of light queues what is no number.
        torn: records whose units know better than they do.
    """

    def __init__(
        self, inspection: Inspection, facts: LogFacts, damaged: Stretches, early: Stretches
    ) -> None:
        self.queues: dict[tuple[bytes, int], RepairedQueue] = {}
        self.judge = LostUnits(inspection, facts, damaged, early)
        self.judge.queue_of = self.queue_of
        self.batches = BatchRepair(inspection, facts, self.judge)
        self.unread: set[str] = set()
        self.light_numbers = LightNumbers(inspection)
        self.torn = TornProperties(inspection)
        self.last_start = 0
        self.dropped: set[tuple[str, int]] = set()
        self._inspection, self._facts = inspection, facts
        self.bad_ext: list[MappedFiles] = []
        self._ext: dict[tuple[str, int], ExtUnits | None] = {}
        commitlog = inspection.store.commitlog
        self._log = (commitlog.start, commitlog.file_length)
        self._file_length = inspection.store.geometry.consume_queue.value
        self._pool = RunPool(self._file_length // UNIT)
        self._sound = sound_queues(inspection)
        self._whole: dict[tuple[str, int], tuple[int, int]] = {}

    @property
    def file_length(self) -> int:
        """Bytes of a queue file."""
        return self._file_length

    @property
    def is_crashed(self) -> bool:
        """Whether the next broker recovers after a crash."""
        return self._inspection.store.root.child("abort").stat() is not None

    def add_part(self, runs: QueueRuns) -> Proven:
        """Take the runs of the next part of the log; they may wait for more of their queues.

        Returns:
            Those that are as they should be, joined with what waited: nobody reads them again.
        """
        proven: set[tuple[bytes, int, int, int]] = set()
        left = self._sound.take(runs, lambda offsets: np.zeros(len(offsets), np.bool_))
        for joined in self._pool.add(left):
            self._add(joined, proven)
        return proven

    def add(self, runs: Iterable[QueueRun]) -> None:
        """Take the runs of the next part of the log, in an order that must stay."""
        self._add_waiting()
        self._add(runs)

    def _add_waiting(self) -> None:
        for joined in self._pool.rest():
            self._add(joined)

    def _add(
        self, runs: Iterable[QueueRun], proven: set[tuple[bytes, int, int, int]] | None = None
    ) -> None:
        """Take runs; note those that are as they should be."""
        for run in runs:
            name = (run.topic, run.queue_id)
            if not self._is_in_files(run.topic):
                continue
            queue = self.queues.get(name) or self._open(*name)
            try:
                is_same = self._take(queue, run)
            except UnreadablePath:
                self.unread.add(queue.path)
            else:
                if is_same and proven is not None:
                    proven.add((*name, run.queue_offset, run.count))

    def _take(self, queue: RepairedQueue, run: QueueRun) -> bool:
        """Compare a run; tell whether it is there as a whole, at its own queue offset."""
        if self._begins_anew(queue, run):
            queue.placement = BridgedPlacement(*self._log)
            queue.patches.clear()
        is_same = False
        for units in queue.placement.add(run):
            is_own = (units.queue_offset, units.length) == (run.queue_offset, run.count * UNIT)
            is_same = self._compare(queue, units) and is_own
        return is_same

    def add_batches(self, runs: Iterable[QueueRun]) -> None:
        """Take the batch queue runs of the next part of the log."""
        self.batches.add(runs)

    def finish(self, *, all_queues: bool) -> None:
        """Look at what lies in front of and after what the log wants.

        Args:
            all_queues: queues that the log wants nothing of, too.
        """
        self._add_waiting()
        self._finish_sound()
        store = self._inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            unwanted = UnwantedUnits(
                self._inspection, self._facts, self.judge, log, self.last_start
            )
            self._finish_placements()
            for name, number, record in self.light_numbers.find(log, self.judge, self.queues):
                self._put_back(name, number, record)
            for queue in self.queues.values():
                try:
                    unwanted.of_queue(queue)
                except UnreadablePath:
                    self.unread.add(queue.path)
            if all_queues:
                self._others(unwanted)
            self.dropped = unwanted.dropped
            self._keep_readable(log)
        for queue in self.queues.values():
            if any(f"{path}/".startswith(f"{queue.path}/") for path in self.unread):
                queue.patches.clear()
                queue.is_unread = True

    def _finish_sound(self) -> None:
        """Set the queues apart in which nothing is to be done, and look at what else is in others.

        A queue without such a number is looked at where numbers of records are put back.
        """
        log_start, length = self._log

        def is_other(units: Units) -> npt.NDArray[np.bool_]:
            mask = pass_over(units, log_start, length) | self.judge.are_lost(units)
            mask |= units["physical_offset"] + units["size"].astype(np.int64) > self._facts.end
            return mask

        remains = self._sound.rest(log_start, is_other)
        self._whole = remains.whole
        for name in remains.others:
            self._open(*name)
        if self.light_numbers.places:
            for topic, queue_id in self._whole:
                self._open(topic_raw(topic), queue_id)
            self._whole = {}

    def queue_of(self, topic: bytes, queue_id: int) -> RepairedQueue | None:
        """Give what a queue should hold, as far as it was compared; None where nothing is."""
        queue = self.queues.get((topic, queue_id))
        if queue is None and (topic_text(topic), queue_id) in self._whole:
            return self._begun(topic, queue_id)
        return queue

    def _keep_readable(self, log: LogReader) -> None:
        """Leave queues as they are whose edits would put sound messages out of reach."""
        for queue in self.queues.values():
            try:
                count = self._out_of_reach(queue, log) if queue.patches else 0
            except UnreadablePath:
                self.unread.add(queue.path)
                continue
            if count > 0:
                queue.kept_messages = count
                queue.patches.clear()

    def _out_of_reach(self, queue: RepairedQueue, log: LogReader) -> int:
        """Count the sound messages that the edits of a queue put out of reach."""
        name, patches = (queue.topic, queue.queue_id), queue.patches
        known = self._inspection.queue_topics("queues")
        stretches = [(patch.number, patch.end) for patch in patches]
        return messages_out_of_reach(
            [places_of(queue.units.packed(first, end - first)) for first, end in stretches],
            [places_of(patch.raw) for patch in patches],
            partial(places_in, queue.units, stretches, inside=False),
            lambda place: (
                not self.judge.damaged_at(place, SMALLEST_RECORD)
                and is_record_of(log, *name, known, place)
            ),
        )

    def _is_in_files(self, topic: bytes) -> bool:
        return self._inspection.scope.placement.in_files(topic_text(topic))

    def _finish_placements(self) -> None:
        for queue in self.queues.values():
            try:
                for units in queue.placement.finish():
                    self._compare(queue, units)
            except UnreadablePath:
                self.unread.add(queue.path)

    def _put_back(self, name: tuple[bytes, int], number: int, record: WrongLightNumber) -> None:
        """Want the unit of a record in a further queue, in place of what would fill its hole."""
        if not self._is_in_files(name[0]):
            return
        queue = self.queues.get(name) or self._open(*name)
        queue.patches = [
            part for patch in queue.patches for part in patch.without(number, number + 1)
        ]
        time_ms = record.message.store_timestamp
        self._compare(queue, queue.placement.put_back(number, record.unit, time_ms))

    def _others(self, unwanted: UnwantedUnits) -> None:
        """Look at queues of which the log has no message at all."""
        known = {(queue.topic, queue.queue_id) for queue in self.queues.values()} | {*self._whole}
        others = [name for name in self._inspection.units("queues") if name not in known]
        for name in others if self.judge.tail is not None else ():
            with contextlib.suppress(UnreadablePath):
                unwanted.note_tail(self._inspection.queue("queues", name))
        for topic, queue_id in others:
            units = self._inspection.queue("queues", (topic, queue_id))
            queue = RepairedQueue(units, BridgedPlacement(*self._log))
            odd = [file for file in units.files if file.size != self._file_length]
            try:
                unwanted.of_other_queue(queue, is_odd=bool(odd))
            except UnreadablePath:
                continue
            is_empty = queue.starts_without_units(is_crashed=self.is_crashed)
            if queue.patches or odd or is_empty:
                self.queues[topic_raw(topic), queue_id] = queue

    def is_kept(self, finding: Finding) -> bool:
        """Tell whether a finding is about a queue that stays as it is, as it is worth more so."""
        if finding.topic is None or finding.queue_id is None:
            return False
        name = topic_raw(finding.topic), finding.queue_id
        queue = self.queues.get(name)
        return queue is not None and queue.kept_messages > 0

    def close(self) -> None:
        """Close the files that were read."""
        self.torn.close()
        self._inspection.queues.close()

    def wanted_of(self, topic: str, queue_id: int) -> range | None:
        """Give the queue offsets that the log wants of a queue; None where it has no message of it.

        To be asked once all runs were taken and `finish` was called.
        """
        if (topic, queue_id) in self._whole:
            return range(*self._whole[topic, queue_id])
        queue = self.queues.get((topic_raw(topic), queue_id))
        if queue is None or queue.placement.next < 0:
            return None
        return range(queue.placement.first, queue.placement.next)

    def _open(self, name: bytes, queue_id: int) -> RepairedQueue:
        queue = self.queues[name, queue_id] = self._begun(name, queue_id)
        return queue

    def _begun(self, name: bytes, queue_id: int) -> RepairedQueue:
        """Begin a queue, after what was as it should be so far."""
        units = self._inspection.queue("queues", (topic_text(name), queue_id))
        queue = RepairedQueue(units, BridgedPlacement(*self._log))
        seen = self._sound.seen_of(name, queue_id)
        self._sound.leave(name, queue_id)
        if seen is not None:
            queue.placement.resume(seen.first, seen.last, seen.next)
        return queue

    def _begins_anew(self, queue: RepairedQueue, run: QueueRun) -> bool:
        """Tell whether a queue was deleted and made again: the files then hold the newer units."""
        if not 0 <= run.queue_offset < queue.placement.next:
            return False
        there = queue.units.packed(run.queue_offset, 1)
        known = CQ_UNIT["size"].end  # tags codes may be addresses
        return there[:known] == bytes(run.units[:known])

    def _compare(self, queue: RepairedQueue, units: PlacedUnits) -> bool:
        """Keep what differs from the units that belong here; tell whether nothing does."""
        wanted = bytes(units.packed) * units.repeated
        count = len(wanted) // UNIT
        if self._file_length:
            last = (units.queue_offset + count) * UNIT - 1
            queue.times[last // self._file_length] = units.store_timestamp
        on_disk = queue.units.packed(units.queue_offset, count)
        if on_disk == wanted:
            return True
        want, have = as_units(wanted), as_units(on_disk)
        differs = self._differ(queue, units.queue_offset, want, have)
        rows = np.flatnonzero(differs)
        is_filler = queue.placement.is_filled(units.queue_offset)
        for group in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if rows.size else ():
            first, end = int(group[0]), int(group[-1]) + 1
            raw = wanted[first * UNIT : end * UNIT]
            number = units.queue_offset + first
            queue.patches.append(
                self.judge.filler(queue, number, raw, have[first:end])
                if is_filler
                else Patch.of(number, want[first:end], have[first:end])
            )
        return False

    def _differ(
        self, queue: RepairedQueue, first: int, want: Units, have: Units
    ) -> npt.NDArray[np.bool_]:
        """Tell which units of a queue, from the first one's number on, are to be written anew."""
        differs = wrong_units(queue.topic, want, have, partial(self._extension, queue))
        is_tags = differs & point_alike(want, have) & (have["tags_code"] > LARGEST_ADDRESS)
        for row in np.flatnonzero(is_tags).tolist():
            differs[row] = not self.torn.keeps(queue, first + row, want[row])
        return differs

    def _extension(self, queue: RepairedQueue) -> ExtUnits | None:
        """Give the extension of a queue; None where there is none, or it is damaged."""
        name = (queue.topic, queue.queue_id)
        if name not in self._ext:
            family = self._inspection.family("ext_queues").get(name)
            files = self._inspection.files_of(family) if family else None
            is_whole = files is not None and all(map(ext_file_is_whole, files.segments))
            if files and not is_whole:
                self.bad_ext.append(files)
            self._ext[name] = ExtUnits.of(files) if files and is_whole else None
        return self._ext[name]


# Records whose properties are torn: what they say of tags is no reason to change a unit.
#
# The unit was made when the record was whole; what is left of the properties gives another tags
# code,
# mostly none at all.


KEPT: Final = (
    "the unit keeps the tags code that it got from the whole record; nothing brings the properties "
    "back: consumers get the message without them; consumers that filter by tag may drop it"
)


# Damage tears the properties of a few records. Where so many units differ from sound records, the
# units are wrong, and the remaining records are not read for it.
MOST_SOUND_RECORDS: Final = 1 << 14


class TornProperties:
    """Finds them where units and records differ in nothing but the tags code.

    Args:
        inspection: of the store.
    """

    def __init__(self, inspection: Inspection) -> None:
        store = inspection.store
        self._log = LogReader(store.old_commitlog, store.commitlog)
        self._sound = 0
        self._left: dict[tuple[str, int], tuple[int, int]] = {}  # by file and position

    def keeps(self, queue: RepairedQueue, number: int, unit: np.void) -> bool:
        """Tell whether the record of a unit is torn, and take note of it.

        Args:
            queue: whose unit it is.
            number: of the unit.
            unit: as the log wants it.
        """
        if self._sound == MOST_SOUND_RECORDS:
            return False
        offset = int(unit["physical_offset"])
        segment = queue.files.at(number * UNIT)
        if segment is None or not self._is_torn(offset, int(unit["size"])):
            self._sound += 1
            return False
        self._left[segment.path, number * UNIT - segment.start] = number, offset
        return True

    def _is_torn(self, offset: int, size: int) -> bool:
        try:
            return are_torn(decode(self._log.read_at(offset, size)).properties_bytes)
        except (DecodeError, UnreadablePath):
            return False

    def is_reported(self, finding: Finding) -> bool:
        """Tell whether a finding is about such a unit."""
        return finding.code == CQ_TAG and (finding.path, finding.position) in self._left

    def edit(self, writer: EditWriter) -> None:
        """Take note of them in a plan."""
        for (path, _), (number, offset) in sorted(self._left.items()):
            torn = f"the record at {offset} has torn properties"
            writer.leave(CQ_TAG, path, f"queue offset {number}: {torn}", KEPT)

    def close(self) -> None:
        """Close the files that were read."""
        self._log.__exit__()
