"""Which queues hold what the log wants of them, told by columns: no object for a sound queue.

Runs of a part are compared with the units that were read before, all queues at once. A queue whose
next run is not the one that lies there goes to who judges it, with what was seen of it so far; its
later runs follow. A queue of which nothing differs never becomes an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import name_in_files, topic_text
from rmqtool.broker.rules import passes_pre_blank
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.queues.kinds import UnitKind, kinds_of
from rmqtool.queues.short import NO_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRuns, RunQueues
    from rmqtool.queues.kinds import Units
    from rmqtool.queues.queue_names import QueueNames
    from rmqtool.queues.short import ShortQueues

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

UNKNOWN: Final = -1
STORE_TIME: Final = ROCKSDB_CQ_UNIT.dtype["store_timestamp"]


def pass_over(units: Units, log_start: int, segment_length: int) -> Mask:
    """Tell which units let brokers pass a lost record: bool, shape (n,); so rebuilds write.

    They name the last byte of a segment, where no record begins, and a segment's length.
    """
    if not segment_length:
        return np.zeros(len(units), np.bool_)
    starts = units["physical_offset"].astype(np.int64) + 1 - log_start
    mask: Mask = (units["size"] == segment_length) & (starts > 0) & (starts % segment_length == 0)
    return mask


class LogBounds(NamedTuple):
    """Where a log begins and ends, as physical offsets, and how it is cut into files."""

    start: int  # first byte that it has
    end: int  # after its last record
    segment_length: int  # bytes of a file; 0 where nothing tells


class SoundSoFar(NamedTuple):
    """What the log has wanted of a queue so far, all of which lies there."""

    first: int  # number of the first unit
    next: int  # number after the last unit
    first_physical_offset: int  # of the record of the first unit
    last_physical_offset: int  # of the record of the last unit
    last: bytes  # the last unit


class WholeQueues(Mapping[tuple[str, int], tuple[int, int]]):
    """First and next queue offset of queues that hold what the log wants alone, by printed name.

    Args:
        names: of queues.
        topics_of: gives the topics of `names` that are printed as a text.
        is_whole: which of them are whole: bool, shape (n,).
        first: int64, shape (n,).
        next_: int64, shape (n,).
    """

    def __init__(
        self,
        names: QueueNames,
        topics_of: Callable[[str], Sequence[bytes]],
        is_whole: Mask,
        first: Int64s,
        next_: Int64s,
    ) -> None:
        self._names, self._topics_of, self._is_whole = names, topics_of, is_whole
        self._first, self._next = first, next_

    def __getitem__(self, name: tuple[str, int]) -> tuple[int, int]:
        topic, queue_id = name
        rows = (self._names.row(raw, queue_id) for raw in self._topics_of(topic))
        row = next((row for row in rows if row >= 0), UNKNOWN)
        if row < 0 or not self._is_whole[row]:
            raise KeyError(name)
        return int(self._first[row]), int(self._next[row])

    def numbers_of(self, topic: str) -> Iterator[int]:
        """Give the numbers of those of one topic."""
        for raw in self._topics_of(topic):
            rows = self._names.rows_in(raw)
            yield from compress(self._names.numbers_of(raw), self._is_whole[rows.start : rows.stop])

    def messages(self) -> Iterator[tuple[str, int]]:
        """Yield the topics, and how many messages the queues of each have together."""
        counts = np.where(self._is_whole, self._next - self._first, 0)
        for topic in self._names.topics:
            rows = self._names.rows_in(topic)
            yield topic_text(topic), int(counts[rows.start : rows.stop].sum())

    def __iter__(self) -> Iterator[tuple[str, int]]:
        names = compress(self._names, self._is_whole)
        return ((topic_text(topic), queue_id) for topic, queue_id in names)

    def __len__(self) -> int:
        return int(self._is_whole.sum())


class Remains(NamedTuple):
    """What is left of the queues that were sound to the end, once the log was read."""

    whole: WholeQueues  # those that hold nothing else
    others: list[tuple[bytes, int]]  # those that hold more, which is to be judged
    expired: int  # units of whole queues that point before the log
    expired_queues: set[tuple[str, int]]  # the queues that have any


class ExactQueues(NamedTuple):
    """The queues that hold what the log wants, and nothing else; all int64, shape (n,)."""

    rows: Int64s  # which of the short queues
    first: Int64s  # number of the first unit of each
    next: Int64s  # number after the last one
    last_physical_offset: Int64s  # of the record of the last one


class UnitsHeld:
    """Compares units of runs with those of short queues; `check` and `repair` ask for the same.

    Args:
        short: what the queues hold.
    """

    def __init__(self, short: ShortQueues) -> None:
        self.short = short
        self._asked: tuple[QueueRuns, Int64s] | None = None  # the last time
        self._same: Mask = np.zeros(0, np.bool_)

    def same(self, runs: QueueRuns, chosen: Int64s, rows: Int64s) -> Mask:
        """Tell of some runs whether their units lie in the queues: bool, shape (chosen,).

        Args:
            runs: of a part.
            chosen: which of them: int64, shape (chosen,).
            rows: of the queues that they are of: int64, shape (chosen,).
        """
        before = self._asked
        if before is None or before[0] is not runs or not np.array_equal(before[1], chosen):
            self._same, self._asked = self._compare(runs, chosen, rows), (runs, chosen)
        return self._same

    def _compare(self, runs: QueueRuns, chosen: Int64s, rows: Int64s) -> Mask:
        if not chosen.size:
            return np.zeros(0, np.bool_)
        count, short = runs.count[chosen], self.short
        begins = np.cumsum(count) - count
        within = np.arange(int(count.sum())) - np.repeat(begins, count)
        wanted = np.repeat(runs.first[chosen], count) + within
        places = short.position[rows] + runs.queue_offset[chosen] - short.first[rows]
        there = np.repeat(places, count) + within
        on_disk = short.units.view(np.uint32)[there]  # compared by words, not byte by byte
        words = CQ_UNIT_SIZE // 4
        same = (runs.units.view(np.uint32)[wanted] == on_disk[:, :words]).all(axis=1)
        if on_disk.shape[1] > words:  # of RocksDB: the store time of the record follows
            if len(runs.times) != len(runs.units):
                return np.zeros(len(chosen), np.bool_)
            times = runs.times[wanted].astype(STORE_TIME).view(np.uint32).reshape(-1, 2)
            same &= (times == on_disk[:, words:]).all(axis=1)
        return np.logical_and.reduceat(same, begins)


class SoundQueues:
    """Compares the runs of the log with the short queues of a store.

    Args:
        held: compares units with those of the short queues.
        name_of: gives a topic, as the log has it, by the name that the short queues have; None for
            one whose queues are not to be compared here.
        is_explained: tells which physical offsets a finding about the log explains.
    """

    def __init__(
        self,
        held: UnitsHeld,
        name_of: Callable[[bytes], bytes | None],
        is_explained: Callable[[Int64s], Mask],
    ) -> None:
        self._held, self._name_of, self._is_explained = held, name_of, is_explained
        self._short = short = held.short
        self._topics: dict[bytes, tuple[int, int]] = {}  # as the log has them: see `_topic`
        self._owner = np.full(len(short), UNKNOWN, np.int32)  # which of these each queue has
        self._seen = np.full((4, len(short)), UNKNOWN, np.int64)  # as `SoundSoFar` begins
        self._is_left = np.zeros(len(short), np.bool_)
        self.units = self.newest = 0

    def take(self, runs: QueueRuns) -> QueueRuns:
        """Take the runs of a part; give those that have to be judged, in the same order.

        Args:
            runs: of consume queues.
        """
        if not len(self._short) or not len(runs) or len(runs.ends):
            self._leave(runs)
            return runs
        rows = self._rows_of(runs)
        first, next_, first_place, last_place = self._seen
        places = runs.units.view(CQ_UNIT.dtype)[:, 0]["physical_offset"]
        begins = places[runs.first].astype(np.int64)
        ends = places[runs.first + runs.count - 1].astype(np.int64)
        here, there = runs.queue_offset, runs.queue_offset + runs.count
        times = np.bincount(rows[rows >= 0], minlength=len(self._short))
        known = np.maximum(rows, 0)
        can_be = (rows >= 0) & ~self._is_left[known] & (times[known] == 1) & (runs.count > 0)
        can_be &= (next_[known] == UNKNOWN) | (next_[known] == here)
        can_be &= (here >= self._short.first[known]) & (there <= self._short.end[known])
        can_be &= ~self._is_explained(begins) & ~self._is_explained(ends)
        chosen = np.flatnonzero(can_be)
        is_sound = np.zeros(len(runs), np.bool_)
        is_sound[chosen] = self._held.same(runs, chosen, rows[chosen])
        self._is_left[rows[(rows >= 0) & ~is_sound]] = True
        sound = rows[is_sound]
        is_new = next_[sound] == UNKNOWN
        first[sound[is_new]] = here[is_sound][is_new]
        first_place[sound[is_new]] = begins[is_sound][is_new]
        next_[sound], last_place[sound] = there[is_sound], ends[is_sound]
        self.units += int(runs.count[is_sound].sum())
        self.newest = max(self.newest, int(ends[is_sound].max(initial=0)))
        return runs if not sound.size else runs.chosen(~is_sound)

    def leave(self, topic: bytes, queue_id: int) -> None:
        """Let others judge a queue from now on."""
        row = self._row_of(topic, queue_id)
        if row >= 0:
            self._is_left[row] = True

    def seen_of(self, topic: bytes, queue_id: int) -> SoundSoFar | None:
        """Give what was seen of a queue before it was to be judged; None for nothing."""
        row = self._row_of(topic, queue_id)
        if row < 0 or self._seen[1, row] == UNKNOWN:
            return None
        first, end, first_place, last_place = self._seen[:, row].tolist()
        at = self._short.position[row] + end - 1 - self._short.first[row]
        return SoundSoFar(first, end, first_place, last_place, self._short.units[at].tobytes())

    def _leave(self, runs: QueueRuns) -> None:
        """Let others judge all queues of these runs."""
        if len(self._short) and len(runs):
            rows = self._rows_of(runs)
            self._is_left[rows[rows >= 0]] = True

    def _rows_of(self, runs: QueueRuns) -> Int64s:
        """Give the row of the queue of each run: int64, shape (runs,); UNKNOWN for none."""
        return self._rows(runs.queues)[runs.queue]

    def _rows(self, queues: RunQueues) -> Int64s:
        topics = np.array([*map(self._topic, queues.topics)], np.int64).reshape(-1, 2)
        number, owner = topics[queues.topic].T
        rows = self._short.rows.rows_of(number, queues.queue_id)
        known = rows >= 0
        here, owner = rows[known], owner[known]
        is_new = self._owner[here] == UNKNOWN
        self._owner[here[is_new]] = owner[is_new]
        # Two names that Java decodes to one text.
        self._is_left[here[self._owner[here] != owner]] = True
        return rows

    def _topic(self, topic: bytes) -> tuple[int, int]:
        """Give which of the topics of the short queues one is, UNKNOWN for none, and a number."""
        if topic not in self._topics:
            name = self._name_of(topic)
            number = UNKNOWN if name is None else self._short.rows.names.topic_number(name)
            self._topics[topic] = number, len(self._topics)
        return self._topics[topic]

    def _row_of(self, topic: bytes, queue_id: int) -> int:
        """Give the row of a queue; UNKNOWN for none."""
        number, owner = self._topic(topic)
        if number == UNKNOWN:
            return UNKNOWN
        row = self._short.rows.get((self._short.rows.names.topics[number], queue_id), UNKNOWN)
        if row >= 0 and self._owner[row] not in {UNKNOWN, owner}:
            self._is_left[row] = True
        elif row >= 0:
            self._owner[row] = owner
        return row

    def _names(self, rows: Int64s) -> list[tuple[bytes, int]]:
        """Give the names of queues as the log has them."""
        topics, names = [*self._topics], self._short.rows.names
        numbers = names.queue_ids[self._short.rows.of_names[rows]].tolist()
        owners = self._owner[rows].tolist()
        return [(topics[owner], number) for owner, number in zip(owners, numbers, strict=True)]

    def exact(self) -> ExactQueues:
        """Give the queues that hold what the log wanted, and nothing else, once it was read."""
        first, next_, _, last_place = self._seen
        short = self._short
        is_exact = ~self._is_left & (next_ == short.end) & (first == short.first)
        rows = np.flatnonzero(is_exact & (next_ != UNKNOWN))
        return ExactQueues(rows, first[rows], next_[rows], last_place[rows])

    def rest(self, log: LogBounds, are_lost: Callable[[Units], Mask]) -> Remains:
        """Say what is left, once all runs were taken, of the queues that nobody judges yet.

        Units in front of those that the log wants are of messages that have expired, and nothing
        is to be said of them, where they point before the log, and further with each.

        Args:
            log: where it begins and ends.
            are_lost: tells which units point to lost records.
        """
        first, next_, *_ = self._seen
        short = self._short
        is_here = ~self._is_left & (next_ != UNKNOWN)
        is_whole = is_here & (short.end == next_)
        rows = np.flatnonzero(is_whole & (short.first < first))
        expired, is_odd = self._expired(rows, log, are_lost)
        is_whole[rows[is_odd]] = False
        counts = expired[~is_odd]
        has_expired = self._names(rows[~is_odd][counts > 0])
        names, of_names = short.rows.names, short.rows.of_names
        whole = np.zeros((3, len(names)), np.int64)
        whole[:, of_names] = is_whole, first, next_
        return Remains(
            WholeQueues(names, _in_files, whole[0] > 0, *whole[1:]),
            self._names(np.flatnonzero(is_here & ~is_whole)),
            int(counts.sum()),
            {(topic_text(topic), queue_id) for topic, queue_id in has_expired},
        )

    def _expired(
        self, rows: Int64s, log: LogBounds, are_lost: Callable[[Units], Mask]
    ) -> tuple[Int64s, Mask]:
        """Count expired units in front of what the log wants; tell where others are among them.

        Pre-blanks may come before all of them where brokers pass them over.
        """
        short, count = self._short, self._seen[0][rows] - self._short.first[rows]
        if not rows.size:
            return count, np.zeros(0, np.bool_)
        begins = np.cumsum(count) - count
        number = np.repeat(np.arange(len(rows)), count)
        within = np.arange(len(number)) - np.repeat(begins, count)
        units = short.units[np.repeat(short.position[rows], count) + within]
        units = units.reshape(-1).view(CQ_UNIT.dtype)
        kinds, places = kinds_of(units), units["physical_offset"].astype(np.int64)
        is_real, is_blank = kinds == UnitKind.REAL, kinds == UnitKind.PRE_BLANK
        follows = np.append(False, number[1:] == number[:-1])
        before = np.append(0, places[:-1])
        was_real = np.append(False, is_real[:-1])
        is_passed = is_blank & passes_pre_blank(log.start) & ~(follows & was_real)
        odd = ~(is_real | is_passed) | are_lost(units)
        odd |= pass_over(units, log.start, log.segment_length) | (places + units["size"] > log.end)
        odd |= is_real & ((places >= log.start) | (follows & was_real & (places <= before)))
        return np.add.reduceat(is_real.astype(np.int64), begins), np.logical_or.reduceat(
            odd, begins
        )


def _in_files(topic: str) -> tuple[bytes]:
    return (name_in_files(topic),)


def no_sound_queues() -> SoundQueues:
    """Give one that has no queue to compare."""
    held = UnitsHeld(NO_QUEUES)
    return SoundQueues(held, lambda _: None, lambda offsets: np.ones(len(offsets), np.bool_))


def no_queue_whole() -> WholeQueues:
    """Give no queue that is whole."""
    none = np.zeros(0, np.int64)
    return WholeQueues(NO_QUEUES.rows.names, _in_files, np.zeros(0, np.bool_), none, none)
