"""Where the queues of a store lie, in files, RocksDB or both, and by whose rules they are made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqtool.broker import conf
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.derive.placement import QueuePlacement, placement_of
from rmqtool.derive.settings import rocksdb_rules, rules_of
from rmqtool.errors import UnreadablePath
from rmqtool.formats.rocksdb_databases import QUEUES, SEPARATE_QUEUES
from rmqtool.queues.discovery import Queues
from rmqtool.rebuild.options import StoreType
from rmqtool.store.release import written_by
from rmqtool.store.rocksdb import is_queue_database

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.rebuild.options import RebuildOptions
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store


def store_types(store: Store, options: RebuildOptions) -> frozenset[StoreType]:
    """Say what queues are written as: what was asked for, else what the store has."""
    if not options.target.has_queues:
        return frozenset({StoreType.FILES})
    if options.store_type is not None:
        return frozenset({options.store_type})
    if database_of(store) is None and not missing_database(store):
        return frozenset({StoreType.FILES})
    files = [StoreType.FILES] if _is_combined(store) or _topics_in_files(store) else []
    return frozenset({StoreType.ROCKSDB, *files})


def index_types(store: Store, options: RebuildOptions) -> frozenset[StoreType]:
    """Say what the key index is written as: what was asked for, else what the store has."""
    if not options.target.has_index:
        return frozenset()
    if options.store_type is not None:
        return frozenset({options.store_type})
    if not store.rocksdb() and not conf.INDEX_IN_ROCKSDB.of(store.broker_conf):
        return frozenset({StoreType.FILES})
    from rmqtool.rebuild.rocksdb_index import is_in_rocksdb  # few stores have it

    if not is_in_rocksdb(store, rules_for(store, options)[0].release.version):
        return frozenset({StoreType.FILES})
    return frozenset(StoreType) if store.index_files() else frozenset({StoreType.ROCKSDB})


def database_of(store: Store) -> RocksDb | None:
    """Give the database with the queues of a store; None without one."""
    return next(
        (database for database in store.rocksdb() if is_queue_database(database.path)), None
    )


def missing_database(store: Store) -> str:
    """Give the path of the database that the configuration asks for, and that is gone.

    Empty where queues are in files, where a database is there, or where nothing tells.
    """
    broker_conf = store.broker_conf
    if broker_conf is None or database_of(store) is not None:
        return ""
    is_alone = conf.STORE_TYPE.of(broker_conf) == conf.ROCKSDB_STORE and not _topics_in_files(store)
    if not (is_alone or _is_combined(store)):
        return ""
    return SEPARATE_QUEUES if conf.SEPARATE_DATABASE.of(broker_conf) else QUEUES


def missing_files(store: Store) -> bool:
    """Tell whether a combined store has lost its queues in files, and has those in RocksDB."""
    return _is_combined(store) and database_of(store) is not None and not _topics_in_files(store)


def _is_combined(store: Store) -> bool:
    """Tell whether the configuration asks for queues in files and in RocksDB."""
    broker_conf = store.broker_conf
    is_alone = conf.STORE_TYPE.of(broker_conf) == conf.ROCKSDB_STORE
    return conf.DOUBLE_WRITE.of(broker_conf) and not is_alone


def _topics_in_files(store: Store) -> list[str]:
    try:
        return Queues(store).files.topics()
    except UnreadablePath:
        return []


def placement(store: Store) -> QueuePlacement:
    """Say which queues of a store are in files, and which are in RocksDB."""
    release = Rules(written_by(store).version)
    return placement_of(store, release, _topics_in_files(store), partial(_names_in_rocksdb, store))


def _names_in_rocksdb(store: Store) -> Iterable[tuple[bytes, int]]:
    try:
        with Queues(store) as queues:
            source = queues.database.source
            return [] if source is None else source.names
    except UnreadablePath:  # which is why it is rebuilt
        return []


def rules_for(store: Store, options: RebuildOptions) -> tuple[DispatchRules, str]:
    """Say which rules follow from the release that was asked for, or that wrote the store; and why.

    Raises:
        UsageError: the release is not one.
    """
    if options.rules is not None:
        return options.rules
    if options.broker_version is not None:
        version = Version.parse(options.broker_version)
        rules, why = rules_of(store, version), "as --broker-version says"
    else:
        wrote = written_by(store)
        rules, why = rules_of(store, wrote.version), f"as the files were written by {wrote}"
    types = store_types(store, options)
    if StoreType.ROCKSDB not in types and database_of(store) is None:
        return rules, why
    has_files = StoreType.FILES in types
    with Queues(store) as queues:
        try:
            return rocksdb_rules(store, rules, queues.database.source, has_files=has_files), why
        except UnreadablePath:  # which is why it is rebuilt
            return rocksdb_rules(store, rules, None, has_files=has_files), why
