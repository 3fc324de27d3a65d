"""The stages of a start that are others where a store has RocksDB."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Self

import numpy as np

from rmqtool.broker.dispatch import TRANSACTION
from rmqtool.broker.names import CHECK_MAX_TIME_TOPIC, HALF_TOPICS, OP_TOPICS
from rmqtool.broker.rules import NormalStart
from rmqtool.errors import DamagedDatabase
from rmqtool.formats import properties
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    SysFlag,
)
from rmqtool.formats.rocksdb_databases import DEFAULT, MESSAGE_STORE
from rmqtool.formats.rocksdb_store import HALF_OFFSET, LAST_OFFSET, NUMBER, TIMER_SCANNED
from rmqtool.ledger.numbers import UnitNumbers
from rmqtool.machine.arrays import is_in
from rmqtool.plural import counted
from rmqtool.queues.kinds import are_real
from rmqtool.startup.census import whole_records
from rmqtool.startup.coverage import join
from rmqtool.startup.live import cut_log
from rmqtool.startup.load import StartFails
from rmqtool.startup.outcomes import Before, plainly_named, queue_outcomes
from rmqtool.startup.prediction import LaterStep
from rmqtool.startup.pull import MESSAGES_OF_A_PULL, LogExtent, Pull
from rmqtool.startup.queue_outcomes import QueueOutcome, QueueOutcomes
from rmqtool.startup.records import RecordCheck
from rmqtool.startup.rocksdb.opening import with_database
from rmqtool.startup.start_file import StartFile
from rmqtool.startup.timers import TimerCopies
from rmqtool.store.rocksdb import is_rocksdb
from rmqtool.store.rocksdb_database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqtool.queues.kinds import Units
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.coverage import UnitCoverage
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.outcomes import UnitsByQueue
    from rmqtool.startup.plain_queues import PlainQueues
    from rmqtool.startup.queues import QueueKey
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue
    from rmqtool.startup.rocksdb.model import RocksModel, RocksSettings
    from rmqtool.store.tree import Store

    Int64s = NDArray[np.int64]


@dataclass(slots=True)
class RocksStages:
    """A start of one store."""

    model: RocksModel  # the store
    before: RocksBefore  # what there was
    rows: OtherRows  # of `rocksdbstore`
    dispatched: int = 0  # physical offset up to which records are not dispatched after a clean stop

    def start_file(self, model: Model, check: RecordCheck) -> RocksStartFile:
        """Make what finds the file that recovery begins with; it knows what is dispatched."""
        del model  # it is ours
        start_file = RocksStartFile(self.model, check)
        self.dispatched = start_file.dispatch_from
        return start_file

    def differ(self) -> None:
        """Compare the two stores of a combined one, when both have been recovered."""
        rocksdb_settings = self.model.rocksdb_settings
        for key, wanted, maximum in list(self.model.second_maximums()):
            if maximum > 0 and rocksdb_settings.rocksdb_is_read != rocksdb_settings.rocksdb_leads:
                name = f"topic {key[0]}, queue {key[1]}"
                reason = (
                    f"{name} ends at {maximum} and not at {wanted}, and consumers read it there"
                )
                self.model.loader.refuse(rocksdb_settings.path, reason)
                return
            if not rocksdb_settings.rocksdb_leads:
                self.model.set_empty(key, wanted)

    def outcomes(self) -> QueueOutcomes:
        """Give what becomes of each queue. Raises UnreadablePath: a file may not be read."""
        return rocks_fates(self.model, self.before)

    def later_steps(self, recovered: Recovered | None, outcomes: QueueOutcomes) -> list[LaterStep]:
        """Give what happens besides. Raises UnreadablePath: a file of the log may not be read."""
        model, steps = self.model, []
        if model.rocksdb_settings.has_files and not model.rocksdb_settings.rocksdb_is_read:
            cut = sum(outcome.units_cut for outcome in outcomes.judged if outcome.in_rocksdb)
            if cut:
                amount = counted(cut, "unit goes", "units go")
                message = f"{amount} out of sight, in the queues of RocksDB"
                steps.append(LaterStep("empty", model.rocksdb_settings.path, message, cut))
        if recovered is not None:
            starts = {file.path: file.start for file in self.before.log}
            first = starts.get(recovered.first_path, 0)
            steps += other_steps(model, self.rows, self.dispatched, first)
        return steps


def rocks_stages(store: Store, plain: Model, in_rocksdb: RocksSettings) -> RocksStages:
    """Open what a store has in RocksDB.

    Args:
        store: that has it.
        plain: its model without that.
        in_rocksdb: what of it is in RocksDB.

    Raises:
        UnreadablePath: a directory may not be listed.
        EngineMissing: the library that reads RocksDB is not installed.
    """
    model = with_database(store, plain, in_rocksdb)
    if model.is_live and not in_rocksdb.has_files:
        cut_log(store, model)
    rows = read_others(store, model)
    return RocksStages(model, RocksBefore.with_keyed(model), rows)


# Stage 4 for RocksDB: which commitlog file recovery begins with, and what it dispatches.
#
# See CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover, 5.3.3 to 5.5.0;
# CombineConsumeQueueStore#isMappedFileMatchedRecover, 5.4.0 and 5.5.0;
# DefaultMessageStore#recover, 5.5.0.


class RocksStartFile(StartFile):
    """Finds the file that recovery begins with."""

    model: RocksModel

    def __init__(self, model: RocksModel, check: RecordCheck) -> None:
        self._files_left = model.rocksdb_settings.more_files
        self._queued = model.dispatched_end
        super().__init__(model, check)

    def dispatched(self) -> int:
        """Give the physical offset up to which records are not dispatched after a clean stop."""
        model = self.model
        if model.rocksdb_settings.has_files:
            self._leading = (
                model.dispatched_end
                if model.rocksdb_settings.rocksdb_leads
                else super().dispatched()
            )
            if not model.rules.combines_queue_stores:
                return self._leading
            end = super().dispatched()
            if model.rocksdb_settings.path:
                end = min(end, model.dispatched_end)
        else:
            self._leading = end = model.dispatched_end
        return min([end, *(offset for offset in model.other_offsets if offset > 0)])

    def queues_agree(self, record: DispatchRequest) -> bool:
        """Tell whether the queues that lead have all before the first record of a file."""
        return record.physical_offset <= self._leading

    def matches_normally(self, file: ModelFile) -> bool:
        """See `StartFile`."""
        return super().matches_normally(file) and self._others_agree(file)

    def matches_abnormally(self, file: ModelFile) -> bool:
        """See `StartFile`; where RocksDB leads, its queues alone say it."""
        model = self.model
        if not model.rocksdb_settings.rocksdb_leads:
            return super().matches_abnormally(file) and self._others_agree(file)
        if model.rules.normal_start is NormalStart.FIRST_RECORD:
            return self.matches_normally(file)
        with file.open() as reader:
            prefix = reader.read_at(0, MESSAGE_PREFIX.size)
        magic = MESSAGE_PREFIX["magic_code"].of(prefix)
        is_record = magic in {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2}
        return is_record and MESSAGE_PREFIX["physical_offset"].of(prefix) <= self._queued

    def _others_agree(self, file: ModelFile) -> bool:
        """Ask the second store, the index and transactions.

        Raises:
            StartFails: consumers read from a store that cannot be recovered.
        """
        model = self.model
        record = self.first_record(file)
        if record is None or not model.rules.combines_queue_stores:
            return record is not None
        offset = record.physical_offset
        agrees = all(offset <= other_offset for other_offset in model.other_offsets)
        if not model.rocksdb_settings.path or model.rocksdb_settings.rocksdb_leads:
            return agrees
        is_skipped = model.rules.skips_unstarted_queues and self._queued <= 0
        if is_skipped or offset <= self._queued:
            return agrees
        if model.rocksdb_settings.has_light_alone:
            return False
        self._files_left -= 1
        if self._files_left >= 0:
            return False
        if model.rocksdb_settings.rocksdb_is_read:
            reason = "consumers read queues in RocksDB, which lag too far"
            raise StartFails(model.rocksdb_settings.path, reason)
        return agrees


# What becomes of queues in RocksDB: what consumers reach of them before a start and after it.


@dataclass(frozen=True)
class RocksBefore(Before):
    """The store before the start."""

    # numbers and units of each queue in RocksDB that consumers reach
    keyed: dict[QueueKey, tuple[Int64s, Units]]
    asked: frozenset[QueueKey]  # of these, those that consumers ask
    plain_keyed: PlainQueues[KeyedQueue]  # the others, which consumers ask, too

    @classmethod
    def with_keyed(cls, model: RocksModel) -> Self:
        """Take down what there is. Raises UnreadablePath: a file may not be read."""
        plain = Before.of(model)
        keyed = {}
        for key, queue in model.keyed.items():
            row = queue.minimum_row
            keyed[key] = _reached(queue, model)
            queue.minimum_row = row  # nobody has asked the broker yet
        asked = frozenset(key for key in keyed if is_asked(model, key))
        files = (plain.file_length, plain.log, plain.queues, plain.plain)
        return cls(*files, keyed, asked, model.plain_keyed)

    def covered(self) -> UnitCoverage:
        """See `Before`."""
        coverage = Before.covered(self)
        for key, (_, units) in self.keyed.items():
            if key in self.asked:
                coverage.add(key, join([units]))
        coverage.add_queues(self.plain_keyed)
        return coverage

    def reached(self, key: QueueKey) -> tuple[Int64s, Units]:
        """Give numbers and units that consumers reached of a queue in RocksDB."""
        if self.plain_keyed.row(key) < 0:
            return self.keyed.get(key, (np.empty(0, np.int64), np.empty(0, CQ_UNIT.dtype)))
        first, units = self.plain_keyed.units_of(key)
        return np.arange(first, first + len(units)), units

    def named(self, model: Model) -> Iterator[UnitsByQueue]:
        """See `Before`."""
        yield from Before.named(self, model)
        queues: list[UnitsByQueue] = [
            (key, partial(_named, numbers, units)) for key, (numbers, units) in self.keyed.items()
        ]
        plain = self.plain_keyed
        queues += [(key, partial(plainly_named, plain, key)) for key in plain.keys]
        yield from sorted(queues, key=itemgetter(0))


def is_asked(model: RocksModel, key: QueueKey) -> bool:
    """Tell whether consumers get what RocksDB has of a queue."""
    return model.rocksdb_settings.rocksdb_is_read or (
        model.rocksdb_settings.has_light_alone and key not in model.queues
    )


def rocks_fates(model: RocksModel, before: RocksBefore) -> QueueOutcomes:
    """Give what becomes of each queue, and tell the coverage what changes.

    Raises:
        UnreadablePath: a file may not be read.
    """
    in_files = queue_outcomes(model, before)
    log = LogExtent(model.commitlog)
    model.take_keyed(model.plain_keyed.out_of_reach(log))
    return in_files.and_more(_judged(model, before, log), model.plain_keyed.kept(in_rocksdb=True))


def _judged(model: RocksModel, before: RocksBefore, log: LogExtent) -> Iterator[QueueOutcome]:
    """Give the queues in RocksDB that are objects."""
    for key, queue in model.keyed.items():
        numbers, units = _reached(queue, model)
        was_numbers, was = before.reached(key)
        cut = added = 0
        if not np.array_equal(was_numbers, numbers) or not np.array_equal(was, units):
            if is_asked(model, key):
                before.coverage.change(key, join([was]), join([units]))
            cut = int((~is_in(was_numbers, np.sort(numbers))).sum())
            added = int((~is_in(numbers, np.sort(was_numbers))).sum())
        minimum = queue.minimum(model.commitlog.minimum)
        yield QueueOutcome(
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_batch=False,
            units_now=len(was),
            minimum=minimum,
            maximum=queue.next_offset,
            units_cut=cut,
            units_added=added,
            units_shifted=0,
            readable=_readable(numbers, units, log, minimum, queue, model),
            in_rocksdb=True,
        )


def _readable(
    numbers: Int64s,
    units: Units,
    log: LogExtent,
    minimum: int,
    queue: KeyedQueue,
    model: RocksModel,
) -> int:
    """Give the messages that a consumer gets who pulls from the minimum on.

    At a hole releases before 5.5.0 send consumers back to 0, over and over. 5.5.0 looks at the unit
    after those that it hands out, too, and throws where there is none: for all units of that pull.
    Before, a pull looks at no more units than the messages that it asks for.
    Source: DefaultMessageStore#getMessage, RocksDBConsumeQueue#iterateFrom0,
    RocksDBReusableIterator#next; observed, 5.3.3 to 5.5.1.
    """
    expected = np.arange(minimum, minimum + len(numbers))
    holes = np.flatnonzero(numbers != expected)
    end = int(holes[0]) if holes.size else len(numbers)
    if model.rules.reads_on_in_rocksdb:
        pull = Pull(log, ends_in_hole=minimum + end < queue.next_offset)
    else:
        pull = Pull(log, MESSAGES_OF_A_PULL)
    pull.add(units[:end])
    return pull.delivered


def _reached(queue: KeyedQueue, model: RocksModel) -> tuple[Int64s, Units]:
    """Give numbers and units from the minimum to the maximum."""
    return queue.between(queue.minimum(model.commitlog.minimum), queue.next_offset)


def _named(numbers: Int64s, units: Units) -> UnitNumbers:
    real = are_real(units)
    offsets = units["physical_offset"][real].astype(np.int64)
    return UnitNumbers(numbers[real], np.ones(len(offsets), np.int64), offsets)


# `rocksdbstore` at a start: how far it says to be, and what nobody does any more or does twice.
#
# Records past the end of the index come into no index, unless they are handed over again. Half
# messages without a row are never checked again, unless recovery hands them over once more. A timer
# whose queue is read again delivers what it has delivered.
# See IndexRocksDBStore, TransMessageRocksDBStore, TimerMessageRocksDBStore, 5.5.0; observed,
# 5.5.0.


TRANS, TIMER = "trans", "timer"


@dataclass(slots=True)
class OtherRows:
    """What `rocksdbstore` says."""

    halves: set[int] = field(default_factory=set)  # physical offsets of open half messages
    scanned: int = 0  # next queue offset of the timer's queue; 0 without the row
    indexed: int = -1  # physical offset up to which records are in the index; -1 without the row
    problem: str = ""  # why it cannot be read; empty where it can


def read_others(store: Store, model: RocksModel) -> OtherRows:
    """Read how far index and transactions came, into the model, and what timers and halves say."""
    rows, rocksdb_settings = OtherRows(), model.rocksdb_settings
    place = store.root.child(MESSAGE_STORE)
    if not is_rocksdb(place):
        model.other_offsets = (0,) * (rocksdb_settings.has_index + rocksdb_settings.has_halves)
        return rows
    try:
        with Database(place, MESSAGE_STORE) as database:
            families = [
                *([DEFAULT] if rocksdb_settings.has_index else ()),
                *([TRANS] if rocksdb_settings.has_halves else ()),
            ]
            model.other_offsets = tuple(
                _number(database, family, LAST_OFFSET) for family in families
            )
            rows.scanned = _number(database, TIMER, TIMER_SCANNED)
            if database.get(DEFAULT, LAST_OFFSET) is not None:
                rows.indexed = _number(database, DEFAULT, LAST_OFFSET)
            for batch in database.rows(TRANS) if rocksdb_settings.has_halves else ():
                rows.halves |= {
                    HALF_OFFSET["physical_offset"].of(key)
                    for key in batch.keys
                    if key != LAST_OFFSET and len(key) > HALF_OFFSET.size
                }
    except DamagedDatabase as error:
        # Observed, 5.5.0: a broker starts without it.
        rows.problem = error.reason
        model.other_offsets = (0,) * (rocksdb_settings.has_index + rocksdb_settings.has_halves)
    return rows


def _number(database: Database, family: str, key: bytes) -> int:
    value = database.get(family, key)
    return int(NUMBER["number"].of(value)) if value and len(value) == NUMBER.size else 0


@dataclass(slots=True)
class HalvesAndTimers:
    """What the log says of halves, timers and keys."""

    # unique key of each half message, by physical offset
    halves: dict[int, str] = field(default_factory=dict)
    # physical offsets of half messages that are decided
    ended: set[int] = field(default_factory=set)
    # unique keys of those that were checked too often
    given_up: set[str] = field(default_factory=set)
    # messages that the timer would take again
    timers: TimerCopies = field(default_factory=TimerCopies)
    handed_over: int = 0  # physical offset from which on records are handed over again
    unindexed: int = 0  # records before that, and past the end of the index, that it ought to have


def other_steps(
    model: RocksModel, rows: OtherRows, dispatched: int, first: int
) -> Iterator[LaterStep]:
    """Yield what is forgotten and what is repeated.

    Args:
        model: the store after recovery.
        rows: of `rocksdbstore`.
        dispatched: physical offset up to which nothing is handed over again after a clean stop.
        first: physical offset that recovery began with.

    Raises:
        UnreadablePath: a file of the log may not be read.
    """
    rocksdb_settings = model.rocksdb_settings
    if not (
        rocksdb_settings.has_halves or rocksdb_settings.has_timers or rocksdb_settings.has_index
    ):
        return
    if rows.problem:
        held = [
            name
            for name, is_there in (
                ("the key index", rocksdb_settings.has_index),
                ("timer messages", rocksdb_settings.has_timers),
                ("half messages", rocksdb_settings.has_halves),
            )
            if is_there
        ]
        message = f"the broker starts without {' and '.join(held)}: {MESSAGE_STORE} cannot be read"
        yield LaterStep("without", MESSAGE_STORE, message, 0)
        return
    seen = HalvesAndTimers(handed_over=dispatched + 1 if model.stopped_cleanly else first)
    seen.timers.scanned = rows.scanned
    check = RecordCheck(model.rules, model.settings, reads_v2=True)
    for file in model.commitlog.files:
        with file.open() as reader:
            for _, record in whole_records(file, reader, check):
                _see(seen, record, rows)
    forgotten = [
        offset
        for offset, key in seen.halves.items()
        if offset not in seen.ended and key not in seen.given_up and offset not in rows.halves
        and offset < seen.handed_over
    ]  # fmt: skip
    if forgotten and rocksdb_settings.has_halves:
        message = f"{len(forgotten):,} open half messages are never checked again"
        yield LaterStep("forget", MESSAGE_STORE, message, len(forgotten))
    if (count := len(seen.timers.delivered)) and rocksdb_settings.has_timers:
        amount = counted(count, "timer message is", "timer messages are")
        message = f"{amount} delivered for the second time"
        yield LaterStep("repeat", MESSAGE_STORE, message, count)
    if seen.unindexed and rocksdb_settings.has_index:
        amount = counted(seen.unindexed, "message is", "messages are")
        message = f"{amount} missing in the key index in RocksDB"
        yield LaterStep("unindexed", MESSAGE_STORE, message, seen.unindexed)


def _see(seen: HalvesAndTimers, record: DispatchRequest, rows: OtherRows) -> None:
    values = record.properties
    key = values.get(properties.UNIQ_KEY, "")
    is_rollback = record.sys_flag & TRANSACTION == SysFlag.TRANSACTION_ROLLBACK_TYPE
    if key and not is_rollback and rows.indexed < record.physical_offset < seen.handed_over:
        seen.unindexed += 1
    seen.timers.see(record)
    if record.topic in HALF_TOPICS:
        seen.halves[record.physical_offset] = key
    elif record.topic in OP_TOPICS:
        offsets = values.get(properties.TRANS_OFFSET, "").split(",")
        seen.ended |= {int(offset) for offset in offsets if offset.isdecimal()}
    elif record.topic == CHECK_MAX_TIME_TOPIC:
        seen.given_up.add(key)
