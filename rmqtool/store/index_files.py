"""Key index files: which there are, what each was made for, and how much of it is in use.

A file holds neither its number of slots nor that of entries. They are configured, or follow from
RocketMQ's default, or are found by trying: with the right number of slots, the first and the last
entry agree with the header. Where nothing tells, they are those of the other files.
Source: IndexService#load, IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import UnreadablePath
from rmqtool.formats.index import (
    DEFAULT_HASH_SLOT_NUM,
    DEFAULT_INDEX_NUM,
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    entry_position,
    file_length,
    slot_position,
)
from rmqtool.formats.java import parse_long
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.place import note_no_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.entry import Entry
    from rmqtool.store.moment import Moment
    from rmqtool.store.place import OpenFile, Place

NAME_DIGITS = 17  # yyyyMMddHHmmssSSS in the broker's own time zone
USUAL_RATIO = DEFAULT_INDEX_NUM // DEFAULT_HASH_SLOT_NUM
SEARCHED_BYTES = 8 << 20  # how far to look for the first entry of an unusual geometry
SMALLEST = file_length(1, 2)
MOST_CANDIDATES = 1000  # of numbers of slots: only a header that says nothing has so many


class IndexFile(NamedTuple):
    """One key index file."""

    place: Place  # where it lies
    path: str  # the same relative to the store root
    name: str  # creation time in the broker's own time zone, `yyyyMMddHHmmssSSS`
    size: int  # bytes on disk
    slots: int  # hash slots it was made for; 0 when nothing tells
    entries: int  # entries it was made for, the unused entry 0 included; 0 when nothing tells
    mtime_ms: int = 0  # last change, ms since 1970 UTC
    allocated: int = 0  # bytes that the disk really holds

    def open(self) -> OpenFile:
        """Open for reading. Raises UnreadablePath: see `Place.open`."""
        return self.place.open()


class IndexInUse(NamedTuple):
    """An index file of known geometry, and how much of it is in use."""

    file: IndexFile  # where it is, and its geometry
    header: dict[str, int]  # the six fields
    room: int  # entries that file and geometry have room for, the unused entry 0 included
    end: int  # number after the last entry in use; the header's unless that cannot be right
    begin: int  # physical offset of the first entry: as that says, or the header

    @property
    def is_miscounted(self) -> bool:
        """Whether the header's number of entries cannot be right."""
        return not FIRST_ENTRY <= self.header["index_count"] <= self.file.entries

    @property
    def is_full(self) -> bool:
        """Whether the broker has gone on to another file."""
        return self.end >= self.file.entries


def in_use(file: IndexFile, opened: OpenFile) -> IndexInUse | None:
    """Read how much of a file is in use; None where it has no header, or nothing tells its slots.

    Raises:
        UnreadablePath: the disk refused.
    """
    raw = opened.read_at(0, INDEX_HEADER.size)
    if len(raw) < INDEX_HEADER.size or not file.slots:
        return None
    header = INDEX_HEADER.parse(raw)
    room = min((opened.size - entry_position(file.slots, 0)) // INDEX_ENTRY.size, file.entries)
    held = IndexInUse(file, header, room, header["index_count"], header["begin_physical_offset"])
    count = _count_used(file, opened, room) if held.is_miscounted else held.end
    held = held._replace(end=max(min(count, room), FIRST_ENTRY))
    return held._replace(begin=_begin(opened, held))


def _begin(opened: OpenFile, held: IndexInUse) -> int:
    """Give where the first entry points to: it says so, and the header, and one may be damaged.

    No entry points to a place before that of the first one.
    """
    first = _entry(opened, held.file.slots, FIRST_ENTRY) if held.end > FIRST_ENTRY else None
    if first is None or first["physical_offset"] == held.begin:
        return held.begin
    second = _entry(opened, held.file.slots, FIRST_ENTRY + 1)
    if second is None or held.end <= FIRST_ENTRY + 1:
        return first["physical_offset"]
    stated = first["physical_offset"], held.begin
    return max((at for at in stated if 0 <= at <= second["physical_offset"]), default=held.begin)


def all_in_use(files: Iterable[IndexFile]) -> Iterator[IndexInUse]:
    """Yield how much is in use of each file that can be read, and whose geometry is known."""
    for file in files:
        try:
            with file.open() as opened:
                held = in_use(file, opened)
        except UnreadablePath:
            continue
        if held is not None:
            yield held


def _count_used(file: IndexFile, opened: OpenFile, room: int) -> int:
    """Count the entries in use where the header's number is wrong: up to the first zero one."""
    low, high = FIRST_ENTRY, max(room, FIRST_ENTRY)
    while low < high:
        middle = (low + high) // 2
        if any(opened.read_at(entry_position(file.slots, middle), INDEX_ENTRY.size)):
            low = middle + 1
        else:
            high = middle
    return low


def number_at(
    opened: OpenFile, held: IndexInUse, physical_offset: int, low: int = FIRST_ENTRY
) -> int:
    """Give the number of the first entry of a record at or past an offset, were all in order.

    Raises:
        UnreadablePath: the disk refused.
    """
    high = held.end
    while low < high:
        middle = (low + high) // 2
        entry = _entry(opened, held.file.slots, middle)
        if entry is not None and entry["physical_offset"] < physical_offset:
            low = middle + 1
        else:
            high = middle
    return low


def is_index_name(name: str) -> bool:
    """Tell whether a broker loads a file of this name as one of its index.

    Source: IndexService#load, DefaultMappedFile#init, 4.9.3 to 5.5.0.
    """
    return parse_long(name) is not None


def list_index_files(
    place: Place, path: str, slots: int | None, entries: int | None
) -> list[IndexFile]:
    """List the index files of a directory in the order the broker loads them.

    The loader passes names that are not numbers, and so do we.

    Raises:
        UnreadablePath: the directory may not be listed.
    """
    numbered = [entry for entry in place.entries() if is_index_name(entry.name)]
    for entry in numbered:
        note_no_file(place, entry)
    return [
        _index_file(entry, place.child(entry.name), f"{path}/{entry.name}", slots, entries)
        for entry in numbered
        if entry.kind is EntryKind.FILE
    ]


def without_next(files: list[IndexFile], moment: Moment) -> list[IndexFile]:
    """Leave out the file that a running broker is making: it is empty until it has its length.

    Args:
        files: in the order the broker loads them.
        moment: of the store.
    """
    return files[:-1] if files and not files[-1].size and moment.is_live else files


def usual_geometry(files: Iterable[IndexFile]) -> tuple[int, int] | None:
    """Give the slots and entries that most files have; of two that differ, the larger file's."""
    known = Counter((file.slots, file.entries) for file in files if file.slots and file.entries)
    return max(known, key=lambda geometry: (known[geometry], file_length(*geometry)), default=None)


def with_usual_geometry(files: Sequence[IndexFile]) -> list[IndexFile]:
    """Take slots and entries from the other files where nothing tells those of one.

    One broker makes all alike.
    """
    slots, entries = usual_geometry(files) or (0, 0)
    return [file if file.slots else file._replace(slots=slots, entries=entries) for file in files]


def index_file(place: Place, path: str, slots: int | None, entries: int | None) -> IndexFile:
    """Give one index file. Raises UnreadablePath: it is not there."""
    entry = place.stat()
    if entry is None:
        raise UnreadablePath(path=str(place), reason="no such file")
    return _index_file(entry, place, path, slots, entries)


def newest_end(
    files: Iterable[IndexFile],
    refused: Callable[[IndexFile, UnreadablePath], None] = lambda _, __: None,
) -> int:
    """Give the store time of the newest entry, as the headers say, ms; 0 for none.

    Args:
        files: in any order.
        refused: is given those whose header cannot be read, each with the reason.
    """
    newest = 0
    for file in files:
        try:
            raw = file.place.read(INDEX_HEADER.size)
        except UnreadablePath as error:
            refused(file, error)
            continue
        if len(raw) == INDEX_HEADER.size:
            newest = max(newest, INDEX_HEADER["end_timestamp"].of(raw))
    return newest


def names_by_begin(files: Sequence[IndexFile]) -> dict[int, list[str]]:
    """Give the names of index files, in order, by the physical offset of their first entry."""
    names: dict[int, list[str]] = defaultdict(list)
    for held in all_in_use(files):
        names[held.begin].append(held.file.place.name)
    return names


def _index_file(
    entry: Entry, place: Place, path: str, slots: int | None, entries: int | None
) -> IndexFile:
    geometry = _geometry(entry, place, slots, entries)
    name, size = printable(entry.name), entry.size
    return IndexFile(place, path, name, size, *geometry, entry.mtime_ms, entry.allocated)


def _geometry(
    entry: Entry, place: Place, slots: int | None, entries: int | None
) -> tuple[int, int]:
    """Say how many slots and entries a file has."""
    if slots and entries:
        return slots, entries
    if slots:
        return slots, _entries(entry.size, slots)
    if entry.size == file_length(DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM):
        return DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
    if entries and (rest := entry.size - file_length(0, entries)) > 0:
        return rest // INDEX_SLOT.size, entries
    try:
        with place.open() as file:
            slots = next(_agreeing(file), 0) or _usual_slots(file.size)
    except UnreadablePath:
        slots = 0
    return slots, _entries(entry.size, slots) if slots else 0


def _entries(size: int, slots: int) -> int:
    return max(size - file_length(slots, 0), 0) // INDEX_ENTRY.size


def _agreeing(file: OpenFile) -> Iterator[int]:
    """Yield numbers of slots with which the entries agree with the header, likely ones first."""
    if file.size < SMALLEST or (file.size - INDEX_HEADER.size) % INDEX_SLOT.size:
        return
    header = INDEX_HEADER.parse(file.read_at(0, INDEX_HEADER.size))
    usual = _usual_slots(file.size)
    if usual and _agrees(file, header, usual):
        yield usual
    if header["index_count"] <= FIRST_ENTRY:
        return  # no entry that could tell
    for slots in islice(_candidates(file, header), MOST_CANDIDATES):
        if _agrees(file, header, slots):
            yield slots


def _usual_slots(size: int) -> int:
    """Give the slots of a file with four entries a slot, as by default; 0 for another length.

    It stands in where a damaged header or entry agrees with nothing.
    """
    usual = (size - INDEX_HEADER.size) // (INDEX_SLOT.size + USUAL_RATIO * INDEX_ENTRY.size)
    return usual if file_length(usual, usual * USUAL_RATIO) == size else 0


def _candidates(file: OpenFile, header: dict[str, int]) -> Iterator[int]:
    """Yield numbers of slots with which entry 1 and the newest would hold the header's offsets.

    All of them at once: an offset of 0 is wherever nothing is.
    """
    import numpy as np  # few geometries are not told otherwise

    offsets = [header["begin_physical_offset"], header["end_physical_offset"]]
    numbers = [FIRST_ENTRY, max(header["index_count"] - 1, FIRST_ENTRY)]
    fits: npt.NDArray[np.bool_] | None = None
    for offset, number in zip(offsets, numbers, strict=True):
        position = file_length(0, number) + INDEX_ENTRY.positions["physical_offset"]
        raw = file.read_at(position, SEARCHED_BYTES)
        if len(raw) < INDEX_SLOT.size:
            return
        words = np.frombuffer(raw[: len(raw) & -INDEX_SLOT.size], ">u4")
        high, low = divmod(offset % (1 << 64), 1 << 32)
        is_here = (words[:-1] == high) & (words[1:] == low)
        fits = is_here if fits is None else fits[: len(is_here)] & is_here[: len(fits)]
    assert fits is not None  # noqa: S101 - there are two
    for slots in np.flatnonzero(fits).tolist():
        if slots and (file.size - file_length(slots, 0)) % INDEX_ENTRY.size == 0:
            yield slots


def _agrees(file: OpenFile, header: dict[str, int], slots: int) -> bool:
    """Tell whether entries 0, 1 and the newest are where this number of slots puts them."""
    count = header["index_count"]
    if not FIRST_ENTRY <= count <= _entries(file.size, slots):
        return False
    if any(file.read_at(entry_position(slots, 0), INDEX_ENTRY.size)):
        return False
    if count == FIRST_ENTRY:
        return True
    first = _entry(file, slots, FIRST_ENTRY)
    last = _entry(file, slots, count - 1)
    if first is None or last is None or first["previous"] or first["time_difference"]:
        return False
    ends = first["physical_offset"], last["physical_offset"]
    if ends != (header["begin_physical_offset"], header["end_physical_offset"]):
        return False
    # The newest entry is the head of its own chain: a wrong number of slots sends us elsewhere.
    head = file.read_at(slot_position(abs(last["key_hash"]) % slots), INDEX_SLOT.size)
    return INDEX_SLOT["number"].of(head) == count - 1


def _entry(file: OpenFile, slots: int, number: int) -> dict[str, int] | None:
    raw = file.read_at(entry_position(slots, number), INDEX_ENTRY.size)
    return INDEX_ENTRY.parse(raw) if len(raw) == INDEX_ENTRY.size else None


def is_destroyed(end_timestamp: int, index_msg_timestamp: int) -> bool:
    """Tell whether a start after a crash deletes an index file.

    Source: IndexService#load, 4.9.3 to 5.5.1.

    Args:
        end_timestamp: of its header, ms.
        index_msg_timestamp: of the checkpoint, ms; 0 without one.
    """
    return end_timestamp > index_msg_timestamp
