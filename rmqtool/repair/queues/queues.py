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
from rmqtool.check.queues.consume_queue import log_bounds, sound_queues
from rmqtool.check.queues.consume_queue_ext import is_whole as ext_file_is_whole
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_consume_queue import CQ_TAG
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.formats.message import SMALLEST_RECORD, decode
from rmqtool.formats.properties import are_torn
from rmqtool.ledger.extensions import ExtUnits
from rmqtool.ledger.sound import no_queue_whole
from rmqtool.ledger.walk import HeldUnits, QueueWalk
from rmqtool.machine.arrays import stretches
from rmqtool.queues.reach import (
    each_place,
    is_record_of,
    messages_out_of_reach,
    places_in,
    places_of,
)
from rmqtool.repair.patches import Patch, RepairedQueue
from rmqtool.repair.queues.batch_queues import BatchRepair
from rmqtool.repair.queues.multi_dispatch import LightNumbers, lost_separator
from rmqtool.repair.queues.queue_place import BridgedPlacement
from rmqtool.repair.queues.unit_judge import LostUnits
from rmqtool.repair.queues.unwanted_units import UnwantedUnits
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.sound import SoundSoFar
    from rmqtool.ledger.walk import Stretch
    from rmqtool.queues.reach import Int64s
    from rmqtool.repair.log.stretches import Stretches
    from rmqtool.repair.queues.multi_dispatch import WrongLightNumber
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles


class QueueRepair:
    """All queues of a store.

    Attributes:
        walk: takes the runs of the log; `keep` what it gives.
        queues: what each should hold, once `finish` was called.
        file_length: bytes of a queue file.
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
        self._inspection, self._facts = inspection, facts
        commitlog = inspection.store.commitlog
        self._log = (commitlog.start, commitlog.file_length)
        self.file_length = inspection.store.geometry.consume_queue.value
        self.walk = QueueWalk(
            self._begin,
            lambda queue, run: queue.placement.place(run),
            self._extension,
            sound_queues(inspection, lambda offsets: np.zeros(len(offsets), np.bool_)),
            self.file_length,
        )
        self.queues = self.walk.queues
        self.judge = LostUnits(inspection, facts, damaged, early)
        self.judge.queue_of = self.queue_of
        self.batches = BatchRepair(inspection, facts, self.judge)
        self.unread: set[str] = set()
        self.light_numbers = LightNumbers(inspection)
        self.torn = TornProperties(inspection)
        self.last_start = 0
        self.dropped: set[tuple[str, int]] = set()
        self.bad_ext: list[MappedFiles] = []
        self._ext: dict[tuple[str, int], ExtUnits | None] = {}

    @property
    def is_crashed(self) -> bool:
        """Whether the next broker recovers after a crash."""
        return self._inspection.store.root.child("abort").stat() is not None

    def finish(self, *, all_queues: bool) -> None:
        """Look at what lies in front of and after what the log wants.

        Args:
            all_queues: queues that the log wants nothing of, too.
        """
        self._finish_walk()
        store = self._inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            unwanted = UnwantedUnits(
                self._inspection, self._facts, self.judge, log, self.last_start
            )
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

    def _finish_walk(self) -> None:
        """Take what waits, and open the queues that hold more than the log wants."""
        walk = self.walk
        self.keep(walk.rest())
        walk.finish(log_bounds(self._inspection, self._facts), self.judge.are_lost)
        if self.light_numbers.places:  # a queue without such a number is looked at, too
            for topic, queue_id in walk.whole:
                walk.take_up(topic_raw(topic), queue_id)
            walk.whole = no_queue_whole()
        for queue in self.queues.values():
            for placed in queue.placement.finish():
                self.keep(walk.held(queue, placed))

    def queue_of(self, topic: bytes, queue_id: int) -> RepairedQueue | None:
        """Give what a queue should hold, as far as it was compared; None where nothing is."""
        queue = self.queues.get((topic, queue_id))
        if queue is None and (topic_text(topic), queue_id) in self.walk.whole:
            return self.walk.begun(topic, queue_id)
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
        stretches = [(patch.number, patch.end) for patch in patches]
        return messages_out_of_reach(
            [places_of(queue.units.packed(first, end - first)) for first, end in stretches],
            [places_of(patch.raw) for patch in patches],
            lambda place: (
                not self.judge.damaged_at(place, SMALLEST_RECORD)
                and is_record_of(log, *name, self._places, place)
            ),
            partial(places_in, queue.units, stretches),
        )

    def _places(self, topic: str, queue_id: int) -> Iterator[Int64s]:
        """Give where a queue leads to, as it is and as the log wants it: physical offsets."""
        there = self._inspection.units("queues").get((topic, queue_id))
        if there is not None:
            yield from each_place(there)
        wanted = self.queues.get((topic_raw(topic), queue_id))
        for patch in wanted.patches if wanted is not None else ():
            yield places_of(patch.raw)

    def _put_back(self, name: tuple[bytes, int], number: int, record: WrongLightNumber) -> None:
        """Want the unit of a record in a further queue, in place of what would fill its hole."""
        queue = self.queues.get(name) or self.walk.take_up(*name)
        if queue is None:
            return
        queue.patches = [
            part for patch in queue.patches for part in patch.without(number, number + 1)
        ]
        placed = queue.placement.put_back(number, record.unit, record.message.store_timestamp)
        self.keep(self.walk.held(queue, placed))

    def _others(self, unwanted: UnwantedUnits) -> None:
        """Look at queues of which the log has no message at all."""
        others = self.walk.without(self._inspection.units("queues"))
        for name in others if self.judge.tail is not None else ():
            with contextlib.suppress(UnreadablePath):
                unwanted.note_tail(self._inspection.queue("queues", name))
        for topic, queue_id in others:
            queue = self._repaired(topic, queue_id)
            odd = [file for file in queue.files if file.size != self.file_length]
            try:
                unwanted.of_other_queue(queue, is_odd=bool(odd))
            except UnreadablePath:
                continue
            is_empty = queue.starts_without_units()
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
        if (topic, queue_id) in self.walk.whole:
            return range(*self.walk.whole[topic, queue_id])
        queue = self.queues.get((topic_raw(topic), queue_id))
        if queue is None or queue.placement.next < 0:
            return None
        return range(queue.placement.first, queue.placement.next)

    def _begin(self, name: bytes, queue_id: int, seen: SoundSoFar | None) -> RepairedQueue | None:
        """Begin a queue, after what was as it should be so far; None for one not in files."""
        topic = topic_text(name)
        if not self._inspection.scope.placement.in_files(topic):
            return None
        queue = self._repaired(topic, queue_id)
        if seen is not None:
            queue.placement.resume(seen.first, seen.last, seen.next)
        return queue

    def _repaired(self, topic: str, queue_id: int) -> RepairedQueue:
        units = self._inspection.queue("queues", (topic, queue_id))
        return RepairedQueue(units, BridgedPlacement(self._log, self.file_length, units))

    def keep(self, stretches_of_queues: Iterable[tuple[RepairedQueue, Stretch]]) -> None:
        """Keep what differs from the units that belong in a place."""
        for queue, stretch in stretches_of_queues:
            if isinstance(stretch, UnreadablePath):
                self.unread.add(queue.path)
            elif isinstance(stretch, HeldUnits):
                self._patch(queue, stretch)
            else:  # the queue begins anew
                queue.patches.clear()

    def _patch(self, queue: RepairedQueue, held: HeldUnits) -> None:
        """Write the units of a queue that are wrong anew."""
        differs, want = held.wrong, held.wanted
        is_tags = differs & held.alike & (held.there["tags_code"] > LARGEST_ADDRESS)
        for row in np.flatnonzero(is_tags).tolist():
            differs[row] = not self.torn.keeps(queue, held.first + row, want[row])
        is_filler = queue.placement.is_filled(held.first)
        for first, end in stretches(differs):
            number, have = held.first + first, held.there[first:end]
            queue.patches.append(
                self.judge.filler(queue, number, want[first:end].tobytes(), have)
                if is_filler
                else Patch.of(number, want[first:end], have)
            )

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
        segment = queue.files.at(number * CQ_UNIT_SIZE)
        if segment is None or not self._is_torn(offset, int(unit["size"])):
            self._sound += 1
            return False
        self._left[segment.path, number * CQ_UNIT_SIZE - segment.start] = number, offset
        return True

    def _is_torn(self, offset: int, size: int) -> bool:
        try:
            message = decode(self._log.read_at(offset, size))
        except (DecodeError, UnreadablePath):
            return False
        return are_torn(message.properties_bytes) or lost_separator(message) is not None

    def is_reported(self, finding: Finding) -> bool:
        """Tell whether a finding is about such a unit."""
        return finding.code == CQ_TAG and (finding.path, finding.position) in self._left

    def edit(self, writer: EditWriter, mended: Collection[int]) -> None:
        """Take note of them in a plan, but for those that it mends, by physical offset."""
        for (path, _), (number, offset) in sorted(self._left.items()):
            if offset in mended:
                continue
            torn = f"the record at {offset} has torn properties"
            writer.leave(CQ_TAG, path, f"queue offset {number}: {torn}", KEPT)

    def close(self) -> None:
        """Close the files that were read."""
        self._log.__exit__()
