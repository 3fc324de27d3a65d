"""Inputs whose structures a stranger may count up: one for each format that is parsed.

Each takes a number that says how many, and makes an archive, a store or a manifest of it. Bytes on
the disk are in proportion to the number, or few whatever it is: what must not grow faster is work.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from rocksdict import BlockBasedOptions, ChecksumType, Options, Rdict

from rmqtool.formats.rocksdb_queue import MAX, offset_key, unit_key
from rmqtool.formats.rocksdb_store import (
    TIMER_DELIVERED,
    TIMER_SCANNED,
    IndexKey,
    index_key,
    timer_key,
)
from rmqtool.store.rocksdb_blocks import TRAILER
from rmqtool.store.rocksdb_manifest import BLOCK_BYTES, HEADER
from rmqtool.store.rocksdb_table import FOOTER, MAGIC, masked_crc32c
from tests.archives.packed import END, block, header
from tests.rocksdb_keys import half_key, pop_key

FIRST, MIDDLE, LAST = 2, 3, 4  # parts of a record of a log of RocksDB
LOG: Final = f"store/commitlog/{0:020}"


class Generator(NamedTuple):
    """One way to count something up."""

    make: Callable[[Path, int], Path]  # gives what a command is asked about
    few: int  # that takes some tenths of a second
    many: int  # that a stranger may send


def _packed(top: Path, parts: Iterator[bytes]) -> Path:
    top.mkdir(parents=True)
    path = top / "s.tar.gz"
    with gzip.open(path, "wb", 1) as file:
        for part in parts:
            file.write(part)
        file.write(END)
    return path


def record(key: bytes, value: bytes) -> bytes:
    """Give a record of a pax header."""
    length = len(key) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, key, value)


def pax(raw: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Give a pax header."""
    return header("pax", len(raw), kind) + block(raw)


def turns(top: Path, count: int) -> Path:
    """Many directories, and a name that is a directory and a file in turns."""

    def parts() -> Iterator[bytes]:
        for number in range(count):
            yield header(f"store/commitlog/d{number}", kind=tarfile.DIRTYPE)
        for _ in range(count // 10):
            yield header("store/x", kind=tarfile.DIRTYPE) + header("store/x")

    return _packed(top, parts())


def global_names(top: Path, count: int) -> Path:
    """A global header with many names, and members that it is about."""

    def parts() -> Iterator[bytes]:
        yield pax(b"".join(record(b"%d" % number, b"") for number in range(count)), b"g")
        for number in range(count // 100):
            yield header(f"store/commitlog/{number}")

    return _packed(top, parts())


def long_headers(top: Path, count: int) -> Path:
    """Members of no bytes, each with a header of 64 KiB that says nothing."""
    said = pax(b"".join(record(b"comment", b"x" * 100) for _ in range(600)))
    return _packed(top, (said + header(f"store/{number}") for number in range(count)))


def holes(top: Path, count: int) -> Path:
    """A member of a byte of data, a byte of hole, a byte of data."""
    places = b",".join(b"%d,1" % (2 * number) for number in range(count))
    values = {b"GNU.sparse.map": places, b"GNU.sparse.size": b"%d" % (2 * count)}
    raw = b"".join(record(*pair) for pair in values.items())
    return _packed(top, iter([pax(raw) + header(LOG, count) + block(bytes(count))]))


def _zip(top: Path, count: int, extra: bytes) -> Path:
    """Write a directory of many entries, all about the same member."""
    top.mkdir(parents=True)
    path, crc = top / "s.zip", zlib.crc32(b"x")
    facts = (20, 0, 0, 0, 0x21, crc, 1, 1)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", *facts, 1, 0) + b"ax"
    entry = struct.pack(
        "<4sBB5H3L5H2L", b"PK\1\2", 20, 3, *facts, 1, len(extra), 0, 0, 0, 0o100644 << 16, 0
    )
    entry += b"a" + extra
    size, end = count * len(entry), len(local) + count * len(entry)
    with path.open("wb") as file:
        file.write(local)
        for _ in range(count):
            file.write(entry)
        file.write(
            struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, len(local))
        )
        file.write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0))
    return path


def entries(top: Path, count: int) -> Path:
    """A zip whose directory names one member again and again."""
    return _zip(top, count, b"")


def extra_fields(top: Path, count: int) -> Path:
    """A zip whose entries have 64 KiB of empty extra fields each."""
    return _zip(top, count, b"\x99\x99\0\0" * 16_000)


def gzips(top: Path, count: int) -> Path:
    """A gzip of many empty gzips, and then a tar."""
    top.mkdir(parents=True)
    path = top / "s.tar.gz"
    path.write_bytes(gzip.compress(b"") * count + gzip.compress(header("store/x") + END))
    return path


def _store(top: Path) -> Path:
    (top / "commitlog").mkdir(parents=True)
    (top / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    (top / "config").mkdir()
    return top


def documents(top: Path, count: int) -> Path:
    """Configuration files of many values, ten of them."""
    _store(top)
    for number in range(10):
        (top / f"config/{number}.json").write_bytes(b'{"a":[' + b"[],{}," * (count // 10) + b"0]}")
    return top


def empty_documents(top: Path, count: int) -> Path:
    """Configuration files that are holes of 32 MiB each."""
    _store(top)
    for number in range(count):
        with (top / f"config/{number}.json").open("wb") as file:
            file.truncate(32 << 20)
    return top


def keys(top: Path, count: int) -> Path:
    """Rows of RocksDB whose keys share all but their last bytes: 64 KiB each, for some bytes."""
    return _rows(
        _store(top), "config/topics", {"default": ((name, b"{}") for name in _names(count))}
    )


def queues(top: Path, count: int) -> Path:
    """Queues in RocksDB with such names; RocksDB passes all others to come to one of them."""
    units = ((unit_key(name, 0, 0), bytes(11) + b"d" + bytes(16)) for name in _names(count))
    ends = ((offset_key(name, 0, MAX), bytes(16)) for name in _names(count))
    return _rows(_store(top), "consumequeue", {"default": units, "offset": ends})


def timers(top: Path, count: int) -> Path:
    """Entries of the key index, timers and transactions with such names."""
    entry = (IndexKey(b"t", b"K", name, b"u") for name in _names(count))
    timer = ((timer_key(0, name), bytes(12)) for name in _names(count))
    half = ((half_key(0, b"t", name), bytes(8)) for name in _names(count))
    return _rows(
        _store(top),
        "rocksdbstore",
        {
            "default": ((index_key(one, 0, 0), bytes(8)) for one in entry),
            "timer": chain([(TIMER_SCANNED, bytes(8)), (TIMER_DELIVERED, bytes(8))], timer),
            "trans": half,
        },
    )


def pops(top: Path, count: int) -> Path:
    """Popped messages of topics with such names."""
    rows = ((pop_key(0, b"g", name, 0, 0), b"{}") for name in _names(count))
    return _rows(_store(top), "kvStore", {"popState": rows})


def _names(count: int) -> Iterator[bytes]:
    return (b"k" * 60_000 + b"%08d" % number for number in range(count))


def _rows(top: Path, path: str, families: dict[str, Iterable[tuple[bytes, bytes]]]) -> Path:
    """Write a database of a few large blocks, without a place in them to begin to read at.

    So its files are small; a table that nobody uses is as long as a stranger likes.
    """
    tables = BlockBasedOptions()
    tables.set_format_version(5)
    tables.set_checksum_type(ChecksumType.crc32c())
    tables.set_block_size(1 << 27)
    tables.set_block_restart_interval(1 << 20)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_size(1 << 30)
    database = Rdict(str(top / path), options)
    for name, rows in families.items():
        if name != "default":
            database.create_column_family(name, options).close()
        family = database.get_column_family(name)
        for key, value in rows:
            family[key] = value
        family.flush()
        family.close()
    database.close()
    del database
    (top / path / "000999.sst").write_bytes(os.urandom(16 << 20))
    return top


def _database(top: Path) -> Path:
    """Give the directory of a database with a MANIFEST of its own, and a table."""
    _store(top)
    directory = top / "config/topics"
    directory.mkdir()
    (directory / "CURRENT").write_bytes(b"MANIFEST-000005\n")
    return directory


def _edits(records: Iterator[bytes]) -> bytes:
    """Give a log of RocksDB: each record in as many parts as blocks need."""
    made = bytearray()
    for raw in records:
        position = 0
        while position < len(raw):
            left = BLOCK_BYTES - len(made) % BLOCK_BYTES
            if left <= HEADER.size:
                made += bytes(left)
                continue
            part = raw[position : position + left - HEADER.size]
            kind = MIDDLE if position else FIRST
            if position + len(part) == len(raw):
                kind = LAST if position else 1
            crc = masked_crc32c(bytes([kind]) + part)
            made += HEADER.pack(crc, len(part), kind) + part
            position += len(part)
    return bytes(made)


def numbers(top: Path, count: int) -> Path:
    """A MANIFEST with a number of many bytes."""
    directory = _database(top)
    raw = _edits(iter([b"\x02" + b"\xff" * count + b"\x01"]))
    (directory / "MANIFEST-000005").write_bytes(raw)
    return top


def dropped(top: Path, count: int) -> Path:
    """A MANIFEST that adds many tables, and adds and drops a family again and again."""
    directory = _database(top)

    def edits() -> Iterator[bytes]:
        for number in range(count):
            yield (
                b"\x07\0"
                + struct.pack("<BB", number & 127 | 128, number >> 7 & 127 | 128)
                + bytes([number >> 14])
                + b"\1\0\0"
            )
        for _ in range(count // 2):
            yield b"\xc8\x01\x01\xca\x01"  # family 1 is dropped

    (directory / "MANIFEST-000005").write_bytes(_edits(edits()))
    return top


def separators(top: Path, count: int) -> Path:
    """A table whose index has keys that share what they begin with: a byte more each."""
    directory = _database(top)
    made = bytearray()
    for number in range(count):
        shared = bytearray()
        rest = number
        while rest > 127:
            shared.append(rest & 127 | 128)
            rest >>= 7
        shared.append(rest)
        made += shared + b"\1\0k\0\0"
    index = bytes(made) + struct.pack("<2I", 0, 1)
    raw = bytearray()
    places = []
    for content in (struct.pack("<2I", 0, 1), index):
        places.append((len(raw), len(content)))
        raw += content + TRAILER.pack(0, masked_crc32c(content + b"\0"))
    handles = b"".join(varint(one) for place in places for one in place)
    raw += FOOTER.pack(1, handles.ljust(40, b"\0"), 3, MAGIC)
    (directory / "000009.sst").write_bytes(raw)
    added = b"\x07\0\x09" + varint(len(raw)) + b"\0\0"
    (directory / "MANIFEST-000005").write_bytes(_edits(iter([added])))
    return top


def varint(number: int) -> bytes:
    """Give a number as RocksDB writes it."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def manifest(top: Path, count: int) -> Path:
    """A manifest of many values."""
    _store(top)
    (top / "manifest.json").write_text(json.dumps({"format": "?", "files": [[]] * count}))
    return top


GENERATORS: Final[dict[str, Generator]] = {
    "tar-turns": Generator(turns, 4000, 60_000),
    "tar-global": Generator(global_names, 60_000, 690_000),
    "tar-headers": Generator(long_headers, 100, 3000),
    "tar-holes": Generator(holes, 40_000, 890_000),
    "zip-entries": Generator(entries, 20_000, 300_000),
    "zip-extra": Generator(extra_fields, 100, 1000),
    "gzip-gzips": Generator(gzips, 100_000, 3_000_000),
    "json-values": Generator(documents, 300_000, 10_000_000),
    "json-holes": Generator(empty_documents, 10, 300),
    "rocksdb-keys": Generator(keys, 300, 4000),
    "rocksdb-queues": Generator(queues, 300, 16_000),
    "rocksdb-timers": Generator(timers, 300, 8000),
    "rocksdb-pops": Generator(pops, 300, 16_000),
    "rocksdb-numbers": Generator(numbers, 100_000, 10_000_000),
    "rocksdb-drops": Generator(dropped, 4000, 500_000),
    "rocksdb-separators": Generator(separators, 4000, 200_000),
    "manifest-values": Generator(manifest, 300_000, 10_000_000),
}
