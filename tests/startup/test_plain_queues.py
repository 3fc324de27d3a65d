"""A start that is told by columns is the start that is told queue by queue."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.startup import predict, start
from rmqtool.startup.load import Loader
from rmqtool.startup.losses import LogReading
from rmqtool.startup.plain_queues import PlainQueues, plain_queues
from rmqtool.startup.queues import ConsumeQueue
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES, NotApplicable
from tests.ledger.test_sound import DAMAGED, SMALL
from tests.stores import fixture_names, fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
RELEASES: Final = ("4.9.3", "5.1.4", "5.3.3", "5.5.1")  # each searches a minimum in its own way


def same(store: Path, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demand the same prediction with plain queues as columns and with each as an object."""
    opened = open_store(str(store))
    by_columns = predict(opened, release, reads=LogReading.ALL)
    with monkeypatch.context() as patch:
        patch.setattr(start, "plain_queues", lambda *_: PlainQueues[ConsumeQueue].none())
        assert predict(opened, release, reads=LogReading.ALL) == by_columns


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What real brokers wrote."""
    if "dledger" in name:
        pytest.skip("its start depends on other nodes")
    same(fixture_store(name, tmp_path), "5.3.3", monkeypatch)


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage of log and queues: queues are cut, written to, begin later or are not loaded."""
    store = fixture_store(TRAFFIC, tmp_path)
    try:
        DAMAGES[damage].inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    release = RELEASES[DAMAGED.index(damage) % len(RELEASES)]
    same(store, release, monkeypatch)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("lost", ["first", "last", "queues", "none"])
def test_many(release: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that expired or are lost, and queues that a start writes."""
    store = tmp_path / "store"
    Builder(store, SMALL).build()
    segments = sorted((store / "commitlog").iterdir())
    if lost in {"first", "last"}:
        segments[0 if lost == "first" else -2].unlink()
    if lost == "queues":
        shutil.rmtree(min((store / "consumequeue").iterdir()))
    same(store, release, monkeypatch)


def test_are_plain(tmp_path: Path) -> None:
    """The queues of a sound store with many are plain, all of them."""
    store = tmp_path / "store"
    Builder(store, Spec(total_bytes=1 << 20, segment_bytes=1 << 20, topics=2, queues=20)).build()
    opened = open_store(str(store))
    length = opened.geometry.consume_queue.value
    plain = plain_queues(opened, Loader(Rules(Version.parse("5.3.3"))), length, frozenset())
    assert len(plain) == len([*store.glob("consumequeue/*/*")])
    assert not any(plain.is_out)
