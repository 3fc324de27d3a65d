"""Ordinary traffic of several applications, and a clean stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.direct import put_direct
from tests.broker.message import Outgoing
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import ALSO_LATEST, Scenario, Stage, order, text

ORDERS: Final = "traffic-orders"
_ORDER_COUNT: Final = 1100
_LONG_TOPIC: Final = "long-topic-" + "x" * 116  # 127 characters, the most that is allowed
_DELAY_SECONDS: Final = 8


def play(stage: Stage) -> None:
    """Send one of everything, consume some of it."""
    for topic, queues in (
        (ORDERS, 4),
        ("T", 1),
        ("traffic-compressed", 2),
        ("traffic-batch", 2),
        ("traffic-delay", 2),
        ("traffic-transaction", 2),
        ("traffic-retry", 1),
        ("traffic-hostile", 1),
        (_LONG_TOPIC, 1),
    ):
        stage.broker.create_topic(topic, queues)
    _transactions(stage, early=True)
    _orders(stage, 0, _ORDER_COUNT // 2)
    _delays(stage)
    _retries(stage)
    _compressed(stage)
    _batches(stage)
    _hostile(stage)
    with PushConsumer(stage.broker, "traffic-reader", ORDERS) as reader:
        reader.wait(_ORDER_COUNT // 2)
    with PullConsumer(stage.broker, "traffic-slow") as slow:
        for queue_id in range(4):
            slow.commit(ORDERS, queue_id, 10 + queue_id)
    _orders(stage, _ORDER_COUNT // 2, _ORDER_COUNT)
    time.sleep(_DELAY_SECONDS)  # delayed copies, retries and transaction checks come by themselves
    _transactions(stage, early=False)
    _orders(stage, _ORDER_COUNT, _ORDER_COUNT + 20)
    stage.broker.wait_dispatched()


def _orders(stage: Stage, start: int, end: int) -> None:
    with Producer(stage.broker, "traffic-orders-producer") as producer:
        for number in range(start, end):
            stage.record(producer.send(order(ORDERS, number), number % 4))


def _compressed(stage: Stage) -> None:
    for compression in ("ZLIB", "LZ4", "ZSTD") if stage.broker.jvm.is_five else ("ZLIB",):
        with Producer(stage.broker, f"traffic-{compression}", compression) as producer:
            for number in range(8):
                body = text(f"{compression} {number}", 2000 + 700 * number)
                keys = (f"{compression}-{number}",)
                outgoing = Outgoing("traffic-compressed", body, compression, keys)
                stage.record(producer.send(outgoing, number % 2))


def _batches(stage: Stage) -> None:
    with Producer(stage.broker, "traffic-batches") as producer:
        for number in range(6):
            batch = [
                Outgoing(
                    "traffic-batch",
                    text(f"batch {number} {item}", 20 + item),
                    tags=f"batch{item % 3}" if item % 4 else None,
                    keys=(f"B-{number}-{item}", "batch") if item % 5 else (),
                    properties={"item": str(item)} if item % 2 else {},
                    flag=item,
                )
                for item in range(3 + 4 * number)
            ]
            stage.record(producer.send_batch(batch, number % 2))


def _delays(stage: Stage) -> None:
    with Producer(stage.broker, "traffic-delays") as producer:
        for number, level in enumerate((1, 1, 2, 3, 5, 17, 17, 18, 99)):
            outgoing = Outgoing(
                "traffic-delay",
                text(f"delay {number}", 60),
                tags=f"level{level}",
                keys=(f"D-{number}",),
                delay_level=level,
            )
            stage.record(producer.send(outgoing, number % 2))


def _transactions(stage: Stage, *, early: bool) -> None:
    """Send transactions; of the early ones, the broker asks after those left undecided."""
    plan = [("committed", "committed"), ("rolled-back", "rolled-back"), ("undecided", "undecided")]
    if early:
        asked = [("undecided", late) for late in ("committed", "rolled-back", "discarded")]
        plan = [*asked, *plan[:2]]
    with TransactionProducer(stage.broker, "traffic-transactions") as producer:
        for number, (first, later) in enumerate(plan * 4):
            name = f"{'early' if early else 'late'}-{number}"
            outgoing = Outgoing(
                "traffic-transaction",
                text(f"transaction {name}", 80),
                tags=first,
                keys=(f"X-{name}",),
                properties={"first": first, "later": later},
            )
            stage.record(producer.send(outgoing, first, later))
        if early:
            time.sleep(_DELAY_SECONDS)  # the producer has to be there when the broker asks


def _retries(stage: Stage) -> None:
    """Let one group refuse until dead letter, and one with a very long name refuse once."""
    with Producer(stage.broker, "traffic-retries") as producer:
        for number in range(10):
            outgoing = Outgoing(
                "traffic-retry", text(f"retry {number}", 50), "retry", (f"R-{number}",)
            )
            stage.record(producer.send(outgoing, 0))
    with PushConsumer(
        stage.broker,
        "traffic-failing",
        "traffic-retry",
        refuse=lambda message: "retry 1" in message.body.decode(),
    ) as consumer:
        consumer.wait(12)
        time.sleep(2)  # for the dead letter, which no consumer sees
    # A retry topic of more than 127 characters makes 5.x write records of version 2. The client
    # of 5.5.0 refuses such groups, though its broker does not.
    length = 130 if stage.broker.jvm.version == "5.3.3" else 120
    group = "long-group-" + "g" * (length - 11)
    with PushConsumer(
        stage.broker,
        group,
        "traffic-retry",
        refuse=lambda message: message.reconsume_times == 0,
    ) as consumer:
        consumer.wait(20)
    if stage.broker.jvm.is_five and length == 120:
        topic = f"%RETRY%{group}-beyond-127-characters"
        stage.broker.create_topic(topic, 1)
        for number in range(10):
            outgoing = Outgoing(topic, text(f"long {number}", 50), "long")
            stage.record(put_direct(stage.broker, outgoing, reconsume_times=1))


def _hostile(stage: Stage) -> None:
    """Send what is legal for a broker and awkward for a terminal, a table or a file name."""
    with Producer(stage.broker, "traffic-hostile-producer") as producer:
        stage.record(producer.send(outgoing, 0) for outgoing in _hostile_messages())


def _hostile_messages() -> Iterator[Outgoing]:
    topic = "traffic-hostile"
    for value in (
        "\x1b[31mred\x1b[0m",
        "\u202egnp.exe",
        "=1+1",
        "@SUM(A1)",
        "../../etc/passwd",
        "nul\x00byte",
        "line\nfeed\ttab\rreturn",
        'quote"comma,semicolon;',
        "one\x01two",
        "e\u0301 \u00e9 \ufeff \uffff",
        "</script><b>",
    ):
        key = value.replace(" ", "_")
        yield Outgoing(
            topic,
            value.encode(),
            value,
            (key,),
            {"value": value, key: "name"} if "\x01" not in key else {"value": value},
        )
    yield Outgoing(topic, b"\x00", None)
    yield Outgoing(topic, bytes(range(256)), "binary", ("binary",))
    yield Outgoing(topic, b"\xda\xa3\x20\xa7" * 8, "magic", ("magic",))
    # String.hashCode of "T#jllgvmc" is the smallest integer, whose absolute value overflows.
    yield Outgoing("T", b"hash", "polygenelubricants", ("jllgvmc",))
    yield Outgoing(_LONG_TOPIC, b"long", "long", ("long",))
    yield Outgoing(topic, b"keys", "T", tuple(f"many-{number}" for number in range(20)))


SCENARIO: Final = Scenario(
    name="traffic",
    summary="ordinary traffic of every kind, consumers with lag, a clean stop",
    play=play,
    versions=ALSO_LATEST,
    settings={
        **SMALL_GEOMETRY,
        "transactionTimeOut": 500,
        "transactionCheckInterval": 2000,
        "transactionOpBatchInterval": 500,
        "transactionCheckMax": 5,
    },
)
