"""What a broker wrote, as plainly read as possible: queue files, ext files, index files."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.formats import consume_queue_ext, index
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.truth.plain_reader import Key, Queue

_CHUNK: Final = 1 << 20


def queues(directory: Path) -> Iterator[tuple[Queue, Path]]:
    """Give each queue below `consumequeue`, `batchconsumequeue` or `consumequeue_ext`."""
    for topic in sorted(directory.iterdir()) if directory.is_dir() else ():
        for queue in sorted(topic.iterdir()) if topic.is_dir() else ():
            yield (topic.name, int(queue.name)), queue


def queue_units(directory: Path) -> dict[int, bytes]:
    """Read the units of one queue, fillers and unused space left out: queue offset to 20 bytes."""
    units = {}
    for path in sorted(directory.iterdir()):
        raw, first = path.read_bytes(), int(path.name) // CQ_UNIT.size
        for position in range(0, len(raw), CQ_UNIT.size):
            unit = raw[position : position + CQ_UNIT.size]
            if unit != PRE_BLANK and any(unit):
                units[first + position // CQ_UNIT.size] = unit
    return units


def batch_units(directory: Path) -> list[bytes]:
    """Read the units of one batch queue, in order, unused space left out."""
    units = []
    for path in sorted(directory.iterdir()):
        raw = path.read_bytes()
        units += [
            raw[at : at + BATCH_CQ_UNIT.size] for at in range(0, len(raw), BATCH_CQ_UNIT.size)
        ]
    return [unit for unit in units if any(unit)]


def ext_units(directory: Path) -> dict[int, consume_queue_ext.ExtUnit]:
    """Read the ext units of one queue: address to unit."""
    units = {}
    for path in sorted(directory.iterdir()):
        raw, position = path.read_bytes(), 0
        while unit := consume_queue_ext.decode(raw[position:]):
            units[consume_queue_ext.address(int(path.name) + position)] = unit
            position += unit.size
    return units


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One index file, mapped: it may have hundreds of megabytes, most of them zeros.

    Attributes:
        name: of the file.
        raw: its bytes.
        slot_count: slots that it has, used or not.
    """

    name: str
    raw: mmap.mmap
    slot_count: int

    @property
    def header(self) -> dict[str, Any]:
        """The header's fields."""
        return INDEX_HEADER.parse(self.raw[: INDEX_HEADER.size])

    def entries(self) -> list[dict[str, Any]]:
        """Give the entries in use, in the order in which they were added."""
        starts = (
            index.entry_position(self.slot_count, number)
            for number in range(index.FIRST_ENTRY, self.header["index_count"])
        )
        return [INDEX_ENTRY.parse(self.raw[start : start + INDEX_ENTRY.size]) for start in starts]

    def differences(self, expected: dict[int, bytes]) -> list[int]:
        """Give the positions at which other bytes stand; all the rest must be zeros."""
        found = [at for at, raw in expected.items() if self.raw[at : at + len(raw)] != raw]
        for position, raw in expected.items():
            self.raw[position : position + len(raw)] = bytes(len(raw))  # the map is private
        for start in range(0, len(self.raw), _CHUNK):
            chunk = self.raw[start : start + _CHUNK]
            if chunk.count(0) != len(chunk):
                found.append(start)
        return found


def index_files(directory: Path, slot_count: int) -> Iterator[IndexFile]:
    """Read the index files in the order of their names, one after the other."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        yield IndexFile(path.name, mapped, slot_count)
        mapped.close()


def index_image(
    keys: list[Key], slot_count: int, before: dict[str, Any] | None
) -> dict[int, bytes]:
    """Build what a broker writes into an index file, entry by entry: position to bytes.

    Args:
        keys: its entries, in order.
        slot_count: slots that it has.
        before: header of the file before it; None for the first file.

    Source: IndexFile#putKey, IndexService#getAndCreateLastIndexFile.
    """
    header = dict.fromkeys(INDEX_HEADER.positions, 0) | {"index_count": index.FIRST_ENTRY}
    if before:
        for side in ("begin", "end"):
            header[f"{side}_timestamp"] = before["end_timestamp"]
            header[f"{side}_physical_offset"] = before["end_physical_offset"]
    slots: dict[int, int] = {}
    image = {}
    for number, key in enumerate(keys, start=index.FIRST_ENTRY):
        slot = key.key_hash % slot_count
        image[index.entry_position(slot_count, number)] = INDEX_ENTRY.build(
            {
                "key_hash": key.key_hash,
                "physical_offset": key.physical_offset,
                "time_difference": _time_difference(key, header["begin_timestamp"]),
                "previous": slots.get(slot, 0),
            }
        )
        slots[slot] = number
        for side in ("begin", "end") if number == index.FIRST_ENTRY else ("end",):
            header[f"{side}_timestamp"] = key.store_timestamp
            header[f"{side}_physical_offset"] = key.physical_offset
    header |= {"hash_slot_count": len(slots), "index_count": len(keys) + index.FIRST_ENTRY}
    for slot, number in slots.items():
        image[index.slot_position(slot)] = INDEX_SLOT.build({"number": number})
    return image | {0: INDEX_HEADER.build(header)}


def _time_difference(key: Key, begin_timestamp: int) -> int:
    """Give whole seconds, truncated toward zero, then clamped."""
    if begin_timestamp <= 0:
        return 0
    return max(0, min(int((key.store_timestamp - begin_timestamp) / 1000), 2**31 - 1))
