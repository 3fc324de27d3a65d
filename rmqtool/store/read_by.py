"""A store as a start of a release sees it: RocksDB databases that it does not read are not there.

What a release does not know, or its broker.conf does not switch on, stays on the disk untouched.
Source: BrokerController#initialize, DefaultMessageStore, RocksDBMessageStore, 4.9.3 to 5.5.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.broker import conf
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats.rocksdb_databases import (
    DATABASES,
    MESSAGE_STORE,
    ONE,
    POP_STORE,
    QUEUES,
    SEPARATE_QUEUES,
)
from rmqtool.store.config_sources import DATABASES as OF_CONFIGURATION
from rmqtool.store.config_sources import SEPARATE, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.store.tree import Store


def as_read_by(store: Store, version: Version) -> Store:
    """Hide the databases that a start of a release does not read.

    Without a broker.conf, whatever is there counts as configured if the release knows it.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    there = {database.path for database in store.rocksdb()}
    return replace(store, hidden=frozenset(there - {*_read(store, version)})) if there else store


def queue_database_of(broker_conf: BrokerConf, version: Version) -> str:
    """Give the path of the database that a broker keeps queues in; empty for none."""
    is_alone = has_queues_in_rocksdb_alone(broker_conf, version)
    if not (is_alone or conf.DOUBLE_WRITE.of(broker_conf, version)):
        return ""
    return SEPARATE_QUEUES if conf.SEPARATE_DATABASE.of(broker_conf, version) else QUEUES


def has_queues_in_rocksdb_alone(broker_conf: BrokerConf, version: Version) -> bool:
    """Tell whether `storeType` puts all queues into RocksDB."""
    is_rocksdb = conf.STORE_TYPE.of(broker_conf, version) == conf.ROCKSDB_STORE
    return is_rocksdb and Rules(version).has_queues_in_rocksdb


def _read(store: Store, version: Version) -> Iterator[str]:
    """Yield the paths of the databases that a start reads."""
    known = {path for path, kind in DATABASES.items() if Version.known(kind.since) <= version}
    broker_conf = store.broker_conf
    if broker_conf is None:
        yield from known
        return
    yield queue_database_of(broker_conf, version)
    keys = (conf.INDEX_IN_ROCKSDB, conf.TIMER_IN_ROCKSDB, conf.HALVES_IN_ROCKSDB)
    if any(key.of(broker_conf, version) for key in keys):
        yield MESSAGE_STORE
    if conf.POP_DATABASE.of(broker_conf, version):
        yield POP_STORE
    of_configuration = sources_of(store, version).databases
    yield from of_configuration
    if ONE in of_configuration:  # a start takes along what it finds in those of before
        yield from SEPARATE
    yield from known - OF_CONFIGURATION - {QUEUES, SEPARATE_QUEUES, MESSAGE_STORE, POP_STORE}
