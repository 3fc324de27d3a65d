"""The oracle itself: real brokers read back what the fixtures say was sent to them."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.broker import running_broker
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.broker.message import Received
from tests.stores import fixture_store, manifest, sent

pytestmark = pytest.mark.broker

_QUEUE: Final = itemgetter("topic", "queue_id")


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_reads_back(version: str, tmp_path: Path) -> None:
    """A broker recovers the store of its killed predecessor and delivers all that was sent."""
    name = f"rocketmq-{version}-crash"
    fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    lines = sorted(sent(name), key=_QUEUE)
    with running_broker(version, tmp_path, settings) as broker:
        with PullConsumer(broker, "oracle") as consumer, Admin(broker) as admin:
            for (topic, queue_id), expected in groupby(lines, _QUEUE):
                found = [_facts(message) for message in consumer.read(topic, queue_id)]
                assert [_sent_facts(line) for line in expected] == found
            line = next(line for line in lines if line["keys"] and line["body"])
            assert (
                line["queue_offset"]
                == admin.view(line["topic"], line["physical_offset"]).queue_offset
            )
            offsets = [
                found.physical_offset for found in admin.query(line["topic"], line["keys"][0])
            ]
            assert line["physical_offset"] in offsets
        broker.crash()  # an orderly stop takes ten seconds more and shows nothing here


@pytest.mark.parametrize("version", VERSIONS)
def test_bare_store_recovers(version: str, tmp_path: Path) -> None:
    """Recovery alone finds the whole log and every queue, without a broker around it."""
    name = f"rocketmq-{version}-crash"
    root = fixture_store(name, tmp_path)
    lines = sorted(sent(name), key=_QUEUE)
    with Jvm(version, tmp_path) as jvm:
        store = BareStore(jvm, root, manifest(name)["settings"])
        assert store.load()
        last = max(line["physical_offset"] for line in lines)
        smallest, end = store.physical_offsets()
        assert smallest == 0
        assert end > last
        store.start()
        for (topic, queue_id), expected in groupby(lines, _QUEUE):
            found = [_facts(message) for message in store.messages(topic, queue_id)]
            assert [_sent_facts(line) for line in expected] == found
            assert store.queue_offsets()[topic, queue_id] == (0, len(found))


def _facts(message: Received) -> dict[str, Any]:
    return {
        "physical_offset": message.physical_offset,
        "queue_offset": message.queue_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "flag": message.flag,
        "body": message.body,
    }


def _sent_facts(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in _facts(_NOTHING)}


_NOTHING: Final = Received("", 0, 0, 0, 0, None, (), {}, b"", 0, 0, 0, "")
