"""Rows of RocksDB databases: of any family, and the units of queues as those of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.findings.registry_rocksdb import RD_KEY
from rmqtool.formats import config, java
from rmqtool.formats.annotate import Span
from rmqtool.formats.rocksdb_databases import DATABASES
from rmqtool.formats.rocksdb_families import reader_of
from rmqtool.rows import gap_row, in_chunks
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.tail import find_tail
from rmqtool.tables.file_tables import ROCKSDB
from rmqtool.tables.hexview import FieldBytes, hex_row, lines_of
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from rmqtool.errors import StoreError
    from rmqtool.formats.rocksdb_row import RocksdbRow
    from rmqtool.queues.rocks import RocksQueue, RocksQueues
    from rmqtool.rows import Chunk, Row
    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store
    from rmqtool.tables.selection import Range, Selection

    QueueRange = tuple[RocksQueue, int, int]

NAMES: Final = ("name", "key", "transaction_id", "unique_key")
TEXTS: Final = ("topic", "group")
NUMBERS: Final = ("queue_id", "queue_offset", "physical_offset", "size", "tags_code")
# Parts of keys that say how to read them, and what has a column of its own.
HIDDEN: Final = frozenset({"topic_length", "name_length", "table_prefix", "record_prefix"})
HIDDEN_VALUE: Final = "not shown: secrets; dump the directory of the database to see it"


def of_databases(
    stores: list[Store], selection: Selection, unread: list[StoreError], *, is_hex: bool
) -> Iterator[Chunk]:
    """Yield the rows of all databases; one that cannot be read to its end is a row more.

    Args:
        stores: which have them.
        selection: which rows.
        unread: takes the databases that could not be read.
        is_hex: give the bytes of each row.
    """
    for store in stores:
        is_asked = store.asked.kind is ArtefactKind.ROCKSDB
        for database in store.rocksdb():
            rows = (
                database_lines(database, selection)
                if is_hex
                else database_rows(database, selection, is_asked=is_asked)
            )
            try:
                yield from in_chunks(rows)
            except UnreadablePath as error:
                unread.append(error)
                yield [_unread_row(database.path, error)]


def of_queues(
    stores: list[Store],
    selection: Selection,
    unread: list[StoreError],
    not_flushed: list[tuple[int, int]],
) -> Iterator[Chunk]:
    """Yield queue units that lie in databases, as those in files.

    Args:
        stores: which may have them.
        selection: which rows.
        unread: takes the databases that could not be read.
        not_flushed: takes the stretches of logs whose units the databases have not got yet.
    """
    from rmqtool.queues.discovery import DatabaseSource
    from rmqtool.tables.arrow import plain_rows

    for store in stores:
        source = DatabaseSource(store)
        try:
            if (queues := source.source) is not None:
                ranges = queue_ranges(queues, selection)
                batches = unit_batches(ranges, queues.database.place, selection)
                yield from map(plain_rows, batches)
                not_flushed += _not_flushed(store, queues)
        except UnreadablePath as error:
            unread.append(error)
            yield [_unread_row(error.path, error)]
        finally:
            source.close()


def _not_flushed(store: Store, queues: RocksQueues) -> Iterator[tuple[int, int]]:
    """Yield the end of the log that no unit points into: RocksDB keeps units until it flushes."""
    with LogReader(store.commitlog) as reader:
        end = find_tail(store.commitlog, reader).physical_offset
    begin = max(queues.dispatched or 0, store.commitlog.start)
    if begin < end:
        yield begin, end


def _unread_row(path: str, error: UnreadablePath) -> Row:
    return gap_row(FS_READ, error.reason, file=path)


def database_rows(database: RocksDb, selection: Selection, *, is_asked: bool) -> Iterator[Row]:
    """Yield the rows of one database, by family and key.

    Args:
        database: the database.
        selection: which rows.
        is_asked: the user named this database: values that are secrets are shown.

    Raises:
        DamagedDatabase: after the rows that could be read: there are more.
        EngineMissing: the library that reads them is not installed.
    """
    for family, key, value in _pairs(database):
        parsed = _read(database.path, family, key, value)
        if isinstance(parsed, DecodeError):
            yield _odd_row(database.path, family, key, value, parsed)
        elif is_wanted(parsed.values, selection):
            row = {"file": database.path, "family": family, "row": parsed.kind, **_columns(parsed)}
            if DATABASES[database.path].is_secret and not is_asked:
                row["value"] = HIDDEN_VALUE
            yield row


def odd_rows(database: RocksDb) -> Iterator[Row]:
    """Yield the rows of a database that RocketMQ does not write.

    Raises:
        DamagedDatabase: after those that could be read.
        EngineMissing: the library that reads them is not installed.
    """
    for family, key, value in _pairs(database):
        row = _read(database.path, family, key, value)
        if isinstance(row, DecodeError):
            yield _odd_row(database.path, family, key, value, row)


def _odd_row(path: str, family: str, key: bytes, value: bytes, error: DecodeError) -> Row:
    name, content = java.text(key), value.hex()
    return gap_row(RD_KEY, error.reason, file=path, family=family, name=name, value=content)


def database_lines(database: RocksDb, selection: Selection) -> Iterator[Row]:
    """Yield the bytes of keys and values of one database; those of secrets are not shown.

    Raises:
        DamagedDatabase: after the rows that could be read: there are more.
        EngineMissing: the library that reads them is not installed.
    """
    for family, key, value in _pairs(database):
        row = _read(database.path, family, key, value)
        if isinstance(row, DecodeError):
            code = str(RD_KEY)
            in_key, in_value = _whole("key", key), _whole("value", value)
        elif is_wanted(row.values, selection):
            code, in_key, in_value = None, row.key_spans, row.value_spans
        else:
            continue
        for what, raw, parts in (("key", key, in_key), ("value", value, in_value)):
            for part in parts:
                name = what if part.name == what else f"{what} {part.name}"
                stretch = raw[part.position : part.position + part.length]
                piece = FieldBytes(part.position, stretch, part.length, name, part.value, code)
                if what == "value" and DATABASES[database.path].is_secret:
                    piece = piece._replace(raw=None, value=HIDDEN_VALUE)
                for line in lines_of(piece):
                    yield hex_row(line, f"{database.path} {family}", None)


def _whole(name: str, raw: bytes) -> tuple[Span, ...]:
    return (Span(name, 0, len(raw), ""),) if raw else ()


def unit_batches(
    ranges: Iterable[QueueRange], place: Place, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """Yield the units of queues in RocksDB as rows of consume queue units.

    Args:
        ranges: of which queues.
        place: of their database.
        selection: which rows.

    Raises:
        DamagedDatabase: after the units that could be read: there are more.
    """
    import pyarrow as pa

    from rmqtool.tables.fixed import UNITS, FileUnits, rows_of_units
    from rmqtool.tables.inputs import FilePart

    for queue, first, end in ranges:
        part = FilePart(
            ArtefactKind.CONSUME_QUEUE, place, queue.path, 0, queue.topic, queue.queue_id
        )
        for number, units in queue.used(first, end):
            stretch = FileUnits(0, units)
            for batch in rows_of_units(UNITS, part, stretch, number, selection, fillers=False):
                at = batch.schema.get_field_index("position")
                nulls = pa.nulls(batch.num_rows, pa.int64())  # no file holds them
                yield batch.set_column(at, batch.schema.field(at), nulls)


def queue_ranges(queues: RocksQueues, selection: Selection) -> Iterator[QueueRange]:
    """Yield the stretches of queues that were asked for: queue, first queue offset, and the end."""
    first, end = selection.queue_offsets
    for queue in queues.queues():
        if selection.topics and queue.topic not in selection.topics:
            continue
        if selection.queue_id not in {None, queue.queue_id}:
            continue
        limit = queue.ends.next_offset
        yield queue, first or 0, limit if end is None else min(end, limit)


def _pairs(rocks_db: RocksDb) -> Iterator[tuple[str, bytes, bytes]]:
    with Database(rocks_db.place, rocks_db.path) as database:
        for family in database.families:
            for batch in database.rows(family):
                for key, value in batch.items():
                    yield family, key, value


def _read(path: str, family: str, key: bytes, value: bytes) -> RocksdbRow | DecodeError:
    read = reader_of(path, family)
    if read is None:
        reason = "a column family that RocketMQ does not write"
        return DecodeError(path=path, position=0, field=family, reason=reason)
    try:
        return read(key, value)
    except DecodeError as error:
        return error


def is_wanted(values: dict[str, Any], selection: Selection) -> bool:
    """Say whether a row was asked for: rows that have no such field were not."""
    topic = values.get("topic")
    if selection.topics and (topic is None or java.text(topic) not in selection.topics):
        return False
    if selection.queue_id is not None and values.get("queue_id") != selection.queue_id:
        return False
    return _is_in(values.get("queue_offset"), selection.queue_offsets) and _is_in(
        values.get("physical_offset"), selection.offsets
    )


def _is_in(number: int | None, wanted: Range) -> bool:
    start, end = wanted
    if number is None:
        return start is None and end is None
    return (start is None or number >= start) and (end is None or number < end)


def _columns(parsed: RocksdbRow) -> dict[str, Any]:
    """Give what a row says, in the columns of the table."""
    values = {
        name: value
        for name, value in parsed.values.items()
        if name not in HIDDEN and not name.startswith(("control", "separator"))
    }
    row: dict[str, Any] = {name: java.text(values.pop(name)) for name in TEXTS if name in values}
    row |= {name: values.pop(name) for name in NUMBERS if name in values}
    if "store_timestamp" in values:
        row["store_time"] = iso_time(values.pop("store_timestamp"))
    for name in NAMES:
        if name in values:
            row["name"] = java.text(values.pop(name))
            break
    if "json" in values:
        row["value"] = _json(values["json"])
    elif len(values) == 1 and isinstance(only := next(iter(values.values())), int):
        row["value"] = only
    elif values:
        row["value"] = {
            name: java.text(value) if isinstance(value, bytes) else value
            for name, value in values.items()
        }
    return {name: row[name] for name in ROCKSDB.names if name in row}


def _json(raw: bytes) -> object:
    """Give a document, or its text where it is not one."""
    try:
        return config.parse(raw, path="value")
    except DecodeError:
        return java.text(raw)
