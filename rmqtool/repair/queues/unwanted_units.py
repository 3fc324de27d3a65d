"""Judge the units of consume queues that the repaired log does not ask for.

They stand in front of the first unit that it wants, after the last one, in queues that it has no
message of; or a lost message's unit is there and still right. Expired ones stay, lost ones are
passed over, what no record stands after is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.rules import passes_pre_blank
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.findings.registry_consume_queue import CQ_HOLE, CQ_ORDER, CQ_RANGE
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.machine.arrays import stretches
from rmqtool.queues.kinds import UnitKind, are_recovered, as_units, kind_of, kinds_of
from rmqtool.repair.patches import Patch, RepairedQueue
from rmqtool.repair.queues.queue_place import alone
from rmqtool.repair.queues.unit_judge import REPEATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.queues.units import QueueUnits
    from rmqtool.repair.log.stretches import Damaged
    from rmqtool.repair.queues.unit_judge import LostUnits
    from rmqtool.store.record_heads import LogReader


MOST_MISSING: Final = 1 << 20  # units; several queue files
BLANKED: Final = "a filler that no broker hands out, as older messages have expired"
ALONE: Final = "no message: all messages of this queue are lost"


class UnwantedUnits:
    """Adds patches to queues, one queue after the other.

    Attributes:
        dropped: queues that begin anew, as nothing can stand for their lost messages.

    Args:
        inspection: of the store.
        facts: of its log.
        judge: knows what is damaged of the log.
        log: of the records.
        last_start: start of the last segment in use.
    """

    def __init__(
        self,
        inspection: Inspection,
        facts: LogFacts,
        judge: LostUnits,
        log: LogReader,
        last_start: int,
    ) -> None:
        self.dropped: set[tuple[str, int]] = set()
        self._judge, self._log = judge, log
        self._has_bridges = bool(facts.bridges)
        commitlog = inspection.store.commitlog
        self._place = (commitlog.start, commitlog.file_length, last_start)
        self._units_each = max(inspection.store.geometry.consume_queue.value // UNIT, 1)

    def of_queue(self, queue: RepairedQueue) -> None:
        """Judge those of a queue of which the log has messages."""
        self._keep_undispatched(queue)
        placement = queue.placement
        if placement.next < 0:
            return
        if placement.first:
            first = queue.units.packed(placement.first, 1)
            known = [patch for patch in queue.patches if patch.number == placement.first]
            first = known[0].raw[:UNIT] if known else first
            self._in_front(queue, placement.first, first)
            if known and (not queue.files or placement.first * UNIT < queue.files.start):
                self._lead(queue, placement.first, known[0])
        self._after_the_last(queue, placement.next, placement.last_unit)

    def note_tail(self, units: QueueUnits) -> None:
        """Find out how far the records at the log's end went that a queue knows."""
        for _, used in units.used(0):
            pairs = zip(used["physical_offset"].tolist(), used["size"].tolist(), strict=True)
            for offset, size in pairs:
                self._judge.lost(offset, size)

    def of_other_queue(self, queue: RepairedQueue, *, is_odd: bool) -> None:
        """Judge a queue none of whose messages is in the log: expired, lost, or of another log.

        Args:
            queue: whose units they are.
            is_odd: whether a file has not the length that brokers load; one without a unit goes.
        """
        last, end, damaged = b"", self._end_of_known(queue), None
        had_expired = self._place[0] > 0  # else a message of its own would be in the log
        order = ExpiredOrder(self._place[0], is_over=True)
        if is_odd and not end:
            queue.patches.append(Patch.cut(0, bytes(UNIT), CQ_RANGE))
        if not had_expired:
            end, damaged = self._lost_units(queue)
        for number, units in chain(self._all(queue, 0, end), queue.units.used(end)):
            foreign = self._foreign(queue, number, units)
            known, expired = max(end - number, 0), 0
            if had_expired and damaged is None:
                expired, damaged = self._until_lost(units[:known])
            wild = order.wild(units[:expired], self._judge.log_end - 1, foreign)
            self._restore(queue, number, wild)
            replaced: list[_ReplacedUnit] = []
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                # None: its message has expired, or its number is free
                stands_for = damaged if expired <= row < known else None
                if row in wild or (stands_for is None and not any(unit.tobytes())):
                    continue
                is_unit = size > 0 and offset >= 0 and not foreign[row]
                if stands_for is not None and not (is_unit and offset < self._judge.log_end):
                    replaced.append(self._instead(queue, row, last, stands_for))
                    continue
                if not is_unit:
                    replaced.append(_ReplacedUnit(row))
                    continue
                is_blank = kind_of(offset, size, int(unit["tags_code"])) == UnitKind.PRE_BLANK
                if is_blank or offset < self._place[0]:
                    last = unit.tobytes()
                    continue
                replaced += self._without_record(queue, last, (row, offset, size))
            self._patch(queue, number, units, replaced)

    def _lost_units(self, queue: RepairedQueue) -> tuple[int, Damaged | None]:
        """Give the number after the last unit of a lost message, and what it was lost with."""
        end, last = 0, None
        for number, units in queue.units.used(0):
            pairs = zip(units["physical_offset"].tolist(), units["size"].tolist(), strict=True)
            for row, (offset, size) in enumerate(pairs, number):
                if (damaged := self._judge.lost(offset, size)) is not None:
                    end, last = row + 1, damaged
        return end, last

    def _until_lost(self, units: npt.NDArray[np.void]) -> tuple[int, Damaged | None]:
        """Give the row of the first lost message, and what it was lost with; the end without one.

        No message expires after one that the log has still lost: what is wrong from there on is a
        lost one's, too.
        """
        for row in np.flatnonzero(self._judge.are_lost(units)).tolist():
            unit = units[row]
            damaged = self._judge.lost(int(unit["physical_offset"]), int(unit["size"]))
            if damaged is not None:
                return row, damaged
        return len(units), None

    def _end_of_known(self, queue: RepairedQueue) -> int:
        """Give the number after the last unit that stands for a message, whatever it was made.

        What follows the last sound one without a gap counts: if it was none, numbers are left out;
        if it was one and did not count, its number would be given away a second time.
        """
        end, is_open = 0, False
        for number, units in queue.units.used(0):
            is_empty = (units["physical_offset"] == 0) & (units["size"] == 0)
            is_past_log = (units["size"] > 0) & (units["physical_offset"] >= self._judge.log_end)
            is_place = (units["physical_offset"] >= 0) & ~is_past_log
            sound = np.flatnonzero((units["size"] > 0) & is_place)
            if not sound.size and not (is_open and number == end):
                continue
            rest = int(sound[-1]) + 1 if sound.size else 0
            stops = np.flatnonzero((is_empty | is_past_log)[rest:])
            is_open = not stops.size
            end = number + (rest + int(stops[0]) if stops.size else len(units))
        return end

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
        units = queue.units.read(patch.number, count)
        offsets, sizes = units["physical_offset"], units["size"]
        pairs = enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True), patch.number)
        is_lost = np.array(
            [
                not self._judge.is_own(queue, number, offset, size, self._log)
                for number, (offset, size) in pairs
            ],
            np.bool_,
        )
        if is_lost.all():
            yield patch
            return
        for first, end in stretches(is_lost):
            raw = patch.raw[first * UNIT : end * UNIT]
            yield self._judge.filler(queue, patch.number + first, raw, units[first:end])

    def _in_front(self, queue: RepairedQueue, end: int, unit: bytes) -> None:
        """Put right what stands in front of the first unit that the log wants.

        Args:
            queue: whose units they are.
            end: number of that unit.
            unit: its bytes.
        """
        bound = int(as_units(unit)["physical_offset"][0])
        is_whole = not (self._has_bridges or self._judge.has_lost(self._place[0], bound))
        begin = 0
        if self._place[0]:  # else nothing has expired
            begin = end if is_whole else self._end_of_expired(queue, end)
        order, last = ExpiredOrder(self._place[0]), (bound if is_whole else self._place[0]) - 1
        for number, units in self._all(queue, 0, begin):
            foreign = self._foreign(queue, number, units, bound)
            blank_end = queue.units.blank_end - number
            self._restore(queue, number, order.wild(units, last, foreign, blank_end))
        if not begin:
            begin = self._blank(queue, end)
        for number, units in self._all(queue, begin, end):
            offsets = units["physical_offset"]
            is_right = are_recovered(units) & (offsets <= bound)
            is_right &= ~self._foreign(queue, number, units, bound)
            lost = self._judge.are_lost(units) & (offsets != bound)
            is_blank = kinds_of(units) == UnitKind.PRE_BLANK
            is_passed = is_blank & passes_pre_blank(self._place[0])
            rows = np.flatnonzero((lost | ~is_right | is_blank) & ~is_passed).tolist()
            self._patch(queue, number, units, [_ReplacedUnit(row, unit, REPEATED) for row in rows])

    def _lead(self, queue: RepairedQueue, end: int, first: Patch) -> None:
        """Repeat the first unit before it in a file that is made, where pre-blank is no use."""
        begin = end - end % self._units_each
        if begin < end and not passes_pre_blank(self._place[0]):
            raw = first.raw[:UNIT] * (end - begin)
            patch = self._judge.filler(queue, begin, raw, as_units(bytes(len(raw))))
            queue.patches.append(replace(patch, code=first.code))

    def _blank(self, queue: RepairedQueue, end: int) -> int:
        """Fill the zeros that the queue's first file begins with; give the number of what follows.

        Where the log has expired a broker passes over pre-blanks, and hands nothing out for them.
        """
        first = queue.files.start // UNIT if queue.files else 0
        length = queue.files.file_length // UNIT
        if not self._place[0] or not queue.files or first > end:
            return 0
        starts = (
            number + int(rows[0])
            for number, units in queue.units.used(first, end)
            if (rows := np.flatnonzero(kinds_of(units) != UnitKind.EMPTY)).size
        )
        count = min(next(starts, end), first + length) - first
        if count > 0:
            raw = PRE_BLANK * count
            patch = self._judge.filler(queue, first, raw, as_units(bytes(len(raw))), BLANKED)
            queue.patches.append(patch)
        return first + count

    def _foreign(
        self, queue: RepairedQueue, number: int, units: npt.NDArray[np.void], first: int = -1
    ) -> npt.NDArray[np.bool_]:
        """Tell which units point into the log, but not to a record of this queue: bool, shape (n,).

        Args:
            queue: whose units they are.
            number: of the first one.
            units: shape (n,).
            first: physical offset of the queue's first record there; what repeats it is no other's.
        """
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        foreign = (offsets >= self._place[0]) & (offsets < self._judge.log_end) & (sizes > 0)
        foreign &= (offsets != first) & (kinds_of(units) != UnitKind.PRE_BLANK)
        foreign &= ~self._judge.are_lost(units)
        for row in np.flatnonzero(foreign).tolist():
            place = int(offsets[row]), int(sizes[row])
            foreign[row] = not self._judge.is_own(queue, number + row, *place, self._log)
        return foreign

    def _end_of_expired(self, queue: RepairedQueue, end: int) -> int:
        """Give the number after the last unit of an expired message, pre-blank among them."""
        after = 0
        for number, units in queue.units.used(0, end):
            rows = np.flatnonzero(
                are_recovered(units) & (units["physical_offset"] < self._place[0])
            )
            after = number + int(rows[-1]) + 1 if rows.size else after
        return after

    def _all(
        self, queue: RepairedQueue, begin: int, end: int
    ) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield (number of the first, units) of a range, from the first file's start on.

        Zeros stand for what no file has, but not for a range that no damage explains.
        """
        expected = max(begin, queue.files.start // UNIT if queue.files else end)
        for number, units in queue.units.used(begin, end):
            if expected < number <= expected + MOST_MISSING:
                yield expected, as_units(bytes((number - expected) * UNIT))
            yield number, units
            expected = number + len(units)
        if expected < end <= expected + MOST_MISSING:
            yield expected, as_units(bytes((end - expected) * UNIT))

    def _restore(self, queue: RepairedQueue, number: int, wild: dict[int, bytes]) -> None:
        """Put units right whose messages have expired: what they were nobody knows, but order."""
        reason = "its message has expired; the offset keeps the order that searches need"
        for row, raw in wild.items():
            queue.patches.append(Patch(number + row, raw, CQ_ORDER, reason))

    def _after_the_last(self, queue: RepairedQueue, begin: int, last: bytes) -> None:
        """Keep the numbers of lost messages taken; cut what the log knows nothing of."""
        is_cut = False
        for number, units in queue.units.used(begin):
            replaced: list[_ReplacedUnit] = []
            for row in range(len(units)):
                unit = units[row]
                offset, size = int(unit["physical_offset"]), int(unit["size"])
                is_filler = unit.tobytes() == last and self._has_bridges
                if is_filler or not (offset or size or unit["tags_code"]):
                    continue
                is_lost = self._judge.lost(offset, size) is not None
                if is_lost and not is_cut:
                    replaced.append(_ReplacedUnit(row, last, REPEATED))
                elif not self._judge.is_own(queue, number + row, offset, size, self._log):
                    is_cut = True
                    replaced.append(_ReplacedUnit(row))
                else:
                    last = unit.tobytes()
            self._patch(queue, number, units, replaced)

    def _without_record(
        self, queue: RepairedQueue, last: bytes, unit: tuple[int, int, int]
    ) -> Iterator[_ReplacedUnit]:
        """Judge a unit (row, offset, size) in a queue that the log wants nothing of."""
        row, offset, size = unit
        damaged = self._judge.lost(offset, size)
        if damaged is not None:
            yield self._instead(queue, row, last, damaged)
            return
        if self._judge.is_after_the_log(offset):
            yield _ReplacedUnit(row)

    def _instead(
        self, queue: RepairedQueue, row: int, last: bytes, damaged: Damaged
    ) -> _ReplacedUnit:
        """Give what stands for a lost message of a queue that the log has none of."""
        filler = last or alone(self._judge.bridged(damaged), *self._place)
        if filler is None:
            self.dropped.add((queue.topic, queue.queue_id))
            return _ReplacedUnit(row)
        return _ReplacedUnit(row, filler, REPEATED if last else ALONE)

    def _patch(
        self,
        queue: RepairedQueue,
        number: int,
        units: npt.NDArray[np.void],
        replaced: list[_ReplacedUnit],
    ) -> None:
        """Add patches for units of a chunk, one for neighbours that get the same."""
        for _, group in groupby(
            enumerate(replaced), lambda numbered: (numbered[1].row - numbered[0], numbered[1].how)
        ):
            run = [unit for _, unit in group]
            first, end = run[0].row, run[-1].row + 1
            raw = b"".join(unit.raw for unit in run)
            if run[0].how:
                have = units[first:end]
                patch = self._judge.filler(queue, number + first, raw, have, run[0].how)
            else:
                code = CQ_RANGE if units["size"][first] > 0 else CQ_HOLE
                patch = Patch.cut(number + first, raw, code)
            queue.patches.append(patch)


class _ReplacedUnit(NamedTuple):
    """What a unit of a chunk becomes."""

    row: int  # of the chunk
    raw: bytes = bytes(UNIT)  # its bytes then; zeros when it is cut
    how: str = ""  # the lost message is passed over; empty when the unit is cut


# Find units of expired messages that damage has changed, and give others in their place.
#
# No record tells what they were. But units point forward through the log, and a unit that does not
# keeps brokers from finding what lies after it: recovery ends at one without a size, searches by
# time go astray. So one that points between its neighbours takes the place.


class ExpiredOrder:
    """Goes over the units of one queue, chunk by chunk.

    Args:
        log_start: physical offset of the log's first byte.
        is_over: whether nothing follows the expired units. Then no pre-blank is given unless one
            of them follows: a broker that finds it at the end of a queue believes that all messages
            up to 2 GiB are dispatched, and skips new ones.
    """

    def __init__(self, log_start: int = 0, *, is_over: bool = False) -> None:
        self._last = log_start - 1
        self._before = -1  # physical offset of the last unit that may be right, or was put right
        self._is_over = is_over

    def wild(
        self,
        units: npt.NDArray[np.void],
        bound: int,
        foreign: npt.NDArray[np.bool_] | None = None,
        blank_end: int | None = None,
    ) -> dict[int, bytes]:
        """Give the rows that cannot be right, each with the unit to put there.

        Args:
            units: the next ones, shape (n,).
            bound: largest physical offset that they may have; their messages end after it at most.
            foreign: rows that cannot be right, as other queues have their records, shape (n,) or
                longer.
            blank_end: row from which on no pre-blank may stand, as the queue's first file ends
                there; None for none.
        """
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        rows = kinds_of(units) != UnitKind.PRE_BLANK
        numbers = np.flatnonzero(rows)
        possible = are_recovered(units) & (offsets <= bound + 1 - sizes)
        if foreign is not None:
            possible &= ~foreign[: len(units)]
        seen = offsets[numbers]
        if possible[numbers].all() and (np.diff(seen, prepend=self._before) >= 0).all():
            self._before = int(seen[-1]) if seen.size else self._before
            return {}
        end = len(units) if blank_end is None else blank_end
        return dict(self._one_by_one(numbers.tolist(), offsets.tolist(), possible, end))

    def _one_by_one(
        self,
        numbers: list[int],
        offsets: list[int],
        possible: npt.NDArray[np.bool_],
        blank_end: int,
    ) -> list[tuple[int, bytes]]:
        edits = []
        candidates = [number for number in numbers if possible[number]]
        following = dict(zip(candidates, pairwise(candidates[1:]), strict=False))
        for number in numbers:
            offset, at = offsets[number], bisect_right(candidates, number)
            then = [offsets[follower] for follower in following.get(number, ())]
            is_too_late = bool(then) and self._before <= min(then) and max(then) < offset
            if possible[number] and offset >= self._before and not is_too_late:
                self._before = offset
            elif (
                self._before < 0
                and number < blank_end
                and (at < len(candidates) or not self._is_over)
            ):
                edits.append((number, PRE_BLANK))
            else:
                later = candidates[at : at + 1]
                limits = [
                    offsets[follower] for follower in later if offsets[follower] >= self._before
                ]
                if self._before < self._last:
                    limits.append(self._last)
                # Not 0: brokers take that for the begin of the oldest file, and hand it out.
                self._before = min([max(self._before, 0) + 1, *limits])
                edits.append((number, CQ_UNIT.packer.pack(self._before, SMALLEST_RECORD, 0)))
        return edits
