"""The keys of a broker.conf that say what is in RocksDB; without one, the store's files tell.

Source: MessageStoreConfig, 5.1.4 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.broker import conf
from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.startup.load import queue_directories
from rmqtool.store.rocksdb import is_rocksdb

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules
    from rmqtool.store.tree import Store

USUAL, SEPARATE = "consumequeue", "consumequeue_rocksdb"


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """What of a store is in RocksDB."""

    path: str = USUAL  # of the database of queues, relative to the store root; empty without one
    has_files: bool = False  # queues are in files, too
    rocksdb_leads: bool = True  # queues in RocksDB say where recovery begins, and give the offsets
    rocksdb_is_read: bool = True  # consumers get what is in RocksDB
    has_light_alone: bool = False  # light queues are in RocksDB alone
    # files of the log that are gone back for a second store that lags
    further_files: int = conf.FURTHER_FILES.default
    has_index: bool = False  # the key index is in `rocksdbstore`
    has_timers: bool = False  # timer messages are
    has_halves: bool = False  # open half messages are


def rocks_settings(store: Store, rules: Rules) -> RocksSettings | None:
    """Say what of a store is in RocksDB; None where queues are in files alone."""
    if store.broker_conf is None:
        return _shown_by_files(store)
    broker_conf, version = store.broker_conf, rules.version
    has_index = conf.INDEX_IN_ROCKSDB.of(broker_conf, version)
    has_timers = conf.TIMER_IN_ROCKSDB.of(broker_conf, version)
    has_halves = conf.HALVES_IN_ROCKSDB.of(broker_conf, version)
    is_alone = conf.STORE_TYPE.of(broker_conf, version) == conf.ROCKSDB_STORE
    is_double = not is_alone and conf.DOUBLE_WRITE.of(broker_conf, version)
    if not (is_alone or is_double or has_index or has_timers or has_halves):
        return None
    path = SEPARATE if conf.SEPARATE_DATABASE.of(broker_conf, version) else USUAL
    return RocksSettings(
        path if is_alone or is_double else "",
        has_files=not is_alone,
        rocksdb_leads=is_alone
        or (is_double and conf.OFFSETS_BY.of(broker_conf, version) == conf.ROCKSDB_STORE),
        rocksdb_is_read=is_alone
        or (is_double and conf.READ_FROM.of(broker_conf, version) == conf.ROCKSDB_STORE),
        has_light_alone=is_double and conf.LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf, version),
        further_files=conf.FURTHER_FILES.of(broker_conf, version),
        has_index=has_index,
        has_timers=has_timers,
        has_halves=has_halves,
    )


def _shown_by_files(store: Store) -> RocksSettings | None:
    """Take what lies there for what is configured."""
    there = [path for path in (USUAL, SEPARATE) if is_rocksdb(store.root.child(path))]
    if not there:
        return None
    topics = {topic for topic, *_ in queue_directories(store.root.child(USUAL))}
    has_light = any(topic.startswith(LMQ_PREFIX) for topic in topics)
    return RocksSettings(
        there[0],
        has_files=bool(topics),
        rocksdb_leads=not topics,
        rocksdb_is_read=not topics,
        has_light_alone=bool(topics) and not has_light,
    )
