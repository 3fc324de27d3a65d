"""Named damage to consume queues, extensions, batch queues and the compaction store."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store
from tests.inflict import Damage, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.plain_store import Unit

ZERO: Final = (0, 0, 0)
NEEDS: Final = "consumequeue"
EXT_HEAD: Final = 20
BATCH_UNIT: Final = 46


def _empty_next_file(queue: Path, found: list[Unit]) -> None:
    """Add a file without a byte where the next one will be, as a full disk leaves it."""
    last = found[-1].path
    (queue / f"{int(last.name) + last.stat().st_size:020}").touch()


def _zeros_of_a_queue(store: Path) -> None:
    """Begin a queue that has no message, as a power cut leaves one that was being made."""
    topics = json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    for queue in plain_store.queue_directories(store):
        for number in range(topics.get(queue.parent.name, {}).get("writeQueueNums", 0)):
            if not (queue.parent / str(number)).exists():
                new = queue.parent / str(number) / f"{0:020}"
                new.parent.mkdir()
                new.write_bytes(bytes(plain_store.numbered(queue)[0].stat().st_size))
                return
    raise inflict.NotApplicable(store)


def _rotated(found: list[Unit], first: int) -> list[tuple[int, int, int]]:
    """Lose one unit and append all later ones in its place, as a broker does."""
    return [*map(fields_of, found[first + 1 :]), ZERO]


def _swapped(found: list[Unit], first: int) -> list[tuple[int, int, int]]:
    return [fields_of(found[first + 1]), fields_of(found[first])]


def _repeat_log_end(found: list[Unit], _: int) -> list[tuple[int, int, int]]:
    """Point far behind the log."""
    return [(found[-1].physical_offset + (1 << 40), found[-1].size, found[-1].tags_code)]


def _extra_unit(queue: Path, found: list[Unit]) -> None:
    """Append a unit that points to a record of another queue."""
    store = queue.parents[2]
    other = inflict.record_at(store, 0.2, lambda r: r.is_ordinary and r.topic != queue.parent.name)
    place = inflict.unit_place(queue, len(found))
    inflict.write_at(*place, plain_store.UNIT.pack(other.physical_offset, other.size, 0))


def _unit_behind_the_log(queue: Path, found: list[Unit]) -> None:
    path, position = plain_store.tail(queue.parents[2])
    place = inflict.unit_place(queue, len(found))
    unit = (int(path.name) + position, found[-1].size, 0)
    inflict.write_at(*place, plain_store.UNIT.pack(*unit))


def _unit_inside_a_record(_: Path, found: list[Unit]) -> None:
    unit = found[len(found) // 2]
    inflict.set_integer(unit.path, unit.position, 8, lambda old: old + 17)


def _blank_behind_real(queue: Path, found: list[Unit]) -> None:
    place = inflict.unit_place(queue, len(found))
    inflict.write_at(*place, plain_store.UNIT.pack(*plain_store.PRE_BLANK))


def _blank_first(queue: Path, found: list[Unit]) -> None:
    """Put pre-blanks where the first records' units were, as 5.4.0 leaves an incomplete rebuild."""
    for number in range(3):
        place = inflict.unit_place(queue, number)
        inflict.write_at(*place, plain_store.UNIT.pack(*plain_store.PRE_BLANK))
    assert found


def _first_elsewhere(queue: Path, found: list[Unit]) -> None:
    """Give the first record of a queue another queue id, of a log that has never expired."""
    store, place = queue.parents[2], found[0].physical_offset
    first = inflict.record_at(store, 0, lambda record: record.physical_offset == place)
    if not plain_store.is_from_0(store):
        raise inflict.NotApplicable(queue)
    position, _ = first.places()["queue_id"]
    inflict.flip_bits(first.path, first.position + position + 1, 1 << 6)


def _no_first(queue: Path, found: list[Unit]) -> None:
    """Take the queue away, too: the records that are left begin past 0."""
    _first_elsewhere(queue, found)
    shutil.rmtree(queue)


def _blank_handed_out(queue: Path, found: list[Unit]) -> None:
    """Begin with pre-blank, as brokers make it: it names the log's byte 0, which is there."""
    _first_elsewhere(queue, found)
    inflict.write_at(*inflict.unit_place(queue, 0), plain_store.UNIT.pack(*plain_store.PRE_BLANK))


def _lose_a_queue(store: Path) -> None:
    """Zero all records of a queue, and make two of its units none, of a log that never expired."""
    if not plain_store.is_from_0(store):
        raise inflict.NotApplicable(store)
    found = plain_store.units(inflict.short_queue(store, 3))
    records = {record.physical_offset: record for record in plain_store.records(store)}
    for unit in found:
        lost = records[unit.physical_offset]
        inflict.write_at(lost.path, lost.position, bytes(unit.size))
    for unit in (found[1], found[-1]):
        inflict.set_integer(unit.path, unit.position + 8, 4, lambda old: ~old)


def _drop_last(count: int) -> Callable[[Path, list[Unit]], None]:
    def drop(queue: Path, found: list[Unit]) -> None:
        for number in range(len(found) - count, len(found)):
            place = inflict.unit_place(queue, number)
            inflict.write_at(*place, bytes(plain_store.UNIT.size))

    return drop


def _drop_newest_unit(store: Path) -> None:
    """Zero the unit of the last record of the log, as if dispatch had not come to it."""
    last = plain_store.records(store)[-1]
    unit = plain_store.unit_of(store, last)
    inflict.write_at(unit.path, unit.position, bytes(plain_store.UNIT.size))


def _first_ext(store: Path) -> Path:
    return min(p for p in (store / "consumequeue_ext").rglob("*") if p.is_file())


def _edit_ext(position: int, size: int, change: Callable[[int], int]) -> inflict.Inflict:
    def edit(store: Path) -> None:
        inflict.set_integer(_first_ext(store), position, size, change)

    return edit


def _resize_bit_map(store: Path) -> None:
    """Give the first extension unit with a bit map another length, and fill what is left."""
    path = _first_ext(store)
    raw = path.read_bytes()
    position = 0
    while True:
        size, bits = struct.unpack_from(">h", raw, position)[0], raw[position + 18 : position + 20]
        if size <= 0:
            raise inflict.NotApplicable(path)
        length = int.from_bytes(bits, "big")
        following = position + size
        if length and struct.unpack_from(">h", raw, following)[0] <= 0:
            break  # the last unit: nothing behind it moves
        position = following
    inflict.write_at(path, position, struct.pack(">h", size - 1))
    inflict.write_at(path, position + 18, struct.pack(">h", length - 1))
    inflict.write_at(path, position + size - 1, b"\xff\xff\0")


def _batch_file(store: Path) -> Path:
    paths = [p for p in (store / "batchconsumequeue").rglob("*") if p.is_file()]
    return max(paths, key=lambda p: len(p.read_bytes().rstrip(b"\0")))


def _edit_batch(position: int, size: int, change: Callable[[int], int]) -> inflict.Inflict:
    def edit(store: Path) -> None:
        inflict.set_integer(_batch_file(store), 3 * BATCH_UNIT + position, size, change)

    return edit


def _next_batch_file(size: int) -> inflict.Inflict:
    """Add a file after the last one, which is full: a broker takes the queue for empty then."""

    def change(store: Path) -> None:
        last = plain_store.numbered(_batch_file(store).parent)[-1]
        length = last.stat().st_size
        if not any(last.read_bytes()[-BATCH_UNIT:]):
            raise inflict.NotApplicable(store)
        (last.parent / f"{int(last.name) + length:020}").write_bytes(bytes(size * length))

    return change


def _drop_batch_unit(store: Path) -> None:
    path = _batch_file(store)
    raw = path.read_bytes()
    inflict.write_at(path, BATCH_UNIT * 3, raw[BATCH_UNIT * 4 :] + bytes(BATCH_UNIT))


def _lmq_unit(store: Path) -> None:
    """Point a light queue's unit to a record that does not ask for it."""
    queue = next(
        d for d in plain_store.queue_directories(store) if d.parent.name.startswith("%LMQ%")
    )
    unit = plain_store.units(queue)[-1]
    other = inflict.record_at(store, 0.0, lambda r: "INNER_MULTI_DISPATCH" not in r.properties)
    following = plain_store.UNIT.pack(other.physical_offset, other.size, 0)
    inflict.write_at(unit.path, unit.position + plain_store.UNIT.size, following)


QUEUES: Final[list[Damage]] = [
    Damage("flip-unit-offset", inflict.edit_unit(0, 8, lambda v: v ^ 1), ("CQ-NOREC",), NEEDS),
    Damage("flip-unit-size", inflict.edit_unit(8, 4, lambda v: v ^ 4), ("CQ-MISMATCH",), NEEDS),
    Damage("flip-unit-tags", inflict.edit_unit(12, 8, lambda v: v ^ 4), ("CQ-TAG",), NEEDS),
    Damage("negative-unit", inflict.edit_unit(0, 8, lambda v: ~v), ("CQ-HOLE",), NEEDS),
    Damage(
        "unit-in-a-record", inflict.in_busiest_queue(_unit_inside_a_record), ("CQ-NOREC",), NEEDS
    ),
    Damage("empty-queue-file", inflict.in_busiest_queue(_empty_next_file), ("FS-LEN",), NEEDS),
    Damage("zero-unit", inflict.put_units(0.5, lambda *_: [ZERO]), ("CQ-HOLE",), NEEDS),
    Damage("zero-units", inflict.put_units(0.1, lambda *_: [ZERO] * 9), ("CQ-HOLE",), NEEDS),
    Damage("lose-a-unit", inflict.put_units(0.4, _rotated), ("CQ-SHIFT",), NEEDS),
    Damage("swap-units", inflict.put_units(0.6, _swapped), ("CQ-ORDER",), NEEDS),
    Damage("wild-unit", inflict.put_units(0.3, _repeat_log_end), ("CQ-RANGE",), NEEDS),
    Damage(
        "unit-behind-the-log", inflict.in_busiest_queue(_unit_behind_the_log), ("CQ-RANGE",), NEEDS
    ),
    Damage("unit-too-many", inflict.in_busiest_queue(_extra_unit), ("CQ-MISMATCH",), NEEDS),
    Damage(
        "pre-blank-behind", inflict.in_busiest_queue(_blank_behind_real), ("CQ-PREBLANK",), NEEDS
    ),
    Damage("pre-blank-first", inflict.in_busiest_queue(_blank_first), ("CQ-GAP",), NEEDS),
    Damage("lose-first-of-queue", inflict.in_busiest_queue(_no_first), ("CQ-GAP",), NEEDS),
    Damage(
        "pre-blank-handed-out",
        inflict.in_busiest_queue(_blank_handed_out),
        ("CQ-PREBLANK", "CQ-GAP"),
        NEEDS,
    ),
    Damage("zeros-of-a-queue", _zeros_of_a_queue, ("CQ-EMPTY",), NEEDS),
    Damage("lose-a-queue-and-a-unit", _lose_a_queue, ("CL-MAGIC", "CQ-HOLE"), NEEDS),
    Damage("lose-last-units", inflict.in_busiest_queue(_drop_last(5)), ("CQ-GAP",), NEEDS),
    Damage("lose-newest-unit", _drop_newest_unit, ("CQ-LAG",), NEEDS, fixture="4.9.3-traffic"),
    Damage(
        "lose-newest-unit-for-good", _drop_newest_unit, ("CQ-GAP",), NEEDS, fixture="5.3.3-traffic"
    ),
    Damage("remove-all-queues", inflict.remove("consumequeue/*"), ("CQ-GAP",), NEEDS),
    Damage(
        "remove-a-queue",
        inflict.remove("consumequeue/traffic-orders/1"),
        ("CQ-GAP",),
        NEEDS,
        fixture="traffic",
    ),
    Damage(
        "remove-a-queue-file",
        inflict.remove("consumequeue/traffic-orders/1/00000000000000002000"),
        ("FS-GAP",),
        NEEDS,
        fixture="traffic",
    ),
    Damage(
        "cut-a-queue-file",
        inflict.resize_file("consumequeue/traffic-orders/1/00000000000000002000", lambda v: v - 40),
        ("FS-LEN",),
        NEEDS,
        fixture="traffic",
    ),
    Damage("flip-lmq-unit", _lmq_unit, ("CQ-LMQ",), NEEDS, fixture="4.9.3-lmq"),
    Damage(
        "flip-ext-size",
        _edit_ext(0, 2, lambda v: v + 1),
        ("CX-SIZE", "CQ-EXTADDR"),
        "consumequeue_ext",
        fixture="4.9.3-ext",
    ),
    Damage(
        "flip-ext-tags",
        _edit_ext(2, 8, lambda v: v ^ 1),
        ("CQ-EXTADDR",),
        "consumequeue_ext",
        fixture="4.9.3-ext",
    ),
    Damage(
        "flip-ext-time",
        _edit_ext(10, 8, lambda v: v ^ 1),
        ("CQ-EXTADDR",),
        "consumequeue_ext",
        fixture="-ext",
        level="deep",
    ),
    Damage(
        "short-bit-map", _resize_bit_map, ("CX-BITMAP",), "consumequeue_ext", fixture="4.9.3-ext"
    ),
    Damage(
        "remove-ext",
        inflict.remove("consumequeue_ext"),
        ("CQ-EXTADDR",),
        "consumequeue_ext",
        fixture="4.9.3-ext",
    ),
    Damage(
        "flip-batch-unit",
        _edit_batch(28, 8, lambda v: v + 1),
        ("BQ-UNIT",),
        "batchconsumequeue",
        fixture="batch-queue",
    ),
    Damage(
        "zeros-after-a-batch-queue",
        _next_batch_file(1),
        ("CQ-EMPTY",),
        "batchconsumequeue",
        fixture="batch-queue",
    ),
    Damage(
        "empty-batch-file",
        _next_batch_file(0),
        ("FS-LEN",),
        "batchconsumequeue",
        fixture="batch-queue",
    ),
    Damage(
        "lose-batch-unit",
        _drop_batch_unit,
        ("BQ-UNIT",),
        "batchconsumequeue",
        fixture="batch-queue",
    ),
    Damage(
        "lone-compaction-log",
        inflict.put_file("compaction/compactionLog/T/0/00000000000000000000", bytes(460)),
        ("CC-PAIR",),
    ),
]
