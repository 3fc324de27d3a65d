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

    from tests.plain_store import Record

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
        conf: lines of a broker.conf that the validation is given.
    """

    name: str
    inflict: Callable[[Path], None]
    codes: tuple[str, ...]
    needs: str = "commitlog"
    fixture: str = ""
    level: str = "full"
    conf: str = field(default="")

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
    """Zero whole sectors, the first of which holds the start of a record."""

    def inflict(store: Path) -> None:
        record = record_at(store, where)
        begin = record.position // SECTOR * SECTOR
        length = min(sectors * SECTOR, record.path.stat().st_size - begin)
        write_at(record.path, begin, bytes(length))

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


def drop_last_record(store: Path) -> None:
    """Zero the last record; whatever was derived from it stays."""
    last = plain_store.records(store)[-1]
    write_at(last.path, last.position, bytes(last.size))


def cut_segment(number: int, keep: Callable[[int], int]) -> Callable[[Path], None]:
    """Cut one segment short (or lengthen it), as an interrupted copy does."""

    def inflict(store: Path) -> None:
        path = segment_at(store, number)
        resize(path, keep(path.stat().st_size))

    return inflict


def remove_segment(number: int) -> Callable[[Path], None]:
    """Delete one segment."""

    def inflict(store: Path) -> None:
        segment_at(store, number).unlink()

    return inflict


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
    for one, two in pairwise(log):
        if one.path == two.path and one.size == two.size and one.is_ordinary and two.is_ordinary:
            write_at(one.path, one.position, two.raw)
            write_at(two.path, two.position, one.raw)
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
        found = list(store.glob(pattern))
        if not found:
            raise NotApplicable(pattern)
        for path in found:
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
    found = sorted(path for path in store.glob(pattern) if path.is_file())
    if not found:
        raise NotApplicable(pattern)
    return found[-1]


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
