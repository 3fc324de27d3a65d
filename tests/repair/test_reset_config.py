"""Lost configuration: neutral files, topics of the log, delay offsets as real brokers had them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.store.config_files import NEEDED, NEEDED_BY_5
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.check.validation import run
from tests.stores import fixture_store

FILES: Final = (*NEEDED, *NEEDED_BY_5)
BROKERS_OWN: Final = ("rocketmq-5.3.3-traffic", "rocketmq-5.5.0-traffic")


def tear(store: Path) -> None:
    """Leave no configuration file that can be parsed, backups included."""
    for name in FILES:
        for path in (store / "config" / name, store / "config" / f"{name}.bak"):
            path.write_bytes(b'{"torn')


def document(store: Path, name: str) -> dict[str, Any]:
    """Give what a broker would load."""
    document = open_store(store).config(name)
    assert document
    return document.document


@pytest.mark.parametrize("name", BROKERS_OWN)
def test_all_torn(name: str, tmp_path: Path) -> None:
    """Every file can be loaded; delivery of delayed messages goes on where the broker had been."""
    store = fixture_store(name, tmp_path)
    before = {file: open_store(store).config(file).document for file in NEEDED}
    tear(store)
    assert repair.plan(store).left
    plan = repair.plan(store, reset_config=True)
    assert [] == plan.left
    repair.apply(plan, in_place=True)
    assert [] == [finding for finding in run(store)[0] if finding.severity is not Severity.NOTE]
    offsets = document(store, "delayOffset.json")["offsetTable"]
    assert before["delayOffset.json"]["offsetTable"] == offsets
    topics = document(store, "topics.json")["topicConfigTable"]
    for topic in ("traffic-orders", "traffic-transaction"):
        assert (
            before["topics.json"]["topicConfigTable"][topic].items()
            >= {
                "readQueueNums": topics[topic]["readQueueNums"],
                "perm": 6,
            }.items()
        )
    assert {} == document(store, "consumerOffset.json")["offsetTable"]
    assert [] == repair.plan(store, reset_config=True).edits


def test_topic_and_queues_missing(tmp_path: Path) -> None:
    """A topic that a valid file lacks comes back, and one with too few queues gets them."""
    store = fixture_store(BROKERS_OWN[0], tmp_path)
    path = store / "config/topics.json"
    table = document(store, "topics.json")["topicConfigTable"]
    count = table["traffic-orders"]["readQueueNums"]
    kept = {topic: entry for topic, entry in table.items() if topic != "traffic-transaction"}
    kept["traffic-orders"] = {**kept["traffic-orders"], "readQueueNums": 1, "writeQueueNums": 1}
    path.write_text(json.dumps({"dataVersion": {"counter": 1}, "topicConfigTable": kept}))
    repair.apply(repair.plan(store, reset_config=True), in_place=True)
    after = document(store, "topics.json")["topicConfigTable"]
    assert count == after["traffic-orders"]["readQueueNums"]
    assert table.keys() == after.keys()
    others = table.keys() - {"traffic-orders", "traffic-transaction"}
    assert {topic: table[topic] for topic in others} == {topic: after[topic] for topic in others}


@pytest.mark.parametrize("number", [1, 0])
def test_queue_lost_with_topics(number: int, tmp_path: Path) -> None:
    """A topic gets a queue back that its messages are dispatched to, or nobody would read it."""
    store = fixture_store("rocketmq-4.9.3-ext", tmp_path)
    before = document(store, "topics.json")["topicConfigTable"]["ext-orders"]
    shutil.rmtree(store / f"consumequeue/ext-orders/{number}")
    for path in store.glob("config/topics.json*"):
        path.write_text("<nil>")
    repair.apply(repair.plan(store), in_place=True)
    after = document(store, "topics.json")["topicConfigTable"]["ext-orders"]
    assert (before["readQueueNums"], 2) == (2, after["readQueueNums"])
    assert [] == [finding for finding in run(store)[0] if finding.severity is not Severity.NOTE]


def test_offset_ahead(tmp_path: Path) -> None:
    """Consumer offsets past the end of their queue are set to it."""
    store = fixture_store(BROKERS_OWN[0], tmp_path)
    path = store / "config/consumerOffset.json"
    path.write_text('{"offsetTable":{"traffic-orders@late":{0:99999}}}')
    repair.apply(repair.plan(store, reset_config=True), in_place=True)
    offset = document(store, "consumerOffset.json")["offsetTable"]["traffic-orders@late"]["0"]
    assert 0 < offset < 99_999


@pytest.mark.parametrize("is_torn", [False, True], ids=["sound", "first-file-lost"])
def test_offset_below(tmp_path: Path, *, is_torn: bool) -> None:
    """Offsets below their queue are set to its first message, also if its units come back first."""
    store = fixture_store("rocketmq-5.3.3-expired", tmp_path)
    first = min(
        record.integer("queue_offset")
        for record in plain_store.records(store)
        if (record.topic, record.integer("queue_id")) == ("expired-orders", 0)
    )
    path = store / "config/consumerOffset.json"
    path.write_text('{"offsetTable":{"expired-orders@slow":{0:1}}}')
    if is_torn:
        min((store / "consumequeue/expired-orders/0").iterdir()).unlink()
    repair.apply(repair.plan(store, clamp_offsets=True), in_place=True)
    assert {"0": first} == document(store, path.name)["offsetTable"]["expired-orders@slow"]
    assert [] == repair.plan(store, clamp_offsets=True).edits


@pytest.mark.parametrize("name", [*BROKERS_OWN, "rocketmq-5.3.3-redelivered"])
def test_delay_offset_ahead(name: str, tmp_path: Path) -> None:
    """A level goes on at the first message without a delivered copy: none that waits is skipped."""
    store = fixture_store(name, tmp_path)
    before = document(store, "delayOffset.json")["offsetTable"]
    ahead = {level: offset + 1000 for level, offset in before.items()}
    for path in store.glob("config/delayOffset.json*"):
        path.write_text(json.dumps({"offsetTable": ahead}))
    plan = repair.plan(store)
    assert not plan.edits
    assert {"DO-RANGE"} == {left.code for left in plan.left}
    repair.apply(repair.plan(store, clamp_offsets=True), in_place=True)
    assert before == document(store, "delayOffset.json")["offsetTable"]
    assert [] == repair.plan(store, clamp_offsets=True).edits


def test_sound(tmp_path: Path) -> None:
    """Of a sound store nothing is reset."""
    assert [] == repair.plan(fixture_store(BROKERS_OWN[0], tmp_path), reset_config=True).edits
