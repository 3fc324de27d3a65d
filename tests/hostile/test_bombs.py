"""Bodies that inflate to gigabytes: rows come as they are read, in bounded memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
import zstandard

from rmqtool.formats.message import Message, encode, sealed
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.rows import JsonLines, rows_of
from rmqtool.store.rocksdb_blocks import TRAILER, BrokenBlock, decompressed
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BUDGET_BYTES, BodyMode, BodyOptions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.messages import MessageOptions, MessagesOf
from tests.hostile.generators import varint
from tests.stores import fixture_store

MIB = 1 << 20
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
assert code in {0, 1}  # a record that ends in zeros, before zeros, may have lost its end
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
LARGEST = 60 * MIB  # below the limit of one body


def bombs(root: Path, count: int, size: int, fill: bytes = b"\0") -> Path:
    """Write a store of records whose bodies inflate to `size` bytes each."""
    body, log = zlib.compress(fill * size, 9), bytearray()
    for number in range(count):
        message = Message(
            queue_offset=number,
            physical_offset=len(log),
            sys_flag=SysFlag.COMPRESSED_FLAG,
            store_port=10911,
            body=body,
            topic_bytes=b"bombs",
        )
        log += encode(sealed(message))
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(log.ljust(len(log) + 4096, b"\0"))
    return root


@pytest.mark.parametrize(("form", "count"), [("jsonl", 2), ("csv", 1), ("table", 1)])
def test_memory(tmp_path: Path, form: str, count: int) -> None:
    """Bodies of 60 MiB are in memory one after the other, however they are written."""
    store = bombs(tmp_path / "store", count, LARGEST)
    command = (sys.executable, "-m", "rmqtool", "dump", str(store), "--body", "text", "--quiet")
    limits = ("--limit", str(count), "--format", form)
    # The child of this process would count this process's own memory, up to the moment it begins.
    between = (sys.executable, "-c", PEAK, *command, *limits)
    told = subprocess.run(between, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert int(told.stdout) < MIB  # KiB: 1 GiB


@pytest.mark.parametrize("tail", [None, 5])
def test_rows_are_all_there(tmp_path: Path, tail: int | None) -> None:
    """Whatever the budget leaves to the writer, each record is one row, in order."""
    root = bombs(tmp_path / "store", 12, BUDGET_BYTES // 5, b"z")
    options = DumpOptions((str(root),), body=BodyOptions(BodyMode.TEXT), tail=tail)
    (rows,) = dump(options, DumpOutcome())
    chunks = [rows_of(chunk) for chunk in rows]
    found = [row["queue_offset"] for chunk in chunks for row in chunk if not row["extent"]]
    assert [*range(12)][-(tail or 12) :] == found
    assert all(sum(len(str(row["body"])) for row in chunk) <= BUDGET_BYTES for chunk in chunks)


def test_threads_hold_little(tmp_path: Path) -> None:
    """A thread shows no more than its budget; what it left follows while it is taken."""
    root = bombs(tmp_path / "store", 3, BUDGET_BYTES // 2)
    (segment,) = open_store(str(root)).commitlog
    read = MessagesOf(MessageOptions(body=BodyOptions(BodyMode.TEXT)))
    part = SegmentPart(segment, 0, segment.size)
    found = read(part)
    assert () == found.chunks
    assert [1, 1, 1] == [rows.num_rows for rows in map(_batch, read.rest(part, found))]


def _batch(chunk: pa.RecordBatch | JsonLines) -> pa.RecordBatch:
    assert isinstance(chunk, pa.RecordBatch)
    return chunk


PEAK_AND_WORDS: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=sys.stderr, check=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
VALUE: Final = 64 * MIB
DATABASE: Final = """
import sys
from rocksdict import DBCompressionType, Options, Rdict
options = Options(raw_mode=True)
options.create_if_missing(True)
options.set_compression_type(DBCompressionType.zstd())
database = Rdict(sys.argv[1], options)
for number in range(int(sys.argv[2])):
    database[b"%04d" % number] = bytes(int(sys.argv[3]))
    database.flush()
database.close()
"""


def bomb_in_rocksdb(store: Path, count: int, size: int) -> Path:
    """Put a database with values of zeros in the place of a store's queues."""
    shutil.rmtree(store / "consumequeue")
    words = (store / "consumequeue", count, size)
    command = [sys.executable, "-c", DATABASE, *map(str, words)]
    subprocess.run(command, check=True)  # noqa: S603 - ours
    assert sum(path.stat().st_size for path in (store / "consumequeue").iterdir()) < MIB
    return store


def peak_of(*words: object) -> tuple[int, str]:
    """Run a command; give the memory of its largest process, bytes, and what it says."""
    command = (sys.executable, "-m", "rmqtool", *map(str, words))
    between = (sys.executable, "-c", PEAK_AND_WORDS)
    done = subprocess.run([*between, *command], capture_output=True, text=True, check=True)  # noqa: S603
    return int(done.stdout) << 10, done.stderr


@pytest.mark.parametrize("words", ["validate {}", "dump {} --as rocksdb", "info {}", "doctor {}"])
def test_long_values(tmp_path: Path, words: str) -> None:
    """A value that no queue has is a row, whatever a stranger has packed into a few KiB."""
    store = bomb_in_rocksdb(fixture_store("rocketmq-5.3.3-rocksdb", tmp_path), 6, VALUE)
    peak, said = peak_of(*words.format(store).split(), "--format", "jsonl")
    assert peak < 400 * MIB
    count = said.count("this value is too long: 67,108,864 bytes; at most 4,096 are read")
    assert 6 == count or "info" in words


def test_value_that_no_memory_holds(tmp_path: Path) -> None:
    """What needs more memory than such files may take ends RocksDB's process, and is said."""
    store = bomb_in_rocksdb(fixture_store("rocketmq-5.3.3-rocksdb", tmp_path), 1, 10 * VALUE)
    peak, said = peak_of("dump", store / "consumequeue", "--format", "jsonl")
    assert peak < 1 << 30
    assert "RocksDB's process ended" in said


@pytest.mark.parametrize("block", ["index", "properties"])
def test_blocks_of_tables(block: str) -> None:
    """A block of a table that inflates past what its file can need is damage, and stays packed."""
    raw = zstandard.compress(bytes(LARGEST))
    packed = varint(LARGEST) + raw + TRAILER.pack(7, 0)
    with pytest.raises(BrokenBlock, match="62,914,560 bytes; at most"):
        decompressed(packed, len(packed) if block == "index" else MIB)
