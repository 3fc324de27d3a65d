"""Real brokers start on a database of queues that was rebuilt, and deliver every message of it."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import rebuild
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import running_broker
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.damage_rocksdb import DAMAGES
from tests.stores import broker_conf, fixture_store, manifest, sent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

_QUEUE: Final = itemgetter("topic", "queue_id")
_TAGGED: Final = "TagA"


@pytest.mark.parametrize(
    ("version", "is_clean"),
    [
        pytest.param("5.3.3", True, id="5.3.3-clean"),
        pytest.param("5.3.3", False, id="5.3.3-abort", marks=pytest.mark.all_variants),
        pytest.param("5.5.0", True, id="5.5.0-clean", marks=pytest.mark.all_variants),
        pytest.param("5.5.0", False, id="5.5.0-abort"),
    ],
)
def test_every_message(version: str, tmp_path: Path, *, is_clean: bool) -> None:
    """Each message comes from 0, from the middle, by time and by tag; new ones go on behind."""
    name = f"rocketmq-{version}-rocksdb-crash"
    root = fixture_store(name, tmp_path)
    DAMAGES["remove MANIFEST"].inflict(root)
    rebuild.consume_queues(root, in_place=True, broker_conf=str(broker_conf(name)))
    if is_clean:
        (root / "abort").unlink()
    lines = sorted((line for line in sent(name) if line["kind"] == "normal"), key=_QUEUE)
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    with running_broker(version, tmp_path, settings) as broker:
        broker.wait_dispatched()
        with PullConsumer(broker, "rebuilt") as consumer, Admin(broker) as admin:
            for (topic, queue_id), group in groupby(lines, _QUEUE):
                expected = [line["body"] for line in group]
                count = len(expected)
                received = [*consumer.read(topic, queue_id)]
                assert [*range(count)] == [message.queue_offset for message in received]
                assert expected == [message.body for message in received]
                middle = [*consumer.read(topic, queue_id, count // 2)]
                assert expected[count // 2 :] == [message.body for message in middle]
                time = received[count // 2].store_timestamp
                earliest = next(m.queue_offset for m in received if m.store_timestamp >= time)
                assert earliest == admin.search_offset(topic, queue_id, time)
                assert (0, count) == admin.offsets(topic, queue_id)
                tagged = [message.queue_offset for message in received if message.tags == _TAGGED]
                assert tagged == [
                    one.queue_offset for one in consumer.read(topic, queue_id, tags=_TAGGED)
                ]
            last = lines[-1]
            with Producer(broker, "rebuilt-producer") as producer:
                new = producer.send(Outgoing(last["topic"], b"new"), last["queue_id"])
            assert sum(_QUEUE(line) == _QUEUE(last) for line in lines) == new.queue_offset
        broker.crash()
