"""A store read the plain way: one record after the other with `struct`, no kernel, no scan.

Damage is placed with it, so it must not share code with what finds the damage. It reads sound
stores only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAGICS = (-626843481, -626843477)
BLANK_MAGIC = -875286124
SYSTEM_PREFIXES = ("%", "rmq_sys", "RMQ_SYS", "SCHEDULE_", "TBW102", "TRANS_CHECK")
UNIT = struct.Struct(">qiq")
INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_ENTRY = struct.Struct(">iqii")
PRE_BLANK = (0, 0x7FFFFFFF, 0)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a sound commitlog.

    Attributes:
        path: its segment.
        position: first byte in that file.
        raw: all its bytes.
    """

    path: Path
    position: int
    raw: bytes

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return len(self.raw)

    def places(self) -> dict[str, tuple[int, int]]:
        """Give position (in the record) and size of each field that is there."""
        sys_flag = struct.unpack_from(">i", self.raw, 36)[0]
        born, store = (20 if sys_flag & bit else 8 for bit in (0x10, 0x20))
        widths = [
            ("total_size", 4), ("magic_code", 4), ("body_crc", 4), ("queue_id", 4), ("flag", 4),
            ("queue_offset", 8), ("physical_offset", 8), ("sys_flag", 4), ("born_timestamp", 8),
            ("born_host", born), ("store_timestamp", 8), ("store_host", store),
            ("reconsume_times", 4), ("prepared_transaction_offset", 8), ("body_length", 4),
        ]  # fmt: skip
        found: dict[str, tuple[int, int]] = {}
        position = 0
        for name, size in widths:
            found[name] = (position, size)
            position += size
        position = self._variable(found, "body", "body_length", position)
        found["topic_length"] = (position, 1 if self._integer(4, 4) == MAGICS[0] else 2)
        position = self._variable(found, "topic", "topic_length", sum(found["topic_length"]))
        found["properties_length"] = (position, 2)
        self._variable(found, "properties", "properties_length", position + 2)
        return found

    def _variable(
        self, found: dict[str, tuple[int, int]], name: str, length: str, position: int
    ) -> int:
        size = max(self._integer(*found[length]), 0)
        found[name] = (position, size)
        return position + size

    def _integer(self, position: int, size: int) -> int:
        return int.from_bytes(self.raw[position : position + size], "big", signed=True)

    def integer(self, field: str) -> int:
        """Read an integer field."""
        return self._integer(*self.places()[field])

    def bytes_of(self, field: str) -> bytes:
        """Read a field as it is stored."""
        position, size = self.places()[field]
        return self.raw[position : position + size]

    @property
    def topic(self) -> str:
        """The stored topic."""
        return self.bytes_of("topic").decode("utf-8", "replace")

    @property
    def physical_offset(self) -> int:
        """The field, not the place."""
        return self.integer("physical_offset")

    @property
    def transaction(self) -> int:
        """The two transaction bits, in their place."""
        return self.integer("sys_flag") & 0xC

    @property
    def properties(self) -> dict[str, str]:
        """Names and values."""
        text = self.bytes_of("properties").decode("utf-8", "replace")
        items = (item.partition("\x01") for item in text.split("\x02"))
        return {name: value for name, _, value in items if name and value}

    @property
    def is_ordinary(self) -> bool:
        """Whether a client sent it to a topic of its own, in the plainest way."""
        return (
            not self.topic.startswith(SYSTEM_PREFIXES)
            and not self.integer("sys_flag")
            and self.integer("body_length") >= 16
        )


def numbered(directory: Path) -> list[Path]:
    """List the files of a mapped-file directory in the order of their start."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.isdecimal() and path.is_file())


def segments(store: Path) -> list[Path]:
    """List the files of the commitlog."""
    return numbered(store / "commitlog")


def _walk(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield (position, size, magic) of each record, then of the blank if there is one."""
    raw = path.read_bytes()
    position = 0
    while position + 8 <= len(raw):
        size, magic = struct.unpack_from(">ii", raw, position)
        if magic not in (*MAGICS, BLANK_MAGIC):
            return
        yield position, size, magic
        if magic == BLANK_MAGIC:
            return
        position += size


def records(store: Path) -> list[Record]:
    """List all records of a sound store, in order."""
    found = []
    for path in segments(store):
        raw = path.read_bytes()
        found += [
            Record(path, position, raw[position : position + size])
            for position, size, magic in _walk(path)
            if magic != BLANK_MAGIC
        ]
    return found


def blanks(store: Path) -> list[tuple[Path, int, int]]:
    """List (path, position, size) of each blank record."""
    return [
        (path, position, size)
        for path in segments(store)
        for position, size, magic in _walk(path)
        if magic == BLANK_MAGIC
    ]


def tail(store: Path) -> tuple[Path, int]:
    """Give the file and position where the next record would be written."""
    last = records(store)[-1]
    return last.path, last.position + last.size


def nth(store: Path, where: float, wanted: Callable[[Record], bool] | None = None) -> Record:
    """Give the record at a fraction of the log, among those that are wanted."""
    chosen = [record for record in records(store) if (wanted or (lambda r: r.is_ordinary))(record)]
    return chosen[min(int(where * len(chosen)), len(chosen) - 1)]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a consume queue: where it lies, and its three fields."""

    path: Path
    position: int
    physical_offset: int
    size: int
    tags_code: int


def is_from_0(store: Path) -> bool:
    """Tell whether nothing of the log has ever expired."""
    return int(numbered(store / "commitlog")[0].name) == 0


def queue_directories(store: Path) -> list[Path]:
    """List the directories of all consume queues that have a file."""
    paths = sorted((store / "consumequeue").glob("*/*"))
    return [path for path in paths if path.is_dir() and numbered(path)]


def units(directory: Path) -> list[Unit]:
    """List the units of one queue up to the first unused one."""
    units: list[Unit] = []
    for path in numbered(directory):
        for number, fields in enumerate(UNIT.iter_unpack(path.read_bytes())):
            if fields[1] <= 0:
                return units
            units.append(Unit(path, number * UNIT.size, *fields))
    return units


def unit_of(store: Path, record: Record) -> Unit:
    """Give the unit of one record in its own queue."""
    queue = store / "consumequeue" / record.topic / str(record.integer("queue_id"))
    return next(u for u in units(queue) if u.physical_offset == record.physical_offset)


def busiest_queue(store: Path) -> Path:
    """Give the directory of the queue of a client's topic that has the most real units."""
    own = [d for d in queue_directories(store) if not d.parent.name.startswith(SYSTEM_PREFIXES)]
    return max(own, key=lambda d: sum(u.size != PRE_BLANK[1] for u in units(d)))


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One index file with its geometry.

    Attributes:
        path: the file.
        slots: slots of its table.
        header: the six fields.
    """

    path: Path
    slots: int
    header: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of the next entry."""
        return self.header[5]

    def entry_position(self, number: int) -> int:
        """Give the position of an entry in the file."""
        return INDEX_HEADER.size + 4 * self.slots + INDEX_ENTRY.size * number

    def entry(self, number: int) -> tuple[int, ...]:
        """Read an entry: hash, physical offset, seconds, previous."""
        return INDEX_ENTRY.unpack_from(self.path.read_bytes(), self.entry_position(number))


def index_files(store: Path, slots: int | None = None) -> list[IndexFile]:
    """List the index files; fixtures have 500 slots and 2000 entries, or the default."""
    found = []
    for path in numbered(store / "index"):
        size = path.stat().st_size
        known = {
            40 + 4 * s + 20 * n: s for s, n in ((500, 2000), (1000, 4000), (5_000_000, 20_000_000))
        }
        count = known.get(size) if slots is None else slots
        if count is not None:
            with path.open("rb") as file:
                header = INDEX_HEADER.unpack(file.read(INDEX_HEADER.size))
            found.append(IndexFile(path, count, header))
    return found
