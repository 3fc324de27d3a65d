"""Look keys up in the key index, and say how far its word can be taken.

A file answers with offsets of records that may have the key: hashes collide, entries outlive
records. A chain that turns, points beyond the file or through entries of another slot makes the
file doubtful, and so do a first and last entry that are not what the header says; what a doubtful
file would have covered is then searched in the log itself.
Source: IndexFile#selectPhyOffset, IndexService#queryOffset, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import UnreadablePath
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_SLOT,
    entry_position,
    slot_position,
)
from rmqtool.plural import counted
from rmqtool.store.index_files import in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.store.index_files import IndexFile, IndexInUse
    from rmqtool.store.place import OpenFile
    from rmqtool.store.tree import Store

ENTRIES_KEPT: Final = 1000  # of a chain, to be shown
SLOTS_COUNTED: Final = 1 << 16  # 256 KiB: few enough to be looked at each time
PAGE: Final = 4096  # what a crash loses or keeps as a whole
DENSE: Final = 16  # one slot in so many is used: then a page of empty ones is no chance
BLOCK: Final = 1 << 20
_SLOT_BYTES: Final = INDEX_SLOT.size
_ENTRY_BYTES: Final = INDEX_ENTRY.size
_unpack = INDEX_ENTRY.packer.unpack


class ChainEntry(NamedTuple):
    """One entry of a chain."""

    number: int
    key_hash: int
    physical_offset: int
    time_difference: int
    previous: int


class Chain(NamedTuple):
    """What one file says about one hash."""

    path: str  # of the file
    key_hash: int  # what was looked for
    slot: int  # where its chain begins
    head: int  # number in the slot
    entries: tuple[ChainEntry, ...]  # of the chain, newest first, the first thousand
    walked: int  # how many there were
    offsets: tuple[int, ...]  # of the entries with this hash
    # why the chain cannot be taken as a whole; empty when nothing speaks against it
    trouble: str = ""


class IndexReader:
    """One index file, open. Nothing in it is believed further than it can be checked."""

    def __init__(self, file: IndexFile) -> None:
        self.file, self.slots = file, file.slots
        self.held: IndexInUse | None = None
        self._open: OpenFile | None = None
        try:
            self._open = file.open()
            self.held = in_use(file, self._open)
            self.trouble = self._header_trouble(self.held)
        except UnreadablePath as error:
            self.trouble = error.reason

    @property
    def last(self) -> int:
        """The highest number an entry can have here; the count of a crashed broker may be old."""
        return self.held.room - 1 if self.held is not None else -1

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()

    def entry(self, number: int) -> ChainEntry | None:
        """Read one entry; None where none can be."""
        if self._open is None or not FIRST_ENTRY <= number <= self.last:
            return None
        raw = self._open.read_at(entry_position(self.slots, number), _ENTRY_BYTES)
        return ChainEntry(number, *_unpack(raw)) if len(raw) == _ENTRY_BYTES else None

    def chain(self, key_hash: int) -> Chain:
        """Walk the chain of a hash; it ends in any case, as entry numbers must fall."""
        try:
            return self._walked(key_hash)
        except UnreadablePath as error:
            return Chain(self.file.path, key_hash, 0, 0, (), 0, (), error.reason)

    def _walked(self, key_hash: int) -> Chain:
        slot = key_hash % self.slots if self.slots else 0
        if self._open is None or not self.slots:
            return Chain(self.file.path, key_hash, slot, 0, (), 0, (), self.trouble or "unreadable")
        raw = self._open.read_at(slot_position(slot), _SLOT_BYTES)
        head = INDEX_SLOT["number"].of(raw)
        kept: list[ChainEntry] = []
        offsets: list[int] = []
        number, walked, trouble = head, 0, self._slot_trouble(slot, head, len(raw))
        while number > 0 and not trouble:
            entry = self.entry(number)
            if entry is None:
                trouble = f"entry {number} is beyond the file, which has room for {self.last}"
                break
            walked += 1
            if len(kept) < ENTRIES_KEPT:
                kept.append(entry)
            if entry.key_hash == key_hash:
                offsets.append(entry.physical_offset)
            trouble = self._entry_trouble(entry, slot)
            number = entry.previous
        return Chain(self.file.path, key_hash, slot, head, (*kept,), walked, (*offsets,), trouble)

    def proves_whole(self) -> str:
        """Read all slots and entries for what a lost page would leave; say what is wrong.

        For "not found" only: it reads the file, 400 MB at most by default.
        """
        if self._open is None or self.held is None or self.trouble:
            return self.trouble or "unreadable"
        try:
            used, stated = self._used_slots(0, self.slots), self.held.header["hash_slot_count"]
            if used < stated:
                return f"{used:,} of {stated:,} used slots are there"
            return self._zero_entries(self._open, self.held.end)
        except UnreadablePath as error:
            return error.reason

    def _header_trouble(self, held: IndexInUse | None) -> str:
        """Compare the header with the first and the last entry, and with a short slot table."""
        if held is None:
            return "its numbers of slots and entries cannot be told"
        _, _, begin, end, slot_count, count = held.header.values()
        if count < FIRST_ENTRY or count > held.room:
            amount = counted(count - 1, "entry", "entries")
            return f"its header counts {amount}, there is room for {self.last:,}"
        if count > FIRST_ENTRY:
            first, last = self.entry(FIRST_ENTRY), self.entry(count - 1)
            ends = first and first.physical_offset, last and last.physical_offset
            if ends != (begin, end):
                return "its first or last entry is not what the header says"
        following = self.entry(count)
        if following is not None and following.physical_offset:
            return "entries go on past what its header counts"
        if self.slots <= SLOTS_COUNTED:
            used = self._used_slots(0, self.slots)
            if used != slot_count:
                return (
                    f"{counted(used, 'slot is', 'slots are')} used, its header says {slot_count:,}"
                )
        return ""

    def _slot_trouble(self, slot: int, head: int, length: int) -> str:
        """Say what is wrong with a slot."""
        if length < _SLOT_BYTES:
            return f"slot {slot} is missing"
        if head < 0 or head > self.last:
            return f"slot {slot} names entry {head}, there is room for {self.last:,}"
        used = self.held.header["hash_slot_count"] if self.held is not None else 0
        if head == 0 and used * DENSE > self.slots > SLOTS_COUNTED:
            page = (slot_position(slot) // PAGE) * PAGE
            begin = max((page - slot_position(0)) // _SLOT_BYTES, 0)
            end = min(begin + PAGE // _SLOT_BYTES, self.slots)
            if not self._used_slots(begin, end):
                return f"slots {begin} to {end - 1} are all empty: a lost page"
        return ""

    def _entry_trouble(self, entry: ChainEntry, slot: int) -> str:
        """Say why a chain cannot be followed beyond an entry, or must not be believed."""
        if entry.previous >= entry.number:
            turn = "itself" if entry.previous == entry.number else "a newer one"
            return f"entry {entry.number} leads to {turn}, {entry.previous}: the chain would turn"
        if entry.previous < 0:
            return f"entry {entry.number} leads to {entry.previous}"
        if entry.key_hash < 0 or entry.key_hash % self.slots != slot:
            return f"entry {entry.number} belongs to another slot"
        return ""

    def _used_slots(self, begin: int, end: int) -> int:
        """Count the slots that are not empty."""
        from array import array

        used = 0
        if self._open is None:
            return used
        for start in range(begin, end, BLOCK // _SLOT_BYTES):
            length = min(end - start, BLOCK // _SLOT_BYTES) * _SLOT_BYTES
            values = array("i", self._open.read_at(slot_position(start), length))
            used += len(values) - values.count(0)
        return used

    def _zero_entries(self, file: OpenFile, count: int) -> str:
        """Look for a run of zeros as long as a few entries, which only a lost page leaves."""
        hole = bytes(4 * INDEX_ENTRY.size)
        position = entry_position(self.slots, FIRST_ENTRY)
        end = entry_position(self.slots, count)
        while position < end:
            raw = file.read_at(position, min(BLOCK, end - position))
            if (at := raw.find(hole)) >= 0:
                return f"zeros between its entries, at {position + at}"
            if len(raw) < BLOCK:
                break
            position += BLOCK - len(hole)
        return ""


class KeyIndex:
    """All index files of a store. A context manager.

    Args:
        store: whose; what cannot be read of them is one of `troubles`.
    """

    def __init__(self, store: Store) -> None:
        files: Sequence[IndexFile] = ()
        self._unlisted: list[tuple[str, str]] = []
        try:
            files = store.index_files()
        except UnreadablePath as error:
            self._unlisted.append((error.path, error.reason))
        self.readers = [IndexReader(file) for file in files]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for reader in self.readers:
            reader.close()

    def __bool__(self) -> bool:
        return bool(self.readers)

    @property
    def latest(self) -> int | None:
        """Physical offset of the newest entry, for the end of the log."""
        return max((end for _, end in self.covered()), default=None)

    def chains(self, key_hash: int) -> list[Chain]:
        """Ask every file for a hash, oldest first."""
        return [reader.chain(key_hash) for reader in self.readers]

    def covered(self, doubtful: Iterable[str] = ()) -> list[tuple[int, int]]:
        """Give the stretches of the log whose records are all in trustworthy files.

        Args:
            doubtful: paths of files that turned out to be damaged.

        Returns:
            Physical offsets of the first and of the last record, in ascending order.
        """
        passed = set(doubtful)
        return sorted(
            (held.begin, held.header["end_physical_offset"])
            for reader in self.readers
            if (held := reader.held) is not None
            and not reader.trouble
            and held.end > FIRST_ENTRY
            and reader.file.path not in passed
        )

    def troubles(self) -> list[tuple[str, str]]:
        """Give what cannot be believed, or not be read, each with the reason."""
        troubles = [(reader.file.path, reader.trouble) for reader in self.readers if reader.trouble]
        return [*self._unlisted, *troubles]
