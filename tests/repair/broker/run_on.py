"""A repaired store runs on: it takes more messages, and is asked for each key that it ever had."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError

from rmqtool.judge.bridge import BRIDGE_TOPIC
from tests import plain_store
from tests.broker.jvm import Jvm
from tests.plain_store import Record
from tests.repair.broker.reading import OpenStore
from tests.repair.broker.survivors import Truth
from tests.repair.broker.test_all_damages import NEW_KEY, put_one

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

MESSAGES: Final = 20
KEYS: Final = 400  # that are asked for, evenly chosen; a call takes milliseconds
MOST: Final = 64  # messages of an answer
_LATEST: Final = 2**62
_PHYSICAL_OFFSET: Final = 28  # in a record
_NOTHING: Final = -1  # zeros of a long bridge have the length 0: no client sees them


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """What a store gives for a key.

    Attributes:
        topic: that was asked for.
        key: likewise; a unique key, or one of the message's keys.
        places: physical offsets that the messages name.
    """

    topic: str
    key: str
    places: tuple[int, ...]

    def strangers(self, records: dict[int, Record]) -> list[int]:
        """Give the places of messages that have not got the key; bridges, clients pass over."""
        others = [at for at in self.places if (self.topic, self.key) not in keyed(records.get(at))]
        return [
            at for at in others if at not in records or records[at].topic != BRIDGE_TOPIC.decode()
        ]


def keyed(record: Record | None) -> set[tuple[str, str]]:
    """Give what a record is found by (`IndexService#buildIndex`): its topic with each key."""
    if record is None:
        return set()
    properties = record.properties
    keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
    return {(record.topic, key) for key in keys if key}


def put_more(jvm: Jvm, opened: OpenStore, truth: Truth) -> int:
    """Put messages, each with a key of its own; give how many the store took."""
    taken = 0
    for number in range(MESSAGES):
        key = b"%032X" % (int(NEW_KEY, 16) + number)
        with contextlib.suppress(Py4JJavaError, AssertionError, TimeoutError, StopIteration):
            put_one(jvm, opened, truth, key)
            taken += 1
    return taken


def answers(opened: OpenStore, truth: Truth) -> Iterator[KeyAnswer]:
    """Ask for keys of messages that the store has, has lost, or has just got."""
    wanted = sorted({pair for record in truth.records.values() for pair in keyed(record)})
    for topic, key in wanted[:: -(-len(wanted) // KEYS) or 1]:
        result = opened.store.queryMessage(topic, key, MOST, 0, _LATEST)
        places = tuple(at for at in map(_place, result.getMessageBufferList()) if at != _NOTHING)
        result.release()
        yield KeyAnswer(topic, key, places)


def _place(buffer: JavaObject) -> int:
    return (
        int(buffer.getLong(_PHYSICAL_OFFSET)) if buffer.remaining() > _PHYSICAL_OFFSET else _NOTHING
    )


def records_of(root: Path) -> dict[int, Record]:
    """Give the records of a store that was stopped, by physical offset."""
    return {record.physical_offset: record for record in plain_store.records(root)}
