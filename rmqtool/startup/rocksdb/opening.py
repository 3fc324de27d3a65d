"""Stage 1 for RocksDB: open the database as a broker would, or find out why it refuses.

A database that is not there, or of which the MANIFEST is cut off, opens as an empty one. Beside
queues in files it stops no broker before 5.3.4, whatever ails it.
Source: ConsumeQueueRocksDBStorage, RocksDBConsumeQueueStore#load, 5.2.0 to 5.5.0; observed, 5.3.3
and 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derive.placement import placement_of
from rmqtool.derive.settings import rocksdb_rules
from rmqtool.errors import DamagedDatabase, UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_databases import QUEUES, SEPARATE_QUEUES
from rmqtool.queues.kinds import as_units
from rmqtool.queues.rocks import RocksQueues
from rmqtool.queues.short_rocks import short_rocks
from rmqtool.startup.load import Loader
from rmqtool.startup.plain_queues import PlainQueues
from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue
from rmqtool.startup.rocksdb.model import RocksModel
from rmqtool.startup.rocksdb.plain_keyed import plain_keyed
from rmqtool.store.entry import EntryKind
from rmqtool.store.rocksdb import is_rocksdb
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.rocksdb_table import FOOTER, NEWEST_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rmqtool.queues.rocks import RocksQueue
    from rmqtool.queues.short import ShortQueues
    from rmqtool.startup.model import Model
    from rmqtool.startup.rocksdb.model import RocksSettings
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb_manifest import TableFile
    from rmqtool.store.tree import Store


def with_database(store: Store, plain: Model, rocksdb_settings: RocksSettings) -> RocksModel:
    """Give the model of a store with its queues in RocksDB.

    Args:
        store: that has them.
        plain: its model without them.
        rocksdb_settings: what of it is in RocksDB.

    Raises:
        UnreadablePath: a directory may not be listed.
        EngineMissing: the library that reads RocksDB is not installed.
    """
    plain.take_out(plain.plain.left)
    plain.plain = PlainQueues.none()
    model = RocksModel(
        **{field_.name: getattr(plain, field_.name) for field_ in fields(plain)},
        rocksdb_settings=rocksdb_settings,
        keyed_rules=plain.dispatch_rules._replace(batch_topics=frozenset()),
    )
    if not rocksdb_settings.has_files:
        model.queues, model.batch_queues = {}, {}
    elif rocksdb_settings.has_light_alone and plain.rules.may_keep_light_queues_in_rocksdb:
        model.dispatch_rules = plain.dispatch_rules._replace(multi_dispatch=False)
    if not rocksdb_settings.path:
        return model
    _refuse_other_path(store, model)
    loader = model.loader
    if rocksdb_settings.has_files and not plain.rules.combines_queue_stores:
        loader = Loader(plain.rules)  # DefaultMessageStore#enableRocksdbCQWrite logs what fails
    database = open_database(store, rocksdb_settings.path, loader)
    source = None if database is None else RocksQueues(database)
    rules = model.dispatch_rules._replace(batch_topics=frozenset())
    if source is None:
        model.keyed_rules = rocksdb_rules(store, rules, None, has_files=False)
        return model
    with source.database:
        with suppress(DamagedDatabase):  # which is a refusal, below
            version = plain.rules.version
            in_files = {topic for topic, _ in plain.queues}
            model.placement = placement_of(
                store, plain.rules, in_files, lambda: source.ends, version
            )
        try:
            model.dispatched_end = source.dispatched or 0
            names: Collection[tuple[bytes, int]] = source.ends
        except DamagedDatabase as error:
            loader.refuse(rocksdb_settings.path, f"its rows cannot be read: {error.reason}")
            return model
        try:
            model.keyed_rules = rocksdb_rules(store, rules, source, has_files=False)
            names = source.names
        except DamagedDatabase:  # of units: the broker starts on it
            model.keyed_rules = rocksdb_rules(store, rules, None, has_files=False)
        short = short_rocks(source)
        others: Iterable[tuple[bytes, int]] = names
        if short and not (rocksdb_settings.has_files or model.is_live):
            model.plain_keyed = plain_keyed(source, short, model.commitlog.minimum)
            is_other = np.ones(len(names), np.bool_)
            is_other[short.rows.of_names[model.plain_keyed.chosen]] = False
            others = map(short.rows.names.__getitem__, np.flatnonzero(is_other).tolist())
        for name in others:
            queue = source.named(name)
            keyed = _of_columns(queue, short, name) if short else None
            model.keyed[queue.topic, queue.queue_id] = keyed or _keyed(queue)
    return model


def _refuse_other_path(store: Store, model: RocksModel) -> None:
    """Refuse a database in the path that is not configured."""
    other = QUEUES if model.rocksdb_settings.path == SEPARATE_QUEUES else SEPARATE_QUEUES
    if model.rules.checks_both_databases and is_rocksdb(store.root.child(other)):
        model.loader.refuse(
            other, f"a database, and {model.rocksdb_settings.path} is configured for it"
        )


def open_database(store: Store, path: str, loader: Loader) -> Database | None:
    """Open a database as a start does; None without one, or the broker refuses.

    Raises:
        UnreadablePath: its directory may not be listed.
        EngineMissing: the library that reads RocksDB is not installed.
    """
    place = store.root
    for name in path.split("/"):
        place = place.child(name)
    if not is_rocksdb(place):
        return None
    refusals = len(loader.refusals)
    try:
        manifest = read_manifest(place)
    except UnreadablePath as error:
        loader.refuse(path, f"RocksDB does not open it: {error.reason}")
        return None
    sizes = {entry.name: entry.size for entry in place.entries() if entry.kind is EntryKind.FILE}
    for table in manifest.tables.values():
        if sizes.get(table.name) != table.size:
            reason = "is missing" if table.name not in sizes else "has another length"
            loader.refuse(f"{path}/{table.name}", f"RocksDB does not open it: the table {reason}")
        elif (version := _table_version(place, table)) > NEWEST_VERSION:
            reason = f"table format {version}: brokers read {NEWEST_VERSION} at most"
            loader.refuse(f"{path}/{table.name}", reason)
    if len(loader.refusals) > refusals:
        return None
    try:
        return Database(place, path)
    except DamagedDatabase as error:
        loader.refuse(path, f"RocksDB does not open it: {error.reason}")
        return None


def _table_version(directory: Place, table: TableFile) -> int:
    """Read the format version at the end of a table file."""
    with directory.child(table.name).open() as file:
        raw = file.read_at(max(table.size - FOOTER.size, 0), FOOTER.size)
    _, _, version, _ = FOOTER.unpack(raw.rjust(FOOTER.size, b"\0"))
    return int(version)


def _of_columns(
    queue: RocksQueue, short: ShortQueues, name: tuple[bytes, int]
) -> KeyedQueue | None:
    """Give a queue without gaps, from what was read of all; None for another one."""
    row = short.rows.get(name)
    if row is None:
        return None
    first, end, at = int(short.first[row]), int(short.end[row]), int(short.position[row])
    units = short.units[at : at + end - first, :CQ_UNIT_SIZE]
    return KeyedQueue(
        queue.topic,
        queue.queue_id,
        *queue.ends,
        np.arange(first, end),
        as_units(units.tobytes(), CQ_UNIT),
    )


def _keyed(queue: RocksQueue) -> KeyedQueue:
    """Read a queue; what follows damage is not there, as a broker cannot read it either."""
    numbers, raw = [], bytearray()
    try:
        for number, unit in queue.as_read():
            numbers.append(number)
            raw += unit
    except DamagedDatabase:
        pass  # the broker starts on it; `validate` says what is damaged
    return KeyedQueue(
        queue.topic,
        queue.queue_id,
        queue.ends.maximum,
        queue.ends.minimum,
        np.array(numbers, np.int64),
        as_units(bytes(raw), CQ_UNIT),
    )
