"""Real brokers start on rebuilt logs, and deliver every message of them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets
from rmqtool.relog.work import LogRun
from rmqtool.tables.selection import Selection
from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.broker import running_broker
from tests.broker.consumer import PullConsumer
from tests.broker.jars import VERSIONS, missing_tools
from tests.broker.message import Outgoing, Received
from tests.broker.producer import Producer
from tests.broker.ways import SETTINGS, assert_found_every_way
from tests.plain_store import Record, records
from tests.relog.rebuilt import unplaced
from tests.stores import broker_conf, fixture_store, manifest

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
OWN: Final = ("RMQ_SYS", "rmq_sys", "SCHEDULE", "TRANS_CHECK", "TBW102", "rmqtool")
TOPIC: Final = "traffic-orders"
Queues = dict[tuple[str, int], list[Record]]


def queues_of(store: Path) -> Queues:
    """Give the records of clients by queue."""
    found: Queues = defaultdict(list)
    for record in records(store):
        if not record.topic.startswith(OWN):
            found[record.topic, record.integer("queue_id")].append(record)
    return found


def assert_delivered(expected: list[Record], found: Iterable[Received], last: int) -> None:
    """Assert that a queue gives its records: at their places, with their content.

    What follows are delayed messages whose time has come: they lie past the last record.
    """
    every = [*found]
    messages = every[: len(expected)]
    assert all(one.physical_offset > last for one in every[len(expected) :])
    assert [(record.integer("queue_offset"), record.physical_offset) for record in expected] == [
        (message.queue_offset, message.physical_offset) for message in messages
    ]
    for record, message in zip(expected, messages, strict=True):
        assert record.properties.items() <= message.properties.items()
        if not record.integer("sys_flag") & 1:
            assert record.bytes_of("body") == message.body


def rebuilt(
    source: Path,
    output: Path,
    version: str,
    **options: Any,  # noqa: ANN401 - as the options are
) -> Path:
    """Rebuild a log for a broker."""
    wanted = LogOptions(
        (str(source),),
        str(output),
        broker_version=version,
        broker_conf=str(broker_conf(f"rocketmq-{version}-traffic")),
        **options,
    )
    LogRun(wanted).run()
    return output


@pytest.mark.parametrize("version", VERSIONS)
def test_delivers(version: str, tmp_path: Path) -> None:
    """Packed, a store gives each message to consumers and goes on where it ended.

    A message store does so with records of an extract, with one topic at its place, and with
    queues that were numbered anew.
    """
    name = f"rocketmq-{version}-traffic"
    source = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], **SETTINGS, "fileReservedTime": YEARS_IN_HOURS}
    (tmp_path / "home").mkdir()
    store = rebuilt(source, tmp_path / "home" / "store", version)
    assert [*map(unplaced, records(source))] == [*map(unplaced, records(store))]
    file = tmp_path / "all.rmq"
    ExtractRun(ExtractOptions((str(source),), str(file))).run()
    others = [
        rebuilt(file, tmp_path / "extracted", version),
        rebuilt(
            source, tmp_path / "one", version,
            positions=Positions.KEEP, selection=Selection(topics=(TOPIC,)),
        ),
        rebuilt(source, tmp_path / "numbered", version, queue_offsets=QueueOffsets.RENUMBER),
    ]  # fmt: skip
    expected = queues_of(store)
    last = records(store)[-1].physical_offset
    with running_broker(version, tmp_path / "home", settings) as broker:
        broker.wait_dispatched()
        with PullConsumer(broker, "rebuilt") as consumer:
            for (topic, queue_id), queue in expected.items():
                assert_delivered(queue, consumer.read(topic, queue_id), last)
            every = [m for number in range(4) for m in consumer.read(TOPIC, number)]
        assert_found_every_way(broker, TOPIC, every)
        with Producer(broker, "rebuilt-producer") as producer:
            new = producer.send(Outgoing(TOPIC, b"new"), 0)
        assert len(expected[TOPIC, 0]) == new.queue_offset
        for other in others:
            queues, last = queues_of(other), records(other)[-1].physical_offset
            bare = BareStore(broker.jvm, other, settings)
            assert bare.load()
            bare.start()
            assert queues
            for (topic, queue_id), queue in queues.items():
                assert_delivered(queue, bare.messages(topic, queue_id), last)
        broker.crash()
