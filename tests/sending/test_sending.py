"""Each message is sent once, to its queue, and what stands in the way is told."""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.errors import (
    OutputExists,
    PlanMismatch,
    RemotingError,
    RepairError,
    UnreadablePath,
    UsageError,
)
from rmqtool.formats import properties
from rmqtool.formats.message import LONGEST_PROPERTIES, Message, SysFlag, encode, sealed
from rmqtool.sending import pipeline, producer
from rmqtool.sending.access import access_of
from rmqtool.sending.entries import entries
from rmqtool.sending.options import SendOptions, addresses
from rmqtool.sending.outgoing import OLD_ID, Outgoing
from rmqtool.sending.remoting import json_of
from rmqtool.sending.report import SendContent, SendResult, Turns
from rmqtool.sending.routes import Master, Route
from rmqtool.sending.sending import SendRun
from rmqtool.store.address import place_of
from rmqtool.writing.ledger import SentLedger
from tests.sending.cluster import SILENCE, Cluster, frame, running_cluster
from tests.store import faults

PATIENCE: Final = 600.0  # seconds, on a busy machine


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster with the topic `orders`; a busy broker is asked again at once."""
    monkeypatch.setattr(producer, "FIRST_WAIT", 0.0001)
    with running_cluster() as cluster:
        yield cluster


def line(number: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as a line is
    """Give a message, as `extract` writes it."""
    return {
        "topic": "orders", "queue_id": number % 3, "body": f"body {number}",
        "properties": {"KEYS": f"k{number}", "UNIQ_KEY": f"U{number}"},
        "message_id": f"OLD{number}", "flag": number, "born_time": "2026-11-22T14:36:28.915Z",
        **more,
    }  # fmt: skip


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def send(cluster: Cluster, file: Path, **options: Any) -> SendResult:  # noqa: ANN401 - as they are
    """Send a file."""
    given = {"name_servers": addresses(cluster.address), "timeout": PATIENCE, **options}
    run = SendRun(SendOptions(str(file), **given))
    return run.run(run.check())


def bodies(cluster: Cluster) -> list[bytes]:
    """Give the bodies that arrived."""
    return [body for _, body in cluster.sent]


def test_arrives(cluster: Cluster, tmp_path: Path) -> None:
    """Body, queue, flag, born time and the sender's properties go along, what brokers add does not.

    A retried message goes to its real topic; where a queue has no such number, others take turns.
    """
    broker_made = {"DELAY": "3", "TRAN_MSG": "true", "REAL_TOPIC": "x", "TIMER_OUT_MS": "1"}
    exact = base64.b64encode(b"\xff\x00").decode()
    retry = {"topic": "%RETRY%g", "properties": {"RETRY_TOPIC": "orders", "mine": "täg"}}
    lines = [
        line(
            1, properties={"KEYS": "a b", "TAGS": "T", "UNIQ_KEY": "U", "own": "1", **broker_made}
        ),
        line(2, body="?", body_b64=exact),
        line(3, queue_id=9),
        line(4, **retry),
        line(5, **retry),
        {"topic": "orders", "body": "only", "keys": ["p", "q"], "tags": "t"},
        line(7, topic="other", body=""),
        line(8, topic="other"),
    ]
    outcome = send(cluster, written(tmp_path / "f.jsonl", lines), topics=("orders",), window=1)
    assert (6, 2) == (outcome.sent.total(), outcome.checked.others)
    assert outcome.sent == outcome.planned
    texts = [properties.decode(head["i"].encode()) for head, _ in cluster.sent]
    carried = {"KEYS": "a b", "TAGS": "T", "UNIQ_KEY": "U", "own": "1", OLD_ID: "OLD1"}
    assert carried == texts[0]
    assert {"mine": "täg", OLD_ID: "OLD4"} == texts[3]
    assert {"KEYS": "p q", "TAGS": "t"} == texts[5]
    assert [b"body 1", b"\xff\x00", b"body 3", b"body 4", b"body 5", b"only"] == bodies(cluster)
    assert ["1", "2", "1", "0", "1", "2"] == [head["e"] for head, _ in cluster.sent]
    first = cluster.sent[0][0]
    assert ("orders", "1", "1795358188915") == (first["b"], first["h"], first["g"])


def test_records(cluster: Cluster, tmp_path: Path) -> None:
    """Batch records are taken apart, copies that brokers hold back are left out."""
    from rmqtool.formats.inner_batch import ClientMessage
    from rmqtool.formats.inner_batch import encode as inner

    message = Message(topic_bytes=b"orders", body=b"plain", flag=3, queue_id=1)
    waiting = message._replace(
        topic_bytes=b"SCHEDULE_TOPIC_XXXX", body=b"late", queue_id=2,
        properties_bytes=properties.encode({"REAL_TOPIC": "orders", "REAL_QID": "3", "DELAY": "3"}),
    )  # fmt: skip
    half = message._replace(sys_flag=SysFlag.TRANSACTION_PREPARED_TYPE, body=b"half")
    parts = b"".join(inner(ClientMessage(0, 0, n, b"in %d" % n, b"")) for n in (8, 9))
    batch = message._replace(sys_flag=SysFlag.INNER_BATCH_FLAG, body=parts)
    system = message._replace(topic_bytes=b"rmq_sys_wheel_timer", body=b"own")
    file = tmp_path / "f.bin"
    file.write_bytes(b"".join(encode(sealed(m)) for m in (message, waiting, half, batch, system)))
    outcome = send(cluster, file)
    assert [b"plain", b"late", b"in 8", b"in 9"] == bodies(cluster)
    assert ["1", "3", "1", "1"] == [head["e"] for head, _ in cluster.sent]
    assert (2, 0) == (outcome.checked.held, outcome.checked.system)
    assert 1 == send(cluster, file, held=True, topics=("orders",)).sent.total()


def assert_ordered(cluster: Cluster) -> None:
    """Assert that the messages of each queue came in their order; one sent again comes at once."""
    queues: dict[str, list[int]] = {}
    for head, _ in cluster.sent:
        queues.setdefault(head["e"], []).append(int(head["h"]))
    for flags in queues.values():
        assert sorted(flags) == flags


BAD = [
    ({"body": "x"}, "no topic"),
    ({"topic": "a b", "body": "x"}, "no broker takes the topic 'a b'"),
    ({"topic": "orders", "body": ""}, "the body is empty"),
    ({"topic": "orders", "body_b64": "?"}, "body_b64 is not valid base64"),
    ({"topic": "orders", "body": "x", "propertys": {}}, "is called 'propertys'"),
    ({"topic": "orders", "body": "x", "properties": {"a": 1}}, "not an object of texts"),
    ({"topic": "orders", "body": "x", "properties": {"a": "\x02"}}, "'a' holds a separator"),
    ({"topic": "orders", "body": "x", "properties": {"a": "x" * 32765}}, "properties of 32,768"),
    ({"topic": "orders", "body": "x", "flag": 1 << 31}, "more than 32 bits"),
    ({"topic": "orders", "body": "x", "queue_id": "1"}, "queue_id is not a whole number"),
    (
        {"topic": "orders", "body": "x", "born_time": "2026-01-01T00:00:00"},
        "not a time with a zone",
    ),
    ({"topic": "orders", "body": "x", "body_error": "zlib"}, "is damaged: zlib"),
    ({"topic": "orders", "body": "x", "properties_b64": "/w=="}, "properties that is not UTF-8"),
    ({"topic": "orders", "body": "x", "topic_b64": "/w=="}, "topic that is not UTF-8"),
    ({"topic": "orders", "body": "x", "keys": "K-1"}, "keys is not a list of texts"),
    ({"topic": "orders", "body": "x", "keys": ["K-1", 2]}, "keys is not a list of texts"),
]


def test_bad_lines(cluster: Cluster, tmp_path: Path) -> None:
    """Each is named by number and reason, and nothing is sent; unless the others are wanted."""
    file = tmp_path / "f.jsonl"
    texts = [json.dumps(line) for line, _ in BAD]
    more = ["no JSON", "[1]", '{"topic":"orders","body":"\\ud800"}', "[" * 100_000]
    file.write_text("\n".join([json.dumps(line(1)), *texts, "", *more]), encoding="utf-8")
    outcome = send(cluster, file)
    bad = outcome.checked.bad
    assert [*range(2, 18), *range(19, 23)] == [line.line for line in bad]
    for found, (_, reason) in zip(bad, BAD, strict=False):
        assert reason in found.reason
    raw = file.read_bytes()
    assert [text.encode() for text in texts] == [
        raw[line.position :].split(b"\n")[0] for line in bad[: len(texts)]
    ]
    assert not cluster.sent
    assert [file] == [*tmp_path.iterdir()]
    assert 1 == send(cluster, file, skip_bad=True).sent.total()


def test_longest_properties(cluster: Cluster, tmp_path: Path) -> None:
    """Properties of as many bytes as a broker takes are sent, whole."""
    text = "x" * (LONGEST_PROPERTIES - len("a\x01\x02"))
    one = {"topic": "orders", "body": "x", "properties": {"a": text}}
    assert 1 == send(cluster, written(tmp_path / "f.jsonl", [one])).sent.total()
    assert {"a": text} == properties.decode(cluster.sent[0][0]["i"].encode())


def test_bad_records(cluster: Cluster, tmp_path: Path) -> None:
    """A record with another body, and one that is cut."""
    line = encode(sealed(Message(topic_bytes=b"orders", body=b"plain")))
    file = tmp_path / "f.rmq"
    file.write_bytes(line + line.replace(b"plain", b"plaiN") + line + line[:-1])
    bad = send(cluster, file).checked.bad
    assert [(2, len(line)), (4, 3 * len(line))] == [(line.line, line.position) for line in bad]
    assert "its checksum differs" in bad[0].reason
    assert "what follows is lost" in bad[1].reason
    assert not cluster.sent


@pytest.mark.parametrize("window", [1, 2, 64])
def test_resumes(window: int, cluster: Cluster, tmp_path: Path) -> None:
    """Wherever a process is killed: nothing is missing, and only what is named is there twice.

    It is at most what was on its way, and the order of each queue stays.
    """
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 8)])
    ledger = tmp_path / "f.jsonl.sent"
    expected = sorted(b"body %d" % number for number in range(1, 8))

    def work() -> None:
        send(cluster, file, window=window)

    count = faults.operations(work)
    assert expected == sorted(bodies(cluster))
    doubled = 0
    for number in range(count):
        ledger.unlink(missing_ok=True)
        cluster.sent.clear()
        # Answers come together or apart, so that a run with a window writes more often, or less.
        assert faults.killed_at(number, work) or (window > 1 and number > count // 2)
        outcome = send(cluster, file)
        arrived = bodies(cluster)
        twice = [one for one in set(arrived) if arrived.count(one) > 1]
        assert expected == sorted(set(arrived))
        assert set(twice) <= {b"body %d" % one for one in outcome.twice}
        assert len(outcome.twice) <= min(window, 3)  # the file has messages of three queues
        assert_ordered(cluster)
        doubled += len(twice)
    assert doubled
    cluster.sent.clear()
    assert 7 == send(cluster, file).sent_before.total()
    assert not cluster.sent


def test_power_failure(cluster: Cluster, tmp_path: Path) -> None:
    """Of a machine that started anew, the whole open stretch may have been sent."""
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 6)])
    send(cluster, file)
    ledger = tmp_path / "f.jsonl.sent"
    lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    begun = json.loads(lines[1]) | {"boot": "another"}
    assert {"on_way": [1, 2, 3]} == json.loads(lines[2])
    ledger.write_text("".join([lines[0], json.dumps(begun) + "\n", *lines[2:4], lines[4][:9]]))
    assert [2, 3, 4, 5] == send(cluster, file).twice


def test_first_ledger(cluster: Cluster, tmp_path: Path) -> None:
    """A ledger of 1.0.0 is gone on with: any message of its open stretch may have been sent."""
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 6)])
    send(cluster, file)
    ledger = tmp_path / "f.jsonl.sent"
    head, begun, _, first, *_ = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    head = json.dumps(json.loads(head) | {"ledger": 1}) + "\n"
    ledger.write_text(head + begun + first + '{"unsure": 2, "reason": "x"}\n')
    assert [2, 3, 4, 5] == send(cluster, file).twice


def test_busy_queue(cluster: Cluster, tmp_path: Path) -> None:
    """A message that a busy broker did not take holds up its queue alone, and goes first there."""
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 40)])
    cluster.answer = {0: 2, 4: 215, 7: 2, 8: 2}.get
    outcome = send(cluster, file)
    assert (39, []) == (outcome.sent.total(), outcome.twice)
    assert_ordered(cluster)
    assert b"body 1" != bodies(cluster)[0]


def test_window(cluster: Cluster, tmp_path: Path) -> None:
    """Never are more messages on their way than the window allows, nor two of one queue."""
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 40)])
    ledger = tmp_path / "f.jsonl.sent"
    for window in (1, 2, 64):
        ledger.unlink(missing_ok=True)
        send(cluster, file, window=window)
        on_way, most = set[int](), 0
        for one in map(json.loads, ledger.read_text(encoding="utf-8").splitlines()):
            on_way |= {*one.get("on_way", ())}
            most = max(most, len(on_way))
            assert len(on_way) == len({number % 3 for number in on_way})
            on_way -= {one.get("number")}
        assert min(window, 3) == most


def test_large_bodies(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large bodies fewer are on their way, and fewer in memory: one at least."""
    monkeypatch.setattr(pipeline, "WAY_BYTES", 1000)
    monkeypatch.setattr(pipeline, "STRETCH_BYTES", 4000)
    lines = [line(number, body="x" * 1500) for number in range(1, 8)]
    assert 7 == send(cluster, written(tmp_path / "f.jsonl", lines)).sent.total()
    kept = [json.loads(text) for text in (tmp_path / "f.jsonl.sent").read_text().splitlines()]
    assert [[1], [2], [3]] == [one["on_way"] for one in kept if "on_way" in one][:3]
    assert [[1, 3], [4, 6], [7, 7]] == [one["sending"] for one in kept if "sending" in one]


def test_ledger_of_another(cluster: Cluster, tmp_path: Path) -> None:
    """A ledger is of one file and one cluster, and of one process at a time."""
    file = written(tmp_path / "f.jsonl", [line(1)])
    send(cluster, file)
    with pytest.raises(PlanMismatch, match="name_server was"):
        send(cluster, file, name_servers=(*addresses("127.0.0.1:1"), *addresses(cluster.address)))
    with SentLedger(f"{file}.sent", {}, 1), pytest.raises(OutputExists, match="another process"):
        send(cluster, file)
    written(file, [line(2)])
    with pytest.raises(PlanMismatch, match="sha256 was"):
        send(cluster, file)
    (tmp_path / "f.jsonl.sent").write_text("[1]\n")
    with pytest.raises(PlanMismatch, match="is not a ledger"):
        send(cluster, file)
    assert 1 == send(cluster, file, ledger=str(tmp_path / "other")).sent.total()


def test_strange_files(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing is written beside a file of a store, or through a link; a FIFO is not opened."""
    file = written(tmp_path / "00000000000000000000", [line(1)])
    with pytest.raises(UsageError, match="is a file of a store"):
        send(cluster, file)
    ledger = tmp_path / "ledger"
    ledger.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RepairError, match="link"):
        send(cluster, file, ledger=str(ledger))
    assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnreadablePath):
        send(cluster, tmp_path / "fifo")
    assert not cluster.sent


HOSTILE = {
    "closed": (b"", "the connection was closed before the answer"),
    "silent": (SILENCE, "no answer within 1 s"),
    "long": (struct.pack(">i", 0x7FFFFFFF) + b"x" * 99, "an answer of 2,147,483,647 bytes"),
    "negative": (struct.pack(">i", -5), "an answer of -5 bytes"),
    "announced": (struct.pack(">i", 16 << 20) + b"x", "no answer within 1 s"),
    "header": (struct.pack(">ii", 8, 0xFFFFFF) + b"xxxx", "without a header in JSON"),
    "json": (struct.pack(">ii", 8, 4) + b"[[[[", "whose header cannot be read"),
    "strays": (frame({"opaque": -1}, 0, {}) * 1000, "answers what was not asked"),
    "no-id": (frame({"opaque": 1}, 0, {}), "without the ID of the message"),
}


@pytest.mark.parametrize("window", [1, 64])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_broker(name: str, window: int, cluster: Cluster, tmp_path: Path) -> None:
    """Whatever it answers, what was on its way is unsure, and is sent again by the next run."""
    raw, reason = HOSTILE[name]
    file = written(tmp_path / "f.jsonl", [line(1), line(2), line(3)])
    cluster.answer = lambda number: raw if number == 1 and name != "no-id" else None
    if name == "no-id":
        cluster.answer = lambda number: raw if number == 0 else None
    timeout = 1.0 if reason.startswith("no answer") else PATIENCE
    outcome = send(cluster, file, timeout=timeout, window=window)
    assert isinstance(outcome.stopped, RemotingError)
    assert reason in str(outcome.stopped)
    cluster.answer = lambda _: None
    again = send(cluster, file)
    assert outcome.unsure == again.twice
    assert 1 <= len(outcome.unsure) <= min(window, 3)
    arrived = Counter(bodies(cluster))
    assert {b"body 1", b"body 2", b"body 3"} == arrived.keys()
    assert {body for body, count in arrived.items() if count > 1} <= {
        b"body %d" % number for number in again.twice
    }
    assert window > 1 or max(arrived.values()) == 1


def test_refusals(cluster: Cluster, tmp_path: Path) -> None:
    """A busy broker is asked again; a message that is refused for itself does not stop the rest."""
    file = written(tmp_path / "f.jsonl", [line(number) for number in range(1, 5)])
    codes = {0: 2, 1: 215, 3: 13, 4: 10, 5: 16}
    cluster.answer = codes.get
    outcome = send(cluster, file, window=1)
    assert [b"body 1", b"body 3"] == bodies(cluster)
    assert [2] == [line.line for line in outcome.refused]
    assert "answers 13: the reason of 13" in outcome.refused[0].reason
    assert "refuses message 4: 16: the reason of 16" in str(outcome.stopped)
    assert (1, []) == (outcome.half_stored, outcome.unsure)
    cluster.answer = lambda _: None
    assert (2, []) == ((again := send(cluster, file)).sent.total(), again.twice)
    cluster.answer = lambda _: 2
    (tmp_path / "f.jsonl.sent").unlink()
    assert "refuses message 1: 2" in str(send(cluster, file).stopped)


def test_routes(cluster: Cluster, tmp_path: Path) -> None:
    """Without a topic, a permission or a name server nothing is sent, and no ledger is made."""
    file = written(tmp_path / "f.jsonl", [line(1), line(2, topic="other")])
    cluster.answers[106] = 0, {}, b'{"clusterAddrTable":{"c 1":["a"]}}'
    with pytest.raises(UsageError, match="the cluster has no topic 'other'") as missing:
        send(cluster, file)
    where = f"-n {cluster.address} -c 'c 1'"
    assert missing.value.step.startswith(f"mqadmin updateTopic {where} -t other -r 3 -w 3\ntry: ")
    cluster.topics["other"] = 1
    cluster.perm = 4
    with pytest.raises(UsageError, match="no master broker of the cluster may be written to"):
        send(cluster, file)
    for route in (b"", b"[]", b'{"brokerDatas":1}', b'{"brokerDatas":[{}]}', b"[" * sys.maxunicode):
        cluster.route = route or b"{"
        with pytest.raises(RemotingError, match="answers no route of topic"):
            send(cluster, file)
    cluster.route, cluster.perm = b"", 6
    nobody = addresses("127.0.0.1:1")
    with pytest.raises(RemotingError, match="cannot be reached: Connection refused"):
        send(cluster, file, name_servers=nobody)
    assert [file] == [*tmp_path.iterdir()]
    dry = send(cluster, file, dry_run=True, name_servers=(*nobody, *addresses(cluster.address)))
    assert {("orders", 1): 1, ("other", 0): 1} == {
        (topic, queue.queue_id): count for (topic, queue), count in dry.planned.items()
    }
    assert [file] == [*tmp_path.iterdir()]
    assert {"other"} == {topic for topic, _ in send(cluster, file, to_topic="other").sent}


def test_all_missing_topics(cluster: Cluster, tmp_path: Path) -> None:
    """All topics that the cluster lacks are named at once, each with its command."""
    lines = [line(1, topic="b"), line(2), line(8, topic="a|b", queue_id=7), line(4, topic="b")]
    with pytest.raises(UsageError, match=r"the cluster has no topics 'a\|b', 'b'") as missing:
        send(cluster, written(tmp_path / "f.jsonl", lines))
    commands = missing.value.step.split("\ntry: ")
    where = f"mqadmin updateTopic -n {cluster.address} -c CLUSTER"
    assert [f"{where} -t 'a|b' -r 8 -w 8", f"{where} -t b -r 2 -w 2"] == commands[:2]
    with pytest.raises(UsageError, match="does not know the consumer group 'shop'"):
        send(cluster, written(tmp_path / "f.jsonl", lines), to_group="shop")


def test_other_servers(cluster: Cluster, tmp_path: Path) -> None:
    """A broker, a proxy's gRPC port and a web server are called what they are."""
    file = written(tmp_path / "f.jsonl", [line(1)])
    cluster.answers[105] = 3, {}, b""
    with pytest.raises(RemotingError, match="is not a name server: it does not know routes"):
        send(cluster, file)
    cluster.answers[26] = 0, {}, b"brokerName=b-0\nnamesrvAddr=10.0.0.1\\:9876;10.0.0.2\\:9876\n"
    servers = "its name servers: 10.0.0.1:9876;10.0.0.2:9876"
    with pytest.raises(RemotingError, match=f"is broker 'b-0', not a name server; {servers}"):
        send(cluster, file)
    cluster.answers.clear()
    for raw, words in (
        (b"\0\0\x12\x04" + bytes(23), "speaks HTTP/2, as the gRPC port of a proxy"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP: this is not a port"),
        (b"\x15\x03\x01\0\x02\x02\x50\0", "takes TLS only: --tls"),
    ):
        cluster.raw = raw
        with pytest.raises(RemotingError, match=words):
            send(cluster, file)


def test_to_group(cluster: Cluster, tmp_path: Path) -> None:
    """To one group messages go through its retry topic, with what its listener sees them by."""
    cluster.topics["%RETRY%shop"] = 1
    again = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "FIRST", "UNIQ_KEY": "U"}
    lines = [
        line(1),
        line(2, topic="%RETRY%other", properties=again),
        line(3, topic="TBW102"),
        line(4, topic="%DLQ%shop"),
    ]
    file = written(tmp_path / "f.jsonl", lines)
    outcome = send(cluster, file, to_group="shop", skip_bad=True)
    assert (2, 1, 1) == (outcome.sent.total(), outcome.checked.system, outcome.checked.bad_count)
    assert {"%RETRY%shop"} == {head["b"] for head, _ in cluster.sent}
    texts = [properties.decode(head["i"].encode()) for head, _ in cluster.sent]
    assert ("orders", "OLD1") == (texts[0]["RETRY_TOPIC"], texts[0]["ORIGIN_MESSAGE_ID"])
    assert ("orders", "FIRST") == (texts[1]["RETRY_TOPIC"], texts[1]["ORIGIN_MESSAGE_ID"])
    with pytest.raises(UsageError, match="--to-group: cannot be combined with --to-topic"):
        send(cluster, file, to_group="shop", to_topic="orders")


def test_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come of a file or of the environment; no text of theirs shows the secret."""
    file = tmp_path / "key"
    options = SendOptions("f", dry_run=True, credentials=str(file))
    with pytest.raises(UsageError, match="No such file"):
        access_of(options)
    file.write_text("accessKey=me\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no secretkey"):
        access_of(options)
    file.write_text("AccessKey = me\nSecretKey = 'hid den'\nsecurityToken: T\n", encoding="utf-8")
    assert ("me", "hid den", "T") == access_of(options).credentials
    assert "hid den" not in repr(access_of(options))
    assert access_of(SendOptions("f", dry_run=True)).credentials is None
    monkeypatch.setenv("RMQTOOL_ACCESS_KEY", "you")
    with pytest.raises(UsageError, match="the environment has no RMQTOOL_SECRET_KEY"):
        access_of(SendOptions("f", dry_run=True))
    with pytest.raises(UsageError, match="--tls-ca: needs --tls"):
        SendOptions("f", dry_run=True, tls_ca="x")
    with pytest.raises(UsageError, match="--tls-key: needs --tls-cert"):
        SendOptions("f", dry_run=True, tls=True, tls_key="x")
    with pytest.raises(UsageError, match=r"--tls-ca: .*key: no certificate"):
        access_of(SendOptions("f", dry_run=True, tls=True, tls_ca=str(file), credentials=str(file)))


@pytest.mark.parametrize(
    ("texts", "due"),
    [
        ({"TIMER_OUT_MS": "5000"}, 6000),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "5840"}, 5840),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "6000"}, 6000),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "5000"}, 6000),
        ({"TIMER_OUT_MS": "x"}, None),
    ],
)
def test_due(texts: dict[str, str], due: int | None, cluster: Cluster, tmp_path: Path) -> None:
    """A timer is due when a broker delivers it: up to a second after TIMER_OUT_MS.

    It needs `pending`, and half messages are not sent with it.
    """
    where = {"REAL_TOPIC": "orders"}
    half = {"stored_topic": "RMQ_SYS_TRANS_HALF_TOPIC", "properties": where}
    lines = [line(1, stored_topic="rmq_sys_wheel_timer", properties=texts | where), line(2, **half)]
    file = written(tmp_path / "f.jsonl", lines)
    (timer, _) = entries(place_of(str(file)).open())
    assert isinstance(timer, Outgoing)
    assert due == (timer.wait and timer.wait.due_ms)
    cluster.answers[26] = 0, {}, b"timerWheelEnable=true\n"
    assert 0 == send(cluster, file).sent.total()
    (tmp_path / "f.jsonl.sent").unlink(missing_ok=True)
    assert (due is not None) == send(cluster, file, pending=True).sent.total()


@pytest.mark.parametrize("text", ["", "host", "host:0", "host:65536", ":9876", "a:1;b", "a:²"])
def test_no_address(text: str) -> None:
    """What is no address is named."""
    with pytest.raises(UsageError, match="is not an address with a port"):
        addresses(text)


def test_queues() -> None:
    """Messages of a queue go to one queue, all queues are used, and what is planned is done."""
    masters = (Master("a", ("h", 1), 4), Master("b", ("h", 2), 2), Master("c", ("h", 3), 4))
    routes = {"t": Route("t", masters)}
    messages = [
        Outgoing(
            number, number, "t", "t", queue_id, 0, None, "", b"x", is_held=False, is_system=False
        )
        for number, queue_id in enumerate([*range(14), *range(14), *[None] * 13, -1])
    ]
    turns = Turns(routes)
    chosen = [turns.queue_of(message) for message in messages]
    assert chosen[:14] == chosen[14:28]
    assert all(queue.queue_id < queue.broker.queues for queue in chosen)
    assert [0, 1, 2, 3] == [queue.queue_id for queue in chosen[:4]]
    assert ["a", "b", "a", "c"] == [queue.broker.name for queue in chosen[:4]]
    assert 10 == len(set(chosen[28:41]))
    content = SendContent(
        messages=Counter((message.topic, message.queue_id) for message in messages)
    )
    assert Counter(("t", queue) for queue in chosen) == content.by_queue(routes)


def test_json_of_old_releases() -> None:
    """Numbers as names are read, in texts they stay; hostile answers take time in proportion."""
    assert {"a": {"0": "x,1:y", "-2": '\\"{3:'}} == json_of(rb'{"a":{0:"x,1:y", -2 :"\\\"{3:"}}')
    for raw in (b"1", b'"', b'\\"', b"-1", b"1 ", b"{0:"):
        began = time.process_time()
        assert json_of(raw * (1 << 16)) is None, raw
        assert time.process_time() - began < 3, raw
