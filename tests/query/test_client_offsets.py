"""Broadcast clients: `offsets.json` is read as the client does, and held against a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool.errors import DecodeError, UsageError
from rmqtool.formats.config import parse_object
from rmqtool.formats.config_shapes import client_offsets
from rmqtool.query.groups import ConsumerGroup
from rmqtool.query.lookup import Lookup
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store
from tests.broker.jvm import Jvm
from tests.stores import fixture_store

QUEUE: Final = '{{\n"brokerName":"{}",\n"queueId":{},\n"topic":"traffic-orders"\n}}:{}'
COMMITTED: Final = {0: 5, 1: 280, 2: 600}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write the file of a client."""
    path = tmp_path / ".rocketmq_offsets" / "192.168.1.4@17#1" / "news-readers" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_text(_text("broker-a", COMMITTED))
    return path


def _text(broker: str, committed: dict[int, int]) -> str:
    entries = ",".join(QUEUE.format(broker, *item) for item in committed.items())
    return f'{{"offsetTable":{{{entries}}}}}'


def _lags(store: Path, path: Path, conf: Path | None = None) -> list[tuple[object, ...]]:
    with Lookup(open_store(store, conf and str(conf))) as lookup:
        group = ConsumerGroup(lookup, str(path))
        group.require()
        wanted = ("group", "queue_id", "committed_offset", "lag", "state")
        return [tuple(row.get(name) for name in wanted) for row in group.rows()]


def test_against_a_store(path: Path, tmp_path: Path) -> None:
    """Offsets are held against the queues; the group is what the directory is named by."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    assert open_store(path).asked.kind is ArtefactKind.CONFIG
    expected = [
        ("news-readers", 0, 5, 275, "lag"),
        ("news-readers", 1, 280, 0, "consumed"),
        ("news-readers", 2, 600, 0, "ahead"),
        ("news-readers", 3, None, None, "no offset"),
    ]
    assert expected == _lags(store, path)
    backup = path.with_name("offsets.json.bak")
    for torn in (b"", b'{\n\t"offs'):  # the client takes the copy
        backup.write_text(_text("broker-a", COMMITTED))
        path.write_bytes(torn)
        assert expected == _lags(store, path)
        backup.unlink()
        with pytest.raises(DecodeError, match="json"):
            _lags(store, path)


def test_brokers(path: Path, tmp_path: Path) -> None:
    """A client of two brokers has offsets of both: a configuration tells which one is meant."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    other = QUEUE.format("broker-b", 0, 7)
    path.write_text(_text("broker-a", COMMITTED)[:-2] + f",{other}}}}}")
    with pytest.raises(UsageError, match="broker-a, broker-b"):
        _lags(store, path)
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-b\n")
    assert ("news-readers", 0, 7, 273, "lag") == _lags(store, path, conf)[0]


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])  # fastjson and fastjson2
def test_written_by_a_client(version: str, tmp_path: Path) -> None:
    """What the client's own class writes is read, whatever is in a topic."""
    with Jvm(version, tmp_path) as jvm:
        written = jvm.rocketmq("client.consumer.store.OffsetSerializeWrapper")()
        number = jvm.java("java.util.concurrent.atomic.AtomicLong")
        for queue, topic in enumerate(("news", 'a"{b}:1,', "主题")):
            key = jvm.rocketmq("common.message.MessageQueue")(topic, "broker-a", queue)
            written.getOffsetTable().put(key, number((1 << 40) + queue))
        raw = str(written.toJson(True)).encode()
    assert [
        ("broker-a", "news", 0, 1 << 40),
        ("broker-a", 'a"{b}:1,', 1, (1 << 40) + 1),
        ("broker-a", "主题", 2, (1 << 40) + 2),
    ] == sorted(client_offsets(parse_object(raw)), key=lambda one: one.queue_id)
