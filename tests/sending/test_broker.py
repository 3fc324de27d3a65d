"""Real brokers take what is sent, and consumers get each message once, as its producer sent it."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.sending.options import Delays, SendOptions, addresses
from rmqtool.sending.outgoing import OLD_ID
from rmqtool.sending.report import SendResult
from rmqtool.sending.sending import SendRun
from rmqtool.tables.selection import Selection
from tests.broker.broker import Broker, running_broker
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.jars import missing_tools
from tests.broker.message import Received
from tests.broker.ways import SETTINGS, assert_found_every_way
from tests.store import faults
from tests.stores import fixture_directory, fixture_store

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
ORDERS: Final = "traffic-orders"
RETRIED: Final = "traffic-retry"
TOPICS: Final = {ORDERS: 4, RETRIED: 2, "traffic-transaction": 3, "traffic-delay": 1}
OF_THE_BROKER: Final = {"CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET"}
OF_THE_CLIENT: Final = {"KEYS", "TAGS", "UNIQ_KEY", "WAIT"}


def extracted(store: Path, name: str, *topics: str) -> Path:
    """Extract topics."""
    file = store.parent / name
    some = Selection(topics=topics, queue_offsets=(0, 40))
    ExtractRun(ExtractOptions((str(store),), str(file), selection=some)).run()
    return file


def sent(broker: Broker, file: Path, **more: Any) -> SendResult:  # noqa: ANN401 - as they are
    """Send a file."""
    run = SendRun(SendOptions(str(file), addresses(broker.names.address), **more))
    outcome = run.run(run.check())
    assert outcome.stopped is None
    return outcome


def truth(name: str) -> dict[str, dict[str, Any]]:
    """Give what producers sent, by unique key."""
    lines = (fixture_directory(name) / "sent.jsonl").read_text(encoding="utf-8").splitlines()
    return {one["unique_key"]: one for one in map(json.loads, lines) if one["unique_key"]}


def delivered(broker: Broker) -> list[Received]:
    """Give every message that a consumer gets."""
    broker.wait_dispatched()
    with PullConsumer(broker, "sent") as consumer:
        return [
            one
            for topic, queues in TOPICS.items()
            for queue_id in range(queues)
            for one in consumer.read(topic, queue_id)
        ]


def as_sent(one: dict[str, Any]) -> tuple[Any, ...]:
    """Give what a producer sent."""
    own = {n: v for n, v in one["user_properties"].items() if v}
    body = base64.b64decode(one["body_b64"])
    return one["topic"], body, one["tags"], [*one["keys"]], one["flag"], own


def as_got(one: Received) -> tuple[Any, ...]:
    """Give the same of what a consumer got."""
    own = one.properties.keys() - OF_THE_BROKER - OF_THE_CLIENT - {OLD_ID}
    properties = {name: one.properties[name] for name in own}
    return one.topic, one.body, one.tags, [*one.keys], one.flag, properties


@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_delays(version: str, tmp_path: Path) -> None:
    """What is left of a delay is kept: each message comes once, at its time; what is due, now."""
    began = time.time()
    timers = {f"timer {number}": began + number for number in (9, 12)}
    levels = {f"level {number}": began + number for number in (-5, 7, 10)}  # of 20 s
    lines = [
        {
            "topic": "orders", "body": body, "stored_topic": "rmq_sys_wheel_timer",
            "properties": {"TIMER_OUT_MS": str(int(due * 1000)), "REAL_TOPIC": "orders"},
        }
        for body, due in timers.items()
    ] + [
        {
            "topic": "orders", "body": body, "stored_topic": "SCHEDULE_TOPIC_XXXX",
            "properties": {"DELAY": "20", "REAL_TOPIC": "orders"},
            "store_time": datetime.fromtimestamp(due - 20, UTC).isoformat(),
        }
        for body, due in levels.items()
    ]  # fmt: skip
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    every_second = " ".join(f"{seconds}s" for seconds in range(1, 21))
    more = {"timerWheelEnable": version != "4.9.3", "messageDelayLevel": every_second}
    with running_broker(version, tmp_path / "home", {**SETTINGS, **more}) as broker:
        broker.create_topic("orders", 2)
        with PushConsumer(broker, "shop", "orders") as shop:
            options = {"held": True, "delays": Delays.KEEP}
            outcome = sent(broker, file, **options)
            assert (4, 5) == (outcome.waits_again, outcome.checked.waiting)
            assert (outcome.late_ms == 0) == (version != "4.9.3")
            came = {line.body.decode(): line.store_timestamp / 1000 for line in shop.wait(5)}
    for body, due in {**timers, **levels}.items():
        assert abs(came[body] - max(due, came["level -5"])) < 1.5, (body, came[body] - due)


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
def test_delivers(version: str, tmp_path: Path) -> None:
    """Of JSON lines and of records; killed in the middle, nothing is missing, and twice is said."""
    name = f"rocketmq-{version}-traffic"
    store = fixture_store(name, tmp_path)
    lines = extracted(store, "orders.jsonl", ORDERS)
    others = extracted(store, "others.rmq", *(TOPICS.keys() - {ORDERS}), "%RETRY%traffic-failing")
    known = [json.loads(line) for line in lines.read_bytes().splitlines()]
    with running_broker(version, tmp_path / "home", SETTINGS) as broker:
        for topic, queues in TOPICS.items():
            broker.create_topic(topic, queues)
        assert faults.killed_at(len(known) // 2, lambda: sent(broker, lines))
        again = sent(broker, lines)
        assert again.sent_before.total()
        total = again.sent.total() + again.sent_before.total()
        assert len(known) == total
        rest = sent(broker, others)
        received = delivered(broker)
        counts = Counter(line.properties[OLD_ID] for line in received)
        twice = {known[number - 1]["message_id"] for number in again.twice}
        assert {line for line, count in counts.items() if count > 1} <= twice
        assert {line["message_id"] for line in known} <= counts.keys()
        assert total + rest.sent.total() == len(counts)
        producers = truth(name)
        for line in received:
            assert as_sent(producers[line.properties["UNIQ_KEY"]]) == as_got(line)
        orders = [line for line in received if line.topic == ORDERS]
        assert {line["message_id"]: line["queue_id"] for line in known} == {
            line.properties[OLD_ID]: line.queue_id for line in orders
        }
        assert_found_every_way(broker, ORDERS, orders)
        broker.crash()
