"""Consume queues in RocksDB: units by seeks, ends by the rows of `max`.

A unit's number is its queue offset. Units above `max` are not part of the queue: truncation lowers
`max` alone, and the next messages overwrite them. Which units expired, the commitlog tells: they
stay until a compaction drops them.
Source: RocksDBConsumeQueueStore, RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable, 5.2.0
to 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import topic_text
from rmqtool.budget import FREE_STEPS, OverBudget, ParseBudget
from rmqtool.errors import DamagedDatabase, DecodeError
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import (
    CHECKPOINT_KEY,
    CQ_KEY_HEAD,
    CQ_KEY_TAIL,
    DISPATCHED,
    MAX,
    MIN,
    QUEUE_END,
    RANGE_BEGIN,
    RANGE_END,
    ROCKSDB_CQ_UNIT,
    offset_key,
    queue_end_of,
    queue_of_unit,
    queue_offset_of,
    queue_prefix,
    unit_key,
)
from rmqtool.queues.kept_units import kept_units
from rmqtool.queues.kinds import UnitKind, kind_of
from rmqtool.queues.queue_names import (
    LOWEST,
    EndList,
    EndsOfQueues,
    NameList,
    QueueEnds,
    QueueNames,
)
from rmqtool.queues.units import LookedUp, QueueSource, QueueSpan, QueueUnits, Unit, UnitPlace
from rmqtool.store.artefact import ArtefactKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqtool.queues.kept_units import KeptUnits
    from rmqtool.queues.kinds import Units
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.rocksdb_frames import RowBatch

OFFSETS: Final = "offset"  # the family of max, min and the end of dispatch
MANY_QUEUES: Final = 2000  # each of which is asked about some times
LAST_UNITS: Final = 128  # whose sizes are averaged
UNITS_A_BATCH: Final = 4096
MOST_ASKED: Final = 4  # queues alone, before all are listed
NAME_ROWS: Final = 4096  # read at a time, at most, where queues are short
NAME_STEPS: Final = 20  # see `budget`: of a queue
BYTES_A_STEP: Final = 2  # of its name, of which commands keep some ten copies


class RocksQueue(QueueUnits):
    """The units of one queue."""

    kind = ArtefactKind.ROCKSDB
    layout = CQ_UNIT

    def __init__(self, database: Database, topic: bytes, queue_id: int, ends: QueueEnds) -> None:
        self.database, self.topic_bytes, self.ends = database, topic, ends
        self.topic, self.queue_id = topic_text(topic), queue_id
        self.path = database.path

    @property
    def _begin(self) -> bytes:
        return queue_prefix(self.topic_bytes, self.queue_id, RANGE_BEGIN)

    @property
    def _end(self) -> bytes:
        return queue_prefix(self.topic_bytes, self.queue_id, RANGE_END)

    @property
    def _key_length(self) -> int:
        return len(self.topic_bytes) + CQ_KEY_HEAD.size + CQ_KEY_TAIL.size

    def span(self, log_start: int = 0) -> QueueSpan:
        """Find out how far the queue reaches: first and last unit, up to `max`."""
        if (short := self._short_span(log_start)) is not None:
            return short
        last = self._last()
        if last is None:
            return self._span(None, None, 0, (0.0, True))
        oldest = self._first_from(0)
        if oldest is None:  # a compaction has dropped all units: they expired
            return self._span(None, last, 0, (0.0, True))
        first = self._first_alive(oldest, last, log_start)
        sizes = [unit.size for unit in self._units(max(0, last.number - LAST_UNITS + 1), None)]
        is_exact = first is not None and first.number > last.number - LAST_UNITS
        expired = (first.number if first else last.number + 1) - oldest.number
        return self._span(first, last, expired, (sum(sizes) / max(len(sizes), 1), is_exact))

    def _short_span(self, log_start: int) -> QueueSpan | None:
        """Do the same in one question; None for a queue that is long, or whose end is not there."""
        after = self.ends.next_offset
        if not 0 < after <= LAST_UNITS:
            return None
        rows = [*self.stored(0, after)]
        units = [unit for number, value in rows if (unit := _unit(number, value)) is not None]
        if not rows or len(units) < len(rows) or units[-1].number != after - 1:
            return None
        alive = [unit for unit in units if unit.physical_offset >= log_start]
        is_ordered = units[-len(alive) :] == alive or not alive
        if not is_ordered:
            return None
        mean = sum(unit.size for unit in units) / len(units)
        expired = alive[0].number - units[0].number if alive else after - units[0].number
        first = alive[0] if alive else None
        return self._span(first, units[-1], expired, (mean, first is not None))

    def _span(
        self, first: Unit | None, last: Unit | None, expired: int, mean: tuple[float, bool]
    ) -> QueueSpan:
        return QueueSpan(self.topic, self.queue_id, self.kind, first, last, expired, *mean)

    def packed(self, first: int, count: int) -> bytes:
        """Read units as they would lie in a file; zeros for those that are missing."""
        packed = bytearray(count * CQ_UNIT_SIZE)
        for number, value in self.stored(first, first + count):
            at = (number - first) * CQ_UNIT_SIZE
            packed[at : at + CQ_UNIT_SIZE] = value[:CQ_UNIT_SIZE]
        return bytes(packed)

    def stored(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield number and value, of 28 bytes, of each unit that is there, in order.

        Rows of no known shape are left out: a validation names them.

        Raises:
            DamagedDatabase: after the units that could be read: there are more.
        """
        for batch in self.batches(first, end):
            yield from self.numbered(batch)

    def batches(self, first: int = 0, end: int | None = None) -> Iterator[RowBatch]:
        """Yield the rows of a range of units as they come."""
        first, limit = max(first, 0), None if end is None else max(end, 0)
        begin = unit_key(self.topic_bytes, self.queue_id, first) if first else self._begin
        stop = self._end if limit is None else unit_key(self.topic_bytes, self.queue_id, limit)
        if begin < stop:
            yield from self.database.rows(DEFAULT, begin, stop)

    def numbered(self, batch: RowBatch) -> Iterator[tuple[int, bytes]]:
        """Yield number and value of those rows that are units."""
        for key, value in batch.items():
            if len(key) == self._key_length and len(value) == ROCKSDB_CQ_UNIT.size:
                yield queue_offset_of(key), value

    def as_read(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and 20 bytes of each unit that brokers read: they ask for no more of it.

        Source: RocksDBConsumeQueue#iterateFrom0, RocksDBReusableIterator#next, 5.2.0 to 5.5.0.

        Raises:
            DamagedDatabase: after the units that could be read: there are more.
        """
        for batch in self.batches():
            for key, value in batch.items():
                if len(key) == self._key_length and len(value) >= CQ_UNIT_SIZE:
                    yield queue_offset_of(key), value[:CQ_UNIT_SIZE]

    def used(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Units]]:
        """Yield the stretches of units that are there, in order, at most some thousands each.

        Rows of no known shape are left out: a validation names them.
        """
        import numpy as np

        limit = self.ends.next_offset if end is None else min(end, self.ends.next_offset)
        begin, held = first, bytearray()
        for number, value in self.stored(first, limit):
            whole = len(held) // CQ_UNIT_SIZE
            if held and (number != begin + whole or whole == UNITS_A_BATCH):
                yield begin, np.frombuffer(bytes(held), CQ_UNIT.dtype)
                held.clear()
            if not held:
                begin = number
            held += value[:CQ_UNIT_SIZE]
        if held:
            yield begin, np.frombuffer(bytes(held), CQ_UNIT.dtype)

    def locate(self, number: int) -> UnitPlace:  # noqa: ARG002 - no file holds a single unit
        """Say where a unit lies: in the database, at no byte that tells anything."""
        return UnitPlace(self.path, None)

    def look_up(self, number: int) -> LookedUp | None:
        """Read the unit of a number; None outside of the queue."""
        if not 0 <= number < self.ends.next_offset:
            return None
        place = self.locate(number)
        key = unit_key(self.topic_bytes, self.queue_id, number)
        value = self.database.get(DEFAULT, key)
        if value is None:
            return LookedUp(None, place, "the database has no unit with this queue offset")
        unit = _unit(number, value)
        problem = "" if unit else "it is not a unit of a record"
        return LookedUp(unit, place, problem)

    def _last(self) -> Unit | None:
        """Give the last unit up to `max`; where all expired, what `max` says of it."""
        if self.ends.maximum is None or not self.ends.next_offset:
            return None
        last = unit_key(self.topic_bytes, self.queue_id, self.ends.next_offset - 1)
        value = self.database.get(DEFAULT, last)  # to go backwards, a block is read from its begin
        row = (last, value) if value else self.database.last(DEFAULT, self._begin, last)
        if row is None:
            offset, number = self.ends.maximum
            return Unit(number, number, 1, offset, 0)
        return _unit(queue_offset_of(row[0]), row[1])

    def _first_from(self, number: int) -> Unit | None:
        """Give the first unit from a number on."""
        begin = unit_key(self.topic_bytes, self.queue_id, number)
        for batch in self.database.rows(DEFAULT, begin, self._end, 1):
            for queue_offset, value in self.numbered(batch):
                return _unit(queue_offset, value)
        return None

    def _first_alive(self, oldest: Unit, last: Unit, log_start: int) -> Unit | None:
        """Bisect for the first unit whose record the commitlog has."""
        if last.physical_offset < log_start:
            return None
        if oldest.physical_offset >= log_start:
            return oldest
        low, high, alive = oldest.number, last.number, last
        while low < high:
            middle = (low + high) // 2
            unit = self._first_from(middle)
            if unit is not None and unit.physical_offset >= log_start:
                high, alive = middle, unit
            else:
                low = middle + 1
        return self._first_from(low) or alive

    def _units(self, first: int, end: int | None) -> Iterator[Unit]:
        for number, value in self.stored(first, self.ends.next_offset if end is None else end):
            if (unit := _unit(number, value)) is not None:
                yield unit


class RocksQueues(QueueSource):
    """All queues of one database.

    Attributes:
        path: of the database, relative to the store root.
        odd_rows: rows between the queues that are no units, once `names` is known.
    """

    kind = ArtefactKind.ROCKSDB

    def __init__(self, database: Database) -> None:
        self.database, self.path = database, database.path
        self._asked = 0  # how many queues were asked for alone

    @cached_property
    def ends(self) -> EndsOfQueues:
        """The rows of family `offset`, by queue; rows of no known shape are left out.

        Raises:
            DamagedDatabase: not all of them can be read.
        """
        return self.database.once("ends", self._read_ends)

    def _read_ends(self) -> EndsOfQueues:
        maxima, minima = EndList.new(), EndList.new()
        budget = self._budget()
        for batch in self.database.rows(OFFSETS):
            for key, value in batch.items():
                try:
                    row = queue_end_of(key, value)
                except DecodeError:
                    continue
                if row is None:
                    continue
                topic, queue_id, which, end = row
                ends = maxima if which == MAX else minima
                self._pay(budget, b"" if topic in ends.names.topics else topic)
                ends.add((topic, queue_id), end)
        ends_of = EndsOfQueues(maxima, minima)
        if len(ends_of) >= MANY_QUEUES:
            self.database.keep(DEFAULT)
        return ends_of

    @cached_property
    def dispatched(self) -> int | None:
        """End of the last dispatched record; None without the row.

        Raises:
            DamagedDatabase: it cannot be read.
        """
        value = self.database.get(OFFSETS, CHECKPOINT_KEY)
        if value is None or len(value) != DISPATCHED.size:
            return None
        return int(DISPATCHED.parse(value)["dispatched"])

    @cached_property
    def names(self) -> QueueNames:
        """Topic and number of each queue that has a unit or a `max`, sorted.

        Raises:
            DamagedDatabase: not all of them can be read.
        """
        return self.database.once("names", self._read_names)[0]

    @cached_property
    def odd_rows(self) -> list[tuple[bytes, bytes]]:
        """Rows between the queues that are no units. Raises DamagedDatabase: see `names`."""
        return self.database.once("names", self._read_names)[1]

    def _read_names(self) -> tuple[QueueNames, list[tuple[bytes, bytes]]]:
        """Read names of queues, and odd rows between them."""
        kept = self.database.kept(DEFAULT) if len(self.ends) else None  # they are, of many queues
        if (units := kept_units(kept)) is not None:
            return self._with_names_of(units), []
        return self._sought_names()

    def _sought_names(self) -> tuple[QueueNames, list[tuple[bytes, bytes]]]:
        """Do the same where rows are not in memory, or odd.

        Behind a long queue the next one is sought. Short ones are read through, more rows at a
        time: a seek costs what a block has before the row, and a stranger's block may be a GiB.
        """
        odd_rows: list[tuple[bytes, bytes]] = []
        known, names = self.ends.with_maximum, NameList()
        begin, rows, budget = b"", 1, self._budget()
        while True:
            passed, new, end = 0, 0, b""
            for batch in self.database.rows(DEFAULT, begin, b"", rows):
                for key, value in batch.items():
                    passed += 1
                    if key < end:
                        continue
                    new += 1
                    try:
                        name = queue_of_unit(key, value)
                    except DecodeError:
                        self._pay(budget, key + value)
                        odd_rows.append((key, value))
                        end = key + b"\0"
                        continue
                    if name not in known:
                        self._pay(budget, name[0])
                        names.add(*name)
                    end = queue_prefix(*name, RANGE_END)
            if passed < rows:
                if not len(names):
                    return known, odd_rows
                for name in known:
                    names.add(*name)
                return QueueNames.of(names)[0], odd_rows
            begin, rows = end, min(2 * rows, NAME_ROWS) if 2 * new >= passed else 1

    def _with_names_of(self, units: KeptUnits) -> QueueNames:
        """Give the names of queues that have a `max`, and those of others that have units."""
        known, names, budget = self.ends.with_maximum, NameList(), self._budget()
        topics = [*units.names.topics]
        for row in (units.rows_in(known) < 0).nonzero()[0].tolist():
            topic = topics[units.names.numbers[row]]
            self._pay(budget, topic)
            names.add(topic, units.names.queue_ids[row])
        if not len(names):
            return known
        for name in known:
            names.add(*name)
        return QueueNames.of(names)[0]

    def _budget(self) -> ParseBudget:
        """Give what the names of queues may cost: commands keep several copies of each."""
        return ParseBudget("the names of its queues", free=FREE_STEPS + self.database.size)

    def _pay(self, budget: ParseBudget, name: bytes) -> None:
        """Pay for a name that is kept. Raises DamagedDatabase: all of them cost too much."""
        try:
            budget.spend(NAME_STEPS + len(name) // BYTES_A_STEP)
        except OverBudget as error:
            raise DamagedDatabase(path=self.path, reason=str(error)) from error

    def topics(self) -> list[str]:
        """List the topics, sorted."""
        return sorted(self._topics)

    def queues(self) -> Iterator[RocksQueue]:
        """Give all queues, by topic, then by number."""
        return map(self.named, self.names)

    def queues_of(self, topic: str, but: Container[int] = ()) -> Iterator[RocksQueue]:
        """See `QueueSource`."""
        for raw in self._topics.get(topic, ()):
            for queue_id in self.names.numbers_of(raw):
                if queue_id not in but:
                    yield self.named((raw, queue_id))

    def queue(self, topic: str, queue_id: int) -> RocksQueue | None:
        """Give one queue; None without one.

        Raises:
            DamagedDatabase: what there is cannot be read.
        """
        if self._asked < MOST_ASKED and "names" not in vars(self):
            self._asked += 1
            if (queue := self._asked_for(topic, queue_id)) is not None:
                return queue
        for raw in self._topics.get(topic, ()):
            if self.names.row(raw, queue_id) >= 0:
                return self.named((raw, queue_id))
        return None

    def _asked_for(self, topic: str, queue_id: int) -> RocksQueue | None:
        """Ask for the ends of one queue, before a million are listed; None without a `max`."""
        if not LOWEST <= queue_id < -LOWEST:
            return None
        name, ends = (topic.encode(errors="replace"), queue_id), []
        for which in (MAX, MIN):
            key = offset_key(*name, which)
            row = None
            if (value := self.database.get(OFFSETS, key)) is not None:
                with suppress(DecodeError):
                    row = queue_end_of(key, value)
            ends.append(row and row[3])
        return RocksQueue(self.database, *name, QueueEnds(*ends)) if ends[0] else None

    def row(self, topic: str, queue_id: int) -> int:
        """Give which of `names` is that of a queue; -1 for none."""
        rows = (self.names.row(raw, queue_id) for raw in self.topics_of(topic))
        return next((row for row in rows if row >= 0), -1)

    def topics_of(self, text: str) -> Sequence[bytes]:
        """Give the topics, as they are stored, that Java reads as a text."""
        return self._topics.get(text, ())

    def named(self, name: tuple[bytes, int]) -> RocksQueue:
        """Give the queue of a name, whether it has rows or not."""
        return RocksQueue(self.database, *name, self.ends.of(name))

    @cached_property
    def _topics(self) -> dict[str, list[bytes]]:
        """As they are stored, by what Java reads: there may be several of one text."""
        return self.database.once("topics", self._read_topics)

    def _read_topics(self) -> dict[str, list[bytes]]:
        by_text: dict[str, list[bytes]] = {}
        for raw in self.names.topics:
            by_text.setdefault(topic_text(raw), []).append(raw)
        return by_text


class QueuesByName(Mapping[tuple[str, int], RocksQueue]):
    """The queues of a database by topic, as Java reads it, and number: made when asked for.

    There may be a million, and who asks for their names needs nothing else.

    Args:
        source: of the queues.
        topic: the only one, printable; None for all.
    """

    def __init__(self, source: RocksQueues, topic: str | None) -> None:
        """List them. Raises DamagedDatabase: they cannot be listed."""
        self._source, self._topic = source, topic
        self._names: Sequence[tuple[bytes, int]] = source.names
        if topic is not None:
            self._names = [name for name in source.names if topic_text(name[0]) == topic]

    def __getitem__(self, name: tuple[str, int]) -> RocksQueue:
        queue = self._source.queue(*name) if self._topic in {None, name[0]} else None
        if queue is None:
            raise KeyError(name)
        return queue

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, tuple) or self._topic not in {None, name[0]}:
            return False
        return self._source.row(*name) >= 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        texts = {raw: topic_text(raw) for raw, _ in groupby(self._names, itemgetter(0))}
        return ((texts[raw], queue_id) for raw, queue_id in self._names)

    def __len__(self) -> int:
        return len(self._names)

    def by_topic(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield topics, and the numbers of queues of each; a topic may come several times."""
        for raw in self._source.names.topics:
            if self._topic in {None, text := topic_text(raw)}:
                yield text, self._source.names.numbers_of(raw)


def end_values(maximum: tuple[int, int]) -> bytes:
    """Give the value of a `max` or `min` row."""
    value: bytes = QUEUE_END.packer.pack(*maximum)
    return value


def _unit(number: int, value: bytes) -> Unit | None:
    """Read a unit; None when it stands for no record."""
    if len(value) != ROCKSDB_CQ_UNIT.size:
        return None
    offset, size, tags_code, time = ROCKSDB_CQ_UNIT.packer.unpack(value)
    if kind_of(offset, size, tags_code) != UnitKind.REAL:
        return None
    return Unit(number, number, 1, offset, size, time)
