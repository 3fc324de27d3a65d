"""Real consumers of real brokers read what `repair` made: pushed to, pulling, by tags, by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import Broker, conf_text, running_broker
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.jvm import Jvm
from tests.broker.message import Outgoing, Received
from tests.broker.producer import Producer
from tests.repair.broker import bridges
from tests.repair.broker.bridges import Queue
from tests.repair.broker.conftest import sampled
from tests.startup.small_store import SETTINGS

pytestmark = pytest.mark.broker

_KEPT: Final = {"fileReservedTime": YEARS_IN_HOURS, "timerWheelEnable": False}

Place = tuple[str, int]  # topic, physical offset


class ManyTopics(PushConsumer):
    """A consumer that several topics are pushed to."""

    def __init__(self, broker: Broker, group: str, topics: Sequence[str], expression: str) -> None:
        super().__init__(broker, group, topics[0], expression=expression)
        for topic in topics[1:]:
            self._client.subscribe(topic, expression)


@pytest.fixture(params=sampled("5.5.0"))
def version(request: pytest.FixtureRequest) -> str:
    """Give a version of brokers and consumers."""
    return str(request.param)


@pytest.fixture
def queues(version: str, tmp_path: Path) -> dict[str, Queue]:
    """Write a store with damaged records to `tmp_path/store`, and repair it."""
    with Jvm(version, tmp_path / "writer") as jvm:
        written = bridges.write_store(jvm, tmp_path)
    root = written.rename(tmp_path / "store")
    queues = bridges.queues_of(root)
    bridges.harm_store(queues)
    conf = tmp_path / "repair.conf"
    conf.write_text(conf_text(SETTINGS), encoding="utf-8")
    plan = repair.plan(root, broker_version=version, broker_conf=str(conf))
    repair.apply(plan, in_place=True)
    assert [] == bridges.strange_units(root, queues)
    return queues


def expected(queues: dict[str, Queue], tag: str | None = None) -> Counter[Place]:
    """Count how often each record is delivered: a neighbour once more for each lost one."""
    found: Counter[Place] = Counter()
    for topic, queue in queues.items():
        for queue_offset, record in enumerate(queue.records):
            unit: bridges.Unit | None = bridges.own_unit(record)
            if queue_offset in queue.lost:
                unit = queue.following(queue_offset) or queue.preceding(queue_offset)
            if unit and tag in (None, tag_of(queue, unit)):
                found[topic, unit[0]] += 1
    return found


def tag_of(queue: Queue, unit: bridges.Unit) -> str:
    """Give the tag of the record that a unit names."""
    return next(
        record.properties["TAGS"] for record in queue.records if record.physical_offset == unit[0]
    )


def places(messages: Sequence[Received]) -> Counter[Place]:
    """Count received messages."""
    return Counter((message.topic, message.physical_offset) for message in messages)


def test_consumers(version: str, queues: dict[str, Queue], tmp_path: Path) -> None:
    """Every sound message arrives, no bridge does, whoever asks, and from wherever."""
    topics = [*queues]
    with running_broker(version, tmp_path, {**SETTINGS, **_KEPT}) as broker, ExitStack() as stack:
        for topic in topics:
            broker.create_topic(topic, 1)
        pushed = {
            tag: stack.enter_context(ManyTopics(broker, f"push-{tag}", topics, tag or "*"))
            for tag in (None, "B")
        }
        with PullConsumer(broker, "pulling") as pulling, Admin(broker) as admin:
            for topic, queue in queues.items():
                pulls_get_all(pulling, topic, queue)
                searches_come_in_time(admin, pulling, topic, queue)
        for tag, consumer in pushed.items():
            wanted = expected(queues, tag)
            assert wanted == places(consumer.wait(wanted.total()))
        with Producer(broker, "producer") as producer:
            for topic, queue in queues.items():
                new = producer.send(Outgoing(topic, b"new", "B"), 0)
                assert len(queue.records) == new.queue_offset
        for tag, consumer in pushed.items():
            total = expected(queues, tag).total() + len(topics)
            arrived = consumer.wait(total)
            assert total == len(arrived)
            assert {*topics} == {one.topic for one in arrived if one.body == b"new"}
        broker.crash()


def pulls_get_all(pulling: PullConsumer, topic: str, queue: Queue) -> None:
    """Pull from the beginning, and from each lost message."""
    for start in {0, *queue.lost}:
        got = [message.physical_offset for message in pulling.read(topic, 0, start)]
        assert sorted(got) == got
        assert {*sound(queue, start)} <= {*got}, (topic, start)
        assert {*got} <= {*sound(queue, 0)}, (topic, start)


def searches_come_in_time(admin: Admin, pulling: PullConsumer, topic: str, queue: Queue) -> None:
    """Search for the times of the messages beside lost ones: each is still to come from there."""
    for lost in queue.lost:
        for queue_offset in {max(lost - 1, 0), lost, min(lost + 1, len(queue.records) - 1)}:
            if queue_offset in queue.lost:
                continue
            record = queue.records[queue_offset]
            start = admin.search_offset(topic, 0, record.integer("store_timestamp"))
            got = {message.physical_offset for message in pulling.read(topic, 0, start)}
            assert record.physical_offset in got, (topic, queue_offset, start)


def sound(queue: Queue, start: int) -> Iterator[int]:
    """Yield the physical offsets of sound records from a queue offset on."""
    for queue_offset in range(start, len(queue.records)):
        if queue_offset not in queue.lost:
            yield queue.records[queue_offset].physical_offset
