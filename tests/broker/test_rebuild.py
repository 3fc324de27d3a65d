"""Real brokers agree with what is rebuilt: they start on it, and would have written it."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool import rebuild
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, entry_position
from tests import inflict
from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.broker import SMALL_GEOMETRY, running_broker
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer, PushConsumer
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.plain_store import records
from tests.rebuild.test_identity import FAMILIES, files_of
from tests.stores import broker_conf, fixture_store, manifest, sent
from tests.truth.fixture import Fixture
from tests.truth.sql_filters import EXPRESSIONS

pytestmark = pytest.mark.broker

_QUEUE: Final = itemgetter("topic", "queue_id")
_KINDS: Final = ("normal", "compressed", "batch")
_MOST: Final = 20  # messages with one key, so that retries and the like are in the answer, too
_ALL_FILES: Final = 1000  # of the log, for 5.4 and later: else they dispatch the newest ten only


def deleted(root: Path) -> Path:
    """Delete everything that is derived from the log."""
    for family in FAMILIES:
        shutil.rmtree(root / family, ignore_errors=True)
    return root


def contents(root: Path) -> dict[str, bytes]:
    """Give the bytes of all queue and index files."""
    return {path: file.read_bytes() for path, file in files_of(root, *FAMILIES).items()}


@pytest.mark.parametrize(
    "version", ["4.9.3", pytest.param("5.3.3", marks=pytest.mark.all_variants), "5.5.0"]
)
def test_broker_starts_on_rebuilt(version: str, tmp_path: Path) -> None:
    """A broker accepts rebuilt files as they are, and serves from them as from its own.

    Consumers get every message once and in order, lookups by key and by ID answer, and a new
    message gets the queue offset behind the last one.
    """
    name = f"rocketmq-{version}-traffic"
    root = deleted(fixture_store(name, tmp_path))
    result = rebuild.all(root, in_place=True, broker_conf=str(broker_conf(name)))
    before = contents(root)
    following = {(queue.topic, queue.queue_id): queue.next_queue_offset for queue in result.queues}
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    lines = sorted((line for line in sent(name) if line["kind"] in _KINDS), key=_QUEUE)
    with running_broker(version, tmp_path, settings) as broker:
        broker.wait_dispatched()
        started = contents(root)
        own = {path for path in started if started[path] != before.get(path)}
        # What a broker sends itself at start is appended: nothing that was there is changed.
        assert before.keys() <= started.keys()
        for path in sorted(own & before.keys()):
            assert is_appended(path, before[path], started[path]), path
        with PullConsumer(broker, "rebuilt") as consumer, Admin(broker) as admin:
            for (topic, queue_id), expected in groupby(lines, _QUEUE):
                received = [*consumer.read(topic, queue_id)]
                offsets = [message.queue_offset for message in received]
                assert [*range(following[topic, queue_id])] == offsets
                bodies = {message.queue_offset: message.body for message in received}
                for line in expected:
                    assert line["body"] == bodies[line["queue_offset"]]
            often = Counter(key for line in sent(name) for key in line["keys"])
            for line in [line for line in lines if line["keys"]][::40]:
                assert_found(admin, line, [key for key in line["keys"] if often[key] < _MOST])
            line = lines[-1]
            with Producer(broker, "rebuilt-producer") as producer:
                new = producer.send(
                    Outgoing(line["topic"], b"new", keys=("NEW",)), line["queue_id"]
                )
            assert following[_QUEUE(line)] == new.queue_offset
        broker.crash()


def test_filters_on_rebuilt(tmp_path: Path) -> None:
    """Consumers with SQL92 subscriptions get from rebuilt ext units what they asked for."""
    name = "rocketmq-5.3.3-ext"
    root = fixture_store(name, tmp_path)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "consumequeue_ext")
    for path in (root / "config").glob("consumerOffset.json*"):
        path.unlink()  # so that they begin with the first message
    rebuild.consume_queues(root, in_place=True, ext=True, broker_conf=str(broker_conf(name)))
    lines = [line for line in sent(name) if line["topic"] == "ext-orders"]
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    groups = {one.group: one.expression for one in Fixture(name, root).filters}
    with running_broker("5.3.3", tmp_path, settings) as broker, ExitStack() as clients:
        consumers = {
            group: clients.enter_context(
                PushConsumer(broker, group, "ext-orders", expression=expression or "", sql=True)
            )
            for group, expression in groups.items()
        }
        for group, consumer in consumers.items():
            fits = EXPRESSIONS[groups[group] or ""]
            expected = {line["physical_offset"] for line in lines if fits(line["properties"])}
            received = consumer.wait(len(expected))
            assert sorted(expected) == sorted(one.physical_offset for one in received)
        clients.close()
        broker.crash()


def is_appended(path: str, old: bytes, new: bytes) -> bool:
    """Tell whether everything is still there, and what is new lies behind it."""
    if path.startswith("index/"):
        return entries(old) == entries(new)[: len(entries(old))]
    used = len(old.rstrip(b"\0"))
    return (old[:used], len(old)) == (new[:used], len(new))


def assert_found(admin: Admin, line: dict[str, Any], keys: list[str]) -> None:
    """Assert that a message is found by ID and by keys."""
    assert line["queue_offset"] == admin.view(line["topic"], line["physical_offset"]).queue_offset
    for key in keys:
        found = [message.physical_offset for message in admin.query(line["topic"], key)]
        assert line["physical_offset"] in found


@pytest.mark.parametrize("scenario", ["traffic", "crash"])
@pytest.mark.parametrize("version", VERSIONS)
def test_broker_leaves_rebuilt(version: str, scenario: str, tmp_path: Path) -> None:
    """Recovery and dispatch alone change no byte of rebuilt files.

    After a crash a broker dispatches the newest segments again. Then it indexes the last record
    once more, in its own files, too: IndexService#buildIndex passes over smaller offsets only.
    """
    name = f"rocketmq-{version}-{scenario}"
    root = deleted(fixture_store(name, tmp_path))
    result = rebuild.all(root, in_place=True, broker_conf=str(broker_conf(name)))
    before = contents(root)
    with Jvm(version, tmp_path) as jvm:
        settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
        store = BareStore(jvm, root, settings)
        assert store.load()
        store.start()
        after = contents(root)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if scenario == "crash":
        for path in sorted(changed):
            added = entries(after[path])[len(entries(before[path])) :]
            assert entries(after[path]) == entries(before[path]) + added
            assert {result.last_physical_offset} == {entry["physical_offset"] for entry in added}
    else:
        assert set() == changed


def entries(raw: bytes) -> list[dict[str, int]]:
    """Give the entries in use of an index file with small geometry."""
    count = INDEX_HEADER.parse(raw)["index_count"]
    slots = int(str(SMALL_GEOMETRY["maxHashSlotNum"]))
    places = (entry_position(slots, number) for number in range(1, count))
    return [INDEX_ENTRY.parse(raw[at : at + INDEX_ENTRY.size]) for at in places]


@pytest.mark.parametrize("version", VERSIONS)
def test_expired_as_broker(version: str, tmp_path: Path) -> None:
    """Of a log whose first segments have expired, queues and index are what a broker rebuilds."""
    name = f"rocketmq-{version}-expired"
    root = deleted(fixture_store(name, tmp_path))
    rebuild.all(root, tmp_path / "new", broker_conf=str(broker_conf(name)))
    expected, found = by_broker(version, name, root, tmp_path), contents(tmp_path / "new")
    assert_same(expected, found)


@pytest.mark.parametrize("version", VERSIONS)
def test_like_broker(version: str, tmp_path: Path) -> None:
    """`like_broker` puts units where a broker does that meets holes and wrong numbers."""
    name = f"rocketmq-{version}-crash"
    root = deleted(fixture_store(name, tmp_path))
    found = records(root)
    busy = [record for record in found if record.integer("queue_offset") > 3]
    for record, number in ((busy[5], 2), (busy[20], 0), (busy[40], 900)):
        position = record.position + record.places()["queue_offset"][0]
        inflict.write_at(record.path, position, number.to_bytes(8, "big"))
    rebuild.consume_queues(
        root, tmp_path / "new", like_broker=True, broker_conf=str(broker_conf(name))
    )
    expected = by_broker(version, name, root, tmp_path)
    queues = {path: raw for path, raw in expected.items() if path.startswith("consumequeue/")}
    assert_same(queues, contents(tmp_path / "new"))


def by_broker(version: str, name: str, root: Path, home: Path) -> dict[str, bytes]:
    """Let a broker rebuild a store without queues and index; give the bytes of what it wrote."""
    (root / "checkpoint").unlink()
    (root / "abort").unlink(missing_ok=True)
    settings = {
        **manifest(name)["settings"],
        "commitLogRecoverMaxNum": _ALL_FILES,
        "fileReservedTime": YEARS_IN_HOURS,
    }
    with Jvm(version, home) as jvm:
        store = BareStore(jvm, root, settings)
        assert store.load()
        store.start()
        return contents(root)


def assert_same(expected: dict[str, bytes], found: dict[str, bytes]) -> None:
    """Assert that files are the same; index files are named by the clock, so by their order."""
    queues = {path for path in expected if not path.startswith("index/")}
    assert queues == {path for path in found if not path.startswith("index/")}
    for path in sorted(queues):
        assert expected[path] == found[path], path
    assert [raw for path, raw in sorted(expected.items()) if path not in queues] == [
        raw for path, raw in sorted(found.items()) if path not in queues
    ]
