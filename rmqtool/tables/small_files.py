"""Tables of small files, as plain rows: none of the libraries for bulk work is needed here."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import DecodeError, EngineMissing, UnreadablePath
from rmqtool.findings.registry_commitlog import DL_ENTRY
from rmqtool.findings.registry_consume_queue import CX_SIZE
from rmqtool.findings.registry_index import IX_LEN
from rmqtool.findings.registry_layout import FS_LEN, FS_READ
from rmqtool.findings.registry_state import CF_JSON, CP_LEN, EP_CRC
from rmqtool.formats import config, consume_queue_ext, epoch
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.index import INDEX_HEADER
from rmqtool.formats.tiered_index import TIERED_INDEX_HEADER
from rmqtool.formats.timer import TIMER_CHECK
from rmqtool.plural import counted
from rmqtool.rows import gap_row
from rmqtool.store.config_files import LARGEST_CONFIG
from rmqtool.tables.file_tables import EPOCH, IDENTITY, TIMES, time_name
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.rows import Row
    from rmqtool.store.tree import Store
    from rmqtool.tables.inputs import FilePart

LARGEST_TEXT: Final = 1 << 20
METADATA: Final = "config/"  # databases of topics, groups and offsets lie there
_WINDOW: Final = 1 << 16  # longer than any unit of a consume queue extension


def gap(part: FilePart, code: str, position: int = 0, reason: str = "") -> Row:
    """Give the row of something that cannot be read."""
    return gap_row(code, reason or None, file=part.path, position=position)


def checkpoint_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: the fields of `checkpoint`."""
    yield _head(part, CHECKPOINT, CP_LEN)


def timer_check_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: the fields of `config/timercheck`."""
    yield _head(part, TIMER_CHECK, FS_LEN)


def index_header_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: the header of a key index file, and what it was made for."""
    row = _head(part, INDEX_HEADER, IX_LEN)
    yield {**row, "slots": part.slots or None, "entries": part.entries or None}


def tiered_header_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: the header of a tiered index file."""
    yield _head(part, TIERED_INDEX_HEADER, FS_LEN)


def _head(part: FilePart, layout: Layout, code: str) -> Row:
    """Give the fields of a layout at the beginning of a file, times as text."""
    raw = part.place.read(layout.size)
    if len(raw) < layout.size:
        return gap(part, code, reason=f"{len(raw):,} bytes, {layout.size:,} are needed")
    row: dict[str, Any] = {"file": part.path}
    for name, value in layout.parse(raw).items():
        row[name] = value
        if name.endswith(TIMES):
            row[time_name(name)] = iso_time(value) if value else None
    return row


def text_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: what a marker file or a file of Java properties says."""
    entry = part.place.stat()
    size = entry.size if entry else None
    yield {"file": part.path, "size": size, "text": part.place.read(LARGEST_TEXT)}


def epoch_rows(part: FilePart) -> Iterator[Row]:
    """Give a row an epoch."""
    try:
        file = epoch.decode(part.place.read(LARGEST_TEXT), path=part.path)
    except DecodeError as error:
        yield gap(part, EP_CRC, error.position, str(error))
        return
    is_sound = file.count == len(file.entries) and file.crc in {0, file.crc_found}
    for number, entry in enumerate(file.entries):
        yield EPOCH.row(entry, file, file=part.path, number=number)
    if not is_sound:
        amount = counted(file.count, "entry is", "entries are")
        reason = f"{amount} announced, {len(file.entries):,} there"
        yield gap(part, EP_CRC, reason=reason)


def identity_rows(part: FilePart) -> Iterator[Row]:
    """Give one row: who the broker is to its controller."""
    try:
        identity = epoch.decode_identity(part.place.read(LARGEST_TEXT), path=part.path)
    except DecodeError as error:
        yield gap(part, "", error.position, str(error))
        return
    yield IDENTITY.row(identity, file=part.path, check_code=identity.check_code or None)


def config_rows(part: FilePart) -> Iterator[Row]:
    """Give a row for each value in a JSON file, with the names that lead to it."""
    try:
        document = config.parse(part.place.read_whole(LARGEST_CONFIG), path=part.path)
    except DecodeError as error:
        yield gap(part, CF_JSON, error.position, error.reason)
        return
    for path, value in _leaves(document):
        yield {"file": part.path, "path": ".".join(path), "value": value}


def rows_of_databases(store: Store) -> Iterator[Row]:
    """Give the same rows of topics, groups and offsets that lie in RocksDB."""
    for document in store.config_in_rocksdb.values():
        for problem in document.problems:
            yield gap_row(FS_READ, problem.says, file=problem.path)
        for path, value in _leaves(document.document) if document else ():
            yield {"file": document.path, "path": ".".join(path), "value": value}
    from rmqtool.tables.rocksdb import odd_rows  # small files alone need no such library

    for database in store.rocksdb():
        if database.path.startswith(METADATA) and not database.is_empty:
            with suppress(UnreadablePath, EngineMissing):  # which is a problem of its documents
                for row in odd_rows(database):
                    yield {**row, "path": row["name"]}


def _leaves(document: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Walk a document in order; empty lists and objects are values of their own."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            inner = [((*path, str(name)), item) for name, item in value.items()]
        elif isinstance(value, list) and value:
            inner = [((*path, str(number)), item) for number, item in enumerate(value)]
        else:
            yield path, value
            continue
        waiting.extend(reversed(inner))


def ext_rows(part: FilePart) -> Iterator[Row]:
    """Give a row a unit of a consume queue extension, up to the end mark of the file."""
    with part.open() as file:
        position, raw, base = 0, b"", 0
        while position < file.size:
            if position + consume_queue_ext.MAX_EXT_UNIT_SIZE > base + len(raw):
                base, raw = position, file.read_at(position, _WINDOW)
            start = position - base
            size = EXT_UNIT["size"].of(raw, start)
            try:
                unit = consume_queue_ext.decode(raw[start : start + max(size, EXT_UNIT.size)])
            except DecodeError as error:
                yield gap(part, CX_SIZE, position, error.reason)
                return
            if unit is None:
                return
            yield {
                "topic": part.topic,
                "queue_id": part.queue_id,
                "ext_position": part.start + position,
                "address": consume_queue_ext.address(part.start + position),
                "size": unit.size,
                "tags_code": unit.tags_code,
                "msg_store_time": iso_time(unit.msg_store_time),
                "bit_map_size": len(unit.bit_map),
                "bit_map": unit.bit_map.hex(),
                "file": part.path,
                "position": position,
            }
            position += unit.size


def dledger_entry_rows(part: FilePart) -> Iterator[Row]:
    """Give a row for the header of each DLedger entry, up to the blank or the unused rest."""
    with part.open() as file:
        position = 0
        while position + DLEDGER_BODY_OFFSET <= file.size:
            raw = file.read_at(position, DLEDGER_BODY_OFFSET)
            if len(raw) < DLEDGER_BODY_OFFSET:
                return
            entry = DLEDGER_ENTRY.parse(raw)
            if entry["magic"] != ENTRY_MAGIC:
                if entry["magic"] not in {0, -1}:
                    yield gap(part, DL_ENTRY, position, f"magic {entry['magic']}")
                return
            yield {"file": part.path, "position": position, **entry}
            if entry["size"] <= DLEDGER_BODY_OFFSET:
                yield gap(part, DL_ENTRY, position, f"size {entry['size']}")
                return
            position += entry["size"]


READERS: Final[dict[str, Callable[[FilePart], Iterator[Row]]]] = {
    "checkpoint": checkpoint_rows,
    "timer-check": timer_check_rows,
    "index-header": index_header_rows,
    "tiered-index-header": tiered_header_rows,
    "abort": text_rows,
    "lock": text_rows,
    "dledger-state": text_rows,
    "epoch": epoch_rows,
    "broker-identity": identity_rows,
    "config": config_rows,
    "compaction-position": config_rows,
    "consume-queue-ext": ext_rows,
    "dledger-entry": dledger_entry_rows,
}
