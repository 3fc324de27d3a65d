"""Consumer groups: lag by queue, and whether a message was consumed, and what tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from rmqtool.errors import UsageError
from rmqtool.formats.message_id import UniqueKey, recognise
from rmqtool.info.overview import group_rows
from rmqtool.query.consumed import consumed_rows, given_back
from rmqtool.query.groups import ConsumerGroup, known_groups, summary
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ByQueueOffset, pasted
from rmqtool.query.trace import follow
from rmqtool.queues.span import SpanColumns
from rmqtool.store.tree import open_store
from tests.cli.run import rmqtool
from tests.stores import fixture_store, sent

OFFSETS = "config/consumerOffset.json"
TRAFFIC = "rocketmq-5.5.0-traffic"


def edited(store: Path, name: str, queues: dict[str, int]) -> None:
    """Let consumerOffset.json have the offsets of one topic and group only."""
    (store / OFFSETS).write_bytes(orjson.dumps({"offsetTable": {name: queues}}))


def lags(store: Path, group: str, *topics: str) -> list[dict[str, object]]:
    """Give the rows of a group."""
    with Lookup(open_store(store)) as lookup:
        consumer_group = ConsumerGroup(lookup, group)
        consumer_group.require()
        return list(consumer_group.rows(topics))


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store that is only read."""
    return fixture_store(TRAFFIC, tmp_path_factory.mktemp("traffic"))


def test_rows(traffic: Path) -> None:
    """Each queue has its committed offset, its ends, its lag, and since when messages wait."""
    found = lags(traffic, "traffic-slow")
    assert [10, 11, 12, 13] == [row["committed_offset"] for row in found]
    assert [270, 269, 268, 267] == [row["lag"] for row in found]
    assert found[0]["lag_since"] == "2026-11-21T03:31:02.813Z"
    assert (
        "1,074 messages in 4 queues not consumed; the first was stored at 2026-11-21T03:31:02"
        in summary("traffic-slow", found)
    )


def test_as_overview(traffic: Path) -> None:
    """Sums of lag and of what expired are those of `info --section groups`."""
    store = open_store(traffic)
    with Lookup(store) as lookup:
        spans = SpanColumns.new()
        for topic in lookup.queues.topics():
            for queue in lookup.queues.queues_of(topic):
                spans.add(queue.span(lookup.log.start))
        overview = group_rows([store.config("consumerOffset.json").document], spans)
        for row in overview:
            rows = list(ConsumerGroup(lookup, row.group).rows([row.topic]))
            assert (row.lag, row.expired) == (
                sum(int(str(row.get("lag") or 0)) for row in rows),
                sum(int(str(row.get("expired") or 0)) for row in rows),
            )
        assert {"traffic-slow", "traffic-failing"} <= {row.group for row in overview}


def test_dead_letters(traffic: Path) -> None:
    """Retries and dead letters are queues of their own, the latter without an offset."""
    found = {row["topic"]: row for row in lags(traffic, "traffic-failing")}
    assert ["traffic-retry", "%RETRY%traffic-failing", "%DLQ%traffic-failing"] == [*found]
    assert found["%DLQ%traffic-failing"]["state"] == "dead letters"
    assert summary("traffic-failing", [*found.values()]).endswith("; 1 dead letter")


def test_states(tmp_path: Path) -> None:
    """An offset before the first message, past the end, of no queue, or none at all is said."""
    store = fixture_store("rocketmq-5.5.0-expired", tmp_path)
    names = sorted(path.name for path in (store / "consumequeue").iterdir())
    found = [
        (str(row["topic"]), int(str(row["queue_id"])), first, int(str(row["max_offset"])))
        for name in names
        for row in lags_of_all(store, name)
        if (first := int(str(row["min_offset"])))
    ]
    for name, queue_id, first, end in found:
        lag = "lag" if first < end else "expired"
        cases = {0: (lag, end - first, first), end: ("consumed", 0, 0), end + 7: ("ahead", 0, 0)}
        for committed, expected in cases.items():
            offsets = {str(queue_id): committed, "77": 5}
            table = orjson.dumps({"offsetTable": {f"{name}@g": offsets}})
            (store / OFFSETS).write_bytes(table)
            rows = {row["queue_id"]: row for row in lags(store, "g")}
            row = rows.pop(queue_id)
            assert expected == (row["state"], row["lag"], row["expired"])
            assert rows.pop(77)["state"] == "no queue"
            assert {"no offset"} >= {row["state"] for row in rows.values()}
    assert {True, False} == {first < end for _, _, first, end in found}


def lags_of_all(store: Path, topic: str) -> list[dict[str, object]]:
    """Give the queues of a topic, as somebody sees them who has consumed nothing."""
    with Lookup(open_store(store)) as lookup:
        return list(ConsumerGroup(lookup, "nobody").rows([topic]))


def test_unknown(traffic: Path) -> None:
    """A group that nobody knows is refused with the nearest names."""
    with pytest.raises(UsageError, match="nearest: traffic-slow"):
        lags(traffic, "traffic-slwo")
    assert "traffic-slow" in known_groups(open_store(traffic))


def consumed(store: Path, group: str, place: tuple[str, int, int]) -> tuple[str, str]:
    """Say whether a group has consumed the message in a place of a queue."""
    with Lookup(open_store(store)) as lookup:
        answer = lookup.find(ByQueueOffset(*place))
        assert answer.hits
        row = consumed_rows(lookup, answer, ConsumerGroup(lookup, group))[0]
        return str(row["consumed"]), str(row["reason"])


ORDERS = ("traffic-orders", 0)


@pytest.mark.parametrize(
    ("group", "place", "verdict", "reason"),
    [
        ("traffic-slow", (*ORDERS, 9), "yes", "goes on at 10 in this queue, past the message"),
        ("traffic-slow", (*ORDERS, 10), "no", "goes on at 10 in this queue, not past"),
        ("traffic-failing", (*ORDERS, 10), "not known", "broadcasts"),
        ("traffic-slow", ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0), "no", "no consumer gets messages"),
    ],
)
def test_consumed(
    traffic: Path, group: str, place: tuple[str, int, int], verdict: str, reason: str
) -> None:
    """The committed offset tells; the first message that is not consumed is at that offset."""
    found = consumed(traffic, group, place)
    assert verdict == found[0]
    assert reason in found[1]


def retried(store: Path) -> tuple[str, int, int]:
    """Give the place of the message that ended as a dead letter."""
    with Lookup(open_store(store)) as lookup:
        answer = lookup.find(ByQueueOffset("%DLQ%traffic-failing", 0, 0))
        origin = answer.hits[0].record.message.properties["ORIGIN_MESSAGE_ID"]
        message = lookup.find(pasted(origin)).hits[0].record.message
        return message.topic, message.queue_id, message.queue_offset


def test_given_up(traffic: Path) -> None:
    """A message that became a dead letter was not consumed, though the offset has passed it."""
    found = consumed(traffic, "traffic-failing", retried(traffic))
    assert found[0] == "no"
    assert "gave it up after" in found[1]


@pytest.mark.parametrize(("committed", "verdict"), [(0, "no"), (1, "no"), (2, "yes")])
def test_given_back(tmp_path: Path, committed: int, verdict: str) -> None:
    """A message that waits in the retry topic is not consumed; one that was read there is."""
    store = fixture_store(TRAFFIC, tmp_path)
    place = retried(store)
    edited(store, "%RETRY%traffic-failing@traffic-failing", {"0": committed})
    with Lookup(open_store(store)) as lookup:
        answer = lookup.find(ByQueueOffset(*place))
        group = ConsumerGroup(lookup, "traffic-failing")
        follow(lookup, answer)
        records = [hit.record.message for hit in answer.hits]
        alive = [record for record in records if not record.topic.startswith("%DLQ%")]
        copy = given_back(group, records[0], alive)
    assert copy is not None
    assert verdict == copy[0]


def test_own_copy(traffic: Path) -> None:
    """A retry that was not given back once more is no copy of itself."""
    with Lookup(open_store(traffic)) as lookup:
        answer = lookup.find(ByQueueOffset(*retried(traffic)))
        group = ConsumerGroup(lookup, "traffic-failing")
        follow(lookup, answer)
        records = [hit.record.message for hit in answer.hits]
        retries = [record for record in records if record.topic == group.retry_topic]
        last = max(retries, key=lambda message: message.physical_offset)
        assert given_back(group, records[0], [*retries]) is not None
        assert given_back(group, last, [*retries]) is None


def test_no_offsets(tmp_path: Path) -> None:
    """Without a file of offsets nothing is known, and that is the reason."""
    store = fixture_store(TRAFFIC, tmp_path)
    for path in (store / "config").glob("consumerOffset.json*"):
        path.unlink()
    found = consumed(store, "traffic-slow", (*ORDERS, 9))
    assert ("not known", "there is no consumerOffset.json to tell committed offsets") == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: one["attributes"].update({"cleanup.policy": "COMPACTION"}), "is compacted"),
        (None, "pops messages"),
    ],
    ids=["compacted", "pop"],
)
def test_not_known(
    tmp_path: Path, change: Callable[[dict[str, dict[str, str]]], None] | None, reason: str
) -> None:
    """Where an offset past the message does not tell, the reason is said."""
    store = fixture_store(TRAFFIC, tmp_path)
    path = store / "config/topics.json"
    document = orjson.loads(path.read_bytes())
    table = document["topicConfigTable"]
    if change is None:
        table["%RETRY%traffic-slow_traffic-orders"] = table["traffic-orders"]
    else:
        table["traffic-orders"].setdefault("attributes", {})
        change(table["traffic-orders"])
    path.write_bytes(orjson.dumps(document))
    found = consumed(store, "traffic-slow", (*ORDERS, 9))
    assert found[0] == "not known"
    assert reason in found[1]


def test_rocksdb(tmp_path: Path) -> None:
    """Offsets that lie in RocksDB count."""
    found = lags(fixture_store("rocketmq-5.5.0-rocksdb-pop", tmp_path), "pop_group")
    assert [30, 30] == [row["lag"] for row in found]


def test_every_group(traffic: Path) -> None:
    """All groups of a topic are asked at once: who has consumed a message, and who has not."""
    place = ("--topic", "traffic-orders", "--queue", "0", "--queue-offset")
    early = rmqtool("query", traffic, *place, "3", "--group", "*", "--format", "jsonl")
    late = rmqtool("query", traffic, *place, "100", "--group", "*", "--format", "jsonl")
    names = ["traffic-reader", "traffic-slow"]
    assert names == [orjson.loads(line)["group"] for line in early.lines]
    assert (0, 1) == (early.code, late.code)
    assert "of 2 groups: consumed by 2 groups (traffic-reader, traffic-slow)" in early.err
    words = "consumed by 1 group (traffic-reader); not consumed by 1 group (traffic-slow)"
    assert f"of 2 groups: {words}" in late.err
    other = rmqtool("query", traffic, "--at", "0", "--group", "*")
    assert (1, True) == (other.code, "no consumer group has a committed offset" in other.err)


def test_deleted(tmp_path: Path) -> None:
    """An ID whose own time or place is before the begin of the log is said to be deleted."""
    store = fixture_store("rocketmq-4.9.3-expired", tmp_path)
    key = next(one["unique_key"] for one in sent("rocketmq-4.9.3-expired") if one["unique_key"])
    kind = recognise(key)
    assert isinstance(kind, UniqueKey)
    old = kind._replace(milliseconds=kind.milliseconds - 5 * 86_400_000)
    words = "its segments before that were deleted"
    assert words in rmqtool("query", store, str(old)).err
    assert words in rmqtool("query", store, "7F0000010000927D0000000000000FFF").err
    new = kind._replace(counter=(kind.counter + 7777) % 65536)
    run = rmqtool("query", store, str(new))
    assert (1, False) == (run.code, words in run.err)
