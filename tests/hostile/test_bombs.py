"""Bodies that inflate to gigabytes: rows come as they are read, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from rmqtool.formats.message import Message, encode, sealed
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.rows import JsonLines, rows_of
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BUDGET_BYTES, BodyMode, BodyOptions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.messages import MessageOptions, MessagesOf

MIB = 1 << 20
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
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
