"""Say what a lone file or a directory of files is by its content.

Each test asks for what chance does not give: a record that names its own position, increasing
offsets, plausible times. Where nothing can tell - a file that was made ahead of need is all
zeros - the length does, if it is one of RocketMQ's defaults.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.errors import UnreadablePath
from rmqtool.formats import (
    batch_queue,
    checkpoint,
    consume_queue,
    consume_queue_ext,
    dledger,
    index,
    message,
    tiered_index,
    timer,
)
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import EntryKind
from rmqtool.store.rocksdb import FILE_NAME
from rmqtool.store.segment import Segment, start_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.formats.layout import Layout
    from rmqtool.store.artefact import Artefact
    from rmqtool.store.place import Place

HEAD_BYTES = 64 << 10  # a record lies in the first bytes of a segment unless they are damaged
DIRECTORY_TRIES = 8  # files of a directory that are looked at; the first may be damaged
UNITS = 64
LARGEST_RECORD = 1 << 30
EARLIEST_MS, LATEST_MS = 1_262_304_000_000, 4_102_444_800_000  # 2010 to 2100
MAGIC = re.compile(b"|".join(map(re.escape, message.MESSAGE_MAGIC_BYTES)))
DEFAULT_LENGTHS = {
    1 << 30: ArtefactKind.COMMITLOG,
    consume_queue.DEFAULT_FILE_LENGTH: ArtefactKind.CONSUME_QUEUE,
    consume_queue_ext.DEFAULT_FILE_LENGTH: ArtefactKind.CONSUME_QUEUE_EXT,
    batch_queue.DEFAULT_FILE_LENGTH: ArtefactKind.BATCH_QUEUE,
    timer.DEFAULT_LOG_FILE_LENGTH: ArtefactKind.TIMER_LOG,
    timer.DEFAULT_WHEEL_LENGTH: ArtefactKind.TIMER_WHEEL,
    dledger.INDEX_FILE_LENGTH: ArtefactKind.DLEDGER_INDEX,
    index.file_length(index.DEFAULT_HASH_SLOT_NUM, index.DEFAULT_INDEX_NUM): ArtefactKind.INDEX,
}
EPOCH_TEXT = re.compile(rb"\d+\r?\n\d+\r?\n(\d+-\d+\r?\n)+\r?\n?")
DLEDGER_PROPERTY = re.compile(rb"^(endIndex|committedIndex|currTerm|voteLeader)=", re.MULTILINE)


def kind_of_directory(place: Place) -> ArtefactKind | None:
    """Say what the files of a directory are; None when none of the first few tells.

    Raises:
        UnreadablePath: the directory may not be listed.
    """
    files = [name for name, kind in place.names() if kind is EntryKind.FILE and name.isdecimal()]
    for name in files[:DIRECTORY_TRIES]:
        try:
            if kind := kind_of_file(place.child(name)):
                return kind
        except UnreadablePath:
            continue
    return None


def first_record(head: bytes) -> tuple[int, int] | None:
    """Give position and physical offset of the first record in some bytes; None for none."""
    for match in MAGIC.finditer(head):
        position = match.start() - message.MESSAGE_PREFIX.positions["magic_code"]
        raw = head[position : position + message.MESSAGE_PREFIX.size] if position >= 0 else b""
        if len(raw) < message.MESSAGE_PREFIX.size:
            continue
        record = message.MESSAGE_PREFIX.parse(raw)
        is_sized = message.SMALLEST_RECORD <= record["total_size"] <= LARGEST_RECORD
        if is_sized and record["physical_offset"] >= position:
            return position, record["physical_offset"]
    return None


def kind_of_file(place: Place) -> ArtefactKind | None:
    """Say what a file is; None when nothing tells. Raises UnreadablePath: it may not be read."""
    with place.open() as file:
        head, size = file.read_at(0, HEAD_BYTES), file.size
    start = start_of(place.name)
    for kind, tells in TESTS.items():
        if tells(head, size, start or 0):
            return kind
    if FILE_NAME.fullmatch(place.name):
        return ArtefactKind.ROCKSDB
    if any(head) or (start is None and size != timer.DEFAULT_WHEEL_LENGTH):
        return None
    return DEFAULT_LENGTHS.get(size)


def _is_commitlog(head: bytes, size: int, start: int) -> bool:
    """A record says where it lies itself; a lone blank says how long the file is."""
    record = first_record(head)
    # A segment whose name was lost still begins with a record.
    if record and (record[1] == start + record[0] or not record[0]):
        return True
    if size < message.END_FILE_MIN_BLANK_LENGTH:
        return False
    blank = message.BLANK.parse(head)
    return bool(blank["magic_code"] == message.BLANK_MAGIC_CODE and blank["total_size"] == size)


def _is_dledger(head: bytes, _size: int, start: int) -> bool:
    """An entry says where it lies itself; look in front of the first record, or at the start."""
    record = first_record(head)
    position = record[0] - dledger.DLEDGER_ENTRY.size if record else 0
    if position < 0 or len(head) < position + dledger.DLEDGER_ENTRY.size:
        return False
    entry = dledger.DLEDGER_ENTRY.parse(head[position:])
    is_sized = entry["size"] == dledger.DLEDGER_ENTRY.size + entry["body_length"]
    # A file whose name was lost still has entries; where it began is not known.
    is_here = entry["pos"] == start + position or not position
    return bool(entry["magic"] == dledger.ENTRY_MAGIC and is_sized and is_here)


def _is_dledger_index(head: bytes, _size: int, _start: int) -> bool:
    units = _rows(dledger.DLEDGER_INDEX_UNIT, head)
    used = [unit for unit in units if unit[0]]
    return bool(used) and all(
        magic == dledger.ENTRY_MAGIC and size > dledger.DLEDGER_ENTRY.size and term >= 0
        for magic, _, size, _, term in used
    )


def _is_consume_queue(head: bytes, size: int, _start: int) -> bool:
    if size % consume_queue.CQ_UNIT_SIZE:
        return False
    units = _rows(consume_queue.CQ_UNIT, head)
    used = _until_zero(units)
    real = [unit for unit in used if not consume_queue.is_pre_blank(unit[0], unit[1])]
    if not all(
        at >= 0 and message.SMALLEST_RECORD <= length <= LARGEST_RECORD for at, length, _ in real
    ):
        return False
    grows = all(before[0] + before[1] <= after[0] for before, after in pairwise(real))
    return bool(used) and grows


def _is_batch_queue(head: bytes, _size: int, _start: int) -> bool:
    units = _until_zero(_rows(batch_queue.BATCH_CQ_UNIT, head))
    return bool(units) and all(
        unit[6] == batch_queue.INVALID_POS and (unit[5] > 0 or unit[0] < 0) for unit in units
    )


def _is_index(head: bytes, size: int, _start: int) -> bool:
    if size < index.file_length(1, 2) or (size - index.INDEX_HEADER.size) % 4:
        return False
    header = index.INDEX_HEADER.parse(head)
    return (
        _is_time(header["begin_timestamp"])
        and header["begin_timestamp"] <= header["end_timestamp"] <= LATEST_MS
        and 0 <= header["begin_physical_offset"] <= header["end_physical_offset"]
        and 0 < header["hash_slot_count"] < header["index_count"] <= size
    )


def _is_tiered_index(head: bytes, _size: int, _start: int) -> bool:
    if len(head) < tiered_index.TIERED_INDEX_HEADER.size:
        return False
    magic = tiered_index.TIERED_INDEX_HEADER.parse(head)["magic_code"]
    return magic in {tiered_index.BEGIN_MAGIC_CODE, tiered_index.END_MAGIC_CODE}


def _is_timer_log(head: bytes, _size: int, _start: int) -> bool:
    if len(head) < timer.TIMER_LOG_RECORD.size:
        return False
    record = timer.TIMER_LOG_RECORD.parse(head)
    return (
        record["size"] == timer.TIMER_LOG_RECORD.size
        and 0 < record["magic"] <= timer.MAGIC_BITS
        and _is_time(record["curr_write_time"])
    )


def _is_timer_wheel(head: bytes, size: int, _start: int) -> bool:
    slots = _rows(timer.TIMER_SLOT, head)
    used = [slot for slot in slots if any(slot)]
    return bool(
        used
        and size % timer.TIMER_SLOT.size == 0
        and all(first <= last and num >= 0 and not magic for _, first, last, num, magic in used)
        and all(time > 0 for time, *_ in used)
    )


def _is_checkpoint(head: bytes, size: int, _start: int) -> bool:
    if size != checkpoint.FILE_LENGTH or any(head[checkpoint.CHECKPOINT.size :]):
        return False
    fields = checkpoint.CHECKPOINT.parse(head)
    times = [fields[f"{part}_msg_timestamp"] for part in ("physic", "logics", "index")]
    return any(times) and all(not time or _is_time(time) for time in times)


def _is_timer_check(head: bytes, size: int, _start: int) -> bool:
    if size != checkpoint.FILE_LENGTH or any(head[timer.TIMER_CHECK.size :]):
        return False
    fields = timer.TIMER_CHECK.parse(head)
    return _is_time(fields["last_read_time_ms"]) and not _is_time(
        fields["last_timer_log_flush_pos"]
    )


def _is_ext(head: bytes, _size: int, _start: int) -> bool:
    """Follow a few units: each names its own length and that of its bitmap."""
    layout, position, count = consume_queue_ext.EXT_UNIT, 0, 0
    while count < UNITS and position + layout.size <= len(head):
        unit = layout.parse(head[position : position + layout.size])
        if unit["size"] in {0, consume_queue_ext.END_BLANK}:
            break
        if unit["size"] != layout.size + unit["bit_map_size"] or unit["bit_map_size"] < 0:
            return False
        if not _is_time(unit["msg_store_time"]):
            return False
        position, count = position + unit["size"], count + 1
    return count > 0


def _is_epoch(head: bytes, size: int, _start: int) -> bool:
    return size <= len(head) and EPOCH_TEXT.fullmatch(head) is not None


def _is_dledger_state(head: bytes, size: int, _start: int) -> bool:
    return size <= len(head) and DLEDGER_PROPERTY.search(head) is not None


def _is_json(head: bytes, size: int, _start: int) -> bool:
    text = head.strip()
    if not text.startswith(b"{") or b"\0" in text:
        return False
    return size > len(head) or text.endswith(b"}")


def _rows(layout: Layout, head: bytes) -> list[tuple[int, ...]]:
    """Unpack the first units of a file."""
    length = min(len(head) // layout.size, UNITS) * layout.size
    return list(layout.packer.iter_unpack(head[:length]))


def _until_zero(units: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Give the units in front of the first that was never written."""
    for number, unit in enumerate(units):
        if not any(unit):
            return units[:number]
    return units


def _is_time(ms: int) -> bool:
    return EARLIEST_MS <= ms <= LATEST_MS


# The most telling first: what has self-locating records is a log, in entries of DLedger or not.
TESTS: dict[ArtefactKind, Callable[[bytes, int, int], bool]] = {
    ArtefactKind.DLEDGER: _is_dledger,
    ArtefactKind.COMMITLOG: _is_commitlog,
    ArtefactKind.TIERED_INDEX: _is_tiered_index,
    ArtefactKind.TIMER_LOG: _is_timer_log,
    ArtefactKind.CHECKPOINT: _is_checkpoint,
    ArtefactKind.TIMER_CHECK: _is_timer_check,
    ArtefactKind.EPOCH: _is_epoch,
    ArtefactKind.DLEDGER_STATE: _is_dledger_state,
    ArtefactKind.CONFIG: _is_json,
    ArtefactKind.INDEX: _is_index,
    ArtefactKind.DLEDGER_INDEX: _is_dledger_index,
    ArtefactKind.CONSUME_QUEUE_EXT: _is_ext,
    ArtefactKind.CONSUME_QUEUE: _is_consume_queue,
    ArtefactKind.BATCH_QUEUE: _is_batch_queue,
    ArtefactKind.TIMER_WHEEL: _is_timer_wheel,
}


def lone_segment(artefact: Artefact) -> Segment:
    """Give the segment of a lone file.

    Where the name is not a number, a commitlog's first record says where the file begins.

    Raises:
        UnreadablePath: it is not there, or may not be read.
    """
    entry = artefact.place.stat()
    if entry is None or entry.kind is not EntryKind.FILE:
        raise UnreadablePath(path=str(artefact.place), reason="no such file")
    start = start_of(entry.name)
    if start is None and artefact.kind in {ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER}:
        position, physical_offset = first_record(artefact.place.read(HEAD_BYTES)) or (0, 0)
        start = physical_offset - position
    return Segment(
        artefact.place, artefact.path, start or 0, entry.size, entry.mtime_ms, entry.allocated
    )
