"""Every message that was sent to a real broker is found by each of its names, and no other."""

from __future__ import annotations

import pytest

from rmqtool.query import ById, ByKey, ByOffset, ByQueueOffset, Lookup
from rmqtool.query.answer import BY_INDEX, BY_QUEUE
from rmqtool.query.match import SUPERFICIAL
from tests.query.expected import Expected, offsets


@pytest.fixture
def some(*, is_whole: bool) -> int:
    """Give how many records each question is asked about: more when all is asked for."""
    return 60 if is_whole else 15


def test_offset_ids(expected: Expected, lookup: Lookup) -> None:
    """The offset message ID that the broker answered names the record, in either case."""
    for line in expected.sent():
        identifier = line["offset_message_id"]
        for text in (identifier, identifier.lower()):
            assert [line["physical_offset"]] == offsets(lookup.find(ById(text)))


def test_unique_keys(expected: Expected, lookup: Lookup, some: int) -> None:
    """A unique key finds all records that a broker sees under it.

    A message whose own key hides in a batch is found nevertheless, and that it hides is said.
    """
    for line in expected.sent(10 * some):
        answer = lookup.find(ById(line["unique_key"]))
        known = expected.by_unique_key.get(line["unique_key"], [])
        if known:
            assert known == offsets(answer), line
        else:
            assert line["physical_offset"] in offsets(answer), line
            assert {hit.how for hit in answer.hits} <= SUPERFICIAL


def test_keys(expected: Expected, lookup: Lookup, some: int) -> None:
    """A key finds all records that have it, and the index says so where the broker keeps one."""
    for key in expected.key_names(5 * some):
        answer = lookup.find(ByKey(key))
        assert expected.by_key[key] == offsets(answer), key
        if expected.fixture.name.endswith("traffic"):
            assert {BY_INDEX} == {hit.found_by for hit in answer.hits}


def test_keys_of_a_topic(expected: Expected, lookup: Lookup) -> None:
    """With a topic only its records are found; each key of each message sent finds it."""
    for line in expected.sent():
        record = expected.by_offset[line["physical_offset"]]
        for key in {*line["keys"]} & {*record.properties.get("KEYS", "").split(" ")}:
            known = [
                offset
                for offset in expected.by_key[key]
                if expected.by_offset[offset].topic == record.topic
            ]
            assert known == offsets(lookup.find(ByKey(key, (record.topic,))))


def test_places(expected: Expected, lookup: Lookup, some: int) -> None:
    """Topic, queue and queue offset find the record, through the queue where there are queues."""
    for place in expected.places(10 * some):
        answer = lookup.find(ByQueueOffset(*place))
        assert [expected.by_place[place]] == offsets(answer), place
        if lookup.keeps_queues:
            assert BY_QUEUE == answer.hits[0].found_by


def test_covering(expected: Expected, lookup: Lookup, some: int) -> None:
    """Every byte of a record leads to it: the first, the last, one in between."""
    records = expected.fixture.records
    for record in records[:: max(len(records) // some, 1)]:
        start = record.physical_offset
        for physical_offset in (
            start,
            start + 1,
            start + record.size // 2,
            start + record.size - 1,
        ):
            assert [start] == offsets(lookup.find(ByOffset(physical_offset)))
