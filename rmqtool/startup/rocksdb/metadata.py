"""Databases beside the queues at a start: topics, groups, offsets, and the state of pop consumers.

A broker refuses to start where one of them cannot be opened, and where it cannot read the version
of a table. Of rows that it cannot read, newer releases refuse as well; older ones end there, and
start with what came before.
Source: RocksDBConfigManager#loadDataVersion, #loadData, ConfigStorage#start,
PopConsumerService#start, 5.1.4 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.conf import POP_DATABASE
from rmqtool.errors import DamagedDatabase
from rmqtool.formats.rocksdb_databases import (
    DEFAULT,
    FORBIDDEN,
    MANAGERS,
    POP_STORE,
    VERSION_2,
    managers_in,
)
from rmqtool.startup.rocksdb.opening import open_database
from rmqtool.store.config_sources import sources_of
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import check_table

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.load import Loader
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.tree import Store


def refuse_metadata(store: Store, rules: Rules, loader: Loader) -> None:
    """Note the databases that stop the broker.

    Raises:
        UnreadablePath: a directory may not be listed.
        EngineMissing: the library that reads RocksDB is not installed.
    """
    for path in sorted(sources_of(store, rules.version).databases):
        database = open_database(store, path, loader)
        if database is not None:
            with database:
                _refuse_families(database, rules, loader)
                _refuse_rows(database, rules, loader)
    if store.broker_conf is None or POP_DATABASE.of(store.broker_conf, rules.version):
        database = open_database(store, POP_STORE, loader)
        if database is not None:
            database.close()


def _refuse_families(database: Database, rules: Rules, loader: Loader) -> None:
    """Note a database with families that the release does not open: RocksDB then opens none."""
    others = sorted(set(database.families) - {DEFAULT})
    if others and not rules.has_metadata_families:
        loader.refuse(database.path, f"{rules.version} does not know its family {others[0]}")


def _refuse_rows(database: Database, rules: Rules, loader: Loader) -> None:
    """Note rows that a broker cannot read, and does not start without."""
    path, is_second = database.path, database.path == VERSION_2
    managers = [MANAGERS[name] for name in managers_in(path)]
    for family in [*dict.fromkeys(manager.data_in(path) for manager in managers), FORBIDDEN]:
        problem = _unreadable(database, family)
        if problem and (is_second or rules.refuses_damaged_metadata):
            loader.refuse(path, f"its rows cannot be read: {problem}")
            return
    for family in [] if is_second else [manager.version_in(path) for manager in managers]:
        if _unreadable(database, family) and _is_newest_damaged(database, family):
            loader.refuse(path, f"the row in {family} cannot be read")
            return


def _unreadable(database: Database, family: str) -> str:
    """Say why rows of a family cannot be read; empty where all can."""
    try:
        for _ in database.rows(family):
            pass
    except DamagedDatabase as error:
        return error.reason
    return ""


def _is_newest_damaged(database: Database, family: str) -> bool:
    """Tell whether the newest table of a family is damaged: of one key, older ones are not read."""
    manifest = read_manifest(database.place)
    numbers = {name: number for number, name in manifest.families.items()}
    tables = [table for table in manifest.tables.values() if table.family == numbers.get(family)]
    if not tables:
        return True
    newest = max(tables, key=lambda table: table.number)
    content = check_table(database.place.child(newest.name))
    return any(problem.is_data for problem in content.problems)
