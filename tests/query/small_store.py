"""A store of a few chosen records, with queue and index: for what no broker's fixture holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rmqtool.formats import java, properties
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    entry_position,
    file_length,
    slot_position,
)
from rmqtool.formats.message import Message, encode, sealed

SLOTS, ENTRIES = 16, 64
SEGMENT_BYTES = 65536
FIRST_TIME = 1_700_000_000_000


def build(root: Path, records: Sequence[tuple[str, Mapping[str, str]]], body: bytes = b"x") -> None:
    """Write a store.

    Args:
        root: a new directory.
        records: topic and properties of each; all go to queue 0, one a second.
        body: of all of them.
    """
    log, index = bytearray(), bytearray(file_length(SLOTS, ENTRIES))
    count, last, offsets = FIRST_ENTRY, 0, dict[str, bytearray]()
    for number, (topic, named) in enumerate(records):
        units = offsets.setdefault(topic, bytearray())
        message = sealed(
            Message(
                queue_offset=len(units) // CQ_UNIT.size,
                physical_offset=len(log),
                born_timestamp=FIRST_TIME + 1000 * number,
                store_timestamp=FIRST_TIME + 1000 * number,
                store_port=10911,
                body=body,
                topic_bytes=topic.encode(),
                properties_bytes=properties.encode(named),
            )
        )
        units += CQ_UNIT.packer.pack(len(log), message.total_size, 0)
        for key in (named.get("UNIQ_KEY", ""), *properties.keys(named)):
            if key:
                _put(index, count, java.key_hash(topic, key), len(log), number)
                count += 1
        last = len(log)
        log += encode(message)
    _header(index, count, last, len(records))
    _write(root / "commitlog" / f"{0:020}", bytes(log).ljust(SEGMENT_BYTES, b"\0"))
    _write(root / "index" / "20260101000000000", bytes(index))
    for topic, units in offsets.items():
        _write(root / "consumequeue" / topic / "0" / f"{0:020}", bytes(units).ljust(2000, b"\0"))


def _put(index: bytearray, number: int, key_hash: int, physical_offset: int, second: int) -> None:
    slot = slot_position(key_hash % SLOTS)
    previous = int.from_bytes(index[slot : slot + 4], "big")
    index[slot : slot + 4] = number.to_bytes(4, "big")
    entry = INDEX_ENTRY.packer.pack(key_hash, physical_offset, second, previous)
    index[entry_position(SLOTS, number) : entry_position(SLOTS, number + 1)] = entry


def _header(index: bytearray, count: int, last: int, seconds: int) -> None:
    used = sum(any(index[slot_position(slot) : slot_position(slot + 1)]) for slot in range(SLOTS))
    end = FIRST_TIME + 1000 * (seconds - 1)
    index[: INDEX_HEADER.size] = INDEX_HEADER.packer.pack(FIRST_TIME, end, 0, last, used, count)


def _write(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)
