"""Compare consume queues with what the repaired log dispatches; keep the ranges that differ.

Runs come in the order of the log, while it is validated; what a unit is judged by is whether the
log wants it, never what the unit says. Units of expired messages stay as they are, and so does the
address of a sound unit of the extension. Source: ConsumeQueue#putMessagePositionInfo, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.ext_units import ExtUnits
from rmqtool.check.queue_state import UNIT, QueueReader, as_units
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK, PRE_BLANK_SIZE
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.formats.message import SMALLEST_RECORD, decode
from rmqtool.repair.batch_queues import BatchRepair
from rmqtool.repair.patches import CUT_REASON, Patch, RepairedQueue, kind_of, used
from rmqtool.repair.queue_place import BridgedPlacement, alone
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.derive.queue_runs import QueueRun
    from rmqtool.rebuild.placement import Units
    from rmqtool.repair.stretches import Damaged, Stretches
    from rmqtool.store.record_heads import RecordHead

LMQ_PREFIX: Final = "%LMQ%"
FURTHER_QUEUES: Final = "INNER_MULTI_DISPATCH"


class QueueRepair:
    """All queues of a store.

    Attributes:
        queues: what each should hold, once `finish` was called.
        batches: likewise for batch queues.
        tail: stretch at the end of the log that holds no record; the queues tell whether records
            were there. None when the log ends as it should.
        tail_end: behind the last record there that a queue knows; 0 for none.
        last_start: start of the last segment in use.
        dropped: queues that begin anew, as nothing can stand for their lost messages.
        unread: paths of files and directories that cannot be read; their queues stay as they are.
    """

    def __init__(self, inspection: Inspection, damaged: Stretches, early: Stretches) -> None:
        self.queues: dict[tuple[bytes, int], RepairedQueue] = {}
        self.batches = BatchRepair(inspection, damaged)
        self.tail: Damaged | None = None
        self.tail_end = 0
        self.unread: set[str] = set()
        self.last_start = 0
        self.dropped: set[tuple[str, int]] = set()
        self._inspection, self._damaged, self._early = inspection, damaged, early
        self._reader = QueueReader()
        self._ext: dict[tuple[str, int], ExtUnits | None] = {}
        commitlog = inspection.store.commitlog
        self._log = (commitlog.start, commitlog.file_length)
        self._file_length = inspection.store.geometry.consume_queue.value

    @property
    def file_length(self) -> int:
        """Bytes of a queue file."""
        return self._file_length

    def add(self, runs: Iterable[QueueRun]) -> None:
        """Take the runs of the next part of the log."""
        for run in runs:
            queue = self.queues.get((run.topic, run.queue_id)) or self._open(run)
            try:
                self._take(queue, run)
            except UnreadablePath:
                self.unread.add(queue.path)

    def _take(self, queue: RepairedQueue, run: QueueRun) -> None:
        if self._begins_anew(queue, run):
            queue.placement = BridgedPlacement(*self._log)
            queue.patches.clear()
        for units in queue.placement.add(run):
            self._compare(queue, units)

    def add_batches(self, runs: Iterable[QueueRun]) -> None:
        """Take the batch queue runs of the next part of the log."""
        self.batches.add(runs)

    def finish(self, *, all_queues: bool) -> None:
        """Look at what lies in front of and behind what the log wants.

        Args:
            all_queues: queues that the log wants nothing of, too.
        """
        store = self._inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            for queue in self.queues.values():
                try:
                    self._finish(queue, log)
                except UnreadablePath:
                    self.unread.add(queue.path)
            if all_queues:
                self._others(log)
        for queue in self.queues.values():
            if any(f"{path}/".startswith(f"{queue.path}/") for path in self.unread):
                queue.patches.clear()
                queue.is_unread = True

    def _finish(self, queue: RepairedQueue, log: LogReader) -> None:
        for units in queue.placement.finish():
            self._compare(queue, units)
        self._keep_undispatched(queue, log)
        self._ends(queue, log)

    def close(self) -> None:
        """Close the files that were read."""
        self._reader.close()

    def next_offset(self, topic: bytes, queue_id: int) -> int | None:
        """Give a queue's next queue offset as it will be; None where the log has no message of it.

        To be asked once all runs were taken and `finish` was called.
        """
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return None
        fillers = [patch.end for patch in queue.patches if patch.lost]
        kept = [number + len(units) for number, units in self._kept(queue)]
        return max([queue.placement.next, *fillers, *kept, 0])

    def _kept(self, queue: RepairedQueue) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield the units behind the last one that the log wants, as far as they stay."""
        cuts = [patch.number for patch in queue.patches if patch.reason == CUT_REASON]
        begin = max(queue.placement.next, 0)
        for number, units in self._reader.used(queue.files, begin, min(cuts, default=None)):
            used = np.flatnonzero(units["size"])
            if used.size:
                yield number, units[: used[-1] + 1]

    def _open(self, run: QueueRun) -> RepairedQueue:
        topic = run.topic.decode("utf-8", "backslashreplace")
        found = self._inspection.family("queues").get((topic, run.queue_id))
        path = found.path if found else f"consumequeue/{topic}/{run.queue_id}"
        files = self._inspection.files_of(found) if found else None
        queue = RepairedQueue(topic, run.queue_id, path, files, BridgedPlacement(*self._log))
        self.queues[run.topic, run.queue_id] = queue
        return queue

    def _begins_anew(self, queue: RepairedQueue, run: QueueRun) -> bool:
        """Tell whether a queue was deleted and made again: the files then hold the newer units."""
        if not 0 <= run.queue_offset < queue.placement.next:
            return False
        return self._reader.read(queue.files, run.queue_offset, 1)[:12] == bytes(run.units[:12])

    def _compare(self, queue: RepairedQueue, units: Units) -> None:
        """Keep what differs from the units that belong here."""
        wanted = bytes(units.packed) * units.repeated
        count = len(wanted) // UNIT
        if self._file_length:
            last = (units.queue_offset + count) * UNIT - 1
            queue.times[last // self._file_length] = units.store_timestamp
        found = self._reader.read(queue.files, units.queue_offset, count)
        if found == wanted:
            return
        want, have = as_units(wanted), as_units(found)
        differs = want != have
        is_address = differs & (have["tags_code"] <= LARGEST_ADDRESS)
        if is_address.any():
            differs &= ~self._is_sound_address(queue, want, have, np.flatnonzero(is_address))
        rows = np.flatnonzero(differs)
        is_filler = units.queue_offset in queue.placement.filled
        for group in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if rows.size else ():
            first, end = int(group[0]), int(group[-1]) + 1
            raw = wanted[first * UNIT : end * UNIT]
            number = units.queue_offset + first
            queue.patches.append(
                self._filler(queue, number, raw, have[first:end])
                if is_filler
                else Patch(number, raw, *kind_of(want[first:end], have[first:end]))
            )

    def _is_sound_address(
        self,
        queue: RepairedQueue,
        want: npt.NDArray[np.void],
        have: npt.NDArray[np.void],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Tell of each unit whether it differs only in naming a sound unit of the extension."""
        sound = np.zeros(len(want), bool)
        name = (queue.topic, queue.queue_id)
        if name not in self._ext:
            found = self._inspection.family("ext_queues").get(name)
            files = self._inspection.files_of(found) if found else None
            self._ext[name] = ExtUnits.of(files) if files else None
        ext = self._ext[name]
        if ext is not None:
            is_same = np.ones(len(rows), bool)
            for part in ("physical_offset", "size"):
                is_same &= want[part][rows] == have[part][rows]
            stored = have["tags_code"][rows].astype(np.int64)
            sound[rows] = is_same & ext.match(stored, want["tags_code"][rows].astype(np.int64))
        return sound

    def _filler(
        self, queue: RepairedQueue, number: int, raw: bytes, have: npt.NDArray[np.void]
    ) -> Patch:
        """Word units that stand in for lost ones."""
        offsets = have["physical_offset"].astype(np.int64)
        known = [one for offset in offsets.tolist() if (one := self._damaged_at(offset))]
        count = len(raw) // UNIT
        what = "a lost message" if count == 1 else f"{count} lost messages"
        place = f"{queue.topic} queue {queue.queue_id}"
        last = f" to {number + count - 1}" if count > 1 else ""
        return Patch(
            number,
            raw,
            known[0].code if known else "CL-QOFF-GAP",
            f"passes over {what}: the unit of a neighbour, whose message is delivered again",
            f"{place}, queue offset {number}{last}",
        )

    def _keep_undispatched(self, queue: RepairedQueue, log: LogReader) -> None:
        """Leave units alone whose record is sound but can no longer be dispatched here.

        A flipped transaction bit, for one, or a damaged queue offset of a further queue: the unit
        that is there still delivers the message.
        """
        kept: list[Patch] = []
        for patch in queue.patches:
            kept += self._without_sound(queue, patch, log) if patch.lost else [patch]
        queue.patches = kept

    def _without_sound(self, queue: RepairedQueue, patch: Patch, log: LogReader) -> Iterator[Patch]:
        """Yield a patch of fillers without the units that are right."""
        count = patch.end - patch.number
        units = as_units(self._reader.read(queue.files, patch.number, count))
        offsets, sizes = units["physical_offset"], units["size"]
        pairs = enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True), patch.number)
        rows = np.array(
            [
                number - patch.number
                for number, (offset, size) in pairs
                if not self._is_own(queue, number, offset, size, log)
            ],
            np.int64,
        )
        if rows.size == count:
            yield patch
        elif rows.size:
            for group in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                first, end = int(group[0]), int(group[-1]) + 1
                raw = patch.raw[first * UNIT : end * UNIT]
                yield self._filler(queue, patch.number + first, raw, units[first:end])

    def _is_own(
        self, queue: RepairedQueue, number: int, physical_offset: int, size: int, log: LogReader
    ) -> bool:
        """Tell whether a unit is that of a sound record of this queue."""
        if size <= 0 or self._damaged_at(physical_offset) is not None:
            return False
        if size == self._log[1] and (physical_offset + 1 - self._log[0]) % size == 0:
            return True  # one by which an earlier rebuild passes over a lost record
        is_inside = self._log[0] <= physical_offset < self._end
        if is_inside and self._inspection.segment_at(physical_offset) is None:
            return True  # its segment is missing, and may come back from a backup
        head = log.head_at(physical_offset)
        if head is None or head.size != size:
            return False
        return self._is_of(queue, number, head, log)

    def _is_of(self, queue: RepairedQueue, number: int, head: RecordHead, log: LogReader) -> bool:
        """Tell whether a record is that of a unit; further queues number for themselves."""
        if queue.topic.startswith(LMQ_PREFIX):
            return True  # the property that names the queue may be what is damaged
        try:
            message = decode(log.read_at(head.physical_offset, head.size))
        except DecodeError:
            return False
        if (message.topic, head.queue_id, head.queue_offset) == (
            queue.topic,
            queue.queue_id,
            number,
        ):
            return True
        return queue.topic in message.properties.get(FURTHER_QUEUES, "").split(",")

    def _ends(self, queue: RepairedQueue, log: LogReader) -> None:
        """Look at the units in front of the first and behind the last one that the log wants."""
        placement = queue.placement
        if placement.next < 0:
            return
        first = self._reader.read(queue.files, placement.first, 1)
        known = [patch for patch in queue.patches if patch.number == placement.first]
        first = known[0].raw[:UNIT] if known else first
        self._in_front(queue, placement.first, first)
        self._behind(queue, placement.next, placement.last_unit, log)

    def _in_front(self, queue: RepairedQueue, end: int, unit: bytes) -> None:
        for number, units in self._reader.used(queue.files, 0, end):
            offsets = units["physical_offset"].astype(np.int64)
            lost = self._damaged.mask(offsets) & (units["size"] > 0)
            lost &= ~((units["size"] == PRE_BLANK_SIZE) & (offsets == 0))
            for row in np.flatnonzero(lost).tolist():
                have = units[row : row + 1]
                queue.patches.append(self._filler(queue, number + row, unit, have))
            wild = ~lost & (offsets > int(as_units(unit)["physical_offset"][0]))
            wild = (wild & (units["size"] > 0)) | (units["size"] <= 0)
            for row in np.flatnonzero(wild[: used(units)]).tolist():
                self._expired(queue, number + row)

    def _expired(self, queue: RepairedQueue, number: int) -> None:
        """Put a unit right whose message has expired: what it was nobody knows, but its order."""
        before = self._reader.read(queue.files, number - 1, 1) if number else PRE_BLANK
        raw = before
        if before != PRE_BLANK:
            offset, size, _ = CQ_UNIT.packer.unpack(before)
            raw = CQ_UNIT.packer.pack(offset + size, SMALLEST_RECORD, 0)
        reason = "its message has expired; the offset keeps the order that searches need"
        queue.patches.append(Patch(number, raw, "CQ-ORDER", reason))

    def _behind(self, queue: RepairedQueue, begin: int, last: bytes, log: LogReader) -> None:
        """Keep the numbers of lost messages taken; cut what the log knows nothing of."""
        for number, units in self._reader.used(queue.files, begin):
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                is_filler = unit.tobytes() == last and bool(self._inspection.bridges)
                if is_filler or not (offset or size or unit["tags_code"]):
                    continue
                damaged = self._lost(offset, size)
                if damaged is not None and not self._is_cut(queue, number + row):
                    patch = self._filler(queue, number + row, last, units[row : row + 1])
                    queue.patches.append(patch)
                elif not self._is_own(queue, number + row, offset, size, log):
                    self._cut(queue, number + row, size)

    def _lost(self, offset: int, size: int) -> Damaged | None:
        """Give the stretch that a unit points into; a tail counts if the broker had stopped."""
        tail = self.tail
        if tail is not None and tail.start <= offset < tail.end:
            if self._inspection.has_crashed or size <= 0:
                return None
            self.tail_end = max(self.tail_end, offset + size)
            return tail
        return self._damaged_at(offset) if size > 0 else None

    def _damaged_at(self, offset: int) -> Damaged | None:
        """Give the stretch that holds an offset; a blank that a unit points into covers records."""
        early = self._early.at(offset)
        if early is not None:
            early.given_up = True
            return early
        return self._damaged.at(offset)

    def _is_cut(self, queue: RepairedQueue, number: int) -> bool:
        last = queue.patches[-1] if queue.patches else None
        return last is not None and last.reason == CUT_REASON and last.end <= number

    def _cut(self, queue: RepairedQueue, number: int, size: int) -> None:
        code = "CQ-RANGE" if size > 0 else "CQ-HOLE"
        last = queue.patches[-1] if queue.patches else None
        if last is not None and last.reason == CUT_REASON and last.end == number:
            queue.patches[-1] = Patch(
                last.number, last.raw + bytes(UNIT), last.code, CUT_REASON, last.lost
            )
            return
        queue.patches.append(Patch(number, bytes(UNIT), code, CUT_REASON))

    def _others(self, log: LogReader) -> None:
        """Look at queues of which the log has no message at all."""
        known = {(queue.topic, queue.queue_id) for queue in self.queues.values()}
        for (topic, queue_id), found in self._inspection.family("queues").items():
            if (topic, queue_id) in known:
                continue
            files = self._inspection.files_of(found)
            placement = BridgedPlacement(*self._log)
            queue = RepairedQueue(topic, queue_id, found.path, files, placement)
            try:
                self._without_records(queue, log)
            except UnreadablePath:
                continue
            if queue.patches:
                self.queues[topic.encode("utf-8", "surrogateescape"), queue_id] = queue

    def _without_records(self, queue: RepairedQueue, log: LogReader) -> None:
        """Judge a queue none of whose messages is in the log: expired, lost, or of another log."""
        last = b""
        for number, units in self._reader.used(queue.files, 0):
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                if size <= 0 and row < used(units):
                    self._expired(queue, number + row)
                if size <= 0 or offset < self._log[0] or size == PRE_BLANK_SIZE:
                    last = unit.tobytes() if size > 0 else last
                    continue
                damaged = self._lost(offset, size)
                if damaged is not None:
                    filler = last or alone(damaged, *self._log, self.last_start)
                    if filler is None:
                        self.dropped.add((queue.topic, queue.queue_id))
                        self._cut(queue, number + row, size)
                        continue
                    patch = self._filler(queue, number + row, filler, units[row : row + 1])
                    queue.patches.append(patch)
                elif offset >= self._end and not self._is_own(
                    queue, number + row, offset, size, log
                ):
                    self._cut(queue, number + row, size)

    @property
    def _end(self) -> int:
        facts = self._inspection.log
        return facts.end if facts else 0
