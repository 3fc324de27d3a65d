"""Topics, groups and consumer offsets that lie in RocksDB, in the shape of the JSON files.

A start reads the rows, then merges a JSON file whose version counter is higher; version 2 knows no
JSON file. What cannot be read whole is no document: a part of the topics would pass for all.
Source: RocksDBTopicConfigManager, RocksDBSubscriptionGroupManager, RocksDBConsumerOffsetManager,
5.1.4 to 5.5.0; TopicConfigManagerV2, SubscriptionGroupManagerV2, ConsumerOffsetManagerV2, 5.3.2 to
5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rmqtool.budget import OverBudget
from rmqtool.errors import DamagedDatabase, DecodeError, EngineMissing, UnreadablePath
from rmqtool.formats import config, config_shapes, java
from rmqtool.formats.config_names import GROUPS_JSON, OFFSET_TABLE, OFFSETS_JSON, TOPICS_JSON
from rmqtool.formats.rocksdb_config import json_row, v2_row
from rmqtool.formats.rocksdb_databases import DEFAULT, FORBIDDEN, MANAGERS, ONE, VERSION_2
from rmqtool.store.config_files import ConfigDocument, Fault, Problem
from rmqtool.store.rocksdb_database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.budget import ParseBudget
    from rmqtool.formats.rocksdb_row import RocksdbRow
    from rmqtool.store.rocksdb import RocksDb

    ManagerReader = Callable[[Database, str, ParseBudget], dict[str, Any]]


def config_documents(databases: list[RocksDb], budget: ParseBudget) -> dict[str, ConfigDocument]:
    """Read what the databases say, by the name of the JSON file that would say it.

    Nothing raises: why something cannot be read is a problem of its document.

    Args:
        databases: of the store.
        budget: of all configuration of the store.
    """
    there = {database.path: database for database in databases if not database.is_empty}
    if VERSION_2 in there:
        return _documents(there[VERSION_2], MANAGERS, _version_2, budget)
    if ONE in there:
        return _documents(there[ONE], MANAGERS, _version_1, budget)
    documents: dict[str, ConfigDocument] = {}
    for name, manager in MANAGERS.items():
        if manager.path in there:
            documents |= _documents(there[manager.path], (name,), _version_1, budget)
    return documents


def merged(stored: ConfigDocument, in_json: ConfigDocument, name: str) -> ConfigDocument:
    """Merge a JSON file into what a database says, as a start of a broker does.

    Args:
        stored: of the database.
        in_json: of the file; may be empty.
        name: of the file.
    """
    counters = [
        config_shapes.data_version(document.document).counter or 0 for document in (stored, in_json)
    ]
    if not in_json or not stored or stored.path == VERSION_2 or counters[1] <= counters[0]:
        return stored if stored or not in_json else in_json
    table = config_shapes.TABLES[name]
    newer = in_json.document.get(table)
    document = dict(stored.document)
    document[table] = {**document[table], **(newer if isinstance(newer, dict) else {})}
    return ConfigDocument(name, stored.path, document, is_backup=False, problems=stored.problems)


def _documents(
    rocks_db: RocksDb, names: Iterable[str], read: ManagerReader, budget: ParseBudget
) -> dict[str, ConfigDocument]:
    """Read the documents that are wanted of one database."""
    documents = {}
    try:
        with Database(rocks_db.place, rocks_db.path) as database:
            for name in names:
                document = read(database, name, budget)
                documents[name] = ConfigDocument(name, rocks_db.path, document, False, ())
    except (UnreadablePath, EngineMissing) as error:
        problems = (Problem(rocks_db.path, Fault.BROKEN, f"{rocks_db.path}: {error}"),)
        return {name: ConfigDocument(name, "", {}, False, problems) for name in names}
    return documents


def _version_1(database: Database, name: str, budget: ParseBudget) -> dict[str, Any]:
    """Read the rows of a manager, and its version."""
    table: dict[str, Any] = {}
    manager, path = MANAGERS[name], database.path
    document: dict[str, Any] = {config_shapes.TABLES[name]: table}
    for row in _rows(database, manager.data_in(path), json_row, budget):
        if row.kind == "entry":
            table[java.text(row.values["name"])] = _offsets_of(_json(row), name)
    with suppress(DamagedDatabase):  # of an older table: brokers read the newest one alone
        for row in _rows(database, manager.version_in(path), json_row, budget):
            if row.kind == "version":
                document["dataVersion"] = _json(row)
    if name == GROUPS_JSON:
        document["forbiddenTable"] = {
            java.text(row.values["name"]): _json(row)
            for row in _rows(database, FORBIDDEN, json_row, budget)
            if row.kind == "entry"
        }
    return document


def _offsets_of(value: object, name: str) -> object:
    """Give the queues of a consumer offset, which lie a level deeper than in the JSON file."""
    if name == OFFSETS_JSON and isinstance(value, dict):
        return value.get(OFFSET_TABLE, {})
    return value


def _version_2(database: Database, name: str, budget: ParseBudget) -> dict[str, Any]:
    """Read the rows of one manager out of those of all."""
    kind = {TOPICS_JSON: "topic", GROUPS_JSON: "group"}.get(name, "consumer_offset")
    table: dict[str, Any] = {}
    document: dict[str, Any] = {config_shapes.TABLES[name]: table}
    offsets: dict[str, dict[str, dict[str, int]]] = {"consumer_offset": table, "pull_offset": {}}
    for row in _rows(database, DEFAULT, v2_row, budget):
        values = row.values
        if row.kind == f"{kind}_version":
            document["dataVersion"] = {
                "stateVersion": values["state_version"],
                "timestamp": values["timestamp"],
                "counter": values["counter"],
            }
        elif kind == "consumer_offset" and row.kind in offsets:
            pair = f"{java.text(values['topic'])}@{java.text(values['group'])}"
            queues = offsets[row.kind].setdefault(pair, {})
            queues[str(values["queue_id"])] = values["queue_offset"]
        elif row.kind == kind:
            table[java.text(values[kind])] = _json(row)
    if offsets["pull_offset"]:
        document["pullOffsetTable"] = offsets["pull_offset"]
    return document


def _rows(
    database: Database,
    family: str,
    read: Callable[[bytes, bytes], RocksdbRow],
    budget: ParseBudget,
) -> Iterator[RocksdbRow]:
    for batch in database.rows(family):
        for key, value in batch.items():
            try:
                budget.spend(config.steps_of(key, value))
            except OverBudget as error:
                raise DamagedDatabase(path=database.path, reason=str(error)) from error
            try:
                yield read(key, value)
            except DecodeError:
                continue  # a finding of its own


def _json(row: RocksdbRow) -> object:
    try:
        return config.parse(row.values["json"], path="")
    except DecodeError:
        return {}
