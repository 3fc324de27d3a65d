"""Small stores of our own making, for what a fixture cannot show: holes, lag, DLedger, damage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.formats.dledger import BLANK_MAGIC, DLEDGER_BLANK, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE, Message, encode, sealed

FILE_LENGTH = 4096
QUEUE_FILE_LENGTH = 400  # 20 units
FIRST_TIME_MS = 1_700_000_000_000


@dataclass
class Built:
    """What was written.

    Attributes:
        root: the store.
        offsets: physical offset of each record.
        sizes: bytes of each record.
        end: physical offset behind the last record.
    """

    root: Path
    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    end: int = 0


def name_of(start: int) -> str:
    """Give a file name as the broker does."""
    return f"{start:020}"


def build_store(
    root: Path, records: int, *, queues: int = 1, start: int = 0, dledger: bool = False
) -> Built:
    """Write records of topic T round robin over some queues, and the queues.

    Args:
        root: an empty or missing directory.
        records: number of records.
        queues: number of queues.
        start: physical offset of the first file.
        dledger: wrap each record in an entry of DLedger.
    """
    built = Built(root, end=start)
    files: dict[int, bytearray] = {}
    for number in range(records):
        raw = record(number, queues)
        _append(built, files, raw, number, dledger=dledger)
    directory = root / ("dledger-n0/data" if dledger else "commitlog")
    write_files(directory, {name: bytes(raw) for name, raw in files.items()}, FILE_LENGTH)
    for queue_id in range(queues):
        units = [
            CQ_UNIT.build({"physical_offset": at, "size": size, "tags_code": 0})
            for at, size in list(zip(built.offsets, built.sizes, strict=True))[queue_id::queues]
        ]
        write_queue(root / "consumequeue/T" / str(queue_id), units)
    return built


def record(number: int, queues: int = 1) -> Message:
    """Give a record without its physical offset; bodies differ in length."""
    return Message(
        queue_id=number % queues,
        queue_offset=number // queues,
        born_timestamp=FIRST_TIME_MS + number,
        store_timestamp=FIRST_TIME_MS + number,
        topic_bytes=b"T",
        properties_bytes=b"TAGS\x01a\x02",
        body=bytes([1 + number % 100]) * (100 + number % 50),
    )


def write_queue(directory: Path, units: list[bytes], pre_blanks: int = 0) -> None:
    """Write the files of a queue whose first units are fillers."""
    raw = PRE_BLANK * pre_blanks + b"".join(units)
    starts = range(0, max(len(raw), 1), QUEUE_FILE_LENGTH)
    pieces = {start: raw[start : start + QUEUE_FILE_LENGTH] for start in starts}
    write_files(directory, pieces, QUEUE_FILE_LENGTH)


def write_files(directory: Path, files: dict[int, bytes], length: int) -> None:
    """Write mapped files, each filled up with zeros as a hole."""
    directory.mkdir(parents=True, exist_ok=True)
    for start, raw in files.items():
        with (directory / name_of(start)).open("wb") as file:
            file.write(raw)
            file.truncate(length)


def _append(
    built: Built, files: dict[int, bytearray], message: Message, number: int, *, dledger: bool
) -> None:
    header = DLEDGER_ENTRY.size if dledger else 0
    size = sealed(message).total_size + header
    base = built.end // FILE_LENGTH * FILE_LENGTH
    if built.end - base + size + BLANK.size > FILE_LENGTH:
        files[base] += _blank(base + FILE_LENGTH - built.end, dledger=dledger)
        built.end = base = base + FILE_LENGTH
    at = built.end + header
    raw = encode(sealed(message._replace(physical_offset=at)))
    entry = _entry(built.end, number, len(raw)) if dledger else b""
    files.setdefault(base, bytearray()).extend(entry + raw)
    built.offsets.append(at)
    built.sizes.append(len(raw))
    built.end += size


def _blank(length: int, *, dledger: bool) -> bytes:
    if dledger:
        return DLEDGER_BLANK.build({"magic": BLANK_MAGIC, "size": length})
    return BLANK.build({"total_size": length, "magic_code": BLANK_MAGIC_CODE})


def _entry(pos: int, index: int, body_length: int) -> bytes:
    zeros = dict.fromkeys(DLEDGER_ENTRY.positions, 0)
    size = DLEDGER_ENTRY.size + body_length
    facts = {"magic": ENTRY_MAGIC, "size": size, "index": index, "pos": pos}
    return DLEDGER_ENTRY.build(zeros | facts | {"term": 1, "body_length": body_length})
