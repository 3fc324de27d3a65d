"""Faults that real machines and people inflict on stores, chosen at random and repeatable.

Each function takes a store, which is sound but for earlier faults, and dice; it changes the store
and says what it did. `FAULTS` is the table that campaigns draw from.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import numpy as np

from tests import inflict, plain_store
from tests.inflict import NotApplicable
from tests.plain_store import INDEX_ENTRY, INDEX_HEADER, Record

Dice: TypeAlias = np.random.Generator
Fault: TypeAlias = Callable[[Path, Dice], str]
Thing = TypeVar("Thing")

SECTOR: Final = 512
UNIT: Final = plain_store.UNIT.size
FIELDS: Final = (
    "total_size", "magic_code", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset",
    "sys_flag", "born_timestamp", "born_host", "store_timestamp", "store_host",
    "reconsume_times", "prepared_transaction_offset", "body_length", "body", "topic_length",
    "topic", "properties_length", "properties",
)  # fmt: skip
TEXTS: Final = (b"{", b"<nil>", bytes(64), b"")  # what is left of a JSON file


def chosen(things: Sequence[Thing], dice: Dice) -> Thing:
    """Choose one of several things.

    Raises:
        NotApplicable: there is none.
    """
    if not things:
        message = "nothing to choose from"
        raise NotApplicable(message)
    return things[int(dice.integers(len(things)))]


def files(store: Path, pattern: str) -> list[Path]:
    """List the files that match and have a byte, in a stable order."""
    return sorted(path for path in store.glob(pattern) if path.is_file() and path.stat().st_size)


def _all(store: Path) -> list[Path]:
    return [file for file in files(store, "**/*") if file.name not in {"lock", "abort"}]


def _named(store: Path, path: Path) -> str:
    return str(path.relative_to(store))


def _records(store: Path) -> list[Record]:
    records = plain_store.records(store)
    if not records:
        message = "no records"
        raise NotApplicable(message)
    return records


# ---- the medium -------------------------------------------------------------------------------


def one_bit(store: Path, dice: Dice) -> str:
    """Flip a bit of any file."""
    path = chosen(_all(store), dice)
    position = int(dice.integers(path.stat().st_size))
    inflict.flip_bits(path, position, 1 << int(dice.integers(8)))
    return f"bit of {_named(store, path)} at {position}"


def bit_of_field(store: Path, dice: Dice) -> str:
    """Flip a bit of a field of a record; all fields come in turn."""
    record, name = chosen(_records(store), dice), chosen(FIELDS, dice)
    position, size = record.places()[name]
    if not size:
        message = f"no {name}"
        raise NotApplicable(message)
    place = record.position + position + int(dice.integers(size))
    inflict.flip_bits(record.path, place, 1 << int(dice.integers(8)))
    return f"bit of {name} of the record at {record.physical_offset}"


def zero_stretch(store: Path, dice: Dice) -> str:
    """Zero whole sectors of the log, or of any file."""
    path = chosen(files(store, "commitlog/*") if dice.integers(2) else _all(store), dice)
    size = path.stat().st_size
    begin = int(dice.integers(size)) // SECTOR * SECTOR
    length = min(chosen((1, 4, 20, 200), dice) * SECTOR, size - begin)
    inflict.write_at(path, begin, bytes(length))
    return f"zeros in {_named(store, path)} [{begin}, {begin + length})"


def misdirected_write(store: Path, dice: Dice) -> str:
    """Write a stretch of a file to another place of the same file."""
    path = chosen(_all(store), dice)
    size = path.stat().st_size
    source, target = (int(dice.integers(size)) // SECTOR * SECTOR for _ in range(2))
    length = min(chosen((1, 8, 64), dice) * SECTOR, size - max(source, target))
    inflict.write_at(path, target, inflict.read_at(path, source, length))
    return f"{_named(store, path)} [{source}, {source + length}) again at {target}"


def garbage(store: Path, dice: Dice) -> str:
    """Write random bytes over a stretch of any file."""
    path = chosen(_all(store), dice)
    size = path.stat().st_size
    begin = int(dice.integers(size))
    length = min(chosen((4, 20, 512, 4096), dice), size - begin)
    inflict.write_at(path, begin, dice.bytes(length))
    return f"noise in {_named(store, path)} [{begin}, {begin + length})"


# ---- files ------------------------------------------------------------------------------------


def cut(store: Path, dice: Dice) -> str:
    """Cut a file anywhere, sometimes to nothing."""
    path = chosen(_all(store), dice)
    keep = chosen((0, int(dice.integers(path.stat().st_size))), dice)
    inflict.resize(path, keep)
    return f"{_named(store, path)} cut to {keep}"


def lengthen(store: Path, dice: Dice) -> str:
    """Append zeros, or one byte."""
    path = chosen(_all(store), dice)
    size = path.stat().st_size
    more = chosen((1, 20, 4096), dice)
    inflict.resize(path, size + more)
    if more == 1:
        inflict.write_at(path, size, b"\x01")
    return f"{_named(store, path)} longer by {more}"


def lose_segment(store: Path, dice: Dice) -> str:
    """Delete a segment."""
    path = chosen(plain_store.segments(store), dice)
    path.unlink()
    return f"{_named(store, path)} deleted"


def lose_file(store: Path, dice: Dice) -> str:
    """Delete a file that is not of the log."""
    path = chosen([path for path in _all(store) if "commitlog" not in path.parts], dice)
    path.unlink()
    return f"{_named(store, path)} deleted"


def lose_queue(store: Path, dice: Dice) -> str:
    """Delete a queue, of whatever kind."""
    path = chosen(sorted(store.glob("*consumequeue/*/*")), dice)
    shutil.rmtree(path)
    return f"{_named(store, path)} deleted"


def swap(store: Path, dice: Dice) -> str:
    """Exchange the names of two files of one kind."""
    kind = chosen(("commitlog/*", "consumequeue/*/*/*", "index/*", "config/*"), dice)
    one = chosen(files(store, kind), dice)
    other = chosen([path for path in files(store, kind) if path != one], dice)
    aside = store / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    return f"{_named(store, one)} and {_named(store, other)} exchanged"


def copy_over(store: Path, dice: Dice) -> str:
    """Copy a file over another one of its kind, or to a numeric name of its own."""
    kind = chosen(("commitlog/*", "consumequeue/*/*/*", "index/*"), dice)
    path = chosen(files(store, kind), dice)
    size = path.stat().st_size
    target = chosen(files(store, kind), dice)
    if dice.integers(2) and path.name.isdecimal():
        names = (int(target.name) + size, int(target.name) + 4096, int(target.name) + 7)
        target = target.with_name(f"{chosen(names, dice):020}")
    if target == path:
        message = "the same file"
        raise NotApplicable(message)
    shutil.copy2(path, target)
    return f"{_named(store, path)} copied to {_named(store, target)}"


def empty_file(store: Path, dice: Dice) -> str:
    """Add a file without a byte where the next one would be."""
    last = chosen(files(store, "commitlog/*") + files(store, "consumequeue/*/*/*"), dice)
    path = last.with_name(f"{int(last.name) + last.stat().st_size:020}")
    path.touch()
    return f"{_named(store, path)} empty"


def spoil_json(store: Path, dice: Dice) -> str:
    """Leave nothing of a JSON file that can be read, and as often of its copy neither."""
    path = chosen([*files(store, "config/*.json")], dice)
    text = chosen((*TEXTS, path.read_bytes()[: path.stat().st_size // 2]), dice)
    path.write_bytes(text)
    copy = path.with_name(path.name + ".bak")
    if dice.integers(2) and copy.is_file():
        copy.write_bytes(text)
    return f"{_named(store, path)} is {text[:8]!r}"


# ---- another moment ---------------------------------------------------------------------------


def older_queue(store: Path, dice: Dice) -> str:
    """Put a queue back as it was at an earlier moment."""
    directory = chosen(plain_store.queue_directories(store), dice)
    moment = _moment(store, dice)
    _queue_as_of(directory, moment)
    return f"{_named(store, directory)} as of {moment}"


def older_index(store: Path, dice: Dice) -> str:
    """Put the index back as it was at an earlier moment."""
    moment = _moment(store, dice)
    _index_as_of(store, moment)
    return f"index as of {moment}"


def copied_while_running(store: Path, dice: Dice) -> str:
    """Give each kind of file another moment, as a copy takes them one after the other."""
    moments = sorted(_moment(store, dice) for _ in range(3))
    order = dice.permutation(3)
    _log_as_of(store, moments[order[0]])
    for directory in plain_store.queue_directories(store):
        _queue_as_of(directory, moments[order[1]])
    _index_as_of(store, moments[order[2]])
    (store / "abort").touch()
    names = ("log", "queues", "index")
    return ", ".join(f"{names[k]} as of {moments[order[k]]}" for k in range(3))


def _moment(store: Path, dice: Dice) -> int:
    """Choose a place of the log in its newer half: what is before it was there."""
    records = _records(store)
    return chosen(records[len(records) // 2 :], dice).physical_offset


def _log_as_of(store: Path, moment: int) -> None:
    for path in plain_store.segments(store):
        begin, size = int(path.name), path.stat().st_size
        if begin > moment:
            path.unlink()
        elif begin + size > moment:
            inflict.write_at(path, moment - begin, bytes(begin + size - moment))


def _queue_as_of(directory: Path, moment: int) -> None:
    for path in plain_store.numbered(directory):
        raw = path.read_bytes()
        units = [
            raw[at : at + UNIT] if struct.unpack_from(">q", raw, at)[0] < moment else bytes(UNIT)
            for at in range(0, len(raw) - UNIT + 1, UNIT)
        ]
        inflict.write_at(path, 0, b"".join(units))


def _index_as_of(store: Path, moment: int) -> None:
    for file in plain_store.index_files(store):
        raw = bytearray(file.path.read_bytes())
        count = 1
        last = (file.header[0], file.header[2])
        first = INDEX_HEADER.size + 4 * file.slots
        slots = np.zeros(file.slots, ">i4")
        for number in range(1, file.count):
            place = first + INDEX_ENTRY.size * number
            key_hash, physical_offset, seconds, _ = INDEX_ENTRY.unpack_from(raw, place)
            if physical_offset >= moment:
                raw[place : place + INDEX_ENTRY.size] = bytes(INDEX_ENTRY.size)
                continue
            slots[key_hash % file.slots] = number
            count, last = number + 1, (file.header[0] + 1000 * seconds, physical_offset)
        if count == 1:
            file.path.unlink()
            continue
        used = int(np.count_nonzero(slots))
        header = (file.header[0], last[0], file.header[2], last[1], used, count)
        raw[: INDEX_HEADER.size] = INDEX_HEADER.pack(*header)
        raw[INDEX_HEADER.size : first] = slots.tobytes()
        facts = file.path.stat()
        file.path.write_bytes(raw)
        os.utime(file.path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


FAULTS: Final[tuple[Fault, ...]] = (
    one_bit, bit_of_field, bit_of_field, bit_of_field, zero_stretch, zero_stretch,
    misdirected_write, garbage, cut, lengthen, lose_segment, lose_file, lose_queue, swap,
    copy_over, empty_file, spoil_json, older_queue, older_index, copied_while_running,
)  # fmt: skip


def harm(store: Path, dice: Dice, count: int) -> tuple[str, ...]:
    """Inflict some faults, one after the other; what cannot be done is drawn again.

    Returns:
        what was done, a text each.
    """
    done: list[str] = []
    while len(done) < count:
        fault = chosen(FAULTS, dice)
        try:
            done.append(f"{fault.__name__}: {fault(store, dice)}")
        except (NotApplicable, OSError, ValueError, struct.error, IndexError):
            continue  # an earlier fault has left nothing of the kind that this one harms
    return tuple(done)
