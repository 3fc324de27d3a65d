"""What lookups in a fixture must give, from the plain reader alone."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

from rmqtool.query import Answer
from tests.truth.fixture import Fixture
from tests.truth.plain_reader import Record, multi_dispatch

Place = tuple[str, int, int]


class Expected:
    """One fixture, with its records by every name they can be asked for.

    Args:
        fixture: to be looked up in.
    """

    def __init__(self, fixture: Fixture) -> None:
        self.fixture = fixture

    @cached_property
    def by_offset(self) -> dict[int, Record]:
        """Records by their physical offset."""
        return {record.physical_offset: record for record in self.fixture.records}

    @cached_property
    def by_unique_key(self) -> dict[str, list[int]]:
        """Physical offsets by the unique key that brokers see."""
        found = defaultdict(list)
        for record in self.fixture.records:
            if unique_key := record.properties.get("UNIQ_KEY"):
                found[unique_key].append(record.physical_offset)
        return found

    @cached_property
    def by_key(self) -> dict[str, list[int]]:
        """Physical offsets by key and by unique key."""
        found = defaultdict(list)
        for record in self.fixture.records:
            stored = record.properties
            names = {*filter(None, stored.get("KEYS", "").split(" ")), stored.get("UNIQ_KEY", "")}
            for name in names - {""}:
                found[name].append(record.physical_offset)
        return found

    @cached_property
    def by_place(self) -> dict[Place, int]:
        """Physical offsets by topic, queue and queue offset; each message of a batch has one."""
        found: dict[Place, int] = {}
        has_light = self.fixture.is_on("enableMultiDispatch")
        for record in self.fixture.records:
            base = int(record.properties.get("INNER_BASE", record.fields["queue_offset"]))
            queue = record.topic, int(record.fields["queue_id"])
            for number in range(int(record.properties.get("INNER_NUM", "1"))):
                found[*queue, base + number] = record.physical_offset
            light_places = multi_dispatch(record, self.fixture.rules) if has_light else ()
            for light, queue_offset in light_places:
                found[*light, queue_offset] = record.physical_offset
        return found

    def sent(self, most: int | None = None) -> list[dict[str, Any]]:
        """Give messages that were sent and are still there; an even sample when they are many."""
        alive = [line for line in self.fixture.sent if line["physical_offset"] in self.by_offset]
        step = 1 if most is None else max(len(alive) // most, 1)
        return alive[::step]

    def key_names(self, most: int) -> list[str]:
        """Give a sample of all keys."""
        names = sorted(self.by_key)
        return names[:: max(len(names) // most, 1)]

    def places(self, most: int) -> list[Place]:
        """Give a sample of all places of queues."""
        places = sorted(self.by_place)
        return places[:: max(len(places) // most, 1)]


def offsets(answer: Answer) -> list[int]:
    """Give the physical offsets of an answer."""
    return [hit.record.physical_offset for hit in answer.hits]
