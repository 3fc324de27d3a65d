"""All the ways in which clients of a real broker get at the messages of a topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

from tests.broker.broker import Broker
from tests.broker.client import Admin
from tests.broker.consumer import PushConsumer
from tests.broker.message import Received

TAG: Final = "TagA"
EXPRESSION: Final = "region = 'r1' AND TAGS IS NOT NULL"
# A query gives 64 messages at most, however many are asked for, and one key has more.
SETTINGS: Final = {"enablePropertyFilter": True, "maxMsgsNumBatch": 1024}
_OF_A_CONSUMER: Final = {"CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET"}
_MOST_QUERIES: Final = 60  # of each kind; they go one by one


def _content(one: Received) -> tuple[Any, ...]:
    """Give all that a consumer sees of a message, but for what its client adds."""
    own = {name: one.properties[name] for name in one.properties.keys() - _OF_A_CONSUMER}
    place = one.topic, one.queue_id, one.queue_offset, one.physical_offset
    return (*place, one.body, one.flag, tuple(sorted(own.items())))


def _sorted(messages: Iterable[Received]) -> list[tuple[Any, ...]]:
    return sorted(map(_content, messages))


def _some(messages: list[Received]) -> list[Received]:
    """Give messages from all over, the first and the last among them."""
    step = max(len(messages) // _MOST_QUERIES, 1)
    return [*messages[::step], messages[-1]]


def assert_found_every_way(broker: Broker, topic: str, expected: list[Received]) -> None:
    """Assert that a topic's messages are pushed, filtered, and found by key, ID and store time.

    Args:
        broker: with `SETTINGS`.
        topic: of clients.
        expected: all its messages, as pulled.
    """
    assert expected
    _pushed(broker, topic, expected)
    with Admin(broker) as admin:
        _by_key(admin, topic, expected)
        _by_id(admin, topic, expected)
        _by_time(admin, topic, expected)


def _pushed(broker: Broker, topic: str, expected: list[Received]) -> None:
    """Push all of it to one group, one tag to another, and what an SQL92 expression names."""
    tagged = [one for one in expected if one.tags == TAG]
    chosen = [one for one in expected if one.properties.get("region") == "r1" and one.tags]
    assert len(expected) > len(tagged) > 0
    assert len(expected) > len(chosen) > 0
    with ExitStack() as keep:
        wanted = (
            (PushConsumer(broker, "pushed-all", topic), expected),
            (PushConsumer(broker, "pushed-tag", topic, expression=TAG), tagged),
            (PushConsumer(broker, "pushed-sql", topic, expression=EXPRESSION, sql=True), chosen),
        )
        consumers = [(keep.enter_context(consumer), messages) for consumer, messages in wanted]
        for consumer, messages in consumers:
            assert _sorted(messages) == _sorted(consumer.wait(len(messages)))


def _by_key(admin: Admin, topic: str, expected: list[Received]) -> None:
    keyed: defaultdict[str, list[Received]] = defaultdict(list)
    for one in expected:
        for key in dict.fromkeys(one.keys):  # in an order that does not depend on hashes
            keyed[key].append(one)
    assert keyed
    most = max(keyed, key=lambda key: len(keyed[key]))
    for key in {most, *list(keyed)[:: max(len(keyed) // _MOST_QUERIES, 1)]}:
        received = admin.query(topic, key, most=len(keyed[key]) + 1)
        assert _sorted(keyed[key]) == _sorted(received)


def _by_id(admin: Admin, topic: str, expected: list[Received]) -> None:
    """By unique key, of several the first one, and by the ID that says where a message lies."""
    first: dict[str, int] = {}
    for one in expected:
        key = one.properties["UNIQ_KEY"]
        first[key] = min(first.get(key, one.physical_offset), one.physical_offset)
    for one in _some(expected):
        key = one.properties["UNIQ_KEY"]
        assert [_content(one)] * (one.physical_offset == first[key]) == [
            _content(found)
            for found in admin.query_unique(topic, key)
            if found.physical_offset == one.physical_offset
        ]
        assert _content(one) == _content(admin.view(topic, one.physical_offset))


def _by_time(admin: Admin, topic: str, expected: list[Received]) -> None:
    """A search by store time gives a message of that time in its queue.

    Of several that were stored in one millisecond 4.9.3 gives any, as its binary search meets them.
    """
    offsets: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for one in expected:
        offsets[one.queue_id, one.store_timestamp].add(one.queue_offset)
    for one in _some(expected):
        at = one.queue_id, one.store_timestamp
        assert admin.search_offset(topic, *at) in offsets[at]
