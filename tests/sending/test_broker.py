"""Real brokers take what is sent, and consumers get each message once, as its producer sent it."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.sending.options import WINDOW, SendOptions, addresses
from rmqtool.sending.outgoing import OLD_ID
from rmqtool.sending.report import SendResult
from rmqtool.sending.sending import SendRun
from tests.broker.broker import Broker, running_broker
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.jars import missing_tools
from tests.broker.message import Outgoing, Received
from tests.broker.producer import Producer
from tests.broker.ways import SETTINGS, assert_found_every_way
from tests.store import faults
from tests.stores import fixture_directory, fixture_store

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
ORDERS: Final = "traffic-orders"
KINDS: Final = ("traffic", "lmq")
KINDS_OF_FIVE: Final = ("timer", "batch-queue")
OF_THE_BROKER: Final = {
    *("CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET", "INNER_MULTI_QUEUE_OFFSET"),
    "INNER_MULTI_DISPATCH",
}
OF_THE_CLIENT: Final = {"KEYS", "TAGS", "UNIQ_KEY", "WAIT", "__LITE_TOPIC"}


def sent(broker: Broker, file: Path, **more: Any) -> SendResult:  # noqa: ANN401 - as they are
    """Send a file."""
    run = SendRun(SendOptions(str(file), addresses(broker.names.address), **more))
    outcome = run.run(run.check())
    assert outcome.stopped is None
    return outcome


def truth(name: str) -> dict[str, dict[str, Any]]:
    """Give what producers sent, by its content, which no two messages share."""
    lines = (fixture_directory(name) / "sent.jsonl").read_text(encoding="utf-8").splitlines()
    found = {repr(as_sent(origin)): origin for origin in map(json.loads, lines)}
    assert len(lines) == len(found)
    return found


def delivered(broker: Broker, topics: Mapping[str, int]) -> list[Received]:
    """Give every message of some topics that a consumer gets; topics have so many queues."""
    broker.wait_dispatched()
    with PullConsumer(broker, "sent") as consumer:
        return [
            message
            for topic, queues in topics.items()
            for queue_id in range(queues)
            for message in consumer.read(topic, queue_id)
        ]


def as_sent(one: dict[str, Any]) -> tuple[Any, ...]:
    """Give what a producer sent."""
    own = {n: v for n, v in one["user_properties"].items() if v}
    body = base64.b64decode(one["body_b64"])
    return one["topic"], body, one["tags"], [*one["keys"]], one["flag"], sorted(own.items())


def as_got(one: Received) -> tuple[Any, ...]:
    """Give the same of what a consumer got."""
    own = one.properties.keys() - OF_THE_BROKER - OF_THE_CLIENT - {OLD_ID}
    properties = {name: one.properties[name] for name in own}
    return one.topic, one.body, one.tags, [*one.keys], one.flag, sorted(properties.items())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("5.3.3", "5.5.0"),
        pytest.param("5.5.0", "5.3.3", marks=pytest.mark.all_variants),
        pytest.param("4.9.3", "4.9.3", marks=pytest.mark.all_variants),
        pytest.param("4.9.3", "5.5.0", marks=pytest.mark.all_variants),
    ],
)
def test_delays(source: str, target: str, tmp_path: Path) -> None:
    """What waits in one store comes once from another cluster, at its time, give or take a second.

    Timers are held against messages of a client that the same broker delivers for the same time; by
    levels what comes is late by what the summary says.
    """
    file = tmp_path / "f.jsonl"
    settings = {
        **SETTINGS,
        "messageDelayLevel": " ".join(f"{seconds}s" for seconds in range(1, 61)),
    }
    with running_broker(source, tmp_path / "old", settings | timers_of(source)) as broker:
        broker.create_topic("orders", 2)
        began = time.time()  # brokers take their time to start
        due = {f"timer {number}": began + 40 + number for number in range(0, 12, 4)}
        due |= {f"level {number}": began + 40 for number in range(3)}
        with Producer(broker, "old") as producer:
            for body, moment in due.items():
                if body.startswith("level"):
                    level = round(moment - time.time())
                    producer.send(Outgoing("orders", body.encode(), delay_level=level))
                    due[body] = time.time() + level
                elif source != "4.9.3":
                    producer.send(Outgoing("orders", body.encode(), reserved=timer(moment)))
        broker.wait_dispatched()
    options = ExtractOptions((str(tmp_path / "old" / "store"),), str(file), pending=True)
    ExtractRun(options).run()
    bodies = {json.loads(line)["body"] for line in file.read_text("utf-8").splitlines()}
    assert {body for body in due if source != "4.9.3" or body.startswith("level")} == bodies
    with running_broker(target, tmp_path / "new", settings | timers_of(target)) as broker:
        broker.create_topic("orders", 2)
        with (
            PushConsumer(broker, "shop", "orders") as shop,
            Producer(broker, "new") as producer,
        ):
            outcome = sent(broker, file, pending=True)
            assert (len(bodies), len(bodies)) == (outcome.waits_again, outcome.checked.waiting)
            for body in bodies if target != "4.9.3" else ():
                producer.send(
                    Outgoing("orders", b"own " + body.encode(), reserved=timer(due[body]))
                )
            count = len(bodies) * (2 if target != "4.9.3" else 1)
            arrived = shop.wait(count)
            time.sleep(2)
            assert count == len(shop.wait(count))
    came = {one.body.decode(): one.store_timestamp / 1000 for one in arrived}
    for body in bodies:
        late = outcome.late_ms / 1000
        expected = came.get(f"own {body}", due[body] + late / 2)
        assert abs(came[body] - expected) <= 1 + late / 2, (body, came[body] - due[body])


def timer(moment: float) -> dict[str, str]:
    """Give the property of a message that is due at a time."""
    return {"TIMER_DELIVER_MS": str(int(moment * 1000))}


def timers_of(version: str) -> dict[str, object]:
    """Give the settings of a broker with timers, where its release has them."""
    return {} if version == "4.9.3" else {"timerWheelEnable": True}


@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_to_group(version: str, tmp_path: Path) -> None:
    """One group gets a message again, and its listener sees the topic that it was sent to."""
    file = tmp_path / "f.jsonl"
    lines = [
        {"topic": "orders", "body": f"order {number}", "tags": "A", "keys": [f"K-{number}"],
         "message_id": f"OLD{number}"}
        for number in range(4)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with running_broker(version, tmp_path / "home", SETTINGS) as broker:
        broker.create_topic("orders", 2)
        with (
            PushConsumer(broker, "shop", "orders", expression="A") as shop,
            PushConsumer(broker, "others", "orders") as others,
        ):
            sent(broker, file)
            others.wait(4)
            shop.wait(4)
            (tmp_path / "f.jsonl.sent").unlink()
            sent(broker, file, to_group="shop")
            again = shop.wait(8)[4:]
            assert [("orders", b"order %d" % number) for number in range(4)] == sorted(
                (line.topic, line.body) for line in again
            )
            assert {f"OLD{n}" for n in range(4)} == {
                line.properties["ORIGIN_MESSAGE_ID"] for line in again
            }
            assert 4 == len(others.wait(4))


@pytest.mark.parametrize(
    "version", ["4.9.3", pytest.param("5.3.3", marks=pytest.mark.all_variants), "5.5.0"]
)
def test_all_kinds(version: str, tmp_path: Path) -> None:
    """All kinds of messages arrive as they were sent, in the order of their queues.

    Plain, delayed, batched, compressed, transactional, retried, light ones, those of timers and of
    batch queues; of JSON lines and of records. Killed in the middle, nothing is missing, and what
    came twice is named.
    """
    stores = [f"rocketmq-{version}-{what}" for what in (*KINDS, *KINDS_OF_FIVE)]
    stores = stores[: len(KINDS)] if version == "4.9.3" else stores
    settings = {**SETTINGS, "enableLmq": True, "enableMultiDispatch": True}
    with running_broker(version, tmp_path / "home", settings) as broker:
        for number, name in enumerate(stores):
            (tmp_path / name).mkdir()
            file = tmp_path / name / ("f.jsonl" if number % 2 else "f.rmq")
            options = ExtractOptions((str(fixture_store(name, tmp_path / name)),), str(file))
            ExtractRun(options).run()
            content = SendRun(SendOptions(str(file), dry_run=True)).check()
            for topic, queues in content.queues.items():
                broker.create_topic(topic, queues)
            assert faults.killed_at(content.total // 2, partial(sent, broker, file, skip_bad=True))
            again = sent(broker, file, skip_bad=True)
            assert all("no broker takes the topic" in bad.reason for bad in content.bad)
            assert again.sent_before.total()
            assert content.total == again.sent.total() + again.sent_before.total()
            assert len(again.twice) <= WINDOW
            came = delivered(broker, content.queues)
            assert_as_sent(name, came, content.total, len(again.twice))
            if name.endswith("traffic"):
                orders = [message for message in came if message.topic == ORDERS]
                assert_found_every_way(broker, ORDERS, orders)
            if name.endswith("lmq"):
                assert_light(broker, came)
        broker.crash()


def assert_as_sent(name: str, came: list[Received], total: int, unsure: int) -> None:
    """Assert that all messages of a store came as their producers sent them, in their order."""
    producers = truth(name)
    counts = Counter(repr(as_got(message)) for message in came)
    assert counts.keys() <= producers.keys()
    assert total == len(counts)
    assert counts.total() - total <= unsure
    queues: dict[tuple[str, int], list[int]] = {}
    for message in came:
        origin = producers[repr(as_got(message))]
        if origin["kind"] in {"normal", "lmq"}:  # others came to their queues by ways of brokers
            assert origin["queue_id"] == message.queue_id
            place = message.topic, message.queue_id
            queues.setdefault(place, []).append(origin["queue_offset"])
    for offsets in queues.values():
        assert sorted(offsets) == offsets


def assert_light(broker: Broker, came: list[Received]) -> None:
    """Assert that each message is in the light queues that it names."""
    named = [message.properties.get("INNER_MULTI_DISPATCH", "") for message in came]
    expected = Counter(name for text in named if text for name in text.split(","))
    assert expected
    for name, count in expected.items():
        assert count == broker.store.getMaxOffsetInQueue(name, 0), name
