"""`extract --unconsumed-by` gives what a consumer of the group then receives of a real broker."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from tests.broker.broker import SMALL_GEOMETRY, Broker, NameServer
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.jars import missing_tools
from tests.broker.jvm import Jvm
from tests.broker.message import Outgoing, Received
from tests.broker.producer import Producer
from tests.messages.test_extract import body_of

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
TOPIC, GROUP, READER = "orders", "shop", "%LMQ%reader"
QUEUES: Final = 3
LIGHT: Final = ("%LMQ%home-1", "%LMQ%home-2")
QUIET_SECONDS: Final = 1.0
INVISIBLE_MS: Final = 5_000  # the shortest that clients allow
LONG_INVISIBLE_MS: Final = 300_000  # the longest
WAIT_SECONDS: Final = 600
REVIVE_TOPIC: Final = "rmq_sys_REVIVE_LOG_DefaultCluster"
Machine: TypeAlias = tuple[Jvm, NameServer]
Drain: TypeAlias = Callable[[Broker, int], list[Received]]


def send(broker: Broker, numbers: range, **more: str) -> None:
    """Send a message for each number, to the queues by turns."""
    with Producer(broker, "sender") as producer:
        for number in numbers:
            reserved = {name: value for name, value in more.items() if number % 4}
            one = Outgoing(TOPIC, b"order %d" % number, "A", (f"K-{number}",), reserved=reserved)
            producer.send(one, number % QUEUES)
    broker.wait_dispatched()


def settled(consumer: PushConsumer, count: int, seconds: float = 600) -> list[Received]:
    """Wait for so many messages, and whether more come."""
    consumer.wait(count, seconds)
    time.sleep(QUIET_SECONDS)
    return consumer.wait(count)


def number_of(one: Received) -> int:
    """Give the number of a message."""
    return int(one.body.split()[1])


def pushed(broker: Broker, count: int) -> list[Received]:
    """Drain what is left for the group."""
    with PushConsumer(broker, GROUP, TOPIC) as consumer:
        return settled(consumer, count)


def clustering(broker: Broker) -> None:
    """Commit in the middle of two queues; the third has no offset; a message is delayed."""
    send(broker, range(60))
    with PullConsumer(broker, GROUP) as consumer:
        for queue_id, count in ((0, 7), (1, 20)):
            assert len([*consumer.read(TOPIC, queue_id)]) == 20
            consumer.commit(TOPIC, queue_id, count)
    with Producer(broker, "sender") as producer:
        producer.send(Outgoing(TOPIC, b"order 99", delay_level=5), 0)


def retry(broker: Broker) -> None:
    """Refuse some once and some always; more come while nobody consumes."""
    send(broker, range(30))

    def refuse(one: Received) -> bool:
        return number_of(one) % 10 == 3 or (number_of(one) % 5 == 0 and not one.reconsume_times)

    with PushConsumer(broker, GROUP, TOPIC, refuse=refuse, most_retries=16) as consumer:
        consumer.wait(30 + 2)
    send(broker, range(30, 45))


def ordered(broker: Broker) -> None:
    """Stop in order: one queue at its third message, one at its end, one at the first."""
    send(broker, range(30))
    with PushConsumer(
        broker, GROUP, TOPIC, orderly=True, most_retries=1 << 20,
        refuse=lambda one: (number_of(one) % QUEUES == 0 and number_of(one) >= 6)
        or number_of(one) == 1,
    ) as consumer:  # fmt: skip
        consumer.wait(2 + 1 + 10 + 2)
    send(broker, range(30, 36))


def ordered_rest(broker: Broker, count: int) -> list[Received]:
    """Drain what is left, in order."""
    with PushConsumer(broker, GROUP, TOPIC, orderly=True) as consumer:
        received = settled(consumer, count)
    for queue_id in range(QUEUES):
        offsets = [one.queue_offset for one in received if one.queue_id == queue_id]
        assert offsets == sorted(offsets)
    return received


def light(broker: Broker) -> None:
    """Read one light queue in part and one not at all; a group consumes the topic itself."""
    send(broker, range(24), INNER_MULTI_DISPATCH=",".join(LIGHT))
    send(broker, range(24, 36), INNER_MULTI_DISPATCH=LIGHT[0])
    send(broker, range(36, 40), INNER_MULTI_DISPATCH="%LMQ%other")
    with PullConsumer(broker, READER) as consumer, PullConsumer(broker, GROUP) as other:
        next(consumer.read(TOPIC, 0))  # the name server knows no light queue
        for queue, count in ((LIGHT[0], 11), (LIGHT[1], 15)):
            consumer.commit(queue, 0, count)
        for queue_id in range(QUEUES):
            assert len([*other.read(TOPIC, queue_id)]) >= 13
            other.commit(TOPIC, queue_id, 4 + queue_id)


def light_rest(broker: Broker, _: int) -> list[Received]:
    """Drain what is left of the light queues; a message in two of them comes twice."""
    with PullConsumer(broker, READER) as consumer:
        next(consumer.read(TOPIC, 0))
        received = [
            one for queue in LIGHT for one in consumer.read(queue, 0, consumer.committed(queue, 0))
        ]
    assert len(received) == (18 + 9 - 11) + (18 - 15)
    return [*{one.properties["UNIQ_KEY"]: one for one in received}.values()]


def pop(broker: Broker) -> None:
    """Pop, refuse some, and go away with others; more come while nobody consumes."""
    with Admin(broker) as admin:
        admin.let_pop(TOPIC, GROUP)
    send(broker, range(40))
    with PushConsumer(
        broker, GROUP, TOPIC, pops=INVISIBLE_MS, refuse=lambda one: number_of(one) % 7 == 3
    ) as consumer:
        consumer.wait(20)
    send(broker, range(40, 50))


def revived(broker: Broker) -> None:
    """The same, until the broker has given some of what nobody acknowledged to the retry topic."""
    pop(broker)
    offsets = broker.controller.getConsumerOffsetManager()
    deadline = time.monotonic() + WAIT_SECONDS
    while offsets.whichGroupByTopic(REVIVE_TOPIC).isEmpty():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def popped(broker: Broker, count: int) -> list[Received]:
    """Drain what is left for a group that pops; slow as it may be, nothing comes twice.

    What a busy machine hands out too late, clients let go: it comes again when it is visible.
    """
    with PushConsumer(broker, GROUP, TOPIC, pops=LONG_INVISIBLE_MS) as consumer:
        return settled(consumer, count, 5 * LONG_INVISIBLE_MS / 1000)


@dataclass(frozen=True)
class Store:
    """A store, and the groups that consume of it."""

    play: Callable[[Broker], None]
    drains: Mapping[str, Drain]
    settings: Mapping[str, object] = field(default_factory=dict)


STORES: Final = {
    "clustering": Store(clustering, {GROUP: pushed}),
    "retry": Store(retry, {GROUP: pushed}),
    "ordered": Store(ordered, {GROUP: ordered_rest}),
    "light": Store(
        light, {READER: light_rest, GROUP: pushed}, {"enableLmq": True, "enableMultiDispatch": True}
    ),
    "pop": Store(pop, {GROUP: popped}, {"timerWheelEnable": True}),
    "pop-revived": Store(revived, {GROUP: popped}, {"timerWheelEnable": True}),
    "pop-rocksdb": Store(
        pop,
        {GROUP: popped},
        {
            "timerWheelEnable": True,  # or brokers refuse to pop
            "popConsumerKVServiceInit": True,
            "popConsumerKVServiceEnable": True,
        },
    ),
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Machine]]:
    """Give a JVM with a name server for each release: brokers in it come and go."""
    running: dict[str, Machine] = {}
    with ExitStack() as keep:

        def machine(version: str) -> Machine:
            if version not in running or not running[version][0].is_running:
                jvm = keep.enter_context(Jvm(version, tmp_path_factory.mktemp("home")))
                running[version] = jvm, NameServer(jvm)
            return running[version]

        yield machine


@contextmanager
def started(jvm: Jvm, names: NameServer, settings: Mapping[str, object]) -> Iterator[Broker]:
    """Run a broker in a process that goes on."""
    broker = Broker(jvm, names, settings)
    try:
        yield broker
    finally:
        broker.stop()


def unconsumed(store: Path, group: str, file: Path) -> Counter[tuple[str, bytes]]:
    """Give what the tool says that a group will receive."""
    ExtractRun(ExtractOptions((str(store),), str(file), unconsumed_by=group)).run()
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    return Counter((row["unique_key"], body_of(row)) for row in rows)


def assert_once(store: Path, file: Path, *, has_copies: bool) -> None:
    """Assert that an extract of everything has each message once, whatever brokers stored again."""
    done = ExtractRun(ExtractOptions((str(store),), str(file))).run()
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert len(rows) == len({(row["unique_key"], body_of(row)) for row in rows})
    assert {TOPIC} == {row["topic"] for row in rows}
    assert has_copies <= (done.retried_copies > 0)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("4.9.3", "clustering"),
        *(("5.3.3", kind) for kind in STORES),
    ],
)
def test_is_what_a_consumer_gets(
    version: str, kind: str, machines: Callable[[str], Machine], tmp_path: Path
) -> None:
    """Each message once, none more: of a store whose broker was stopped, and goes on."""
    jvm, names = machines(version)
    store = STORES[kind]
    settings = {
        **SMALL_GEOMETRY,
        **store.settings,
        "storePathRootDir": kind,
        "storePathCommitLog": f"{kind}/commitlog",
        "messageDelayLevel": "1s 1s 4s 4s 6s",
    }
    with started(jvm, names, settings) as broker:
        broker.create_topic(TOPIC, QUEUES)
        store.play(broker)
    files = tmp_path / "store"
    shutil.copytree(jvm.home / kind, files)
    assert_once(files, tmp_path / "all.jsonl", has_copies=kind in {"retry", "pop-revived"})
    expected = {
        group: unconsumed(files, group, tmp_path / f"{number}.jsonl")
        for number, group in enumerate(store.drains)
    }
    with started(jvm, names, settings) as broker:
        for group, drain in store.drains.items():
            received = drain(broker, expected[group].total())
            got = Counter((one.properties["UNIQ_KEY"], one.body) for one in received)
            # A busy machine outlasts the time in which a popped message is hidden: it comes again.
            assert set(expected[group]) == set(got)
            assert expected[group] <= got
            assert received
