"""Ways to damage a store, to be done to a copy; the table of named damages is in `damage.py`.

A damage flips bits or sets bytes that differ, so that it never changes nothing.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tests import plain_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import TypeAlias

    from tests.plain_store import Record

    Inflict: TypeAlias = Callable[[Path], None]
    Wanted = Callable[[Record], bool]

SECTOR = 512


class NotApplicable(Exception):
    """The store has nothing that this damage could be done to."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One named damage.

    Attributes:
        name: unique in the table; begins with what it does.
        inflict: does it to the store at that path; raises NotApplicable where it cannot.
        codes: the codes that a validation finds because of it, and no others.
        needs: pattern of a path that the store must have.
        fixture: part of the fixture's name where one kind of store is needed.
        level: of the validation that finds it.
        conf: lines that are added to the broker.conf that the validation is given.
        also: codes that may follow, which depends on the release that wrote the store.
        version: of the broker that is to run on the store.
        stays: codes that a repair leaves there, beside those that none can end.
    """

    name: str
    inflict: Callable[[Path], None]
    codes: tuple[str, ...]
    needs: str = "commitlog"
    fixture: str = ""
    level: str = "full"
    conf: str = field(default="", kw_only=True)
    also: tuple[str, ...] = field(default=(), kw_only=True)
    version: str | None = field(default=None, kw_only=True)
    stays: tuple[str, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        return self.name

    def applies_to(self, store: Path) -> bool:
        """Tell whether the store has what is damaged."""
        return any(True for _ in store.glob(self.needs))


# ---- primitives -------------------------------------------------------------------------------


def write_at(path: Path, position: int, data: bytes) -> None:
    """Write into a file and leave its times alone, as expiry and time search go by them."""
    facts = path.stat()
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def read_at(path: Path, position: int, length: int) -> bytes:
    """Read from a file."""
    with path.open("rb") as file:
        file.seek(position)
        return file.read(length)


def flip_bits(path: Path, position: int, mask: int) -> None:
    """Flip the bits of one byte; never an assignment, which may change nothing."""
    write_at(path, position, bytes([read_at(path, position, 1)[0] ^ mask]))


def resize(path: Path, size: int) -> None:
    """Cut a file, or lengthen it with zeros."""
    facts = path.stat()
    os.truncate(path, size)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def set_integer(path: Path, position: int, size: int, change: Callable[[int], int]) -> None:
    """Replace a big-endian integer by a function of it."""
    old = int.from_bytes(read_at(path, position, size), "big", signed=True)
    new = change(old)
    if new == old:
        message = f"{path.name}: the change changes nothing"
        raise NotApplicable(message)
    write_at(path, position, new.to_bytes(size, "big", signed=True))


def record_at(store: Path, where: float, wanted: Wanted | None = None) -> Record:
    """Give a record by its place in the log.

    Raises:
        NotApplicable: the store has no such record.
    """
    try:
        return plain_store.nth(store, where, wanted)
    except IndexError as error:
        message = "no such record"
        raise NotApplicable(message) from error


# ---- commitlog --------------------------------------------------------------------------------


def flip_field(
    name: str, *, byte: int = -1, bit: int = 0, where: float = 0.5, wanted: Wanted | None = None
) -> Callable[[Path], None]:
    """Flip one bit of a field of a record; `byte` counts within the field."""

    def inflict(store: Path) -> None:
        record = record_at(store, where, wanted)
        position, size = record.places()[name]
        flip_bits(record.path, record.position + position + byte % size, 1 << bit)

    return inflict


def set_field(
    name: str, change: Callable[[int], int], *, where: float = 0.5, wanted: Wanted | None = None
) -> Callable[[Path], None]:
    """Replace an integer field of a record."""

    def inflict(store: Path) -> None:
        record = record_at(store, where, wanted)
        position, size = record.places()[name]
        set_integer(record.path, record.position + position, size, change)

    return inflict


def zero_sector(*, where: float = 0.5, sectors: int = 1) -> Callable[[Path], None]:
    """Zero whole sectors, which begin in the properties of one record and take the next ones."""

    def inflict(store: Path) -> None:
        log = plain_store.records(store)
        length = sectors * SECTOR
        for before, record in pairwise(log[int(where * len(log)) :]):
            begin = record.position // SECTOR * SECTOR
            tail = before.position + before.places()["properties"][0]
            room = record.path.stat().st_size - length - 4 * SECTOR
            if before.path == record.path and tail <= begin < min(record.position, room):
                write_at(record.path, begin, bytes(length))
                return
        message = "no sector begins in properties"
        raise NotApplicable(message)

    return inflict


def garbage(*, where: float = 0.5, length: int = 3000) -> Callable[[Path], None]:
    """Overwrite a stretch of the log with bytes that repeat nothing."""

    def inflict(store: Path) -> None:
        record = record_at(store, where)
        length_here = min(length, record.path.stat().st_size - record.position)
        noise = bytes((number * 167 + (number >> 8) * 59 + 13) & 0xFF for number in range(length))
        write_at(record.path, record.position, noise[:length_here])

    return inflict


def tear_tail(store: Path) -> None:
    """Zero the second half of the last record, as a crash in the middle of a write leaves it."""
    last = plain_store.records(store)[-1]
    half = last.size // 2
    write_at(last.path, last.position + half, bytes(last.size - half))


def drop_last_records(store: Path) -> None:
    """Zero the last records, as far as the checkpoint goes; what was derived from them stays."""
    log = plain_store.records(store)
    newest = log[-1].integer("store_timestamp") - 10
    if (store / "checkpoint").is_file():
        newest = min(newest, *struct.unpack(">qq", read_at(store / "checkpoint", 0, 16)))
    for record in log:
        if record.integer("store_timestamp") >= newest and record.path == log[-1].path:
            write_at(record.path, record.position, bytes(record.size))


def cut_segment(number: int, keep: Callable[[int], int]) -> Callable[[Path], None]:
    """Cut one segment short (or lengthen it), as an interrupted copy does."""

    def inflict(store: Path) -> None:
        path = segment_at(store, number)
        resize(path, keep(path.stat().st_size))

    return inflict


def append_segment(store: Path) -> None:
    """Add a segment of zeros, as a broker allocates it ahead of need."""
    last = plain_store.segments(store)[-1]
    size = last.stat().st_size
    (last.parent / f"{int(last.name) + size:020}").write_bytes(bytes(size))


def remove_segment(number: int) -> Callable[[Path], None]:
    """Delete one segment."""

    def inflict(store: Path) -> None:
        segment_at(store, number).unlink()

    return inflict


def remove_log(store: Path) -> None:
    """Delete all segments, as when the volume of the log is not mounted."""
    for path in plain_store.segments(store):
        path.unlink()


def segment_at(store: Path, number: int) -> Path:
    """Give one segment of the used ones; a middle one must have neighbours.

    Raises:
        NotApplicable: the store has too few.
    """
    used = sorted({record.path for record in plain_store.records(store)})
    if not -len(used) <= number < len(used) or (number == 1 and len(used) < 3):
        message = f"{len(used)} segments in use"
        raise NotApplicable(message)
    return used[number]


def swap_records(store: Path) -> None:
    """Exchange two neighbours of equal size in one segment."""
    log = plain_store.records(store)
    for record, two in pairwise(log):
        same_time = record.integer("store_timestamp") == two.integer("store_timestamp")
        alike = record.path == two.path and record.size == two.size and same_time
        if alike and record.is_ordinary and two.is_ordinary:
            write_at(record.path, record.position, two.raw)
            write_at(two.path, two.position, record.raw)
            return
    message = "no two neighbours of equal size"
    raise NotApplicable(message)


def stale_tail(store: Path) -> None:
    """Put an old record behind the tail, as a truncation leaves it."""
    path, position = plain_store.tail(store)
    old = plain_store.records(store)[0]
    if position + 64 + old.size + 8 > path.stat().st_size:
        message = "no room behind the tail"
        raise NotApplicable(message)
    write_at(path, position + 64, old.raw)


def edit_blank(change: Callable[[int], int]) -> Callable[[Path], None]:
    """Replace the size of the first blank."""

    def inflict(store: Path) -> None:
        path, position, _ = first_blank(store)
        set_integer(path, position, 4, change)

    return inflict


def first_blank(store: Path) -> tuple[Path, int, int]:
    """Give the first blank.

    Raises:
        NotApplicable: the log has none.
    """
    found = plain_store.blanks(store)
    if not found:
        message = "no blank"
        raise NotApplicable(message)
    return found[0]


def erase_blank(store: Path) -> None:
    """Zero the first blank's header."""
    path, position, _ = first_blank(store)
    write_at(path, position, bytes(8))


def fill_blank(store: Path) -> None:
    """Leave old bytes behind a blank's header, as recycled buffers do."""
    path, position, size = first_blank(store)
    if size < 24:
        message = "the blank is too small"
        raise NotApplicable(message)
    write_at(path, position + 8, b"\x5a" * (size - 8))


def replace_bytes(
    name: str, change: Callable[[bytes], bytes], *, where: float = 0.5, wanted: Wanted | None = None
) -> Callable[[Path], None]:
    """Replace the bytes of a field by others of the same number."""

    def inflict(store: Path) -> None:
        record = record_at(store, where, wanted)
        position, size = record.places()[name]
        old = record.bytes_of(name)
        new = change(old)
        if len(new) != size or new == old:
            message = f"{name}: the change changes nothing"
            raise NotApplicable(message)
        write_at(record.path, record.position + position, new)

    return inflict


def copy_field(name: str, *, where: float = 0.5) -> Callable[[Path], None]:
    """Give a record the field of its predecessor in the same queue."""

    def inflict(store: Path) -> None:
        record = record_at(store, where)
        before = [
            other
            for other in plain_store.records(store)
            if (other.topic, other.integer("queue_id"))
            == (record.topic, record.integer("queue_id"))
            and other.physical_offset < record.physical_offset
        ]
        if not before:
            message = "the first record of its queue"
            raise NotApplicable(message)
        position, _ = record.places()[name]
        write_at(record.path, record.position + position, before[-1].bytes_of(name))

    return inflict


def forget_light_queue(store: Path) -> None:
    """Make the numbers of all messages of a light queue unreadable, and delete the queue."""
    queues = [
        queue
        for queue in plain_store.queue_directories(store)
        if queue.parent.name.startswith("%LMQ%")
    ]
    queue = min(queues, key=lambda path: len(plain_store.units(path)))
    places = {unit.physical_offset for unit in plain_store.units(queue)}
    for record in plain_store.records(store):
        if record.physical_offset in places:
            position, _ = record.places()["properties"]
            raw = record.bytes_of("properties")
            start = raw.index(b"INNER_MULTI_QUEUE_OFFSET\x01") + 25
            write_at(record.path, record.position + position + start, b"x")
    shutil.rmtree(queue.parent)


def number_anew(store: Path) -> None:
    """Let a queue begin anew in the middle, as when it was deleted and made again."""
    log = plain_store.records(store)
    queue = short_queue(store, 6)
    topic, queue_id = queue.parent.name, int(queue.name)
    own = [r for r in log if (r.topic, r.integer("queue_id")) == (topic, queue_id)]
    later = own[len(own) // 2 :]
    codes = {unit.physical_offset: unit.tags_code for unit in plain_store.units(queue)}
    file = plain_store.numbered(queue)[0]
    write_at(file, 0, bytes(file.stat().st_size))
    for number, record in enumerate(later):
        position, _ = record.places()["queue_offset"]
        write_at(record.path, record.position + position, number.to_bytes(8, "big"))
        unit = (record.physical_offset, record.size, codes[record.physical_offset])
        write_at(file, number * plain_store.UNIT.size, plain_store.UNIT.pack(*unit))


def short_queue(store: Path, least: int) -> Path:
    """Give a client's queue that begins at 0 and fits one file.

    Raises:
        NotApplicable: there is none with so many units.
    """
    for queue in plain_store.queue_directories(store):
        files = plain_store.numbered(queue)
        own = not queue.parent.name.startswith(plain_store.SYSTEM_PREFIXES)
        is_short = own and len(files) == 1 and not int(files[0].name)
        if is_short and len(plain_store.units(queue)) >= least:
            return queue
    message = "no queue that begins at 0 and fits one file"
    raise NotApplicable(message)


# ---- consume queues ---------------------------------------------------------------------------


def in_busiest_queue(
    change: Callable[[Path, list[plain_store.Unit]], None],
) -> Callable[[Path], None]:
    """Do something to the queue of a client's topic that has the most units.

    Args:
        change: takes the queue's directory and its units.
    """

    def inflict(store: Path) -> None:
        queue = plain_store.busiest_queue(store)
        units = plain_store.units(queue)
        if len(units) < 20:
            message = "too few units"
            raise NotApplicable(message)
        change(queue, units)

    return inflict


def edit_unit(
    position: int, size: int, change: Callable[[int], int], where: float = 0.5
) -> Callable[[Path], None]:
    """Replace a field of a unit."""

    def edit(_: Path, found: list[plain_store.Unit]) -> None:
        unit = found[int(where * len(found))]
        set_integer(unit.path, unit.position + position, size, change)

    return in_busiest_queue(edit)


def put_units(
    where: float, make: Callable[[list[plain_store.Unit], int], list[tuple[int, int, int]]]
) -> Callable[[Path], None]:
    """Replace units from a place on.

    Args:
        where: fraction of the queue.
        make: gives the new ones, from all units and the number of the first to be replaced.
    """

    def put(queue: Path, found: list[plain_store.Unit]) -> None:
        first = int(where * len(found))
        for number, unit in enumerate(make(found, first), first):
            place = unit_place(queue, number)
            write_at(*place, plain_store.UNIT.pack(*unit))

    return in_busiest_queue(put)


def unit_place(queue: Path, number: int) -> tuple[Path, int]:
    """Give file and position of a unit."""
    start = number * plain_store.UNIT.size
    for path in reversed(plain_store.numbered(queue)):
        if int(path.name) <= start:
            return path, start - int(path.name)
    raise NotApplicable(queue)


def fields_of(unit: plain_store.Unit) -> tuple[int, int, int]:
    """Give the three fields of a unit."""
    return unit.physical_offset, unit.size, unit.tags_code


# ---- index ------------------------------------------------------------------------------------


def in_index(
    change: Callable[[plain_store.IndexFile], None], number: int = 0
) -> Callable[[Path], None]:
    """Do something to one index file."""

    def inflict(store: Path) -> None:
        index_files = plain_store.index_files(store)
        if not index_files or index_files[number].count < 30:
            message = "no index file with enough entries"
            raise NotApplicable(message)
        change(index_files[number])

    return inflict


def edit_entry(
    position: int, size: int, change: Callable[[int], int], *, number: int = 0
) -> Callable[[Path], None]:
    """Replace a field of the entry in the middle of an index file."""

    def edit(index: plain_store.IndexFile) -> None:
        place = index.entry_position(index.count // 2) + position
        set_integer(index.path, place, size, change)

    return in_index(edit, number)


def edit_header(
    field_name: str, change: Callable[[int], int], *, number: int = 0
) -> Callable[[Path], None]:
    """Replace a field of an index file's header."""
    places = {
        "begin_timestamp": (0, 8), "end_timestamp": (8, 8), "begin_offset": (16, 8),
        "end_offset": (24, 8), "slots": (32, 4), "count": (36, 4),
    }  # fmt: skip

    def edit(index: plain_store.IndexFile) -> None:
        set_integer(index.path, *places[field_name], change)

    return in_index(edit, number)


# ---- whole files ------------------------------------------------------------------------------


def put_file(name: str, data: bytes = b"") -> Callable[[Path], None]:
    """Create a file, or replace it; directories are made."""

    def inflict(store: Path) -> None:
        path = store / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return inflict


def remove(pattern: str) -> Callable[[Path], None]:
    """Delete what a pattern finds."""

    def inflict(store: Path) -> None:
        paths = list(store.glob(pattern))
        if not paths:
            raise NotApplicable(pattern)
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return inflict


def resize_file(pattern: str, change: Callable[[int], int]) -> Callable[[Path], None]:
    """Cut or lengthen the last file that a pattern finds."""

    def inflict(store: Path) -> None:
        path = one_file(store, pattern)
        resize(path, change(path.stat().st_size))

    return inflict


def edit_integer(
    pattern: str, position: int, size: int, change: Callable[[int], int]
) -> Callable[[Path], None]:
    """Replace an integer in the last file that a pattern finds."""

    def inflict(store: Path) -> None:
        set_integer(one_file(store, pattern), position, size, change)

    return inflict


def edit_text(pattern: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Replace the text of the last file that a pattern finds."""

    def inflict(store: Path) -> None:
        path = one_file(store, pattern)
        old = path.read_text()
        new = change(old)
        if new == old:
            message = f"{path.name}: the change changes nothing"
            raise NotApplicable(message)
        path.write_text(new)

    return inflict


def one_file(store: Path, pattern: str) -> Path:
    """Give the last file that a pattern finds.

    Raises:
        NotApplicable: it finds none.
    """
    paths = sorted(path for path in store.glob(pattern) if path.is_file())
    if not paths:
        raise NotApplicable(pattern)
    return paths[-1]


def together(steps: Iterable[Callable[[Path], None]]) -> Callable[[Path], None]:
    """Do several things, one after the other."""
    todo = tuple(steps)

    def inflict(store: Path) -> None:
        for step in todo:
            step(store)

    return inflict


def pack_integer(value: int, size: int = 8) -> bytes:
    """Give the big-endian bytes of an integer."""
    return struct.pack(">q", value)[-size:]
