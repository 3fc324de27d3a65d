"""Stores with bridges in the place of damaged records, made the plain way.

A bridge is a record that is inert and as long as the one it replaces. What the queue then holds
in the place of the lost message is the question: `UNITS` has the candidates, `CASES` the places.
Each case has a topic of its own, so that one store answers for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rmqtool.formats.java import string_hash
from rmqtool.formats.message import Message, encode, sealed
from tests import inflict, plain_store
from tests.broker.jvm import Jvm
from tests.plain_store import Record
from tests.startup import harm
from tests.startup.small_store import SETTINGS, Outline, write_small_store

SEGMENT: Final = int(str(SETTINGS["mappedFileSizeCommitLog"]))
FILE_UNITS: Final = int(str(SETTINGS["mappedFileSizeConsumeQueue"])) // plain_store.UNIT.size
ROLLBACK: Final = 0xC
TOPIC: Final = b"rmqtool"
_ROUNDS: Final = 70  # messages of each queue
_BODY: Final = 24

Unit = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Queue:
    """The records of one queue, by queue offset, and which of them are lost."""

    records: tuple[Record, ...]
    lost: tuple[int, ...] = ()

    def sound(self, queue_offsets: Iterator[int] | range) -> Unit | None:
        """Give the unit of the first of these records that is not lost."""
        for queue_offset in queue_offsets:
            if queue_offset not in self.lost:
                return own_unit(self.records[queue_offset])
        return None

    def following(self, queue_offset: int) -> Unit | None:
        """Give the next sound unit."""
        return self.sound(range(queue_offset + 1, len(self.records)))

    def preceding(self, queue_offset: int) -> Unit | None:
        """Give the last sound unit before."""
        return self.sound(range(queue_offset - 1, -1, -1))


def own_unit(record: Record) -> Unit:
    """Give the unit that dispatch makes of a record."""
    return record.physical_offset, record.size, string_hash(record.properties.get("TAGS", ""))


def segment_start(record: Record) -> int:
    """Give the physical offset at which the record's segment starts."""
    return record.physical_offset // SEGMENT * SEGMENT


def chosen(queue: Queue, queue_offset: int, end: int) -> Unit:
    """Give the unit that passes over a lost record and loses nothing.

    Args:
        queue: the queue.
        queue_offset: of the lost record.
        end: of the log, a physical offset.
    """
    unit = queue.following(queue_offset) or queue.preceding(queue_offset)
    if unit:
        return unit
    record = queue.records[queue_offset]
    if segment_start(record) + SEGMENT < end:
        return segment_start(record) + SEGMENT - 1, 2, 0
    return skip(queue, queue_offset, end)


def skip(queue: Queue, queue_offset: int, end: int) -> Unit:
    """Give a unit for which nothing can be read: it leads from one segment into the next.

    In the first segment there is none; then give the next sound unit.
    """
    record = queue.records[queue_offset]
    begin = segment_start(record) - 1
    if begin < 0:
        return chosen(queue, queue_offset, end)
    return begin, record.physical_offset + record.size - begin, 0


def left(queue: Queue, queue_offset: int, _: int) -> Unit:
    """Give the unit of the bridge."""
    record = queue.records[queue_offset]
    return record.physical_offset, record.size, 0


def before(queue: Queue, queue_offset: int, end: int) -> Unit:
    """Give the sound unit before, where there is one."""
    return queue.preceding(queue_offset) or chosen(queue, queue_offset, end)


def pre_blank(_: Queue, __: int, ___: int) -> Unit:
    """Give what a broker fills the front of a queue with."""
    return plain_store.PRE_BLANK


def empty(queue: Queue, queue_offset: int, _: int) -> Unit:
    """Give a unit of no bytes."""
    return queue.records[queue_offset].physical_offset, 0, 0


Choice = Callable[[Queue, int, int], Unit]


@dataclass(frozen=True, slots=True)
class Case:
    """Where records are lost in a queue.

    Attributes:
        topic: of the queue, number 0.
        lost: gives the queue offsets of the lost ones of these records.
    """

    topic: str
    lost: Callable[[Sequence[Record]], Sequence[int]]

    def __str__(self) -> str:
        return self.topic


def _at(*queue_offsets: int) -> Callable[[Sequence[Record]], Sequence[int]]:
    return lambda records: [number % len(records) for number in queue_offsets]


def _border(shift: int) -> Callable[[Sequence[Record]], Sequence[int]]:
    """Choose a record beside the border between two segments in the middle of the log."""

    def choose(records: Sequence[Record]) -> Sequence[int]:
        middle = segment_start(records[len(records) // 2])
        first = next(i for i, record in enumerate(records) if segment_start(record) == middle)
        return [first + shift]

    return choose


def _first_of_segment(records: Sequence[Record]) -> Sequence[int]:
    """Choose the record of the queue that begins a segment."""
    return [next(i for i, record in enumerate(records) if i and not record.position)]


def _bisected(records: Sequence[Record]) -> Sequence[int]:
    """Choose a record that a search through its queue file looks at first, for a border before."""
    for number in range(FILE_UNITS // 2 - 1, len(records), FILE_UNITS):
        in_file = records[number - number % FILE_UNITS : number]
        own = segment_start(records[number])
        if segment_start(in_file[0]) < own == segment_start(in_file[-1]):
            return [number]
    message = "no such record"
    raise LookupError(message)


CASES: Final = (
    Case("middle", _at(33)),
    Case("first-segment", _at(3)),
    Case("first", _at(0)),
    Case("last", _at(-1)),
    Case("first-of-file", _at(2 * FILE_UNITS)),
    Case("last-of-file", _at(2 * FILE_UNITS - 1)),
    Case("over-a-file-border", _at(2 * FILE_UNITS - 1, 2 * FILE_UNITS)),
    Case("behind-a-border", _border(0)),
    Case("before-a-border", _border(-1)),
    Case("first-of-segment", _first_of_segment),
    Case("bisected", _bisected),
    Case("run", _at(30, 31, 32, 33)),
    Case("scattered", _at(10, 12, 14, 50)),
    Case("first-three", _at(0, 1, 2)),
    Case("last-three", _at(-3, -2, -1)),
    Case("alone-first-segment", _at(0)),
    Case("alone-middle", _at(0)),
    Case("alone-last-segment", _at(0)),
)
_ALONE: Final = {"alone-first-segment": 0, "alone-middle": 35, "alone-last-segment": _ROUNDS - 1}
_FIRST_OF_SEGMENT: Final = "first-of-segment"


def outlines() -> Iterator[Outline]:
    """Yield messages to the topics of all cases in turn."""
    number = 0
    for turn in range(_ROUNDS):
        for case in CASES:
            if _ALONE.get(case.topic, turn) != turn:
                continue
            yield Outline(case.topic, 0, bytes(_BODY + number * 7 % 61), _properties(number, turn))
            number += 1


def _properties(number: int, turn: int) -> dict[str, str]:
    return {"UNIQ_KEY": f"7F000001{number:024X}", "TAGS": "AB"[turn % 2], "KEYS": f"k{number}"}


def write_store(jvm: Jvm, into: Path) -> Path:
    """Write the store of all cases with the message store of a version; no record is lost yet."""
    root = write_small_store(jvm, into, outlines())["clean"]
    harm.spread(1000)(root)
    _date_queue_files(root)
    return root


def _date_queue_files(root: Path) -> None:
    """Give queue files the time of their last message: searches of 4.9.x choose files by it."""
    times = {one.physical_offset: one.integer("store_timestamp") for one in all_records(root)}
    for directory in plain_store.queue_directories(root):
        for unit in plain_store.units(directory):
            instant = times[unit.physical_offset] * 1_000_000
            os.utime(unit.path, ns=(instant, instant))


def all_records(root: Path) -> list[Record]:
    """List the records of a store, their segments in the order of the log."""
    return plain_store.records(root)


def queues_of(root: Path) -> dict[str, Queue]:
    """Give the queue of each case's topic, with what is lost in it."""
    found: dict[str, list[Record]] = {case.topic: [] for case in CASES}
    for record in all_records(root):
        if record.topic in found:
            found[record.topic].append(record)
    return {
        case.topic: Queue(tuple(found[case.topic]), tuple(case.lost(found[case.topic])))
        for case in CASES
    }


def harm_store(queues: Mapping[str, Queue]) -> None:
    """Flip a bit of the body of each record that is to be lost."""
    for queue in queues.values():
        for queue_offset in queue.lost:
            record = queue.records[queue_offset]
            position, _ = record.places()["body"]
            inflict.flip_bits(record.path, record.position + position, 1)


def strange_units(root: Path, queues: Mapping[str, Queue]) -> list[tuple[str, int]]:
    """Give topic and queue offset of units that are neither the record's own nor the chosen one."""
    path, position = plain_store.tail(root)
    end = int(path.name) + position
    found = []
    for topic, queue in queues.items():
        units = plain_store.units(root / "consumequeue" / topic / "0")
        for queue_offset, record in enumerate(queue.records):
            wanted = own_unit(record)
            if queue_offset in queue.lost:
                wanted = chosen(queue, queue_offset, end)
            unit = units[queue_offset]
            if wanted != (unit.physical_offset, unit.size, unit.tags_code):
                found.append((topic, queue_offset))
    return found


def bridge_store(root: Path, queues: Mapping[str, Queue], choose: Choice) -> None:
    """Replace what is lost by bridges, and its units by what `choose` gives."""
    path, position = plain_store.tail(root)
    end = int(path.name) + position
    for topic, queue in queues.items():
        for queue_offset in queue.lost:
            record = queue.records[queue_offset]
            inflict.write_at(record.path, record.position, bridge(record))
            files = plain_store.numbered(root / "consumequeue" / topic / "0")
            place = queue_offset % FILE_UNITS * plain_store.UNIT.size
            unit = plain_store.UNIT.pack(*choose(queue, queue_offset, end))
            inflict.write_at(files[queue_offset // FILE_UNITS], place, unit)


def bridge(record: Record) -> bytes:
    """Give the inert record that takes the place of another."""
    empty_record = Message(
        topic_bytes=TOPIC,
        sys_flag=ROLLBACK,
        physical_offset=record.physical_offset,
        born_timestamp=record.integer("born_timestamp"),
        store_timestamp=record.integer("store_timestamp"),
    )
    room = record.size - len(encode(sealed(empty_record)))
    return encode(sealed(empty_record._replace(body=bytes(room))))
