"""What a damaged store still holds, and which of it a broker delivers.

`Truth` is taken from the sound store: which record each queue offset stands for. What of it is
left is decided by the bytes alone: a record is undamaged when none of them has changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rmqtool import repair
from rmqtool.broker.names import is_made_by_brokers
from rmqtool.formats.rocksdb_queue import queue_of_unit
from tests import inflict, plain_store, rocksdb
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.jvm import Jvm
from tests.plain_store import Record
from tests.repair.broker.reading import OpenStore
from tests.stores import broker_conf, fixture_store, manifest

QueueKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage, and whether a file of the log is to be made up for it."""

    name: str
    inflict: Callable[[Path], None]
    bridge_missing: bool = False
    in_sample: bool = False

    def __str__(self) -> str:
        return self.name


def _first_record(number: int) -> Callable[[Path], None]:
    """Flip a bit of the body of the first record of a segment."""

    def inflict_it(store: Path) -> None:
        path = inflict.segment_at(store, number)
        first = next(record for record in plain_store.records(store) if record.path == path)
        position, size = first.places()["body"]
        inflict.flip_bits(path, first.position + position + size // 2, 1)

    return inflict_it


def _queues_gone(store: Path) -> None:
    """Delete all queues; a topic that is configured no more counts as deleted, so keep these."""
    topics = json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    for directory in [*store.glob("consumequeue/*"), *store.glob("batchconsumequeue/*")]:
        if directory.name in topics or is_made_by_brokers(directory.name):
            shutil.rmtree(directory)


DAMAGES: Final = (
    Damage("one bit of a body, early", inflict.flip_field("body", where=0.2)),
    Damage("one bit of a body", inflict.flip_field("body", where=0.5), in_sample=True),
    Damage("one bit of the newest body", inflict.flip_field("body", where=0.999)),
    Damage("one bit of a length", inflict.flip_field("total_size", where=0.5)),
    Damage("one bit of a magic code", inflict.flip_field("magic_code", where=0.5)),
    Damage("one bit of a topic's length", inflict.flip_field("topic_length", where=0.4)),
    Damage("first record of a segment", _first_record(1), in_sample=True),
    Damage("a sector of zeros", inflict.zero_sector(where=0.5)),
    Damage("twenty sectors of zeros", inflict.zero_sector(where=0.4, sectors=20), in_sample=True),
    Damage("3,000 bytes of garbage", inflict.garbage(where=0.6)),
    Damage("torn tail", inflict.tear_tail),
    Damage("blank gone", inflict.erase_blank),
    Damage("segment cut to half", inflict.cut_segment(1, lambda size: size // 2)),
    Damage("segment missing", inflict.remove_segment(1), bridge_missing=True),
    Damage("queues gone", _queues_gone),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The sound store.

    Attributes:
        records: by physical offset.
        queues: physical offsets in the order of queue offsets.
    """

    records: Mapping[int, Record]
    queues: Mapping[QueueKey, tuple[int, ...]]

    @classmethod
    def of(cls, root: Path) -> Truth:
        """Read a sound store."""
        records = {record.physical_offset: record for record in plain_store.records(root)}
        queues = {}
        for directory in plain_store.queue_directories(root):
            units = plain_store.units(directory)
            placed = [
                unit.physical_offset for unit in units if unit.size != plain_store.PRE_BLANK[1]
            ]
            if placed[:1] != [0] or 0 in records:  # once 0 has expired, it is the oldest record
                queues[_key(directory)] = tuple(one for one in placed if one in records)
        for directory in sorted((root / "batchconsumequeue").glob("*/*")):
            key = _key(directory)
            queues[key] = tuple(at for at, record in records.items() if _queue_of(record) == key)
        if (root / "consumequeue" / "CURRENT").exists():
            queues |= _in_rocksdb(root / "consumequeue", records)
        return cls(records, queues)

    def undamaged(self, root: Path) -> set[int]:
        """Give the physical offsets of the records that lie unchanged in a damaged store."""
        logs = {path.name: path.read_bytes() for path in plain_store.segments(root)}
        return {
            physical_offset
            for physical_offset, record in self.records.items()
            if logs.get(record.path.name, b"")[record.position : record.position + record.size]
            == record.raw
        }

    def unused(self, root: Path) -> set[str]:
        """Give the segments behind the last record, which are made in advance and may go."""
        end = max(self.records)
        return {
            path.relative_to(root).as_posix()
            for path in (root / "commitlog").iterdir()
            if int(path.name) > end
        }

    def expected(self, root: Path) -> dict[QueueKey, list[int]]:
        """Give what each queue of a damaged store has to deliver."""
        return self.of_queues(self.undamaged(root))

    def of_queues(self, places: set[int]) -> dict[QueueKey, list[int]]:
        """Give some records by queue, in the order of queue offsets."""
        return {key: [at for at in queue if at in places] for key, queue in self.queues.items()}


def _in_rocksdb(directory: Path, records: Mapping[int, Record]) -> dict[QueueKey, tuple[int, ...]]:
    queues: dict[QueueKey, list[int]] = {}
    for key, value in rocksdb.rows_of(directory, "consumequeue")["default"]:
        topic, queue_id = queue_of_unit(key, value)
        at = int.from_bytes(value[:8], "big")
        queues.setdefault((topic.decode(), queue_id), []).extend([at] if at in records else [])
    return {name: tuple(places) for name, places in queues.items()}


def _key(directory: Path) -> QueueKey:
    return directory.parent.name, int(directory.name)


def _queue_of(record: Record) -> QueueKey:
    return record.topic, record.integer("queue_id")


def settings_of(name: str) -> dict[str, object]:
    """Give the settings of a fixture for tests years later."""
    return {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS, "haListenPort": 0}


def damaged_store(name: str, into: Path, damage: Damage) -> tuple[Truth, Path]:
    """Unpack a fixture and damage it; raises NotApplicable where that cannot be done."""
    root = fixture_store(name, into)
    truth = Truth.of(root)
    damage.inflict(root)
    return truth, root


def repair_in_place(name: str, root: Path, version: str, damage: Damage) -> repair.plans.Plan:
    """Repair as a user would who names release and configuration."""
    plan = repair.plan(
        root,
        broker_version=version,
        broker_conf=str(broker_conf(name)),
        bridge_missing=damage.bridge_missing,
    )
    repair.apply(plan, in_place=True)
    return plan


def delivered(
    opened: OpenStore, truth: Truth, new: dict[QueueKey, int] | None = None
) -> Iterator[tuple[QueueKey, list[int]]]:
    """Yield what each queue delivers; nothing where the store was not loaded.

    What lies past the log as it was is left out, but for the message that was put: a store of
    4.9.3 runs DefaultMessageStore's ScheduleMessageService, which appends copies of delayed
    messages as they become due, sooner or later after the start.
    """
    last = max(truth.records, default=-1)
    for key in truth.queues:
        own = (new or {}).get(key)
        got = opened.all_of(*key) if opened.loads else []
        yield key, [one for one in got if one <= last or one == own]


def open_store(jvm: Jvm, root: Path, name: str) -> OpenStore:
    """Open a fixture's store."""
    return OpenStore(jvm, root, settings_of(name))
