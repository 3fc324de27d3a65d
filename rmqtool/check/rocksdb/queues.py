"""Word how consume queues in RocksDB differ from what the log wants: RQ-RANGE, RQ-UNIT.

Every unit below CHECKPOINT must be there, and nothing else but units of expired messages and those
that a truncation has left. What else there is, and `max`, `min` and CHECKPOINT, `checks` judges.
Source: RocksDBConsumeQueueStore, 5.2.0 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.check.queues.queue_state import not_the_next
from rmqtool.check.rocksdb.unit_tables import UnitTables
from rmqtool.errors import DamagedDatabase, DecodeError
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.findings.registry_rocksdb import RQ_RANGE, RQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import unit_row
from rmqtool.ledger.differences import difference_of
from rmqtool.ledger.rocks_walk import RocksWalk
from rmqtool.ledger.sound import ExactQueues, WholeQueues
from rmqtool.machine import arrays
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.check.rocksdb.databases import Databases
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.rocks_walk import HeldRows, QueueSeen, RocksStretch
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.queues.short import ShortQueues

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


MOST_DOUBTFUL: Final = 1000  # records that may have a wrong queue offset
MOST_STRETCHES: Final = 100  # of one run that are told one by one


class Doubtful(NamedTuple):
    """A record alone, and what would be said of its unit if the record had the right number."""

    seen: QueueSeen  # the queue that it names
    number: int  # queue offset that it states
    physical_offset: int  # where it lies
    findings: list[Finding]


class RocksComparer:
    """Words what is wrong with queues in RocksDB.

    Attributes:
        walk: takes the runs of the log.
        databases: says what cannot be read.
    """

    def __init__(
        self,
        inspection: Inspection,
        databases: Databases,
        source: RocksQueues,
        queue_facts: QueueFacts,
    ) -> None:
        self._inspection, self.databases, self.source = inspection, databases, source
        self._queue_facts = queue_facts
        tables = self._tables = UnitTables.of(source.database)
        self.walk = RocksWalk(
            source,
            inspection.scope.placement,
            (lambda *_: False) if tables is None else tables.confirm,
            topic=inspection.options.topic,
            configured=inspection.topics,
            wanted=queue_facts.wanted,
        )
        self._compared = 0
        self._doubtful: list[Doubtful] = []

    def take(self, held: Iterable[tuple[QueueSeen, RocksStretch]]) -> Iterator[Finding]:
        """Word what the walk gives for one part of the log."""
        for seen, rows in held:
            if isinstance(rows, DamagedDatabase):
                yield from self.databases.cannot_read(self.source.path, rows)
                continue
            findings = [*self._missing(seen, rows), *self._wrong(seen, rows)]
            findings += self._wrong_times(seen, rows)
            units, row = rows.units, rows.lone
            rows.is_doubtful = row >= 0 and len(self._doubtful) < MOST_DOUBTFUL
            if rows.is_doubtful:
                place = int(units.wanted["physical_offset"][row])
                self._doubtful.append(Doubtful(seen, units.first + row, place, findings))
            else:
                yield from findings
        self._inspection.account.units += self.walk.units - self._compared
        self._compared = self.walk.units

    def close(self) -> None:
        """Close the table files."""
        if self._tables is not None:
            self._tables.close()

    def whole(self, oldest: int) -> Mask:
        """Tell of which queues nothing is to be said: units and ends are as the log wants.

        Args:
            oldest: first physical offset that the log has.

        Returns:
            bool, shape (names,): by the rows of the source's names.
        """
        names = self.source.names
        short, sound = self.walk.short, self.walk.sound
        if short is None or sound is None:
            return np.zeros(len(names), np.bool_)
        first, after, last_place = self._spans(short, sound.exact())
        is_whole = self.source.ends.columns(names).whole(first, after - 1, last_place, oldest)
        is_whole &= after > 0
        self._queue_facts.whole.append(
            WholeQueues(names, self.source.topics_of, is_whole, first, after)
        )
        return is_whole

    @staticmethod
    def _spans(short: ShortQueues, exact: ExactQueues) -> list[Int64s]:
        """Give first and next queue offset, and the last record, by all names; -1 for others."""
        names = short.rows.of_names[exact.rows]
        spans = [np.full(len(short.rows.names), -1, np.int64) for _ in exact[1:]]
        for of_names, of_rows in zip(spans, exact[1:], strict=True):
            of_names[names] = of_rows
        return spans

    def misnumbered(self) -> Iterator[Finding]:
        """Tell records that have a wrong queue offset, or queue, from units that are wrong.

        The unit that a broker wrote for such a record, before it was damaged, leads to it still.
        """
        units: dict[int, tuple[QueueSeen, int]] = {}
        try:
            units = self._unclaimed({doubt.physical_offset for doubt in self._doubtful})
        except DamagedDatabase as error:
            yield from self.databases.cannot_read(self.source.path, error)
        for doubt in self._doubtful:
            own = units.get(doubt.physical_offset)
            number, place = doubt.number, doubt.physical_offset
            if own is not None:
                seen, actual = own
                self.walk.want(seen, actual + 1)
                seen.imply(actual, actual + 1, place)
                yield self._of_record(doubt, seen, actual)
            elif any(begin <= number < end for begin, end in doubt.seen.covered):
                yield self._of_record(doubt, doubt.seen, None)  # another record has this unit
            else:
                self.walk.want(doubt.seen, number + 1)
                doubt.seen.imply(number, number + 1, place)
                yield from doubt.findings

    def _unclaimed(self, places: set[int]) -> dict[int, tuple[QueueSeen, int]]:
        """Find the units of some records among those that no record asks for: queue and number.

        Those of the topics that the records name are looked through, but for queues that hold what
        the log wants and nothing else.

        Raises:
            DamagedDatabase: not all units can be read.
        """
        units: dict[int, tuple[QueueSeen, int]] = {}
        wanted = np.array(sorted(places), np.int64)
        short, sound = self.walk.short, self.walk.sound
        exact = {*sound.exact().rows.tolist()} if sound and places else set()
        for topic in {doubt.seen.queue.topic_bytes: None for doubt in self._doubtful}:
            for name in self.source.names.of_topic(topic):
                if short is not None and short.rows.get(name) in exact:
                    continue
                seen = self.walk.queue_of(*name)
                for numbers, offsets in self.walk.uncovered(seen):
                    for row in np.flatnonzero(np.isin(offsets, wanted)).tolist():
                        units[int(offsets[row])] = seen, int(numbers[row])
        return units

    def _of_record(self, doubt: Doubtful, seen: QueueSeen, number: int | None) -> Finding:
        """Say that a record has a wrong queue offset, or names a wrong queue."""
        place, stated, queue = doubt.physical_offset, doubt.number, seen.queue
        at = self._inspection.at_record(place, (queue.topic, queue.queue_id, stated))
        expected = "" if number is None else str(number)
        if seen is not doubt.seen:
            named = doubt.seen.queue.queue_id
            message = f"{seen.name}: the record of queue offset {number} names queue {named}"
            actual = f"queue {named}"
            at = at._replace(queue_offset=number)
            return finding(CL_QOFF_DUP, at, message, expected=expected, actual=actual)
        is_later = number is not None and stated > number
        is_before = stated < seen.first_alive
        return finding(
            CL_QOFF_GAP if is_later else CL_QOFF_BACK if is_before else CL_QOFF_DUP,
            at,
            not_the_next(1, queue.topic, queue.queue_id),
            expected=expected,
            actual=stated,
        )

    def odd_rows(self, others: list[tuple[bytes, bytes]]) -> Iterator[Finding]:
        """Yield the rows among the units of queues, and others, that are none: RD-KEY."""
        for key, value in [*self.walk.odd, *others]:
            try:
                unit_row(key, value)
            except DecodeError as error:
                yield self.databases.odd_row(self.source.path, DEFAULT, key, error)

    def _missing(self, seen: QueueSeen, rows: HeldRows) -> Iterator[Finding]:
        for first, count in stretches(~rows.is_there):
            yield missing_units(seen, rows.units.first + first, count)

    def _wrong(self, seen: QueueSeen, rows: HeldRows) -> Iterator[Finding]:
        for first, count in stretches(rows.wrong):
            want, have = (units[first : first + count] for units in rows.units[1:3])
            number, wanted = rows.units.first + first, CQ_UNIT.parse(want[0].tobytes())
            yield finding(
                difference_of(want, have).rocksdb_code,
                At(seen.queue.path, physical_offset=wanted["physical_offset"]),
                f"{seen.name}: not as in the commitlog: {units_of(number, count)}",
                expected=_worded(wanted),
                actual=_worded(CQ_UNIT.parse(have[0].tobytes())),
            )

    def _wrong_times(self, seen: QueueSeen, rows: HeldRows) -> Iterator[Finding]:
        """Say where units have another store time than their records; RocksDB finds them by it."""
        moved = rows.is_there & ~rows.wrong & (rows.times != rows.wanted_times)
        offsets = rows.units.wanted["physical_offset"]
        for first, count in stretches(moved):
            yield finding(
                RQ_UNIT,
                At(seen.queue.path, physical_offset=int(offsets[first])),
                f"{seen.name}: another store time: {units_of(rows.units.first + first, count)}",
                expected=int(rows.wanted_times[first]),
                actual=int(rows.times[first]),
            )


def missing_units(seen: QueueSeen, begin: int, count: int) -> Finding:
    """Say that units are missing."""
    message = f"{seen.name}: missing: {units_of(begin, count)}"
    return finding(RQ_RANGE, At(seen.queue.path), message, expected=count, actual=0)


def stretches(marked: Mask) -> Iterator[tuple[int, int]]:
    """Yield begin and length of the stretches that are marked; of too many the rest is one."""
    pairs = arrays.stretches(marked)
    for begin, end in pairs[:MOST_STRETCHES]:
        yield begin, end - begin
    if len(pairs) > MOST_STRETCHES:
        begin = pairs[MOST_STRETCHES][0]
        yield begin, int(marked[begin:].sum())


def units_of(begin: int, count: int) -> str:
    """Word a stretch of units."""
    if count == 1:
        return f"the unit of queue offset {begin}"
    return f"{counted(count, 'unit')} from queue offset {begin} on"


def _worded(unit: dict[str, int]) -> str:
    offset, size, tags_code = unit.values()
    return f"physical offset {offset}, size {size}, tags code {tags_code}"
