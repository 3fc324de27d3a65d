"""`extract`, against the plain reader, the offsets that brokers kept, and what clients sent."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.cli.main import main
from rmqtool.errors import UsageError, WriteFailed
from rmqtool.formats import properties
from rmqtool.formats.compression import decompress
from rmqtool.formats.message import Message, encode, sealed
from rmqtool.messages import part
from rmqtool.messages.extract import Extracted, ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.tables import body_groups
from rmqtool.tables.selection import Selection
from tests import inflict
from tests.evidence import Evidence
from tests.store import faults
from tests.stores import fixture_store
from tests.truth.fixture import Fixture
from tests.truth.plain_reader import Record

PLAIN: Final = (
    "rocketmq-4.9.3-traffic", "rocketmq-5.3.3-traffic", "rocketmq-5.5.0-traffic",
    "rocketmq-5.3.3-dledger", "rocketmq-4.9.3-ipv6", "rocketmq-5.5.0-redelivered",
    "rocketmq-5.5.0-timer",
)  # fmt: skip
TRAFFIC: Final = "rocketmq-5.3.3-traffic"
DELAY: Final = "SCHEDULE_TOPIC_XXXX"
HELD: Final = {"RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "TRANS_CHECK_MAX_TIME_TOPIC"}


def fixture_of(name: str, tmp_path: Path) -> Fixture:
    """Unpack one fixture."""
    return Fixture(name, fixture_store(name, tmp_path))


def extract(
    store: Path,
    output: str = "out.jsonl",
    **options: Any,  # noqa: ANN401 - as the options are
) -> tuple[Extracted, bytes]:
    """Extract into a file beside the store; give its bytes, too."""
    path = store.parent / output
    done = ExtractRun(ExtractOptions((str(store),), str(path), **options)).run()
    raw = path.read_bytes()
    path.unlink()
    assert len(raw) == done.bytes
    return done, raw


def lines(raw: bytes) -> list[dict[str, Any]]:
    """Give JSON lines."""
    return [json.loads(line) for line in raw.splitlines()]


def records(raw: bytes) -> list[bytes]:
    """Cut a .rmq file by the lengths of its records."""
    found = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        found.append(raw[:size])
        raw = raw[size:]
    return found


def is_sent(record: Record) -> bool:
    """Say whether a client sent the message to the topic that it lies in."""
    return not record.topic.startswith(("RMQ_SYS_", "rmq_sys_")) and record.topic not in {
        DELAY, "TRANS_CHECK_MAX_TIME_TOPIC",
    }  # fmt: skip


def offsets(fixture: Fixture, name: str) -> dict[str, dict[int, int]]:
    """Give committed or delay offsets as the broker wrote them, by `topic@group`, else by ''.

    fastjson writes numbers as names.
    """
    from rmqtool.formats import config

    document = config.parse_object((fixture.store / "config" / name).read_bytes())["offsetTable"]
    if not all(isinstance(one, dict) for one in document.values()):
        return {"": {int(level): offset for level, offset in document.items()}}
    return {key: {int(one): to for one, to in some.items()} for key, some in document.items()}


def waits(fixture: Fixture) -> list[Record]:
    """Give the delayed messages that the broker has not delivered."""
    delivered = offsets(fixture, "delayOffset.json").get("", {})
    return [
        record
        for record in fixture.records
        if record.topic == DELAY
        and record.fields["queue_offset"] >= delivered.get(record.fields["queue_id"] + 1, 0)
    ]


def is_copy(record: Record, fixture: Fixture) -> bool:
    """Say whether a broker stored a message again for a group, whose first record is there."""
    texts = record.properties
    topic = texts.get("REAL_TOPIC", "") if record.topic == DELAY else record.topic
    first = texts.get("RETRY_TOPIC"), texts.get("UNIQ_KEY")
    return topic.startswith(("%RETRY%", "%DLQ%")) and any(
        (record.topic, record.properties.get("UNIQ_KEY")) == first for record in fixture.records
    )


def is_delivered(record: Record, fixture: Fixture) -> bool:
    """Say whether a delayed message is in its own topic, whatever delayOffset.json says."""
    texts = record.properties
    return any(
        other.physical_offset > record.physical_offset
        and other.topic == texts["REAL_TOPIC"]
        and other.properties.get("UNIQ_KEY") == texts["UNIQ_KEY"]
        for other in fixture.records
    )


@pytest.mark.parametrize("name", PLAIN)
def test_whole_store(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Each message once, with what the plain reader finds in its record, body inflated."""
    fixture = fixture_of(name, tmp_path)
    evidence.keep(fixture.store)
    done, raw = extract(fixture.store)
    waiting = {one.physical_offset for one in waits(fixture) if not is_delivered(one, fixture)}
    all_sent = [one for one in fixture.records if is_sent(one) or one.physical_offset in waiting]
    expected = [one for one in all_sent if not is_copy(one, fixture)]
    assert done.retried_copies == len(all_sent) - len(expected)
    found = lines(raw)
    assert len(expected) == len(found) == done.messages == done.records
    for record, row in zip(expected, found, strict=True):
        texts = record.properties
        is_elsewhere = record.topic == DELAY
        assert row["physical_offset"] == record.physical_offset
        assert row["topic"] == (texts["REAL_TOPIC"] if is_elsewhere else record.topic)
        stored = (record.topic, record.fields["queue_id"], record.fields["queue_offset"])
        assert stored == tuple(
            row[record] for record in ("stored_topic", "stored_queue_id", "stored_queue_offset")
        )
        assert row["queue_offset"] == (None if is_elsewhere else stored[2])
        assert row["queue_id"] == (int(texts["REAL_QID"]) if is_elsewhere else stored[1])
        assert (row["flag"], row["properties"]) == (record.fields["flag"], texts)
        body = decompress(record.body, record.fields["sys_flag"]).body
        assert body == body_of(row)
    kinds = Counter(record.topic for record in fixture.records)
    assert kinds[DELAY] - len(waiting) == done.delivered_copies
    assert sum(kinds[topic] for topic in HELD) == done.held_copies
    assert len(fixture.records) == (
        done.messages
        + done.delivered_copies
        + done.held_copies
        + done.own_records
        + done.retried_copies
    )


def body_of(row: dict[str, Any]) -> bytes:
    """Give the bytes of the body of a line."""
    if row["body_b64"] is not None:
        return base64.b64decode(row["body_b64"])
    return str(row["body"]).encode()


@pytest.mark.parametrize("name", [*PLAIN, "rocketmq-5.5.0-batch-queue"])
def test_raw_records(name: str, tmp_path: Path) -> None:
    """A .rmq file is the records of the log, byte for byte; each begins with its length."""
    fixture = fixture_of(name, tmp_path)
    done, raw = extract(fixture.store, "out.rmq", held=True)
    waiting = {record.physical_offset for record in waits(fixture)}
    expected = [
        record.raw
        for record in fixture.records
        if is_sent(record) or record.topic in HELD or record.physical_offset in waiting
    ]
    assert len(expected) == done.records
    assert expected == records(raw)


def test_held(tmp_path: Path) -> None:
    """Half messages are resolved to the topic that they were sent to."""
    fixture = fixture_of(TRAFFIC, tmp_path)
    halves = [record for record in fixture.records if record.topic == "RMQ_SYS_TRANS_HALF_TOPIC"]
    _, raw = extract(fixture.store, held=True)
    found = [line for line in lines(raw) if line["stored_topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert [(half.physical_offset, half.properties["REAL_TOPIC"]) for half in halves] == [
        (one["physical_offset"], one["topic"]) for one in found
    ]
    assert found


def test_sent_back_by_a_client(tmp_path: Path) -> None:
    """A client that cannot give a message back sends it itself: with a birth of its own, once."""
    texts = {"UNIQ_KEY": "U", "KEYS": "k"}
    first = Message(
        topic_bytes=b"orders", body=b"order", properties_bytes=properties.encode(texts),
        born_timestamp=1000, store_address=b"\x7f\0\0\1", store_port=10911,
    )  # fmt: skip
    origin = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": first.message_id}
    again = first._replace(
        topic_bytes=b"%RETRY%g", properties_bytes=properties.encode(texts | origin),
        born_timestamp=22_000, reconsume_times=1,
    )  # fmt: skip
    other = again._replace(properties_bytes=properties.encode(texts | origin | {"UNIQ_KEY": "V"}))
    raw = b""
    for message in (first, again, other):
        raw += encode(sealed(message._replace(physical_offset=len(raw))))
    log = tmp_path / "store" / "commitlog" / "00000000000000000000"
    log.parent.mkdir(parents=True)
    log.write_bytes(raw)
    done, out = extract(tmp_path / "store")
    assert ["U", "V"] == [row["unique_key"] for row in lines(out)]
    assert 1 == done.retried_copies


def test_popped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a group that pops was given again is written once, whatever the retry topic is called.

    Where the index does not tell, all are written, and it is said how many may be copies.

    Names of groups and topics may have the separators in them; a copy without its first record, or
    with another body, is a message of its own.
    """
    texts = properties.encode({"UNIQ_KEY": "U", "KEYS": "k"})
    first = Message(
        topic_bytes=b"a_b+c", body=b"order", properties_bytes=texts, born_timestamp=1000
    )
    again = first._replace(reconsume_times=1)
    messages = [
        first,
        again._replace(topic_bytes=b"%RETRY%my_group_a_b+c"),
        again._replace(topic_bytes=b"%RETRY%my+group+a_b+c", reconsume_times=2),
        again._replace(topic_bytes=b"%RETRY%my_group_other"),
        again._replace(topic_bytes=b"%RETRY%my_group_a_b+c", body=b"another"),
    ]
    raw = b""
    for message in messages:
        raw += encode(sealed(message._replace(physical_offset=len(raw))))
    log = tmp_path / "store" / "commitlog" / "00000000000000000000"
    log.parent.mkdir(parents=True)
    log.write_bytes(raw)
    done, out = extract(tmp_path / "store")
    topics = [row["stored_topic"] for row in lines(out)]
    assert ["a_b+c", "%RETRY%my_group_other", "%RETRY%my_group_a_b+c"] == topics
    assert (2, 0) == (done.retried_copies, done.unknown_copies)
    monkeypatch.setattr("rmqtool.messages.originals.MOST_SEARCHED", len(raw) - 1)
    done, out = extract(tmp_path / "store")
    assert len(messages) == len(lines(out))
    assert (0, 4) == (done.retried_copies, done.unknown_copies)


@pytest.mark.parametrize("has_index", [True, False])
def test_delayed(has_index: bool, tmp_path: Path) -> None:
    """What a broker has still to deliver is of the topic that it will be delivered to.

    What it has delivered is known by the message in its topic, where no file tells it.
    """
    fixture = fixture_of(TRAFFIC, tmp_path)
    (fixture.store / "config" / "delayOffset.json").unlink()
    (fixture.store / "config" / "delayOffset.json.bak").unlink(missing_ok=True)
    if not has_index:
        shutil.rmtree(fixture.store / "index")
    copies = [one for one in fixture.records if one.topic == DELAY]
    topic = copies[0].properties["REAL_TOPIC"]
    done, raw = extract(fixture.store, selection=Selection(topics=(topic,)))
    expected = [
        one.physical_offset
        for one in fixture.records
        if one.topic == topic
        or (
            one.topic == DELAY
            and one.properties["REAL_TOPIC"] == topic
            and not is_delivered(one, fixture)
        )
    ]
    assert expected == [one["physical_offset"] for one in lines(raw)]
    assert {topic} == {one["topic"] for one in lines(raw)}
    assert 5 == done.delivered_copies


@pytest.mark.parametrize(
    ("name", "group"),
    [
        (TRAFFIC, "traffic-slow"),
        (TRAFFIC, "traffic-reader"),
        (TRAFFIC, "traffic-failing"),
        ("rocketmq-4.9.3-traffic", "traffic-slow"),
        ("rocketmq-5.5.0-traffic", "traffic-failing"),
    ],
)
def test_unconsumed(name: str, group: str, tmp_path: Path) -> None:
    """What lies past the group's offsets, queue by queue, its retries and waiting ones too."""
    fixture = fixture_of(name, tmp_path)
    committed = {
        key.partition("@")[0]: queues
        for key, queues in offsets(fixture, "consumerOffset.json").items()
        if key.partition("@")[2] == group
    }
    topics = {*committed, f"%RETRY%{group}"}
    waiting = {one.physical_offset for one in waits(fixture)}
    expected = [
        record.physical_offset
        for record in fixture.records
        if (
            record.topic in topics
            and record.fields["queue_offset"]
            >= committed.get(record.topic, {}).get(record.fields["queue_id"], 0)
        )
        or (record.physical_offset in waiting and record.properties["REAL_TOPIC"] in topics)
    ]
    _, raw = extract(fixture.store, unconsumed_by=group)
    assert expected == [line["physical_offset"] for line in lines(raw)]
    assert expected or group == "traffic-failing"


def test_unconsumed_in_light_queues(tmp_path: Path) -> None:
    """Records of any topic whose place in a light queue is past the group's offset there."""
    fixture = fixture_of("rocketmq-5.3.3-lmq", tmp_path)
    reader = {"%LMQ%home-1": 30, "%LMQ%home-2": 12}  # as the scenario commits
    expected = []
    for record in fixture.records:
        queues = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        if any(int(o) >= reader[q] for q, o in zip(queues, offsets, strict=True) if q in reader):
            expected.append(record.physical_offset)
    done, raw = extract(fixture.store, unconsumed_by="%LMQ%reader")
    assert expected == [line["physical_offset"] for line in lines(raw)]
    assert expected
    assert {("%RETRY%%LMQ%reader", 0)} >= done.without_offset


def test_unconsumed_in_flight(tmp_path: Path) -> None:
    """Of 12 popped messages of each queue four are acknowledged; the others come again."""
    fixture = fixture_of("rocketmq-5.3.3-rocksdb-pop", tmp_path)
    path = fixture.store / "config" / "consumerOffset.json"
    path.write_text(path.read_text().replace("{0:0,1:0\n", "{0:12,1:12\n"))
    _, raw = extract(
        fixture.store, unconsumed_by="pop_group", selection=Selection(topics=("pop-orders",))
    )
    assert {
        (record.fields["queue_id"], record.fields["queue_offset"]) for record in fixture.records
    } - {(queue_id, offset) for queue_id in range(2) for offset in range(4)} == {
        (line["queue_id"], line["queue_offset"]) for line in lines(raw)
    }


def test_queue_without_offset(tmp_path: Path) -> None:
    """A queue that a group has no offset for counts whole, and is said."""
    fixture = fixture_of(TRAFFIC, tmp_path)
    path = fixture.store / "config" / "consumerOffset.json"
    kept = path.read_text().replace("0:10,1:11,2:12,3:13", "0:10,2:12,3:13")
    path.write_text(kept)
    done, raw = extract(fixture.store, unconsumed_by="traffic-slow")
    queue = [record for record in fixture.records if record.topic == "traffic-orders"]
    whole = [record for record in queue if record.fields["queue_id"] == 1]
    assert len(whole) == sum(line["queue_id"] == 1 for line in lines(raw))
    assert {("traffic-orders", 1)} == done.without_offset


def test_unknown_group(tmp_path: Path) -> None:
    """A group that no offset is known of is an error, with the nearest; a topic makes it one."""
    store = fixture_store(TRAFFIC, tmp_path)
    with pytest.raises(UsageError, match="traffic-slow"):
        extract(store, unconsumed_by="trafic-slow")
    done, _ = extract(
        store, unconsumed_by="trafic-slow", selection=Selection(topics=("traffic-orders",))
    )
    assert 4 == len(done.without_offset)


def test_dead_letters(tmp_path: Path) -> None:
    """What a group gave up."""
    fixture = fixture_of(TRAFFIC, tmp_path)
    (topic,) = {
        record.topic for record in fixture.records if record.topic.startswith("%DLQ%traffic")
    }
    expected = [record.physical_offset for record in fixture.records if record.topic == topic]
    _, raw = extract(fixture.store, dead_letters=topic.removeprefix("%DLQ%"))
    assert expected == [line["physical_offset"] for line in lines(raw)]


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_batch_records(version: str, tmp_path: Path) -> None:
    """Messages in batch records have their own queue offset, keys and body."""
    fixture = fixture_of(f"rocketmq-{version}-batch-queue", tmp_path)
    done, raw = extract(fixture.store)
    found = lines(raw)
    inner = [one for one in found if one["number"] is not None]
    assert done.messages == len(found) > done.records == len(fixture.records)
    for one in inner:
        assert one["queue_offset"] == one["stored_queue_offset"] + one["number"]
    sent = {
        (one["queue_id"], one["queue_offset"], *one["keys"]): base64.b64decode(one["body_b64"])
        for one in fixture.sent
        if one["kind"] == "inner-batch"
    }
    told = {(one["queue_id"], one["queue_offset"], *one["keys"]): body_of(one) for one in inner}
    assert sent
    assert sent == told
    wanted = inner[1]
    _, raw = extract(fixture.store, selection=Selection(key=wanted["keys"][0]))
    assert [wanted] == lines(raw)
    _, raw = extract(fixture.store, "out.rmq", selection=Selection(key=wanted["keys"][0]))
    (record,) = (r for r in fixture.records if r.physical_offset == wanted["physical_offset"])
    assert record.raw == raw


@pytest.mark.parametrize(
    ("chosen", "is_wanted"),
    [
        (Selection(queue_id=2), lambda one: one.fields["queue_id"] == 2),
        (Selection(queue_offsets=(5, 9)), lambda one: 5 <= one.fields["queue_offset"] < 9),
        (
            Selection(properties=(("TAGS", "TagB"),)),
            lambda one: one.properties.get("TAGS") == "TagB",
        ),
        (Selection(tag="TagA"), lambda one: one.properties.get("TAGS") == "TagA"),
        (
            Selection(key="ORDER-8"),
            lambda one: "ORDER-8" in one.properties.get("KEYS", "").split(" "),
        ),
        (Selection(offsets=(9000, 40000)), lambda one: 9000 <= one.physical_offset < 40000),
    ],
    ids=["queue", "queue offsets", "property", "tag", "key", "offsets"],
)
def test_filters(chosen: Selection, is_wanted: Callable[[Record], bool], tmp_path: Path) -> None:
    """Filters choose by the topic and queue that a message was sent to."""
    from dataclasses import replace

    fixture = fixture_of(TRAFFIC, tmp_path)
    topic = "traffic-orders"
    expected = [
        record.physical_offset
        for record in fixture.records
        if record.topic == topic and is_wanted(record)
    ]
    _, raw = extract(fixture.store, selection=replace(chosen, topics=(topic,)))
    assert expected == [line["physical_offset"] for line in lines(raw)]
    assert expected


def test_damage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Damage is said, counted and in the exit code; every other message is there."""
    store = fixture_store(TRAFFIC, tmp_path)
    before, sound = extract(store, "out.rmq")
    inflict.zero_sector()(store)
    output = tmp_path / "out.rmq"
    assert 1 == main(["extract", str(store), "--output", str(output)])
    out, said = capfd.readouterr()
    row = json.loads(out)
    assert 1 == row["gaps"]
    assert "1 damaged stretch of the log" in said
    assert before.messages - 3 <= row["messages"] < before.messages
    kept, whole = records(output.read_bytes()), records(sound)
    changed = [one for one in kept if one not in whole]  # its last properties are zeros now
    lost = before.messages - row["messages"] + len(changed)
    assert 1 <= lost <= 4
    rest = [one for one in kept if one in whole]
    start = next(number for number, one in enumerate(rest) if one != whole[number])
    assert whole[:start] + whole[start + lost :] == rest  # all before and after
    output.unlink()
    inflict.remove_segment(1)(store)
    done, _ = extract(store)
    segment = (store / "commitlog" / "00000000000000000000").stat().st_size
    assert segment <= done.gap_bytes
    assert row["messages"] > done.messages > 0


def test_damaged_body(tmp_path: Path) -> None:
    """A message whose body is not what was sent is written, marked and counted."""
    store = fixture_store(TRAFFIC, tmp_path)
    before, _ = extract(store)
    inflict.flip_field("body")(store)
    done, raw = extract(store)
    assert (before.messages, 1) == (done.messages, done.damaged)
    assert ["CL-CRC"] == [line["code"] for line in lines(raw) if line["code"] is not None]
    assert 1 == extract(store, "out.rmq")[0].damaged


def test_full_disk(tmp_path: Path, evidence: Evidence) -> None:
    """Wherever the disk begins to refuse, or the process dies, there is no half file."""
    store = fixture_store("rocketmq-5.3.3-redelivered", tmp_path)
    evidence.keep(store)
    output = tmp_path / "out" / "messages.jsonl"
    output.parent.mkdir()
    work = ExtractRun(ExtractOptions((str(store),), str(output), jobs=1))
    count = faults.operations(work.run)
    whole = output.read_bytes()
    output.unlink()
    for number in range(count):
        full = faults.Faults(number, faults.no_space, lasting=faults.PERSISTENT)
        try:
            with full.injected(), pytest.raises(WriteFailed):
                work.run()
        finally:
            assert not output.exists()
        assert faults.killed_at(number, work.run)
        assert not output.exists() or output.read_bytes() == whole
        output.unlink(missing_ok=True)
    work.run()
    assert ["messages.jsonl"] == [path.name for path in output.parent.iterdir()]
    assert whole == output.read_bytes()


@pytest.mark.parametrize("jobs", [1, 4])
def test_same_for_any_jobs(jobs: int, tmp_path: Path) -> None:
    """The file does not depend on the number of threads."""
    store = fixture_store(TRAFFIC, tmp_path)
    assert extract(store)[1] == extract(store, jobs=jobs)[1]


@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-5.5.0-batch-queue"])
@pytest.mark.parametrize("budget", [1, 5000, 200_000])
def test_same_for_any_budget(
    name: str, budget: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What threads may hold changes neither the file nor the numbers."""
    store = fixture_store(name, tmp_path)
    inflict.zero_sector()(store)
    whole = extract(store)
    assert 1 == whole[0].gaps
    monkeypatch.setattr(part, "BUDGET_BYTES", budget)
    monkeypatch.setattr(body_groups, "BUDGET_BYTES", budget)
    assert whole == extract(store)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--columns", "nothing"], "no column"),
        (["--columns", "topic", "--format", "rmq"], "no columns"),
        (["--dead-letters", "g", "--topic", "t"], "cannot be combined"),
        (["--dead-letters", "g", "--unconsumed-by", "g"], "cannot be combined"),
        (["--where-property", "x"], "NAME=VALUE"),
        (["--format", "xml"], "xml"),
    ],
)
def test_bad_input(
    options: list[str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What cannot be meant is refused, and nothing is written."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    output = tmp_path / "out"
    assert 2 == main(["extract", str(store), "--output", str(output), *options])
    assert said in capfd.readouterr().err
    assert not output.exists()


def test_what_is_not_asked_for_is_not_loaded(tmp_path: Path) -> None:
    """An extract of all messages waits for nothing that looks into queues or other stores.

    Where no delayed or popped message may be there twice, it does not ask the index either.
    """
    store = fixture_of("rocketmq-5.3.3-lmq", tmp_path).store
    program = (
        "import sys; from rmqtool.cli.main import main; code = main(sys.argv[1:]);"
        "print('loaded', code, *sys.modules, file=sys.stderr)"
    )
    words = ["extract", str(store), "--output", str(tmp_path / "rows.jsonl")]
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    code, *loaded = run.stderr.rpartition("loaded ")[2].split()
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert ("0", set()) == (code, rooms & {"rmqtool.query", "rmqtool.queues", "rmqtool.relog"})
