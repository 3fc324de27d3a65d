"""A whole broker on a repaired store: consumers get all that was not damaged, and life goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.broker import Broker, running_broker
from tests.broker.consumer import PullConsumer
from tests.broker.message import UNIQUE_KEY, Outgoing, Received
from tests.broker.producer import Producer
from tests.repair.broker import survivors
from tests.repair.broker.conftest import sampled
from tests.repair.broker.survivors import DAMAGES, Damage, QueueKey
from tests.repair.broker.test_bridge_consumers import ManyTopics
from tests.repair.broker.test_repaired import findings, found_before
from tests.startup.oracle import files_of
from tests.stores import sent

pytestmark = pytest.mark.broker

_QUEUE: Final = itemgetter("topic", "queue_id")
_KINDS: Final = ("normal", "compressed", "batch")  # stored where they were sent to
_TRIED: Final = ("one bit of a body", "first record of a segment", "twenty sectors of zeros")
_SAMPLE: Final = "twenty sectors of zeros"

Lines = dict[QueueKey, list[dict[str, Any]]]


def _damages() -> list[Any]:
    return [
        pytest.param(
            damage, id=str(damage), marks=() if str(damage) == _SAMPLE else pytest.mark.all_variants
        )
        for damage in DAMAGES
        if str(damage) in _TRIED
    ]


def sent_lines(name: str, undamaged: set[int]) -> tuple[Lines, Counter[QueueKey]]:
    """Give what was sent to each queue and was not damaged, and count the lost."""
    lines = sorted((line for line in sent(name) if line["kind"] in _KINDS), key=_QUEUE)
    kept: Lines = {}
    lost: Counter[QueueKey] = Counter()
    for key, group in groupby(lines, _QUEUE):
        in_queue = sorted(group, key=itemgetter("queue_offset"))
        kept[key] = [line for line in in_queue if line["physical_offset"] in undamaged]
        lost[key] = len(in_queue) - len(kept[key])
    return kept, lost


@pytest.mark.parametrize("version", sampled("5.3.3"))
@pytest.mark.parametrize("damage", _damages())
def test_broker_delivers(version: str, damage: Damage, tmp_path: Path) -> None:
    """By unique key against what was sent: each sound message, in order, and no bridge."""
    name = f"rocketmq-{version}-traffic"
    truth, root = survivors.damaged_store(name, tmp_path, damage)
    kept, lost = sent_lines(name, truth.undamaged(root))
    survivors.repair_in_place(name, root, version, damage)
    before = files_of(root)
    settings = survivors.settings_of(name)
    new: dict[QueueKey, str] = {}
    with running_broker(version, tmp_path, settings) as broker:
        broker.wait_dispatched()
        assert not before["commitlog"] - files_of(root)["commitlog"]
        assert not before["consumequeue"] - files_of(root)["consumequeue"]
        assert_pulled(broker, kept, lost)
        assert_pushed(broker, kept, lost)
        with Producer(broker, "producer-after-repair") as producer:
            for (topic, queue_id), lines in kept.items():
                expected = len(truth.queues[topic, queue_id])
                answer = producer.send(Outgoing(topic, b"new"), queue_id)
                assert expected == answer.queue_offset, (topic, queue_id, len(lines))
                new[topic, queue_id] = str(answer.unique_key)
    assert findings(root, name, version) <= found_before(name, version)
    with running_broker(version, tmp_path, settings) as broker:  # a second start
        assert_pulled(broker, kept, lost, new)
        broker.crash()


def assert_pulled(
    broker: Broker, kept: Lines, lost: Counter[QueueKey], new: dict[QueueKey, str] | None = None
) -> None:
    """Assert that pulls from the beginning give all, at the end the new message if there is one."""
    with PullConsumer(broker, "pulling-after-repair") as consumer:
        for (topic, queue_id), lines in kept.items():
            received = [*consumer.read(topic, queue_id)]
            assert_all(lines, received, lost[topic, queue_id])
            offsets = [message.physical_offset for message in received]
            assert sorted(offsets) == offsets
            if new:
                assert new[topic, queue_id] == received[-1].properties[UNIQUE_KEY]


def assert_pushed(broker: Broker, kept: Lines, lost: Counter[QueueKey]) -> None:
    """Assert that a new group of consumers is pushed all, from the first message on."""
    topics = sorted({topic for topic, _ in kept})
    count = sum(len(lines) for lines in kept.values())
    with ManyTopics(broker, "pushed-after-repair", topics, "*") as consumer:
        consumer.wait(count)
        received = consumer.wait(count + sum(lost[key] for key in kept if kept[key]))
    for (topic, queue_id), lines in kept.items():
        own = [one for one in received if (one.topic, one.queue_id) == (topic, queue_id)]
        assert_all(lines, own, lost[topic, queue_id])


def assert_all(lines: Sequence[dict[str, Any]], found: Sequence[Received], lost: int) -> None:
    """Assert that each line was received with its body, and nothing that was not sent.

    Neighbours of lost messages come twice: one more message for each lost one.
    """
    got = {message.physical_offset: message for message in found}
    for line in lines:
        message = got[line["physical_offset"]]
        assert (line["body"], line["topic"]) == (message.body, message.topic)
        if line["kind"] != "batch":  # 5.x stores the key of the whole batch with each
            assert line["unique_key"] == message.properties[UNIQUE_KEY]
    assert all(message.topic != "rmqtool" for message in found)
    assert len(found) - len(got) <= lost
