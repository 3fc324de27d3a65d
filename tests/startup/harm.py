"""Ways to harm a store beyond those of `tests.inflict`: queues, checkpoint, index, whole files."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Harm = Callable[[Path], None]

CHECKPOINT_FIELDS: Final = ("physic", "logics", "index", "master", "confirm", "logics_offset")
HOUR_MS: Final = 3_600_000


def touch(name: str, data: bytes = b"") -> Harm:
    """Create a file."""
    return inflict.put_file(name, data)


def make_directory(name: str) -> Harm:
    """Create a directory."""

    def harm(store: Path) -> None:
        (store / name).mkdir(parents=True)

    return harm


def checkpoint(**fields: int) -> Harm:
    """Set fields of the checkpoint."""

    def harm(store: Path) -> None:
        for name, value in fields.items():
            position = 8 * CHECKPOINT_FIELDS.index(name)
            inflict.write_at(store / "checkpoint", position, struct.pack(">q", value))

    return harm


def checkpoint_at(where: float, *, shift_ms: int = 0) -> Harm:
    """Set the times of the checkpoint to the store time of a record."""

    def harm(store: Path) -> None:
        record = plain_store.nth(store, where)
        newest = record.integer("store_timestamp") + shift_ms
        checkpoint(physic=newest, logics=newest)(store)

    return harm


def checkpoint_at_segment(number: int) -> Harm:
    """Set the times of the checkpoint so that recovery would begin with a segment."""

    def harm(store: Path) -> None:
        path = plain_store.segments(store)[number]
        record = next(record for record in plain_store.records(store) if record.path == path)
        newest = record.integer("store_timestamp") + 3500  # three seconds are taken off
        checkpoint(physic=newest, logics=newest)(store)

    return harm


def logics_offset_at(where: float) -> Harm:
    """Set the checkpoint's physical offset to that of a record."""

    def harm(store: Path) -> None:
        checkpoint(logics_offset=plain_store.nth(store, where).physical_offset)(store)

    return harm


def spread(step_ms: int) -> Harm:
    """Give records and checkpoint times as of a slower broker."""

    def harm(store: Path) -> None:
        time_ms = 0
        for number, record in enumerate(plain_store.records(store)):
            position, _ = record.places()["store_timestamp"]
            time_ms = 1_700_000_000_000 + number * step_ms
            inflict.write_at(record.path, record.position + position, struct.pack(">q", time_ms))
        checkpoint(physic=time_ms, logics=time_ms)(store)

    return harm


def add_segments(count: int, *, gap: int = 0, cut: int = 0) -> Harm:
    """Add segments of zeros behind the last, as they are made in advance."""

    def harm(store: Path) -> None:
        last = plain_store.segments(store)[-1]
        length = last.stat().st_size
        for number in range(1 + gap, 1 + gap + count):
            path = last.with_name(f"{int(last.name) + number * length:020}")
            path.touch()
            os.truncate(path, length - cut)

    return harm


def rename_segment(number: int, shift: int) -> Harm:
    """Give a segment a name that is not its place."""

    def harm(store: Path) -> None:
        path = plain_store.segments(store)[number]
        path.rename(path.with_name(f"{int(path.name) + shift:020}"))

    return harm


def rename(name: str, other: str) -> Harm:
    """Give a file or directory another name."""

    def harm(store: Path) -> None:
        (store / name).rename(store / other)

    return harm


def copy(name: str, other: str) -> Harm:
    """Put a copy of a directory beside it."""

    def harm(store: Path) -> None:
        shutil.copytree(store / name, store / other)

    return harm


def remove_segments(first: int, last: int) -> Harm:
    """Delete segments by their numbers, half open."""

    def harm(store: Path) -> None:
        for path in plain_store.segments(store)[first:last]:
            path.unlink()

    return harm


def body_in_segment(number: int) -> Harm:
    """Flip a bit in the body of a record in the middle of a segment."""

    def harm(store: Path) -> None:
        path = plain_store.segments(store)[number]
        records = [record for record in plain_store.records(store) if record.path == path]
        record = next(record for record in records[len(records) // 2 :] if record.is_ordinary)
        position, _ = record.places()["body"]
        inflict.flip_bits(path, record.position + position, 1)

    return harm


def queue(store: Path, name: str = "orders/0") -> Path:
    """Give a queue's directory."""
    return store / "consumequeue" / name


def remove_queue_file(number: int, name: str = "orders/0") -> Harm:
    """Delete one file of a queue."""

    def harm(store: Path) -> None:
        plain_store.numbered(queue(store, name))[number].unlink()

    return harm


def write_units(number: int, units: list[tuple[int, int, int]], name: str = "orders/0") -> Harm:
    """Overwrite units of a queue, counted from its beginning (or, negative, its end)."""

    def harm(store: Path) -> None:
        there = plain_store.units(queue(store, name))
        for offset, unit in enumerate(units):
            old = there[number + offset]
            inflict.write_at(old.path, old.position, plain_store.UNIT.pack(*unit))

    return harm


def zero_units(number: int, count: int, name: str = "orders/0") -> Harm:
    """Zero units of a queue."""
    return write_units(number, [(0, 0, 0)] * count, name)


def append_units(count: int, name: str = "orders/0", *, beyond: int = 0) -> Harm:
    """Append units that point behind the end of the log."""

    def harm(store: Path) -> None:
        directory = queue(store, name)
        last = plain_store.units(directory)[-1]
        path, position = plain_store.tail(store)
        end = int(path.name) + position + beyond
        raw = b"".join(plain_store.UNIT.pack(end + 100 * n, 100, 0) for n in range(count))
        room = last.path.stat().st_size - last.position - 20
        inflict.write_at(last.path, last.position + 20, raw[:room])

    return harm


def behind(count: int) -> Harm:
    """Take the last units of every queue away, as when they had not been flushed."""

    def harm(store: Path) -> None:
        for directory in plain_store.queue_directories(store):
            for unit in plain_store.units(directory)[-count:]:
                inflict.write_at(unit.path, unit.position, bytes(20))

    return harm


def newest_unit_gone(store: Path) -> None:
    """Take away the unit of the newest record that has one."""
    newest = max(
        (unit for path in plain_store.queue_directories(store) for unit in plain_store.units(path)),
        key=lambda unit: unit.physical_offset,
    )
    inflict.write_at(newest.path, newest.position, bytes(20))


def only_newest(name: str) -> Harm:
    """Leave one file of a queue, and in it the newest unit alone, again and again."""

    def harm(store: Path) -> None:
        directory = queue(store, name)
        unit = plain_store.units(directory)[-1]
        for path in plain_store.numbered(directory)[:-1]:
            path.unlink()
        with unit.path.open("rb") as file:
            file.seek(unit.position)
            raw = file.read(20)
        inflict.write_at(unit.path, 0, raw * (unit.position // 20 + 1))

    return harm


def units_from(where: float, *, but: str = "") -> Harm:
    """Take away all units of records from a fraction of the log on; of one topic none."""

    def harm(store: Path) -> None:
        begin = plain_store.nth(store, where).physical_offset
        for directory in plain_store.queue_directories(store):
            for unit in plain_store.units(directory):
                if unit.physical_offset >= begin and directory.parent.name != but:
                    inflict.write_at(unit.path, unit.position, bytes(20))

    return harm


def empty_last_queue_file(name: str = "orders/0") -> Harm:
    """Make the next file of a queue, still of zeros, where the last one is cut to be full."""

    def harm(store: Path) -> None:
        files = plain_store.numbered(queue(store, name))
        path = files[-1]
        length = path.stat().st_size
        inflict.write_at(path, 0, bytes(length))

    return harm


def ghost_queue(store: Path) -> None:
    """Make a queue of a topic without messages: a full file of old units, and one of zeros."""
    directory = queue(store, "ghost/0")
    directory.mkdir(parents=True)
    length = plain_store.numbered(queue(store))[0].stat().st_size
    units = [
        plain_store.UNIT.pack(record.physical_offset, record.size, 0)
        for record in plain_store.records(store)[: length // plain_store.UNIT.size]
    ]
    (directory / f"{0:020}").write_bytes(b"".join(units))
    (directory / f"{length:020}").write_bytes(bytes(length))


def empty_queue(store: Path) -> None:
    """Make a queue with one file of zeros."""
    directory = queue(store, "ghost/0")
    directory.mkdir(parents=True)
    (directory / f"{0:020}").write_bytes(
        bytes(plain_store.numbered(queue(store))[0].stat().st_size)
    )


def last_record_rolled_back(store: Path) -> None:
    """Turn the newest record into one that goes into no queue, and take its unit away."""
    newest_unit_gone(store)
    record = plain_store.records(store)[-1]
    position, _ = record.places()["sys_flag"]
    flags = record.integer("sys_flag") | 0xC
    inflict.write_at(record.path, record.position + position, struct.pack(">i", flags))


def last_record_gone(store: Path) -> None:
    """Zero the newest record; its unit and its keys stay."""
    record = plain_store.records(store)[-1]
    inflict.write_at(record.path, record.position, bytes(record.size))


def first_body_of_segment(number: int) -> Harm:
    """Flip a bit in the body of the first record of a segment."""

    def harm(store: Path) -> None:
        path = plain_store.segments(store)[number]
        record = next(record for record in plain_store.records(store) if record.path == path)
        position, _ = record.places()["body"]
        inflict.flip_bits(path, record.position + position, 1)

    return harm


def resize_queue_file(number: int, change: int, name: str = "orders/0") -> Harm:
    """Cut or lengthen a file of a queue."""

    def harm(store: Path) -> None:
        path = plain_store.numbered(queue(store, name))[number]
        inflict.resize(path, max(path.stat().st_size + change, 0))

    return harm


def fill_queue_file(number: int, raw: bytes, name: str = "orders/0") -> Harm:
    """Overwrite the beginning of a file of a queue."""

    def harm(store: Path) -> None:
        inflict.write_at(plain_store.numbered(queue(store, name))[number], 0, raw)

    return harm


def resize_index(number: int, size: int) -> Harm:
    """Give an index file another length."""

    def harm(store: Path) -> None:
        inflict.resize(plain_store.numbered(store / "index")[number], size)

    return harm


def remove_index(number: int) -> Harm:
    """Delete an index file."""

    def harm(store: Path) -> None:
        plain_store.numbered(store / "index")[number].unlink()

    return harm


def remove(*names: str) -> Harm:
    """Delete files and directories that may be there."""

    def harm(store: Path) -> None:
        for name in names:
            path = store / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    return harm


def extension(position: int, data: bytes) -> Harm:
    """Write into the first file of an extension, or behind its end."""

    def inflict_it(store: Path) -> None:
        files = sorted(path for path in store.glob("consumequeue_ext/*/*/*") if path.is_file())
        if not files:
            message = "no extension"
            raise inflict.NotApplicable(message)
        inflict.write_at(files[0], position, data)

    return inflict_it
