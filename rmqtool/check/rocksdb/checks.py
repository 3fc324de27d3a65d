"""All that is judged about the RocksDB databases of one store, in the order of a validation.

Loaded only where a store has databases: what it needs takes a tenth of a second to load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.broker.conf import (
    DOUBLE_WRITE,
    LIGHT_QUEUES_IN_ROCKSDB,
    READ_FROM,
    RECOVERED_FILES,
    ROCKSDB_STORE,
    SELECTIVE,
    STORE_TYPE,
)
from rmqtool.broker.names import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    is_made_by_brokers,
    is_system_group,
    topic_text,
)
from rmqtool.check.queues.queue_tails import GONE, is_reached_by_name
from rmqtool.check.rocksdb import entries
from rmqtool.check.rocksdb.databases import Databases
from rmqtool.check.rocksdb.queues import RocksComparer, missing_units, units_of
from rmqtool.errors import DamagedDatabase, DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, of_deleted
from rmqtool.findings.registry_rocksdb import (
    MV_STALE,
    MV_SWAP,
    MV_TOPIC,
    RQ_ABOVE,
    RQ_BEHIND,
    RQ_CKPT,
    RQ_EMPTIED,
    RQ_EXPIRED,
    RQ_LIGHT,
    RQ_MAX,
    RQ_MIN,
    RQ_PAIR,
    RQ_RANGE,
    RQ_UNIT,
)
from rmqtool.formats import config, config_shapes, java
from rmqtool.formats.rocksdb_databases import MANAGERS, ONE, VERSION_2
from rmqtool.plural import counted
from rmqtool.queues.rocks import RocksQueues
from rmqtool.store.config_files import read_config
from rmqtool.store.record_heads import LogReader
from rmqtool.store.rocksdb import is_queue_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.rocksdb_row import RocksdbRow
    from rmqtool.ledger.rocks_walk import QueueSeen
    from rmqtool.store.rocksdb import RocksDb

    Int64s = npt.NDArray[np.int64]


class RocksChecks:
    """Judges the databases of a store: their files first, then what is in them."""

    def __init__(self, inspection: Inspection, databases: list[RocksDb]) -> None:
        self._inspection, self._stored = inspection, databases
        self._databases = Databases(inspection)

    def open(self) -> Iterator[Finding]:
        """Judge the files of the databases, and open them for the checks that follow."""
        yield from self._databases.check(self._stored)
        for path, database in self._databases.opened.items():
            if is_queue_database(path):
                self._inspection.queues.database.adopt(database)

    def close(self) -> None:
        """Close what was opened."""
        for database in self._databases.opened.values():
            database.close()

    @property
    def can_read_queues(self) -> bool:
        """Whether a database of queues is open."""
        return any(map(is_queue_database, self._databases.opened))

    @property
    def has_metadata_2(self) -> bool:
        """Whether one with topics, groups and offsets of version 2 is."""
        return VERSION_2 in self._databases.opened

    def comparer(self, inspection: Inspection, queue_facts: QueueFacts) -> RocksComparer | None:
        """Give what compares runs with the queues; None where none can be read."""
        return rocks_comparer(inspection, self._databases, queue_facts)

    def finish_queues(
        self, inspection: Inspection, facts: LogFacts, comparer: RocksComparer
    ) -> Iterator[Finding]:
        """Judge the queues when the log was read to its end."""
        return finish_rocks(inspection, facts, comparer)

    def after_log(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        """Judge what the records imply beside queues: index, timers, open halves, metadata."""
        wants = inspection.options.wants
        if wants("consumequeue"):
            yield from _second_store(inspection, facts)
        if wants("rocksdb", "index", "timer"):
            yield from entries.check(inspection, self._databases, facts)
        if wants("rocksdb", "config"):
            yield from check(inspection, self._databases)


def _second_store(inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
    """Find queues in RocksDB gone from a store that is to keep them in files and there.

    A start dispatches no more than it recovers, and sets the others empty. What 5.3 has there
    nobody reads.
    """
    broker_conf, scope = inspection.store.broker_conf, inspection.scope
    is_combined = DOUBLE_WRITE.of(broker_conf) and STORE_TYPE.of(broker_conf) != ROCKSDB_STORE
    if scope.has_rocksdb_queues or not is_combined or facts.last_record < 0:
        return
    is_read = READ_FROM.of(broker_conf) == ROCKSDB_STORE or LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf)
    severity = None if is_read and scope.release.combines_queue_stores else Severity.WARNING
    message = "rocksdbCQDoubleWriteEnable is set, but the database of queues is missing"
    yield finding(RQ_PAIR, At("consumequeue"), message, severity=severity)


# Judge topics, groups and offsets in RocksDB against what is used, and against older copies: MV-*.
#
# See TopicConfigManagerV2, SubscriptionGroupManagerV2, ConsumerOffsetManagerV2#assignResetOffset,
# RocksDBConfigManager#loadDataVersion, 5.3.2 to 5.5.0; observed, 5.3.3 and 5.5.0.


def check(inspection: Inspection, databases: Databases) -> Iterator[Finding]:
    """Judge the metadata of either version."""
    if VERSION_2 in databases.rows:
        rows = [row for family in databases.rows[VERSION_2].values() for row in family]
        yield from _version_2(inspection, rows)
    else:
        yield from _stale(inspection, databases)


def _version_2(inspection: Inspection, rows: list[RocksdbRow]) -> Iterator[Finding]:
    """Find topics and groups that are used and not stored, and offsets with both swapped."""
    topics = {java.text(row.values["topic"]) for row in rows if row.kind == "topic"}
    groups = {java.text(row.values["group"]) for row in rows if row.kind == "group"}
    used = {*inspection.queue_topics("rocksdb"), *inspection.queue_topics("queues")}
    consumers: set[str] = set()
    for row in rows:
        if row.kind not in {"consumer_offset", "pull_offset"}:
            continue
        topic, group = (java.text(row.values[name]) for name in ("topic", "group"))
        if group in used | topics and topic not in used | topics:
            message = f"group {group} and topic {topic} of an offset are swapped"
            yield finding(MV_SWAP, At(VERSION_2), message, actual=group)
            continue
        used.add(topic)
        consumers.add(group)
    for topic in sorted(used - topics):
        if not is_made_by_brokers(topic):
            message = f"topic {topic} has queues or offsets, and is not stored"
            yield finding(MV_TOPIC, At(VERSION_2), message, actual=topic)
    for group in sorted(consumers - groups):
        if not is_system_group(group) and not group.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            message = f"group {group} has offsets, and is not stored"
            yield finding(MV_TOPIC, At(VERSION_2), message, actual=group)


def _stale(inspection: Inspection, databases: Databases) -> Iterator[Finding]:
    """Find older copies that the next start would merge, as their counters are higher."""
    in_one = ONE in databases.rows
    for name, manager in MANAGERS.items():
        path = manager.path
        own = _counter(databases.rows.get(path, {}).get(manager.version_in(path), []))
        counter = _counter(databases.rows[ONE].get(manager.version_in(ONE), [])) if in_one else own
        if path not in databases.rows and not in_one:
            continue
        if in_one and own is not None and own > (counter or 0):
            message = f"{path} has a higher version counter than {ONE}"
            yield finding(MV_STALE, At(path), message, expected=counter, actual=own)
        in_json = read_config(inspection.child(f"config/{name}"), f"config/{name}")
        older = config_shapes.data_version(in_json.document).counter if in_json else None
        if older is not None and older > (counter or 0):
            message = f"{name} has a higher version counter than RocksDB"
            yield finding(MV_STALE, At(in_json.path), message, expected=counter, actual=older)


def _counter(rows: list[RocksdbRow]) -> int | None:
    """Give the counter of a data version of version 1; None without a row."""
    for row in rows:
        if row.kind == "version":
            try:
                data_version = config.parse_object(row.values["json"])
            except DecodeError:
                continue
            return config_shapes.data_version({"dataVersion": data_version}).counter
    return None


# Judge the ends of queues in RocksDB, when the log was read: RQ-MAX, RQ-MIN, RQ-CKPT and others.
#
# See RocksDBConsumeQueueOffsetTable, RocksDBConsumeQueueStore#recover, 5.2.0 to 5.5.0; observed,
# 5.3.3 and 5.5.0.


@dataclass(slots=True)
class UnexplainedUnits:
    """What a queue has besides the units that the log implies."""

    expired: int = 0  # units of messages before the log
    above: int = 0  # units above the max row
    # of those whose record is lost, in order: they are part of the queue
    numbers: list[tuple[int, int]] = field(default_factory=list)
    # number and physical offset of the first that nothing explains
    strange: tuple[int, int] | None = None
    strange_count: int = 0  # how many there are


class EndJudge:
    """Judges one database of queues after the pass over the log."""

    def __init__(self, inspection: Inspection, facts: LogFacts, comparer: RocksComparer) -> None:
        self._inspection, self._facts, self._comparer = inspection, facts, comparer
        self._databases = comparer.databases
        self._path = comparer.source.path

    def check(self) -> Iterator[Finding]:
        """Judge all queues, then the end of dispatch."""
        comparer, topic = self._comparer, self._inspection.options.topic
        try:
            whole = comparer.whole(self._facts.oldest)
            names = [comparer.source.names[row] for row in np.flatnonzero(~whole).tolist()]
            for name in sorted({*names, *comparer.walk.seen}):
                if not comparer.walk.keeps(name[0]):
                    continue
                seen = comparer.walk.queue_of(*name)
                if topic in {None, seen.queue.topic}:
                    yield from self._queue(seen)
            yield from comparer.odd_rows(comparer.source.odd_rows)
        except DamagedDatabase as error:
            yield from self._databases.cannot_read(self._path, error)
        if topic is None:
            yield from self._dispatch()

    def _queue(self, seen: QueueSeen) -> Iterator[Finding]:
        if seen.absent:
            yield self._absent(seen)
            return
        rest = self._rest(seen)
        at = At(self._path)
        if rest.expired:
            message = f"{seen.name}: {counted(rest.expired, 'unit')} of expired messages"
            if self._inspection.scope.release.filters_natively:
                message += "; they stay if broker.log says that CqCompactionFilterJni is not loaded"
            yield finding(RQ_EXPIRED, at, message)
        if rest.above:
            yield finding(
                RQ_ABOVE, at, f"{seen.name}: {counted(rest.above, 'unit')} above the max row"
            )
        if rest.strange is not None:
            yield self._strange(seen, rest.strange, rest.strange_count)
        yield from self._holes(seen, rest)
        yield from self._max(seen, rest)
        yield from self._min(seen, rest)

    def _absent(self, seen: QueueSeen) -> Finding:
        """Say that a queue was deleted, or, where its records came from another topic, is lost."""
        store = self._inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            if is_reached_by_name(log, seen.absent_newest, seen.queue.topic):
                return missing_units(seen, 0, seen.absent)
        message = f"{seen.name}: {counted(seen.absent, 'record')} without a queue; {GONE}"
        return of_deleted(finding(RQ_RANGE, At(self._path), message, severity=Severity.NOTE))

    def _rest(self, seen: QueueSeen) -> UnexplainedUnits:
        """Sort out the units that the log does not imply.

        Raises:
            DamagedDatabase: not all of them can be read.
        """
        rest = UnexplainedUnits()
        limit = seen.queue.ends.next_offset
        doubtful: list[tuple[int, int]] = []
        for numbers, offsets in self._comparer.walk.uncovered(seen):
            is_above = (numbers >= limit) | (offsets >= self._comparer.walk.dispatch.checkpoint)
            is_expired = ~is_above & (offsets < self._facts.oldest)
            rest.above += int(is_above.sum())
            rest.expired += int(is_expired.sum())
            others = ~is_above & ~is_expired
            is_lost = others & self._facts.lost.mask(offsets)
            self._facts.lost.count_units(offsets[is_lost])
            strange = np.flatnonzero(others & ~is_lost & ~self._is_filler(offsets))
            doubtful += zip(numbers[strange].tolist(), offsets[strange].tolist(), strict=True)
            rest.numbers += zip(numbers[others].tolist(), offsets[others].tolist(), strict=True)
        rest_of_them = [numbers for numbers in doubtful if not _repeats_neighbour(seen, *numbers)]
        rest.strange, rest.strange_count = next(iter(rest_of_them), None), len(rest_of_them)
        return rest

    def _is_filler(self, offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Tell units that repair puts where a message was lost: they point before a segment."""
        starts = [segment.start - 1 for segment in self._inspection.store.commitlog.segments]
        is_filler: npt.NDArray[np.bool_] = np.isin(offsets, np.array(starts, np.int64))
        return is_filler

    def _strange(self, seen: QueueSeen, first: tuple[int, int], count: int) -> Finding:
        number, offset = first
        if self._facts.has_bridges(offset, offset + 1):
            what = "a bridge record, which consumers then get"
        else:
            what = "no record of this queue"
        message = f"{seen.name}: {units_of(number, 1)} points to {what}"
        if count > 1:
            message += f"; so do {count - 1:,} more of this queue"
        return finding(RQ_UNIT, At(self._path, physical_offset=offset), message, actual=offset)

    def _holes(self, seen: QueueSeen, rest: UnexplainedUnits) -> Iterator[Finding]:
        """Find units that are missing where the log, too, has lost the record."""
        stretches = sorted(seen.covered)
        known = sorted(number for number, _ in rest.numbers)
        for (_, begin), (end, _) in pairwise(stretches):
            if begin >= end:
                continue
            there = np.array(known, np.int64)
            between = there[(there >= begin) & (there < end)].tolist()
            for before, after in zip([begin - 1, *between], [*between, end], strict=True):
                if after - before > 1:
                    yield missing_units(seen, before + 1, after - before - 1)

    def _max(self, seen: QueueSeen, rest: UnexplainedUnits) -> Iterator[Finding]:
        """Judge the max row: the last unit that the log implies, or whose record is lost."""
        ends, at = seen.queue.ends, At(self._path)
        known = [(offset, number) for number, offset in rest.numbers]
        last = max([*known, seen.last] if seen.last else known, default=None)
        expected = f"queue offset {last[1]}, physical offset {last[0]}" if last else "no row"
        if ends.maximum is None:
            if last is not None:
                message = f"{seen.name}: the max row is missing"
                yield finding(RQ_MAX, at, message, expected=expected)
            return
        offset, number = ends.maximum
        actual = f"queue offset {number}, physical offset {offset}"
        if offset == 0 and ends.minimum == (0, number + 1):
            if last is not None and seen.first_alive >= 0:
                amount = counted(last[1] - seen.first_alive + 1, "message is", "messages are")
                message = f"{seen.name}: {amount} invisible"
                yield finding(RQ_EMPTIED, at, message, expected=expected, actual=actual)
            return
        if last is None:
            if offset >= self._facts.oldest and not self._facts.lost.at(offset):
                message = f"{seen.name}: the queue has no unit, but a max row"
                yield finding(RQ_MAX, at, message, expected=expected, actual=actual)
        elif (offset, number) != last:
            message = f"{seen.name}: the max row is not the last unit"
            yield finding(RQ_MAX, at, message, expected=expected, actual=actual)

    def _min(self, seen: QueueSeen, rest: UnexplainedUnits) -> Iterator[Finding]:
        """Judge the min row: a cache, which may be old or missing."""
        ends = seen.queue.ends
        if ends.minimum is None or ends.minimum[0] < self._facts.oldest:
            return
        offset, number = ends.minimum
        if ends.maximum == (0, number - 1) and offset == 0:
            return  # set empty by a combined store
        alive = [n for n, o in rest.numbers if o >= self._facts.oldest]
        first = min([*alive, *([seen.first_alive] if seen.first_alive >= 0 else ())], default=None)
        wanted = ends.next_offset if first is None else first
        if number == wanted:
            return
        if offset in {0, self._facts.oldest} and number == 0:
            return  # written for a queue that had no message yet
        severity = Severity.DAMAGE if first is not None and number > first else None
        message = f"{seen.name}: the min row is not the first unit"
        at = At(self._path)
        yield finding(RQ_MIN, at, message, expected=wanted, actual=number, severity=severity)

    def _dispatch(self) -> Iterator[Finding]:
        """Judge CHECKPOINT against the log."""
        dispatch, log = self._comparer.walk.dispatch, self._facts
        at = At(self._path, physical_offset=dispatch.checkpoint)
        if dispatch.checkpoint > log.end:
            message = "CHECKPOINT is past the end of the log"
            yield finding(RQ_CKPT, at, message, expected=log.end, actual=dispatch.checkpoint)
            return
        is_known = dispatch.is_record_end or dispatch.checkpoint <= log.oldest
        if not is_known and not self._facts.lost.between(dispatch.checkpoint - 1, log.end):
            message = "no dispatched record ends at CHECKPOINT"
            yield finding(RQ_CKPT, at, message, actual=dispatch.checkpoint)
        if dispatch.checkpoint < dispatch.end:
            yield self._lags()

    def _lags(self) -> Finding:
        dispatch, inspection = self._comparer.walk.dispatch, self._inspection
        at = At(self._path, physical_offset=dispatch.checkpoint)
        segments = [
            segment
            for segment in inspection.store.commitlog.segments
            if segment.end > dispatch.checkpoint
        ]
        amount = counted(dispatch.late, "unit is", "units are")
        message = f"{amount} not dispatched yet, from {dispatch.checkpoint} on"
        severity = None
        if inspection.store.moment.is_live:
            severity = Severity.NOTE
            message += "; the running broker has not flushed them"
        elif not inspection.scope.has_crashed:
            severity = Severity.DAMAGE
            message += "; there is no abort, so the record that begins there is never dispatched"
        elif len(segments) > self._recovered() and inspection.scope.release.recovers_newest_only:
            severity = Severity.DAMAGE
            message += f"; they lie in {counted(len(segments), 'segment')}"
            message += f", and a start reads {self._recovered()} of them"
        return finding(
            RQ_BEHIND, at, message, expected=dispatch.end, actual=dispatch.checkpoint,
            severity=severity,
        )  # fmt: skip

    def _recovered(self) -> int:
        return RECOVERED_FILES.of(self._inspection.store.broker_conf)

    def pairs(self) -> Iterator[Finding]:
        """Compare the ends of queues in files and in RocksDB: RQ-PAIR."""
        is_read = self._inspection.scope.release.combines_queue_stores
        for (topic, queue_id), ends in sorted(self._comparer.source.ends.items()):
            name = topic_text(topic)
            if topic.startswith(LMQ_PREFIX.raw) or ends.maximum is None:
                continue
            if not self._comparer.walk.keeps(topic):
                continue
            queue = self._inspection.units("queues").get((name, queue_id))
            if queue is None or any(queue.unread()):
                continue
            try:
                end = queue.span(self._facts.oldest).max_offset
            except UnreadablePath:
                continue  # who compared its units has said so
            if end != ends.next_offset:
                message = f"topic {name}, queue {queue_id}: files end at {end}, RocksDB at "
                severity = None if is_read else Severity.WARNING
                yield finding(
                    RQ_PAIR, At(self._path), f"{message}{ends.next_offset}",
                    expected=end, actual=ends.next_offset, severity=severity,
                )  # fmt: skip


def _repeats_neighbour(seen: QueueSeen, number: int, offset: int) -> bool:
    """Tell a unit that repair puts where a message of the first segment was lost.

    It repeats the unit before the gap, or the one past it: that message comes once more.
    """
    before = max((end - 1 for _, end in seen.covered if end <= number), default=-1)
    after = min((begin for begin, _ in seen.covered if begin > number), default=-1)
    neighbours = (seen.queue.look_up(number) for number in (before, after))
    return any(
        neighbour and neighbour.unit and neighbour.unit.physical_offset == offset
        for neighbour in neighbours
    )


def rocks_comparer(
    inspection: Inspection, databases: Databases, queue_facts: QueueFacts
) -> RocksComparer | None:
    """Give what compares runs with the queues in RocksDB; None where none can be read."""
    if not inspection.scope.compares_rocksdb:
        return None
    opened = databases.opened
    path = next((path for path in opened if is_queue_database(path)), None)
    if path is None:
        return None
    source = inspection.queues.database.source  # it knows all names already
    if source is None or source.path != path:
        source = RocksQueues(opened[path])
    try:
        return RocksComparer(inspection, databases, source, queue_facts)
    except DamagedDatabase as error:
        for defect in databases.cannot_read(path, error):
            inspection.postpone(defect)
        return None


def finish_rocks(
    inspection: Inspection, facts: LogFacts, comparer: RocksComparer
) -> Iterator[Finding]:
    """Judge the queues in RocksDB when the log was read to its end."""
    yield from comparer.take(comparer.walk.rest())
    yield from comparer.misnumbered()
    for topic, count in sorted(comparer.walk.nowhere.items()):
        message = f"light queue {topic}: {counted(count, 'message')} in no queue: "
        message += f"{SELECTIVE.name} leaves out topics that are not lite"
        yield finding(RQ_LIGHT, At(comparer.source.path), message, expected=count, actual=0)
    if facts.is_known:
        judge = EndJudge(inspection, facts, comparer)
        yield from judge.check()
        if inspection.scope.compares_queues:
            yield from judge.pairs()
    comparer.close()
