"""Messages that are lost already, whatever a start does: no record of the log holds them.

Of each queue, the queue offsets that its records hold are counted against those between its first
message and its last. Only where these differ, or a unit leads to no record, or twice to one, is
the queue looked at unit by unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.ledger.numbers import (
    HeldNumbers,
    LostNumbers,
    NumberStretches,
    UnitNumbers,
    lost_numbers,
)
from rmqtool.machine.arrays import are_within, is_in, order_of
from rmqtool.store.segment import LARGEST_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.census import SegmentCensus
    from rmqtool.startup.coverage import UnitCoverage
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.outcomes import Before
    from rmqtool.startup.queues import QueueKey

    Int64s = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_NO_QUEUE: Final = -1
_COLUMNS: Final = 3  # of `HeldNumbers` and `UnitNumbers`


class _Spans:
    """What the records of each queue hold, as far as they were read, in columns by its number."""

    def __init__(self, *, is_from_0: bool) -> None:
        self._first = 0 if is_from_0 else LARGEST_LONG  # the log had the message 0 of each
        # smallest queue offset; after the largest; queue offsets that records hold, each as often
        # as one does; records: int64, shape (4, at most queues)
        self._columns = np.empty((4, 0), np.int64)

    def add(self, segment: SegmentCensus, own: Numbers, counts: Int64s) -> None:
        """Take the records of one file, each of which takes so many queue offsets."""
        if not own.size:
            return
        rows = own.astype(np.int64)
        self.reach(int(rows.max()) + 1)
        first, end, held, records = self._columns
        np.minimum.at(first, rows, segment.queue_offsets)
        np.maximum.at(end, rows, segment.queue_offsets + counts)
        np.add.at(held, rows, counts)
        records += np.bincount(rows, minlength=len(records))

    def reach(self, queues: int) -> None:
        """Have columns for so many queues."""
        new = np.array([[self._first], [-LARGEST_LONG], [0], [0]])
        more = np.repeat(new, max(queues - self._columns.shape[1], 0), axis=1)
        self._columns = np.concatenate([self._columns, more], axis=1)

    @property
    def spread(self) -> Int64s:
        """Queue offsets between the first and the last of each: int64, shape (queues,)."""
        spread: Int64s = np.where(self.records > 0, self._columns[1] - self._columns[0], 0)
        return spread

    @property
    def held(self) -> Int64s:
        """Queue offsets that records hold: int64, shape (queues,)."""
        held: Int64s = self._columns[2]
        return held

    @property
    def records(self) -> Int64s:
        """Records: int64, shape (queues,)."""
        records: Int64s = self._columns[3]
        return records


def _begins(ordered: Int64s | Numbers) -> tuple[Int64s, Int64s]:
    """Give the numbers among sorted ones, each once, and where the rows of each begin."""
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    begins = np.flatnonzero(is_new)
    return ordered[begins].astype(np.int64), begins


@dataclass(slots=True)
class Lost:
    """What is lost."""

    numbers: list[LostNumbers]  # queue offsets, by queue
    left: Int64s  # physical offsets, sorted, without a record, that none of these queues leads to
    named: int = 0  # messages at these queue offsets that units lead to
    passed: int = 0  # of these, those whose unit a repair wrote so that brokers pass it

    @property
    def unnamed(self) -> int:
        """Messages at these queue offsets that no unit leads to."""
        return sum(number.messages for number in self.numbers) - self.named


@dataclass(slots=True)
class AlreadyLost:
    """Takes the messages of the log, file by file; then says what is lost of them."""

    model: Model
    coverage: UnitCoverage  # what queues point to
    is_known: Callable[[str], bool]  # tells whether a topic is configured or has a queue
    is_from_0: bool  # whether the log begins at 0, and its first file is read
    # queues without a record of their own, to which those of others are dispatched, too
    copies: set[QueueKey] = field(default_factory=set)
    _spans: _Spans = field(init=False)
    # units of each queue that point into the files that were read, by its number: int64, shape (at
    # most queues,)
    _units: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self._spans = _Spans(is_from_0=self.is_from_0)

    def take(self, segment: SegmentCensus, own: Numbers) -> None:
        """Take the messages of one file, with the number of the queue of each."""
        batch = [name in self.model.batch_topics for name in segment.names]
        counts = np.ones(len(segment.topics), np.int64)
        if any(batch):
            counts = np.where(np.array(batch)[segment.topics], segment.messages, counts)
        self._spans.add(segment, own, counts)
        queues = self.coverage.now.of(segment.start).queues
        units = np.bincount(queues, minlength=len(self._units))
        units[: len(self._units)] += self._units
        self._units = units

    def _counts(self, segment: SegmentCensus, topic: str, rows: Int64s) -> Int64s:
        """Give how many queue offsets the record of each row takes."""
        is_batch = topic in self.model.batch_topics
        return segment.messages[rows] if is_batch else np.ones(len(rows), np.int64)

    def numbers(
        self,
        before: Before,
        holes: Int64s,
        unread: list[ModelFile],
        read: Callable[[], Iterable[SegmentCensus]],
    ) -> Lost:
        """Give the queue offsets that have lost their messages.

        Args:
            before: the queues as they are now.
            holes: physical offsets, sorted, that units point to and where no whole record is.
            unread: files of the log that were not read, as units tile them.
            read: reads the other files again.

        Raises:
            UnreadablePath: a file may not be read.
        """
        doubtful = set(self._doubtful(unread))
        lost = Lost([], holes)
        if holes.size:
            for key, numbered in before.named(self.model):
                if not _is_light(key) and is_in(numbered().physical_offsets, holes).any():
                    doubtful.add(key)
        if not doubtful:
            return lost
        units = _units_of(before, self.model, doubtful)
        believed = {key: _are_within(units[key].physical_offsets, unread) for key in doubtful}
        held = self._held(units, believed, read())
        named_offsets = [np.empty(0, np.int64)]
        for key in sorted(doubtful - self.copies):
            named = units[key]
            is_lost = is_in(named.physical_offsets, holes)
            stretches = lost_numbers(
                held[key], named, is_lost, believed[key], is_from_0=self.is_from_0
            )
            lost.numbers += _rows(key, stretches)
            _, rows = np.unique(named.numbers[is_lost], return_index=True)
            counts = named.counts[is_lost][rows]
            passed = are_passed(named.physical_offsets[is_lost][rows], self.model)
            lost.named += int(counts.sum())
            lost.passed += int(counts[passed].sum())
            named_offsets.append(named.physical_offsets[is_lost])
        lost.left = holes[~is_in(holes, np.sort(np.concatenate(named_offsets)))]
        return lost

    def _doubtful(self, unread: list[ModelFile]) -> Iterator[QueueKey]:
        """Yield the queues whose records and units do not follow one another without a hole."""
        spans, times = self._spans, self.coverage.sources
        spans.reach(len(times))
        units = np.append(self._units, np.zeros(len(times) - len(self._units), np.int64))
        spread, held = spans.spread, spans.held
        elsewhere = np.zeros(len(times), np.int64)  # units into the files that were not read
        for file in unread if (spread != held).any() else ():
            queues = self.coverage.now.of(file.start).queues
            elsewhere += np.bincount(queues, minlength=len(elsewhere))
        is_odd = (spans.records > 0) & (times > 0) & (units != spans.records * times)
        known: dict[str, bool] = {}
        for queue in np.flatnonzero((spread != held) | is_odd).tolist():
            key = self.coverage.numbers.key(queue)
            topic = key[0]
            if topic not in known:
                known[topic] = not _is_light(key) and self.is_known(topic)
            if not known[topic]:
                continue
            is_batch = topic in self.model.batch_topics
            missed = int(spread[queue]) - int(held[queue])  # either may be any number
            is_filled = unread and times[queue] and not is_batch
            if is_odd[queue] or not (is_filled and missed <= elsewhere[queue]):
                yield key

    def _held(
        self,
        units: dict[QueueKey, UnitNumbers],
        believed: dict[QueueKey, NDArray[np.bool_]],
        segments: Iterable[SegmentCensus],
    ) -> dict[QueueKey, HeldNumbers]:
        """Give the records of some queues, in the order of the log.

        A unit is believed, too, that leads to a record with its queue offset and the name of
        another queue: that name is damaged, as whoever wrote the unit has read it.
        """
        keys = sorted(units)
        numbers_asked = [*map(self.coverage.numbers.of, keys)]
        pointed = _UnitsByPlace.of([units[key] for key in keys])
        parts: dict[QueueKey, list[Int64s]] = {key: [_no_columns()] for key in keys}
        renamed = [np.empty(0, np.int64)]
        for segment in sorted(segments, key=lambda census: census.start):
            own = self.coverage.numbers.of_names(segment.names, segment.topics, segment.queue_ids)
            asked = np.full(len(self.coverage.numbers), _NO_QUEUE)
            asked[numbers_asked] = np.arange(len(keys))
            owners = asked[own]
            chosen = np.flatnonzero(owners != _NO_QUEUE)
            chosen = chosen[np.argsort(owners[chosen], kind="stable")]
            of_queues, begins = _begins(owners[chosen])
            ends = pairwise([*begins.tolist(), len(chosen)])
            for number, (begin, end) in zip(of_queues.tolist(), ends, strict=True):
                key, rows = keys[number], chosen[begin:end]
                numbers = segment.queue_offsets[rows]
                counts = self._counts(segment, key[0], rows)
                offsets = segment.start + segment.positions[rows]
                parts[key].append(np.stack([numbers, counts, offsets]))
            others, is_renamed = pointed.in_other_queues(segment, owners)
            self.copies |= {
                keys[number]
                for number in np.unique(pointed.queues[others]).tolist()
                if not self._has_records(keys[number])
            }
            for unit in others[is_renamed].tolist():
                believed[keys[pointed.queues[unit]]][pointed.rows[unit]] = True
            renamed.append(pointed.offsets[others[is_renamed]])
        held = {key: HeldNumbers(*np.concatenate(pieces, axis=1)) for key, pieces in parts.items()}
        of_others = np.sort(np.concatenate(renamed))
        return {key: _own(held[key], units[key], of_others) for key in keys}

    def _has_records(self, key: QueueKey) -> bool:
        number, records = self.coverage.numbers.get(key), self._spans.records
        return number is not None and number < len(records) and bool(records[number])


def _own(records: HeldNumbers, units: UnitNumbers, of_others: Int64s) -> HeldNumbers:
    """Give the records of a queue; none of one that only damaged names of records make.

    Args:
        records: that name it.
        units: that it has.
        of_others: physical offsets, sorted, of records that a unit of another queue has read.
    """
    is_made_up = not units.numbers.size and is_in(records.physical_offsets, of_others).all()
    return HeldNumbers(*_no_columns()) if is_made_up else records


class _UnitsByPlace(NamedTuple):
    """Units of several queues by where they lead to; all int64, shape (n,)."""

    offsets: Int64s  # physical ones, ascending
    numbers: Int64s  # queue offset of each
    queues: Int64s  # which queue each is of
    rows: Int64s  # which of its units each is

    @classmethod
    def of(cls, units: list[UnitNumbers]) -> _UnitsByPlace:
        """Sort the units of queues, each of which has the number of its place."""
        none = np.empty(0, np.int64)
        offsets = np.concatenate([none, *(unit.physical_offsets for unit in units)])
        numbers = np.concatenate([none, *(unit.numbers for unit in units)])
        counts = [len(unit.numbers) for unit in units]
        queues = np.repeat(np.arange(len(units)), counts)
        rows = np.concatenate([none, *map(np.arange, counts)]).astype(np.int64)
        order = order_of(offsets)
        return cls(offsets[order], numbers[order], queues[order], rows[order])

    def in_other_queues(
        self, segment: SegmentCensus, owners: Int64s
    ) -> tuple[Int64s, NDArray[np.bool_]]:
        """Give the units that lead to a record of another queue, and which of these name it.

        Args:
            segment: a file of the log.
            owners: which queue each of its records is of; -1 for others.
        """
        if not segment.positions.size:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        places = segment.start + segment.positions
        low = int(np.searchsorted(self.offsets, places[0]))
        high = int(np.searchsorted(self.offsets, places[-1], side="right"))
        offsets = self.offsets[low:high]
        rows = np.searchsorted(places, offsets)
        chosen = np.flatnonzero((places[rows] == offsets) & (owners[rows] != self.queues[low:high]))
        others = chosen + low
        return others, segment.queue_offsets[rows[chosen]] == self.numbers[others]


def are_passed(offsets: Int64s, model: Model) -> NDArray[np.bool_]:
    """Tell which units lead to the last byte of a file: no record begins there, and none is read.

    So repairs and rebuilds leave the unit of a lost message that no neighbour stands for.
    """
    passed: NDArray[np.bool_] = (offsets + 1) % model.commitlog.file_length == 0
    return passed


def _units_of(before: Before, model: Model, keys: set[QueueKey]) -> dict[QueueKey, UnitNumbers]:
    parts: dict[QueueKey, list[Int64s]] = {key: [_no_columns()] for key in keys}
    for key, numbered in before.named(model):
        if key in keys:
            parts[key].append(np.stack(numbered()))
    return {key: UnitNumbers(*np.concatenate(pieces, axis=1)) for key, pieces in parts.items()}


def _no_columns() -> Int64s:
    return np.empty((_COLUMNS, 0), np.int64)


def _is_light(key: QueueKey) -> bool:
    return key[0].startswith(LMQ_PREFIX)


def _are_within(offsets: Int64s, files: list[ModelFile]) -> NDArray[np.bool_]:
    if not files:
        return np.zeros(len(offsets), np.bool_)
    held = sorted((file.start, file.start + file.length) for file in files)
    starts, ends = np.array(held, np.int64).T
    return are_within(offsets, starts, ends)


def _rows(key: QueueKey, stretches: NumberStretches) -> Iterator[LostNumbers]:
    for start, end in zip(stretches.starts.tolist(), stretches.ends.tolist(), strict=True):
        yield LostNumbers(*key, start, end - start)
