"""A store in the memory of a starting broker that has queues in RocksDB, alone or beside files.

Source: RocksDBConsumeQueueStore, CombineConsumeQueueStore, 5.2.0 to 5.5.0;
RocksDBMessageStore#loadAndStartConsumerServiceOnly, 5.3.1 to 5.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.broker import conf
from rmqtool.broker.dispatch import DispatchThrows, is_queued
from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.derive.placement import ALL_IN_BOTH, QueuePlacement
from rmqtool.formats.rocksdb_databases import QUEUES
from rmqtool.startup.load import queue_directories
from rmqtool.startup.model import Int64s, Model
from rmqtool.startup.plain_queues import PlainQueues
from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue
from rmqtool.store.read_by import has_queues_in_rocksdb_alone, queue_database_of
from rmqtool.store.rocksdb import is_queue_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.queues import QueueKey
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.walk import Block
    from rmqtool.store.tree import Store


@dataclass(slots=True)
class RocksModel(Model):
    """What a starting broker holds of such a store."""

    rocksdb_settings: RocksSettings = field(kw_only=True)  # the keys that matter here
    keyed_rules: DispatchRules = field(kw_only=True)  # which queues in RocksDB a record goes to
    # queues in RocksDB by topic and number, but for the plain ones
    keyed: dict[QueueKey, KeyedQueue] = field(default_factory=dict)
    plain_keyed: PlainQueues[KeyedQueue] = field(default_factory=PlainQueues.none)
    dispatched_end: int = 0  # end of dispatch, as the row CHECKPOINT says; 0 without it
    placement: QueuePlacement = ALL_IN_BOTH  # which queues are in files, and which in RocksDB
    # `lastOffsetPy` of the index and of transactions, where these are in RocksDB and dispatched to;
    # 0 without the row
    other_offsets: tuple[int, ...] = ()

    @property
    def queue_maximum(self) -> int:
        """How far the queues believe to be dispatched that give the offsets."""
        if self.rocksdb_settings.rocksdb_leads:
            return self.dispatched_end
        return max((queue.max_physical_offset for queue in self.all_queues()), default=-1)

    @property
    def topics(self) -> frozenset[str]:
        """Topics that have a queue."""
        objects = (topic for topic, _ in (*self.queues, *self.batch_queues, *self.keyed))
        return self.plain_keyed.topics.union(objects)

    @property
    def light_rules(self) -> DispatchRules:
        """By which records are to be in light queues, wherever these are."""
        return self.keyed_rules if self.placement.lite is not None else self.dispatch_rules

    def extent(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Give the smallest and the next offset of a queue; None without it."""
        if (topic, queue_id) in self.plain_keyed:
            return self.plain_keyed.extent((topic, queue_id))
        queue = self.keyed.get((topic, queue_id))
        if queue is None or not (
            self.rocksdb_settings.rocksdb_is_read or self.rocksdb_settings.has_light_alone
        ):
            return Model.extent(self, topic, queue_id)
        return queue.minimum(self.commitlog.minimum), queue.next_offset

    def truncate_queues(self, physical_offset: int) -> None:
        """Cut the queues before a physical offset; 5.3.3 leaves a second database alone."""
        Model.truncate_queues(self, physical_offset)
        is_second = self.rocksdb_settings.has_files and not self.rules.combines_queue_stores
        if is_second or not self.rocksdb_settings.path:
            return
        if physical_offset >= self.dispatched_end:
            return
        self.dispatched_end = physical_offset
        self.take_keyed(self.plain_keyed.not_before(physical_offset))
        for queue in self.keyed.values():
            queue.truncate(physical_offset, self.commitlog.minimum)

    def destroy_queues(self) -> None:
        """Delete each queue."""
        Model.destroy_queues(self)
        self.keyed, self.plain_keyed, self.dispatched_end = {}, PlainQueues.none(), 0

    def take_keyed(self, keys: Iterable[QueueKey]) -> None:
        """Make plain queues in RocksDB objects."""
        for queue in self.plain_keyed.take_out(keys):
            self.keyed[queue.topic, queue.queue_id] = queue

    def is_special(self, block: Block) -> bool:
        """Tell whether a block needs a look at each record."""
        has_light = bool(self.rocksdb_settings.path) and self.keyed_rules.multi_dispatch
        return has_light or Model.is_special(self, block)

    def queue(self, record: DispatchRequest) -> None:
        """Hand a record to its queues in files and in RocksDB.

        Raises:
            DispatchFails: Java throws.
        """
        if self.rocksdb_settings.has_files:
            Model.queue(self, record)
        if not self.rocksdb_settings.path or not is_queued(record.sys_flag):
            return
        if not self.placement.in_rocksdb(record.topic):  # its light queues go with it
            return
        self.dispatched_end = record.physical_offset + record.size
        try:
            for place in self.keyed_rules.places(record):
                key = (place.topic, place.queue_id)
                self._put(key, [place.queue_offset], [record.physical_offset], [record.size])
        except DispatchThrows:  # in a thread of its own, which goes on
            return

    def put_many(
        self, key: QueueKey, offsets: Int64s, sizes: Int64s, queue_offsets: Int64s
    ) -> None:
        """Hand records of one queue to it, in the order of the log."""
        if self.rocksdb_settings.has_files:
            Model.put_many(self, key, offsets, sizes, queue_offsets)
        if not self.rocksdb_settings.path or not self.placement.in_rocksdb(key[0]):
            return
        self.dispatched_end = max(self.dispatched_end, int(offsets[-1] + sizes[-1]))
        self._put(key, queue_offsets, offsets, sizes)

    def dispatch_block(self, block: Block, chosen: NDArray[np.bool_]) -> None:
        """Hand the chosen records of a block on; CHECKPOINT moves, back as well as on."""
        queued = np.flatnonzero(chosen & block.are_queued)
        before = self.dispatched_end
        if queued.size and self.rocksdb_settings.path:
            self.dispatched_end = 0
        Model.dispatch_block(self, block, chosen)
        self.dispatched_end = self.dispatched_end or before  # no topic of it is in RocksDB

    def _put(self, key: QueueKey, numbers: object, offsets: object, sizes: object) -> None:
        if key in self.plain_keyed:
            self.take_keyed([key])
        elif key not in self.keyed:
            self.keyed[key] = KeyedQueue(*key)
        arrays = (np.asarray(column, np.int64) for column in (numbers, offsets, sizes))
        self.keyed[key].put(*arrays)

    def second_maximums(self) -> Iterator[tuple[QueueKey, int, int]]:
        """Yield the queues whose next offset in the second store is another: key, wanted, found.

        Source: CombineConsumeQueueStore#verifyAndInitOffsetForAllStore, 5.3.4 to 5.5.0.
        """
        if not (
            self.rocksdb_settings.path
            and self.rocksdb_settings.has_files
            and self.rules.combines_queue_stores
        ):
            return
        if self.rocksdb_settings.rocksdb_leads:
            for key, queue in self.keyed.items():
                beside = self.queues.get(key)
                yield from _differing(key, queue.next_offset, beside.maximum if beside else 0)
            return
        for key, file_queue in self.queues.items():
            if not self.placement.in_rocksdb(key[0]):
                continue
            keyed = self.keyed.get(key)
            yield from _differing(key, file_queue.maximum, keyed.next_offset if keyed else 0)

    def set_empty(self, key: QueueKey, next_offset: int) -> None:
        """Set a queue in RocksDB empty, as a combined store does whose two parts differ.

        Source: RocksDBConsumeQueue#initializeWithOffset, 5.3.4 to 5.5.0.
        """
        queue = self.keyed.setdefault(key, KeyedQueue(*key))
        queue.maximum_row, queue.minimum_row = (0, next_offset - 1), (0, next_offset)


def _differing(key: QueueKey, wanted: int, maximum: int) -> Iterator[tuple[QueueKey, int, int]]:
    if wanted != maximum and max(wanted, maximum) > 0:
        yield key, wanted, maximum


# The keys of a broker.conf that say what is in RocksDB; without one, the store's files tell.
#
# See MessageStoreConfig, 5.1.4 to 5.5.0.


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """What of a store is in RocksDB."""

    path: str = QUEUES  # of the database of queues, relative to the store root; empty without one
    has_files: bool = False  # queues are in files, too
    rocksdb_leads: bool = True  # queues in RocksDB say where recovery begins, and give the offsets
    rocksdb_is_read: bool = True  # consumers get what is in RocksDB
    has_light_alone: bool = False  # light queues are in RocksDB alone
    # files of the log that are gone back for a second store that lags
    more_files: int = conf.MORE_FILES.default
    has_index: bool = False  # the key index is in `rocksdbstore`
    has_timers: bool = False  # timer messages are
    has_halves: bool = False  # open half messages are


def rocks_settings(store: Store, rules: Rules) -> RocksSettings | None:
    """Say what of a store is in RocksDB; None where queues are in files alone."""
    if store.broker_conf is None:
        return _shown_by_files(store, rules)
    broker_conf, version = store.broker_conf, rules.version
    has_index = conf.INDEX_IN_ROCKSDB.of(broker_conf, version)
    has_timers = conf.TIMER_IN_ROCKSDB.of(broker_conf, version)
    has_halves = conf.HALVES_IN_ROCKSDB.of(broker_conf, version)
    is_alone = has_queues_in_rocksdb_alone(broker_conf, version)
    is_double = not is_alone and conf.DOUBLE_WRITE.of(broker_conf, version)
    if not (is_alone or is_double or has_index or has_timers or has_halves):
        return None
    return RocksSettings(
        queue_database_of(broker_conf, version),
        has_files=not is_alone,
        rocksdb_leads=is_alone
        or (is_double and conf.OFFSETS_BY.of(broker_conf, version) == conf.ROCKSDB_STORE),
        rocksdb_is_read=is_alone
        or (is_double and conf.READ_FROM.of(broker_conf, version) == conf.ROCKSDB_STORE),
        has_light_alone=is_double and conf.LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf, version),
        more_files=conf.MORE_FILES.of(broker_conf, version),
        has_index=has_index,
        has_timers=has_timers,
        has_halves=has_halves,
    )


def _shown_by_files(store: Store, rules: Rules) -> RocksSettings | None:
    """Take what lies there for what is configured."""
    there = [database.path for database in store.rocksdb() if is_queue_database(database.path)]
    if not there:
        return None
    topics = {topic for topic, *_ in queue_directories(store.root.child(QUEUES))}
    has_light = any(topic.startswith(LMQ_PREFIX) for topic in topics)
    return RocksSettings(
        there[0],
        has_files=bool(topics),
        rocksdb_leads=not topics,
        rocksdb_is_read=not topics,
        has_light_alone=(bool(topics) and not has_light and rules.may_keep_light_queues_in_rocksdb),
    )
