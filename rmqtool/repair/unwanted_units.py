"""Judge the units of consume queues that the repaired log does not ask for.

They stand in front of the first unit that it wants, behind the last one, in queues that it has no
message of; or a lost message's unit is there and still right. Expired ones stay, lost ones are
passed over, what no record stands behind is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.queue_state import UNIT, as_units
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK, PRE_BLANK_SIZE
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.repair.patches import CUT_REASON, Patch, RepairedQueue, used
from rmqtool.repair.queue_place import alone
from rmqtool.repair.unit_judge import REPEATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queue_state import QueueReader
    from rmqtool.repair.unit_judge import UnitJudge
    from rmqtool.store.record_heads import LogReader

ALONE: Final = "all of its queue are lost, and for this unit nothing is read"


class UnwantedUnits:
    """Adds patches to queues, one queue after the other.

    Attributes:
        dropped: queues that begin anew, as nothing can stand for their lost messages.

    Args:
        inspection: of the store.
        judge: knows what is damaged of the log.
        reader: of the queues.
        log: of the records.
        last_start: start of the last segment in use.
    """

    def __init__(
        self,
        inspection: Inspection,
        judge: UnitJudge,
        reader: QueueReader,
        log: LogReader,
        last_start: int,
    ) -> None:
        self.dropped: set[tuple[str, int]] = set()
        self._judge, self._reader, self._log = judge, reader, log
        self._has_bridges = bool(inspection.bridges)
        commitlog = inspection.store.commitlog
        self._place = (commitlog.start, commitlog.file_length, last_start)

    def of_queue(self, queue: RepairedQueue) -> None:
        """Judge those of a queue of which the log has messages."""
        self._keep_undispatched(queue)
        placement = queue.placement
        if placement.next < 0:
            return
        first = self._reader.read(queue.files, placement.first, 1)
        known = [patch for patch in queue.patches if patch.number == placement.first]
        first = known[0].raw[:UNIT] if known else first
        self._in_front(queue, placement.first, first)
        self._behind(queue, placement.next, placement.last_unit)

    def of_other_queue(self, queue: RepairedQueue) -> None:
        """Judge a queue none of whose messages is in the log: expired, lost, or of another log."""
        last = b""
        for number, units in self._reader.used(queue.files, 0):
            count = used(units)
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                if size <= 0 and row < count:
                    self._expired(queue, number + row)
                if size <= 0 or offset < self._place[0] or size == PRE_BLANK_SIZE:
                    last = unit.tobytes() if size > 0 else last
                    continue
                self._without_record(queue, number + row, last, units[row : row + 1])

    def _keep_undispatched(self, queue: RepairedQueue) -> None:
        """Leave units alone whose record is sound but can no longer be dispatched here.

        A flipped transaction bit, for one, or a damaged queue offset of a further queue: the unit
        that is there still delivers the message.
        """
        kept: list[Patch] = []
        for patch in queue.patches:
            kept += self._without_sound(queue, patch) if patch.lost else [patch]
        queue.patches = kept

    def _without_sound(self, queue: RepairedQueue, patch: Patch) -> Iterator[Patch]:
        """Yield a patch of fillers without the units that are right."""
        count = patch.end - patch.number
        units = as_units(self._reader.read(queue.files, patch.number, count))
        offsets, sizes = units["physical_offset"], units["size"]
        pairs = enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True), patch.number)
        rows = np.array(
            [
                number - patch.number
                for number, (offset, size) in pairs
                if not self._judge.is_own(queue, number, offset, size, self._log)
            ],
            np.int64,
        )
        if rows.size == count:
            yield patch
        elif rows.size:
            for group in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                first, end = int(group[0]), int(group[-1]) + 1
                raw = patch.raw[first * UNIT : end * UNIT]
                yield self._judge.filler(queue, patch.number + first, raw, units[first:end])

    def _in_front(self, queue: RepairedQueue, end: int, unit: bytes) -> None:
        for number, units in self._reader.used(queue.files, 0, end):
            offsets = units["physical_offset"].astype(np.int64)
            lost = self._judge.are_lost(units)
            lost &= ~((units["size"] == PRE_BLANK_SIZE) & (offsets == 0))
            for row in np.flatnonzero(lost).tolist():
                have = units[row : row + 1]
                queue.patches.append(self._judge.filler(queue, number + row, unit, have))
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

    def _behind(self, queue: RepairedQueue, begin: int, last: bytes) -> None:
        """Keep the numbers of lost messages taken; cut what the log knows nothing of."""
        for number, units in self._reader.used(queue.files, begin):
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                is_filler = unit.tobytes() == last and self._has_bridges
                if is_filler or not (offset or size or unit["tags_code"]):
                    continue
                damaged = self._judge.lost(offset, size)
                if damaged is not None and not _is_cut(queue, number + row):
                    patch = self._judge.filler(queue, number + row, last, units[row : row + 1])
                    queue.patches.append(patch)
                elif not self._judge.is_own(queue, number + row, offset, size, self._log):
                    _cut(queue, number + row, size)

    def _without_record(
        self, queue: RepairedQueue, number: int, last: bytes, have: npt.NDArray[np.void]
    ) -> None:
        """Judge a unit that points into the log, in a queue that the log wants nothing of."""
        offset, size = int(have["physical_offset"][0]), int(have["size"][0])
        damaged = self._judge.lost(offset, size)
        if damaged is not None:
            filler = last or alone(damaged, *self._place)
            if filler is None:
                self.dropped.add((queue.topic, queue.queue_id))
                _cut(queue, number, size)
            else:
                how = REPEATED if last else ALONE
                queue.patches.append(self._judge.filler(queue, number, filler, have, how))
            return
        is_behind = offset >= self._judge.log_end
        if is_behind and not self._judge.is_own(queue, number, offset, size, self._log):
            _cut(queue, number, size)


def _is_cut(queue: RepairedQueue, number: int) -> bool:
    last = queue.patches[-1] if queue.patches else None
    return last is not None and last.reason == CUT_REASON and last.end <= number


def _cut(queue: RepairedQueue, number: int, size: int) -> None:
    code = "CQ-RANGE" if size > 0 else "CQ-HOLE"
    last = queue.patches[-1] if queue.patches else None
    if last is not None and last.reason == CUT_REASON and last.end == number:
        queue.patches[-1] = Patch(
            last.number, last.raw + bytes(UNIT), last.code, CUT_REASON, last.lost
        )
        return
    queue.patches.append(Patch(number, bytes(UNIT), code, CUT_REASON))
