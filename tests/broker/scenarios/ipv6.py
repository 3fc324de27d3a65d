"""Hosts of both address families, in all four combinations of born and store host."""

from __future__ import annotations

import itertools
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY
from tests.broker.direct import put_direct
from tests.broker.message import Outgoing
from tests.broker.ports import LOOPBACK
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TOPIC: Final = "ipv6-orders"
_HOSTS: Final = (LOOPBACK, "::1", "2001:db8::17")


def play(stage: Stage) -> None:
    """Send through a broker on ::1, then put records of other hosts beside."""
    stage.broker.create_topic(_TOPIC, 2)
    with Producer(stage.broker, "ipv6-producer") as producer:
        for number in range(60):
            stage.record(producer.send(order(_TOPIC, number), number % 2))
        batch = [Outgoing(_TOPIC, text(f"batch {item}", 40), "batch") for item in range(8)]
        stage.record(producer.send_batch(batch, 1))
    with Producer(stage.broker, "ipv6-compressed", "ZLIB") as producer:
        for number in range(4):
            outgoing = Outgoing(_TOPIC, text(f"zlib {number}", 3000), "zlib", (f"Z-{number}",))
            stage.record(producer.send(outgoing, number % 2))
    with TransactionProducer(stage.broker, "ipv6-transactions") as transactions:
        for number, outcome in enumerate(("committed", "rolled-back", "committed")):
            outgoing = Outgoing(_TOPIC, text(f"half {number}", 40), "half", (f"X-{number}",))
            stage.record(transactions.send(outgoing, outcome))
    for number, (born, store) in enumerate(itertools.product(_HOSTS, _HOSTS)):
        outgoing = Outgoing(_TOPIC, text(f"{born} {store}", 50), "direct", (f"H-{number}",))
        stage.record(put_direct(stage.broker, outgoing, born_host=born, store_host=store))
    stage.broker.wait_dispatched()


SCENARIO: Final = Scenario(
    name="ipv6",
    summary="born and store hosts of IPv4 and IPv6 in every combination",
    play=play,
    settings={**SMALL_GEOMETRY, "brokerIP1": "::1", "brokerIP2": "::1"},
    ipv6=True,
)
