"""Traces of real producers and consumers, read back against what they did."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import trace
from rmqtool.query import ById, Lookup
from rmqtool.query.trace import follow
from rmqtool.query.traced import summary, trace_rows
from rmqtool.store.tree import open_store
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.consumer import PushConsumer
from tests.broker.jars import missing_tools
from tests.broker.message import Outgoing, Received, Sent
from tests.broker.producer import Producer, TransactionProducer
from tests.cli.run import rmqtool
from tests.query.small_store import build
from tests.tables.dumped import flat

TOPIC, SENDERS, PAYERS, SHIPPERS = "paid-orders", "order-service", "pay-service", "ship-service"
TRACES: Final = {"4.9.3": "RMQ_SYS_TRACE_TOPIC", "5.5.0": "our-traces"}
SETTINGS: Final = {**SMALL_GEOMETRY, "traceTopicEnable": True}
REFUSED: Final = {"4.9.3": b"single 1", "5.5.0": b""}  # its clients retry after 40 s
QUIET: Final = {"4.9.3": 1.0, "5.5.0": 6.0}  # seconds: a client of 5.x flushes every 5
FIRST: Final = ("1795728430565", "DefaultRegion", "order-service")
Row = dict[str, Any]


class Refusals:
    """Refuses one message, the first time it comes."""

    def __init__(self, body: bytes) -> None:
        self.body, self.times = body, 0

    def __call__(self, message: Received) -> bool:
        """Tell whether a message is refused."""
        self.times += message.body == self.body
        return message.body == self.body and self.times == 1


def settle(broker: Broker, topic: str, quiet_seconds: float) -> None:
    """Wait until clients have written their traces: what is left at their end may be lost."""
    deadline, count = time.monotonic() + quiet_seconds, -1
    while time.monotonic() < deadline:
        if (there := broker.store.getMaxOffsetInQueue(topic, 0)) != count:
            deadline, count = time.monotonic() + quiet_seconds, there
        time.sleep(0.05)


def written(version: str, home: Path) -> dict[str, list[Sent]]:
    """Let real clients with traces send and consume; give what was sent, by how."""
    topic = TRACES[version]
    with running_broker(version, home, SETTINGS) as broker:
        broker.create_topic(TOPIC, 2)
        broker.create_topic(topic, 1)
        with Producer(broker, SENDERS, trace_topic=topic) as producer:
            single = [
                producer.send(Outgoing(TOPIC, b"single %d" % n, "T", (f"K-{n}", "K")))
                for n in range(3)
            ]
            batch = producer.send_batch([Outgoing(TOPIC, b"batch %d" % n) for n in range(3)], 0)
            settle(broker, topic, QUIET[version])
        with TransactionProducer(broker, PAYERS, topic) as payer:
            paid = payer.send(Outgoing(TOPIC, b"paid", "T", ("P-1",)), "committed")
            settle(broker, topic, QUIET[version])
            if broker.jvm.is_five:
                broker.rest()
        refuse = Refusals(REFUSED[version])
        with PushConsumer(
            broker, SHIPPERS, TOPIC, refuse=refuse, most_retries=4, trace_topic=topic
        ) as consumer:
            consumer.wait(len([*single, *batch, paid]) + bool(refuse.body))
            settle(broker, topic, QUIET[version])
        broker.wait_dispatched()
    return {"single": single, "batch": batch, "paid": [paid]}


def of_message(store: Path, unique_key: str | None, topic: str) -> list[Row]:
    """Give the traces of one message, as `query --trace` does."""
    with Lookup(open_store(store)) as lookup:
        answer = lookup.find(ById(str(unique_key)))
        follow(lookup, answer, (topic,))
        assert {topic}.isdisjoint(hit.record.message.topic for hit in answer.hits)
        return trace_rows(lookup, answer, (topic,))


@pytest.mark.broker
@pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java")
@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_real_clients(version: str, tmp_path: Path) -> None:
    """Who sent and who consumed each message, how often and with which result."""
    sent, topic = written(version, tmp_path), TRACES[version]
    store = tmp_path / "store"
    for message in [*sent["single"], *sent["batch"]]:
        rows = of_message(store, message.unique_key, topic)
        published = [row for row in rows if row["event"] == "Pub"]
        assert [(SENDERS, True, TOPIC)] == [
            (row["group"], row["success"], row["topic"]) for row in published
        ]
        assert [message.offset_message_id] == [row["offset_message_id"] for row in published]
        assert [3 if message in sent["batch"] else None] == [row["batch"] for row in published]
        refused = message.body == REFUSED[version]
        consumed = [row for row in rows if row["event"] == "SubAfter"]
        results = ["FAILED", "SUCCESS"] if refused else ["SUCCESS"]
        if version == "5.5.0" and message in sent["batch"]:
            results = []  # its client writes no traces of what was sent as a batch: no MSG_REGION
        assert results == [row["return_type"] for row in consumed]
        assert [*range(len(results))] == [row["retry_times"] for row in consumed]
        assert {SHIPPERS} >= {row["group"] for row in consumed}
        assert f"sent by {SENDERS} from 127.0.0.1 in " in summary(rows)
    (paid,) = sent["paid"]
    rows = of_message(store, paid.unique_key, topic)
    ends = [row for row in rows if row["event"] == "EndTransaction"]
    assert [("COMMIT_MESSAGE", False, PAYERS)] == [
        (row["transaction_state"], row["from_check"], row["group"]) for row in ends
    ]
    halves = [row for row in rows if row["event"] == "Pub"]
    assert [("Trans_Msg_Half", PAYERS)] == [(row["message_type"], row["group"]) for row in halves]
    own = () if topic == TRACES["4.9.3"] else (topic,)
    (dumped,) = dump(DumpOptions((str(store),), "traces", trace_topics=own), DumpOutcome())
    kinds = [row["event"] for row in flat(dumped)]
    deliveries = 8 if version == "4.9.3" else 4
    assert {"Pub": 7, "SubBefore": deliveries, "SubAfter": deliveries, "EndTransaction": 1} == {
        kind: kinds.count(kind) for kind in set(kinds)
    }


def event(*fields: str) -> bytes:
    """Write an event as clients do."""
    return "\x01".join(fields).encode() + b"\x02"


def traced(tmp_path: Path, body: bytes) -> Path:
    """Make a store with a message and a trace record about it."""
    build(
        tmp_path / "store",
        [(TOPIC, {"UNIQ_KEY": "A"}), ("RMQ_SYS_TRACE_TOPIC", {"UNIQ_KEY": "B", "KEYS": "A"})],
        body,
    )
    return tmp_path / "store"


def test_unreadable_events(tmp_path: Path) -> None:
    """An event that cannot be read is a row with the reason; those around it are read."""
    good = event("Pub", *FIRST, TOPIC, "A", *("null",) * 2, "b:1", "6", "7", "0", "ID", "true")
    bad = event("Pub", "soon", *FIRST[1:], TOPIC, "A", *("x",) * 7)
    store = traced(tmp_path, good + bad + event("Sub") + event("Pub", "1") + good)
    done = rmqtool("dump", store, "--as", "traces", "--format", "jsonl")
    rows = [orjson.loads(line) for line in done.lines]
    assert ["Pub", "Pub", None, "Pub", "Pub"] == [row["event"] for row in rows]
    assert [None, "event_timestamp: 'soon' is not a number",
            "'Sub' is not a kind of trace event", "1 fields, 12 at least", None] == [
        row["reason"] for row in rows
    ]  # fmt: skip
    assert 0 == done.code  # the store is sound: a client wrote this
    assert [None, "gap", "gap", "gap", None] == [row["extent"] for row in rows]


def test_damaged_record(tmp_path: Path) -> None:
    """A bit that flipped in a trace record is damage of the log."""
    store = traced(tmp_path, event("Recall", *FIRST, TOPIC, "A", "true"))
    log = store / "commitlog" / f"{0:020}"
    raw = bytearray(log.read_bytes())
    raw[raw.rindex(b"Recall")] ^= 1
    log.write_bytes(raw)
    done = rmqtool("dump", store, "--as", "traces", "--format", "jsonl")
    assert ["CL-CRC", None] == [orjson.loads(line)["code"] for line in done.lines]
    assert 1 == done.code


def test_first_releases(tmp_path: Path) -> None:
    """A Pub without an offset ID is read, and an end without a group has that of its begin."""
    pub = event("Pub", *FIRST, TOPIC, "A", "T", "K", "b:1", "6", "7", "0", "false")
    begin = event("SubBefore", *FIRST[:2], SHIPPERS, "R", "A", "2", "K")
    store = traced(tmp_path, pub + begin + event("SubAfter", "R", "A", "5", "true", "K"))
    sent, consumed = of_message(store, "A", "")
    assert (False, None) == (sent["success"], sent["offset_message_id"])
    assert (SHIPPERS, 2, "2026-11-26T21:27:10.565Z") == (
        consumed["group"],
        consumed["retry_times"],
        consumed["event_time"],
    )
    done = rmqtool("query", store, "A", "--trace", "--format", "jsonl")
    assert "sent by order-service from 0.0.0.0 in 7 ms, without success" in done.err
    assert f"delivered to {SHIPPERS} 1 time: SUCCESS in 5 ms" in done.err


def test_needs_traces(tmp_path: Path) -> None:
    """A trace topic says nothing about other rows."""
    store = traced(tmp_path, b"")
    done = rmqtool("dump", store, "--trace-topic", "x")
    assert (2, True) == (done.code, "--trace-topic: needs --as traces" in done.err)


@given(st.lists(st.sampled_from(["Pub", "SubAfter", "x", "1", "\x01", "\x02", "null", "é"])))
def test_any_text(parts: list[str]) -> None:
    """Whatever a body holds, each event is read, or has a reason; none raises."""
    for event in trace.events("".join(parts).encode()):
        assert bool(event.reason) or event.kind in trace.FIELDS


@given(st.binary())
def test_any_bytes(body: bytes) -> None:
    """No bytes raise, and no event is made of nothing."""
    assert len([*trace.events(body)]) <= len(body)
