"""The MANIFEST of a RocksDB database: which table files are live, as its edits say.

The library opens a database whose MANIFEST is cut off as one with fewer tables, or none, and then
a broker deletes the rest. So the edits are read here, too.
Source: db/version_edit.h, db/version_edit.cc, RocksDB 8.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.budget import OverBudget, ParseBudget
from rmqtool.store.rocksdb_blocks import varint_at
from rmqtool.store.rocksdb_table import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.store.place import OpenFile, Place


CURRENT_TEXT: Final = re.compile(rb"(MANIFEST-\d{6,})\n")
CURRENT_BYTES: Final = 64
COMPARATOR, LOG_NUMBER, COMPACT_POINTER, DELETED_FILE, NEW_FILE, MIN_LOG = 1, 2, 5, 6, 7, 10
NEW_FILE_2, NEW_FILE_3, NEW_FILE_4 = 100, 102, 103
FAMILY, FAMILY_ADD, FAMILY_DROP = 200, 201, 202
NEW_FILES: Final = frozenset({NEW_FILE, NEW_FILE_2, NEW_FILE_3, NEW_FILE_4})
# Also: next file, last sequence, previous log, largest family, edits left in an atomic group.
NUMBER_TAGS: Final = frozenset({LOG_NUMBER, MIN_LOG, FAMILY, 3, 4, 9, 203, 300})
IGNORABLE: Final = 1 << 13  # tags with this bit carry their length, for older readers
END_OF_FILE_ENTRY: Final = 1
LARGEST_EDIT: Final = 64 << 20  # of half a million tables
TABLE_STEPS: Final = 1000  # see `budget`


class TableFile(NamedTuple):
    """A table file that the MANIFEST names."""

    number: int  # of its name
    family: int  # that it belongs to, by number
    level: int  # of the tree
    size: int  # bytes, as they were when it was added

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.number:06}.sst"


@dataclass(slots=True)
class RocksdbManifest:
    """What the edits say, as far as they can be read."""

    name: str = ""  # of the file; empty where CURRENT names none
    # name of each column family, by number
    families: dict[int, str] = field(default_factory=lambda: {0: "default"})
    tables: dict[int, TableFile] = field(default_factory=dict)  # live table files, by number
    named: set[int] = field(default_factory=set)  # numbers of all table files that were ever added
    oldest_log: int = 0  # write-ahead logs with a lower number are not replayed
    # the oldest log that each family, by number, still needs
    logs: dict[int, int] = field(default_factory=dict)
    problem: str = ""  # why the edits cannot be read to their end; empty when they can
    end: int = 0  # position past the last edit that was read


class VersionEdit:
    """One edit, taken apart from left to right; IndexError where it is cut off."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.position = raw, 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self.raw)

    def number(self) -> int:
        """Take a number of 7 bits a byte. Raises BrokenBlock: it has too many."""
        value, self.position = varint_at(self.raw, self.position)
        return value

    def text(self) -> bytes:
        """Take a text that carries its length."""
        length = self.number()
        if self.position + length > len(self.raw):
            raise IndexError
        self.position += length
        return self.raw[self.position - length : self.position]


def read_manifest(directory: Place) -> RocksdbManifest:
    """Read CURRENT and the MANIFEST that it names; what is wrong with them is `problem`.

    Raises:
        UnreadablePath: CURRENT or the MANIFEST is missing or may not be read.
    """
    current = directory.child("CURRENT").read(CURRENT_BYTES)
    match = CURRENT_TEXT.fullmatch(current)
    if match is None:
        return RocksdbManifest(problem=f"CURRENT says {current!r}, not the name of a MANIFEST")
    manifest = RocksdbManifest(name=match[1].decode())
    place = directory.child(manifest.name)
    entry = place.stat()
    edits = _Edits(manifest, 0 if entry is None else entry.stored)
    content = read_log(place, edits.take)
    if edits.is_broken:
        return manifest
    manifest.problem, manifest.end = content.problem, content.end
    if not content.records and not manifest.problem:
        manifest.problem = "it has no edit"
    logs = [number for family, number in manifest.logs.items() if family in manifest.families]
    manifest.oldest_log = max(manifest.oldest_log, min(logs, default=0))
    return manifest


class _Edits:
    """Applies edits, one after the other, up to one that cannot be read."""

    def __init__(self, manifest: RocksdbManifest, size: int) -> None:
        self.is_broken = False
        self._manifest = manifest
        self._budget = ParseBudget("its edits", size)

    def take(self, position: int, raw: bytes) -> None:
        """Apply the next edit."""
        if self.is_broken:
            return
        manifest = self._manifest
        try:
            content = _read(VersionEdit(raw[:LARGEST_EDIT]))
            looked_at = len(manifest.tables) if FAMILY_DROP in content.numbers else 0
            self._budget.spend(looked_at + TABLE_STEPS * len(content.added))
            _apply(manifest, content)
        except OverBudget as error:
            manifest.problem, manifest.end, self.is_broken = str(error), position, True
        except (IndexError, ValueError):
            manifest.problem, manifest.end = f"the edit at {position} cannot be read", position
            self.is_broken = True


def _apply(manifest: RocksdbManifest, content: EditContent) -> None:
    """Apply one edit; the tables of a family that is dropped go with it."""
    if FAMILY_ADD in content.numbers:
        manifest.families[content.family] = content.name
    if LOG_NUMBER in content.numbers:
        manifest.logs[content.family] = content.numbers[LOG_NUMBER]
    manifest.oldest_log = max(manifest.oldest_log, content.numbers.get(MIN_LOG, 0))
    for number in content.deleted:
        manifest.tables.pop(number, None)
    for level, number, size in content.added:
        manifest.tables[number] = TableFile(number, content.family, level, size)
        manifest.named.add(number)
    if FAMILY_DROP in content.numbers:
        manifest.families.pop(content.family, None)
        for table in [*manifest.tables.values()]:
            if table.family == content.family:
                del manifest.tables[table.number]


@dataclass(slots=True)
class EditContent:
    """What one edit says; see Manifest."""

    numbers: dict[int, int] = field(default_factory=dict)  # by tag; tags without a number have 0
    name: str = ""  # of the family that is added
    deleted: list[int] = field(default_factory=list)  # numbers of table files
    # level, number and size of table files
    added: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def family(self) -> int:
        """Number of the family that is concerned."""
        return self.numbers.get(FAMILY, 0)


def _read(edit: VersionEdit) -> EditContent:
    content = EditContent()
    while not edit.is_done:
        tag = edit.number()
        if tag in NUMBER_TAGS:
            content.numbers[tag] = edit.number()
        elif tag == COMPACT_POINTER:
            edit.number()
            edit.text()
        elif tag == DELETED_FILE:
            edit.number()
            content.deleted.append(edit.number())
        elif tag in NEW_FILES:
            content.added.append(_new_file(edit, tag))
        elif tag == FAMILY_ADD:
            content.name = edit.text().decode("utf-8", "backslashreplace")
            content.numbers[tag] = 0
        elif tag == FAMILY_DROP:
            content.numbers[tag] = 0
        elif tag == COMPARATOR or tag & IGNORABLE:
            edit.text()
        else:
            raise ValueError(tag)
    return content


def _new_file(edit: VersionEdit, tag: int) -> tuple[int, int, int]:
    """Give level, number and size of a table file that is added."""
    level, number = edit.number(), edit.number()
    if tag == NEW_FILE_3:
        edit.number()  # path
    size = edit.number()
    edit.text()  # smallest key
    edit.text()  # largest key
    if tag != NEW_FILE:
        edit.number()  # smallest sequence number
        edit.number()  # largest
    if tag == NEW_FILE_4:
        while edit.number() != END_OF_FILE_ENTRY:
            edit.text()
    return level, number, size


# RocksDB's log format: records in blocks of 32 KiB, of write-ahead logs and of the MANIFEST.
#
# RocksDB's own reader drops what it cannot read without a word in some modes; this one says where
# it begins.
# See db/log_format.h, db/log_reader.cc, RocksDB 8.4.


BLOCK_BYTES: Final = 32768
HEADER: Final = Struct("<IHB")  # masked CRC, length, type
LOG_NUMBER_BYTES: Final = 4  # more in a header of a recycled log
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
RECYCLED: Final = {5: FULL, 6: FIRST, 7: MIDDLE, 8: LAST}
RECYCLED_TIMESTAMPS: Final = 11  # sizes of user timestamps, as 10; 9 is the compression
OTHER_TYPES: Final = frozenset({9, 10, RECYCLED_TIMESTAMPS})
BATCH_HEAD: Final = Struct("<QI")  # sequence number, writes in the batch


@dataclass(slots=True)
class LogContent:
    """What a log holds."""

    records: int = 0  # how many can be read, up to the damage
    end: int = 0  # position past the last one of them
    size: int = 0  # of the file, bytes
    problem: str = ""  # why reading ended before the file; empty where only zeros follow
    later: int = 0  # records that can be read past the damage, from the next block on


def read_log(place: Place, take: Callable[[int, bytes], None]) -> LogContent:
    """Read a log, and find out where it is damaged.

    Args:
        place: of the log.
        take: gets position and bytes of each record up to the damage.

    Raises:
        UnreadablePath: the file may not be read.
    """
    content = LogContent()
    with place.open() as file:
        content.size = file.size
        parts: list[bytes] = []
        begin = 0
        for block in _blocks(file):
            for position, kind, payload, broken in _fragments(file.read_at(block, BLOCK_BYTES)):
                problem = broken or _misplaced(kind, parts)
                if problem:
                    content.problem = content.problem or problem
                    parts.clear()
                    break
                if not parts:
                    begin = block + position
                parts.append(payload)
                if kind in {FULL, LAST}:
                    if content.problem:
                        content.later += 1
                    else:
                        take(begin, b"".join(parts))
                        content.records += 1
                        content.end = block + position + HEADER.size + len(payload)
                    parts.clear()
        if parts and not content.problem:
            content.problem = "the last record is cut off"
    return content


def _blocks(file: OpenFile) -> Iterator[int]:
    """Yield where the blocks begin, but for those in a hole: a terabyte of zeros costs nothing."""
    position: int | None = 0
    while position is not None and position < file.size:
        block = position - position % BLOCK_BYTES
        yield block
        position = file.next_data(block + BLOCK_BYTES)


def writes_in(batch: bytes) -> int:
    """Count the writes in a record of a write-ahead log."""
    return int(BATCH_HEAD.unpack_from(batch)[1]) if len(batch) >= BATCH_HEAD.size else 0


def _misplaced(kind: int, parts: list[bytes]) -> str:
    """Say what is wrong with the order of the parts of a record."""
    if kind in {MIDDLE, LAST} and not parts:
        return "a record's first part is missing"
    if kind in {FULL, FIRST} and parts:
        return "a record's last part is missing"
    return ""


def _fragments(block: bytes) -> Iterator[tuple[int, int, bytes, str]]:
    """Take one block apart: position, type, bytes, and what is wrong, which ends the block."""
    position = 0
    while position + HEADER.size <= len(block):
        stored, length, kind = HEADER.unpack_from(block, position)
        if not any(block[position:]):
            return  # space that was allocated in advance
        start = position + HEADER.size
        if kind in RECYCLED or kind == RECYCLED_TIMESTAMPS:
            start += LOG_NUMBER_BYTES
        end = start + length
        if end > len(block):
            yield position, 0, b"", f"a record of {length:,} bytes is cut off"
            return
        kind = RECYCLED.get(kind, kind)
        if not FULL <= kind <= LAST and kind not in OTHER_TYPES:
            yield position, 0, b"", f"a record of unknown type {kind}"
            return
        if masked_crc32c(block[position + HEADER.size - 1 : end]) != stored:
            yield position, 0, b"", "the CRC of a record differs"
            return
        if kind not in OTHER_TYPES:
            yield position, kind, block[start:end], ""
        position = end
    if any(block[position:]):
        yield position, 0, b"", "a record's head is cut off"
