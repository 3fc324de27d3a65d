"""A broker agrees: what it answers to searches by time, ID and key is what lookups say."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.query import Boundary, ById, ByKey, ByOffset, ByTime, Lookup
from rmqtool.query.queue_times import BrokerSearch
from rmqtool.queues.files import PlainUnits
from rmqtool.store.tree import open_store
from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.jvm import Jvm
from tests.broker.message import properties_of
from tests.query.expected import offsets
from tests.stores import broker_conf, fixture_names, fixture_store, manifest, sent

TIMES = 200
SOME_QUEUES = 6
SOME_MESSAGES = 60
MOST = 64  # maxMsgsNumBatch: what a broker answers to one query

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("scenario", ["traffic", "expired"])
@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
def test_search_offset(version: str, scenario: str, tmp_path: Path) -> None:
    """`--like-broker` is the broker's own answer, at random times and at the edges of a queue."""
    name = fixture_names(version, scenario)[0]
    root = fixture_store(name, tmp_path)
    theirs = tmp_path / "theirs"
    shutil.copytree(root, theirs)
    with (
        Jvm(version, tmp_path / "home") as jvm,
        Lookup(open_store(root, broker_conf(name))) as lookup,
    ):
        store = BareStore(jvm, theirs, _settings(name))
        assert store.load()
        store.start()
        queues = [queue for queue in lookup.queues.files.queues() if queue.files]
        try:
            for files in queues[:: max(len(queues) // SOME_QUEUES, 1)]:
                queue = lookup.queue(files.topic, files.queue_id)
                assert queue is not None
                assert isinstance(queue.units, PlainUnits)
                search = BrokerSearch(lookup.log, queue.units, Rules(Version.parse(version)))
                for time in _times(lookup, files.topic, files.queue_id):
                    for boundary in Boundary if jvm.is_five else [Boundary.LOWER]:
                        said = _ask(jvm, store, files.topic, files.queue_id, time, boundary)
                        ours = search.find(time, boundary)
                        assert said == ours, (files.path, time, boundary)
        finally:
            store.stop()


def _settings(name: str) -> dict[str, object]:
    return {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}


def _times(lookup: Lookup, topic: str, queue_id: int) -> list[int]:
    """Give random times around those of a queue, and the exact ones at its edges."""
    queue = lookup.queue(topic, queue_id)
    stored = [
        record.store_timestamp
        for offset in range(queue.span.min_offset if queue else 0,
                            queue.span.max_offset if queue else 0)
        if queue and (place := queue.units.find(offset)) and place.unit
        and (record := lookup.log.reader.head_at(place.unit.physical_offset))
    ]  # fmt: skip
    if not stored:
        return [0, 1]
    chance = np.random.default_rng(len(topic) + queue_id)
    low, high = min(stored), max(stored)
    edges = {0, low - 1, low, low + 1, high - 1, high, high + 1, 2**53}
    half = TIMES // 2
    around = chance.choice(stored, half) + chance.integers(-1, 2, half)
    between = chance.integers(low, high, half, endpoint=True)
    return sorted(edges | {*around.tolist()} | {*between.tolist()})


def _ask(
    jvm: Jvm, store: BareStore, topic: str, queue_id: int, time: int, boundary: Boundary
) -> int:
    if not jvm.is_five:
        return int(store.store.getOffsetInQueueByTime(topic, queue_id, time))
    types = jvm.rocketmq("common.BoundaryType")
    kind = types.LOWER if boundary is Boundary.LOWER else types.UPPER
    return int(store.store.getOffsetInQueueByTime(topic, queue_id, time, kind))


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
def test_records(version: str, tmp_path: Path) -> None:
    """The store of a broker gives the same records by offset and by key, none more, none less."""
    name = fixture_names(version, "traffic")[0]
    root = fixture_store(name, tmp_path)
    theirs = tmp_path / "theirs"
    shutil.copytree(root, theirs)
    with (
        Jvm(version, tmp_path / "home") as jvm,
        Lookup(open_store(root, broker_conf(name))) as lookup,
    ):
        store = BareStore(jvm, theirs, _settings(name))
        assert store.load()
        store.start()
        try:
            lines = list(sent(name))
            for line in lines[:: len(lines) // SOME_MESSAGES]:
                _compare(jvm, store, lookup, line["physical_offset"])
        finally:
            store.stop()


def _compare(jvm: Jvm, store: BareStore, lookup: Lookup, physical_offset: int) -> None:
    record = lookup.find(ByOffset(physical_offset)).hits[0].record
    theirs = store.store.lookMessageByOffset(physical_offset)
    assert physical_offset == theirs.getCommitLogOffset()
    assert record.message.message_id == theirs.getMsgId()
    assert record.message.properties == properties_of(jvm, theirs)
    topic = record.message.topic
    assert [physical_offset] == offsets(lookup.find(ById(record.message.message_id)))
    for key in {record.message.unique_key or "", *record.message.keys} - {""}:
        result = store.store.queryMessage(topic, key, MOST, 0, 2**62)
        decoder = jvm.rocketmq("common.message.MessageDecoder")
        known = [decoder.decode(buffer) for buffer in result.getMessageBufferList()]
        result.release()
        keyed = [
            int(one.getCommitLogOffset())
            for one in known
            if str(one.getTopic()) == topic
            and (key in str(one.getKeys() or "").split(" ") or key == _unique_key(one))
        ]
        ours = offsets(lookup.find(ByKey(key, (topic,))))
        if len(known) < MOST:
            assert sorted(set(keyed)) == ours
        else:  # a broker gives the newest ones only
            assert sorted(set(keyed)) == ours[-len(set(keyed)) :]


def _unique_key(message: object) -> str:
    return str(message.getProperty("UNIQ_KEY"))  # type: ignore[attr-defined]


def test_difference_is_said(tmp_path: Path) -> None:
    """Where a broker's answer is another than the true one, the row says why."""
    name = fixture_names("4.9.3", "expired")[0]
    root = fixture_store(name, tmp_path)
    with Lookup(open_store(root, broker_conf(name))) as lookup:
        queue = next(
            queue for queue in lookup.queues.files.queues() if queue.topic == "expired-orders"
        )
        answer = lookup.find(
            ByTime(2**53, queue.topic, queue.queue_id, like_broker=Version(4, 9, 3))
        )
        assert answer.rows is not None
        assert answer.rows[0]["queue_offset"] != answer.rows[0]["like_broker"]
        assert "modification time" in str(answer.rows[0]["difference"])
